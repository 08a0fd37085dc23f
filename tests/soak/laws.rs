//! What must hold after every start.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;
use unsnap_test_support::machine::Alone;

use crate::{
    driver::Soak,
    process::{Came, How, Running, Starting, errors},
};

/// Validators that a state may kill before it is served no more (the front end's default).
pub const KILLS_MAX: u32 = 2;

/// Starts after which a validator must be up in any case: each of two states may kill its share, and
/// then the archives are left.
const STARTS_MAX: u32 = 2 * KILLS_MAX + 1;

/// Time by which a machine under heavy load may be late, beyond the deadline. Larger than any wait that
/// has another limit.
const LATE_MAX: Duration = Duration::from_secs(30);

/// Directories that were moved aside and are not yet removed, in all places together. A guess: each
/// job may leave some for a moment.
const LEFT_OVER_MAX: usize = 12;

impl Soak {
    /// Panics unless a law holds.
    #[track_caller]
    pub fn hold(&self, holds: bool, law: &str) {
        assert!(holds, "on {}, after {} starts: {law}", self.name, self.starts);
    }

    /// Starts the validator until it is up, the first time in a given way.
    pub fn bring_up(&mut self, how: Option<How>) {
        let mut how = how.unwrap_or_else(|| self.how());
        for _ in 0..STARTS_MAX {
            if self.attempt(&how) {
                return;
            }
            // Flags may be in the way, such as a deadline that has passed already.
            how = How::default();
        }
        // Nobody starts without space; with space, one of the archives is good.
        self.hold(self.is_full, &format!("it is not up after {STARTS_MAX} starts"));
        self.tell("freed: it cannot come up");
        self.free_disk();
        let up = (0..STARTS_MAX).any(|_| self.attempt(&How::default()));
        self.hold(up, "it is not up although the disk has room again");
    }

    /// Starts the validator once, and holds the result against the laws. Returns whether it is up.
    pub fn attempt(&mut self, how: &How) -> bool {
        let alone = self.machine.alone(&how.further);
        self.loads();
        let there = self.while_full();
        let came = self.begin(how).wait();
        let loads = self.loads();
        self.tell(&format!("start: {how:?}; alone {alone:?}; loads {loads:?}"));
        self.assert_in_time(how);
        self.assert_not_served_again(how, &alone, &loads);
        self.assert_none_was_served(how, there.as_ref(), &loads);
        match came {
            Came::Up(running) => {
                self.judge_up(&running, &alone);
                self.running = Some(running);
                if how.plain || how.further.contains(&"always") {
                    // The front end has not learned of the end before.
                    self.forget_kills();
                }
                true
            }
            Came::Ended(status) => {
                self.assert_flip_was_found(how, &loads);
                self.died(&loads);
                let is_short = self.is_full && alone.source != "state";
                let stderr = fs::read_to_string(errors(&self.machine, self.starts)).unwrap();
                // The service holds the ledger's lock for the renames of an adoption, and this start
                // does not wait for it.
                let is_locked_out =
                    how.plain && self.service.is_some() && stderr.contains("cannot lock");
                if alone.up && !how.fails && !is_short && !is_locked_out {
                    self.hold(
                        self.excused > 0,
                        &format!("ended with {status}; alone it would be up: {alone:?}"),
                    );
                    self.excused -= 1;
                }
                self.assert_files();
                false
            }
        }
    }

    /// It is up, at a slot that is not older than without unsnap.
    pub fn judge_up(&mut self, running: &Running, alone: &Alone) {
        let floor = self.floor(alone);
        let is_new = !alone.up || running.slot >= floor;
        let (slot, source) = (running.slot, &running.source);
        self.hold(is_new, &format!("up at {slot} from {source}; alone: {alone:?}"));
        self.hold(slot > 0, "it has begun with genesis");
        if source == "state" {
            self.kills.remove(&slot);
            self.flipped.remove(&slot);
        }
        self.machine.let_an_hour_pass();
        self.excused = 0;
        self.assert_files();
        let left_over = self.machine.ledger.left_over();
        self.hold(left_over.len() <= LEFT_OVER_MAX, &format!("left over: {left_over:?}"));
    }

    /// Two starts at once are one.
    pub fn start_twice(&mut self) {
        if let Some(running) = self.running.take() {
            running.end(Signal::KILL);
        }
        let alone = self.machine.alone(&[]);
        let (first, second) = (self.how(), self.how());
        let both = [first, second].map(|how| self.begin(&How { further: Vec::new(), ..how }));
        self.loads();
        let mut up = Vec::new();
        for starting in both {
            if let Came::Up(running) = starting.wait() {
                up.push(running);
            }
        }
        let loads = self.loads();
        self.tell(&format!("two: alone {alone:?}; loads {loads:?}"));
        self.hold(up.len() < 2, "two validators are up on one ledger");
        let is_short = self.is_full && alone.source != "state";
        match up.pop() {
            Some(running) => {
                self.judge_up(&running, &alone);
                self.running = Some(running);
                return;
            }
            None if alone.up && !is_short => {
                self.hold(self.excused > 0, "of two starts none came up");
                self.excused -= 1;
            }
            None => {}
        }
        // Neither could know of the other's end.
        self.died(&loads[..loads.len().min(1)]);
    }

    /// Begins a start.
    pub fn begin(&mut self, how: &How) -> Starting {
        self.starts += 1;
        let _ = fs::remove_file(self.last_start());
        Starting::new(&self.machine, how, self.starts)
    }

    fn last_start(&self) -> PathBuf {
        self.machine.ledger.snapshots.join(".unsnap-last-start.json")
    }

    /// The front end has taken no longer than its deadline.
    fn assert_in_time(&self, how: &How) {
        let seconds = match how.own.iter().find(|word| ["0s", "1m"].contains(&word.as_str())) {
            Some(word) if word == "0s" => 0,
            Some(_) => 60,
            None => return,
        };
        // Nothing is written to a full disk, nor before archives that are always used.
        let Ok(record) = fs::read_to_string(self.last_start()) else { return };
        let record: Value = serde_json::from_str(&record).unwrap();
        let took = Duration::from_millis(record["duration_ms"].as_u64().unwrap());
        let deadline = Duration::from_secs(seconds) + LATE_MAX;
        self.hold(took <= deadline, &format!("the front end took {took:?}, {how:?}"));
    }

    /// A start has ended without a validator that is up.
    pub fn died(&mut self, loads: &[(String, u64)]) {
        if let Some((_, slot)) = loads.iter().find(|(source, _)| source == "state") {
            *self.kills.entry(*slot).or_default() += 1;
            self.flipped.entry(*slot).and_modify(|kills| *kills += 1);
        }
    }

    /// The front end has no reason any more to remember ends of validators.
    pub fn forget_kills(&mut self) {
        self.kills.values_mut().chain(self.flipped.values_mut()).for_each(|kills| *kills = 0);
    }

    /// Returns the slot from which a validator must be up that comes up at all.
    fn floor(&self, alone: &Alone) -> u64 {
        // A state that has killed may be passed over for the archives, and these for the next best
        // ones if the state was made from them.
        if !self.kills.contains_key(&alone.slot) {
            alone.slot
        } else if !self.kills.contains_key(&alone.archives) {
            // Newer ones are not used by a validator that is told to take nothing but states.
            alone.archives.min(alone.slot)
        } else {
            0
        }
    }

    /// No state that has killed so often is served again, unless the validator would have taken it alone
    /// and is told to take nothing but states, or has no room for another one.
    fn assert_not_served_again(&self, how: &How, alone: &Alone, loads: &[(String, u64)]) {
        let has_no_other = how.further.contains(&"never") || self.is_full;
        let is_only = |slot: u64| has_no_other && alone.source == "state" && alone.slot == slot;
        let states = loads.iter().filter(|(source, _)| source == "state");
        for (_, slot) in states.filter(|(_, slot)| !is_only(*slot)) {
            let kills = self.kills.get(slot).copied().unwrap_or_default();
            let law = format!("the state of {slot} has killed {kills} times and is served again");
            self.hold(kills < KILLS_MAX, &law);
        }
    }

    /// A state that has killed because a byte of it was changed does not do so again, unless there was
    /// no time to verify it.
    fn assert_flip_was_found(&self, how: &How, loads: &[(String, u64)]) {
        let is_verified = !how.fails && !how.plain && !how.own.iter().any(|word| word == "0s");
        let has_killed = |slot| self.flipped.get(slot).is_some_and(|kills| *kills > 0);
        let again = loads.iter().find(|(source, slot)| source == "state" && has_killed(slot));
        let law = format!("a state with a changed byte has killed again: {again:?}");
        self.hold(again.is_none() || !is_verified, &law);
    }

    /// The validator's own files, and its good archives, have their bytes.
    pub fn assert_files(&self) {
        let lost = self.machine.lost_files();
        self.hold(lost.is_empty(), &format!("lost: {lost:?}"));
    }

    /// So have the storages of a running one.
    pub fn assert_storages(&mut self) {
        let Some(running) = &mut self.running else { return };
        let lost = running.ask("check").unwrap();
        self.hold(lost["lost"] == serde_json::json!([]), &format!("lost: {lost}"));
    }

    /// Returns what validators have begun to load since the last call, and from what.
    pub fn loads(&mut self) -> Vec<(String, u64)> {
        let path = self.machine.path("events");
        let mut log = String::new();
        if let Ok(mut file) = File::open(path) {
            file.seek(SeekFrom::Start(self.log_read)).unwrap();
            file.read_to_string(&mut log).unwrap();
        }
        self.log_read += log.len() as u64;
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let loads = events.filter(|event| event["event"] == "loading");
        let load =
            |event: Value| Some((event["source"].as_str()?.to_owned(), event["slot"].as_u64()?));
        loads.filter_map(load).collect()
    }
}
