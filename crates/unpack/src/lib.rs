#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! An archive becomes a durable tree of files.
//!
//! [`Config`] says what to unpack and where to, [`Unpacker`] does it, [`Report`] tells what was
//! done and where the time went. Success means: every file is complete, on the disk, and under its
//! final name, and stays so through a power cut. Anything else is an [`Error`], and the destination
//! is as it was.
//!
//! Archives are hostile until they have been parsed. So the run confines itself before it looks at
//! one: [`SandboxMode`] says how far, and what that is worth in a process of many threads.
//!
//! ```no_run
//! use unsnap_unpack::{Archive, Config, Unpacker};
//!
//! # fn main() -> Result<(), unsnap_unpack::Error> {
//! let archive = Archive::File("snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst".into());
//! let mut config = Config::new(archive, "/mnt/ledger/unpacked");
//! config.accounts = vec!["/mnt/accounts/run".into()];
//!
//! let unpacker = Unpacker::new(config);
//! let progress = unpacker.progress();
//! let stop = unpacker.cancel_token();
//! std::thread::spawn(move || {
//!     println!("{} files so far", progress.snapshot().files);
//!     // `stop.cancel()` would end the run and take everything back.
//!     drop(stop);
//! });
//! let report = unpacker.run()?;
//! println!("{} files, limited by {}", report.files, report.limited_by);
//! # Ok(())
//! # }
//! ```
//!
//! The pipeline itself is one function, `run` in `pipeline.rs`.

mod account;
mod again;
mod bank;
mod candidates;
mod checkpoints;
mod code;
mod config;
mod content;
mod error;
mod journal;
mod manifest;
mod members;
mod neighbour;
mod opening;
mod parts;
mod paused;
mod pipeline;
mod places;
mod preflight;
mod progress;
mod report;
mod resources;
mod resume;
mod sandbox;
pub mod settings;
mod shadow;
mod shortage;
mod size;
mod space;
mod stages;
mod staging;
mod state;
mod tap;
mod times;
mod walk;
mod walks;
mod watch;
mod writeback;

use std::{io, ops::ControlFlow, sync::mpsc::sync_channel, thread};

pub use candidates::{Candidate, Candidates, FileIdentity, Pair, SearchDirs};
pub use code::Code;
pub use config::{
    Archive, Compromised, Config, DecodeTuning, Digest, DigestKind, DirectMode, FastbootFormat,
    FaultPlan, IndexUse, IoEngine, IoPriority, LayoutKind, Limits, Pace, PreflightMode,
    RUN_DIRECTORY, SHADOW_DIRECTORY, STAGED, State, Tuning, Verify,
};
pub use error::{Error, Family, io_hint};
pub use neighbour::{CpuSet, NotACpuSet};
pub use parts::{
    Account, AccountsFound, BankInspection, Extracted, FrameFacts, Histogram, Inspection,
    OwnerTotals, Producer, Reads, Selection, Sizes, StorageFacts, WhatToInspect,
};
use pipeline::no_thread;
pub use preflight::Room;
pub use progress::{CancelToken, Phase, Progress, Snapshot};
pub use report::{
    AccountsPathReport, AccountsReport, BankReport, FileSystemReport, IncrementalReport,
    LimitsReport, PreflightReport, Report, Resumed, ThreadReport,
};
pub use sandbox::{SandboxMode, SandboxReport, survey_sandbox};
pub use shadow::{DamagedList, SHADOW_LIST, SHADOW_LIST_BYTES_MAX, ShadowList};
pub use shortage::{Resource, Shortage};
pub use size::parse_size;
pub use tap::{Passing, Tap};
pub use unsnap_arena::Slice;
pub use unsnap_create::{FileSink, FinishedFile};
pub use unsnap_index::{Index, IndexError, ReadCounts, ReadOptions, side_car_path};
pub use unsnap_layout::{ArchiveHash, ArchiveName, BankFacts, Compression, Role};
pub use unsnap_ring::{NotAnIoPriority, Syscalls};
pub use unsnap_source::SourceError;
pub use unsnap_tarstream::{Member, MemberKind, printable};

/// Unpacks one archive.
#[derive(Debug)]
pub struct Unpacker {
    config: Config,
    progress: Progress,
    cancel: CancelToken,
}

impl Unpacker {
    /// Takes the configuration; nothing is touched before [`run`](Self::run).
    pub fn new(config: Config) -> Self {
        Self { config, progress: Progress::default(), cancel: CancelToken::default() }
    }

    /// Takes handles that others hold already, in place of its own.
    #[must_use]
    pub fn with_handles(mut self, progress: Progress, cancel: CancelToken) -> Self {
        (self.progress, self.cancel) = (progress, cancel);
        self
    }

    /// A handle to watch the run by.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// A handle to stop the run by.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Unpacks. Blocks until the result is durable, or until everything has been taken back.
    ///
    /// The work is done by a thread of its own, which confines itself and what it starts
    /// ([`SandboxMode`]); the caller keeps its rights, and its niceness, processors and I/O priority.
    pub fn run(self) -> Result<Report, Error> {
        on_a_thread_of_its_own(|| self.run_on_this_thread(|| Ok(())))
    }

    /// Unpacks like [`run`](Self::run), but confines the calling thread, for good: it and the
    /// threads that it starts later can open nothing any more. It also keeps the niceness, the
    /// processors and the I/O priority of the run. For programs that do nothing else: when all threads
    /// of a process are confined, the process is.
    ///
    /// `confined` is called once that is done, before the archive is looked at. It is the place to
    /// start threads that shall be confined as well. An error of it (no thread could be started)
    /// ends the run.
    pub fn run_on_this_thread(
        self,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Report, Error> {
        pipeline::run(&self.config, &self.progress, &self.cancel, confined)
    }

    /// Unpacks like [`run`](Self::run), but for giving the result its names, which is up to the
    /// caller: see [`Staged`]. For a validator's state ([`Config::state`]), whose places are cleared by
    /// then.
    ///
    /// `fits` is called on the calling thread, before the first byte is written, when it is known
    /// that there is room, and how. An error of it ends the run.
    pub fn stage(self, fits: impl FnOnce(Room) -> Result<(), Error>) -> Result<Staged, Error> {
        let (ask, asked) = sync_channel(1);
        let (answer, answered) = sync_channel(1);
        let Self { config, progress, cancel } = &self;
        let inner = thread::scope(|scope| {
            let work = move || {
                pipeline::stage(
                    config,
                    progress,
                    cancel,
                    || Ok(()),
                    |room| {
                        // Whoever asks waits for us, and the other way round: neither can be gone.
                        let sent = ask.send(room).ok();
                        sent.and_then(|()| answered.recv().ok()).unwrap_or(Err(Error::Cancelled))
                    },
                    None,
                )
            };
            let thread = thread::Builder::new().name("unsnap-walk".to_owned());
            let thread = thread.spawn_scoped(scope, work).map_err(|error| no_thread(&error))?;
            if let Ok(room) = asked.recv() {
                let _ = answer.send(fits(room));
            }
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Ok(Staged { inner, progress: self.progress })
    }

    /// Holds the bank file to the archive's name, without looking at what follows it. It costs the
    /// first megabytes of a real archive. The work is done by a confined thread of its own.
    pub fn prove(self) -> Result<BankFacts, Error> {
        on_a_thread_of_its_own(|| pipeline::prove(&self.config, &self.progress, &self.cancel))
    }

    /// Walks the archive as a dry run does, with all the checks that were asked for, while `tap`
    /// listens to the decoded stream. What it has heard may be taken for good when this has
    /// succeeded. [`Config::dry_run`] must be set, and there must be no second archive.
    ///
    /// The work is done by a confined thread of its own, and so is the listening; threads that the
    /// tap hands work to, and that were started before, keep their rights.
    pub fn tap(self, tap: &mut dyn Tap) -> Result<Report, Error> {
        on_a_thread_of_its_own(|| pipeline::tap(&self.config, &self.progress, &self.cancel, tap))
    }

    /// Finds out where everything is in the archive, by a pass over all of it that proves its end. The
    /// work is done by a confined thread of its own; to write the index down is left to the caller.
    pub fn index(self) -> Result<Index, Error> {
        on_a_thread_of_its_own(|| parts::make(&self.config, &self.progress, &self.cancel))
    }

    /// Takes single entries out of the archive, into the directory [`Config::output`], which appears
    /// complete and durable or not at all. With an index only the frames that hold them are read and
    /// decoded; without, the archive up to its end, or until all have been found if they are named
    /// one by one. Confines the calling thread, like
    /// [`run_on_this_thread`](Self::run_on_this_thread).
    pub fn extract_on_this_thread(
        self,
        what: &Selection,
        how: ReadOptions,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Extracted, Error> {
        let Self { config, progress, cancel } = &self;
        parts::extract(config, progress, cancel, what, how, parts::To::Directory, confined)
    }

    /// Writes the content of one entry to `output`. Fails if there is none, or more than one.
    pub fn extract_one_on_this_thread(
        self,
        what: &Selection,
        how: ReadOptions,
        output: &mut dyn io::Write,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Extracted, Error> {
        let Self { config, progress, cancel } = &self;
        parts::extract(config, progress, cancel, what, how, parts::To::Stream(output), confined)
    }

    /// Finds the newest versions of accounts, in the archive and, if there is one, in the incremental
    /// archive upon it: of each that with the highest slot. Of storages only those in
    /// [`Selection::slots`] are looked at, or all if there are none: that takes a pass over all of the
    /// archives. Confines the calling thread.
    pub fn accounts_on_this_thread(
        self,
        keys: &[[u8; 32]],
        what: &Selection,
        how: ReadOptions,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<AccountsFound, Error> {
        let Self { config, progress, cancel } = &self;
        parts::find_accounts(config, progress, cancel, keys, what, how, confined)
    }

    /// Looks at an archive: what it is, who has made it, what its bank file says. Reads only what holds
    /// that, unless more is wanted. Confines the calling thread.
    pub fn inspect_on_this_thread(
        self,
        what: WhatToInspect,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Inspection, Error> {
        parts::inspect(&self.config, &self.progress, &self.cancel, what, confined)
    }

    /// Walks the archive without creating anything and shows `visit` every member, in order, with
    /// nothing refused but what is no tar. Ends early when `visit` breaks. `visit` is called on a
    /// confined thread, see [`run`](Self::run).
    pub fn list(
        self,
        visit: impl FnMut(&Member<'_>) -> ControlFlow<()> + Send,
    ) -> Result<(), Error> {
        on_a_thread_of_its_own(|| self.list_on_this_thread(|| Ok(()), visit))
    }

    /// Lists like [`list`](Self::list), but confines the calling thread, like
    /// [`run_on_this_thread`](Self::run_on_this_thread).
    pub fn list_on_this_thread(
        self,
        confined: impl FnOnce() -> io::Result<()>,
        visit: impl FnMut(&Member<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        pipeline::list(&self.config, &self.progress, &self.cancel, confined, visit)
    }
}

/// What is complete and durable, but has no names yet. Dropped, it takes everything back.
pub struct Staged {
    inner: pipeline::Staged,
    progress: Progress,
}

impl Staged {
    /// Gives everything its final names, durably: the output, which says that all is there, last. By
    /// then there must be nothing at the destinations, or empty directories.
    ///
    /// On an error nothing has a name, as far as that can be taken back.
    pub fn publish(self) -> Result<Report, Error> {
        self.inner.publish(&self.progress)
    }
}

fn on_a_thread_of_its_own<T: Send>(
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("unsnap-walk".to_owned());
        let thread = thread.spawn_scoped(scope, work).map_err(|error| no_thread(&error))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
