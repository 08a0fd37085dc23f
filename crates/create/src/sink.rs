//! Who is told of files as they become complete.

use std::{
    os::fd::OwnedFd,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::CreateError;

/// How often to look whether a receiver has room again, or nobody waits for it any more. A guess.
const FULL_POLL: Duration = Duration::from_micros(500);

/// A file that is complete: in the kernel's hands under its staged name, not yet on the disk.
#[derive(Debug)]
pub struct FinishedFile {
    /// Index of its destination.
    pub destination: usize,
    /// Path below the destination.
    pub path: String,
    /// Its exact size.
    pub bytes: u64,
    /// Open for reading and writing, through the page cache; `None` unless that was asked for.
    pub file: Option<OwnedFd>,
}

/// Takes files in the order in which they become complete, over a bounded channel. While it is full
/// creating waits; when its receiver is gone, creating fails.
#[derive(Clone, Debug)]
pub struct FileSink {
    sender: SyncSender<FinishedFile>,
    open: bool,
}

impl FileSink {
    /// Without descriptors.
    pub fn names(sender: SyncSender<FinishedFile>) -> Self {
        Self { sender, open: false }
    }

    /// With an open descriptor of each file. As many as the channel has room for count against
    /// `RLIMIT_NOFILE`, beside those of the receiver.
    pub fn open_files(sender: SyncSender<FinishedFile>) -> Self {
        Self { sender, open: true }
    }

    /// What is told the same by another sender.
    #[must_use]
    pub fn with_sender(&self, sender: SyncSender<FinishedFile>) -> Self {
        Self { sender, open: self.open }
    }

    /// Hands on what somebody else was told. While the receiver has no room this waits, until
    /// `abandoned` is set. Fails when its receiver is gone, or when it is abandoned.
    pub fn pass_on(
        &self,
        mut finished: FinishedFile,
        abandoned: &AtomicBool,
    ) -> Result<(), CreateError> {
        loop {
            finished = match self.sender.try_send(finished) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(_)) => return Err(nobody()),
                Err(TrySendError::Full(finished)) => finished,
            };
            if abandoned.load(Ordering::Acquire) {
                return Err(nobody());
            }
            thread::sleep(FULL_POLL);
        }
    }

    /// Whether files are handed on open.
    pub fn wants_open_files(&self) -> bool {
        self.open
    }

    pub(crate) fn send(
        &self,
        finished: FinishedFile,
        abandoned: &AtomicBool,
    ) -> Result<(), CreateError> {
        if let Some(file) = &finished.file {
            // It may have been opened for direct writes, which does not suit a reader.
            let cached = fcntl_getfl(file).and_then(|flags| {
                if flags.contains(OFlags::DIRECT) {
                    fcntl_setfl(file, flags - OFlags::DIRECT)
                } else {
                    Ok(())
                }
            });
            cached.map_err(|errno| CreateError::Stopped { reason: errno.to_string() })?;
        }
        self.pass_on(finished, abandoned)
    }
}

fn nobody() -> CreateError {
    CreateError::Stopped { reason: "nobody takes finished files any more".to_owned() }
}
