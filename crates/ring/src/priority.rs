//! I/O priority of threads and ring operations (ioprio_set(2)).

use std::{fmt, str::FromStr};

use rustix::io::Errno;

/// The kernel's number has the class in its upper bits and the level in its lower ones
/// (linux/ioprio.h).
const CLASS_SHIFT: u16 = 13;
const BEST_EFFORT: u16 = 2 << CLASS_SHIFT;
const IDLE: u16 = 3 << CLASS_SHIFT;

/// Levels of the best-effort class: 0 is the most urgent, 7 the least.
const LEVEL_MAX: u8 = 7;

/// Level that the kernel assumes for threads without one.
const LEVEL_DEFAULT: u8 = 4;

/// `IOPRIO_WHO_PROCESS`, which denotes a thread.
const WHO_PROCESS: libc::c_int = 1;

/// Priority of reads and writes. The schedulers bfq, mq-deadline and (by class) kyber honour it.
/// The scheduler `none` does not, and neither does the kernel's own write-back from the page cache.
///
/// There is no real-time class: unpacking is never more urgent than everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoPriority(u16);

/// The text is not an I/O priority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an I/O priority: use idle, best-effort, or best-effort:0 to best-effort:7")]
pub struct NotAnIoPriority(String);

impl IoPriority {
    /// Served only when nobody else uses the disk.
    pub const IDLE: Self = Self(IDLE);

    /// Returns the best-effort priority, the default class, with a level from 0 (most urgent) to 7.
    /// `None` for other levels.
    pub fn best_effort(level: u8) -> Option<Self> {
        (level <= LEVEL_MAX).then(|| Self(BEST_EFFORT | u16::from(level)))
    }

    /// Returns the kernel's number, as submissions to a ring carry it.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Sets the priority of the calling thread. Threads that it starts later inherit it, including
    /// the kernel workers of rings.
    pub fn set_for_this_thread(self) -> Result<(), Errno> {
        let bits = libc::c_int::from(self.0);
        // SAFETY: the call takes three numbers and touches no memory; 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, bits) };
        if result == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Returns the priority of the calling thread; `None` if it has none of these.
    pub fn of_this_thread() -> Result<Option<Self>, Errno> {
        // SAFETY: the call takes two numbers and touches no memory; 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
        let bits = u16::try_from(result).map_err(|_| last_error())?;
        Ok(matches!(bits >> CLASS_SHIFT, 2 | 3).then_some(Self(bits)))
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

impl FromStr for IoPriority {
    type Err = NotAnIoPriority;

    /// Parses "idle", "best-effort" (level 4) or "best-effort:N".
    fn from_str(text: &str) -> Result<Self, NotAnIoPriority> {
        let level = match text {
            "idle" => return Ok(Self::IDLE),
            "best-effort" => Some(LEVEL_DEFAULT),
            _ => text.strip_prefix("best-effort:").and_then(|level| level.parse().ok()),
        };
        level.and_then(Self::best_effort).ok_or_else(|| NotAnIoPriority(text.to_owned()))
    }
}

impl fmt::Display for IoPriority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IDLE.. => formatter.write_str("idle"),
            bits => write!(formatter, "best-effort:{}", bits & u16::from(LEVEL_MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnap_testkit::skip::skip_unsupported;

    #[test]
    fn parsing_and_printing_agree() {
        for text in ["idle", "best-effort:0", "best-effort:7"] {
            let priority: IoPriority = text.parse().unwrap();
            assert_eq!(priority.to_string(), text);
        }
        assert_eq!("best-effort".parse(), Ok(IoPriority::best_effort(4).unwrap()));
        for bad in ["", "realtime", "realtime:0", "idle:3", "best-effort:8", "best-effort:", "Idle"]
        {
            assert!(bad.parse::<IoPriority>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_thread_keeps_its_priority_and_new_threads_inherit_it() {
        let before = IoPriority::of_this_thread();
        std::thread::spawn(|| {
            for priority in [IoPriority::best_effort(6).unwrap(), IoPriority::IDLE] {
                if let Err(errno) = priority.set_for_this_thread() {
                    // By a container.
                    return skip_unsupported(format_args!("ioprio_set is refused: {errno}"));
                }
                let inherited = std::thread::spawn(IoPriority::of_this_thread).join().unwrap();
                assert_eq!(inherited, Ok(Some(priority)));
                assert_eq!(IoPriority::of_this_thread(), Ok(Some(priority)));
            }
        })
        .join()
        .unwrap();
        assert_eq!(IoPriority::of_this_thread(), before);
    }
}
