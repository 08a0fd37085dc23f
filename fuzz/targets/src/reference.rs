//! Reference decoders: libzstd and `lz4_flex` over a whole archive.

use std::io::Read;

use lz4_flex::frame::FrameDecoder;
use unsnap_zstd::{FrameStart, frame_start};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::engines::{RAW_BYTES_MAX, WINDOW_LOG_MAX};

/// A stream decoded by the reference.
pub struct Reference {
    /// The decoded bytes, up to the refusal.
    pub bytes: Vec<u8>,
    /// Whether the whole stream is valid.
    pub good: bool,
    /// The frames that were started. After a refusal the last one is the refused one.
    pub frames: Vec<Frame>,
}

/// A frame of the reference.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Number of decoded bytes before it.
    pub raw_offset: usize,
    /// Number of its decoded bytes.
    pub raw_bytes: u64,
    /// Maximum distance of its matches. 0 for a skippable frame.
    pub window_bytes: u64,
    /// Its declared content size.
    pub content_bytes: Option<u64>,
}

impl Frame {
    /// Returns whether a match could refer to bytes before the window. No encoder produces such a
    /// match, and decoders need not agree on its meaning.
    pub fn outgrows_its_window(&self) -> bool {
        self.raw_bytes > self.window_bytes
    }

    /// Returns whether the declared size is wrong.
    pub fn lies(&self) -> bool {
        self.content_bytes.is_some_and(|bytes| bytes != self.raw_bytes)
    }
}

/// Decodes all frames with libzstd's streaming interface.
pub fn zstd(stream: &[u8]) -> Reference {
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).expect("a legal value");
    let mut found = Reference { bytes: Vec::new(), good: false, frames: Vec::new() };
    let mut rest = stream;
    while !rest.is_empty() {
        let raw_offset = found.bytes.len();
        let (window_bytes, content_bytes) = match frame_start(rest) {
            Ok(FrameStart::Frame(header)) => (header.window_bytes, header.content_bytes),
            _ => (0, None),
        };
        let decoded = zstd_frame(&mut context, rest, &mut found.bytes);
        let raw_bytes = (found.bytes.len() - raw_offset) as u64;
        found.frames.push(Frame { raw_offset, raw_bytes, window_bytes, content_bytes });
        let Some(length) = decoded else { return found };
        rest = &rest[length..];
    }
    found.good = true;
    found
}

/// Decodes one frame. Returns its length, or `None` if it was refused.
fn zstd_frame(context: &mut DCtx<'_>, frame: &[u8], bytes: &mut Vec<u8>) -> Option<usize> {
    context.init().expect("a session can always begin");
    let mut input = InBuffer::around(frame);
    let mut buffer = Vec::with_capacity(128 << 10);
    loop {
        buffer.clear();
        let before = input.pos();
        let mut output = OutBuffer::around(&mut buffer);
        let left = context.decompress_stream(&mut output, &mut input);
        bytes.extend_from_slice(&buffer);
        match left {
            Ok(0) => return Some(input.pos()),
            Ok(_) if input.pos() == before && buffer.is_empty() => return None,
            Ok(_) if bytes.len() as u64 > RAW_BYTES_MAX + (1 << 20) => return None,
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// Decodes each frame with `lz4_flex`. The ends of frames are found by walking their blocks,
/// because `lz4_flex` also ends a frame at an empty block, or at the end of the stream between two
/// blocks.
pub fn lz4(stream: &[u8]) -> Reference {
    let mut found = Reference { bytes: Vec::new(), good: false, frames: Vec::new() };
    let mut rest = stream;
    while !rest.is_empty() {
        let raw_offset = found.bytes.len();
        let frame = Frame { raw_offset, raw_bytes: 0, window_bytes: u64::MAX, content_bytes: None };
        found.frames.push(frame);
        let Some((length, skippable)) = lz4_frame_length(rest) else {
            // The bytes before the end may be returned.
            lz4_frame(rest, &mut found.bytes);
            return found;
        };
        let (frame, after) = rest.split_at(length);
        if !skippable && !lz4_frame(frame, &mut found.bytes) {
            return found;
        }
        rest = after;
    }
    found.good = true;
    found
}

/// Decodes until nothing is left. Returns whether the frame was valid.
fn lz4_frame(mut frame: &[u8], bytes: &mut Vec<u8>) -> bool {
    let mut decoder = FrameDecoder::new(&mut frame);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match decoder.read(&mut buffer) {
            // At the end marker, or at an empty block.
            Ok(0) if decoder.get_ref().is_empty() => return true,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(_) => return false,
        }
        if bytes.len() as u64 > RAW_BYTES_MAX + (1 << 20) {
            return false;
        }
    }
}

/// Returns the length of the first frame, and whether it is skippable. Returns `None` if it is
/// truncated or not a frame.
fn lz4_frame_length(stream: &[u8]) -> Option<(usize, bool)> {
    let word = |at: usize| {
        let bytes = stream.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let there = |length: usize| (length <= stream.len()).then_some(length);
    match word(0)? {
        0x184d_2a50..=0x184d_2a5f => {
            let length = usize::try_from(word(4)?).ok()? + 8;
            return Some((there(length)?, true));
        }
        0x184d_2204 => {}
        _ => return None,
    }
    let flags = *stream.get(4)?;
    let flag = |bit: u8, bytes: usize| if flags & bit == 0 { 0 } else { bytes };
    // Magic, flags, block size, header checksum; optionally content size and dictionary.
    let mut at = 4 + 3 + flag(0x08, 8) + flag(0x01, 4);
    loop {
        let header = word(at)?;
        at += 4;
        if header == 0 {
            return Some((there(at + flag(0x04, 4))?, false));
        }
        at += usize::try_from(header & 0x7fff_ffff).ok()? + flag(0x10, 4);
        there(at)?;
    }
}
