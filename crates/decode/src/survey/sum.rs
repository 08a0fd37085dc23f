//! Adding up what the headers of frames and blocks tell.

use crate::survey::blocks::Step;

/// Compressed blocks that must have been seen for their mean to mean something. A guess.
pub(super) const MEAN_BLOCKS_MIN: u64 = 16;

/// Decoded size of compressed blocks, in samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    pub raw_bytes: u64,
    pub blocks: u64,
    /// Most that a block of the last frame may hold; 0 before the first.
    pub block_bytes_max: u64,
}

impl Mean {
    /// Of few blocks none is taken: then they count as full, which is what encoders aim at.
    pub fn get(self) -> u64 {
        if self.blocks < MEAN_BLOCKS_MIN {
            return self.block_bytes_max;
        }
        self.raw_bytes / self.blocks
    }
}

/// Decoded sizes, added up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// Of complete frames that declare theirs.
    declared: u64,
    /// Of others: of blocks that are not compressed, and the number of those that are.
    known: u64,
    compressed_blocks: u64,
    /// The frame under way.
    frame: Frame,
    undeclared: bool,
}

/// What has been seen of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    content_bytes: Option<u64>,
    block_bytes_max: u64,
    known: u64,
    compressed_blocks: u64,
}

impl Frame {
    /// `None` if the sum has no end. `raw_bytes`: of the block, where its header says it.
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
    /// `None` if a frame declares more than its blocks can hold, or the sum has no end.
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

    /// Adds more blocks of the frame under way. If it ends with them, `rest` is what follows it.
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

    /// Takes over the frame under way, as it is.
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

    /// Whether every frame so far declares its size, or holds nothing.
    pub fn is_declared(&self) -> bool {
        !self.undeclared && !self.frame.is_undeclared()
    }

    /// All of it, if a compressed block decodes to `mean` bytes.
    pub fn raw_bytes(mut self, mean: u64) -> Option<u64> {
        self.close(false)?;
        let blocks = self.compressed_blocks.checked_mul(mean)?;
        self.declared.checked_add(self.known)?.checked_add(blocks)
    }
}
