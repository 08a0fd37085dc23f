//! Streaming engine for lz4 frames.

use std::io::{self, Read};

use lz4_flex::frame::FrameDecoder;
use unsnap_source::SourceError;

use crate::{
    DecodeError, FrameStarts, Limits, Position,
    cursor::{Cursor, Spans},
    error::hex,
    format::{LZ4_MAGIC, begins_magic, is_skippable, magic},
    output::Output,
    plain::Filler,
};

/// Numbers of frames in an lz4 archive.
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
    starts: &FrameStarts,
    progress: &impl Fn(u64),
) -> Result<Lz4Frames, DecodeError> {
    let mut filler = Filler::new(output, segment_bytes);
    let result = frames(cursor, &mut filler, limits, starts, progress);
    // Also after an error, so that all bytes before the damage are returned.
    filler.flush()?;
    result
}

fn frames<S: Spans>(
    cursor: &mut Cursor<S>,
    filler: &mut Filler<'_>,
    limits: &Limits,
    starts: &FrameStarts,
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
                // A header without flags is truncated, which the decoder detects.
                let flags = head.get(4).copied().unwrap_or(0);
                starts.mark(at, false);
                frame(cursor, BlockWalk::new(flags), filler, at, progress)?;
                found.frames += 1;
            }
            Some(magic) if is_skippable(magic) && head.len() == 8 => {
                let content = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                starts.mark(at, true);
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
    blocks: BlockWalk,
    filler: &mut Filler<'_>,
    start: Position,
    progress: &impl Fn(u64),
) -> Result<(), DecodeError> {
    let mut at = start;
    let mut decoder = FrameDecoder::new(Feed { cursor, blocks, ended: false, failed: None });
    loop {
        let result = decoder.read(filler.spare_mut(at)?);
        let feed = decoder.get_mut();
        at.compressed_offset = feed.cursor.offset();
        progress(at.compressed_offset);
        match result {
            // The decoder accepts an archive that ends between two blocks.
            _ if feed.ended => return Err(DecodeError::Truncated { at, inside: "an lz4 frame" }),
            Ok(0) if feed.blocks.at_end() => return Ok(()),
            // A block that decodes to nothing. It has been passed, so the loop ends.
            Ok(0) => {}
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

/// Adapter from a cursor to [`Read`]. It remembers two facts that [`Read`] cannot return: that the
/// archive has ended, and why reading failed.
struct Feed<'a, S> {
    cursor: &'a mut Cursor<S>,
    blocks: BlockWalk,
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
                self.blocks.pass(&buffer[..count]);
                Ok(count)
            }
            Err(error) => {
                self.failed = Some(error);
                Err(io::Error::other("reading the archive failed"))
            }
        }
    }
}

/// Follows the block headers of a frame to find its end mark, since the decoder does not
/// distinguish an end mark from a block that decodes to nothing.
///
/// ```text
/// │ magic 4 │ flags, sizes, header checksum 3 to 15 │ length 4 │ block │ … │ 0 0 0 0 │ checksum │
/// ```
struct BlockWalk {
    /// Bytes to pass before the next length.
    skip: u64,
    length: [u8; 4],
    /// Number of bytes of `length` received so far.
    length_bytes: usize,
    /// Whether the end mark has been passed.
    marked: bool,
    block_checksum_bytes: u64,
    content_checksum_bytes: u64,
}

impl BlockWalk {
    /// Creates a walk over a frame with these flags, the first byte after the magic number.
    fn new(flags: u8) -> Self {
        let flag = |bit: u8, bytes: u64| if flags & bit == 0 { 0 } else { bytes };
        Self {
            // Magic number, flags, block size and header checksum; content size; dictionary.
            skip: 4 + 3 + flag(0x08, 8) + flag(0x01, 4),
            length: [0; 4],
            length_bytes: 0,
            marked: false,
            block_checksum_bytes: flag(0x10, 4),
            content_checksum_bytes: flag(0x04, 4),
        }
    }

    /// Returns whether the frame is complete.
    fn at_end(&self) -> bool {
        self.marked && self.skip == 0
    }

    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
            self.skip -= skipped as u64;
            bytes = &bytes[skipped..];
            if self.marked {
                // The decoder does not read beyond its frame.
                return;
            }
            let part = bytes.len().min(self.length.len() - self.length_bytes);
            self.length[self.length_bytes..][..part].copy_from_slice(&bytes[..part]);
            self.length_bytes += part;
            bytes = &bytes[part..];
            if self.length_bytes == self.length.len() {
                self.length_bytes = 0;
                let length = u32::from_le_bytes(self.length);
                self.marked = length == 0;
                self.skip = if self.marked {
                    self.content_checksum_bytes
                } else {
                    // The highest bit marks a block that is not compressed.
                    u64::from(length & 0x7fff_ffff) + self.block_checksum_bytes
                };
            }
        }
    }
}
