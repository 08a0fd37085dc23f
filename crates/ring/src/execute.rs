//! Execution of a step by a system call on the calling thread.

use std::os::fd::{AsFd, IntoRawFd};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::operation::{NewFile, Step, StepDone};

/// Returns the flags that a new file is opened with.
pub(crate) fn open_flags(new: &NewFile) -> OFlags {
    let direct = if new.direct.is_some() { OFlags::DIRECT } else { OFlags::empty() };
    let access = if new.keep_open { OFlags::RDWR } else { OFlags::WRONLY };
    access | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW | direct
}

/// Path resolution never leaves the directory and never follows a link, whatever the path says.
pub(crate) const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

pub(crate) fn execute(step: Step<'_>) -> Result<StepDone, Errno> {
    match step {
        Step::Open { new } => rustix::fs::openat2(
            new.directory.as_fd(),
            new.path.as_c_str(),
            open_flags(new),
            Mode::from_raw_mode(new.mode),
            RESOLVE,
        )
        .map(StepDone::File),
        Step::SetMode { file, mode } => {
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map(|()| StepDone::Nothing)
        }
        // The file was opened with no other flag that the call can change.
        Step::LeaveDirect { file } => {
            rustix::fs::fcntl_setfl(file, OFlags::empty()).map(|()| StepDone::Nothing)
        }
        Step::Read { file, offset, buffer, .. } => {
            rustix::io::pread(file, buffer, offset).map(StepDone::Count)
        }
        Step::Write { file, offset, buffer } => {
            rustix::io::pwrite(file, buffer, offset).map(StepDone::Count)
        }
        Step::Close { file } => {
            let file = file.into_raw_fd();
            // SAFETY: the step owned the descriptor and has given it up, so nobody else uses or
            // closes it.
            unsafe { rustix::io::try_close(file) }.map(|()| StepDone::Nothing)
        }
        Step::Nothing => Ok(StepDone::Nothing),
    }
}
