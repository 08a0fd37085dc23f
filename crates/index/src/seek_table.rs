//! The seek table of the zstd seekable format: a skippable frame at the archive's end that says how
//! long all others are.
//!
//! ```text
//! │ magic 4 │ length 4 │ entries: compressed 4, decoded 4, [checksum 4] … │ count 4 │ flags 1 │ magic 4 │
//! ```
//!
//! Source: `zstd_seekable_compression_format.md` 0.1.0 of the zstd project. Whoever wrote the archive
//! wrote the table, so nothing of it is believed: what it says must add up to the archive, and each frame
//! is held to it when it is read.

use unsnap_decode::ReadAt;

use crate::{Encoding, FrameTable, IndexError, reading::read_exact};

/// `SEEKABLE_MAGIC`: the last bytes of a seek table.
const FOOTER_MAGIC: u32 = 0x8f92_eab1;
/// Its skippable frame has this one of the sixteen numbers.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a5e;
const FOOTER_BYTES: usize = 9;
const HEADER_BYTES: usize = 8;
/// The flag that entries hold a checksum, and those that must not be set.
const HAS_CHECKSUMS: u8 = 0x80;
const RESERVED: u8 = 0x7c;
/// `ZSTD_SEEKABLE_MAXFRAMES`.
const ENTRIES_MAX: u64 = 0x800_0000;

/// The frames of an archive by its seek table; `None` if it has none. The table's own frame is the
/// last of them.
pub fn seek_table(
    archive: &dyn ReadAt,
    archive_bytes: u64,
) -> Result<Option<FrameTable>, IndexError> {
    let Some(footer_at) = archive_bytes.checked_sub(FOOTER_BYTES as u64) else { return Ok(None) };
    let footer: [u8; FOOTER_BYTES] = read_exact(archive, footer_at)?;
    if u32_at(&footer, 5) != FOOTER_MAGIC {
        return Ok(None);
    }
    let bad = IndexError::SeekTable;
    let (entries, flags) = (u64::from(u32_at(&footer, 0)), footer[4]);
    if flags & RESERVED != 0 {
        return Err(bad("a reserved flag is set"));
    }
    if entries > ENTRIES_MAX.min(crate::FRAMES_MAX) {
        return Err(bad("it has too many entries"));
    }
    let entry_bytes = if flags & HAS_CHECKSUMS == 0 { 8 } else { 12 };
    let frame_bytes = entries * entry_bytes + FOOTER_BYTES as u64;
    let table_bytes = HEADER_BYTES as u64 + frame_bytes;
    let table_at = archive_bytes.checked_sub(table_bytes).ok_or(bad("it is longer than all"))?;
    let header: [u8; HEADER_BYTES] = read_exact(archive, table_at)?;
    if u32_at(&header, 0) != SKIPPABLE_MAGIC {
        return Err(bad("it is no skippable frame"));
    }
    if u64::from(u32_at(&header, 4)) != frame_bytes {
        return Err(bad("its frame has another length"));
    }
    let mut table = FrameTable::new(Encoding::Zstd);
    // Read piece by piece: how much memory is taken is decided by entries that are really there.
    let mut piece = vec![0; ENTRIES_READ * 12];
    let mut at = table_at + HEADER_BYTES as u64;
    let mut left = entries;
    while left > 0 {
        let count = left.min(ENTRIES_READ as u64);
        let bytes = usize::try_from(count * entry_bytes).unwrap_or(0);
        crate::reading::read_into(archive, &mut piece[..bytes], at)?;
        for entry in piece[..bytes].chunks_exact(usize::try_from(entry_bytes).unwrap_or(8)) {
            let (compressed, raw) = (u64::from(u32_at(entry, 0)), u64::from(u32_at(entry, 4)));
            if table.archive_bytes() + compressed > table_at {
                return Err(bad("its frames are longer than the archive"));
            }
            table.push(compressed, Some(raw)).map_err(|_| bad("its entries make no sense"))?;
        }
        at += count * entry_bytes;
        left -= count;
    }
    if table.archive_bytes() != table_at {
        return Err(bad("its frames are shorter than the archive"));
    }
    table.push(table_bytes, None).map_err(|_| bad("it makes no sense"))?;
    Ok(Some(table))
}

/// Entries that are read together. A guess.
const ENTRIES_READ: usize = 4096;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..at + 4).and_then(|field| field.first_chunk());
    field.map_or(0, |field| u32::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of these frames, by the format's description.
    fn archive(frames: &[(u32, u32)], checksums: bool) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            frames.iter().flat_map(|(compressed, _)| vec![1; *compressed as usize]).collect();
        let entry = if checksums { 12 } else { 8 };
        let length = u32::try_from(frames.len() * entry + 9).unwrap();
        bytes.extend(SKIPPABLE_MAGIC.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        for (compressed, raw) in frames {
            bytes.extend(compressed.to_le_bytes());
            bytes.extend(raw.to_le_bytes());
            bytes.extend(checksums.then_some([7; 4]).iter().flatten());
        }
        bytes.extend(u32::try_from(frames.len()).unwrap().to_le_bytes());
        bytes.push(if checksums { HAS_CHECKSUMS } else { 0 });
        bytes.extend(FOOTER_MAGIC.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Option<FrameTable>, IndexError> {
        seek_table(&bytes, bytes.len() as u64)
    }

    #[test]
    fn tables_are_read_with_and_without_checksums() {
        for checksums in [false, true] {
            let bytes = archive(&[(10, 100), (20, 0), (30, 7)], checksums);
            let table = read(&bytes).unwrap().unwrap();
            assert_eq!((table.frames().len(), table.raw_bytes()), (4, 107));
            assert_eq!(table.frames()[2].extent(), 30..60);
            assert!(table.frames()[3].skippable);
            assert_eq!(table.archive_bytes(), bytes.len() as u64);
        }
        let many = vec![(1, 2); 10_000];
        assert_eq!(read(&archive(&many, true)).unwrap().unwrap().raw_bytes(), 20_000);
    }

    #[test]
    fn no_table_is_no_error() {
        for bytes in [&b""[..], b"12345678", b"1234567890", &[0; 100]] {
            assert_eq!(read(bytes).unwrap(), None);
        }
    }

    #[test]
    fn tables_that_lie_are_refused() {
        let good = archive(&[(10, 100), (20, 50)], false);
        let footer = good.len() - 9;
        let change = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            read(&bytes)
        };
        for (at, value) in [
            (footer, 3),        // more entries
            (footer, 1),        // fewer
            (footer + 3, 0xff), // far too many
            (footer + 4, 0x04), // a reserved flag
            (footer + 4, 0x80), // checksums that are not there
            (30, 0),            // no skippable frame
            (34, 0),            // of another length
            (38, 9),            // a frame that is shorter
            (38, 11),           // or longer
            (41, 0xff),         // than all
        ] {
            let result = change(at, value);
            assert!(matches!(result, Err(IndexError::SeekTable(_))), "{at} {value}: {result:?}");
        }
    }
}
