//! How urgent a thread's reads and writes are to the kernel (ioprio_set(2)).

use std::{fmt, str::FromStr};

use rustix::io::Errno;

/// A class is in the upper bits of the kernel's number (linux/ioprio.h), a level in the lower ones.
const CLASS_SHIFT: u16 = 13;
const BEST_EFFORT: u16 = 2 << CLASS_SHIFT;
const IDLE: u16 = 3 << CLASS_SHIFT;

/// Levels of the best-effort class: 0 is the most urgent, 7 the least.
const LEVEL_MAX: u8 = 7;

/// What the kernel takes for threads that nobody has given a level.
const LEVEL_DEFAULT: u8 = 4;

/// `IOPRIO_WHO_PROCESS`, which means a thread.
const WHO_PROCESS: libc::c_int = 1;

/// How urgent reads and writes are. The schedulers bfq, mq-deadline and (by class) kyber go by it;
/// `none` does not, nor does what the kernel writes back from the page cache on its own.
///
/// There is no real-time class: nothing that is unpacked is more urgent than everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoPriority(u16);

/// Not a class of I/O priority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a class of I/O priority: use idle, best-effort, or best-effort:0 to best-effort:7"
)]
pub struct NotAnIoPriority(String);

impl IoPriority {
    /// Only when nobody else wants the disk.
    pub const IDLE: Self = Self(IDLE);

    /// Like everybody, with a level from 0 (most urgent) to 7; `None` for others.
    pub fn best_effort(level: u8) -> Option<Self> {
        (level <= LEVEL_MAX).then(|| Self(BEST_EFFORT | u16::from(level)))
    }

    /// The kernel's number for it, as submissions to a ring carry it.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Gives it to the calling thread, and to those that it starts from then on, kernel workers of
    /// rings included.
    pub fn set_for_this_thread(self) -> Result<(), Errno> {
        let bits = libc::c_int::from(self.0);
        // SAFETY: the call takes three numbers; 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, bits) };
        if result == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// That of the calling thread; `None` if nobody has given it one of these.
    pub fn of_this_thread() -> Result<Option<Self>, Errno> {
        // SAFETY: the call takes two numbers; 0 is the calling thread.
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

    /// Reads "idle", "best-effort" (level 4) or "best-effort:N".
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
    fn it_is_read_as_it_is_written() {
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
    fn a_thread_has_the_priority_that_it_was_given_and_so_have_those_that_it_starts() {
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
