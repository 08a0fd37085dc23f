//! Walks over all headers of a large archive, in many places at once.
//!
//! A walk is a chain of small reads, each of which yields the offset of the next. A single walk
//! waits for the disk's latency at every block. Many walks, from footholds all over the archive,
//! wait in parallel.
//!
//! A foothold is an offset that looks like a block. The chain before it decides whether it is one:
//! it either arrives exactly there, or passes it and continues to the next. The chain that begins
//! at the archive's first frame certainly follows blocks. So does every chain whose foothold it
//! reaches, and every chain reached by those. If these chains lead to the end of the archive, all
//! frames have been seen, and the sum of their content sizes is exact. Data that only looks like
//! blocks costs time and nothing else.

use std::{
    iter,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use crate::survey::{
    Effort, Untold,
    blocks::{Blocks, Step, Stop},
    peek::{Peek, ReadAt, Reads},
    sum::{Frame, Sum},
};

/// Bytes of one read. A read touches a whole page in any case; reads of 64 and of 4096 bytes took
/// about as long. Without the kernel's read-ahead (`POSIX_FADV_RANDOM`) two runs were slightly
/// faster, which is too few to be conclusive, and the advice would stay on the descriptor that the
/// run reads from.
const PIECE_BYTES: usize = 256;

/// Number of steps between two checks of the clock.
const CLOCK_STEPS: u64 = 16;

/// Most parallel walks, each a thread with one read in flight; see `WINDOW_EVERY_BYTES`.
const WALKS_MAX: usize = 128;

/// Stack size of a thread in bytes. A walk uses hardly any stack; the default is 2 MiB.
const STACK_BYTES: usize = 128 << 10;

/// Result of the walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Walked {
    /// Every frame was seen and declares its size.
    All {
        raw_bytes: u64,
        /// Offsets of some frames: the first of each chain.
        frames: Vec<u64>,
    },
    /// Not every frame declares its size, or a declared size is wrong, or the archive is damaged.
    Undeclared,
    /// There was not enough time.
    Unfinished,
}

impl Walked {
    /// Returns the reason why the size is unknown.
    pub fn untold(&self) -> Option<Untold> {
        match self {
            Self::All { .. } => None,
            Self::Undeclared => Some(Untold::Undeclared),
            Self::Unfinished => Some(Untold::NoTime),
        }
    }
}

/// Walks from all footholds, which are in ascending order; the first is the beginning of the
/// archive. Also returns statistics of the reads.
pub(super) fn walk(
    archive: &dyn ReadAt,
    archive_bytes: u64,
    footholds: &[Blocks],
    effort: &Effort<'_>,
) -> (Walked, Reads) {
    let walks = Walks {
        archive,
        archive_bytes,
        footholds,
        effort,
        since: Instant::now(),
        next: AtomicUsize::new(0),
        passed_bytes: AtomicU64::new(0),
        reads: Mutex::default(),
        in_vain: AtomicBool::new(false),
        out_of_time: AtomicBool::new(false),
    };
    let parts = walks.has_time(0).map(|()| walks.all());
    let walked = match parts {
        Some(parts) if !walks.out_of_time.load(Relaxed) => {
            join(&parts).unwrap_or(Walked::Undeclared)
        }
        _ => Walked::Unfinished,
    };
    (walked, walks.reads.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Walks<'a> {
    archive: &'a dyn ReadAt,
    archive_bytes: u64,
    footholds: &'a [Blocks],
    effort: &'a Effort<'a>,
    since: Instant,
    /// Index of the first foothold from which no walk has started.
    next: AtomicUsize,
    /// Bytes of the archive passed by all chains.
    passed_bytes: AtomicU64,
    reads: Mutex<Reads>,
    /// The first chain has failed, so the size cannot be determined.
    in_vain: AtomicBool,
    out_of_time: AtomicBool,
}

/// Result of a chain.
struct Part {
    /// Blocks of the frame in which the chain begins, and whether that frame ends with a checksum,
    /// if its end was reached.
    head: Frame,
    head_checksum: Option<bool>,
    /// Sum of the frames that follow, and the offset of the first of them.
    sum: Sum,
    frame: Option<u64>,
    /// Whether the last, unfinished frame will end with a checksum, if that is known.
    checksum: Option<bool>,
    /// Index of the chain whose foothold was reached; `None` at the end of the archive.
    met: Option<usize>,
}

impl Walks<'_> {
    /// Returns the result of each chain, in order; `None` for a chain that failed.
    fn all(&self) -> Vec<Option<Part>> {
        let found = thread::scope(|scope| {
            // If no more threads can be started, the existing ones walk everything.
            let others: Vec<_> = (1..self.footholds.len().min(WALKS_MAX))
                .map_while(|number| {
                    let name = format!("unsnap-survey-{number}");
                    let builder = thread::Builder::new().name(name).stack_size(STACK_BYTES);
                    builder.spawn_scoped(scope, || self.some()).ok()
                })
                .collect();
            let mut found = self.some();
            found.extend(others.into_iter().flat_map(|other| other.join().unwrap_or_default()));
            found
        });
        let mut parts: Vec<_> = self.footholds.iter().map(|_| None).collect();
        for (index, part) in found {
            if let Some(place) = parts.get_mut(index) {
                *place = part;
            }
        }
        parts
    }

    /// Walks from one foothold after another until none is left.
    fn some(&self) -> Vec<(usize, Option<Part>)> {
        let index =
            || Some(self.next.fetch_add(1, Relaxed)).filter(|at| *at < self.footholds.len());
        iter::from_fn(index).map(|index| (index, self.chain(index))).collect()
    }

    fn chain(&self, index: usize) -> Option<Part> {
        let mut peek = Peek::new(self.archive, self.archive_bytes, PIECE_BYTES);
        let part = self.follow(index, &mut peek);
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        *reads = reads.plus(peek.reads);
        if index == 0 && part.is_none() {
            self.in_vain.store(true, Relaxed);
        }
        part
    }

    fn follow(&self, index: usize, peek: &mut Peek<'_>) -> Option<Part> {
        let mut walk = *self.footholds.get(index)?;
        let (mut next, mut counted) = (index + 1, walk.at);
        let (mut head, mut head_checksum) = (Frame::default(), (index == 0).then_some(false));
        let (mut sum, mut frame) = (Sum::default(), None);
        for steps in 0.. {
            while self.footholds.get(next).is_some_and(|foothold| foothold.at < walk.at) {
                next += 1;
            }
            if self.footholds.get(next).is_some_and(|foothold| walk.is_like(foothold)) {
                let checksum = walk.checksum();
                return Some(Part { head, head_checksum, sum, frame, checksum, met: Some(next) });
            }
            if steps % CLOCK_STEPS == 0 {
                self.has_time(walk.at.saturating_sub(counted))?;
                counted = walk.at;
            }
            let before = walk.at;
            match walk.next(peek) {
                Ok(Step::Block { raw_bytes }) if head_checksum.is_none() => {
                    head.add_block(raw_bytes)?;
                }
                Ok(Step::FrameEnds) if head_checksum.is_none() => {
                    head_checksum = Some(walk.at > before);
                }
                Ok(step) => {
                    if matches!(step, Step::FrameBegins { .. }) && before > 0 {
                        frame = frame.or(Some(before));
                    }
                    sum.add(step)?;
                    sum.is_declared().then_some(())?;
                }
                Err(Stop::End) => {
                    let checksum = None;
                    return Some(Part { head, head_checksum, sum, frame, checksum, met: None });
                }
                Err(Stop::Short | Stop::Bad) => return None,
            }
        }
        None
    }

    /// Returns `None` if the walk must end. `passed` is the number of bytes that the chain has
    /// passed since its last call.
    fn has_time(&self, passed: u64) -> Option<()> {
        let passed = self.passed_bytes.fetch_add(passed, Relaxed).saturating_add(passed);
        let elapsed = self.since.elapsed();
        let is_late = self.effort.walk_time.is_some_and(|time| {
            // At the current speed the walk would exceed its time.
            let is_hopeless = u128::from(passed) * time.as_nanos()
                < u128::from(self.archive_bytes) * elapsed.as_nanos();
            elapsed >= time || (elapsed >= time / 8 && is_hopeless)
        });
        if is_late || !(self.effort.go_on)(passed) {
            self.out_of_time.store(true, Relaxed);
        }
        let ends = self.out_of_time.load(Relaxed) || self.in_vain.load(Relaxed);
        (!ends).then_some(())
    }
}

/// Joins the results of the chains, starting at the beginning of the archive.
fn join(parts: &[Option<Part>]) -> Option<Walked> {
    let first = parts.first()?.as_ref()?;
    let (mut sum, mut checksum, mut met) = (first.sum, first.checksum, first.met);
    let mut frames = Vec::from_iter(first.frame);
    while let Some(index) = met {
        let part = parts.get(index)?.as_ref()?;
        if let Some(found) = part.head_checksum {
            // A chain that began inside the frame did not know this and may have guessed wrong.
            if checksum.is_some_and(|known| known != found) {
                return None;
            }
            checksum = part.checksum;
        }
        sum.append(part.head, part.head_checksum.map(|_| part.sum))?;
        frames.extend(part.frame);
        met = part.met;
    }
    // No frame is unfinished and every size is declared, so the mean does not matter.
    let raw_bytes = sum.is_declared().then(|| sum.raw_bytes(0))??;
    Some(Walked::All { raw_bytes, frames })
}

#[cfg(test)]
mod tests;
