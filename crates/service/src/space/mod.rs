//! The housekeeper: a thread that gives space back to running validators and prunes what nobody
//! needs any more.
//!
//! It looks at every scan, whether jobs run or not, so a shortage lasts no longer than `rescan`
//! before something is done about it. A running job ends by itself as soon as less than `min-free`
//! is free; see the crate `fit`. The thread is not the supervisor's because a look may take seconds,
//! and for ever on a file system that hangs.

mod decide;

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant, UNIX_EPOCH},
};

use unsnap_fastboot::{
    FastbootError, Places, Returnable, SearchDirs, SystemSpace, Unfinished, give_back_ready,
    give_back_shadow, kept, measure, prune_bad_archives, prune_leftovers, prune_shadows,
    returnable,
};
use unsnap_ring::Syscalls;
use unsnap_settings::{Reserve, format_duration, format_size};

use decide::{GiveBack, Look, decide};

use crate::archives::Now;

/// Interval between two counts of what is kept on the disks, each of which looks at every file of the
/// shadow and of the ready state: 430,000 each on mainnet. A guess.
const COUNT_EVERY: Duration = Duration::from_mins(10);

/// An order to look once.
#[derive(Clone, Debug)]
pub struct Round {
    /// Fastboot targets.
    pub targets: Vec<RoundTarget>,
    /// Directories with bad archives.
    pub archives: SearchDirs,
    /// Age at which bad archives are removed; `None` for never.
    pub bad_archives_age_max: Option<Duration>,
    /// Space that is to stay free.
    pub min_free: Reserve,
    /// The time.
    pub now: Now,
}

/// A fastboot target to look at.
#[derive(Clone, Debug)]
pub struct RoundTarget {
    /// Id of its worker.
    pub worker: u64,
    /// Name.
    pub name: String,
    /// The validator's directories.
    pub places: Places,
    /// Whether a job runs, which removes leftovers itself.
    pub is_busy: bool,
    /// Slot of the ready state.
    pub ready: Option<u64>,
}

/// What was done for a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Id of its worker.
    pub worker: u64,
    /// What it keeps on each device; `None` if that was not counted.
    pub kept: Option<BTreeMap<u64, Returnable>>,
    /// Whether its shadow was removed, for space or because its state is gone.
    pub shadow_removed: bool,
    /// Whether its ready state was discarded for space.
    pub ready_discarded: bool,
    /// The figures, in words, if less is free than is to stay free, so that removals must not take
    /// their time.
    pub short: Option<String>,
    /// Directories to remove.
    pub moved: Vec<PathBuf>,
}

/// The thread. It ends after its round when this is dropped, and is not waited for: a file system
/// that hangs must not keep the service from stopping. A round that ends with the process leaves
/// nothing that the next one does not find.
#[derive(Debug)]
pub struct Housekeeper {
    rounds: SyncSender<Round>,
    busy_since: Arc<Mutex<Option<Instant>>>,
}

impl Housekeeper {
    /// Starts the thread. It calls `report` with what was done for each target of a round.
    pub fn start(report: impl Fn(Vec<Done>) + Send + 'static) -> io::Result<Self> {
        let (rounds, received) = sync_channel(1);
        let busy_since = Arc::<Mutex<Option<Instant>>>::default();
        let busy = Arc::clone(&busy_since);
        let thread = thread::Builder::new().name("unpackd-space".to_owned());
        thread.spawn(move || work(&received, &busy, report))?;
        Ok(Self { rounds, busy_since })
    }

    /// Orders a round, unless one is waiting. Does not block.
    pub fn order(&self, round: Round) {
        let _ = self.rounds.try_send(round);
    }

    /// Returns the time at which the running round began; `None` if the thread is idle.
    pub fn busy_since(&self) -> Option<Instant> {
        *lock(&self.busy_since)
    }
}

/// Decides what becomes of the files of an interrupted job, which takes space and serves nobody yet.
/// It is the first to go.
fn unfinished(calls: &Syscalls, places: &Places, round: &Round) -> Unfinished {
    let is_short = measure(calls, places, round.min_free)
        .is_ok_and(|systems| systems.iter().any(|system| system.min_free.is_broken()));
    if is_short {
        Unfinished::Goes
    } else {
        Unfinished::StaysAt(UNIX_EPOCH + Duration::from_millis(round.now.unix_ms()))
    }
}

fn lock(busy: &Mutex<Option<Instant>>) -> MutexGuard<'_, Option<Instant>> {
    busy.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(rounds: &Receiver<Round>, busy: &Mutex<Option<Instant>>, report: impl Fn(Vec<Done>)) {
    let mut memory = Memory::default();
    for round in rounds {
        *lock(busy) = Some(Instant::now());
        let done = memory.carry_out(&round);
        *lock(busy) = None;
        report(done);
    }
}

/// What is remembered from one round to the next.
#[derive(Debug, Default)]
struct Memory {
    /// Time of the last count of what each worker's target keeps, and the ready state then.
    counted: BTreeMap<u64, (Instant, Option<u64>)>,
    /// Last message of each kind about each worker, so that nothing is said twice in a row.
    said: BTreeMap<(u64, &'static str), String>,
}

impl Memory {
    fn carry_out(&mut self, round: &Round) -> Vec<Done> {
        let is_known = |worker: u64| round.targets.iter().any(|target| target.worker == worker);
        self.counted.retain(|worker, _| is_known(*worker));
        self.said.retain(|(worker, _), _| *worker == NO_WORKER || is_known(*worker));
        self.prune_archives(round);
        round.targets.iter().map(|target| self.look_after(target, round)).collect()
    }

    /// Removes bad archives that are old enough.
    fn prune_archives(&mut self, round: &Round) {
        let Some(age_max) = round.bad_archives_age_max else { return };
        let now = UNIX_EPOCH + Duration::from_millis(round.now.unix_ms());
        let (pruned, result) =
            prune_bad_archives(&Syscalls::default(), &round.archives, now, age_max);
        for archive in pruned {
            tracing::info!(
                archive = %archive.path.display(), bytes = archive.bytes,
                "removed an archive that was set aside as bad {} ago",
                format_duration(Duration::from_secs(archive.age.as_secs()))
            );
        }
        self.result(NO_WORKER, "", "cannot remove an old bad archive", result);
    }

    /// Prunes the leftovers of a target and gives space back, if it is short.
    fn look_after(&mut self, target: &RoundTarget, round: &Round) -> Done {
        let (calls, places) = (Syscalls::default(), &target.places);
        let mut done = Done { worker: target.worker, ..Done::default() };
        if !target.is_busy {
            let left = prune_leftovers(&calls, places, unfinished(&calls, places, round));
            let left = self.outcome(target, "cannot clear leftovers of earlier runs away", left);
            done.moved.extend(left.into_iter().flat_map(unsnap_fastboot::Removal::paths));
        }
        let orphans = prune_shadows(&calls, places);
        let orphans = self.outcome(target, "cannot remove the shadow of a former state", orphans);
        let orphans = orphans.map(unsnap_fastboot::Removal::paths).unwrap_or_default();
        if !orphans.is_empty() {
            done.shadow_removed = true;
            tracing::info!(target = target.name, "removing the shadow of a state that is gone");
            done.moved.extend(orphans);
        }
        let given = self.give_back(&calls, target, round.min_free, &mut done);
        self.outcome(target, "cannot give space back", given);
        self.count(&calls, target, round.now.instant, &mut done);
        done
    }

    /// Gives space back to a running validator, if less is free than is to stay free.
    fn give_back(
        &mut self,
        calls: &Syscalls,
        target: &RoundTarget,
        min_free: Reserve,
        done: &mut Done,
    ) -> Result<(), FastbootError> {
        let (places, name) = (&target.places, &target.name);
        let mut short = measure(calls, places, min_free)?;
        short.retain(|system| system.min_free.is_broken());
        if short.is_empty() {
            self.said.remove(&(target.worker, SHORT));
            return Ok(());
        }
        let look = |system: &SystemSpace| {
            let missing = system.min_free.bytes.saturating_sub(system.min_free.free_bytes);
            Ok(Look { missing, returnable: returnable(calls, places, system.device)? })
        };
        let looks: Vec<Look> = short.iter().map(look).collect::<Result<_, FastbootError>>()?;
        let GiveBack { shadow, ready } = decide(&looks);
        let figures: Vec<String> = short.iter().map(figures).collect();
        let figures = figures.join("; ");
        done.short = Some(figures.clone());
        let mut gave = false;
        if shadow && let Some(removal) = give_back_shadow(calls, places)? {
            let bytes = looks.iter().map(|look| look.returnable.shadow).sum::<u64>();
            tracing::warn!(
                target = name,
                bytes,
                "space is short, removing the shadow of the state in use: {figures}"
            );
            (gave, done.shadow_removed) = (true, true);
            done.moved.extend(removal.paths());
        }
        if ready && let Some((slots, removal)) = give_back_ready(calls, places)? {
            let bytes = looks.iter().map(|look| look.returnable.ready).sum::<u64>();
            tracing::warn!(
                target = name,
                ?slots,
                bytes,
                "space is short, discarding the ready state: {figures}"
            );
            (gave, done.ready_discarded) = (true, true);
            done.moved.extend(removal.paths());
        }
        let leaving = looks.iter().any(|look| look.returnable.leaving > 0);
        if !gave && !leaving {
            let message = "space is short, and nothing can be given back";
            // The figures change all the time.
            if self.said.insert((target.worker, SHORT), message.to_owned()).is_none() {
                tracing::warn!(target = name, "{message}: {figures}");
            }
        }
        Ok(())
    }

    /// Counts what the target keeps on the disks, if it is time or if that has changed.
    fn count(&mut self, calls: &Syscalls, target: &RoundTarget, now: Instant, done: &mut Done) {
        let last = self.counted.get(&target.worker);
        let is_due = last.is_none_or(|(last, ready)| {
            now.saturating_duration_since(*last) >= COUNT_EVERY || *ready != target.ready
        });
        if !is_due && !done.shadow_removed && !done.ready_discarded {
            return;
        }
        let counted = kept(calls, &target.places);
        done.kept = self.outcome(target, "cannot count what is kept on the disks", counted);
        self.counted.insert(target.worker, (now, target.ready));
    }

    fn outcome<T>(
        &mut self,
        target: &RoundTarget,
        what: &'static str,
        result: Result<T, FastbootError>,
    ) -> Option<T> {
        // Another unsnap is at work there: at the next scan it may have ended.
        let is_usual = result.as_ref().is_err_and(FastbootError::is_in_the_way);
        if is_usual { None } else { self.result(target.worker, &target.name, what, result) }
    }

    /// Logs an error that differs from the last one of its kind.
    fn result<T>(
        &mut self,
        worker: u64,
        target: &str,
        what: &'static str,
        result: Result<T, FastbootError>,
    ) -> Option<T> {
        match result {
            Ok(value) => {
                self.said.remove(&(worker, what));
                Some(value)
            }
            Err(error) => {
                let text = error.to_string();
                if self.said.get(&(worker, what)) != Some(&text) {
                    tracing::warn!(target, %error, "{what}; trying again at every scan");
                    self.said.insert((worker, what), text);
                }
                None
            }
        }
    }
}

/// Stands for no worker in [`Memory::said`]; workers are numbered from 1.
const NO_WORKER: u64 = 0;

/// Kind of the message that nothing can be given back.
const SHORT: &str = "short";

/// Returns the figures of a file system for the log.
fn figures(system: &SystemSpace) -> String {
    let (free, kept) = (system.min_free.free_bytes, system.min_free.bytes);
    format!(
        "{} are free on the file system of {}, min-free is {}",
        format_size(free),
        system.name,
        format_size(kept)
    )
}
