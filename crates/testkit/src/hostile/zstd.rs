//! zstd streams that demand excessive resources, declare content they do not hold, or are not zstd.

use super::{Construct, behind, constructs, good_beginning, good_tar};
use crate::compress::{
    lz4_frame, skippable_frame, zstd_frames, zstd_one_frame, zstd_raw_blocks, zstd_rle_blocks,
};
use crate::spec::Compression;
use crate::tar::Header;

constructs![
    window_of_2_gib,
    window_of_3_75_tib,
    window_larger_than_the_memory_budget,
    window_that_is_the_content,
    content_larger_than_declared,
    content_smaller_than_declared,
    content_smaller_than_declared_by_an_empty_block,
    content_of_100_mib_that_is_not_there,
    content_of_16_eib_that_is_not_there,
    bomb_of_zeros_in_one_frame,
    bomb_of_zeros_in_many_frames,
    sixty_four_mebibytes_of_zeros,
    million_empty_frames,
    million_empty_frames_of_unknown_size,
    million_skippable_frames,
    million_empty_blocks,
    frames_beyond_the_limit,
    skippable_frames_beyond_the_limit,
    decoded_bytes_beyond_the_limit,
    skippable_frame_of_4_gib,
    all_skippable_magic_numbers,
    wrong_checksum,
    wrong_checksum_of_a_sized_frame,
    frame_cut_in_a_block,
    frame_without_its_checksum,
    last_frame_missing,
    garbage_behind_the_last_frame,
    garbage_between_two_frames,
    zeros_behind_the_last_frame,
    frame_of_lz4_behind,
    frame_of_zstd_0_7_behind,
    dictionary,
    reserved_bit,
    reserved_block_type,
    block_of_2_mib,
    block_larger_than_the_window,
    match_in_front_of_the_beginning,
    another_format,
];

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn of(archive: Vec<u8>) -> Construct {
    Construct::of(archive, Compression::Zstd)
}

/// Returns the beginning of a good snapshot as a frame, and its end.
fn halves() -> (Vec<u8>, Vec<u8>) {
    let tar = good_tar();
    let (first, second) = tar.split_at(behind());
    (zstd_one_frame(first, 1, None, false, true), zstd_one_frame(second, 1, None, false, true))
}

/// Returns a frame header of these bytes between two good frames, refused at its first byte for
/// `reason`.
fn header(bytes: &[u8], reason: &'static str) -> Construct {
    let (first, second) = halves();
    let at = first.len();
    of([&first, &MAGIC[..], bytes, &second].concat()).refused(at, reason)
}

/// Window log 31, as `zstd --ultra --long=31` writes it: a request for 2 GiB of memory.
fn window_of_2_gib() -> Construct {
    header(&[0, (31 - 10) << 3], "zstd window (window_bytes_max) is 2147483648, limit is 134217728")
}

/// The largest window that a header can declare.
fn window_of_3_75_tib() -> Construct {
    header(&[0, 0xff], "zstd window (window_bytes_max) is 4123168604160")
}

/// A window within the limit but larger than the memory budget.
fn window_larger_than_the_memory_budget() -> Construct {
    header(&[0, (27 - 10) << 3], "memory budget")
}

/// A window declared by other means: a single-segment frame, whose window is its content.
fn window_that_is_the_content() -> Construct {
    let size = u64::to_le_bytes(1 << 40);
    header(&[&[0xe0][..], &size].concat(), "zstd window (window_bytes_max) is 1099511627776")
}

/// Returns a good snapshot as one frame that declares its size in four bytes after the window.
fn sized_frame(lie: i32) -> Construct {
    let tar = good_tar();
    let mut frame = zstd_one_frame(&tar, 1, Some(12), false, true);
    let length = i32::try_from(tar.len()).expect("a small archive");
    assert_eq!(frame[4] >> 6, 1, "a size of two bytes");
    let size = u16::try_from(length + lie - 256).expect("a small archive");
    frame[6..8].copy_from_slice(&size.to_le_bytes());
    of(frame)
}

/// For readers that reserve the declared size and then write whatever arrives.
fn content_larger_than_declared() -> Construct {
    sized_frame(-512).refused(None, "the compressed data is damaged at byte")
}

/// For readers that return all the memory they reserved.
fn content_smaller_than_declared() -> Construct {
    sized_frame(512).refused(None, "the compressed data is damaged at byte")
}

/// The same in a form that libzstd does not check: the last block is empty.
fn content_smaller_than_declared_by_an_empty_block() -> Construct {
    let tar = good_tar();
    let size = u16::try_from(tar.len() + 1 - 256).expect("a small archive");
    let block = u32::try_from(tar.len()).expect("a small archive") << 3;
    let header = [&MAGIC[..], &[0x60], &size.to_le_bytes()].concat();
    let frame = [&header, &block.to_le_bytes()[..3], &tar, &[1, 0, 0]].concat();
    let at = frame.len();
    of(frame).refused(at, "the frame declares 7681 bytes but holds 7680")
}

/// Memory for a frame that is decoded as a whole but holds only one block.
fn content_of_100_mib_that_is_not_there() -> Construct {
    let size = u32::to_le_bytes(100 << 20);
    let blocks = &zstd_raw_blocks(&good_tar(), 1000)[6..];
    of([&MAGIC[..], &[0x80, 7 << 3], &size, blocks].concat())
        .refused(None, "the compressed data is damaged at byte")
}

/// The largest size that a header can declare. Nothing is reserved for it: the frame is streamed.
fn content_of_16_eib_that_is_not_there() -> Construct {
    let blocks = &zstd_raw_blocks(&good_tar(), 1000)[6..];
    of([&MAGIC[..], &[0xc0, 7 << 3], &[0xff; 8], blocks].concat())
        .refused(None, "declares 18446744073709551615 bytes but holds 7680")
}

/// Returns a snapshot that continues with an account of this many zeros in these frames.
fn zeros(count: u64, frames: &[u8]) -> Construct {
    let header = good_beginning().entry(Header::account("accounts/98.1", count), &[]).into_bytes();
    let end = super::good_end(crate::tar::TarBuilder::new());
    let archive = [
        &zstd_one_frame(&header, 1, None, false, true),
        frames,
        &zstd_one_frame(&end, 1, None, false, true),
    ];
    of(archive.concat())
}

const BOMB_BYTES: usize = 300 << 20;

/// node-tar CVE-2026-59873: 300 MiB in 10 kB. The account is within all size limits.
fn bomb_of_zeros_in_one_frame() -> Construct {
    zeros(BOMB_BYTES as u64, &zstd_rle_blocks(0, BOMB_BYTES, 128 << 10))
        .refused(None, "compression ratio (ratio_max)")
}

/// The same for workers that decode frames as a whole.
fn bomb_of_zeros_in_many_frames() -> Construct {
    let frame = zstd_one_frame(&vec![0; 1 << 20], 1, None, false, true);
    zeros(BOMB_BYTES as u64, &frame.repeat(BOMB_BYTES >> 20))
        .refused(None, "compression ratio (ratio_max)")
}

/// 64 MiB in about 2 kB: too little to do harm, so the ratio limit does not apply yet.
fn sixty_four_mebibytes_of_zeros() -> Construct {
    const BYTES: usize = 64 << 20;
    zeros(BYTES as u64, &zstd_rle_blocks(0, BYTES, 128 << 10))
        .accepted(&[("accounts/98.1", &vec![0; BYTES])])
}

/// A million empty frames between two good halves.
fn million(frame: &[u8]) -> Construct {
    let (first, second) = halves();
    of([&first, &frame.repeat(1_000_000)[..], &second].concat())
}

/// Work without output: a quadratic reader never ends. Far below the limit on frames.
fn million_empty_frames() -> Construct {
    million(&zstd_one_frame(&[], 1, None, false, true)).accepted(&[])
}

/// The same for the streaming engine.
fn million_empty_frames_of_unknown_size() -> Construct {
    million(&zstd_raw_blocks(&[], 1)).accepted(&[])
}

/// The same with skippable frames, as Firedancer writes them.
fn million_skippable_frames() -> Construct {
    million(&skippable_frame(b"")).accepted(&[])
}

/// The same within one frame.
fn million_empty_blocks() -> Construct {
    let (first, second) = halves();
    let header = [&MAGIC[..], &[0, 7 << 3]].concat();
    let blocks = [0, 0, 0].repeat(1_000_000);
    of([&first, &header, &blocks[..], &[1, 0, 0], &second].concat()).accepted(&[])
}

/// The limit on frames, lowered so that an archive of 9 kB exceeds it.
fn frames_beyond_the_limit() -> Construct {
    let (first, second) = halves();
    let empty = zstd_one_frame(&[], 1, None, false, true);
    let at = first.len() + 1000 * empty.len();
    of([&first, &empty.repeat(1001)[..], &second].concat())
        .limits("[limits]\nframes_max = 1000\n")
        .refused(at, "number of frames (frames_max) is 1001, limit is 1000")
}

/// Skippable frames count too.
fn skippable_frames_beyond_the_limit() -> Construct {
    let (first, second) = halves();
    let empty = skippable_frame(b"");
    let at = first.len() + 1000 * empty.len();
    of([&first, &empty.repeat(1001)[..], &second].concat())
        .limits("[limits]\nframes_max = 1000\n")
        .refused(at, "number of frames (frames_max) is 1001, limit is 1000")
}

/// The limit on decoded bytes, lowered so that a good snapshot exceeds it.
fn decoded_bytes_beyond_the_limit() -> Construct {
    of(zstd_frames(&good_tar(), 1000, 1))
        .limits("[limits]\nraw_bytes_max = 4000\n")
        .refused(None, "decoded bytes (raw_bytes_max) is")
}

/// A skippable frame that is longer than the archive.
fn skippable_frame_of_4_gib() -> Construct {
    let (first, second) = halves();
    let archive = [&first, &[0x5e, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff][..], &second].concat();
    let at = archive.len();
    of(archive).refused(at, "the archive is cut")
}

/// All sixteen magic numbers have the same meaning.
fn all_skippable_magic_numbers() -> Construct {
    let (first, second) = halves();
    let frames = (0..16).flat_map(|n| crate::compress::skippable_frame_numbered(n, b"note"));
    of([first, frames.collect(), second].concat()).accepted(&[])
}

/// A frame with its last bit flipped.
fn spoilt_checksum(sized: bool) -> Construct {
    let mut frame = zstd_one_frame(&good_tar(), 1, None, true, sized);
    *frame.last_mut().expect("not empty") ^= 1;
    let at = frame.len() - 4;
    of(frame).refused(at, "checksum")
}

/// Damage that only the checksum reveals, for the streaming engine.
fn wrong_checksum() -> Construct {
    spoilt_checksum(false)
}

/// The same for workers that decode frames as a whole.
fn wrong_checksum_of_a_sized_frame() -> Construct {
    spoilt_checksum(true)
}

/// A truncated download.
fn frame_cut_in_a_block() -> Construct {
    let mut frame = zstd_one_frame(&good_tar(), 1, None, false, false);
    frame.truncate(frame.len() - 20);
    let at = frame.len();
    of(frame).refused(at, "the archive is cut")
}

/// A download truncated after all relevant bytes.
fn frame_without_its_checksum() -> Construct {
    let mut frame = zstd_one_frame(&good_tar(), 1, None, true, true);
    frame.truncate(frame.len() - 4);
    let at = frame.len();
    of(frame).refused(at, "the archive is cut")
}

/// A download truncated between two frames, which is valid zstd.
fn last_frame_missing() -> Construct {
    of(halves().0).refused(behind(), "without an end marker (0 of 2 zero blocks")
}

/// An error page after the archive.
fn garbage_behind_the_last_frame() -> Construct {
    let (first, second) = halves();
    let at = first.len() + second.len();
    of([&first, &second, &b"<html>504"[..]].concat())
        .refused(at, "foreign bytes after the compressed data")
}

/// An error page in the middle of the archive.
fn garbage_between_two_frames() -> Construct {
    let (first, second) = halves();
    let at = first.len();
    of([&first, &b"\x1b[2J"[..], &second].concat())
        .refused(at, "foreign bytes after the compressed data")
}

/// Zeros, which are harmless in a tar but are not a frame.
fn zeros_behind_the_last_frame() -> Construct {
    let (first, second) = halves();
    let at = first.len() + second.len();
    of([&first, &second, &[0; 512][..]].concat())
        .refused(at, "foreign bytes after the compressed data")
}

/// The second half in another compression.
fn frame_of_lz4_behind() -> Construct {
    let (first, _) = halves();
    let at = first.len();
    of([first, lz4_frame(&good_tar()[behind()..])].concat())
        .refused(at, "foreign bytes after the compressed data")
}

/// A format of 2016 that libzstd can be built to read.
fn frame_of_zstd_0_7_behind() -> Construct {
    let (first, second) = halves();
    let at = first.len();
    of([&first, &[0x27, 0xb5, 0x2f, 0xfd][..], &second].concat())
        .refused(at, "foreign bytes after the compressed data")
}

/// A frame that requires an unavailable dictionary.
fn dictionary() -> Construct {
    header(&[0x01, 7 << 3, 0x07], "needs a zstd dictionary, which is not supported")
}

/// A reserved bit, to which a later zstd may give a meaning.
fn reserved_bit() -> Construct {
    header(&[0x08, 7 << 3], "the compressed data is damaged")
}

/// Returns a frame of one block with this three-byte header.
fn block(bytes: [u8; 3], rest: &[u8]) -> Construct {
    let (first, second) = halves();
    // A window of 1 KiB.
    let frame = [&MAGIC[..], &[0, 0], &bytes, rest].concat();
    of([first, frame, second].concat()).refused(None, "the compressed data is damaged at byte")
}

/// The reserved fourth block type.
fn reserved_block_type() -> Construct {
    block([0b111, 0, 0], b"")
}

/// The longest declarable block. The limit is 128 KiB.
fn block_of_2_mib() -> Construct {
    block([0xf9, 0xff, 0xff], &[0; 100])
}

/// A block that exceeds its frame's window, which is too long as well.
fn block_larger_than_the_window() -> Construct {
    let bytes = u32::to_le_bytes(2000 << 3 | 0b001);
    block([bytes[0], bytes[1], bytes[2]], &[0; 2000])
}

/// A compressed block with a match to bytes that never existed: literals of one byte, and a match 8
/// bytes back (sequence codes as in RFC 8878, predefined tables).
fn match_in_front_of_the_beginning() -> Construct {
    let body = [0b0000_1000, b'x', 1, 0, 0xff, 0xff, 0xff, 0x01];
    let length = u32::try_from(body.len()).expect("short") << 3;
    let bytes = u32::to_le_bytes(length | 0b101);
    block([bytes[0], bytes[1], bytes[2]], &body)
}

/// Another file saved under the name of a snapshot.
fn another_format() -> Construct {
    of(b"PK\x03\x04\x1b]0;owned\x07 and so on".to_vec())
        .refused(None, "this is not a zstd, lz4 or tar archive: it begins with 50 4b 03 04 1b")
}
