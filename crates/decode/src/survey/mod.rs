//! How much an archive will decode to, told by looking at a bounded part of it.
//!
//! A zstd frame may declare its content size, and its blocks have headers of three bytes that say
//! how long they are. So the walk over an archive of frames adds up to its exact length without
//! decoding anything; but it reads nearly all of the archive, which is too much for one of 110 GB.
//! Therefore:
//!
//! | archive | is looked at | the length is |
//! |---|---|---|
//! | of up to 4 MiB that decodes to 16 MiB | decoded once | known |
//! | plain tar | its size | known |
//! | up to 64 MiB | all headers | known if every frame declares it, else estimated |
//! | larger | headers in 32 windows of 1 MiB, spread evenly | estimated |
//!
//! The first bytes of a snapshot hold its bank file, which compresses unlike accounts: hence windows
//! all over the archive, not a piece of its beginning. In a window blocks are found by looking for a
//! place from which their headers lead on and on. A block's decoded size is at most 128 KiB, and of
//! compressed blocks it is not in the header: the mean that decoding a sample shows is taken.
//!
//! Sizes of files are not in headers either. What is decoded for samples, at the beginning and from
//! frames in the middle, is therefore handed to the caller, who knows tar.
//!
//! Nothing here fails: where an archive is damaged, lies or cannot be read, the answer is that
//! nothing is known, and the run that follows says what is wrong, and where.

mod blocks;
mod peek;
mod sample;

use crate::{Format, Limits, format::HEAD_BYTES};

pub use peek::ReadAt;

use blocks::{Blocks, Step, Stop};
use peek::Peek;
use sample::{Budget, Decoded};

const MIB: u64 = 1 << 20;

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// What is decoded of the beginning.
    head: Budget,
    /// Archives up to this size are walked from end to end.
    walk_bytes_max: u64,
    /// Windows in a larger archive, and their size.
    windows: u64,
    window_bytes: u64,
    /// Frames in the middle of which a part is decoded, and how much of each.
    middle_samples: usize,
    middle: Budget,
}

/// Measured on made archives (2 cores, virtual NVMe disk, November 2026): see the constants.
const PLAN: Plan = Plan {
    // 16 MiB take about 10 ms.
    head: Budget { compressed_bytes: 4 * MIB, raw_bytes: 16 * MIB },
    // So much is read from a disk of 2 GB/s in 30 ms, and from the page cache in 10 ms.
    walk_bytes_max: 64 * MIB,
    // Each as long as a read of the run that follows, which finds them in the page cache. Together
    // half of what is walked from end to end.
    windows: 32,
    window_bytes: MIB,
    // Together about as much as the beginning. On a snapshot like mainnet's they show 20 files.
    middle_samples: 6,
    middle: Budget { compressed_bytes: 2 * MIB, raw_bytes: 4 * MIB },
};

/// Compressed blocks that must have been seen for their mean to mean something. A guess.
const MEAN_BLOCKS_MIN: u64 = 16;

/// How a length is known, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// All of it has been decoded.
    Decoded,
    /// The archive says so: every frame declares its content, or nothing is compressed.
    Declared,
    /// Extrapolated from samples.
    Sampled,
}

/// What a look at an archive has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Decoded bytes of the archive, and how that is known. `None`: not at all.
    pub raw_bytes: Option<(u64, Basis)>,
    /// Compressed bytes that were read for it.
    pub read_bytes: u64,
}

/// Where the bytes of a sample come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The beginning of the decoded stream.
    Beginning,
    /// Somewhere in the decoded stream, at a multiple of 512 in archives whose frames are cut so,
    /// as Agave's and Firedancer's are.
    Middle,
}

/// Takes what is decoded for samples.
pub trait Samples {
    /// A sample begins.
    fn begin(&mut self, place: Place);
    /// Bytes of it, in order.
    fn bytes(&mut self, bytes: &[u8]);
}

/// Looks at an archive of `archive_bytes`. Reads at most 100 MiB, in pieces of up to 1 MiB, and
/// decodes at most 40 MiB.
pub fn survey(
    archive: &dyn ReadAt,
    archive_bytes: u64,
    limits: &Limits,
    samples: &mut dyn Samples,
) -> Survey {
    survey_by(PLAN, archive, archive_bytes, limits, samples)
}

fn survey_by(
    plan: Plan,
    archive: &dyn ReadAt,
    archive_bytes: u64,
    limits: &Limits,
    samples: &mut dyn Samples,
) -> Survey {
    let piece_bytes = usize::try_from(plan.window_bytes).unwrap_or(usize::MAX);
    let peek = Peek::new(archive, archive_bytes, piece_bytes);
    let mut surveyor = Surveyor { plan, archive, archive_bytes, peek, samples };
    let raw_bytes = surveyor.raw_bytes().filter(|(raw, _)| {
        // The run is going to refuse it, for what it is.
        limits.check_output(*raw, archive_bytes).is_ok()
    });
    Survey { raw_bytes, read_bytes: surveyor.peek.bytes_read }
}

struct Surveyor<'a> {
    plan: Plan,
    archive: &'a dyn ReadAt,
    archive_bytes: u64,
    peek: Peek<'a>,
    samples: &'a mut dyn Samples,
}

impl Surveyor<'_> {
    fn raw_bytes(&mut self) -> Option<(u64, Basis)> {
        let format = Format::detect(self.peek.at(0, HEAD_BYTES))?;
        let windowed = format == Format::Tar || self.archive_bytes > self.plan.walk_bytes_max;
        if windowed {
            self.announce();
        }
        let head = self.sample(Place::Beginning, format, 0, self.plan.head);
        if head.at_frame_end && head.consumed_bytes == self.archive_bytes {
            return Some((head.raw_bytes, Basis::Decoded));
        }
        if format == Format::Tar {
            self.plain_middle();
            return Some((self.archive_bytes, Basis::Declared));
        }
        let mut mean = Mean::default();
        self.calibrate(format, 0, head, &mut mean);
        if windowed { self.windows(format, mean) } else { self.walk(format, mean) }
    }

    fn sample(&mut self, place: Place, format: Format, start: u64, budget: Budget) -> Decoded {
        self.samples.begin(place);
        let samples = &mut *self.samples;
        sample::decode(&mut self.peek, format, start, budget, &mut |bytes| samples.bytes(bytes))
    }

    /// Where windows begin: in the middle of equal parts, so that the beginning counts for no more
    /// than it is; at multiples of their size, like the reads of the run.
    fn window(&self, index: u64) -> u64 {
        let part = self.archive_bytes / self.plan.windows;
        (part * index + part / 2) / self.plan.window_bytes * self.plan.window_bytes
    }

    /// Has the windows fetched together, so that one disk access follows the other.
    fn announce(&self) {
        self.archive.will_read(0, self.plan.head.compressed_bytes);
        for index in 0..self.plan.windows {
            self.archive.will_read(self.window(index), self.plan.window_bytes);
        }
    }

    /// Adds what decoding has shown about the decoded size of compressed blocks.
    fn calibrate(&mut self, format: Format, start: u64, decoded: Decoded, mean: &mut Mean) {
        let mut walk = Blocks::from_frame(start, format);
        let (mut blocks, mut known) = (0, 0);
        loop {
            let step = walk.next(&mut self.peek);
            if walk.at > start + decoded.consumed_bytes {
                break;
            }
            match step {
                Ok(Step::Block { raw_bytes: Some(bytes) }) => known += bytes,
                Ok(Step::Block { raw_bytes: None }) => blocks += 1,
                Ok(Step::FrameBegins { block_bytes_max, .. }) => {
                    mean.block_bytes_max = block_bytes_max;
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        mean.blocks += blocks;
        mean.raw_bytes += decoded.raw_bytes.saturating_sub(known);
    }

    /// Walks all of it.
    fn walk(&mut self, format: Format, mut mean: Mean) -> Option<(u64, Basis)> {
        let mut sum = Sum::default();
        let mut starts = Vec::new();
        let mut walk = Blocks::from_frame(0, format);
        loop {
            let at = walk.at;
            match walk.next(&mut self.peek) {
                Ok(step) => {
                    sum.add(step)?;
                    // One in each of as many parts as a large archive has windows.
                    let due = self.window_part(starts.len() as u64 + 1);
                    if matches!(step, Step::FrameBegins { .. }) && at >= due {
                        starts.push(at);
                    }
                }
                Err(Stop::End) => break,
                Err(Stop::Short | Stop::Bad) => return None,
            }
        }
        self.middle(format, &starts, &mut mean);
        let basis = if sum.is_declared() { Basis::Declared } else { Basis::Sampled };
        Some((sum.raw_bytes(mean.get())?, basis))
    }

    fn window_part(&self, index: u64) -> u64 {
        (self.archive_bytes / self.plan.windows).saturating_mul(index).max(1)
    }

    /// Walks windows and extrapolates.
    fn windows(&mut self, format: Format, mut mean: Mean) -> Option<(u64, Basis)> {
        let mut first = Blocks::from_frame(0, format);
        let declared = loop {
            match first.next(&mut self.peek) {
                Ok(Step::FrameBegins { content_bytes, .. }) => break content_bytes,
                Ok(Step::Skipped) => {}
                _ => return None,
            }
        };
        let flags = first.lz4_flags();
        let (mut windows, mut starts) = (Vec::new(), Vec::new());
        for index in 0..self.plan.windows {
            let from = self.window(index);
            self.peek.set_limit(self.archive_bytes.min(from + self.plan.window_bytes));
            let walk = match from {
                0 => Some(Blocks::from_frame(0, format)),
                _ => Blocks::find(&mut self.peek, from, flags),
            };
            if let Some(window) = walk.and_then(|walk| self.walk_window(walk)) {
                starts.extend(window.frame.filter(|at| *at > 0));
                windows.push(window);
            }
        }
        self.peek.set_limit(self.archive_bytes);
        if (windows.len() as u64) < self.plan.windows / 2 {
            return None;
        }
        self.middle(format, &starts, &mut mean);
        let (mut raw, mut compressed) = (0_u128, 0_u128);
        for window in windows {
            raw += u128::from(window.sum.raw_bytes(mean.get())?);
            compressed += u128::from(window.compressed_bytes);
        }
        let estimate = (raw * u128::from(self.archive_bytes)).checked_div(compressed)?;
        let estimate = u64::try_from(estimate).ok()?;
        // One frame that declares its size, unless it lies or is the first of many.
        let near = |bytes: &u64| bytes.abs_diff(estimate) <= estimate / 4;
        Some(match declared.filter(near) {
            Some(bytes) => (bytes, Basis::Declared),
            None => (estimate, Basis::Sampled),
        })
    }

    fn walk_window(&mut self, mut walk: Blocks) -> Option<Window> {
        let (start, mut sum, mut frame) = (walk.at, Sum::default(), None);
        loop {
            let at = walk.at;
            match walk.next(&mut self.peek) {
                Ok(step) => {
                    sum.add(step)?;
                    if matches!(step, Step::FrameBegins { .. }) {
                        frame = frame.or(Some(at));
                    }
                }
                Err(Stop::End | Stop::Short) => break,
                Err(Stop::Bad) => return None,
            }
        }
        (walk.at > start).then_some(Window { sum, compressed_bytes: walk.at - start, frame })
    }

    /// Decodes a part of some of the frames that begin there.
    fn middle(&mut self, format: Format, starts: &[u64], mean: &mut Mean) {
        let mut middle = Mean::default();
        let stride = starts.len().div_ceil(self.plan.middle_samples).max(1);
        for &start in starts.iter().step_by(stride) {
            self.archive.will_read(start, self.plan.window_bytes);
        }
        for &start in starts.iter().step_by(stride) {
            let decoded = self.sample(Place::Middle, format, start, self.plan.middle);
            self.calibrate(format, start, decoded, &mut middle);
        }
        // It tells more about the rest than the beginning, where that is a bank file.
        if middle.blocks >= MEAN_BLOCKS_MIN {
            *mean = middle;
        }
    }

    fn plain_middle(&mut self) {
        let budget =
            Budget { compressed_bytes: self.plan.window_bytes, raw_bytes: self.plan.window_bytes };
        for index in 0..self.plan.windows {
            let start = self.window(index);
            if start >= self.plan.head.compressed_bytes {
                self.sample(Place::Middle, Format::Tar, start, budget);
            }
        }
    }
}

/// Decoded size of compressed blocks, in samples.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    raw_bytes: u64,
    blocks: u64,
    /// Most that a block of the last frame may hold; 0 before the first.
    block_bytes_max: u64,
}

impl Mean {
    /// Of few blocks none is taken: then they count as full, which is what encoders aim at.
    fn get(self) -> u64 {
        if self.blocks < MEAN_BLOCKS_MIN {
            return self.block_bytes_max;
        }
        self.raw_bytes / self.blocks
    }
}

/// What the walk over a window has found.
struct Window {
    sum: Sum,
    compressed_bytes: u64,
    /// Where the first frame begins in it.
    frame: Option<u64>,
}

/// Decoded sizes, added up.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Of complete frames that declare theirs.
    declared: u64,
    /// Of others: of blocks that are not compressed, and the number of those that are.
    known: u64,
    compressed_blocks: u64,
    /// The frame under way.
    frame: Frame,
    undeclared: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    content_bytes: Option<u64>,
    block_bytes_max: u64,
    known: u64,
    compressed_blocks: u64,
}

impl Sum {
    /// `None` if a frame declares more than its blocks can hold, or the sum has no end.
    fn add(&mut self, step: Step) -> Option<()> {
        match step {
            Step::FrameBegins { content_bytes, block_bytes_max } => {
                self.close(false)?;
                self.frame = Frame { content_bytes, block_bytes_max, ..Frame::default() };
            }
            Step::Block { raw_bytes: Some(bytes) } => {
                self.frame.known = self.frame.known.checked_add(bytes)?;
            }
            Step::Block { raw_bytes: None } => self.frame.compressed_blocks += 1,
            Step::FrameEnds => self.close(true)?,
            Step::Skipped => {}
        }
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

    fn is_declared(&self) -> bool {
        !self.undeclared
    }

    /// All of it, if a compressed block decodes to `mean` bytes.
    fn raw_bytes(mut self, mean: u64) -> Option<u64> {
        self.close(false)?;
        let blocks = self.compressed_blocks.checked_mul(mean)?;
        self.declared.checked_add(self.known)?.checked_add(blocks)
    }
}

#[cfg(test)]
mod tests;
