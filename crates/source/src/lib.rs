#![forbid(unsafe_code)]
//! Sources of an archive's bytes: files and streams.
//!
//! A [`Source`] returns consecutive [`Span`]s of an archive. A span is a counted reference to
//! memory that returns to the source's pool when the decoder drops it. There are two kinds:
//!
//! | kind | for | how |
//! |---|---|---|
//! | [`SequentialFileReader`] | regular files | several aligned reads in flight, direct or cached |
//! | [`StreamReader`] | standard input, pipes | a thread that reads ahead |
//!
//! What is done with the spans on their way ([`Digesting`], [`Pausing`], [`Showing`],
//! [`Skipping`]) is a [`Step`], which spans pass [`Through`].
//!
//! Opening a file is a separate first step. An [`ArchiveFile`] holds every descriptor that its
//! reader needs, so that a process may give up the right to open files before it looks at a byte.
//!
//! Sources do not interpret the bytes, and their callers decide when to stop reading.

use std::time::Duration;

use unsnap_arena::{Block, Slice};
use unsnap_ring::WorkerTimes;

mod chained;
mod digest;
mod digesting;
mod error;
mod failure;
mod file;
mod pausing;
mod reader;
mod showing;
mod skipping;
mod stream;
mod through;

pub use chained::Chained;
pub use digest::{Digest, DigestKind, Hasher, NotADigest};
pub use digesting::Digesting;
pub use error::SourceError;
pub use file::ArchiveFile;
pub use pausing::Pausing;
pub use reader::{ReaderBuilder, SequentialFileReader, default_chunk_bytes};
pub use showing::Showing;
pub use skipping::Skipping;
pub use stream::{StreamReader, read_head};
pub use through::{Step, Through};

/// A contiguous part of the archive.
#[derive(Clone, Debug)]
pub struct Span {
    /// Offset of its first byte in the archive.
    pub offset: u64,
    /// Bytes of the span, at least one.
    pub bytes: Slice,
}

/// Properties and statistics of a source, for the report.
#[derive(Clone, Debug, Default)]
pub struct SourceTraits {
    /// Whether reads bypass the page cache.
    pub direct: bool,
    /// Whether buffers are registered with the ring.
    pub registered_buffers: bool,
    /// Whether the ring is restricted to the operations of engines; `None` if there is no ring.
    pub ring_restricted: Option<bool>,
    /// Name of the engine; `None` for a stream, which has no engine.
    pub engine: Option<&'static str>,
    /// Bytes read from the page cache because they were already there.
    pub cached_bytes: u64,
    /// Digest of all bytes, if requested and once the end has been reached.
    pub digest: Option<Digest>,
    /// Running times of the engine's worker threads.
    pub workers: Vec<WorkerTimes>,
    /// Messages on requested features that were not available.
    pub fallbacks: Vec<String>,
}

/// Provides an archive from its first byte to its last.
pub trait Source: Send {
    /// Returns the next bytes, in order and without gaps; `None` at the true end and ever after. An
    /// error is returned only after all bytes before it.
    fn next_span(&mut self) -> Result<Option<Span>, SourceError>;

    /// Returns the memory directly in front of the span returned last, if the source has reserved it
    /// for whoever passes the span on. Each is returned once.
    fn headroom(&mut self) -> Option<Block> {
        None
    }

    /// Returns the size of the archive in bytes, if it is known beforehand.
    fn len(&self) -> Option<u64>;

    /// Returns whether the archive is known to be empty.
    fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Returns the time spent so far waiting for bytes to arrive.
    fn waited(&self) -> Duration;

    /// Returns the time spent so far waiting for memory to read into, which the decoder returns.
    fn waited_for_memory(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the properties of the source and its statistics so far.
    fn traits(&self) -> SourceTraits;
}
