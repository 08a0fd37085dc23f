//! Engine for lz4 frames.
//!
//! Blocks are decoded to their final place in segments, without a copy in between. Blocks that refer
//! to earlier ones are decoded in order; workers decode those that do not, and sum up what the
//! checksum of a frame covers. `lz4_flex` decodes the blocks.

mod blocks;
mod frame;
pub(crate) mod header;
mod serial;
mod sum;
mod writer;

use self::{
    blocks::Parallel,
    frame::{Frame, corrupt},
    header::{FRAME_HEADER_BYTES_MAX, FrameHeader},
    writer::Writer,
};
use crate::{
    DecodeError, FrameStarts, Limits, MemoryPlan, Position,
    cursor::{Cursor, Spans},
    error::hex,
    format::{LZ4_MAGIC, begins_magic, is_skippable, magic},
    output::Output,
    work::Workers,
};

/// Numbers of frames in an lz4 archive.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lz4Frames {
    pub frames: u64,
    /// Those of them whose blocks workers decoded.
    pub shared: u64,
    pub skippable_frames: u64,
}

/// What decoding needs, beside the bytes.
pub(crate) struct Lz4<'a> {
    pub plan: &'a MemoryPlan,
    pub workers: Option<&'a Workers>,
    pub limits: &'a Limits,
    pub starts: &'a FrameStarts,
}

impl Lz4<'_> {
    /// Decodes all frames up to the true end of the archive.
    pub fn decode<S: Spans>(
        &self,
        cursor: &mut Cursor<S>,
        output: &mut Output,
        progress: &impl Fn(u64),
    ) -> Result<Lz4Frames, DecodeError> {
        let mut writer = Writer::new(output, self.workers, self.plan.segment_bytes);
        let result = self.frames(cursor, &mut writer, progress);
        // Also after an error, so that all bytes before the damage are returned.
        writer.flush()?;
        result
    }

    fn frames<S: Spans>(
        &self,
        cursor: &mut Cursor<S>,
        writer: &mut Writer<'_>,
        progress: &impl Fn(u64),
    ) -> Result<Lz4Frames, DecodeError> {
        let mut found = Lz4Frames::default();
        let workers = self.workers.filter(|_| !self.plan.is_kept);
        let mut parallel = workers.map(|workers| Parallel::new(workers, self.plan));
        loop {
            let at = Position {
                compressed_offset: cursor.offset(),
                frame: found.frames + found.skippable_frames,
                raw_offset: writer.output.raw_offset,
            };
            self.limits
                .check_frames(at.frame)
                .map_err(|exceeded| DecodeError::limit(at, exceeded))?;
            let head = cursor.peek(FRAME_HEADER_BYTES_MAX)?;
            if head.is_empty() {
                return Ok(found);
            }
            match magic(head) {
                Some(LZ4_MAGIC) => {
                    let parsed = FrameHeader::parse(head).map_err(|reason| corrupt(at, reason))?;
                    let header = parsed.ok_or_else(|| cut_header(at, head))?;
                    self.starts.mark(at, false);
                    cursor.skip(header.bytes as u64)?;
                    let frame = Frame { header, at };
                    let taken = match &mut parallel {
                        Some(parallel) if header.independent => {
                            parallel.frame(&frame, cursor, writer, progress)?
                        }
                        _ => false,
                    };
                    if taken {
                        found.shared += 1;
                    } else {
                        serial::frame(&frame, cursor, writer, progress)?;
                    }
                    found.frames += 1;
                }
                Some(magic) if is_skippable(magic) && head.len() >= 8 => {
                    let content = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                    self.starts.mark(at, true);
                    if !cursor.skip(8 + u64::from(content))? {
                        let at = Position { compressed_offset: cursor.offset(), ..at };
                        return Err(DecodeError::Truncated { at, inside: "a skippable frame" });
                    }
                    found.skippable_frames += 1;
                }
                magic if magic.is_some_and(is_skippable) || begins_magic(head, LZ4_MAGIC) => {
                    return Err(cut_header(at, head));
                }
                _ => return Err(DecodeError::TrailingBytes { at, found: hex(head) }),
            }
            progress(cursor.offset());
        }
    }
}

/// Returns the error for an archive that ends after `head`, which begins at `at`.
fn cut_header(at: Position, head: &[u8]) -> DecodeError {
    let compressed_offset = at.compressed_offset + head.len() as u64;
    let at = Position { compressed_offset, ..at };
    DecodeError::Truncated { at, inside: "a frame header" }
}
