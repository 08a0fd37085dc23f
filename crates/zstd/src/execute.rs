//! Stage 2: executing the sequences of a chunk in the order of the stream.
//!
//! Decoded bytes go straight to their final place, and matches are copied from there. So the window
//! consists of two ranges: what is filled of the memory that is being filled, `current`, and in front
//! of it the memory filled before, `previous`. No history is ever copied.

use crate::{
    Defect,
    kernels::{self, Kernel},
    offsets::Offsets,
    packed::Sequence,
    slot::{BlockDefect, Content, Slot},
};

/// Bytes copied at once from a match that is close.
const STEP_BYTES: usize = 16;

/// Where decoded bytes go, and what they can refer to.
pub struct Window<'a> {
    /// The bytes in front of `current`.
    pub previous: &'a [u8],
    /// Memory to fill.
    pub current: &'a mut [u8],
    /// Bytes of `current` already filled.
    pub filled: usize,
    /// Bytes of the frame that end where `current` is filled: all of them, or at least as many as
    /// the frame's window. They may begin in `previous`.
    pub history: usize,
}

/// The repeat offsets of a frame, handed on from slot to slot.
#[derive(Clone, Copy, Debug)]
pub struct Repeats(Offsets);

impl Default for Repeats {
    fn default() -> Self {
        Self::new()
    }
}

impl Repeats {
    /// Returns those at the start of a frame.
    pub fn new() -> Self {
        Self(Offsets::START)
    }
}

impl Slot {
    /// Decodes the parsed blocks of the slot into `window`, which has room for them. Returns the
    /// number of bytes, or the first block that is damaged; those in front of it are decoded.
    ///
    /// # Panics
    /// If `window` has less room than [`raw_bytes`](Self::raw_bytes) of all blocks, or less history
    /// than it claims.
    pub fn execute(&self, repeats: &mut Repeats, window: Window<'_>) -> Result<usize, BlockDefect> {
        let Window { previous, current, filled, history } = window;
        assert!(current.len() - filled >= self.raw_bytes(self.parsed.len()), "room in the window");
        assert!(history <= previous.len() + filled, "history in the window");
        let mut target = Target { previous, current, at: filled, filled, history };
        for (index, block) in self.parsed.iter().enumerate() {
            let end = target.at + block.raw_bytes;
            match &block.content {
                Content::Raw { start } => target.current[target.at..end]
                    .copy_from_slice(&self.input[*start..*start + block.raw_bytes]),
                Content::Repeated { byte } => target.current[target.at..end].fill(*byte),
                Content::Compressed { literals, sequences } => {
                    let source = if literals.stored { &self.input } else { &self.literals };
                    let source = &source[literals.start..];
                    let sequences = &self.sequences[sequences.clone()];
                    let taken = kernels::run(Execute {
                        target: &mut target,
                        sequences,
                        literals: source,
                        offsets: repeats.0,
                    })
                    .map_err(|defect| BlockDefect { index, defect })?;
                    target.current[target.at..end].copy_from_slice(&source[taken..literals.count]);
                }
            }
            target.at = end;
        }
        repeats.0 = repeats.0.after(self.offsets);
        Ok(target.at - filled)
    }
}

/// Memory that sequences are executed into.
struct Target<'a> {
    previous: &'a [u8],
    current: &'a mut [u8],
    /// Bytes of `current` filled.
    at: usize,
    /// Bytes of `current` that were filled when `history` bytes of the frame ended there.
    filled: usize,
    history: usize,
}

/// Executes sequences. Returns the number of literals that they took.
struct Execute<'a, 'b> {
    target: &'a mut Target<'b>,
    sequences: &'a [u64],
    literals: &'a [u8],
    offsets: Offsets,
}

impl Kernel for Execute<'_, '_> {
    type Output = Result<usize, Defect>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Self { target, sequences, literals, offsets } = self;
        let mut taken = 0;
        let mut at = target.at;
        // Bytes of `current` that belong to earlier frames.
        let foreign = target.filled.saturating_sub(target.history);
        let current = &mut *target.current;
        for &packed in sequences {
            let sequence = Sequence(packed);
            let (count, copied) = (sequence.literals(), sequence.copied());
            let offset = offsets.resolve(sequence.offset()) as usize;
            let match_at = at + count;
            let end = match_at + copied;
            let after = taken + count;
            if !kernels::copy_apart(literals, taken, current, at, count) {
                current[at..match_at].copy_from_slice(&literals[taken..after]);
            }
            taken = after;
            at = end;
            if offset.wrapping_sub(1) >= match_at - foreign {
                let history = target.history + match_at - target.filled;
                copy_from_previous(target.previous, current, match_at, copied, offset, history)?;
            } else if !kernels::copy_again(current, match_at, copied, offset) {
                copy_near(current, match_at, copied, offset);
            }
        }
        target.at = at;
        Ok(taken)
    }
}

/// Copies a match whose offset is small, or at the end of the memory.
fn copy_near(current: &mut [u8], at: usize, copied: usize, offset: usize) {
    let end = at + copied;
    if end + STEP_BYTES > current.len() {
        for index in at..end {
            current[index] = current[index - offset];
        }
    } else if offset >= STEP_BYTES {
        copy_steps(current, at, copied, offset);
    } else if offset == 1 {
        let byte = current[at - 1];
        current[at..end].fill(byte);
    } else {
        // Copies the beginning byte by byte; after it the pattern repeats at a multiple of the
        // offset, which is far enough for steps.
        let multiple = offset * STEP_BYTES.div_ceil(offset);
        let begin = copied.min(multiple);
        for index in at..at + begin {
            current[index] = current[index - offset];
        }
        if copied > begin {
            copy_steps(current, at + begin, copied - begin, multiple);
        }
    }
}

/// Copies a match that begins in the memory filled before, if it is one of the `history` bytes in
/// front of it.
#[cold]
fn copy_from_previous(
    previous: &[u8],
    current: &mut [u8],
    at: usize,
    copied: usize,
    offset: usize,
    history: usize,
) -> Result<(), Defect> {
    if offset == 0 {
        return Err(Defect::OffsetZero);
    }
    if offset > history {
        return Err(Defect::OffsetBeyondStart);
    }
    let back = offset - at;
    let from = previous.len() - back;
    let count = copied.min(back);
    current[at..at + count].copy_from_slice(&previous[from..from + count]);
    for index in at + count..at + copied {
        current[index] = current[index - offset];
    }
    Ok(())
}

/// Copies `count` bytes to `at` from `offset` before, which is at least a step, in steps of which the
/// last may copy more.
fn copy_steps(bytes: &mut [u8], at: usize, count: usize, offset: usize) {
    for done in (0..count).step_by(STEP_BYTES) {
        let from = at + done - offset;
        let mut step = [0; STEP_BYTES];
        step.copy_from_slice(&bytes[from..from + STEP_BYTES]);
        bytes[at + done..at + done + STEP_BYTES].copy_from_slice(&step);
    }
}
