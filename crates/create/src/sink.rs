//! File sink: the channel for files that are complete.

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

/// Interval at which a sender checks for room in the channel or for cancellation. A guess.
const FULL_POLL: Duration = Duration::from_micros(500);

/// A complete file. It has its staged name, and its data is in the kernel but not necessarily on
/// the disk.
#[derive(Debug)]
pub struct FinishedFile {
    /// Index of the destination.
    pub destination: usize,
    /// Path relative to the destination.
    pub path: String,
    /// Exact size in bytes.
    pub bytes: u64,
    /// Descriptor for reading and writing through the page cache; `None` unless requested.
    pub file: Option<OwnedFd>,
}

/// Bounded channel that receives files in the order in which they become complete. While it is
/// full, creation waits; when its receiver is gone, creation fails.
#[derive(Clone, Debug)]
pub struct FileSink {
    sender: SyncSender<FinishedFile>,
    open: bool,
}

impl FileSink {
    /// Creates a sink for files without descriptors.
    pub fn names(sender: SyncSender<FinishedFile>) -> Self {
        Self { sender, open: false }
    }

    /// Creates a sink for files with an open descriptor. The descriptors in the channel count
    /// against `RLIMIT_NOFILE`, in addition to those of the receiver.
    pub fn open_files(sender: SyncSender<FinishedFile>) -> Self {
        Self { sender, open: true }
    }

    /// Returns a sink with the same settings and another sender.
    #[must_use]
    pub fn with_sender(&self, sender: SyncSender<FinishedFile>) -> Self {
        Self { sender, open: self.open }
    }

    /// Passes on a file received from another sink. Waits while the channel is full. Fails when the
    /// receiver is gone, or when `abandoned` is set during the wait.
    pub fn pass_on(
        &self,
        mut finished: FinishedFile,
        abandoned: &AtomicBool,
    ) -> Result<(), CreateError> {
        loop {
            finished = match self.sender.try_send(finished) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(_)) => return Err(receiver_gone()),
                Err(TrySendError::Full(finished)) => finished,
            };
            if abandoned.load(Ordering::Acquire) {
                return Err(receiver_gone());
            }
            thread::sleep(FULL_POLL);
        }
    }

    /// Returns whether files are sent with open descriptors.
    pub fn wants_open_files(&self) -> bool {
        self.open
    }

    pub(crate) fn send(
        &self,
        finished: FinishedFile,
        abandoned: &AtomicBool,
    ) -> Result<(), CreateError> {
        if let Some(file) = &finished.file {
            // It may have been opened for direct writes, which do not suit a reader.
            let cached = fcntl_getfl(file).and_then(|flags| {
                if flags.contains(OFlags::DIRECT) {
                    fcntl_setfl(file, flags - OFlags::DIRECT)
                } else {
                    Ok(())
                }
            });
            cached.map_err(|errno| CreateError::Stopped {
                reason: format!("cannot switch a file to buffered I/O: {errno}"),
            })?;
        }
        self.pass_on(finished, abandoned)
    }
}

fn receiver_gone() -> CreateError {
    CreateError::Stopped { reason: "the receiver of finished files is gone".to_owned() }
}
