//! The table at the end of an archive that says where its frames are, in a skippable frame.
//!
//! The "zstd seekable format" of the zstd project (`contrib/seekable_format`), version 0.1.0:
//!
//! ```text
//! 5E 2A 4D 18 | length u32 | n × (compressed u32, raw u32 [, checksum u32]) | n u32 | flags u8 | B1 EA 92 8F
//! ```
//!
//! Decoders pass over skippable frames. It must be the last frame: Agave and Firedancer tell an archive
//! by the magic number of a frame of data at its beginning.

use crate::compress::Packed;

/// Of the skippable frame.
const FRAME_MAGIC: u32 = 0x184D_2A5E;

/// At the table's end.
const TABLE_MAGIC: u32 = 0x8F92_EAB1;

/// In `flags`: entries have checksums.
const HAS_CHECKSUMS: u8 = 1 << 7;

/// Number of frames, flags and magic number.
const FOOTER_BYTES: usize = 9;

/// Most frames that the format has room for.
pub const FRAMES_MAX: u32 = 0x0800_0000;

/// Grows by 8 or 12 bytes for each frame.
#[derive(Debug)]
pub struct SeekTable {
    entries: Vec<u8>,
    frames: u32,
    checksums: bool,
}

impl SeekTable {
    /// A table without frames. `checksums`: frames have some, and so shall the table.
    pub fn new(checksums: bool) -> Self {
        Self { entries: Vec::new(), frames: 0, checksums }
    }

    /// Adds the next frame. `None` if there are more, or larger ones, than the format has room for.
    pub fn add(&mut self, frame: &Packed) -> Option<()> {
        let sizes = [frame.compressed.len(), frame.raw_bytes];
        for size in sizes {
            self.entries.extend(u32::try_from(size).ok()?.to_le_bytes());
        }
        if self.checksums {
            self.entries.extend(frame.checksum?.to_le_bytes());
        }
        self.frames = Some(self.frames + 1).filter(|frames| *frames <= FRAMES_MAX)?;
        Some(())
    }

    /// The skippable frame. `None` if it is longer than such a frame can be.
    pub fn finish(self) -> Option<Vec<u8>> {
        let length = u32::try_from(self.entries.len() + FOOTER_BYTES).ok()?;
        let mut frame = Vec::with_capacity(self.entries.len() + FOOTER_BYTES + 8);
        frame.extend(FRAME_MAGIC.to_le_bytes());
        frame.extend(length.to_le_bytes());
        frame.extend(self.entries);
        frame.extend(self.frames.to_le_bytes());
        frame.push(if self.checksums { HAS_CHECKSUMS } else { 0 });
        frame.extend(TABLE_MAGIC.to_le_bytes());
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_what_the_format_says() {
        let packed = |compressed: usize, raw_bytes, checksum| Packed {
            compressed: vec![0; compressed],
            raw_bytes,
            checksum,
        };
        let mut table = SeekTable::new(true);
        table.add(&packed(3, 0x0102, Some(0xAABB_CCDD))).unwrap();
        table.add(&packed(4, 5, Some(6))).unwrap();
        let frame = table.finish().unwrap();
        assert_eq!(frame[..4], [0x5E, 0x2A, 0x4D, 0x18]);
        assert_eq!(frame[4..8], [2 * 12 + 9, 0, 0, 0]);
        assert_eq!(frame[8..20], [3, 0, 0, 0, 2, 1, 0, 0, 0xDD, 0xCC, 0xBB, 0xAA]);
        assert_eq!(frame[32..], [2, 0, 0, 0, 0x80, 0xB1, 0xEA, 0x92, 0x8F]);

        let mut table = SeekTable::new(false);
        table.add(&packed(3, 7, None)).unwrap();
        assert_eq!(
            table.finish().unwrap()[8..],
            [3, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0xB1, 0xEA, 0x92, 0x8F]
        );
        assert!(SeekTable::new(true).add(&packed(3, 7, None)).is_none(), "no checksum");
    }
}
