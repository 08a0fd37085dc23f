//! A frame to be decoded, and what is common to both ways of decoding it.

use super::{header::FrameHeader, writer::Writer};
use crate::{
    DecodeError, Position,
    cursor::{Cursor, Spans},
    output::Output,
};

/// A frame to be decoded.
pub(super) struct Frame {
    pub header: FrameHeader,
    pub at: Position,
}

impl Frame {
    /// Returns the position in this frame that decoding has reached.
    pub fn position<S: Spans>(&self, cursor: &Cursor<S>, output: &Output) -> Position {
        let compressed_offset = cursor.offset();
        Position { compressed_offset, raw_offset: output.raw_offset, ..self.at }
    }

    /// Checks what follows the end mark, and the declared size.
    pub fn end<S: Spans>(
        &self,
        cursor: &mut Cursor<S>,
        writer: &mut Writer<'_>,
    ) -> Result<(), DecodeError> {
        let decoded = writer.frame_bytes;
        if let Some(declared) = self.header.content_bytes.filter(|&bytes| bytes != decoded) {
            let at = self.position(cursor, writer.output);
            let reason = format!("the frame declares {declared} bytes but holds {decoded}");
            return Err(DecodeError::Corrupt { at, reason });
        }
        let Some(sum) = writer.finish()? else { return Ok(()) };
        let expected = take(cursor)?;
        let at = self.position(cursor, writer.output);
        match expected {
            None => Err(cut(at)),
            Some(expected) if expected != sum.to_le_bytes() => {
                Err(corrupt(at, "the frame does not match its checksum"))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Passes a few bytes; `None` if the archive ends before.
pub(super) fn take<S: Spans, const N: usize>(
    cursor: &mut Cursor<S>,
) -> Result<Option<[u8; N]>, DecodeError> {
    Ok(cursor.take(N)?.and_then(|bytes| bytes.first_chunk()).copied())
}

pub(super) fn corrupt(at: Position, reason: &str) -> DecodeError {
    DecodeError::Corrupt { at, reason: reason.to_owned() }
}

/// Returns the error for an archive that ends at `at`, inside a frame.
pub(super) fn cut(at: Position) -> DecodeError {
    DecodeError::Truncated { at, inside: "an lz4 frame" }
}
