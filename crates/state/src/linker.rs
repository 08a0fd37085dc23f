//! The thread that gives storages their second names as they become complete.

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

/// Files that may wait for their links.
const WAITING_MAX: usize = 1024;

/// Gives files their second names as they become complete, by a thread of its own.
pub struct Linker {
    thread: Option<JoinHandle<Result<Option<Unlinked>, CreateError>>>,
    /// Nobody waits for what it passes on any more.
    abandoned: Arc<AtomicBool>,
}

/// Why there is no shadow.
pub struct Unlinked {
    pub path: String,
    pub errno: Errno,
}

impl Linker {
    /// `directories`: for each accounts path the one that its storages are created in, and the one
    /// for their second names. `files`: who else is to be told of files that are complete. Gives
    /// what the creators are to tell.
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

    /// Has it stop waiting for whom it passes files on to.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let abandoned = Arc::clone(&self.abandoned);
        move || abandoned.store(true, Ordering::Release)
    }

    /// Waits for the last of them. The creators must have ended.
    /// An error if not every file could be passed on.
    pub fn finish(mut self) -> Result<Option<Unlinked>, CreateError> {
        self.join()
    }

    fn join(&mut self) -> Result<Option<Unlinked>, CreateError> {
        // A panic of it is no reason to lose a state.
        let panicked = Unlinked { path: "its thread".to_owned(), errno: Errno::IO };
        self.thread.take().map_or(Ok(None), |thread| thread.join().unwrap_or(Ok(Some(panicked))))
    }
}

impl Drop for Linker {
    /// Nothing is made any more in directories that are about to be removed.
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Release);
        let _ = self.join();
    }
}

/// Returns early, and with that lets go of `finished`, when nobody takes what is passed on: then the
/// creators fail as if they had told them directly.
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
