//! How much an archive will decode to, told by looking at a bounded part of it.
//!
//! A zstd frame may declare its content size, and its blocks have headers of three bytes that say
//! how long they are. So the walk over the headers of an archive of frames adds up to its exact
//! length without decoding anything. It touches a page at each block, one after the other; of large
//! archives many parts are therefore walked at once, and not for longer than an [`Effort`] allows.
//!
//! | archive | is looked at | the length is |
//! |---|---|---|
//! | of up to 4 MiB that decodes to 16 MiB | decoded once | known |
//! | plain tar | its size | known |
//! | up to 64 MiB | all headers | known if every frame declares it, else estimated |
//! | larger, the first frame declares its size | all headers, in up to 128 places at once | known if every frame declares it and there is time, else estimated |
//! | larger, otherwise | headers in 32 to 127 windows of 1 MiB, spread evenly | estimated |
//!
//! lz4 frames are treated alike; Agave's declare nothing. To estimate, the mean of samples is taken:
//! a block's decoded size is at most 128 KiB, and of compressed blocks it is not in the header.
//! The first bytes of a snapshot hold its bank file, which compresses unlike accounts: hence windows
//! all over the archive, not a piece of its beginning. In a window blocks are found by looking for a
//! place from which their headers lead on and on. From there the walk over all headers sets out, too.
//!
//! Sizes of files are not in headers either. What is decoded for samples, at the beginning and from
//! frames in the middle, is therefore handed to the caller, who knows tar.
//!
//! Nothing here fails: where an archive is damaged, lies or cannot be read, the answer is that
//! nothing is known, and the run that follows says what is wrong, and where.

mod blocks;
mod chains;
mod frames;
pub mod fuzzing;
mod peek;
mod sample;
mod sum;
mod windows;

use std::time::Duration;

use crate::{Format, Limits, format::HEAD_BYTES};

pub use frames::{FrameContent, FrameExtent, WalkEnd, walk_frames};
pub use peek::{ReadAt, Reads};

use blocks::{Blocks, Step, Stop};
use peek::Peek;
use sample::{Budget, Decoded};
use sum::{Mean, Sum};

const MIB: u64 = 1 << 20;

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// What is decoded of the beginning.
    head: Budget,
    /// Windows in an archive that is larger than what is read from end to end, and their size.
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
    // Each as long as a read of the run that follows, which finds them in the page cache. Together
    // half of what is walked from end to end.
    windows: 32,
    window_bytes: MIB,
    // Together about as much as the beginning. On a snapshot like mainnet's they show 20 files.
    middle_samples: 6,
    middle: Budget { compressed_bytes: 2 * MIB, raw_bytes: 4 * MIB },
};

/// A large archive has a window for each GiB: footholds of as many walks at once, and one at its
/// beginning. With 128 reads in flight an NVMe disk (some 80 µs for a small read) carries out the
/// million and more a second that is the most such disks can do, so that more would only wait longer.
/// On the development machine, whose two cores are the limit, it makes no difference: see
/// `docs/testing.md`.
const WINDOW_EVERY_BYTES: u64 = 1 << 30;
const WINDOWS_MAX: u64 = 127;

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
    /// Why the headers of frames have not told it, where it is sampled for that.
    pub untold: Option<Untold>,
    /// What was read of the archive for it.
    pub reads: Reads,
}

/// Why the headers of frames do not tell a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// Not every frame declares its size; or one lies, or the archive is damaged.
    Undeclared,
    /// The walk over them was not to take so long.
    NoTime,
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

/// What looking at an archive may cost.
#[derive(Clone, Copy)]
pub struct Effort<'a> {
    /// Archives up to so many bytes are read from end to end, by one thread.
    pub whole_bytes_max: u64,
    /// How long the headers of larger ones may be walked, if their frames declare sizes; `None` for as
    /// long as it takes. If it is not enough, which is found out after an eighth of it, the length is
    /// estimated.
    pub walk_time: Option<Duration>,
    /// Told now and then how many bytes of the archive the walk has passed; says whether to go on.
    pub go_on: &'a (dyn Fn(u64) -> bool + Sync),
}

impl Effort<'static> {
    /// What is right for an archive of so many bytes: 64 MiB as a whole, which are read from a disk
    /// of 2 GB/s in 30 ms and from the page cache in 10 ms. Headers for 2 seconds, and one more for
    /// each GB.
    ///
    /// A GB of a snapshot has some 27,000 to 35,000 blocks, each of which takes a read, so the walk is
    /// completed on every disk that carries out 35,000 small reads a second; one that does not is
    /// found out after an eighth of the time. The development machine's disk does 65,000 (1.7 GB take
    /// 0.65 s), NVMe disks ten times as many, so that mainnet's 110 GB take them some 5 s. (Nothing of
    /// that size has been measured.)
    pub fn of(archive_bytes: u64) -> Self {
        Self {
            whole_bytes_max: 64 * MIB,
            walk_time: Some(Duration::from_millis(2000 + archive_bytes / 1_000_000)),
            go_on: &|_| true,
        }
    }
}

/// Looks at an archive of `archive_bytes`. Decodes at most 40 MiB, and reads at most 200 MiB in
/// pieces of up to 1 MiB; and, if the archive is large and its frames declare their sizes, some
/// bytes at each block, as long as `effort` allows.
pub fn survey(
    archive: &dyn ReadAt,
    archive_bytes: u64,
    limits: &Limits,
    effort: &Effort<'_>,
    samples: &mut dyn Samples,
) -> Survey {
    let windows = (archive_bytes / WINDOW_EVERY_BYTES).clamp(PLAN.windows, WINDOWS_MAX);
    let plan = Plan { windows, ..PLAN };
    survey_by(plan, archive, archive_bytes, limits, effort, samples)
}

fn survey_by(
    plan: Plan,
    archive: &dyn ReadAt,
    archive_bytes: u64,
    limits: &Limits,
    effort: &Effort<'_>,
    samples: &mut dyn Samples,
) -> Survey {
    let piece_bytes = usize::try_from(plan.window_bytes).unwrap_or(usize::MAX);
    let peek = Peek::new(archive, archive_bytes, piece_bytes);
    let (effort, untold) = (*effort, None);
    let mut surveyor = Surveyor { plan, effort, archive, archive_bytes, peek, samples, untold };
    let raw_bytes = surveyor.raw_bytes().filter(|(raw, _)| {
        // The run is going to refuse it, for what it is.
        limits.check_output(*raw, archive_bytes).is_ok()
    });
    let sampled = raw_bytes.is_some_and(|(_, basis)| basis == Basis::Sampled);
    let untold = surveyor.untold.filter(|_| sampled);
    Survey { raw_bytes, untold, reads: surveyor.peek.reads }
}

struct Surveyor<'a> {
    plan: Plan,
    effort: Effort<'a>,
    archive: &'a dyn ReadAt,
    archive_bytes: u64,
    peek: Peek<'a>,
    samples: &'a mut dyn Samples,
    /// What the headers did not tell.
    untold: Option<Untold>,
}

impl Surveyor<'_> {
    fn raw_bytes(&mut self) -> Option<(u64, Basis)> {
        let format = Format::detect(self.peek.at(0, HEAD_BYTES))?;
        let windowed = format == Format::Tar || self.archive_bytes > self.effort.whole_bytes_max;
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
        self.untold = Some(Untold::Undeclared);
        Some((sum.raw_bytes(mean.get())?, basis))
    }

    fn window_part(&self, index: u64) -> u64 {
        (self.archive_bytes / self.plan.windows).saturating_mul(index).max(1)
    }
}

#[cfg(test)]
mod tests;
