//! Walks over compressed data by the headers of frames and blocks.

use crate::{
    Format,
    format::{LZ4_MAGIC, is_skippable, magic},
    frame::{block_header, block_raw_bytes},
    survey::peek::Peek,
};
use unsnap_zstd::{BLOCK_HEADER_BYTES, FRAME_HEADER_BYTES_MAX, FrameStart, frame_start};

/// Largest decoded size of a block in bytes, whatever its frame's window.
const BLOCK_BYTES_MAX: u64 = unsnap_zstd::BLOCK_BYTES_MAX as u64;

/// Longest lz4 frame header in bytes: magic, two bytes of flags, content size, dictionary id,
/// checksum.
const LZ4_HEADER_BYTES_MAX: usize = 19;

/// Number of consecutive blocks, up to the limit of the examined part, that prove that a walk from
/// an arbitrary offset follows real blocks. An offset in random bytes looks like a zstd block about
/// once in 40 times, and a walk from there seldom gets that far.
const PROOF_BLOCKS_MIN: usize = 6;

/// Most steps of one search for blocks: about 3 ms. A window of a snapshot has some tens of blocks,
/// and most offsets without a block fail at the first step.
const PROOF_STEPS_MAX: u32 = 1 << 18;

/// Item found by a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A frame header. `content_bytes` is the decoded size, if the frame declares it.
    FrameBegins {
        content_bytes: Option<u64>,
        block_bytes_max: u64,
    },
    /// A block. `raw_bytes` is the decoded size, if the header gives it.
    Block {
        raw_bytes: Option<u64>,
    },
    FrameEnds,
    /// A frame that decoders skip.
    Skipped,
}

/// Reason why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// All frames are complete and nothing follows.
    End,
    /// The part that may be examined ends here.
    Short,
    /// The format does not allow these bytes.
    Bad,
}

/// A walk over frames and blocks. Each step passes at least one byte, except for the step at the
/// end of a frame, which never occurs twice in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    pub at: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Between {
        format: Format,
    },
    /// `checksum` is `None` if the walk began inside the frame and so does not know whether it has
    /// a checksum.
    Zstd {
        checksum: Option<bool>,
    },
    ZstdEnd {
        checksum: Option<bool>,
    },
    Lz4(Lz4Flags),
    Lz4End,
}

/// Properties of an lz4 frame's blocks, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lz4Flags {
    block_bytes_max: u64,
    block_checksum: bool,
    content_checksum: bool,
}

impl Blocks {
    /// Starts a walk at the beginning of a frame.
    pub fn from_frame(at: u64, format: Format) -> Self {
        Self { at, place: Place::Between { format } }
    }

    /// Starts a walk at a block inside a zstd frame.
    pub fn amid_zstd(at: u64) -> Self {
        Self { at, place: Place::Zstd { checksum: None } }
    }

    /// Searches for blocks from `from` on, which may lie anywhere in a frame. `lz4` holds the
    /// properties of the frames if the format is lz4.
    pub fn find(peek: &mut Peek<'_>, from: u64, lz4: Option<Lz4Flags>) -> Option<Self> {
        let (place, span) = match lz4 {
            None => (Place::Zstd { checksum: None }, BLOCK_BYTES_MAX + BLOCK_HEADER_BYTES as u64),
            Some(flags) => (Place::Lz4(flags), flags.block_bytes_max + 8),
        };
        let end = peek.limit().min(from.saturating_add(span));
        let mut steps_left = PROOF_STEPS_MAX;
        for at in from..end {
            let start = Self { at, place };
            if start.is_proven(peek, &mut steps_left)? {
                return Some(start);
            }
        }
        None
    }

    /// Returns whether a walk from here follows real blocks; `None` if there are no steps left to
    /// find out.
    fn is_proven(mut self, peek: &mut Peek<'_>, steps_left: &mut u32) -> Option<bool> {
        let mut blocks = 0;
        loop {
            *steps_left = steps_left.checked_sub(1)?;
            match self.next(peek) {
                Ok(Step::Block { .. }) => blocks += 1,
                Ok(_) => {}
                Err(Stop::End | Stop::Short) => return Some(blocks >= PROOF_BLOCKS_MIN),
                Err(Stop::Bad) => return Some(false),
            }
        }
    }

    /// Passes the next item.
    pub fn next(&mut self, peek: &mut Peek<'_>) -> Result<Step, Stop> {
        match self.place {
            Place::Between { format: Format::Lz4 } => self.lz4_frame(peek),
            Place::Between { .. } => self.zstd_frame(peek),
            Place::Zstd { checksum } => self.zstd_block(peek, checksum),
            Place::ZstdEnd { checksum } => self.zstd_end(peek, checksum),
            Place::Lz4(flags) => self.lz4_block(peek, flags),
            Place::Lz4End => {
                self.place = Place::Between { format: Format::Lz4 };
                Ok(Step::FrameEnds)
            }
        }
    }

    fn end_or_short(&self, peek: &Peek<'_>) -> Stop {
        if self.at == peek.limit() { Stop::End } else { Stop::Short }
    }

    fn zstd_frame(&mut self, peek: &mut Peek<'_>) -> Result<Step, Stop> {
        let head = peek.at(self.at, FRAME_HEADER_BYTES_MAX);
        if head.is_empty() {
            return Err(self.end_or_short(peek));
        }
        match frame_start(head) {
            Ok(FrameStart::Frame(header)) => {
                self.at += header.header_bytes as u64;
                self.place = Place::Zstd { checksum: Some(header.has_checksum) };
                Ok(Step::FrameBegins {
                    content_bytes: header.content_bytes,
                    block_bytes_max: header.block_bytes_max() as u64,
                })
            }
            Ok(FrameStart::Skippable { bytes }) => self.skip(bytes),
            Ok(FrameStart::Incomplete) => Err(Stop::Short),
            Ok(FrameStart::Foreign) | Err(_) => Err(Stop::Bad),
        }
    }

    fn zstd_block(&mut self, peek: &mut Peek<'_>, checksum: Option<bool>) -> Result<Step, Stop> {
        let bytes = peek.at(self.at, BLOCK_HEADER_BYTES);
        let bytes = *bytes.first_chunk().ok_or(Stop::Short)?;
        let header = block_header(bytes).ok_or(Stop::Bad)?;
        let raw_bytes = block_raw_bytes(&header);
        let size = header.size as u64;
        // For a walk that began inside a frame, every run of zeros would look like empty blocks.
        if size > BLOCK_BYTES_MAX || (size == 0 && !header.last && checksum.is_none()) {
            return Err(Stop::Bad);
        }
        self.at += (BLOCK_HEADER_BYTES + header.stored_bytes()) as u64;
        if header.last {
            self.place = Place::ZstdEnd { checksum };
        }
        Ok(Step::Block { raw_bytes })
    }

    fn zstd_end(&mut self, peek: &mut Peek<'_>, checksum: Option<bool>) -> Result<Step, Stop> {
        let limit = peek.limit();
        let mut begins_frame = |at: u64| {
            let start = frame_start(peek.at(at, FRAME_HEADER_BYTES_MAX));
            at == limit || matches!(start, Ok(FrameStart::Frame(_) | FrameStart::Skippable { .. }))
        };
        let checksum = match checksum {
            Some(known) => known,
            // The next frame must begin after the checksum, if there is one.
            None if begins_frame(self.at) => false,
            None if begins_frame(self.at + 4) => true,
            None => return Err(Stop::Bad),
        };
        self.at += if checksum { 4 } else { 0 };
        self.place = Place::Between { format: Format::Zstd };
        if self.at > peek.limit() { Err(Stop::Short) } else { Ok(Step::FrameEnds) }
    }

    fn skip(&mut self, bytes: u64) -> Result<Step, Stop> {
        self.at = self.at.checked_add(bytes).ok_or(Stop::Bad)?;
        Ok(Step::Skipped)
    }

    fn lz4_frame(&mut self, peek: &mut Peek<'_>) -> Result<Step, Stop> {
        let head = peek.at(self.at, LZ4_HEADER_BYTES_MAX);
        if head.is_empty() {
            return Err(self.end_or_short(peek));
        }
        match magic(head) {
            Some(LZ4_MAGIC) => {}
            Some(magic) if is_skippable(magic) => {
                let size = head.get(4..8).and_then(|bytes| bytes.first_chunk());
                let size = u32::from_le_bytes(*size.ok_or(Stop::Short)?);
                return self.skip(8 + u64::from(size));
            }
            Some(_) => return Err(Stop::Bad),
            None => return Err(Stop::Short),
        }
        let &[flags, sizes] =
            head.get(4..6).and_then(|bytes| bytes.first_chunk()).ok_or(Stop::Short)?;
        let has = |bit: u8| flags & bit != 0;
        let block_bytes_max = match (sizes >> 4) & 7 {
            log @ 4..=7 => 1 << (8 + 2 * log),
            _ => return Err(Stop::Bad),
        };
        let mut header_bytes = 7;
        let mut content_bytes = None;
        if has(0x08) {
            let size = head.get(6..14).and_then(|bytes| bytes.first_chunk()).ok_or(Stop::Short)?;
            content_bytes = Some(u64::from_le_bytes(*size));
            header_bytes += 8;
        }
        header_bytes += if has(0x01) { 4 } else { 0 };
        self.at += header_bytes;
        self.place = Place::Lz4(Lz4Flags {
            block_bytes_max,
            block_checksum: has(0x10),
            content_checksum: has(0x04),
        });
        Ok(Step::FrameBegins { content_bytes, block_bytes_max })
    }

    fn lz4_block(&mut self, peek: &mut Peek<'_>, flags: Lz4Flags) -> Result<Step, Stop> {
        let bytes = peek.at(self.at, 4);
        let header = u32::from_le_bytes(*bytes.first_chunk().ok_or(Stop::Short)?);
        if header == 0 {
            self.at += if flags.content_checksum { 8 } else { 4 };
            self.place = Place::Lz4End;
            // The step after next must find a frame, so that a run of zeros does not pass for empty
            // frames.
            return self.next(peek);
        }
        let (size, stored) = (u64::from(header & 0x7fff_ffff), header >> 31 != 0);
        if size == 0 || size > flags.block_bytes_max {
            return Err(Stop::Bad);
        }
        self.at += 4 + size + if flags.block_checksum { 4 } else { 0 };
        Ok(Step::Block { raw_bytes: stored.then_some(size) })
    }

    /// Returns whether this walk, inside a frame, is at the same block as the other.
    pub fn is_like(&self, other: &Self) -> bool {
        self.at == other.at
            && match (self.place, other.place) {
                (Place::Zstd { .. }, Place::Zstd { .. }) => true,
                (Place::Lz4(flags), Place::Lz4(others)) => flags == others,
                _ => false,
            }
    }

    /// Returns whether the current zstd frame ends with a checksum, if that is known.
    pub fn checksum(&self) -> Option<bool> {
        match self.place {
            Place::Zstd { checksum } => checksum,
            _ => None,
        }
    }

    /// Returns the properties of the current lz4 frame.
    pub fn lz4_flags(&self) -> Option<Lz4Flags> {
        match self.place {
            Place::Lz4(flags) => Some(flags),
            _ => None,
        }
    }
}
