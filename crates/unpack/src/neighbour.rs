//! Being a good neighbour: how urgent the threads of a run are, and on which processors they run.
//!
//! All of it is given to the thread that starts the others, before it starts any, so that they inherit
//! it: decoders, creators, workers of engines, the kernel's own workers for rings.

use std::{fmt, str::FromStr};

use rustix::{
    io::Errno,
    process::setpriority_process,
    thread::{sched_getaffinity, sched_setaffinity},
};

use crate::{Config, Error, LimitsReport};

/// Niceness that the kernel knows.
const NICE_MIN: i32 = -20;
const NICE_MAX: i32 = 19;

/// Processors, by the kernel's numbers. Not empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CpuSet(rustix::thread::CpuSet);

/// Not a list of processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a list of processors below {max}, such as 0-3,8", max = CpuSet::MAX)]
pub struct NotACpuSet(String);

impl CpuSet {
    /// Numbers are below this.
    pub const MAX: usize = rustix::thread::CpuSet::MAX_CPU;

    /// Those that this thread may run on now.
    fn allowed() -> Result<Self, Errno> {
        sched_getaffinity(None).map(Self)
    }

    /// The numbers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..Self::MAX).filter(|cpu| self.0.is_set(*cpu))
    }

    /// Those that are in both; `None` if there are none.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let mut both = rustix::thread::CpuSet::new();
        self.iter().filter(|cpu| other.0.is_set(*cpu)).for_each(|cpu| both.set(cpu));
        (both.count() > 0).then_some(Self(both))
    }
}

impl FromStr for CpuSet {
    type Err = NotACpuSet;

    /// Reads a list of numbers and ranges as taskset(1) and cgroups do: "0-3,8".
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

impl Config {
    /// Gives the calling thread, and those that it will start, what this configuration says of
    /// processors, niceness and I/O priority. Runs do that to the threads of their own; this is for
    /// threads that work for a run beside it.
    ///
    /// What the kernel (or a seccomp filter) refuses is named in words, and that is all; but that
    /// none of the processors may be used is an error, [`Error::Request`].
    pub fn settle_this_thread(&self) -> Result<Vec<String>, Error> {
        self.settle().map(|(_, missing)| missing)
    }

    /// The same; tells what is in force, too.
    pub(crate) fn settle(&self) -> Result<(LimitsReport, Vec<String>), Error> {
        let (mut limits, mut missing) = (LimitsReport::default(), Vec::new());
        let mut refused = |what: &str, errno: Errno| {
            tracing::warn!(%errno, "{what} cannot be had");
            missing.push(format!("{what}: refused ({errno})"));
        };
        if let Some(wanted) = &self.cpus {
            let settled = match CpuSet::allowed() {
                Ok(allowed) => {
                    let usable = wanted.intersection(&allowed).ok_or_else(|| Error::Request {
                        reason: format!("none of the processors {wanted} may be used"),
                        hint: Some(format!("those that may are {allowed}")),
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
        if let Some(nice) = self.nice {
            // To Linux a process that is not named is the calling thread.
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

    /// Whether there is such a niceness.
    pub(crate) fn check_nice(&self) -> Result<(), Error> {
        match self.nice {
            Some(nice) if !(NICE_MIN..=NICE_MAX).contains(&nice) => Err(Error::Request {
                reason: format!("there is no niceness {nice}"),
                hint: Some(format!("it is between {NICE_MIN} and {NICE_MAX}")),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::process::getpriority_process;
    use unsnap_ring::IoPriority;

    use super::*;
    use crate::{Archive, Family};

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

    fn config() -> Config {
        Config::new(Archive::Stdin, "")
    }

    #[test]
    fn a_thread_is_settled_and_others_are_not() {
        let before = (getpriority_process(None), CpuSet::allowed().unwrap());
        let first = before.1.iter().next().unwrap();
        thread::spawn(move || {
            let mut config = config();
            let one: CpuSet = first.to_string().parse().unwrap();
            (config.cpus, config.nice) = (Some(one), Some(7));
            config.io_priority = Some(IoPriority::IDLE);
            assert_eq!(config.settle_this_thread().unwrap(), Vec::<String>::new());
            let inherited = thread::spawn(|| (getpriority_process(None), CpuSet::allowed()));
            assert_eq!(inherited.join().unwrap(), (Ok(7), Ok(one)));
            assert_eq!(IoPriority::of_this_thread(), Ok(Some(IoPriority::IDLE)));
        })
        .join()
        .unwrap();
        assert_eq!((getpriority_process(None), CpuSet::allowed().unwrap()), before);
    }

    #[test]
    fn processors_that_may_not_be_used_are_an_error_and_so_is_a_niceness_that_is_none() {
        let allowed = CpuSet::allowed().unwrap();
        let Some(other) = (0..CpuSet::MAX).rev().find(|cpu| !allowed.0.is_set(*cpu)) else {
            // As many as there can be.
            return unsnap_testkit::skip::skip_unsupported("all processors may be used");
        };
        let mut config = config();
        config.cpus = Some(other.to_string().parse().unwrap());
        let error = config.settle_this_thread().unwrap_err();
        assert_eq!(error.family(), Family::Request);
        assert_eq!(CpuSet::allowed().unwrap(), allowed);
        config.nice = Some(20);
        assert_eq!(config.check_nice().unwrap_err().family(), Family::Request);
        config.nice = Some(-20);
        assert!(config.check_nice().is_ok());
    }
}
