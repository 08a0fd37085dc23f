//! Seek table of the zstd seekable format: a skippable frame at the archive's end that lists the
//! lengths of all other frames.
//!
//! ```text
//! │magic 4│length 4│entries: compressed 4, decoded 4, [checksum 4] …│count 4│flags 1│magic 4│
//! ```
//!
//! Source: `zstd_seekable_compression_format.md` 0.1.0 of the zstd project. Decoders skip such
//! frames. It must be the last frame: Agave and Firedancer identify an archive by the magic number
//! of a data frame at its beginning.
//!
//! The writer of an archive also wrote its table, so the table is not trusted. Its lengths must add
//! up to the archive, frames are checked against it ([`FrameTable::check_samples`]), and its
//! lengths remain a guess until decoding confirms them. Checksums are kept but not compared: a
//! writer that lies about lengths can lie about checksums too, and frames that need one carry it at
//! their own end.

use unsnap_decode::ReadAt;

use crate::{
    Encoding, FrameTable, IndexError,
    reading::{read_exact, read_into},
};

/// Its skippable frame has this one of the sixteen magic numbers.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a5e;
/// `SEEKABLE_MAGIC`: the last bytes of a seek table.
const FOOTER_MAGIC: u32 = 0x8f92_eab1;
/// Length of the skippable frame's magic number and length field.
const HEADER_BYTES: usize = 8;
/// Length of the entry count, flags and magic number.
const FOOTER_BYTES: usize = 9;
/// The flag for entries with a checksum, and the flags that must not be set. The lowest two bits
/// have no meaning.
const HAS_CHECKSUMS: u8 = 0x80;
const RESERVED: u8 = 0x7c;

/// Limit on entries: 500 GB in frames of 128 KiB, the smallest that compress reasonably (the format
/// allows 134 million). A table of this size takes 64 MiB of memory while it is read, and its
/// [`FrameTable`] 160 MiB.
pub const SEEK_ENTRIES_MAX: u64 = 4 << 20;

/// Entries read at a time. A guess.
const ENTRIES_READ: u64 = 4096;

/// The table as stored: sizes of frames, and checksums if it has them. Holds at most
/// [`SEEK_ENTRIES_MAX`] frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekTable {
    entries: Vec<SeekEntry>,
    has_checksums: bool,
    /// Total length of all frames in bytes.
    frames_bytes: u64,
}

/// A seek table's entry for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekEntry {
    /// Its length in the archive, at least one byte.
    pub bytes: u32,
    /// Its decoded length; 0 also for a frame that decoders skip.
    pub raw_bytes: u32,
    /// The lower half of the XXH64 of its decoded bytes, if the table has checksums.
    pub checksum: Option<u32>,
}

impl SeekTable {
    /// Creates a table without frames. With `has_checksums` each frame must have one.
    pub fn new(has_checksums: bool) -> Self {
        Self { entries: Vec::new(), has_checksums, frames_bytes: 0 }
    }

    /// Appends the next frame. Refuses too many frames, and a checksum in a table without checksums
    /// or the reverse.
    pub fn push(&mut self, entry: SeekEntry) -> Result<(), IndexError> {
        let bad = IndexError::SeekTable;
        if self.entries.len() as u64 >= SEEK_ENTRIES_MAX {
            return Err(bad("it has too many entries"));
        }
        if entry.bytes == 0 {
            return Err(bad("a frame is empty"));
        }
        if entry.checksum.is_some() != self.has_checksums {
            return Err(bad("some entries have checksums and others do not"));
        }
        self.frames_bytes += u64::from(entry.bytes);
        self.entries.push(entry);
        Ok(())
    }

    /// Returns the frames, in order.
    pub fn entries(&self) -> &[SeekEntry] {
        &self.entries
    }

    /// Returns the skippable frame, to be written after the frames it describes.
    pub fn encode(&self) -> Vec<u8> {
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let length = u32::try_from(self.content_bytes()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + length as usize);
        bytes.extend(SKIPPABLE_MAGIC.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        for entry in &self.entries {
            bytes.extend(entry.bytes.to_le_bytes());
            bytes.extend(entry.raw_bytes.to_le_bytes());
            bytes.extend(entry.checksum.map(u32::to_le_bytes).iter().flatten());
        }
        bytes.extend(count.to_le_bytes());
        bytes.push(if self.has_checksums { HAS_CHECKSUMS } else { 0 });
        bytes.extend(FOOTER_MAGIC.to_le_bytes());
        bytes
    }

    /// Reads the table at an archive's end, or returns `None` if there is none. Its frames add up
    /// to the archive before it. Takes 16 bytes of memory for each existing entry.
    pub fn read(archive: &dyn ReadAt, archive_bytes: u64) -> Result<Option<Self>, IndexError> {
        let Some(footer_at) = archive_bytes.checked_sub(FOOTER_BYTES as u64) else {
            return Ok(None);
        };
        let footer: [u8; FOOTER_BYTES] = read_exact(archive, footer_at)?;
        if u32_at(&footer, 5) != FOOTER_MAGIC {
            return Ok(None);
        }
        let bad = IndexError::SeekTable;
        let (count, flags) = (u64::from(u32_at(&footer, 0)), footer[4]);
        if flags & RESERVED != 0 {
            return Err(bad("a reserved flag is set"));
        }
        if count > SEEK_ENTRIES_MAX {
            return Err(bad("it has too many entries"));
        }
        let mut table = Self::new(flags & HAS_CHECKSUMS != 0);
        let content_bytes = count * table.entry_bytes() + FOOTER_BYTES as u64;
        let table_at = archive_bytes.checked_sub(HEADER_BYTES as u64 + content_bytes);
        let table_at = table_at.ok_or(bad("it is longer than the archive"))?;
        let header: [u8; HEADER_BYTES] = read_exact(archive, table_at)?;
        if u32_at(&header, 0) != SKIPPABLE_MAGIC {
            return Err(bad("it is not a skippable frame"));
        }
        if u64::from(u32_at(&header, 4)) != content_bytes {
            return Err(bad("the length of its frame is wrong"));
        }
        table.read_entries(archive, table_at, count)?;
        if table.frames_bytes != table_at {
            return Err(bad("its frames are shorter than the archive"));
        }
        Ok(Some(table))
    }

    /// Reads `count` entries of the table at `table_at`, piece by piece, so that memory grows only
    /// with valid entries.
    fn read_entries(
        &mut self,
        archive: &dyn ReadAt,
        table_at: u64,
        count: u64,
    ) -> Result<(), IndexError> {
        let entry_bytes = usize::try_from(self.entry_bytes()).unwrap_or(12);
        let mut piece = Vec::new();
        let mut at = table_at + HEADER_BYTES as u64;
        let mut left = count;
        while left > 0 {
            let now = left.min(ENTRIES_READ);
            piece.resize(usize::try_from(now).unwrap_or(0) * entry_bytes, 0);
            read_into(archive, &mut piece, at)?;
            for entry in piece.chunks_exact(entry_bytes) {
                let checksum = self.has_checksums.then(|| u32_at(entry, 8));
                let (bytes, raw_bytes) = (u32_at(entry, 0), u32_at(entry, 4));
                self.push(SeekEntry { bytes, raw_bytes, checksum })?;
                if self.frames_bytes > table_at {
                    return Err(IndexError::SeekTable("its frames are longer than the archive"));
                }
            }
            at += piece.len() as u64;
            left -= now;
        }
        Ok(())
    }

    fn entry_bytes(&self) -> u64 {
        if self.has_checksums { 12 } else { 8 }
    }

    /// Returns the length of the skippable frame's content.
    fn content_bytes(&self) -> u64 {
        self.entries.len() as u64 * self.entry_bytes() + FOOTER_BYTES as u64
    }
}

impl FrameTable {
    /// Returns the frames of an archive by the seek table at its end, or `None` if it has none. The
    /// table's own frame is the last of them. The frames themselves are not read.
    pub fn of_seek_table(
        archive: &dyn ReadAt,
        archive_bytes: u64,
    ) -> Result<Option<Self>, IndexError> {
        let Some(table) = SeekTable::read(archive, archive_bytes)? else { return Ok(None) };
        let bad = |_| IndexError::SeekTable("its frames exceed the limit on decoded bytes");
        let mut frames = Self::new(Encoding::Zstd);
        for SeekEntry { bytes, raw_bytes, .. } in table.entries {
            frames.push(bytes.into(), Some(raw_bytes.into())).map_err(bad)?;
        }
        frames.push(archive_bytes - table.frames_bytes, None).map_err(bad)?;
        Ok(Some(frames))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..at + 4).and_then(|field| field.first_chunk());
    field.map_or(0, |field| u32::from_le_bytes(*field))
}
