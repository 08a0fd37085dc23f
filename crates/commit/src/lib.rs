#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! The last stage of the pipeline: turns complete files into a durable result under its final name.
//!
//! * [`Staging`] builds destinations in staging directories and publishes them once they are
//!   durable.
//! * [`Writeback`] syncs the page cache early, long before the final sync.
//! * [`Checkpoints`] and [`Journal`] record the work that a resumed run need not repeat.
//! * [`FileWriter`] writes one large file, by direct I/O where that is possible.
//! * [`Manifest`] lists all files with their digests.
//! * [`Draft`] is a single file that gets its name when it is complete; [`Tee`] makes one of the
//!   bytes of an archive that is being received.
//! * [`Target`] holds all open directories of a run.
//!
//! Other crates decide which files exist and create them.

mod checkpoints;
mod draft;
mod error;
mod file_writer;
mod journal;
mod manifest;
mod mount;
mod staging;
mod target;
mod tee;
mod writeback;

pub use checkpoints::{CHECKPOINT_BYTES, Checkpoints, Origin, REMOTE_CHECKPOINT_BYTES};
pub use draft::{Draft, DraftError};
pub use error::CommitError;
pub use file_writer::FileWriter;
pub use journal::{
    ArchiveFile, ArchiveId, Checkpoint, Journal, LoadError, Loaded, ReadRange, Recorded, RemoteId,
    Restart, Run, is_journal, journal_written,
};
pub use manifest::Manifest;
pub use mount::is_same_mount;
pub use staging::{Existing, Spot, Staging};
pub use target::Target;
pub use tee::{CompleteTee, LeftPart, RunningTee, Tee, TeeLost, TeeRoom};
pub use writeback::{Due, SyncTarget, Writeback, WritebackTimes, WrittenBack};
