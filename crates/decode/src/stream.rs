//! Streaming engine for zstd: one frame after another, in order, on the planner's thread.

use unsnap_arena::Segment;
use unsnap_zstd::{FRAME_HEADER_BYTES_MAX, FrameHeader};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::{
    DecodeError, DecodedSegment, MemoryPlan, Position,
    block::BlockDecoder,
    cursor::{Cursor, Spans},
    error::no_context,
    frame::size_mismatch,
    output::{Output, Piece},
};

pub(crate) struct Streaming {
    decoder: BlockDecoder,
    /// Decoder for frames whose window does not fit into a segment; created for the first of them.
    copier: Option<DCtx<'static>>,
    plan: MemoryPlan,
    /// Position at which the open segment begins.
    opened_at: Position,
}

/// Method by which a frame was decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streamed {
    InPlace,
    Copied,
}

impl Streaming {
    pub fn new(plan: MemoryPlan) -> Result<Self, DecodeError> {
        let decoder = BlockDecoder::new().ok_or_else(no_context)?;
        let opened_at = Position::default();
        Ok(Self { decoder, copier: None, plan, opened_at })
    }

    /// Decodes the frame at the cursor.
    pub fn frame<S: Spans>(
        &mut self,
        cursor: &mut Cursor<S>,
        header: &FrameHeader,
        frame: u64,
        output: &mut Output,
        progress: &impl Fn(u64),
    ) -> Result<Streamed, DecodeError> {
        let before = output.raw_offset;
        let window = usize::try_from(header.window_bytes).unwrap_or(usize::MAX);
        let streamed = if window.saturating_add(header.block_bytes_max()) <= self.plan.segment_bytes
        {
            self.frame_in_place(cursor, header, frame, output, progress)?;
            Streamed::InPlace
        } else {
            self.frame_copied(cursor, window, frame, output, progress)?;
            Streamed::Copied
        };
        let raw_offset = output.raw_offset;
        let mismatch =
            header.content_bytes.and_then(|bytes| size_mismatch(bytes, raw_offset - before));
        match mismatch {
            None => Ok(streamed),
            Some(reason) => {
                let at = Position { compressed_offset: cursor.offset(), frame, raw_offset };
                Err(DecodeError::Corrupt { at, reason })
            }
        }
    }

    /// Sends the bytes of the open segment. An unfinished frame cannot continue afterwards.
    pub fn flush(&mut self, output: &mut Output) -> Result<(), DecodeError> {
        let segment = self.decoder.finish().map_err(|reason| DecodeError::SetUp { reason })?;
        self.send(segment, output)
    }

    fn send(&self, segment: Option<Segment>, output: &mut Output) -> Result<(), DecodeError> {
        let at = self.opened_at;
        segment.map_or(Ok(()), |segment| output.send(Piece::Ready(DecodedSegment { segment, at })))
    }

    /// Decodes a frame block by block, each at its final place.
    fn frame_in_place<S: Spans>(
        &mut self,
        cursor: &mut Cursor<S>,
        header: &FrameHeader,
        frame: u64,
        output: &mut Output,
        progress: &impl Fn(u64),
    ) -> Result<(), DecodeError> {
        let mut at =
            Position { compressed_offset: cursor.offset(), frame, raw_offset: output.raw_offset };
        let corrupt = |at, reason| DecodeError::Corrupt { at, reason };
        self.decoder.begin().map_err(|reason| corrupt(at, reason))?;
        let block_bytes_max = header.block_bytes_max();
        loop {
            let wanted = self.decoder.wanted();
            if wanted == 0 {
                return Ok(());
            }
            if self.decoder.spare() < block_bytes_max {
                self.roll(at, output)?;
            }
            let Some(source) = cursor.take(wanted)? else {
                at.compressed_offset = cursor.offset();
                return Err(DecodeError::Truncated { at, inside: "a zstd frame" });
            };
            let count = self.decoder.feed(source).map_err(|reason| corrupt(at, reason))?;
            at.compressed_offset = cursor.offset();
            output.count(count as u64, at)?;
            at.raw_offset = output.raw_offset;
            progress(at.compressed_offset);
        }
    }

    /// Decodes a frame through libzstd's own window.
    fn frame_copied<S: Spans>(
        &mut self,
        cursor: &mut Cursor<S>,
        window: usize,
        frame: u64,
        output: &mut Output,
        progress: &impl Fn(u64),
    ) -> Result<(), DecodeError> {
        let mut at =
            Position { compressed_offset: cursor.offset(), frame, raw_offset: output.raw_offset };
        if window > self.plan.own_window_bytes_max {
            return Err(DecodeError::WindowMemory {
                at,
                window_bytes: window as u64,
                limit: self.plan.own_window_bytes_max as u64,
                budget: self.plan.budget_for_window(window) as u64,
            });
        }
        // Pieces of the size that libzstd suggests, so that of a damaged frame all but the last
        // block before the damage is returned.
        let mut piece = FRAME_HEADER_BYTES_MAX;
        loop {
            if self.decoder.spare() == 0 {
                self.roll(at, output)?;
            }
            let context = match &mut self.copier {
                Some(context) => context,
                None => self.copier.insert(copier()?),
            };
            let chunk = cursor.chunk()?;
            if chunk.is_empty() {
                at.compressed_offset = cursor.offset();
                return Err(DecodeError::Truncated { at, inside: "a zstd frame" });
            }
            let mut source = InBuffer::around(&chunk[..chunk.len().min(piece)]);
            let mut target = OutBuffer::around(self.decoder.spare_mut());
            piece = context.decompress_stream(&mut target, &mut source).map_err(|code| {
                DecodeError::Corrupt { at, reason: zstd_safe::get_error_name(code).to_owned() }
            })?;
            let (consumed, count) = (source.pos(), target.pos());
            cursor.pass(consumed);
            self.decoder.advance(count);
            at.compressed_offset = cursor.offset();
            output.count(count as u64, at)?;
            at.raw_offset = output.raw_offset;
            progress(at.compressed_offset);
            if piece == 0 {
                return Ok(());
            }
        }
    }

    /// Continues in a new segment. The filled one is sent before the new one is allocated: a thread
    /// that waits for memory must not hold any that others could use up and return.
    fn roll(&mut self, at: Position, output: &mut Output) -> Result<(), DecodeError> {
        let filled = self.decoder.seal();
        self.send(filled, output)?;
        self.opened_at = at;
        self.decoder.open(output.open(self.plan.segment_bytes)?);
        Ok(())
    }
}

fn copier() -> Result<DCtx<'static>, DecodeError> {
    let set_up = |reason: &str| DecodeError::SetUp { reason: reason.to_owned() };
    let mut context = DCtx::try_create().ok_or_else(no_context)?;
    // Windows are checked against our own limit; this only lifts libzstd's limit.
    context
        .set_parameter(DParameter::WindowLogMax(31))
        .map_err(|code| set_up(zstd_safe::get_error_name(code)))?;
    Ok(context)
}
