//! Compression of frames. Each is decoded again and compared with its input.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, Sender};
use zstd_safe::{CCtx, CParameter, DCtx, get_error_name};

use crate::{PackError, frames::RawFrame};

/// A compressed frame.
#[derive(Debug)]
pub(crate) struct Packed {
    /// The zstd frame.
    pub compressed: Vec<u8>,
    /// Decoded size in bytes.
    pub raw_bytes: usize,
    /// Lower half of the content's XXH64, with which the frame ends, if frames have checksums.
    pub checksum: Option<u32>,
}

/// Parameters of compression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// zstd level.
    pub level: i32,
    /// Whether each frame ends in a checksum.
    pub checksums: bool,
}

/// Times of all compressors, summed up.
#[derive(Debug, Default)]
pub(crate) struct CompressTimes {
    compressing: AtomicU64,
    proving: AtomicU64,
}

impl CompressTimes {
    /// Returns the time for compressing.
    pub fn compressing(&self) -> Duration {
        Duration::from_nanos(self.compressing.load(Ordering::Relaxed))
    }

    /// Returns the time for decoding frames again and comparing them.
    pub fn proving(&self) -> Duration {
        Duration::from_nanos(self.proving.load(Ordering::Relaxed))
    }
}

/// Compresses frames, one after the other. Contexts and buffers are reused.
pub(crate) struct Compressor<'a> {
    manner: Manner,
    contexts: Result<(CCtx<'static>, DCtx<'static>), usize>,
    /// Input of a frame that consists of several pieces.
    whole: Vec<u8>,
    /// Output of decoding a frame again.
    again: Vec<u8>,
    /// Buffers of frames that have been written.
    spare: Receiver<Vec<u8>>,
    times: &'a CompressTimes,
}

impl<'a> Compressor<'a> {
    /// Creates a compressor. Buffers of written frames come back through `spare`.
    pub fn new(manner: Manner, spare: Receiver<Vec<u8>>, times: &'a CompressTimes) -> Self {
        let (whole, again) = (Vec::new(), Vec::new());
        Self { manner, contexts: contexts(manner), whole, again, spare, times }
    }

    /// Compresses a frame and checks that it decodes to the same bytes.
    pub fn frame(&mut self, raw: &RawFrame) -> Result<Packed, PackError> {
        let failed = |code: usize| PackError::Compress {
            raw_offset: raw.raw_offset,
            reason: get_error_name(code),
        };
        let (compressor, decompressor) = self.contexts.as_mut().map_err(|code| failed(*code))?;
        let mut compressed = self.spare.try_recv().unwrap_or_default();
        let begun = Instant::now();
        // The input is always one piece: libzstd would copy several pieces as well, and its output
        // would depend on where they end.
        let whole: &[u8] = if let [piece] = raw.pieces.as_slice() {
            piece
        } else {
            self.whole.clear();
            raw.pieces.iter().for_each(|piece| self.whole.extend_from_slice(piece));
            &self.whole
        };
        compressed.clear();
        compressed.reserve(zstd_safe::compress_bound(whole.len()));
        compressor.compress2(&mut compressed, whole).map_err(failed)?;
        let compressed_at = Instant::now();
        // The buffer grows to the largest frame once. Reused memory costs no page faults.
        if self.again.len() < raw.bytes {
            self.again.resize(raw.bytes, 0);
        }
        let again = &mut self.again[..raw.bytes];
        let decoded = decompressor.decompress(&mut again[..], &compressed).map_err(failed)?;
        if decoded != raw.bytes || !is_same(again, raw) {
            return Err(PackError::NotIdentical { raw_offset: raw.raw_offset });
        }
        // The decoder has verified the checksum.
        let checksum = compressed.last_chunk().copied().map(u32::from_le_bytes);
        let checksum = checksum.filter(|_| self.manner.checksums);
        count(&self.times.compressing, compressed_at - begun);
        count(&self.times.proving, compressed_at.elapsed());
        Ok(Packed { compressed, raw_bytes: raw.bytes, checksum })
    }
}

/// Returns a frame's buffer to the compressors. The channel has room for all buffers in use.
pub(crate) fn give_back(spare: &Sender<Vec<u8>>, buffer: Vec<u8>) {
    let _ = spare.try_send(buffer);
}

fn count(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

fn contexts(manner: Manner) -> Result<(CCtx<'static>, DCtx<'static>), usize> {
    let mut compressor = CCtx::create();
    compressor.set_parameter(CParameter::CompressionLevel(manner.level))?;
    compressor.set_parameter(CParameter::ContentSizeFlag(true))?;
    compressor.set_parameter(CParameter::ChecksumFlag(manner.checksums))?;
    Ok((compressor, DCtx::create()))
}

/// Returns whether the bytes equal the frame's input.
fn is_same(bytes: &[u8], raw: &RawFrame) -> bool {
    let mut rest = bytes;
    for piece in &raw.pieces {
        let Some((begin, end)) = rest.split_at_checked(piece.len()) else { return false };
        if begin != &piece[..] {
            return false;
        }
        rest = end;
    }
    rest.is_empty()
}
