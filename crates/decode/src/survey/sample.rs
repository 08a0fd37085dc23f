//! Decoding of small samples through the ordinary interfaces.

use std::io::{self, Read};

use lz4_flex::frame::FrameDecoder;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::{
    Format,
    format::{LZ4_MAGIC, is_skippable, magic},
    survey::peek::Peek,
};

/// Base-2 logarithm of the largest window of a sampled frame: 8 MiB, which libzstd allocates
/// itself. Agave's frames need 512 KiB or 2 MiB.
const WINDOW_LOG_MAX: u32 = 23;

/// Bytes of one decoding step: the size that libzstd suggests for its output.
const PIECE_BYTES: usize = 128 << 10;

/// Maximum size of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub compressed_bytes: u64,
    pub raw_bytes: u64,
}

/// Result of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decoded {
    /// Compressed bytes consumed, up to the damage if there is any.
    pub consumed_bytes: u64,
    pub raw_bytes: u64,
    /// Whether every frame that was started is complete.
    pub at_frame_end: bool,
}

/// Decodes from `start`, where a frame begins, until the budget is exhausted or the archive ends or
/// is damaged.
pub(super) fn decode(
    peek: &mut Peek<'_>,
    format: Format,
    start: u64,
    budget: Budget,
    give: &mut dyn FnMut(&[u8]),
) -> Decoded {
    let end = peek.limit().min(start.saturating_add(budget.compressed_bytes));
    match format {
        Format::Zstd => zstd(peek, start, end, budget.raw_bytes, give).unwrap_or_default(),
        Format::Lz4 => lz4(peek, start, end, budget.raw_bytes, give),
        Format::Tar => plain(peek, start, end, budget.raw_bytes, give),
    }
}

fn zstd(
    peek: &mut Peek<'_>,
    start: u64,
    end: u64,
    raw_bytes_max: u64,
    give: &mut dyn FnMut(&[u8]),
) -> Option<Decoded> {
    let mut context = DCtx::try_create()?;
    context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).ok()?;
    let mut output = vec![0; PIECE_BYTES];
    let mut decoded = Decoded { at_frame_end: true, ..Decoded::default() };
    while decoded.raw_bytes < raw_bytes_max {
        let at = start + decoded.consumed_bytes;
        let rest = usize::try_from(end - at).unwrap_or(usize::MAX);
        let mut source = InBuffer::around(peek.at(at, rest.min(PIECE_BYTES)));
        let mut target = OutBuffer::around(output.as_mut_slice());
        let result = context.decompress_stream(&mut target, &mut source);
        let (consumed, count) = (source.pos(), target.pos());
        let Ok(hint) = result else {
            decoded.at_frame_end = false;
            break;
        };
        if consumed == 0 && count == 0 {
            break;
        }
        decoded.consumed_bytes += consumed as u64;
        decoded.raw_bytes += count as u64;
        decoded.at_frame_end = hint == 0;
        give(&output[..count]);
    }
    Some(decoded)
}

fn lz4(
    peek: &mut Peek<'_>,
    start: u64,
    end: u64,
    raw_bytes_max: u64,
    give: &mut dyn FnMut(&[u8]),
) -> Decoded {
    let mut output = vec![0; PIECE_BYTES];
    let mut raw_bytes = 0;
    let mut reader = PeekReader { peek, at: start, end, ended: false };
    let mut at_frame_end = true;
    while raw_bytes < raw_bytes_max {
        let head = reader.peek.at(reader.at, 8);
        match magic(head) {
            Some(LZ4_MAGIC) => {}
            Some(magic) if is_skippable(magic) && head.len() == 8 => {
                let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                reader.at += 8 + u64::from(size);
                continue;
            }
            _ => break,
        }
        at_frame_end = false;
        let mut decoder = FrameDecoder::new(&mut reader);
        while raw_bytes < raw_bytes_max {
            match decoder.read(&mut output) {
                Ok(0) => {
                    // The decoder accepts data that ends between two blocks.
                    at_frame_end = !decoder.get_ref().ended;
                    break;
                }
                Ok(count) => {
                    raw_bytes += count as u64;
                    give(&output[..count]);
                }
                Err(_) => break,
            }
        }
        if !at_frame_end {
            break;
        }
    }
    Decoded { consumed_bytes: reader.at - start, raw_bytes, at_frame_end }
}

struct PeekReader<'p, 'a> {
    peek: &'p mut Peek<'a>,
    at: u64,
    end: u64,
    /// Whether the decoder wanted more bytes than there are.
    ended: bool,
}

impl Read for PeekReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let bytes = self.peek.at(self.at, rest.min(buffer.len()).min(PIECE_BYTES));
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len() as u64;
        self.ended |= bytes.is_empty() && !buffer.is_empty();
        Ok(bytes.len())
    }
}

fn plain(
    peek: &mut Peek<'_>,
    start: u64,
    end: u64,
    raw_bytes_max: u64,
    give: &mut dyn FnMut(&[u8]),
) -> Decoded {
    let mut at = start;
    while at < end && at - start < raw_bytes_max {
        let rest = usize::try_from(end - at).unwrap_or(usize::MAX);
        let bytes = peek.at(at, rest.min(PIECE_BYTES));
        if bytes.is_empty() {
            break;
        }
        at += bytes.len() as u64;
        give(bytes);
    }
    Decoded { consumed_bytes: at - start, raw_bytes: at - start, at_frame_end: true }
}
