//! Reading: cuts a stream of frames into chunks of blocks.

use std::io::{self, BufReader, Read};

use crate::{
    BLOCK_HEADER_BYTES, BlockHeader, Error, FrameHeader, FrameStart, Place, frame_start,
    slot::{FrameState, Slot},
};

/// Bytes read at once. Most of a block is read past this buffer, to its place.
const READ_BYTES: usize = 4 << 10;

/// The blocks in a slot, and their place in the stream.
pub(crate) struct Chunk {
    /// Place of the first block. The decoded offset is not known yet.
    pub at: Place,
    pub header: FrameHeader,
    /// Whether the frame begins with this chunk.
    pub begins: bool,
    /// What follows the last block, if the frame ends with this chunk.
    pub ends: Option<Ending>,
}

/// What follows the last block of a frame.
pub(crate) struct Ending {
    /// If the frame has one.
    pub checksum: Option<[u8; 4]>,
}

/// What a frame needs while it is read.
struct Open {
    header: FrameHeader,
    state: FrameState,
    blocks: u64,
    /// A block header that was read, but whose block did not fit into the chunk.
    pending: Option<BlockHeader>,
}

/// Frames and bytes passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    pub frames: u64,
    pub skippable_frames: u64,
    pub bytes: u64,
}

/// A stream of frames.
pub(crate) struct Input<R> {
    reader: BufReader<R>,
    window_bytes_max: u64,
    open: Option<Open>,
    /// Damage behind the blocks that were returned.
    failed: Option<Error>,
    /// Nothing can be read after damage.
    over: bool,
    pub passed: Passed,
}

impl<R: Read> Input<R> {
    pub fn new(reader: R, window_bytes_max: u64) -> Self {
        Self {
            reader: BufReader::with_capacity(READ_BYTES, reader),
            window_bytes_max,
            open: None,
            failed: None,
            over: false,
            passed: Passed::default(),
        }
    }

    /// Reads the next chunk into `slot`. Returns `None` at the end of the stream, and after an error.
    pub fn next(&mut self, slot: &mut Slot) -> Result<Option<Chunk>, Error> {
        if self.over {
            return Ok(None);
        }
        let next = self.next_chunk(slot);
        self.over = !matches!(next, Ok(Some(_)));
        next
    }

    fn next_chunk(&mut self, slot: &mut Slot) -> Result<Option<Chunk>, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let begins = self.open.is_none();
        let mut open = match self.open.take() {
            Some(open) => open,
            None => match self.next_frame()? {
                Some(open) => open,
                None => return Ok(None),
            },
        };
        let at = self.place(open.blocks, open.pending.is_some());
        slot.begin(&open.header, &open.state);
        let mut chunk = Chunk { at, header: open.header, begins, ends: None };
        match self.fill(&mut open, slot) {
            Ok(ends) => chunk.ends = ends,
            Err(error) if slot.is_empty() && !begins => return Err(error),
            Err(error) => {
                self.failed = Some(error);
                return Ok(Some(chunk));
            }
        }
        if chunk.ends.is_none() {
            self.open = Some(open);
        } else {
            self.passed.frames += 1;
        }
        Ok(Some(chunk))
    }

    /// Appends blocks until the slot is full or the frame ends. In the latter case, returns what
    /// follows.
    fn fill(&mut self, open: &mut Open, slot: &mut Slot) -> Result<Option<Ending>, Error> {
        loop {
            let header = match open.pending.take() {
                Some(header) => header,
                None => self.block_header(open)?,
            };
            if !slot.fits(&header) {
                open.pending = Some(header);
                return Ok(None);
            }
            let at = self.place(open.blocks, true);
            let reader = &mut self.reader;
            slot.append(header, &mut open.state, |target| reader.read_exact(target))
                .map_err(|error| truncated(error, at, "a block"))?;
            self.passed.bytes += header.stored_bytes() as u64;
            open.blocks += 1;
            if header.last {
                let at = self.place(open.blocks, false);
                let checksum = open.header.has_checksum.then(|| self.take(at, "the checksum"));
                return Ok(Some(Ending { checksum: checksum.transpose()? }));
            }
        }
    }

    fn block_header(&mut self, open: &Open) -> Result<BlockHeader, Error> {
        let at = self.place(open.blocks, false);
        let bytes: [u8; BLOCK_HEADER_BYTES] = self.take(at, "the header of a block")?;
        BlockHeader::parse(bytes, open.header.block_bytes_max())
            .map_err(|defect| Error::Corrupt { at, defect })
    }

    /// Reads the header of the next frame to decode. Returns `None` at the end of the stream.
    fn next_frame(&mut self) -> Result<Option<Open>, Error> {
        loop {
            let at = self.place(0, false);
            let mut head = Vec::new();
            let start = loop {
                match frame_start(&head).map_err(|defect| Error::Corrupt { at, defect })? {
                    FrameStart::Incomplete => {
                        let mut byte = [0];
                        match self.reader.read_exact(&mut byte) {
                            Ok(()) => head.extend(byte),
                            Err(error) if head.is_empty() && is_end(&error) => return Ok(None),
                            Err(error) => {
                                return Err(truncated(error, at, "the header of a frame"));
                            }
                        }
                    }
                    start => break start,
                }
            };
            self.passed.bytes += head.len() as u64;
            match start {
                FrameStart::Frame(header) => {
                    self.check(&header, at)?;
                    let state = FrameState::new();
                    return Ok(Some(Open { header, state, blocks: 0, pending: None }));
                }
                FrameStart::Skippable { bytes } => {
                    let rest = bytes - head.len() as u64;
                    let mut skipped = self.reader.by_ref().take(rest);
                    let count = io::copy(&mut skipped, &mut io::sink()).map_err(Error::Read)?;
                    if count < rest {
                        return Err(Error::Truncated { at, inside: "a skippable frame" });
                    }
                    self.passed.bytes += rest;
                    self.passed.skippable_frames += 1;
                }
                FrameStart::Foreign | FrameStart::Incomplete => {
                    return Err(Error::NotAFrame { at });
                }
            }
        }
    }

    fn check(&self, header: &FrameHeader, at: Place) -> Result<(), Error> {
        if header.dictionary != 0 {
            return Err(Error::Unsupported { at, feature: "a dictionary" });
        }
        let limit = self.window_bytes_max;
        if header.window_bytes > limit {
            return Err(Error::Window { at, window_bytes: header.window_bytes, limit });
        }
        Ok(())
    }

    /// Returns the place of what comes next, or of the block whose header was just read.
    fn place(&self, block: u64, header_passed: bool) -> Place {
        let back = if header_passed { BLOCK_HEADER_BYTES as u64 } else { 0 };
        Place {
            frame: self.passed.frames + self.passed.skippable_frames,
            block,
            compressed_offset: self.passed.bytes - back,
            raw_offset: 0,
        }
    }

    fn take<const N: usize>(&mut self, at: Place, inside: &'static str) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(|error| truncated(error, at, inside))?;
        self.passed.bytes += N as u64;
        Ok(bytes)
    }
}

fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

fn truncated(error: io::Error, at: Place, inside: &'static str) -> Error {
    if is_end(&error) { Error::Truncated { at, inside } } else { Error::Read(error) }
}
