#![forbid(unsafe_code)]
//! The last stage: files that are complete become a durable result with its final name.
//!
//! * [`Staging`]: nothing has its final name before it is durable.
//! * [`Writeback`]: bytes in the page cache are on their way to the disk long before the last sync.
//! * [`Checkpoints`] and [`Journal`]: what an interrupted run need not do again.
//! * [`Manifest`]: a list of all files with their digests.
//! * [`Target`]: all directories of a run, open.
//!
//! It leaves to others: what the files are, and in which order they come.

mod checkpoints;
mod error;
mod journal;
mod manifest;
mod staging;
mod target;
mod writeback;

pub use checkpoints::{CHECKPOINT_BYTES, Checkpoints, Origin};
pub use error::CommitError;
pub use journal::{
    ArchiveFile, Checkpoint, Journal, LoadError, Loaded, ReadRange, Recorded, Restart, Run,
    is_journal,
};
pub use manifest::Manifest;
pub use staging::{Existing, Spot, Staging};
pub use target::Target;
pub use writeback::{Due, SyncTarget, Writeback, WritebackTimes, WrittenBack};
