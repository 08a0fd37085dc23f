//! Headers of frames (RFC 8878, section 3.1.1.1).

use crate::{BLOCK_BYTES_MAX, Defect};

/// Longest frame header in bytes: magic, descriptor, window, dictionary id, content size.
pub const FRAME_HEADER_BYTES_MAX: usize = 18;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The first byte of a skippable frame is one of sixteen, 0x50 to 0x5f; these follow.
const SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];
/// Length of a skippable frame's header in bytes.
const SKIPPABLE_HEADER_BYTES: u64 = 8;

/// The beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStart {
    /// A frame to decode.
    Frame(FrameHeader),
    /// A frame to skip.
    Skippable {
        /// Length of the frame in bytes, header included.
        bytes: u64,
    },
    /// `head` ends inside the header.
    Incomplete,
    /// Not a frame.
    Foreign,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Returns the largest decoded size of a block of this frame in bytes.
    pub fn block_bytes_max(&self) -> usize {
        usize::try_from(self.window_bytes).unwrap_or(usize::MAX).min(BLOCK_BYTES_MAX)
    }
}

/// Parses the header at the beginning of `head`. 18 bytes are always enough.
pub fn frame_start(head: &[u8]) -> Result<FrameStart, Defect> {
    let begins = |magic: &[u8], bytes: &[u8]| bytes.iter().zip(magic).all(|(a, b)| a == b);
    let skippable = head.first().is_some_and(|first| first & 0xf0 == 0x50);
    if skippable && begins(&SKIPPABLE_MAGIC, &head[1..]) {
        return Ok(match little_endian(head, 4, 4) {
            Some(bytes) => FrameStart::Skippable { bytes: bytes + SKIPPABLE_HEADER_BYTES },
            None => FrameStart::Incomplete,
        });
    }
    if !begins(&MAGIC, head) {
        return Ok(FrameStart::Foreign);
    }
    let Some(&descriptor) = head.get(4) else { return Ok(FrameStart::Incomplete) };
    if descriptor & 0x08 != 0 {
        return Err(Defect::FrameHeader);
    }
    Ok(after_descriptor(head, descriptor).map_or(FrameStart::Incomplete, FrameStart::Frame))
}

/// Returns `None` if `head` ends inside the header.
fn after_descriptor(head: &[u8], descriptor: u8) -> Option<FrameHeader> {
    let single_segment = descriptor & 0x20 != 0;
    let mut at = 5;
    let mut window_bytes = 0;
    if !single_segment {
        let byte = *head.get(at)?;
        let base = 1_u64 << (10 + (byte >> 3));
        window_bytes = base + base / 8 * u64::from(byte & 7);
        at += 1;
    }
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let dictionary = u32::try_from(little_endian(head, at, dictionary_bytes)?).unwrap_or(u32::MAX);
    at += dictionary_bytes;
    let size_bytes = match descriptor >> 6 {
        0 => usize::from(single_segment),
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
    let has_checksum = descriptor & 0x04 != 0;
    Some(FrameHeader { header_bytes: at, window_bytes, content_bytes, has_checksum, dictionary })
}

fn little_endian(head: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = head.get(at..at + count)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(head: &[u8]) -> FrameHeader {
        match frame_start(head) {
            Ok(FrameStart::Frame(header)) => header,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn headers_of_agave_and_firedancer() {
        let agave = header(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x48]);
        assert_eq!((agave.window_bytes, agave.content_bytes), (512 << 10, None));
        assert_eq!((agave.header_bytes, agave.has_checksum, agave.dictionary), (6, false, 0));
        // From 4.3 on: 32 MiB frames that declare their size.
        let sized = header(&[0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x48, 0, 0, 0, 2]);
        assert_eq!((sized.window_bytes, sized.content_bytes), (512 << 10, Some(32 << 20)));
        let firedancer = header(&[0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x00, 0x01, 0x01]);
        assert_eq!((firedancer.content_bytes, firedancer.header_bytes), (Some(512), 7));
        assert_eq!((firedancer.window_bytes, firedancer.block_bytes_max()), (512, 512));
    }

    #[test]
    fn every_header_agrees_with_libzstd() {
        for level in [1, 3, 19] {
            for len in [0_usize, 1, 255, 256, 65_791, 65_792, 300_000] {
                let mut frame = Vec::with_capacity(zstd_safe::compress_bound(len));
                zstd_safe::compress(&mut frame, &vec![7; len], level).unwrap();
                let header = header(&frame);
                assert_eq!(header.content_bytes, Some(len as u64));
                let cut = frame_start(&frame[..header.header_bytes - 1]);
                assert_eq!(cut, Ok(FrameStart::Incomplete));
            }
        }
    }

    #[test]
    fn cut_foreign_and_reserved_headers() {
        for cut in [&[][..], &[0x28], &[0x28, 0xb5, 0x2f], &[0x5f, 0x2a], &[0x50, 0x2a, 0x4d, 0x18]]
        {
            assert_eq!(frame_start(cut), Ok(FrameStart::Incomplete), "{cut:x?}");
        }
        for foreign in [&[0][..], b"\n", &[0x28, 0], &[0x60, 0x2a], &[0x50, 0x2a, 0x4e]] {
            assert_eq!(frame_start(foreign), Ok(FrameStart::Foreign), "{foreign:x?}");
        }
        let skippable = [0x5e, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(frame_start(&skippable), Ok(FrameStart::Skippable { bytes: (1 << 32) + 7 }));
        assert_eq!(frame_start(&[0x28, 0xb5, 0x2f, 0xfd, 0x08]), Err(Defect::FrameHeader));
    }
}
