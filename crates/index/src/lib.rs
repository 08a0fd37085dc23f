#![forbid(unsafe_code)]
//! Index of an archive, and reads of parts of it.
//!
//! ```text
//! archive ──┬─ side-car ──────▶ Index { FrameTable, EntryTable } ─┐
//!           ├─ seek table ────▶ FrameTable ──────────────────────┤
//!           └─ frame headers ─▶ FrameTable ──────────────────────┴─▶ RangeReader ─▶ bytes
//! ```
//!
//! * [`FrameTable`]: maps bytes of the archive to bytes of the tar stream. Built from the headers
//!   of an archive whose frames declare their sizes, from a seek table, or from a pass over the
//!   whole archive. [`FrameTable::of_archive`] tries everything that needs no full pass.
//! * [`SeekTable`]: reads and writes the seek table of the zstd seekable format.
//! * [`EntryTable`]: the entries and their offsets in the tar stream.
//! * [`Index`]: both tables of an archive with a known [`Identity`], stored in a side-car
//!   ([`side_car_path`]).
//! * [`RangeReader`]: reads ranges of the tar stream by decoding the frames that hold them.
//!
//! All input is untrusted, side-cars and seek tables no less than archives: nothing in them is used
//! before it has been checked against the archive.
//!
//! Other crates open files, decode whole archives and interpret entries.
//!
//! ```
//! use unsnap_index::{FrameTable, IndexError, RangeReader, ReadOptions, TableSource};
//! use unsnap_testkit::{compress, tar};
//!
//! let tar = tar::snapshot_tar(39, &[(17, 4, vec![7; 100_000])]);
//! let archive = compress::zstd_frames(&tar, 10_000, 1);
//! let archive = archive.as_slice();
//!
//! let (table, source) = FrameTable::of_archive(&archive, archive.len() as u64, &|| true)?;
//! assert_eq!((table.raw_bytes(), source), (tar.len() as u64, TableSource::Headers));
//!
//! let mut found = Vec::new();
//! let reader = RangeReader::new(&archive, &table, ReadOptions::default());
//! let counts = reader.read::<IndexError>(&[25_000..25_010], |offset, bytes| {
//!     found.push((offset, bytes.to_vec()));
//!     Ok(())
//! })?;
//! assert_eq!(found, [(25_000, tar[25_000..25_010].to_vec())]);
//! assert_eq!((counts.reads, counts.frames), (1, 1));
//! # Ok::<(), IndexError>(())
//! ```

mod ahead;
mod decoder;
mod discover;
mod entries;
mod error;
mod failure;
mod frames;
mod identity;
mod plan;
mod reader;
mod reading;
mod seek_table;
mod side_car;
mod varint;

pub use discover::{TableSource, encoding_of};
pub use entries::{Entry, EntryName, EntryTable};
pub use error::IndexError;
pub use frames::{Encoding, FRAMES_MAX, Frame, FrameTable};
pub use identity::{Gathered, Identity};
pub use reader::{RangeReader, ReadCounts, ReadOptions};
pub use seek_table::{SEEK_ENTRIES_MAX, SeekEntry, SeekTable};
pub use side_car::{Index, SIDE_CAR_BYTES_MAX, side_car_path};
