//! Why bytes could not be read.

use std::path::PathBuf;

use rustix::io::Errno;
use unsnap_ring::EngineError;

/// A source failed. All but [`SourceError::Alignment`] (a request that makes no sense) are
/// matters of the environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The file could not be opened or asked about.
    #[error("cannot open {}: {errno}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A read failed.
    #[error("cannot read {} at byte {offset}: {errno}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The file ended before the size it had when it was opened.
    #[error(
        "{} shrank while it was read: {expected} bytes when opened, now it ends at byte {found}",
        path.display()
    )]
    Shrank {
        /// The file.
        path: PathBuf,
        /// Its size when opened.
        expected: u64,
        /// Where it ends now.
        found: u64,
    },
    /// The file is longer than when it was opened: it is still being written.
    #[error(
        "{} grew while it was read: {expected} bytes when opened, {found} now; it is still being written",
        path.display()
    )]
    Grew {
        /// The file.
        path: PathBuf,
        /// Its size when opened.
        expected: u64,
        /// Its size at the end of the reading.
        found: u64,
    },
    /// Direct I/O was demanded and cannot be had.
    #[error("cannot read {} by direct I/O: {reason}", path.display())]
    DirectRefused {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The chunk size fits neither pages nor the pool.
    #[error(
        "a read size of {chunk_bytes} bytes is not a multiple of 4096 between 4096 and the {pool_bytes} bytes of the read buffer"
    )]
    Alignment {
        /// The size asked for.
        chunk_bytes: usize,
        /// The memory there is.
        pool_bytes: usize,
    },
    /// The I/O engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The run is being given up; nobody waits for these bytes any more.
    #[error("reading was cancelled")]
    Cancelled,
}
