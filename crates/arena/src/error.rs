//! Error of a reservation.

/// Memory could not be reserved or cut into pools. Always the fault of the environment or of the
/// request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The kernel refused the reservation.
    #[error("cannot reserve {bytes} bytes of memory: {source}")]
    Reserve {
        /// Requested bytes, including those for alignment.
        bytes: usize,
        /// Error returned by the kernel.
        source: rustix::io::Errno,
    },
    /// A pool is larger than the uncut part of the reservation.
    #[error("a memory pool of {asked} bytes does not fit into the {left} bytes left in the arena")]
    Exhausted {
        /// Requested bytes.
        asked: usize,
        /// Bytes not yet cut into pools.
        left: usize,
    },
}
