//! Bursts of events, quiet times between them, and how much of them a state is there.
//!
//! Events of a burst follow each other at once. After the last one the validator runs for half a day, in
//! which it writes archives, one of which stands for all, and the service has the time that it needs,
//! however long that takes on this machine. A clock of its own counts that time:
//!
//! | a state is there | counts as time without one |
//! |---|---|
//! | all the time | none |
//! | at the end, but not at the beginning, or not after the validator's archive: with it, a validator removes the state that it has started from | as many jobs as the service needed, each of [`JOB_MINUTES`] |
//! | not at the end | the whole quiet time |
//!
//! Not counted are the first quiet time after a start of the service by hand or after the disk was too
//! full, because the service has yet to make a state, and quiet times without the service or on a disk
//! on which less than `min-free` is free: there, no state may lie ready.

use std::{fmt, fs};

use unsnap_test_support::ledger::Ledger;

use crate::driver::Soak;

/// Chance in percent that an event is the last one of its burst.
pub const LAST_OF_BURST: u64 = 25;

/// The time that the validator runs after a burst. Every second event or so ends the validator: that
/// makes four such ends a day, far more than any real one has. A guess.
const QUIET_MINUTES: u64 = 12 * 60;

/// The time of a job: the longest of the projection in ARCHITECTURE.md for 500 GB, 385 s, rounded up.
const JOB_MINUTES: u64 = 7;

/// Least part of the time, in percent, in which a state must be there.
const READY_PERCENT: u64 = 95;

/// Quiet times below which nothing is judged: a single one without a state at its end would be too many.
const QUIET_TIMES_MIN: u64 = 20;

/// Chance in percent that an operator who has stopped the service starts it in a quiet time.
const STARTED_AGAIN: u64 = 50;

/// The quiet times so far.
#[derive(Clone, Debug, Default)]
pub struct Quiet {
    /// Whether the service has had one to itself since it was started and the disk had room.
    is_warm: bool,
    /// Those that count.
    times: u64,
    /// Those of them in which the service had to make the state first.
    made_first: u64,
    /// What the service said at the end of those that ended without.
    without: Vec<String>,
    unready_minutes: u64,
}

impl Quiet {
    /// The service has yet to make a state.
    pub fn begin_anew(&mut self) {
        self.is_warm = false;
    }

    fn minutes(&self) -> u64 {
        self.times * QUIET_MINUTES
    }
}

impl fmt::Display for Quiet {
    #[expect(clippy::cast_precision_loss, reason = "a percentage for a reader")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { times, made_first, without, unready_minutes, .. } = self;
        let percent = 100.0 - 100.0 * *unready_minutes as f64 / self.minutes().max(1) as f64;
        write!(
            f,
            "a state for {percent:.2} % of {times} quiet times: {made_first} of them began without, \
             {} ended without{}",
            without.len(),
            if *times < QUIET_TIMES_MIN { " (too few to be judged)" } else { "" },
        )
    }
}

/// Returns whether a place has a state with a mark and all its storages; of those that the validator has
/// removed there may be the second name.
fn has_state(ledger: &Ledger) -> bool {
    let entries = fs::read_dir(ledger.states()).into_iter().flatten();
    // Others may be renaming and removing them.
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut slots = names.filter_map(|name| name.parse().ok());
    slots.any(|slot| ledger.mark(slot).exists() && has_storages(ledger, slot).unwrap_or(false))
}

/// Reads the list of form 3: a number, then slot and id of each storage.
fn has_storages(ledger: &Ledger, slot: u64) -> Option<bool> {
    let list = fs::read(ledger.state(slot).join("storages_list")).ok()?;
    let (entries, _) = list.get(8..)?.as_chunks::<12>();
    let is_there = |entry: &[u8; 12]| {
        let slot = u64::from_le_bytes(entry[..8].try_into().unwrap());
        let id = u32::from_le_bytes(entry[8..].try_into().unwrap());
        let in_any = |directory: &str| {
            let mut paths = ledger.accounts.iter().map(|path| path.join(directory));
            paths.any(|path| path.join(format!("{slot}.{id}")).exists())
        };
        in_any("run") || in_any("unsnap-shadow")
    };
    Some(entries.iter().all(is_there))
}

impl Soak {
    /// Returns whether a state is there, in place or ready.
    fn has_state(&self) -> bool {
        let ledger = &self.machine.ledger;
        has_state(ledger) || has_state(&ledger.beside())
    }

    /// Lets half a day pass.
    pub fn be_quiet(&mut self) {
        self.machine.let_an_hour_pass();
        if self.service.is_none() && self.random.chance(STARTED_AGAIN) {
            self.tell("started again");
            self.start_service();
        }
        let has_room = !self.is_full && !self.is_short_by(0);
        let Some(service) = self.service.as_ref().filter(|_| has_room) else {
            return self.quiet.begin_anew();
        };
        let before = service.jobs_ended();
        let had = self.has_state();
        self.snapshot("incremental");
        let kept = had && self.has_state();
        self.settle();
        let has = self.has_state();
        let service = self.service.as_ref().unwrap();
        // It counts anew after a change of its configuration, which may be in force only now.
        let jobs = service.jobs_ended();
        let jobs = jobs.checked_sub(before).unwrap_or(jobs);
        let said = (!has).then(|| service.said());
        self.tell(&format!("quiet: {had}, {kept}, {has}; {jobs} jobs"));
        let minutes = match (kept, has) {
            (true, true) => 0,
            (false, true) => (jobs.max(1) * JOB_MINUTES).min(QUIET_MINUTES),
            (_, false) => QUIET_MINUTES,
        };
        let quiet = &mut self.quiet;
        if quiet.is_warm {
            quiet.times += 1;
            quiet.made_first += u64::from(!kept && has);
            quiet.without.extend(said);
            quiet.unready_minutes += minutes;
        }
        quiet.is_warm = true;
    }

    /// A state was there almost all the time.
    pub fn assert_ready(&self) {
        let Quiet { times, unready_minutes, without, .. } = &self.quiet;
        let is_ready = unready_minutes * 100 <= self.quiet.minutes() * (100 - READY_PERCENT);
        let law = format!("{}: {without:#?}", self.quiet);
        self.hold(is_ready || *times < QUIET_TIMES_MIN, &law);
    }
}
