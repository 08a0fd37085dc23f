//! Invalid lz4 streams.

use super::{Construct, behind, constructs, good_tar};
use crate::compress::{lz4_frame, skippable_frame, zstd_one_frame};
use crate::spec::Compression;
use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
use std::io::Write;

constructs![
    wrong_checksum,
    wrong_checksum_of_the_header,
    content_smaller_than_declared,
    block_of_2_gib,
    cut_in_a_block,
    end_mark_missing,
    last_frame_missing,
    garbage_behind_the_last_frame,
    frame_of_zstd_behind,
    legacy_frame_behind,
    million_empty_frames,
    skippable_frame_of_4_gib,
];

fn of(archive: Vec<u8>) -> Construct {
    Construct::of(archive, Compression::Lz4)
}

/// Damage that only the checksum reveals.
fn wrong_checksum() -> Construct {
    let mut frame = lz4_frame(&good_tar());
    *frame.last_mut().expect("not empty") ^= 1;
    of(frame).refused(None, "the compressed data is damaged at byte")
}

/// A header that declares other values than the real ones.
fn wrong_checksum_of_the_header() -> Construct {
    let mut frame = lz4_frame(&good_tar());
    frame[6] ^= 1;
    of(frame).refused(None, "the compressed data is damaged at byte")
}

/// A frame that declares more than it holds, without a checksum that would reveal this.
fn content_smaller_than_declared() -> Construct {
    let tar = good_tar();
    let info =
        FrameInfo::new().block_size(BlockSize::Max64KB).content_size(Some(tar.len() as u64 + 512));
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(&tar).expect("lz4 takes any bytes");
    encoder.try_finish().expect_err("the encoder notices");
    let end_mark = [0; 4];
    of([encoder.get_ref().as_slice(), &end_mark].concat())
        .refused(None, "the compressed data is damaged at byte")
}

/// A block larger than the frame's block size, and larger than the archive.
fn block_of_2_gib() -> Construct {
    let mut frame = lz4_frame(&good_tar());
    frame[7..11].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
    of(frame).refused(None, "the compressed data is damaged at byte")
}

/// A truncated download.
fn cut_in_a_block() -> Construct {
    let mut frame = lz4_frame(&good_tar());
    frame.truncate(frame.len() - 30);
    let at = frame.len();
    of(frame).refused(at, "the archive is cut")
}

/// A download truncated between two blocks: `lz4_flex` accepts it as a whole frame.
fn end_mark_missing() -> Construct {
    let mut frame = lz4_frame(&good_tar());
    frame.truncate(frame.len() - 8);
    let at = frame.len();
    of(frame).refused(at, "the archive is cut")
}

/// A download truncated between two frames, which is valid lz4.
fn last_frame_missing() -> Construct {
    of(lz4_frame(&good_tar()[..behind()]))
        .refused(behind(), "without an end marker (0 of 2 zero blocks")
}

/// An error page after the archive.
fn garbage_behind_the_last_frame() -> Construct {
    let frame = lz4_frame(&good_tar());
    let at = frame.len();
    of([&frame, &b"<html>504"[..]].concat()).refused(at, "foreign bytes after the compressed data")
}

/// The second half in another compression.
fn frame_of_zstd_behind() -> Construct {
    let frame = lz4_frame(&good_tar()[..behind()]);
    let at = frame.len();
    of([frame, zstd_one_frame(&good_tar()[behind()..], 1, None, false, true)].concat())
        .refused(at, "foreign bytes after the compressed data")
}

/// A format of 2011 that `lz4` can still read.
fn legacy_frame_behind() -> Construct {
    let frame = lz4_frame(&good_tar());
    let at = frame.len();
    of([&frame, &[0x02, 0x21, 0x4c, 0x18, 0, 0, 0, 0][..]].concat())
        .refused(at, "foreign bytes after the compressed data")
}

/// Work without output, far below the limit on frames.
fn million_empty_frames() -> Construct {
    let tar = good_tar();
    let (first, second) = tar.split_at(behind());
    of([lz4_frame(first), lz4_frame(b"").repeat(1_000_000), lz4_frame(second)].concat())
        .accepted(&[])
}

/// A skippable frame that is longer than the archive.
fn skippable_frame_of_4_gib() -> Construct {
    let mut skippable = skippable_frame(b"note");
    skippable[4..8].fill(0xff);
    let archive = [lz4_frame(&good_tar()), skippable].concat();
    let at = archive.len();
    of(archive).refused(at, "the archive is cut")
}
