//! Test values of this crate: configurations, states, jobs and work.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc, time::Instant};

use unsnap_control::protocol::Origin;
use unsnap_fastboot::{Candidate, Pair};
use unsnap_layout::{ArchiveHash, ArchiveName, Compression};
use unsnap_pass::{CancelToken, Pace, Progress};

use crate::{
    archives::Now,
    config::{Config, Sources, Target},
    meter::Meter,
    persistent::PersistentState,
    plan::Job,
    state::{Running, State, TargetState},
    target::Work,
};

/// Returns a configuration with one target, `t`. Its directories need not exist.
pub fn config() -> Config {
    let text = "[archives]\ndirectory = \"/a\"\n[[target]]\nname = \"t\"\ndirectory = \"/t\"\n";
    Sources::default().load_text(text).unwrap()
}

pub fn target() -> Target {
    config().targets.remove(0)
}

/// Returns an archive whose file does not exist.
pub fn archive(slot: u64, base_slot: Option<u64>) -> Candidate {
    let (hash, compression) = (ArchiveHash::new([7; 32]), Compression::Zstd);
    let name = match base_slot {
        None => ArchiveName::Full { slot, hash, compression },
        Some(base_slot) => ArchiveName::Incremental { base_slot, slot, hash, compression },
    };
    Candidate { path: format!("/a/{name}").into(), name, bytes: 1, remote: false, offered: None }
}

/// Returns a full archive without an incremental one.
pub fn full(slot: u64) -> Pair {
    Pair::new(archive(slot, None), None).unwrap()
}

pub fn work(slot: u64) -> Work {
    Work {
        target: target(),
        pair: full(slot),
        unpacking: Arc::new(config().unpacking().unwrap()),
        known_bad: Vec::new(),
        removal_files_per_second: NonZeroU32::MIN,
        submitted: false,
        made_from: BTreeMap::new(),
        progress: Progress::default(),
        cancel: CancelToken::default(),
    }
}

/// Returns a state in which the target's job has been running since `now`.
pub fn at_work(now: Now) -> State {
    let mut state = State::new(Arc::new(config()), PersistentState::default(), now);
    let progress = Progress::default();
    let job = Job {
        id: 7,
        pair: full(5),
        files: Vec::new(),
        origin: Origin::Found,
        attempt: 1,
        not_before: None,
        last_error: None,
    };
    let mut target = TargetState::new(target(), 1);
    target.running = Some(running(job, progress, now.instant));
    state.targets.push(target);
    state
}

fn running(job: Job, progress: Progress, since: Instant) -> Running {
    Running {
        job,
        since,
        started_unix_ms: 0,
        last_change: (progress.snapshot(), since),
        progress,
        cancel: CancelToken::default(),
        cancel_reason: None,
        pace: Pace::new(),
        hurries: false,
        meter: Meter::default(),
    }
}
