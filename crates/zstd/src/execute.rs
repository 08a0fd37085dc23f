//! Stage 2: executing the sequences of a chunk in the order of the stream.
//!
//! Decoded bytes go straight to their final place, and matches are copied from there. So the window
//! consists of two ranges: what is filled of the memory that is being filled, `current`, and in front
//! of it the memory filled before, `previous`. No history is ever copied.

use std::ops::Range;

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

    /// Moves on from the start of `slot` to its end.
    pub fn pass(&mut self, slot: &Slot) {
        self.0 = self.0.after(slot.offsets);
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
        let executed = self.execute_blocks(0..self.parsed.len(), *repeats, window)?;
        repeats.pass(self);
        Ok(executed)
    }

    /// Like [`execute`](Self::execute), for some of the parsed blocks, all of one frame. `repeats`
    /// are those at the start of the slot, for blocks of its first frame; later frames have none to
    /// hand on. Those after the slot are told by [`Repeats::pass`].
    ///
    /// # Panics
    /// Like [`execute`](Self::execute), and if not all blocks are parsed.
    pub fn execute_blocks(
        &self,
        blocks: Range<usize>,
        repeats: Repeats,
        window: Window<'_>,
    ) -> Result<usize, BlockDefect> {
        let Window { previous, current, filled, history } = window;
        let raw_bytes: usize =
            self.parsed[blocks.clone()].iter().map(|block| block.raw_bytes).sum();
        assert!(current.len() - filled >= raw_bytes, "room in the window");
        assert!(history <= previous.len() + filled, "history in the window");
        let mut target = Target { previous, current, at: filled, filled, history };
        for (index, block) in blocks.clone().zip(&self.parsed[blocks]) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{Literals, Parsed, SLACK_BYTES};

    /// Numbers from a seed.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % bound
        }
    }

    /// Returns a slot with one block of random sequences that are valid after `history` bytes, and
    /// the bytes that it decodes to, by copying one byte after the other.
    fn block(random: &mut Random, history: &[u8]) -> (Slot, Vec<u8>) {
        let mut slot = Slot::new();
        let mut raw = history.to_vec();
        let mut literals = Vec::new();
        for _ in 0..random.below(30) {
            let most = [100, 20, 20, 20][random.below(4)];
            let count = random.below(most);
            let added: Vec<u8> = (0..count).map(|_| random.below(256).to_le_bytes()[0]).collect();
            raw.extend(&added);
            literals.extend(added);
            let most = [200, 40, 40, 40][random.below(4)];
            let copied = random.below(most);
            let reach = [raw.len(), 40, 3][random.below(3)].min(raw.len());
            let (copied, offset) =
                if reach == 0 { (0, 1) } else { (copied, 1 + random.below(reach)) };
            if raw.is_empty() {
                continue;
            }
            for _ in 0..copied {
                raw.push(raw[raw.len() - offset]);
            }
            let [count, copied, offset] =
                [count, copied, offset].map(|n| u32::try_from(n).unwrap());
            slot.sequences.push(Sequence::new(count, copied, offset).0);
        }
        let rest: Vec<u8> = (0..random.below(50)).map(|_| 7).collect();
        literals.extend(&rest);
        raw.extend(&rest);
        let content = Content::Compressed {
            literals: Literals { stored: false, start: 0, count: literals.len() },
            sequences: 0..slot.sequences.len(),
        };
        let raw = raw.split_off(history.len());
        slot.parsed.push(Parsed { content, raw_bytes: raw.len() });
        slot.literals = literals;
        slot.literals.resize(slot.literals.len() + SLACK_BYTES, 0);
        (slot, raw)
    }

    #[test]
    fn random_sequences_at_every_place_of_a_window() {
        for seed in 0..if cfg!(miri) { 30 } else { 5000 } {
            let mut random = Random(seed);
            let history: Vec<u8> =
                (0..random.below(300)).map(|_| random.below(256).to_le_bytes()[0]).collect();
            let (slot, raw) = block(&mut random, &history);
            // Some of the history is in the memory filled before, behind bytes of other frames.
            let split = random.below(history.len() + 1);
            let other = random.below(50);
            let previous = [&vec![1; other], &history[..split]].concat();
            let filled = history.len() - split;
            let room = if random.below(2) == 0 { 0 } else { random.below(100) };
            let mut current = history[split..].to_vec();
            current.resize(filled + raw.len() + room, 2);
            let window = Window {
                previous: &previous,
                current: &mut current,
                filled,
                history: history.len(),
            };
            assert_eq!(slot.execute(&mut Repeats::new(), window), Ok(raw.len()), "seed {seed}");
            assert_eq!(current[..filled], history[split..], "seed {seed}");
            assert_eq!(current[filled..filled + raw.len()], raw, "seed {seed}");
        }
    }

    #[test]
    fn bytes_of_other_frames_are_out_of_reach() {
        let mut slot = Slot::new();
        slot.literals = vec![5; 10 + SLACK_BYTES];
        let literals = Literals { stored: false, start: 0, count: 10 };
        slot.parsed.push(Parsed {
            content: Content::Compressed { literals, sequences: 0..1 },
            raw_bytes: 14,
        });
        for (offset, history, good) in [
            (10, 0, true),
            (11, 0, false),
            (15, 5, true),
            (16, 5, false),
            (30, 20, true),
            (31, 20, false),
        ] {
            slot.sequences = vec![Sequence::new(10, 4, offset).0];
            let (previous, mut current) = ([9; 100], [9; 100]);
            // Ten bytes are filled; what the frame has of them, and of those before, is its history.
            let window = Window { previous: &previous, current: &mut current, filled: 10, history };
            let expected = if good {
                Ok(14)
            } else {
                Err(BlockDefect { index: 0, defect: Defect::OffsetBeyondStart })
            };
            assert_eq!(slot.execute(&mut Repeats::new(), window), expected, "{offset} {history}");
        }
    }
}
