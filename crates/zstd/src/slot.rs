//! Slots: the memory for a chunk of blocks, from their stored bytes to packed sequences.
//!
//! A slot is filled in three steps, each of which can be on another thread: blocks are appended in
//! the order of the stream; [`parse`](crate::Parser::parse) decodes literals and sequences;
//! [`execute`](Slot::execute) copies the bytes together. Its memory is bounded, whatever the blocks
//! say, and used again for the next chunk. Small frames share a slot.

use std::ops::Range;

use crate::{
    BLOCK_BYTES_MAX, BlockHeader, BlockKind, Defect, FrameHeader,
    bits::LEAD_BYTES,
    offsets::{OFFSET_MAX, Offsets},
    sequences,
    tables::Descriptions,
};

/// Decoded bytes that a chunk may have at most: the larger, the less often threads meet; but a slot
/// must fit into a core's cache. Chunks of 512 KiB to 2 MiB were equally fast.
pub const CHUNK_BYTES_MAX: usize = 8 * BLOCK_BYTES_MAX;
/// Blocks that a chunk may have at most. Blocks of less than a kilobyte are rare: a guess.
const CHUNK_BLOCKS_MAX: usize = 1024;
/// Most sequences of a chunk.
#[cfg(test)]
pub(crate) const SEQUENCES_MAX: usize = CHUNK_BYTES_MAX / 3 + CHUNK_BLOCKS_MAX * 3;

/// Steps in which the memory of a slot grows, in bytes.
const GROWTH_BYTES: usize = 64 << 10;

/// Most memory of a slot in bytes: stored bytes, literals, sequences, and the lists of blocks and
/// frames.
pub const SLOT_BYTES_MAX: usize = 2 * CHUNK_BYTES_MAX
    + 8 * (CHUNK_BYTES_MAX / 3 + CHUNK_BLOCKS_MAX * 3)
    + 3 * (GROWTH_BYTES + LEAD_BYTES + SLACK_BYTES)
    + 256 * CHUNK_BLOCKS_MAX;

/// Bytes that can be read after the last literal, so that literals are copied in wide steps.
pub(crate) const SLACK_BYTES: usize = 32;

/// A block as it is stored.
#[derive(Clone, Copy)]
pub(crate) struct Stored {
    pub header: BlockHeader,
    /// Where its bytes begin in the input.
    pub start: usize,
    /// Index of its frame among those of the slot.
    pub frame: usize,
}

/// What a frame permits its blocks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Permitted {
    pub block_bytes_max: usize,
    pub window_bytes: u32,
}

impl Permitted {
    fn by(header: &FrameHeader) -> Self {
        let window_bytes = u32::try_from(header.window_bytes).unwrap_or(u32::MAX).min(OFFSET_MAX);
        Self { block_bytes_max: header.block_bytes_max(), window_bytes }
    }
}

/// A block after its literals and sequences have been decoded.
#[derive(Clone)]
pub(crate) struct Parsed {
    pub content: Content,
    /// Bytes that the block decodes to.
    pub raw_bytes: usize,
}

#[derive(Clone)]
pub(crate) enum Content {
    /// Bytes of the input.
    Raw { start: usize },
    /// One byte, repeated.
    Repeated { byte: u8 },
    /// Literals and sequences. Literals that remain are at the end of the block.
    Compressed { literals: Literals, sequences: Range<usize> },
}

/// Where literals are. [`SLACK_BYTES`] bytes follow them.
#[derive(Clone, Copy)]
pub(crate) struct Literals {
    /// In the input, where they are stored as they are, rather than among the decoded ones.
    pub stored: bool,
    pub start: usize,
    pub count: usize,
}

/// What a block of a slot has wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDefect {
    /// Number of the block in the slot, from 0.
    pub index: usize,
    /// What is wrong.
    pub defect: Defect,
}

/// Memory for a chunk of consecutive blocks.
pub struct Slot {
    /// Stored bytes of the blocks, with room for loads before and after. The memory grows to what is
    /// needed and stays.
    pub(crate) input: Vec<u8>,
    input_used: usize,
    pub(crate) stored: Vec<Stored>,
    /// Descriptions in force in front of the first block.
    pub(crate) descriptions: Descriptions,
    /// The frames of the blocks, of which all but the first begin in this slot.
    pub(crate) frames: Vec<Permitted>,
    /// Bytes that the blocks can decode to, by their headers.
    bytes_max: usize,
    blocks_max: usize,
    pub(crate) literals: Vec<u8>,
    pub(crate) sequences: Vec<u64>,
    pub(crate) parsed: Vec<Parsed>,
    /// Repeat offsets after the chunk, unknown where they come from before it.
    pub(crate) offsets: Offsets,
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    /// Creates an empty slot. It allocates memory when it is used.
    pub fn new() -> Self {
        Self {
            input: Vec::new(),
            input_used: 0,
            stored: Vec::new(),
            descriptions: Descriptions::none(),
            frames: Vec::new(),
            bytes_max: 0,
            blocks_max: CHUNK_BLOCKS_MAX,
            literals: Vec::new(),
            sequences: Vec::new(),
            parsed: Vec::new(),
            offsets: Offsets::UNKNOWN,
        }
    }

    /// Creates an empty slot for at most `blocks_max` blocks.
    pub fn for_blocks(blocks_max: usize) -> Self {
        Self { blocks_max: blocks_max.clamp(1, CHUNK_BLOCKS_MAX), ..Self::new() }
    }

    /// Empties the slot for blocks of the frame with `header` that follow what `state` has seen.
    pub fn begin(&mut self, header: &FrameHeader, state: &FrameState) {
        self.input_used = LEAD_BYTES;
        self.stored.clear();
        self.parsed.clear();
        self.bytes_max = 0;
        self.descriptions.clone_from(&state.descriptions);
        self.frames.clear();
        self.frames.push(Permitted::by(header));
    }

    /// Lets blocks of the next frame follow, from its first one on. A frame has at least one.
    pub fn next_frame(&mut self, header: &FrameHeader) {
        if self.stored.is_empty() {
            self.begin(header, &FrameState::new());
        } else {
            self.frames.push(Permitted::by(header));
        }
    }

    /// Returns what the frame of the next block permits.
    fn permitted(&self) -> Permitted {
        self.frames.last().copied().unwrap_or_default()
    }

    /// Returns whether a block with this header still fits. An empty slot takes any block.
    pub fn fits(&self, header: &BlockHeader) -> bool {
        let bytes = header.decoded_bytes_max(self.permitted().block_bytes_max);
        self.stored.is_empty()
            || (self.bytes_max + bytes <= CHUNK_BYTES_MAX && self.stored.len() < self.blocks_max)
    }

    /// Appends a block. `read` fills in the bytes that follow its header; if it fails, nothing is
    /// appended.
    ///
    /// # Panics
    /// If the block does not fit.
    pub fn append<E>(
        &mut self,
        header: BlockHeader,
        state: &mut FrameState,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(self.fits(&header), "the slot is full");
        let block_bytes_max = self.permitted().block_bytes_max;
        let start = self.input_used;
        let end = start + header.stored_bytes();
        grow(&mut self.input, end + SLACK_BYTES);
        let target = &mut self.input[start..end];
        read(target)?;
        if header.kind == BlockKind::Compressed {
            state.descriptions.note(target, block_bytes_max);
        }
        self.input_used = end;
        self.stored.push(Stored { header, start, frame: self.frames.len().saturating_sub(1) });
        self.bytes_max += header.decoded_bytes_max(block_bytes_max);
        Ok(())
    }

    /// Returns whether no block was appended.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.stored.len()
    }

    /// Returns the number of blocks that are parsed: all of them, or those in front of a damaged one.
    pub fn parsed_blocks(&self) -> usize {
        self.parsed.len()
    }

    /// Returns the number of bytes that the first `count` blocks decode to, once they are parsed.
    pub fn raw_bytes(&self, count: usize) -> usize {
        self.parsed.iter().take(count).map(|block| block.raw_bytes).sum()
    }

    /// Returns how many of the parsed `blocks`, from the first on, decode to at most `room` bytes,
    /// and to how many.
    pub fn blocks_within(&self, blocks: Range<usize>, room: usize) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        for block in self.parsed.get(blocks).unwrap_or_default() {
            if block.raw_bytes > room - bytes {
                break;
            }
            count += 1;
            bytes += block.raw_bytes;
        }
        (count, bytes)
    }

    /// Returns the length of the first `count` blocks as they are stored, with their headers.
    pub fn stored_bytes(&self, count: usize) -> usize {
        let blocks = self.stored.iter().take(count);
        blocks.map(|block| block.header.stored_bytes() + crate::BLOCK_HEADER_BYTES).sum()
    }

    /// Returns the length of one block without its header.
    pub fn block_bytes(&self, index: usize) -> usize {
        self.stored.get(index).map_or(0, |block| block.header.stored_bytes())
    }

    /// Makes room for the literals of a block and what may be read after them, from `start` on.
    pub(crate) fn room_for_literals(&mut self, start: usize, count: usize) -> &mut [u8] {
        grow(&mut self.literals, start + count + SLACK_BYTES);
        &mut self.literals[start..start + count]
    }

    /// Makes room for the sequences of a block, from `start` on.
    pub(crate) fn room_for_sequences(&mut self, start: usize, count: usize) {
        grow(&mut self.sequences, start + count.min(sequences::SEQUENCES_MAX) + 2);
    }
}

/// What the blocks appended so far leave for those after them, in one frame.
#[derive(Clone)]
pub struct FrameState {
    descriptions: Descriptions,
}

impl Default for FrameState {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameState {
    /// Returns the state at the start of a frame.
    pub fn new() -> Self {
        Self { descriptions: Descriptions::none() }
    }
}

/// Makes `values` at least so long, with little more memory than that. A slot is used so often that
/// growing in small steps costs nothing.
fn grow<T: Clone + Default>(values: &mut Vec<T>, length: usize) {
    if values.len() < length {
        let length = length.next_multiple_of(GROWTH_BYTES / size_of::<T>());
        values.reserve_exact(length - values.len());
        values.resize(length, T::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_bounded_in_bytes_and_blocks() {
        let header = |window_bytes| FrameHeader { window_bytes, ..FrameHeader::default() };
        let block = BlockHeader { kind: BlockKind::Compressed, last: false, size: 2 };
        let (mut slot, mut state) = (Slot::new(), FrameState::new());
        for (window, blocks) in [(1 << 20, 8), (64 << 10, 16), (1 << 10, 1024), (1, 1024)] {
            slot.begin(&header(window), &state);
            while slot.fits(&block) {
                slot.append(block, &mut state, |_| Ok::<_, ()>(())).unwrap();
            }
            assert_eq!((slot.blocks(), slot.stored_bytes(2)), (blocks, 10), "{window}");
        }
    }

    #[test]
    fn the_memory_of_a_slot_is_bounded() {
        // The most that blocks can ask for: raw ones of stored bytes, others of everything else.
        let mut slot = Slot::new();
        let mut state = FrameState::new();
        for window in [128 << 10, 1 << 10] {
            slot.begin(&FrameHeader { window_bytes: window, ..FrameHeader::default() }, &state);
            let size = usize::try_from(window).unwrap();
            let block = BlockHeader { kind: BlockKind::Raw, last: false, size };
            let (mut literals, mut sequences) = (0, 0);
            while slot.fits(&block) {
                slot.append(block, &mut state, |_| Ok::<_, ()>(())).unwrap();
                slot.next_frame(&FrameHeader { window_bytes: window, ..FrameHeader::default() });
                slot.room_for_literals(literals, size);
                slot.room_for_sequences(sequences, size / 3);
                (literals, sequences) = (literals + size, sequences + size / 3 + 2);
                let content = Content::Repeated { byte: 0 };
                slot.parsed.push(Parsed { content, raw_bytes: 0 });
            }
            let bytes = slot.input.capacity()
                + slot.literals.capacity()
                + size_of_val(&slot.sequences[0]) * slot.sequences.capacity()
                + size_of::<Stored>() * slot.stored.capacity()
                + size_of::<Parsed>() * slot.parsed.capacity()
                + size_of::<Permitted>() * slot.frames.capacity();
            assert!(bytes <= SLOT_BYTES_MAX, "{bytes} of {SLOT_BYTES_MAX}");
        }
    }
}
