//! Survey: determines or estimates the decoded size of an archive from a bounded part of it.
//!
//! A zstd frame may declare its content size, and its blocks have headers of three bytes that give
//! their length. A walk over the headers of all frames therefore yields the exact decoded size
//! without decoding anything. It touches a page at each block, one after another. Large archives
//! are therefore walked in many places at once, for at most the time that an [`Effort`] allows.
//!
//! | archive | examined | decoded size |
//! |---|---|---|
//! | up to 4 MiB, decodes to 16 MiB | decoded as a whole | exact |
//! | plain tar | size of the file | exact |
//! | up to 64 MiB | all headers | exact if all frames are sized |
//! | larger, first frame sized | all headers, ≤ 128 places at once | exact if all frames are sized |
//! | larger, otherwise | headers in 32 to 127 windows of 1 MiB, spread evenly | estimated |
//!
//! A *sized* frame declares its content size. A size that is not exact is estimated, also if there
//! is not enough time for the walk. lz4 frames are treated alike; Agave's lz4 frames declare
//! nothing.
//!
//! An estimate uses the mean of samples: a block decodes to at most 128 KiB, and a compressed block
//! does not declare its decoded size. A snapshot begins with its bank file, which compresses unlike
//! accounts, so the windows are spread over the whole archive. In each window the survey searches
//! for an offset from which headers lead to further headers. The walk over all headers starts from
//! these offsets, too.
//!
//! The sizes of files are not in these headers either. The survey therefore passes all bytes that
//! it decodes for samples, at the beginning and from frames in the middle, to the caller, who
//! understands tar.
//!
//! A survey never fails. If an archive is damaged, declares wrong sizes or cannot be read, the
//! decoded size is unknown, and the run that follows reports the error and its position.

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

/// Sizes of the examined parts.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Part of the beginning that is decoded.
    head: Budget,
    /// Number and size of the windows in an archive that is too large to be read from end to end.
    windows: u64,
    window_bytes: u64,
    /// Number of frames in the middle from which a part is decoded, and the size of these parts.
    middle_samples: usize,
    middle: Budget,
}

/// Sizes measured on generated archives (2 cores, virtual NVMe disk, November 2026).
const PLAN: Plan = Plan {
    // 16 MiB take about 10 ms.
    head: Budget { compressed_bytes: 4 * MIB, raw_bytes: 16 * MIB },
    // Each as long as a read of the run that follows, which finds them in the page cache. Together
    // half as large as the largest archive that is walked from end to end.
    windows: 32,
    window_bytes: MIB,
    // Together about as much as the beginning. On a snapshot like mainnet's they contain 20 files.
    middle_samples: 6,
    middle: Budget { compressed_bytes: 2 * MIB, raw_bytes: 4 * MIB },
};

/// A large archive has one window per GiB. Each provides the foothold of one parallel walk; one
/// more walk starts at the beginning. With 128 reads in flight an NVMe disk (some 80 µs for a small
/// read) reaches its maximum of a million and more reads a second, so that more walks would only
/// wait longer. On the development machine, limited by its two cores, the number makes no
/// difference: see `docs/testing.md`.
const WINDOW_EVERY_BYTES: u64 = 1 << 30;
const WINDOWS_MAX: u64 = 127;

/// Basis of a decoded size, most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// The whole archive has been decoded.
    Decoded,
    /// The archive declares it: every frame declares its content size, or nothing is compressed.
    Declared,
    /// Extrapolated from samples.
    Sampled,
}

/// Result of a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Decoded size of the archive in bytes and its basis; `None` if unknown.
    pub raw_bytes: Option<(u64, Basis)>,
    /// Reason why the headers of all frames did not give the size. With [`Basis::Declared`], the size
    /// is that of a single frame, and no walk has confirmed that none follows.
    pub untold: Option<Untold>,
    /// Statistics of the reads.
    pub reads: Reads,
}

/// Reason why frame headers do not give the decoded size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// Not every frame declares its size, or a declared size is wrong, or the archive is damaged.
    Undeclared,
    /// The walk over them would have taken longer than allowed.
    NoTime,
}

/// Origin of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The beginning of the decoded stream.
    Beginning,
    /// An arbitrary offset in the decoded stream. It is a multiple of 512 in archives whose frames
    /// are split at such offsets, as Agave's and Firedancer's are.
    Middle,
}

/// Receiver of the bytes decoded for samples.
pub trait Samples {
    /// Begins a sample.
    fn begin(&mut self, place: Place);
    /// Receives the next bytes of the sample.
    fn bytes(&mut self, bytes: &[u8]);
}

/// Bounds on the cost of a survey.
#[derive(Clone, Copy)]
pub struct Effort<'a> {
    /// Size in bytes up to which one thread reads an archive from end to end.
    pub whole_bytes_max: u64,
    /// Time for the walk over the headers of larger archives, if their frames declare sizes; `None`
    /// for no limit. The walk checks after an eighth of the time whether it will suffice. If not,
    /// the size is estimated.
    pub walk_time: Option<Duration>,
    /// Called now and then with the number of bytes that the walk has passed. Returns whether to
    /// continue.
    pub go_on: &'a (dyn Fn(u64) -> bool + Sync),
}

impl Effort<'static> {
    /// Returns suitable bounds for an archive of `archive_bytes`. Archives of up to 64 MiB are read
    /// as a whole, which takes 30 ms from a disk of 2 GB/s and 10 ms from the page cache. The
    /// headers of larger ones are walked for at most 2 seconds plus one second per GB.
    ///
    /// A GB of a snapshot has some 27,000 to 35,000 blocks, each of which takes a read. The walk
    /// completes on every disk that serves 35,000 small reads a second; a slower disk is detected
    /// after an eighth of the time. The development machine's disk serves 65,000 (1.7 GB take 0.65
    /// s), NVMe disks ten times as many, so that mainnet's 110 GB take them some 5 s. (No archive
    /// of that size has been measured.)
    pub fn of(archive_bytes: u64) -> Self {
        Self {
            whole_bytes_max: 64 * MIB,
            walk_time: Some(Duration::from_millis(2000 + archive_bytes / 1_000_000)),
            go_on: &|_| true,
        }
    }
}

/// Surveys an archive of `archive_bytes`. Decodes at most 40 MiB and reads at most 200 MiB, in
/// pieces of up to 1 MiB. If the archive is large and its frames declare their sizes, also reads
/// some bytes at each block, for as long as `effort` allows.
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
        // The run will refuse an archive that exceeds the limits.
        limits.check_output(*raw, archive_bytes).is_ok()
    });
    let untold = surveyor.untold.filter(|_| raw_bytes.is_some());
    Survey { raw_bytes, untold, reads: surveyor.peek.reads }
}

struct Surveyor<'a> {
    plan: Plan,
    effort: Effort<'a>,
    archive: &'a dyn ReadAt,
    archive_bytes: u64,
    peek: Peek<'a>,
    samples: &'a mut dyn Samples,
    /// Reason why the headers did not give the size.
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

    /// Adds the decoded sizes of the compressed blocks in a sample to the mean.
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

    /// Walks all headers of the archive.
    fn walk(&mut self, format: Format, mut mean: Mean) -> Option<(u64, Basis)> {
        let mut sum = Sum::default();
        let mut starts = Vec::new();
        let mut walk = Blocks::from_frame(0, format);
        loop {
            let at = walk.at;
            match walk.next(&mut self.peek) {
                Ok(step) => {
                    sum.add(step)?;
                    // One frame in each of as many parts as a large archive has windows.
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
        self.untold = (basis == Basis::Sampled).then_some(Untold::Undeclared);
        Some((sum.raw_bytes(mean.get())?, basis))
    }

    fn window_part(&self, index: u64) -> u64 {
        (self.archive_bytes / self.plan.windows).saturating_mul(index).max(1)
    }
}

#[cfg(test)]
mod tests;
