#![forbid(unsafe_code)]
//! Payloads leave the segments and become files.
//!
//! ```text
//!  walk thread                            for each destination device two threads: one for
//!                                         direct files, one for files in the page cache
//!  Assembler ── batches of Commands (bounded) ──▶ creator ── Operations ──▶ ring engine
//!      │                                             ▲                          │
//!      └ carry: what does not fill a 4096-byte       └──────── completions ─────┘
//!        file block, into the next segment's headroom
//! ```
//!
//! No payload byte is copied in user space, except the carry at a segment's border: every write
//! is a counted reference to a segment plus a range, and the segment's memory returns to its pool
//! when its last write has completed.
//!
//! * [`Destination`]: a directory below which files are created, and what its file system can do.
//! * [`Assembler`]: cuts payloads into writes, and decides direct or buffered for each file.
//! * [`CreatorPool`]: the creators of each device, each with an engine of its own. Archives that are
//!   unpacked at once share them, each through an assembler of its own.
//! * [`FileSink`]: who is told of files as they become complete.
//!
//! What is left to others: names and limits (layout), durability and publication (unpack). A file
//! that is complete here is in the kernel's hands, not yet on the disk.

mod assembler;
mod creator;
mod destination;
mod error;
mod failure;
mod feeder;
mod pool;
mod request;
mod shared;
mod sink;
mod ticket;

pub use assembler::{Assembler, NewMember};
pub use destination::Destination;
pub use error::CreateError;
pub use pool::{CreatorPool, CreatorTimes, PoolConfig};
pub use shared::{CreateProgress, Written};
pub use sink::{FileSink, FinishedFile};

/// File blocks that direct writes are made of, whatever smaller unit the device takes: the block
/// size of ext4 and XFS, so that no block is written twice.
const FILE_BLOCK_BYTES: usize = unsnap_arena::PAGE_BYTES;
