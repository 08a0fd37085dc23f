//! The process in the background that reads a state's storages into the page cache while the validator
//! starts.
//!
//! The validator is executed in this process's place, so it would be the parent of what is started
//! here, and never ask how that ended. Therefore this program is executed twice more: the first process
//! starts the second one and ends at once.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{Command, ExitCode, Stdio, id},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use unsnap_cli::{
    child::run_within,
    machine::{
        available_memory, own_cgroup,
        process::{Process, offer_to_oom_killer},
    },
    printer::log_line,
    units,
};
use unsnap_fastboot::{Places, warm};
use unsnap_pass::{Neighbour, Niceness};
use unsnap_ring::Syscalls;

use crate::cli::LeaveCached;

/// First argument of the processes. Not an option: nobody is to type it.
const WORD: &str = "--internal-read-storages";
/// Second argument of the first process.
const DETACH: &str = "detach";
/// Time in which the first process ends. A guess: it takes milliseconds.
const DETACHED_WITHIN: Duration = Duration::from_secs(2);
/// Niceness of the process. A guess: the validator's own threads go first, but the process must not
/// fall behind the reads of threads that wait for the disk.
const NICENESS: i32 = 5;
/// Bytes after which memory and validator are looked at again. A guess: some tens of milliseconds.
const LOOK_EVERY: u64 = 64 << 20;

/// The message of a process that could not do its job.
const FAILED: &str = "warning: storages are not read ahead of the validator";

/// Starts the process for the state in place. This process must become the validator.
pub fn start(when: LeaveCached, places: &Places, is_quiet: bool) -> io::Result<()> {
    let job = Job {
        validator: Process::of(id()).ok_or(io::ErrorKind::NotFound)?,
        always: match when {
            LeaveCached::Auto => false,
            LeaveCached::On => true,
            LeaveCached::Off => return Ok(()),
        },
        is_quiet,
        accounts: places.accounts.clone(),
    };
    let mut first = Command::new("/proc/self/exe");
    let status = run_within(first.arg(WORD).arg(DETACH).args(job.words()), DETACHED_WITHIN)?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}

/// Does what this process was started for, if it was started by [`start`].
pub fn carry_out(words: &[OsString]) -> Option<ExitCode> {
    let (word, words) = words.get(1..)?.split_first()?;
    if word != WORD {
        return None;
    }
    let ended = match words.split_first() {
        Some((word, job)) if word == DETACH => detach(job),
        _ => Job::of(words).map(Job::carry_out).ok_or(io::ErrorKind::InvalidInput.into()),
    };
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log_line(&format!("{FAILED}: {error}"));
            ExitCode::from(3)
        }
    })
}

/// Starts the second process, which has no parent that must ask for its end.
fn detach(job: &[OsString]) -> io::Result<()> {
    let mut second = Command::new("/proc/self/exe");
    second.arg(WORD).args(job).stdin(Stdio::null()).stdout(Stdio::null());
    second.spawn().map(drop)
}

/// The second process's job.
#[derive(Debug, PartialEq, Eq)]
struct Job {
    validator: Process,
    /// Whether memory plays no role.
    always: bool,
    /// Whether nothing but warnings is printed.
    is_quiet: bool,
    accounts: Vec<PathBuf>,
}

impl Job {
    fn words(&self) -> Vec<OsString> {
        let validator = [self.validator.id.to_string(), self.validator.since.clone()];
        let switches = [self.always, self.is_quiet].map(|switch| switch.to_string());
        let words = validator.into_iter().chain(switches).map(OsString::from);
        words.chain(self.accounts.iter().map(OsString::from)).collect()
    }

    fn of(words: &[OsString]) -> Option<Self> {
        let [id, since, always, is_quiet, accounts @ ..] = words else { return None };
        Some(Self {
            validator: Process {
                id: id.to_str()?.parse().ok()?,
                since: since.to_str()?.to_owned(),
            },
            always: always.to_str()?.parse().ok()?,
            is_quiet: is_quiet.to_str()?.parse().ok()?,
            accounts: accounts.iter().map(PathBuf::from).collect(),
        })
    }

    fn carry_out(self) {
        let since = Instant::now();
        // If memory runs out all the same, the kernel is to end this process and not the validator.
        offer_to_oom_killer();
        let neighbour =
            Neighbour { nice: Niceness::try_from(NICENESS).ok(), ..Neighbour::default() };
        let _ = neighbour.settle();
        let limit =
            if self.always { Limit::none() } else { Limit::of(available_memory(), own_limit()) };
        let is_alive = || self.validator.is_alive();
        let may_read = |bytes| limit.admits(bytes, available_memory, is_alive);
        // Only the accounts paths matter.
        let places = Places { accounts: self.accounts.clone(), ..Places::new("") };
        let warmed = warm(&Syscalls::default(), &places, &may_read);
        if !is_alive() {
            return;
        }
        match warmed {
            Ok(_) if self.is_quiet => {}
            Ok(warmed) => log_line(&format!(
                "unsnap: read {}, {}{}, into the page cache in {}",
                units::count(warmed.files, "storage"),
                units::size(warmed.bytes),
                if warmed.complete { "" } else { " of the state" },
                units::duration(since.elapsed()),
            )),
            Err(error) => log_line(&format!("{FAILED}: {error}")),
        }
    }
}

/// Returns the memory that this process's control groups permit; `None` for all.
fn own_limit() -> Option<u64> {
    let group = own_cgroup();
    group.memory_bytes.into_iter().chain(group.memory_high_bytes).min()
}

/// How much may be read.
struct Limit {
    /// Most bytes to be read.
    bytes_max: u64,
    /// Least memory that must be available.
    available_min: u64,
    bytes: AtomicU64,
    ended: AtomicBool,
}

impl Limit {
    fn none() -> Self {
        Self::new(u64::MAX, 0)
    }

    /// Half of the memory: the validator fills the other half.
    fn of(available: u64, group: Option<u64>) -> Self {
        Self::new(available.min(group.unwrap_or(u64::MAX)) / 2, available / 2)
    }

    fn new(bytes_max: u64, available_min: u64) -> Self {
        Self { bytes_max, available_min, bytes: AtomicU64::new(0), ended: AtomicBool::new(false) }
    }

    /// Returns whether a file of so many bytes may be read, and counts it.
    fn admits(&self, bytes: u64, available: impl Fn() -> u64, is_alive: impl Fn() -> bool) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let after = before.saturating_add(bytes);
        let looks = before == 0 || before / LOOK_EVERY != after / LOOK_EVERY;
        let ends =
            after > self.bytes_max || looks && (available() < self.available_min || !is_alive());
        if ends {
            self.ended.store(true, Ordering::Relaxed);
        }
        !self.ended.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_the_same_in_the_other_process() {
        let job = Job {
            validator: Process::of(id()).unwrap(),
            always: false,
            is_quiet: true,
            accounts: vec!["/mnt/a b".into(), "--odd".into()],
        };
        assert_eq!(Job::of(&job.words()), Some(job));
        assert_eq!(Job::of(&[]), None);
        for words in [&["validator"][..], &["validator", "--prepare-only", "detach"]] {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            assert!(carry_out(&words).is_none());
        }
    }

    #[test]
    fn half_of_the_memory_is_left_to_others() {
        let (plenty, alive) = (|| 10 * LOOK_EVERY, || true);
        let limit = Limit::of(10 * LOOK_EVERY, None);
        assert!((0..5).all(|_| limit.admits(LOOK_EVERY, plenty, alive)));
        assert!(!limit.admits(1, plenty, alive));
        let limit = Limit::of(10 * LOOK_EVERY, Some(2 * LOOK_EVERY));
        assert!(limit.admits(LOOK_EVERY, plenty, alive));
        assert!(!limit.admits(LOOK_EVERY + 1, plenty, alive));
    }

    #[test]
    fn reading_ends_when_memory_is_short_or_the_validator_gone() {
        let limit = Limit::of(10 * LOOK_EVERY, None);
        assert!(limit.admits(1, || 5 * LOOK_EVERY, || true));
        // Not looked at again so soon.
        assert!(limit.admits(1, || 0, || false));
        assert!(!limit.admits(LOOK_EVERY, || 5 * LOOK_EVERY - 1, || true));
        // For good.
        assert!(!limit.admits(1, || 10 * LOOK_EVERY, || true));
        let limit = Limit::none();
        assert!(limit.admits(1 << 50, || 0, || true));
        assert!(!limit.admits(LOOK_EVERY, || 0, || false));
    }
}
