#![forbid(unsafe_code)]
//! An archive becomes a durable tree of files.
//!
//! [`Config`] says what to unpack and where to, [`Unpacker`] does it, [`Report`] tells what was
//! done and where the time went. Success means: every file is complete, on the disk, and under its
//! final name, and stays so through a power cut. Anything else is an [`Error`], and the destination
//! is as it was.
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
mod config;
mod error;
mod pipeline;
mod progress;
mod report;
mod resources;
mod staging;
mod times;
mod walk;
mod writeback;

use std::ops::ControlFlow;

pub use config::{
    Archive, Config, DecodeTuning, DirectMode, FaultPlan, IoEngine, LayoutKind, Limits, Tuning,
};
pub use error::{Error, Family, io_hint};
pub use progress::{CancelToken, Phase, Progress, Snapshot};
pub use report::{Report, ThreadReport};
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

    /// A handle to watch the run by.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// A handle to stop the run by.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Unpacks. Blocks until the result is durable, or until everything has been taken back.
    pub fn run(self) -> Result<Report, Error> {
        pipeline::run(&self.config, &self.progress, &self.cancel)
    }

    /// Walks the archive without creating anything and shows `visit` every member, in order, with
    /// nothing refused but what is no tar. Ends early when `visit` breaks.
    pub fn list(self, visit: impl FnMut(&Member<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        pipeline::list(&self.config, &self.progress, &self.cancel, visit)
    }
}
