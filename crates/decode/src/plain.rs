//! Segment filling for formats other than zstd, and the engine for plain tar.

use unsnap_arena::OpenSegment;

use crate::{
    DecodeError, DecodedSegment, Position,
    cursor::{Cursor, Spans},
    output::{Output, Piece},
};

/// Fills one segment after another.
pub(crate) struct Filler<'a> {
    pub output: &'a mut Output,
    open: Option<OpenSegment>,
    /// Position at which the open segment begins.
    opened_at: Position,
    segment_bytes: usize,
}

impl<'a> Filler<'a> {
    pub fn new(output: &'a mut Output, segment_bytes: usize) -> Self {
        Self { output, open: None, opened_at: Position::default(), segment_bytes }
    }

    /// Returns room for at least one byte, decoded from `at`.
    pub fn spare_mut(&mut self, at: Position) -> Result<&mut [u8], DecodeError> {
        if self.open.as_ref().is_some_and(|open| open.spare() == 0) {
            self.flush()?;
        }
        let open = if let Some(open) = self.open.take() {
            open
        } else {
            self.opened_at = at;
            self.output.open(self.segment_bytes)?
        };
        Ok(self.open.insert(open).spare_mut())
    }

    /// Counts `count` bytes written to the spare room.
    pub fn advance(&mut self, count: usize, at: Position) -> Result<(), DecodeError> {
        if let Some(open) = &mut self.open {
            open.advance(count);
        }
        self.output.count(count as u64, at)
    }

    /// Sends the bytes of the open segment.
    pub fn flush(&mut self) -> Result<(), DecodeError> {
        match self.open.take().filter(|open| open.filled() > 0) {
            Some(open) => {
                let (segment, at) = (open.seal(), self.opened_at);
                self.output.send(Piece::Ready(DecodedSegment { segment, at }))
            }
            None => Ok(()),
        }
    }
}

/// Copies an uncompressed tar stream.
pub(crate) fn copy<S: Spans>(
    cursor: &mut Cursor<S>,
    segment_bytes: usize,
    output: &mut Output,
    progress: &impl Fn(u64),
) -> Result<(), DecodeError> {
    let mut filler = Filler::new(output, segment_bytes);
    let result = fill(cursor, &mut filler, progress);
    // Also after an error, so that all bytes before it are returned.
    filler.flush()?;
    result
}

fn fill<S: Spans>(
    cursor: &mut Cursor<S>,
    filler: &mut Filler<'_>,
    progress: &impl Fn(u64),
) -> Result<(), DecodeError> {
    let mut at = Position::default();
    loop {
        let chunk = cursor.chunk()?;
        if chunk.is_empty() {
            return Ok(());
        }
        let spare = filler.spare_mut(at)?;
        let count = chunk.len().min(spare.len());
        spare[..count].copy_from_slice(&chunk[..count]);
        cursor.pass(count);
        at.compressed_offset = cursor.offset();
        filler.advance(count, at)?;
        at.raw_offset = filler.output.raw_offset;
        progress(cursor.offset());
    }
}
