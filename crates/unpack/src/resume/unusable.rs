//! Reasons why an interrupted run cannot be resumed.

use rustix::io::Errno;

use crate::UnpackError;

/// Reason why the files of an interrupted run cannot be used.
pub(super) enum Unusable {
    /// They belong to another run.
    NotThis(&'static str),
    /// They are useless.
    Because(String),
    /// Checking them failed.
    Failed(UnpackError),
    /// A system call that checks them failed.
    Stopped(Errno),
}

/// Classifies an error of a system call: either the files differ from the recorded ones, or the
/// machine is at fault.
pub(super) fn failed(errno: Errno) -> Unusable {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::XDEV => {
            Unusable::Because(errno.to_string())
        }
        errno => Unusable::Stopped(errno),
    }
}
