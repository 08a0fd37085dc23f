//! The thread that links storages into the shadow as they become complete.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread::{self, JoinHandle},
};

use rustix::io::Errno;
use unsnap_create::{CreateError, FileSink, FinishedFile};
use unsnap_ring::Syscalls;

/// Most files that wait for their links. Creation waits when there are more. A guess.
const WAITING_MAX: usize = 1024;

/// Links files under their second names as they become complete, on a separate thread.
pub struct Linker {
    thread: Option<JoinHandle<Result<Option<Unlinked>, CreateError>>>,
    /// Set when the thread must no longer wait for the receiver of files.
    abandoned: Arc<AtomicBool>,
}

/// Failure to link a file, after which there is no shadow.
pub struct Unlinked {
    /// Path of the first such file.
    pub path: String,
    /// Error number from the kernel.
    pub errno: Errno,
}

impl Linker {
    /// Starts the thread. `directories` holds, for each accounts path, the directory of its
    /// storages and the directory for their second names. Complete files are passed on to `files`.
    /// Returns the linker with the sink to which creators report complete files.
    pub fn start(
        calls: Syscalls,
        directories: Vec<(OwnedFd, OwnedFd)>,
        files: Option<FileSink>,
    ) -> std::io::Result<(Self, FileSink)> {
        let (sender, finished) = sync_channel(WAITING_MAX);
        let sink = match &files {
            Some(files) => files.with_sender(sender),
            None => FileSink::names(sender),
        };
        let abandoned = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&abandoned);
        let work = move || link(&calls, &directories, finished, files.as_ref(), &is_over);
        let thread = thread::Builder::new().name("unsnap-link".to_owned()).spawn(work)?;
        Ok((Self { thread: Some(thread), abandoned }, sink))
    }

    /// Returns a function that ends the thread's waiting for the receiver of files.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let abandoned = Arc::clone(&self.abandoned);
        move || abandoned.store(true, Ordering::Release)
    }

    /// Waits until all files are linked. The creators must have ended. Returns the first failed
    /// link.
    ///
    /// # Errors
    ///
    /// An error if not every file could be passed on.
    pub fn finish(mut self) -> Result<Option<Unlinked>, CreateError> {
        self.join()
    }

    fn join(&mut self) -> Result<Option<Unlinked>, CreateError> {
        // A panic of the thread costs the shadow, but not the state.
        let panicked = Unlinked { path: "its thread".to_owned(), errno: Errno::IO };
        self.thread.take().map_or(Ok(None), |thread| thread.join().unwrap_or(Ok(Some(panicked))))
    }
}

impl Drop for Linker {
    /// Ends the thread, so that it links nothing in directories that are about to be removed.
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Release);
        let _ = self.join();
    }
}

/// Links files until the creators have ended. Returns early if a file cannot be passed on. That
/// drops `finished`, so the creators fail as if they had reported to the receiver directly.
fn link(
    calls: &Syscalls,
    directories: &[(OwnedFd, OwnedFd)],
    finished: Receiver<FinishedFile>,
    files: Option<&FileSink>,
    abandoned: &AtomicBool,
) -> Result<Option<Unlinked>, CreateError> {
    let mut failed = None;
    for file in finished {
        // The first destination holds no storages.
        let place = file.destination.checked_sub(1).and_then(|index| directories.get(index));
        if let (Some((from, to)), None) = (place, &failed)
            && let Err(errno) = calls.linkat(from, file.path.as_str(), to, file.path.as_str())
        {
            failed = Some(Unlinked { path: file.path.clone(), errno });
        }
        if let Some(sink) = files {
            sink.pass_on(file, abandoned)?;
        }
    }
    Ok(failed)
}
