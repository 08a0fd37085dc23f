//! One frame: compressed, decoded again, and compared with what it was made of.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, Sender};
use zstd_safe::{CCtx, CParameter, DCtx, get_error_name};

use crate::{PackError, frames::RawFrame};

/// A frame of the archive.
#[derive(Debug)]
pub struct Packed {
    /// The zstd frame.
    pub compressed: Vec<u8>,
    /// Bytes it decodes to.
    pub raw_bytes: usize,
    /// The lower half of their XXH64, with which the frame ends, if frames have checksums.
    pub checksum: Option<u32>,
}

/// How frames are compressed.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Of zstd.
    pub level: i32,
    /// Whether each frame ends in a checksum.
    pub checksums: bool,
}

/// Where the time of all compressors went.
#[derive(Debug, Default)]
pub struct CompressTimes {
    compressing: AtomicU64,
    proving: AtomicU64,
}

impl CompressTimes {
    /// In the compressor.
    pub fn compressing(&self) -> Duration {
        Duration::from_nanos(self.compressing.load(Ordering::Relaxed))
    }

    /// Decoding again, and comparing.
    pub fn proving(&self) -> Duration {
        Duration::from_nanos(self.proving.load(Ordering::Relaxed))
    }
}

/// Compresses frames, one after the other. Its contexts and buffers are used again.
pub struct Compressor<'a> {
    manner: Manner,
    contexts: Result<(CCtx<'static>, DCtx<'static>), usize>,
    /// What a frame is made of, if it came in several pieces.
    whole: Vec<u8>,
    /// What it decodes to.
    again: Vec<u8>,
    /// Buffers that others are done with.
    spare: Receiver<Vec<u8>>,
    times: &'a CompressTimes,
}

impl<'a> Compressor<'a> {
    /// `spare`: where buffers of frames that are written come back.
    pub fn new(manner: Manner, spare: Receiver<Vec<u8>>, times: &'a CompressTimes) -> Self {
        let (whole, again) = (Vec::new(), Vec::new());
        Self { manner, contexts: contexts(manner), whole, again, spare, times }
    }

    /// Compresses a frame, and proves that it decodes to the same bytes.
    pub fn frame(&mut self, raw: &RawFrame) -> Result<Packed, PackError> {
        let failed = |code: usize| PackError::Compress {
            raw_offset: raw.raw_offset,
            reason: get_error_name(code),
        };
        let (compressor, decompressor) = self.contexts.as_mut().map_err(|code| failed(*code))?;
        let mut compressed = self.spare.try_recv().unwrap_or_default();
        let begun = Instant::now();
        // In one piece, always: fed piece by piece, libzstd copies everything too, and what comes out
        // depends on where the pieces end.
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
        // Grows to the largest frame, once: memory that is reused costs no page faults.
        if self.again.len() < raw.bytes {
            self.again.resize(raw.bytes, 0);
        }
        let again = &mut self.again[..raw.bytes];
        let decoded = decompressor.decompress(&mut again[..], &compressed).map_err(failed)?;
        if decoded != raw.bytes || !is_same(again, raw) {
            return Err(PackError::NotIdentical { raw_offset: raw.raw_offset });
        }
        // The decoder has compared it with what it has decoded.
        let checksum = compressed.last_chunk().copied().map(u32::from_le_bytes);
        let checksum = checksum.filter(|_| self.manner.checksums);
        count(&self.times.compressing, compressed_at - begun);
        count(&self.times.proving, compressed_at.elapsed());
        Ok(Packed { compressed, raw_bytes: raw.bytes, checksum })
    }
}

/// Gives a frame's buffer back to the compressors. There is room for all that are under way.
pub fn give_back(spare: &Sender<Vec<u8>>, buffer: Vec<u8>) {
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

/// Whether the bytes are those of the frame as they were read.
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
