//! Memory that is taken once and lent out in pieces.
//!
//! An [`Arena`] is one anonymous reservation, aligned to 2 MiB and backed by huge pages where the
//! kernel has them. It is cut into [`Pool`]s, one for each use with a bound of its own, so that
//! one stage can never starve another. A pool lends [`Block`]s:
//!
//! | handle      | access                  | who holds it |
//! |-------------|-------------------------|--------------|
//! | [`Block`]   | exclusive, read + write | a reader or a decoder that fills it |
//! | [`Slice`]   | shared, read only       | writers, the decoder's window |
//! | [`Segment`] | a slice plus the exclusive headroom in front of it | the tar walk |
//!
//! Blocks can be split and frozen, never aliased: the memory goes back to its pool when the last
//! handle on any part of the lent range is dropped. Moving a handle into an I/O operation is
//! therefore enough to keep the memory alive for the kernel.
//!
//! What this crate leaves to others: it knows nothing of files, rings or formats. Registering the
//! reservation with a ring is up to the ring, which asks for [`Arena::ranges`].
//!
//! ```
//! use unsnap_arena::Arena;
//!
//! # fn main() -> Result<(), unsnap_arena::ArenaError> {
//! let mut arena = Arena::builder().bytes(4 << 20).build()?;
//! let pool = arena.pool(4 << 20)?;
//! let mut block = pool.try_allocate(1 << 20).expect("an empty pool has room");
//! block[..5].copy_from_slice(b"hello");
//! let shared = block.freeze();
//! assert_eq!(&shared[..5], b"hello");
//! # Ok(())
//! # }
//! ```

mod block;
mod map;
mod pool;
mod segment;

pub use block::{Block, Slice};
pub use map::{Arena, ArenaBuilder, ArenaError, ArenaRanges, PageKind};
pub use pool::{Pool, PoolClosed};
pub use segment::{CARRY_BYTES_MAX, OpenSegment, Segment, SegmentView, TAIL_SLACK_BYTES};

/// The granule of lending, and the alignment of every block: the page size that direct I/O, the
/// page cache and the file systems we meet agree on.
pub const PAGE_BYTES: usize = 4096;
