#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! Archives become a durable tree of files, or the state that a validator starts from.
//!
//! [`Options`] say what to unpack, where to and how; [`Unpacker`] does it; [`Report`] says what was
//! done and where the time went. Success means that every file is complete, on the disk, under its
//! final name, and stays so through a power cut. Anything else is an [`UnpackError`], and the
//! destination is as it was. There is one exception: if a crash hits between the publications of
//! several destinations, or while entries are moved into a mount point, those published so far stay.
//!
//! Archives are hostile until they have been parsed. So a run confines itself before it looks at one:
//! see [`SandboxMode`](unsnap_pass::SandboxMode).
//!
//! ```no_run
//! use unsnap_pass::{Archive, Handles};
//! use unsnap_source::DigestKind;
//! use unsnap_unpack::{Destination, DigestUse, Options, Source, Tree, UnpackError, Unpacker};
//!
//! # fn main() -> Result<(), UnpackError> {
//! let archive = "snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";
//! let source = Source::snapshot(Archive::File(archive.into()));
//! let mut tree = Tree::new("/mnt/ledger/unpacked");
//! tree.accounts = vec!["/mnt/accounts/run".into()];
//! let digest = DigestUse::Report(DigestKind::Xxh3);
//! let options = Options::new(source, Destination::Tree(tree), digest)?;
//!
//! let handles = Handles::default();
//! let Handles { progress, cancel } = handles.clone();
//! std::thread::spawn(move || {
//!     println!("{} files so far", progress.snapshot().files);
//!     // `cancel.cancel()` would end the run and take everything back.
//!     drop(cancel);
//! });
//! let report = Unpacker::new(options).with_handles(handles).run()?;
//! println!("{} files, limited by {}", report.files, report.limited_by);
//! # Ok(())
//! # }
//! ```
//!
//! The pipeline itself is one function, `stage` in `pipeline.rs`.

mod creating;
mod error;
mod options;
mod pipeline;
mod places;
mod process;
mod report;
mod report_builder;
mod resume;
mod second_look;
mod storages;
mod times;
mod walk;
mod walks;

use std::{io, sync::mpsc::sync_channel, thread};

pub use error::UnpackError;
pub use options::{Destination, DigestUse, Options, Source, Tree, Verify};
pub use report::{AccountsReport, BankReport, IncrementalReport, Report, Resumed, ThreadReport};
pub use unsnap_create::{FileSink, FinishedFile};
pub use unsnap_fit::{PreflightMode, Room};
pub use unsnap_state::State;

use unsnap_pass::{Handles, PassError, Tap, on_a_thread_of_its_own};

/// Unpacks archives.
#[derive(Debug)]
pub struct Unpacker {
    options: Options,
    handles: Handles,
}

impl Unpacker {
    /// Takes the options. Nothing is touched before [`run`](Self::run).
    pub fn new(options: Options) -> Self {
        Self { options, handles: Handles::default() }
    }

    /// Uses the caller's handles in place of its own.
    #[must_use]
    pub fn with_handles(mut self, handles: Handles) -> Self {
        self.handles = handles;
        self
    }

    /// Returns the handles to watch the run and to stop it.
    pub fn handles(&self) -> Handles {
        self.handles.clone()
    }

    /// Unpacks. Blocks until the result is durable, or until everything has been taken back.
    ///
    /// A thread of its own does the work. It confines itself and the threads that it starts; the
    /// caller keeps its rights, its niceness, its processors and its I/O priority.
    pub fn run(self) -> Result<Report, UnpackError> {
        on_a_thread_of_its_own(|| self.run_on_this_thread(|| Ok(())))
    }

    /// Unpacks like [`run`](Self::run), but confines the calling thread, for good: it and the
    /// threads that it starts later can open nothing any more. The thread also keeps the niceness,
    /// the processors and the I/O priority of the run. For programs that do nothing else: when all
    /// threads of a process are confined, the process is.
    ///
    /// `confined` is called once that is done, before the archive is read. It is the place to start
    /// threads that are to be confined as well. If it fails (no thread could be started), the run
    /// ends.
    pub fn run_on_this_thread(
        self,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Report, UnpackError> {
        let Self { options, handles } = &self;
        pipeline::stage(options, handles, confined, |_| Ok(()), None)?.publish(&handles.progress)
    }

    /// Unpacks like [`run`](Self::run), but leaves it to the caller to give the result its names: see
    /// [`Staged`]. For a validator's state, whose places the caller clears first.
    ///
    /// `fits` is called on the calling thread, before the first byte is written, when it is known
    /// that there is room, and how. If it fails, the run ends.
    pub fn stage<E: From<UnpackError>>(
        self,
        fits: impl FnOnce(Room) -> Result<(), E>,
    ) -> Result<Staged, E> {
        let (ask, asked) = sync_channel(1);
        let (answer, answered) = sync_channel(1);
        let Self { options, handles } = &self;
        let mut refused = None;
        let staged = thread::scope(|scope| {
            let work = move || {
                let fits = |room| {
                    // Both sides wait for each other: neither can be gone.
                    let sent = ask.send(room).ok();
                    let answer = sent.and_then(|()| answered.recv().ok());
                    answer.unwrap_or(Err(UnpackError::CANCELLED))
                };
                pipeline::stage(options, handles, || Ok(()), fits, None)
            };
            let thread = thread::Builder::new().name("unsnap-walk".to_owned());
            let thread = thread.spawn_scoped(scope, work).map_err(PassError::thread)?;
            if let Ok(room) = asked.recv() {
                let fits = fits(room).map_err(|error| refused = Some(error));
                let _ = answer.send(fits.map_err(|()| UnpackError::CANCELLED));
            }
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        match (staged, refused) {
            (Ok(inner), _) => Ok(Staged { inner, handles: self.handles }),
            (Err(_), Some(refused)) => Err(refused),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// Goes through a single archive with all the checks that were asked for, while `tap` listens to
    /// the decoded stream. What it heard can be relied upon when this has succeeded. Nothing is
    /// written: the options' destination must be [`Destination::Nowhere`].
    ///
    /// A confined thread of its own does the work, and the listening; threads that the tap hands work
    /// to, and that were started before, keep their rights.
    pub fn tap(self, tap: &mut dyn Tap) -> Result<Report, UnpackError> {
        let Self { options, handles } = &self;
        if options.writes() || options.archives().len() > 1 {
            let reason = "only a single archive that is not unpacked can be listened to";
            return Err(PassError::request(reason).into());
        }
        on_a_thread_of_its_own(|| {
            pipeline::stage(options, handles, || Ok(()), |_| Ok(()), Some(tap))?
                .publish(&handles.progress)
        })
    }
}

/// A result that is complete and durable, but has no names yet. Dropped, it takes everything back.
pub struct Staged {
    inner: pipeline::Staged,
    handles: Handles,
}

impl Staged {
    /// Gives everything its final names, durably; the output comes last, since it says that all is
    /// there. By then the destinations must be absent or empty directories.
    ///
    /// On an error nothing has a name, as far as that can be taken back.
    pub fn publish(self) -> Result<Report, UnpackError> {
        self.inner.publish(&self.handles.progress)
    }
}
