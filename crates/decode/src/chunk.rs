//! Chunks: consecutive blocks that one thread decodes to packed sequences, with the frames that they
//! belong to.

use crossbeam::channel::Sender;
use unsnap_zstd::{BLOCK_HEADER_BYTES, BlockDefect, FrameHeader, Parser, Slot};

use crate::Position;

/// Consecutive blocks, of one frame or of several small ones.
pub(crate) struct Chunk {
    pub slot: Box<Slot>,
    pub parts: Vec<Part>,
    /// Result of the first stage.
    pub parsed: Result<(), BlockDefect>,
}

/// The blocks of one frame in a chunk.
pub(crate) struct Part {
    /// Number of the first block in the chunk.
    pub first: usize,
    /// Position of the frame. Its offset in the decoded stream is not known yet.
    pub frame_at: Position,
    pub header: FrameHeader,
    /// Whether the frame begins with the first block.
    pub begins: bool,
    /// Number of the first block in the frame.
    pub block: u64,
    /// Offset of the first block in the archive.
    pub offset: u64,
    /// What follows the last block, if the frame ends here.
    pub ends: Option<Ending>,
}

/// What follows the last block of a frame.
pub(crate) struct Ending {
    /// The checksum, if the frame has one.
    pub checksum: Option<[u8; 4]>,
    /// Offset in the archive at which the frame ends.
    pub offset: u64,
}

impl Chunk {
    /// Returns a chunk for at most `blocks_max` blocks.
    pub fn new(blocks_max: usize) -> Self {
        let slot = Box::new(Slot::for_blocks(blocks_max));
        Self { slot, parts: Vec::new(), parsed: Ok(()) }
    }

    /// Returns the offset in the archive at which a block of `part` begins.
    pub fn offset(&self, part: &Part, block: usize) -> u64 {
        let passed = self.slot.stored_bytes(block) - self.slot.stored_bytes(part.first);
        part.offset + passed as u64
    }

    /// Returns the offset in the archive at which the content of a block of `part` begins.
    pub fn content_offset(&self, part: &Part, block: usize) -> u64 {
        self.offset(part, block) + BLOCK_HEADER_BYTES as u64
    }
}

/// A chunk whose first stage is to be decoded.
pub(crate) struct ChunkJob {
    pub chunk: Chunk,
    pub reply: Sender<Chunk>,
}

impl ChunkJob {
    pub fn run(mut self, parser: &mut Parser) {
        self.chunk.parsed = parser.parse(&mut self.chunk.slot);
        // Nobody listens if decoding has ended at damage in front of the chunk.
        let _ = self.reply.send(self.chunk);
    }
}
