//! Compressed forms of bytes in memory: every shape of zstd and lz4 stream that a reader may meet.
//!
//! Compression of valid input can fail only for lack of memory, so these functions return plain
//! vectors and panic if libzstd or `lz4_flex` returns an error.

use crate::random::Random;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use std::io::Write;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, SafeResult};

pub use crate::firedancer::zstd_firedancer;

/// A reusable zstd compressor, because setting one up costs as much as compressing some ten
/// kilobytes.
pub struct ZstdEncoder {
    context: CCtx<'static>,
    output: Vec<u8>,
}

impl ZstdEncoder {
    /// Creates a single-threaded compressor of this level, with or without a checksum at the end of
    /// every frame. `window_log` is the logarithm of the window, by default that of the level.
    pub fn new(level: i32, checksum: bool, window_log: Option<u32>) -> Self {
        let mut context = CCtx::create();
        must(context.set_parameter(CParameter::CompressionLevel(level)));
        must(context.set_parameter(CParameter::ChecksumFlag(checksum)));
        if let Some(window_log) = window_log {
            must(context.set_parameter(CParameter::WindowLog(window_log)));
        }
        Self { context, output: Vec::new() }
    }

    /// Returns one frame compressed in one call: its header states the content size.
    pub fn sized(&mut self, raw: &[u8]) -> &[u8] {
        self.make_room(raw.len());
        must(self.context.compress2(&mut self.output, raw));
        &self.output
    }

    /// Returns one frame compressed by streaming: its header states no content size.
    pub fn unsized_frame(&mut self, raw: &[u8]) -> &[u8] {
        self.make_room(raw.len());
        must(self.context.reset(ResetDirective::SessionOnly));
        let mut input = InBuffer::around(raw);
        let mut output = OutBuffer::around(&mut self.output);
        // Ending in the first call would tell libzstd the size.
        for end in [ZSTD_EndDirective::ZSTD_e_continue, ZSTD_EndDirective::ZSTD_e_end] {
            loop {
                let pending = must(self.context.compress_stream2(&mut output, &mut input, end));
                let finished = end == ZSTD_EndDirective::ZSTD_e_continue || pending == 0;
                if input.pos() == raw.len() && finished {
                    break;
                }
            }
        }
        &self.output
    }

    fn make_room(&mut self, raw_bytes: usize) {
        self.output.clear();
        // Streaming flushes at block boundaries, which the bound for a single call does not
        // include.
        self.output.reserve(zstd_safe::compress_bound(raw_bytes) + 1024);
    }
}

/// Returns one frame. Level 1 without content size and checksum is the format of Agave until 4.2.
pub fn zstd_one_frame(
    raw: &[u8],
    level: i32,
    window_log: Option<u32>,
    checksum: bool,
    content_size: bool,
) -> Vec<u8> {
    let mut encoder = ZstdEncoder::new(level, checksum, window_log);
    if content_size { encoder.sized(raw) } else { encoder.unsized_frame(raw) }.to_vec()
}

/// Returns independent frames of `frame_bytes` each, with content sizes: the format of Agave from
/// 4.3 on if `frame_bytes` is 32 MiB.
pub fn zstd_frames(raw: &[u8], frame_bytes: usize, level: i32) -> Vec<u8> {
    let mut encoder = ZstdEncoder::new(level, false, None);
    pieces(raw, frame_bytes).flat_map(|piece| encoder.sized(piece).to_vec()).collect()
}

/// Returns independent frames of `frame_bytes` each, without content sizes.
pub fn zstd_frames_unsized(raw: &[u8], frame_bytes: usize, level: i32) -> Vec<u8> {
    let mut encoder = ZstdEncoder::new(level, false, None);
    pieces(raw, frame_bytes).flat_map(|piece| encoder.unsized_frame(piece).to_vec()).collect()
}

/// Returns a frame that decoders skip, with the first of the 16 magic numbers.
pub fn skippable_frame(contents: &[u8]) -> Vec<u8> {
    skippable_frame_numbered(0, contents)
}

/// Returns a skippable frame with magic number `0x184D_2A50 + variant`. There are 16 variants.
pub fn skippable_frame_numbered(variant: u32, contents: &[u8]) -> Vec<u8> {
    assert!(variant < 16, "there are 16 variants");
    let length = u32::try_from(contents.len()).expect("the length field has 32 bits");
    [&(SKIPPABLE_MAGIC + variant).to_le_bytes()[..], &length.to_le_bytes(), contents].concat()
}

/// Returns one handwritten frame of raw blocks of `block_bytes` each (at most 128 KiB).
pub fn zstd_raw_blocks(raw: &[u8], block_bytes: usize) -> Vec<u8> {
    let mut frame = hand_made_header();
    let last = pieces(raw, block_bytes).count() - 1;
    for (index, block) in pieces(raw, block_bytes).enumerate() {
        frame.extend_from_slice(&block_header(index == last, RAW_BLOCK, block.len()));
        frame.extend_from_slice(block);
    }
    frame
}

/// Returns one handwritten frame of run-length blocks: `length` bytes of value `byte` in blocks of
/// `block_bytes` (at most 128 KiB).
pub fn zstd_rle_blocks(byte: u8, length: usize, block_bytes: usize) -> Vec<u8> {
    let mut frame = hand_made_header();
    let mut rest = length;
    loop {
        let block = rest.min(block_bytes);
        rest -= block;
        frame.extend_from_slice(&block_header(rest == 0, RLE_BLOCK, block));
        frame.push(byte);
        if rest == 0 {
            return frame;
        }
    }
}

/// Returns a random mixture of all kinds of frames: sized, unsized, with and without checksums, raw
/// blocks, empty and skippable ones, of 0 to 256 KiB each. Equal seeds give equal mixtures.
pub fn zstd_mixed(raw: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random::of(&[seed, u64::from_le_bytes(*b"mixed   ")]);
    let mut stream = Vec::new();
    let mut rest = raw;
    while !rest.is_empty() {
        let length = (1 + crate::length(random.log_uniform(18))).min(rest.len());
        let (piece, after) = rest.split_at(length);
        let level = *random.pick(&[1, 2, 3]);
        let checksum = random.chance(50);
        match random.below(6) {
            0 => stream.extend(zstd_one_frame(&[], level, None, checksum, random.chance(50))),
            1 => {
                let mut filler = vec![0; crate::length(random.log_uniform(12))];
                random.fill(&mut filler);
                let variant = random.pick(&SKIPPABLE_VARIANTS);
                stream.extend(skippable_frame_numbered(*variant, &filler));
            }
            kind => {
                stream.extend(match kind {
                    2 => zstd_raw_blocks(piece, 1 + random.index(BLOCK_BYTES_MAX)),
                    3 => zstd_one_frame(
                        piece,
                        level,
                        Some(*random.pick(&[10, 13, 20])),
                        checksum,
                        false,
                    ),
                    4 => zstd_one_frame(piece, level, None, checksum, false),
                    _ => zstd_one_frame(piece, level, None, checksum, true),
                });
                rest = after;
            }
        }
    }
    stream
}

/// Returns the number of frames in a stream that hold data, without skippable ones.
///
/// # Panics
///
/// If the stream is not a sequence of whole frames.
pub fn zstd_frame_count(stream: &[u8]) -> u64 {
    let mut rest = stream;
    let mut frames = 0;
    while !rest.is_empty() {
        let skippable = rest.first_chunk().is_some_and(|magic| {
            (SKIPPABLE_MAGIC..SKIPPABLE_MAGIC + 16).contains(&u32::from_le_bytes(*magic))
        });
        frames += u64::from(!skippable);
        rest = &rest[must(zstd_safe::find_frame_compressed_size(rest))..];
    }
    frames
}

/// Returns one lz4 frame as Agave writes it: linked blocks of 64 KiB and a content checksum.
pub fn lz4_frame(raw: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(lz4_frame_info(), Vec::new());
    encoder.write_all(raw).expect("lz4 takes any bytes");
    encoder.finish().expect("lz4 takes any bytes")
}

/// Returns one lz4 frame like Agave's, except that it declares its content size.
pub fn lz4_frame_sized(raw: &[u8]) -> Vec<u8> {
    let info = lz4_frame_info().content_size(Some(raw.len() as u64));
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(raw).expect("lz4 takes any bytes");
    encoder.finish().expect("lz4 takes any bytes")
}

/// Returns one lz4 frame of independent blocks of 64 KiB with every checksum, as `lz4 -B4 -BX` writes
/// it. Every `chunk` raw bytes it begins a new block.
pub fn lz4_frame_independent(raw: &[u8], chunk: usize) -> Vec<u8> {
    let info = lz4_frame_info().block_mode(BlockMode::Independent).block_checksums(true);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    for piece in pieces(raw, chunk) {
        encoder.write_all(piece).expect("lz4 takes any bytes");
        encoder.flush().expect("lz4 takes any bytes");
    }
    encoder.finish().expect("lz4 takes any bytes")
}

/// Returns one lz4 frame of blocks of up to 4 MiB, linked or not.
pub fn lz4_frame_large_blocks(raw: &[u8], linked: bool) -> Vec<u8> {
    let mode = if linked { BlockMode::Linked } else { BlockMode::Independent };
    let info = lz4_frame_info().block_mode(mode).block_size(BlockSize::Max4MB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(raw).expect("lz4 takes any bytes");
    encoder.finish().expect("lz4 takes any bytes")
}

/// Returns independent lz4 frames of `chunk` raw bytes each.
pub fn lz4_frames(raw: &[u8], chunk: usize) -> Vec<u8> {
    pieces(raw, chunk).flat_map(lz4_frame).collect()
}

pub(crate) fn lz4_frame_info() -> FrameInfo {
    FrameInfo::new()
        .block_mode(BlockMode::Linked)
        .block_size(BlockSize::Max64KB)
        .content_checksum(true)
}

/// Returns the length, or panics with libzstd's message.
pub(crate) fn must(result: SafeResult) -> usize {
    result.unwrap_or_else(|code| panic!("libzstd: {}", zstd_safe::get_error_name(code)))
}

/// Returns pieces of `bytes` each. Empty input is one empty piece.
fn pieces(raw: &[u8], bytes: usize) -> impl Iterator<Item = &[u8]> {
    raw.chunks(bytes).chain(raw.is_empty().then_some(raw))
}

/// Returns a frame header: magic number, no flags, a window of 128 KiB.
fn hand_made_header() -> Vec<u8> {
    vec![0x28, 0xB5, 0x2F, 0xFD, 0x00, 7 << 3]
}

fn block_header(last: bool, kind: u32, length: usize) -> [u8; 3] {
    assert!(length <= BLOCK_BYTES_MAX, "no zstd block is longer than 128 KiB");
    let length = u32::try_from(length).expect("128 KiB at most");
    let [low, middle, high, _] = (u32::from(last) | kind << 1 | length << 3).to_le_bytes();
    [low, middle, high]
}

pub(crate) const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
const SKIPPABLE_VARIANTS: [u32; 3] = [0, 7, 15];
const RAW_BLOCK: u32 = 0;
const RLE_BLOCK: u32 = 1;
const BLOCK_BYTES_MAX: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Content, fill_segment};
    use std::io::Read;

    fn raw(length: usize) -> Vec<u8> {
        let mut raw = vec![0; length];
        fill_segment(Content::Huffman, 5, 0, 0, &mut raw);
        raw
    }

    fn unzstd(stream: &[u8]) -> Vec<u8> {
        zstd::stream::decode_all(stream).unwrap()
    }

    #[test]
    fn frames_of_agave_until_4_2_have_its_header() {
        let raw = raw(1_000_000);
        let frame = zstd_one_frame(&raw, 1, None, false, false);
        assert_eq!(frame[..6], [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x48]);
        assert_eq!(unzstd(&frame), raw);
        assert_eq!(zstd_one_frame(&raw, 3, None, false, false)[5], 0x58);
    }

    #[test]
    fn options_show_in_the_frame_header() {
        let raw = raw(100_000);
        for checksum in [false, true] {
            for content_size in [false, true] {
                let frame = zstd_one_frame(&raw, 1, Some(17), checksum, content_size);
                assert_eq!(unzstd(&frame), raw);
                assert_eq!(frame[4] & 4 != 0, checksum);
                let stated = zstd_safe::get_frame_content_size(&frame).unwrap();
                assert_eq!(stated, content_size.then_some(100_000));
            }
        }
    }

    #[test]
    fn frames_are_independent() {
        let raw = raw(300_000);
        for stream in [zstd_frames(&raw, 100_000, 1), zstd_frames_unsized(&raw, 100_000, 1)] {
            assert_eq!(unzstd(&stream), raw);
            let first = zstd_safe::find_frame_compressed_size(&stream).unwrap();
            assert_eq!(unzstd(&stream[first..]), raw[100_000..]);
        }
    }

    #[test]
    fn hand_made_blocks_are_valid() {
        let raw = raw(300_000);
        for block_bytes in [1000, 128 << 10] {
            assert_eq!(unzstd(&zstd_raw_blocks(&raw, block_bytes)), raw);
        }
        assert_eq!(unzstd(&zstd_rle_blocks(7, 300_000, 128 << 10)), vec![7; 300_000]);
        assert_eq!(unzstd(&zstd_rle_blocks(7, 0, 1)), b"");
    }

    #[test]
    fn empty_inputs_are_one_empty_frame() {
        for stream in [
            zstd_one_frame(&[], 1, None, false, false),
            zstd_one_frame(&[], 1, None, true, true),
            zstd_frames(&[], 10, 1),
            zstd_raw_blocks(&[], 10),
        ] {
            assert_eq!(zstd_safe::find_frame_compressed_size(&stream), Ok(stream.len()));
            assert_eq!(unzstd(&stream), b"");
        }
    }

    #[test]
    fn skippable_frames_are_passed_over() {
        let stream = [skippable_frame(b"note"), zstd_frames(b"text", 2, 1), skippable_frame(b"")];
        assert_eq!(unzstd(&stream.concat()), b"text");
    }

    #[test]
    fn mixtures_give_the_bytes_back() {
        let raw = raw(1_000_000);
        for seed in 0..20 {
            assert_eq!(unzstd(&zstd_mixed(&raw, seed)), raw, "seed {seed}");
        }
        assert_eq!(zstd_mixed(&raw, 1), zstd_mixed(&raw, 1));
        assert_ne!(zstd_mixed(&raw, 1), zstd_mixed(&raw, 2));
    }

    #[test]
    fn lz4_gives_the_bytes_back() {
        let raw = raw(300_000);
        let mut back = Vec::new();
        let frame = lz4_frame(&raw);
        lz4_flex::frame::FrameDecoder::new(&frame[..]).read_to_end(&mut back).unwrap();
        assert_eq!(back, raw);
        assert_eq!(crate::tree::decompress(&lz4_frames(&raw, 100_000)).unwrap(), raw);
    }
}
