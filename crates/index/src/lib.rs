#![forbid(unsafe_code)]
//! Where everything is in an archive, and how to get at a part of it.
//!
//! ```text
//! archive ──┬─ side-car ──────▶ Index { FrameTable, EntryTable } ─┐
//!           ├─ seek table ────▶ FrameTable ──────────────────────┤
//!           └─ frame headers ─▶ FrameTable ──────────────────────┴─▶ RangeReader ─▶ bytes
//! ```
//!
//! * [`FrameTable`]: which bytes of the archive decode to which bytes of the tar stream. Made from the
//!   headers of an archive whose frames declare their sizes, from a seek table, or from a pass over all of
//!   it; [`FrameTable::of_archive`] does what can be done without one.
//! * [`SeekTable`]: that of the zstd seekable format, read and written.
//! * [`EntryTable`]: which entries there are, and where in the tar stream.
//! * [`Index`]: both, of an archive that is recognised by its [`Identity`]; kept in a side-car
//!   ([`side_car_path`]).
//! * [`RangeReader`]: ranges of the tar stream, by reading and decoding the frames that hold them.
//!
//! All that is read is hostile, side-cars and seek tables no less than archives: nothing of them is
//! believed that has not been held to the archive.
//!
//! What is left to others: opening files, decoding whole archives, and what entries mean.
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
pub use identity::Identity;
pub use reader::{RangeReader, ReadCounts, ReadOptions};
pub use seek_table::{SEEK_ENTRIES_MAX, SeekEntry, SeekTable};
pub use side_car::{Index, SIDE_CAR_BYTES_MAX, side_car_path};
