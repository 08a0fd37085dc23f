//! Errors of sources.

use std::path::PathBuf;

use rustix::io::Errno;
use unsnap_failure::Failure;
use unsnap_ring::EngineError;

/// A source failed. All variants except [`SourceError::Alignment`], an invalid request, are faults
/// of the environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The file could not be opened or examined.
    #[error("cannot open {}: {errno}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error returned by the kernel.
        errno: Errno,
    },
    /// A read failed.
    #[error("cannot read {} at byte {offset}: {errno}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Offset at which the read began.
        offset: u64,
        /// Error returned by the kernel.
        errno: Errno,
    },
    /// The file ended before the size it had when it was opened.
    #[error("{} shrank while being read, from {expected} to {found} bytes", path.display())]
    Shrank {
        /// Path of the file.
        path: PathBuf,
        /// Size in bytes when opened.
        expected: u64,
        /// Current size in bytes.
        found: u64,
    },
    /// The file is larger than when it was opened: it is still being written.
    #[error(
        "{} grew while being read, from {expected} to {found} bytes: it is still being written",
        path.display()
    )]
    Grew {
        /// Path of the file.
        path: PathBuf,
        /// Size in bytes when opened.
        expected: u64,
        /// Size in bytes at the end of reading.
        found: u64,
    },
    /// Direct I/O was requested but is not available.
    #[error("cannot read {} with direct I/O: {reason}", path.display())]
    DirectRefused {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The chunk size is not a multiple of the page size or exceeds the pool.
    #[error(
        "the read size of {chunk_bytes} bytes is not a multiple of 4096 between 4096 and the \
         {pool_bytes} bytes of the read buffer"
    )]
    Alignment {
        /// Requested chunk size in bytes.
        chunk_bytes: usize,
        /// Size of the pool in bytes.
        pool_bytes: usize,
    },
    /// The I/O engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A server failed to send the archive.
    #[error("{0}")]
    Remote(Box<dyn Failure + Send + Sync>),
    /// The run is being aborted; nobody waits for these bytes any more.
    #[error("reading was cancelled")]
    Cancelled,
}
