//! The frames of Firedancer's snapshot archives, which follow the entries of the tar archive.
//!
//! ```text
//! | raw frame, 522 bytes   | one frame per 32 MiB of contents  | skippable |
//! | 10 bytes + tar header  | padded to 512, no content size    | filler    |  -> next 4096
//! ```
//!
//! Every entry is such a group. Groups begin at multiples of 4096 bytes in the file, so that
//! Firedancer's workers can write them by direct I/O, and a reader may look for them there. The two
//! zero blocks at the end are a frame of their own, without filler.

use crate::compress::{SKIPPABLE_MAGIC, ZstdEncoder};
use crate::tar::{BLOCK_BYTES, field};

/// Limit on a frame's raw bytes.
pub const FRAME_BYTES_MAX: usize = 32 << 20;

/// Alignment of groups in the file.
pub const GROUP_ALIGNMENT: u64 = 4096;

/// Header of a frame with 512 bytes in one raw block: magic number, single segment with a 2-byte
/// content size, 256 + 256 bytes, last block, raw, 512 bytes.
const TAR_HEADER_FRAME: [u8; 10] = [0x28, 0xB5, 0x2F, 0xFD, 0x60, 0x00, 0x01, 0x01, 0x10, 0x00];

/// Returns the frames of a tar archive whose sizes are in octal.
///
/// # Panics
///
/// If a header's size is not octal or exceeds the archive.
pub fn zstd_firedancer(tar: &[u8], level: i32) -> Vec<u8> {
    groups(tar, &mut ZstdEncoder::new(level, false, None))
}

/// Returns the frames of whole tar entries, and of the zero blocks after them if there are any.
pub(crate) fn groups(tar: &[u8], encoder: &mut ZstdEncoder) -> Vec<u8> {
    let mut file = Vec::new();
    let mut rest = tar;
    while let Some((header, after)) = rest.split_first_chunk::<BLOCK_BYTES>() {
        if header.iter().all(|&byte| byte == 0) {
            break;
        }
        let (contents, after) = after.split_at(padded_size(header));
        push_header(&mut file, header);
        for piece in contents.chunks(FRAME_BYTES_MAX) {
            file.extend_from_slice(encoder.unsized_frame(piece));
        }
        file.extend(filler(file.len() as u64));
        rest = after;
    }
    if !rest.is_empty() {
        file.extend_from_slice(encoder.unsized_frame(rest));
    }
    file
}

/// Appends the frame of a tar header.
pub(crate) fn push_header(file: &mut Vec<u8>, header: &[u8; BLOCK_BYTES]) {
    file.extend_from_slice(&TAR_HEADER_FRAME);
    file.extend_from_slice(header);
}

/// Returns the skippable frame from a position in the file to the next multiple of 4096. It is
/// empty if there is no gap, and 4096 bytes longer if the gap is too small for a frame.
pub(crate) fn filler(position: u64) -> Vec<u8> {
    let gap = match position.next_multiple_of(GROUP_ALIGNMENT) - position {
        0 => return Vec::new(),
        gap @ 1..8 => gap + GROUP_ALIGNMENT,
        gap => gap,
    };
    let mut frame = SKIPPABLE_MAGIC.to_le_bytes().to_vec();
    let length = u32::try_from(gap - 8).expect("a gap is shorter than 8192 bytes");
    frame.extend_from_slice(&length.to_le_bytes());
    frame.resize(crate::length(gap), 0);
    frame
}

/// Returns the size in a header, rounded up to whole blocks.
fn padded_size(header: &[u8; BLOCK_BYTES]) -> usize {
    let digits = std::str::from_utf8(&header[field::SIZE]).expect("octal digits");
    let size = usize::from_str_radix(digits.trim_matches(['\0', ' ']), 8).expect("octal digits");
    size.next_multiple_of(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tar::{TarBuilder, snapshot_tar};

    #[test]
    fn the_tar_archive_comes_back() {
        let tar = snapshot_tar(50, &[(49, 1, vec![1; 100_000]), (50, 2, vec![2; 136])]);
        let file = zstd_firedancer(&tar, 1);
        assert_eq!(zstd::stream::decode_all(&file[..]).unwrap(), tar);
        assert_eq!(file[..10], TAR_HEADER_FRAME);
    }

    #[test]
    fn groups_begin_at_multiples_of_4096() {
        let tar = TarBuilder::new().file("a", b"1").file("b", &[3; 9000]).directory("c").finish();
        let file = zstd_firedancer(&tar, 1);
        let starts = file.chunks(4096).filter(|page| page.starts_with(&TAR_HEADER_FRAME)).count();
        assert_eq!(starts, 3);
    }

    #[test]
    fn fillers_reach_the_boundary() {
        for position in (0..10_000).chain([u64::from(u32::MAX)]) {
            let filler = filler(position);
            assert_eq!((position + filler.len() as u64) % GROUP_ALIGNMENT, 0);
            assert!(filler.len() < 8192 && (filler.is_empty() || filler.len() >= 8));
        }
    }
}
