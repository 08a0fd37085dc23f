//! Parser for zstd frame and block headers (RFC 8878).

use crate::format::{ZSTD_MAGIC, begins_magic, is_skippable, magic};

/// Longest frame header in bytes: magic, descriptor, window, dictionary id, content size.
pub const FRAME_HEADER_BYTES_MAX: usize = 18;
/// Length of a block header in bytes.
pub const BLOCK_HEADER_BYTES: usize = 3;
/// Largest decoded size of a block in bytes, whatever its frame's window.
pub(crate) const BLOCK_BYTES_MAX: u64 = 128 << 10;

/// Parsed beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStart {
    /// A frame to decode.
    Zstd(FrameHeader),
    /// A frame to skip.
    Skippable {
        /// Length of the frame in bytes, header included.
        bytes: u64,
    },
}

/// A zstd frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the header in bytes.
    pub header_bytes: usize,
    /// Largest distance of a match in bytes.
    pub window_bytes: u64,
    /// Decoded size in bytes, if the frame declares it.
    pub content_bytes: Option<u64>,
    /// Whether a checksum of four bytes follows the last block.
    pub has_checksum: bool,
    /// Identifier of a dictionary, 0 for none.
    pub dictionary: u32,
}

impl FrameHeader {
    /// Returns the largest decoded size of a block in bytes.
    pub fn block_bytes_max(&self) -> usize {
        usize::try_from(self.window_bytes.min(BLOCK_BYTES_MAX)).unwrap_or(usize::MAX)
    }
}

/// The beginning of a frame cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStartError {
    /// `head` ends within the header.
    Incomplete,
    /// Neither a zstd nor a skippable frame.
    NotAFrame,
    /// A reserved bit is set.
    Reserved,
}

/// Parses the header at the beginning of `head`. 18 bytes are always enough.
pub fn frame_start(head: &[u8]) -> Result<FrameStart, FrameStartError> {
    let Some(magic) = magic(head) else {
        let cut = begins_magic(head, ZSTD_MAGIC);
        return Err(if cut { FrameStartError::Incomplete } else { FrameStartError::NotAFrame });
    };
    if is_skippable(magic) {
        let bytes = little_endian(head, 4, 4)?;
        return Ok(FrameStart::Skippable { bytes: bytes + 8 });
    }
    if magic != ZSTD_MAGIC {
        return Err(FrameStartError::NotAFrame);
    }
    let descriptor = *head.get(4).ok_or(FrameStartError::Incomplete)?;
    let single_segment = descriptor & 0x20 != 0;
    if descriptor & 0x08 != 0 {
        return Err(FrameStartError::Reserved);
    }
    let mut at = 5;
    let mut window_bytes = 0;
    if !single_segment {
        let byte = *head.get(at).ok_or(FrameStartError::Incomplete)?;
        let base = 1_u64 << (10 + (byte >> 3));
        window_bytes = base + base / 8 * u64::from(byte & 7);
        at += 1;
    }
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let dictionary = u32::try_from(little_endian(head, at, dictionary_bytes)?).unwrap_or(u32::MAX);
    at += dictionary_bytes;
    let size_bytes = match descriptor >> 6 {
        0 if single_segment => 1,
        0 => 0,
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let size = little_endian(head, at, size_bytes)?;
    at += size_bytes;
    let content_bytes = match size_bytes {
        0 => None,
        2 => Some(size + 256),
        _ => Some(size),
    };
    if single_segment {
        window_bytes = content_bytes.unwrap_or(0);
    }
    Ok(FrameStart::Zstd(FrameHeader {
        header_bytes: at,
        window_bytes,
        content_bytes,
        has_checksum: descriptor & 0x04 != 0,
        dictionary,
    }))
}

/// Compares the declared size of a frame with the decoded one, and returns an error message if they
/// differ. libzstd does not check this if the last block is empty.
pub(crate) fn size_mismatch(declared: u64, decoded: u64) -> Option<String> {
    (declared != decoded)
        .then(|| format!("the frame declares {declared} bytes but holds {decoded}"))
}

/// Returns the compressed length of the block without its header, and whether it is the last block
/// of the frame; `None` for the reserved block type.
pub fn block_header(bytes: [u8; BLOCK_HEADER_BYTES]) -> Option<(u64, bool)> {
    let header = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    let last = header & 1 != 0;
    let size = u64::from(header >> 3);
    match (header >> 1) & 3 {
        0 | 2 => Some((size, last)),
        // An RLE block: one byte, repeated `size` times.
        1 => Some((1, last)),
        _ => None,
    }
}

/// Returns the decoded length of a raw or RLE block, which its header gives; `None` for a
/// compressed block.
pub(crate) fn block_raw_bytes(bytes: [u8; BLOCK_HEADER_BYTES]) -> Option<u64> {
    let header = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    matches!((header >> 1) & 3, 0 | 1).then(|| u64::from(header >> 3))
}

fn little_endian(head: &[u8], at: usize, count: usize) -> Result<u64, FrameStartError> {
    let bytes = head.get(at..at + count).ok_or(FrameStartError::Incomplete)?;
    Ok(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zstd(head: &[u8]) -> FrameHeader {
        match frame_start(head) {
            Ok(FrameStart::Zstd(header)) => header,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn agave_headers() {
        // Up to 4.2: one frame without sizes, 512 KiB window.
        let header = zstd(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x48]);
        assert_eq!((header.window_bytes, header.content_bytes), (512 << 10, None));
        assert_eq!((header.header_bytes, header.has_checksum, header.dictionary), (6, false, 0));
        // From 4.3: 32 MiB frames that declare their size.
        let header = zstd(&[0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x48, 0, 0, 0, 2]);
        assert_eq!((header.window_bytes, header.content_bytes), (512 << 10, Some(32 << 20)));
    }

    #[test]
    fn firedancer_tar_header_frame() {
        let header = zstd(&[0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x00, 0x01, 0x01, 0x10, 0x00]);
        assert_eq!((header.content_bytes, header.header_bytes), (Some(512), 7));
        assert_eq!((header.window_bytes, header.block_bytes_max()), (512, 512));
        assert_eq!(block_header([0x01, 0x10, 0x00]), Some((512, true)));
    }

    #[test]
    fn skippable_and_foreign_frames() {
        let skippable = [0x5e, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(frame_start(&skippable), Ok(FrameStart::Skippable { bytes: (1 << 32) + 7 }));
        assert_eq!(frame_start(b"garbage!"), Err(FrameStartError::NotAFrame));
        assert_eq!(frame_start(&[0x28, 0xb5, 0x2f, 0xfd, 0x08]), Err(FrameStartError::Reserved));
        for cut in [&[0x28][..], &[0x28, 0xb5, 0x2f], &[0x5f, 0x2a], &[0x50, 0x2a, 0x4d]] {
            assert_eq!(frame_start(cut), Err(FrameStartError::Incomplete), "{cut:x?}");
        }
        for foreign in [&[0][..], b"\n", &[0x28, 0], &[0x60, 0x2a], &[0x50, 0x2a, 0x4e]] {
            assert_eq!(frame_start(foreign), Err(FrameStartError::NotAFrame), "{foreign:x?}");
        }
    }

    #[test]
    fn every_header_agrees_with_libzstd() {
        for level in [1, 3, 19] {
            for len in [0_usize, 1, 255, 256, 65_791, 65_792, 300_000] {
                let raw = vec![7; len];
                let frame = {
                    let mut out = Vec::with_capacity(zstd_safe::compress_bound(len));
                    zstd_safe::compress(&mut out, &raw, level).unwrap();
                    out
                };
                let header = zstd(&frame);
                assert_eq!(header.content_bytes, Some(len as u64));
                assert!(frame_start(&frame[..header.header_bytes - 1]).is_err());
            }
        }
    }

    #[test]
    fn the_reserved_block_type_is_refused() {
        assert_eq!(block_header([0x07, 0, 0]), None);
        assert_eq!(block_header([0x02, 0xff, 0xff]), Some((1, false)));
    }
}
