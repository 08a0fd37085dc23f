#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! Unpacking of archives into a durable tree of files, or into the state from which a validator
//! starts.
//!
//! [`Options`] name the archives, the destination and all settings; [`Unpacker`] carries them out;
//! [`Report`] holds counts and times. Success means that every file is complete, on the disk, under
//! its final name, and survives a power cut. Any failure is an [`UnpackError`], and the destination
//! is unchanged. There is one exception: after a crash between the publications of several
//! destinations, or while entries are moved into a mount point, those published so far stay.
//!
//! Archives are hostile until they have been parsed. Therefore a run confines itself before it
//! reads one: see [`SandboxMode`](unsnap_pass::SandboxMode).
//!
//! ```no_run
//! use unsnap_pass::{Archive, Handles};
//! use unsnap_source::DigestKind;
//! use unsnap_unpack::{DigestUse, Options, Single, Tree, UnpackError, Unpacker};
//!
//! # fn main() -> Result<(), UnpackError> {
//! let archive = "snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";
//! let source = Single::snapshot(Archive::File(archive.into()));
//! let mut tree = Tree::new("/mnt/ledger/unpacked");
//! tree.accounts = vec!["/mnt/accounts/run".into()];
//! let digest = DigestUse::Report(DigestKind::Xxh3);
//! let options = Options::for_tree(source, tree, digest);
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
mod decision;
mod destination;
mod error;
mod grace;
mod last_checkpoint;
mod options;
mod pipeline;
mod places;
mod process;
mod report;
mod report_builder;
mod resume;
mod second_look;
mod source;
mod storages;
mod structure;
mod tees;
mod times;
mod walk;
mod walks;

use std::{io, sync::mpsc::sync_channel, thread};

pub use destination::{Destination, Tree};
pub use error::UnpackError;
pub use options::{CheckOutputs, DigestUse, Options, TeeTo};
pub use report::{
    AccountsArchive, AccountsReport, BankReport, CreatorReport, IncrementalReport, Report, Resumed,
    ReusedReport, TeeReport, ThreadReport,
};
pub use source::{FileByFile, FileChecks, Single, Source, Upon, Verify};
pub use unsnap_create::{FileSink, FinishedFile};
pub use unsnap_fit::{PreflightMode, Reserve, Room};
pub use unsnap_layout::{Pair, PairError};
pub use unsnap_state::{AccountsPaths, Base, State};

use unsnap_pass::{Handles, PassError, Tap, on_a_thread_of_its_own};

/// Unpacks archives.
#[derive(Debug)]
pub struct Unpacker {
    options: Options,
    handles: Handles,
}

impl Unpacker {
    /// Creates an unpacker. Nothing is touched before [`run`](Self::run).
    pub fn new(options: Options) -> Self {
        Self { options, handles: Handles::default() }
    }

    /// Uses the caller's handles in place of its own.
    #[must_use]
    pub fn with_handles(mut self, handles: Handles) -> Self {
        self.handles = handles;
        self
    }

    /// Returns the handles for watching and stopping the run.
    pub fn handles(&self) -> Handles {
        self.handles.clone()
    }

    /// Unpacks. Blocks until the result is durable, or until all files of a failed run are removed.
    ///
    /// The work is done on a separate thread. It confines itself and the threads that it starts;
    /// the caller keeps its rights, niceness, processors and I/O priority.
    pub fn run(self) -> Result<Report, UnpackError> {
        on_a_thread_of_its_own(|| self.run_on_this_thread(|| Ok(())))
    }

    /// Unpacks like [`run`](Self::run), but confines the calling thread permanently: this thread
    /// and its later threads can open nothing any more. The thread also keeps the niceness,
    /// processors and I/O priority of the run. Use this in programs that do nothing else: a process
    /// is confined when all of its threads are.
    ///
    /// Calls `confined` after confining and before the archive is read. This is the place to start
    /// threads that must be confined as well. If it fails (because no thread could be started), the
    /// run ends.
    pub fn run_on_this_thread(
        self,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Report, UnpackError> {
        let Self { options, handles } = &self;
        pipeline::stage(options, handles, confined, |_| Ok(()), None)?.publish(&handles.progress)
    }

    /// Unpacks like [`run`](Self::run), but leaves publishing to the caller: see [`Staged`]. Used
    /// for a validator's state, whose places the caller clears first.
    ///
    /// Calls `fits` on the calling thread before the first byte is written, once it is known that
    /// there is room, and how. If it fails, the run ends.
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
                    // Both sides wait for each other, so neither can have ended.
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

    /// Decodes a single archive with all requested checks and shows the stream to `tap`. The stream
    /// can be relied upon once this has succeeded. Nothing is written: the destination must be
    /// [`Destination::Nowhere`].
    ///
    /// The work, including the calls of `tap`, is done on a separate, confined thread. Threads that
    /// the tap uses, and that were started before, keep their rights.
    pub fn tap(self, tap: &mut dyn Tap) -> Result<Report, UnpackError> {
        let Self { options, handles } = &self;
        if options.writes() || options.archives().len() > 1 {
            let reason = "only a single archive that is not written anywhere can be tapped";
            return Err(PassError::request(reason).into());
        }
        on_a_thread_of_its_own(|| {
            pipeline::stage(options, handles, || Ok(()), |_| Ok(()), Some(tap))?
                .publish(&handles.progress)
        })
    }
}

/// A result that is complete and durable, but not published. Its files are removed if it is
/// dropped.
pub struct Staged {
    inner: pipeline::Staged,
    handles: Handles,
}

impl Staged {
    /// Publishes all files under their final names, durably. The output comes last, since its
    /// existence implies that everything is complete. Until then, the destinations must be absent
    /// or empty directories.
    ///
    /// On an error nothing stays published, as far as that can be undone.
    pub fn publish(self) -> Result<Report, UnpackError> {
        self.inner.publish(&self.handles.progress)
    }
}
