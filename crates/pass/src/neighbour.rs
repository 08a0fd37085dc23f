//! Consideration for other processes: rate limit, niceness, I/O priority and processors of a run.
//!
//! The thread that starts all others applies the last three to itself first. Decoders, creators,
//! the engines' workers and the kernel's own workers for rings inherit them.

use std::{fmt, num::NonZeroU64, str::FromStr};

use rustix::{
    io::Errno,
    process::setpriority_process,
    thread::{sched_getaffinity, sched_setaffinity},
};
use serde::Serialize;
use unsnap_failure::Remedy;
use unsnap_ring::{IoPriority, Pace};

use crate::PassError;

/// Consideration for other processes on the machine.
#[derive(Clone, Debug, Default)]
pub struct Neighbour {
    /// Handle that limits the write rate and pauses the run. Several runs may share one.
    pub pace: Option<Pace>,
    /// I/O priority of reads and writes; `None` to inherit the caller's.
    pub io_priority: Option<IoPriority>,
    /// Niceness of the run's threads; `None` to inherit the caller's.
    pub nice: Option<Niceness>,
    /// Processors for the run's threads, out of the caller's; `None` for all of these.
    pub cpus: Option<CpuSet>,
}

/// Niceness of a thread, from -20 (urgent; needs a privilege) to 19.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Niceness(i32);

/// Error: a number is not a niceness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is not a niceness, which is between {min} and {max}",
    min = Niceness::MIN,
    max = Niceness::MAX
)]
pub struct NotANiceness(i32);

impl Niceness {
    /// The most urgent.
    pub const MIN: i32 = -20;
    /// The least urgent.
    pub const MAX: i32 = 19;

    /// Returns the number.
    pub fn value(self) -> i32 {
        self.0
    }
}

impl TryFrom<i32> for Niceness {
    type Error = NotANiceness;

    fn try_from(value: i32) -> Result<Self, NotANiceness> {
        if (Self::MIN..=Self::MAX).contains(&value) {
            Ok(Self(value))
        } else {
            Err(NotANiceness(value))
        }
    }
}

/// Limits in force. The report lists those that the kernel refused among its fallbacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitsReport {
    /// Rate limit at the end of the run, in bytes per second for each destination device.
    pub rate_limit: Option<u64>,
    /// I/O priority: "idle", or "best-effort:" and a level.
    pub io_priority: Option<String>,
    /// Niceness.
    pub nice: Option<i32>,
    /// Usable processors, such as "0-3,8".
    pub cpus: Option<String>,
}

/// Non-empty set of processors, by the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CpuSet(rustix::thread::CpuSet);

/// Error: a text is not a list of processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a list of processors below {max}, such as 0-3,8", max = CpuSet::MAX)]
pub struct NotACpuSet(String);

impl CpuSet {
    /// Upper bound of processor numbers; all are below it.
    pub const MAX: usize = rustix::thread::CpuSet::MAX_CPU;

    /// Returns the processors that this thread may run on now.
    fn allowed() -> Result<Self, Errno> {
        sched_getaffinity(None).map(Self)
    }

    /// Returns the numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..Self::MAX).filter(|cpu| self.0.is_set(*cpu))
    }

    /// Returns the processors that are in both sets; `None` if there are none.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let mut both = rustix::thread::CpuSet::new();
        self.iter().filter(|cpu| other.0.is_set(*cpu)).for_each(|cpu| both.set(cpu));
        (both.count() > 0).then_some(Self(both))
    }
}

impl FromStr for CpuSet {
    type Err = NotACpuSet;

    /// Parses a list of numbers and ranges in the syntax of taskset(1) and cgroups: "0-3,8".
    fn from_str(text: &str) -> Result<Self, NotACpuSet> {
        let wrong = || NotACpuSet(text.to_owned());
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number: Option<usize> = if digits { text.parse().ok() } else { None };
            number.filter(|cpu| *cpu < Self::MAX).ok_or_else(wrong)
        };
        let mut set = rustix::thread::CpuSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            (first..=last).for_each(|cpu| set.set(cpu));
        }
        Ok(Self(set))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(formatter, "{comma}{first}")?;
            if last > first {
                write!(formatter, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CpuSet({self})")
    }
}

impl Neighbour {
    /// Returns the rate limit in force, in bytes per second for each destination device.
    pub fn rate_limit(&self) -> Option<u64> {
        self.pace.as_ref().and_then(Pace::rate).map(NonZeroU64::get)
    }

    /// Applies processors, niceness and I/O priority to the calling thread, from which threads that
    /// it starts later inherit them. A run does so for its own threads. Callers need this only for
    /// further threads that work for a run.
    ///
    /// Returns the limits in force, and a message for each one that the kernel or a seccomp filter
    /// refused.
    ///
    /// # Errors
    ///
    /// [`PassError::Request`] if this process may use none of the processors.
    pub fn settle(&self) -> Result<(LimitsReport, Vec<String>), PassError> {
        let (mut limits, mut missing) = (LimitsReport::default(), Vec::new());
        let mut refused = |limit: &str, errno: Errno| {
            tracing::warn!(%errno, "the kernel refused {limit}");
            missing.push(format!("{limit}: refused ({errno})"));
        };
        if let Some(wanted) = &self.cpus {
            let settled = match CpuSet::allowed() {
                Ok(allowed) => {
                    let usable = wanted.intersection(&allowed).ok_or_else(|| {
                        let reason =
                            format!("this process may use none of the processors {wanted}");
                        let remedy = Remedy::advice(format!("it may use {allowed}"));
                        PassError::request_with(reason, remedy)
                    })?;
                    sched_setaffinity(None, &usable.0).map(|()| usable)
                }
                Err(errno) => Err(errno),
            };
            match settled {
                Ok(usable) => limits.cpus = Some(usable.to_string()),
                Err(errno) => refused(&format!("processors {wanted}"), errno),
            }
        }
        if let Some(Niceness(nice)) = self.nice {
            // On Linux, no process means the calling thread.
            match setpriority_process(None, nice) {
                Ok(()) => limits.nice = Some(nice),
                Err(errno) => refused(&format!("niceness {nice}"), errno),
            }
        }
        if let Some(priority) = self.io_priority {
            match priority.set_for_this_thread() {
                Ok(()) => limits.io_priority = Some(priority.to_string()),
                Err(errno) => refused(&format!("I/O priority {priority}"), errno),
            }
        }
        Ok((limits, missing))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::process::getpriority_process;
    use unsnap_failure::{Failure, Family};

    use super::*;

    #[test]
    fn sets_are_read_as_they_are_written() {
        for text in ["0", "0-3,8", "1,3,5-6,1023"] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), text);
        }
        assert_eq!("3,1,2,1".parse::<CpuSet>().unwrap().to_string(), "1-3");
        for bad in ["", ",", "1,", "-1", "1-", "3-1", "a", "+1", "1024", "0-9999999999999999999999"]
        {
            assert_eq!(bad.parse::<CpuSet>(), Err(NotACpuSet(bad.to_owned())), "{bad}");
        }
    }

    #[test]
    fn a_thread_is_settled_and_others_are_not() {
        let before = (getpriority_process(None), CpuSet::allowed().unwrap());
        let first = before.1.iter().next().unwrap();
        thread::spawn(move || {
            let one: CpuSet = first.to_string().parse().unwrap();
            let neighbour = Neighbour {
                cpus: Some(one),
                nice: Some(Niceness(7)),
                io_priority: Some(IoPriority::IDLE),
                ..Neighbour::default()
            };
            assert_eq!(neighbour.settle().unwrap().1, Vec::<String>::new());
            let inherited = thread::spawn(|| (getpriority_process(None), CpuSet::allowed()));
            assert_eq!(inherited.join().unwrap(), (Ok(7), Ok(one)));
            assert_eq!(IoPriority::of_this_thread(), Ok(Some(IoPriority::IDLE)));
        })
        .join()
        .unwrap();
        assert_eq!((getpriority_process(None), CpuSet::allowed().unwrap()), before);
    }

    #[test]
    fn processors_outside_the_allowed_set_are_refused_and_so_is_niceness_out_of_range() {
        let allowed = CpuSet::allowed().unwrap();
        let Some(other) = (0..CpuSet::MAX).rev().find(|cpu| !allowed.0.is_set(*cpu)) else {
            // The machine has the maximum number of processors.
            return unsnap_testkit::skip::skip_unsupported("all processors may be used");
        };
        let cpus = Some(other.to_string().parse().unwrap());
        let error = Neighbour { cpus, ..Neighbour::default() }.settle().unwrap_err();
        assert_eq!(error.family(), Family::Request);
        assert_eq!(CpuSet::allowed().unwrap(), allowed);
        assert_eq!(Niceness::try_from(20), Err(NotANiceness(20)));
        assert_eq!(Niceness::try_from(-20).map(Niceness::value), Ok(-20));
    }
}
