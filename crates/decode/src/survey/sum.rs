//! Sums of the decoded sizes that frame and block headers declare.

use crate::survey::blocks::Step;

/// Minimum number of compressed blocks for a meaningful mean. A guess.
pub(super) const MEAN_BLOCKS_MIN: u64 = 16;

/// Mean decoded size of the compressed blocks in samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    pub raw_bytes: u64,
    pub blocks: u64,
    /// Largest decoded size of a block in the last frame; 0 before the first frame.
    pub block_bytes_max: u64,
}

impl Mean {
    /// Returns the mean. With too few blocks, returns the size of a full block, which encoders aim
    /// at.
    pub fn get(self) -> u64 {
        if self.blocks < MEAN_BLOCKS_MIN {
            return self.block_bytes_max;
        }
        self.raw_bytes / self.blocks
    }
}

/// Sum of decoded sizes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// Decoded bytes of complete frames that declare their size.
    declared: u64,
    /// For other frames: decoded bytes of uncompressed blocks, and the number of compressed blocks.
    known: u64,
    compressed_blocks: u64,
    /// The unfinished frame.
    frame: Frame,
    undeclared: bool,
}

/// The part of a frame seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    content_bytes: Option<u64>,
    block_bytes_max: u64,
    known: u64,
    compressed_blocks: u64,
}

impl Frame {
    /// Adds a block. `raw_bytes` is its decoded size, if its header gives it. Returns `None` on
    /// overflow.
    pub fn add_block(&mut self, raw_bytes: Option<u64>) -> Option<()> {
        match raw_bytes {
            Some(bytes) => self.known = self.known.checked_add(bytes)?,
            None => self.compressed_blocks += 1,
        }
        Some(())
    }

    fn is_undeclared(&self) -> bool {
        self.content_bytes.is_none() && self.known + self.compressed_blocks > 0
    }
}

impl Sum {
    /// Adds an item. Returns `None` if a frame declares more than its blocks can hold, or on
    /// overflow.
    pub fn add(&mut self, step: Step) -> Option<()> {
        match step {
            Step::FrameBegins { content_bytes, block_bytes_max } => {
                self.close(false)?;
                self.frame = Frame { content_bytes, block_bytes_max, ..Frame::default() };
            }
            Step::Block { raw_bytes } => self.frame.add_block(raw_bytes)?,
            Step::FrameEnds => self.close(true)?,
            Step::Skipped => {}
        }
        Some(())
    }

    /// Adds more blocks to the unfinished frame. If it ends with them, `rest` is the sum of the
    /// items after it.
    pub fn append(&mut self, blocks: Frame, rest: Option<Self>) -> Option<()> {
        let frame = &mut self.frame;
        frame.known = frame.known.checked_add(blocks.known)?;
        frame.compressed_blocks += blocks.compressed_blocks;
        let Some(rest) = rest else { return Some(()) };
        self.close(true)?;
        self.declared = self.declared.checked_add(rest.declared)?;
        self.known = self.known.checked_add(rest.known)?;
        self.compressed_blocks += rest.compressed_blocks;
        self.undeclared |= rest.undeclared;
        self.frame = rest.frame;
        Some(())
    }

    /// Adds the unfinished frame to the sum.
    fn close(&mut self, complete: bool) -> Option<()> {
        let frame = std::mem::take(&mut self.frame);
        match frame.content_bytes {
            Some(bytes) if complete => {
                let blocks = frame.compressed_blocks.checked_mul(frame.block_bytes_max)?;
                if bytes > blocks.checked_add(frame.known)? {
                    return None;
                }
                self.declared = self.declared.checked_add(bytes)?;
            }
            _ => {
                self.undeclared |= frame.known + frame.compressed_blocks > 0;
                self.known = self.known.checked_add(frame.known)?;
                self.compressed_blocks += frame.compressed_blocks;
            }
        }
        Some(())
    }

    /// Returns whether every frame so far declares its size or is empty.
    pub fn is_declared(&self) -> bool {
        !self.undeclared && !self.frame.is_undeclared()
    }

    /// Returns the total, assuming that a compressed block decodes to `mean` bytes; `None` on
    /// overflow.
    pub fn raw_bytes(mut self, mean: u64) -> Option<u64> {
        self.close(false)?;
        let blocks = self.compressed_blocks.checked_mul(mean)?;
        self.declared.checked_add(self.known)?.checked_add(blocks)
    }
}
