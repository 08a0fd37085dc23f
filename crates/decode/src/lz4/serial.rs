//! Decoding of a frame block by block, by the planner.

use super::{
    frame::{Frame, corrupt, cut, take},
    header::BlockHeader,
    writer::Writer,
};
use crate::{
    DecodeError, Position,
    cursor::{Cursor, Spans},
};

/// Decodes the frame whose header has been passed.
pub(super) fn frame<S: Spans>(
    frame: &Frame,
    cursor: &mut Cursor<S>,
    writer: &mut Writer<'_>,
    progress: &impl Fn(u64),
) -> Result<(), DecodeError> {
    writer.begin(&frame.header, frame.at);
    blocks(frame, cursor, writer, progress)
}

/// Decodes the blocks at the cursor, to the end of the frame.
pub(super) fn blocks<S: Spans>(
    frame: &Frame,
    cursor: &mut Cursor<S>,
    writer: &mut Writer<'_>,
    progress: &impl Fn(u64),
) -> Result<(), DecodeError> {
    let header = &frame.header;
    loop {
        let from = frame.position(cursor, writer.output);
        let length = take(cursor)?;
        let at = Position { compressed_offset: cursor.offset(), ..from };
        let length = length.ok_or_else(|| cut(at))?;
        let block = BlockHeader::parse(length, header).map_err(|reason| corrupt(at, reason))?;
        let Some(block) = block else { return frame.end(cursor, writer) };
        let Some(stored) = cursor.take(block.stored_bytes(header))? else {
            return Err(cut(Position { compressed_offset: cursor.offset(), ..from }));
        };
        writer.block(header, &block, stored, from)?;
        progress(cursor.offset());
    }
}
