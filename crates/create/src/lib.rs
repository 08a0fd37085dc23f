#![forbid(unsafe_code)]
//! File creation: writes payloads from decoded segments into files.
//!
//! ```text
//!  walk thread                            for each destination device two threads: one for
//!                                         large files, one for small files
//!  Assembler ── batches of Commands (bounded) ──▶ creator ── Operations ──▶ ring engine
//!      │                                             ▲                          │
//!      └ carry: the incomplete last 4096-byte file   └──────── completions ─────┘
//!        block, moved into the next segment's headroom
//! ```
//!
//! No payload byte is copied in user space, except the carry between two segments. Every write is a
//! counted reference to a range of a segment, and the segment's memory returns to its pool when its
//! last write has completed.
//!
//! * [`Destination`]: a directory below which files are created, with the capabilities of its file
//!   system.
//! * [`Assembler`]: splits payloads into writes and chooses direct or buffered I/O for each file.
//! * [`CreatorPool`]: the creators of each device, each with its own engine. Archives that are
//!   unpacked at the same time share them, each through its own assembler.
//! * [`FileSink`]: receives files as they become complete.
//!
//! Other crates handle names and limits (layout), durability and publication (unpack). Data of a
//! complete file is in the kernel but not necessarily on the disk.

mod assembler;
mod creator;
mod destination;
mod error;
mod failure;
mod feeder;
mod limiter;
mod lost;
#[cfg(test)]
mod modelled;
mod pool;
mod request;
mod shared;
mod sink;
mod ticket;
mod times;

pub use assembler::{Assembler, NewMember};
pub use destination::Destination;
pub use error::CreateError;
pub use lost::LostFile;
pub use pool::{CreatorPool, PoolConfig};
pub use request::FileId;
pub use shared::{CreateProgress, Written};
pub use sink::{FileSink, FinishedFile};
pub use times::{CreatorTimes, FileKind};

/// Unit of direct writes in bytes, even if the device accepts a smaller one: the block size of ext4
/// and XFS, so that no block is written twice.
const FILE_BLOCK_BYTES: usize = unsnap_arena::PAGE_BYTES;
