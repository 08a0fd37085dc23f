//! The streaming engine for lz4 frames.

use std::io::{self, Read};

use lz4_flex::frame::FrameDecoder;
use unsnap_source::SourceError;

use crate::{
    DecodeError, Limits, Position,
    cursor::{Cursor, Spans},
    error::hex,
    format::{LZ4_MAGIC, begins_magic, is_skippable, magic},
    output::Output,
    plain::Filler,
};

/// What an archive of lz4 frames consists of.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lz4Frames {
    pub frames: u64,
    pub skippable_frames: u64,
}

/// Decodes all frames up to the true end of the archive.
pub(crate) fn decode<S: Spans>(
    cursor: &mut Cursor<S>,
    segment_bytes: usize,
    limits: &Limits,
    output: &mut Output,
    progress: &impl Fn(u64),
) -> Result<Lz4Frames, DecodeError> {
    let mut filler = Filler::new(output, segment_bytes);
    let result = frames(cursor, &mut filler, limits, progress);
    // After an error too: what precedes the damage is handed out.
    filler.flush()?;
    result
}

fn frames<S: Spans>(
    cursor: &mut Cursor<S>,
    filler: &mut Filler<'_>,
    limits: &Limits,
    progress: &impl Fn(u64),
) -> Result<Lz4Frames, DecodeError> {
    let mut found = Lz4Frames::default();
    loop {
        let at = Position {
            compressed_offset: cursor.offset(),
            frame: found.frames + found.skippable_frames,
            raw_offset: filler.output.raw_offset,
        };
        limits.check_frames(at.frame).map_err(|exceeded| DecodeError::limit(at, exceeded))?;
        let head = cursor.peek(8)?;
        if head.is_empty() {
            return Ok(found);
        }
        match magic(head) {
            Some(LZ4_MAGIC) => {
                frame(cursor, filler, at, progress)?;
                found.frames += 1;
            }
            Some(magic) if is_skippable(magic) && head.len() == 8 => {
                let content = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                if !cursor.skip(8 + u64::from(content))? {
                    let at = Position { compressed_offset: cursor.offset(), ..at };
                    return Err(DecodeError::Truncated { at, inside: "a skippable frame" });
                }
                found.skippable_frames += 1;
                progress(cursor.offset());
            }
            magic if magic.is_some_and(is_skippable) || begins_magic(head, LZ4_MAGIC) => {
                let compressed_offset = at.compressed_offset + head.len() as u64;
                let at = Position { compressed_offset, ..at };
                return Err(DecodeError::Truncated { at, inside: "a frame header" });
            }
            _ => return Err(DecodeError::TrailingBytes { at, found: hex(head) }),
        }
    }
}

fn frame<S: Spans>(
    cursor: &mut Cursor<S>,
    filler: &mut Filler<'_>,
    start: Position,
    progress: &impl Fn(u64),
) -> Result<(), DecodeError> {
    let mut at = start;
    let mut decoder = FrameDecoder::new(Feed { cursor, ended: false, failed: None });
    loop {
        let result = decoder.read(filler.spare_mut(at)?);
        let feed = decoder.get_mut();
        at.compressed_offset = feed.cursor.offset();
        progress(at.compressed_offset);
        match result {
            // The decoder takes an archive that ends between two blocks for complete.
            _ if feed.ended => return Err(DecodeError::Truncated { at, inside: "an lz4 frame" }),
            Ok(0) => return Ok(()),
            Ok(count) => filler.advance(count, at)?,
            Err(error) => {
                return Err(match feed.failed.take() {
                    Some(source) => source.into(),
                    None => DecodeError::Corrupt { at, reason: error.to_string() },
                });
            }
        }
        at.raw_offset = filler.output.raw_offset;
    }
}

/// The cursor as a reader that remembers what a reader cannot say: that the archive has ended, and
/// why reading failed.
struct Feed<'a, S> {
    cursor: &'a mut Cursor<S>,
    ended: bool,
    failed: Option<SourceError>,
}

impl<S: Spans> Read for Feed<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.cursor.chunk() {
            Ok([]) => {
                self.ended |= !buffer.is_empty();
                Ok(0)
            }
            Ok(chunk) => {
                let count = chunk.len().min(buffer.len());
                buffer[..count].copy_from_slice(&chunk[..count]);
                self.cursor.pass(count);
                Ok(count)
            }
            Err(error) => {
                self.failed = Some(error);
                Err(io::Error::other("reading the archive failed"))
            }
        }
    }
}
