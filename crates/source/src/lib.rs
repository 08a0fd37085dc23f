#![forbid(unsafe_code)]
//! Where the bytes of an archive come from.
//!
//! A [`Source`] hands out consecutive [`Span`]s of an archive: counted references to memory that
//! returns to the source's pool when the decoder lets go of it. Two kinds:
//!
//! | kind | for | how |
//! |---|---|---|
//! | [`SequentialFileReader`] | regular files | several aligned reads in flight, direct I/O if wanted |
//! | [`StreamReader`] | standard input, pipes | one blocking read after the other |
//!
//! Opening comes first and apart: an [`ArchiveFile`] holds every descriptor that a reader made from
//! it needs, so that a process may give up the right to open files before it looks at a byte.
//!
//! What is left to others: what the bytes mean, and when enough has been read.

use std::time::Duration;

use unsnap_arena::Slice;
use unsnap_ring::WorkerTimes;

mod digest;
mod digesting;
mod error;
mod failure;
mod file;
mod pausing;
mod reader;
mod stream;

pub use digest::{Digest, DigestKind, Hasher, NotADigest};
pub use digesting::Digesting;
pub use error::SourceError;
pub use file::ArchiveFile;
pub use pausing::Pausing;
pub use reader::{ReaderBuilder, SequentialFileReader};
pub use stream::{StreamReader, read_head};

/// A stretch of the archive.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where it begins in the archive.
    pub offset: u64,
    /// Its bytes, at least one.
    pub bytes: Slice,
}

/// What a source turned out to be able to do; for the report.
#[derive(Clone, Debug, Default)]
pub struct SourceTraits {
    /// Reads bypass the page cache.
    pub direct: bool,
    /// Buffers are registered with the ring.
    pub registered_buffers: bool,
    /// Whether the ring takes only the operations of engines; `None` if there is no ring.
    pub ring_restricted: Option<bool>,
    /// The engine's name; `None` for a stream, which has none.
    pub engine: Option<&'static str>,
    /// Bytes that were read out of the page cache, because they were there.
    pub cached_bytes: u64,
    /// Digest of all bytes, once the end has been reached and if somebody asked for it.
    pub digest: Option<Digest>,
    /// Where the time of the engine's own threads has gone.
    pub workers: Vec<WorkerTimes>,
    /// What was wanted and could not be had, in words.
    pub fallbacks: Vec<String>,
}

/// Hands out an archive from its first byte to its last.
pub trait Source: Send {
    /// The next bytes, in order and without gaps; `None` at the true end, and ever after. An error
    /// comes when the bytes before it have been handed out.
    fn next_span(&mut self) -> Result<Option<Span>, SourceError>;

    /// Size of the archive in bytes, where it is known beforehand.
    fn len(&self) -> Option<u64>;

    /// Whether the archive is known to be empty.
    fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Time spent so far in waiting for bytes to arrive.
    fn waited(&self) -> Duration;

    /// Time spent so far in waiting for memory to read into, which those who decode return.
    fn waited_for_memory(&self) -> Duration {
        Duration::ZERO
    }

    /// What the source turned out to be able to do, and has done so far.
    fn traits(&self) -> SourceTraits;
}
