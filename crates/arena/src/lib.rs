//! Page-aligned memory that is reserved once and lent out in pieces.
//!
//! An [`Arena`] is one anonymous reservation, aligned to 2 MiB and backed by huge pages where the
//! kernel provides them. It is cut into [`Pool`]s, one for each use, each with its own bound, so
//! that one stage can never starve another. A pool lends [`Block`]s:
//!
//! | handle      | access                  | held by |
//! |-------------|-------------------------|--------------|
//! | [`Block`]   | exclusive, read + write | a reader or a decoder that fills it |
//! | [`Slice`]   | shared, read only       | writers, the decoder's window |
//! | [`Segment`] | a slice plus the exclusive headroom in front of it | the tar walk |
//!
//! Blocks can be split and frozen but never aliased. The memory returns to its pool when the last
//! handle on any part of the lent range is dropped. Moving a handle into an I/O operation is
//! therefore enough to keep the memory alive for the kernel.
//!
//! Where a machine has several NUMA nodes, the pages are spread over them.
//!
//! This crate knows nothing of files, rings or formats. A ring that wants to register the
//! reservation gets its addresses from [`Arena::ranges`].
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

mod arena;
mod block;
mod error;
mod lease;
mod mapping;
mod nodes;
mod pool;
mod segment;

pub use arena::{Arena, ArenaBuilder, ArenaRanges};
pub use block::{Block, Slice};
pub use error::ArenaError;
pub use mapping::PageKind;
pub use nodes::NodeSet;
pub use pool::{Pool, PoolClosed};
pub use segment::{CARRY_BYTES_MAX, OpenSegment, Segment, SegmentView};

/// Allocation granularity and alignment of every block, in bytes. Direct I/O, the page cache and
/// the supported file systems all agree on this page size.
pub const PAGE_BYTES: usize = 4096;
