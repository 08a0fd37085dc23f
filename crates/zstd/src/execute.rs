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

/// Bytes copied at once.
const WIDE: usize = 32;
/// Smaller step for matches that are close.
const NARROW: usize = 16;

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

impl Target<'_> {
    /// Copies a match whose offset is small, or at the end of the memory.
    #[inline(always)]
    fn copy_near(&mut self, at: usize, copied: usize, offset: usize) {
        let end = at + copied;
        if end + NARROW > self.current.len() {
            for index in at..end {
                self.current[index] = self.current[index - offset];
            }
        } else if offset >= NARROW {
            copy_steps::<NARROW>(self.current, at, copied, offset);
        } else if offset == 1 {
            let byte = self.current[at - 1];
            self.current[at..end].fill(byte);
        } else {
            // Copies the beginning byte by byte; after it the pattern repeats at a multiple of the
            // offset, which is far enough for steps.
            let multiple = offset * NARROW.div_ceil(offset);
            let begin = copied.min(multiple);
            for index in at..at + begin {
                self.current[index] = self.current[index - offset];
            }
            if copied > begin {
                copy_steps::<NARROW>(self.current, at + begin, copied - begin, multiple);
            }
        }
    }

    /// Copies a match that begins in the memory filled before.
    #[cold]
    fn copy_from_previous(
        &mut self,
        at: usize,
        copied: usize,
        offset: usize,
    ) -> Result<(), Defect> {
        if offset == 0 {
            return Err(Defect::OffsetZero);
        }
        if offset > self.history + (at - self.filled) {
            return Err(Defect::OffsetBeyondStart);
        }
        let back = offset - at;
        let from = self.previous.len() - back;
        let count = copied.min(back);
        self.current[at..at + count].copy_from_slice(&self.previous[from..from + count]);
        for index in at + count..at + copied {
            self.current[index] = self.current[index - offset];
        }
        Ok(())
    }
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
        // Bytes of `current` that belong to earlier frames.
        let foreign = target.filled.saturating_sub(target.history);
        let mut taken = 0;
        let mut at = target.at;
        for &packed in sequences {
            let sequence = Sequence(packed);
            let (count, copied) = (sequence.literals(), sequence.copied());
            let offset = offsets.resolve(sequence.offset()) as usize;
            let match_at = at + count;
            let end = match_at + copied;
            if end + WIDE <= target.current.len() && taken + count + WIDE <= literals.len() {
                copy_wide(&literals[taken..], &mut target.current[at..], count);
            } else {
                target.current[at..match_at].copy_from_slice(&literals[taken..taken + count]);
            }
            taken += count;
            at = end;
            if offset.wrapping_sub(1) >= match_at - foreign {
                target.copy_from_previous(match_at, copied, offset)?;
            } else if offset >= WIDE && end + WIDE <= target.current.len() {
                let (before, after) = target.current.split_at_mut(match_at);
                let from = match_at - offset;
                if offset >= copied + WIDE {
                    copy_wide(&before[from..], after, copied);
                } else {
                    copy_steps::<WIDE>(target.current, match_at, copied, offset);
                }
            } else {
                target.copy_near(match_at, copied, offset);
            }
        }
        target.at = at;
        Ok(taken)
    }
}

/// Copies `count` bytes in wide steps, the last of which may copy more.
#[inline(always)]
fn copy_wide(source: &[u8], target: &mut [u8], count: usize) {
    let mut done = 0;
    loop {
        target[done..done + WIDE].copy_from_slice(&source[done..done + WIDE]);
        done += WIDE;
        if done >= count {
            break;
        }
    }
}

/// Copies `count` bytes to `at` from `offset` before, which is at least `STEP`, in steps of which
/// the last may copy more.
#[inline(always)]
fn copy_steps<const STEP: usize>(bytes: &mut [u8], at: usize, count: usize, offset: usize) {
    let mut done = 0;
    while done < count {
        let mut step = [0; STEP];
        let from = at + done - offset;
        step.copy_from_slice(&bytes[from..from + STEP]);
        bytes[at + done..at + done + STEP].copy_from_slice(&step);
        done += STEP;
    }
}
