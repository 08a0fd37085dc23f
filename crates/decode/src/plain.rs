//! Engine for plain tar. Spans of a source that reserves memory in front of them are the segments;
//! others are copied.

use unsnap_arena::{OpenSegment, Segment, Slice};

use crate::{
    DecodeError, DecodedSegment, Position,
    cursor::{Cursor, Spans},
    output::{Output, Piece},
};

/// Passes on an uncompressed tar stream.
pub(crate) fn pass<S: Spans>(
    cursor: &mut Cursor<S>,
    segment_bytes: usize,
    output: &mut Output,
    progress: &impl Fn(u64),
) -> Result<(), DecodeError> {
    let mut copier = Copier { output, open: None, segment_bytes };
    let result = pass_spans(cursor, &mut copier, progress);
    // Also after an error, so that all bytes before it are returned.
    copier.flush()?;
    result
}

fn pass_spans<S: Spans>(
    cursor: &mut Cursor<S>,
    copier: &mut Copier<'_>,
    progress: &impl Fn(u64),
) -> Result<(), DecodeError> {
    while let Some((bytes, headroom)) = cursor.take_span()? {
        let raw_offset = copier.output.raw_offset;
        let adopted = match headroom {
            Some(headroom) => Segment::adopt(raw_offset, headroom, bytes),
            None => Err(bytes),
        };
        match adopted {
            Ok(segment) => {
                copier.flush()?;
                let end = raw_offset + segment.len() as u64;
                copier.output.count(segment.len() as u64, position(end))?;
                copier.send(segment)?;
            }
            Err(bytes) => copier.copy(&bytes)?,
        }
        progress(cursor.offset());
    }
    Ok(())
}

/// Returns the position in the archive, whose bytes are those of the stream.
fn position(raw_offset: u64) -> Position {
    Position { compressed_offset: raw_offset, frame: 0, raw_offset }
}

/// Copies spans to segments.
struct Copier<'a> {
    output: &'a mut Output,
    open: Option<OpenSegment>,
    segment_bytes: usize,
}

impl Copier<'_> {
    fn copy(&mut self, bytes: &Slice) -> Result<(), DecodeError> {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            if self.open.as_ref().is_some_and(|open| open.spare() == 0) {
                self.flush()?;
            }
            let mut open = match self.open.take() {
                Some(open) => open,
                None => self.output.open(self.segment_bytes)?,
            };
            let count = rest.len().min(open.spare());
            open.spare_mut()[..count].copy_from_slice(&rest[..count]);
            open.advance(count);
            self.open = Some(open);
            rest = &rest[count..];
            let end = self.output.raw_offset + count as u64;
            self.output.count(count as u64, position(end))?;
        }
        Ok(())
    }

    /// Sends the bytes of the open segment.
    fn flush(&mut self) -> Result<(), DecodeError> {
        match self.open.take().filter(|open| open.filled() > 0) {
            Some(open) => self.send(open.seal()),
            None => Ok(()),
        }
    }

    fn send(&mut self, segment: Segment) -> Result<(), DecodeError> {
        let at = position(segment.raw_offset());
        self.output.send(Piece::Ready(DecodedSegment { segment, at }))
    }
}
