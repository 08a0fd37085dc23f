//! Walking all headers of a large archive, in many places at once.
//!
//! A walk is a chain of small reads, each of which says where the next one is; so a single walk
//! waits for the disk's latency at every block. Many of them, from footholds all over the archive,
//! wait together.
//!
//! A foothold is a place that looks like a block. Whether it is one is decided by the chain before
//! it, which either arrives exactly there or steps over it and goes on to the next. The chain that
//! begins with the archive's first frame walks on blocks for certain; hence so does every one that
//! is met by it, and by those. If they lead to the end of the archive, all frames have been seen,
//! and the sum of their content sizes is exact. What data looks like blocks and is none costs time
//! and nothing else.

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

/// Bytes of a read: a page is touched in any case. Reads of 64 and of 4096 bytes took about as long.
/// Without the kernel's read-ahead (`POSIX_FADV_RANDOM`) two runs were a little faster, too few to
/// tell; it would stay on the descriptor that the run reads from.
const PIECE_BYTES: usize = 256;

/// Blocks between two looks at the clock.
const STEPS: u64 = 16;

/// Walks at once, each a thread with one read in flight; see `WINDOW_EVERY_BYTES`.
const WALKS_MAX: usize = 128;

/// Stack of a thread, which has next to nothing on it. The system's default is 2 MiB.
const STACK_BYTES: usize = 128 << 10;

/// What has come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Walked {
    /// Every frame was seen, and declares its size.
    All {
        raw_bytes: u64,
        /// Where some of them begin: in each chain the first.
        frames: Vec<u64>,
    },
    /// Not every frame does, or one lies, or the archive is damaged.
    Undeclared,
    /// There was no time to find out.
    Unfinished,
}

impl Walked {
    /// Why it is not known.
    pub fn untold(&self) -> Option<Untold> {
        match self {
            Self::All { .. } => None,
            Self::Undeclared => Some(Untold::Undeclared),
            Self::Unfinished => Some(Untold::NoTime),
        }
    }
}

/// Walks from all footholds, which are in ascending order; the first is the beginning of the
/// archive. Also says what was read.
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
    /// The first foothold that nobody has set out from.
    next: AtomicUsize,
    /// What all chains have passed.
    passed_bytes: AtomicU64,
    reads: Mutex<Reads>,
    /// The first chain has found that it cannot be told.
    in_vain: AtomicBool,
    out_of_time: AtomicBool,
}

/// What a chain has found.
struct Part {
    /// Of the frame in which it begins: its blocks, and whether it ends in a checksum, if it ends.
    head: Frame,
    head_checksum: Option<bool>,
    /// The frames that follow. Where the first of them begins.
    sum: Sum,
    frame: Option<u64>,
    /// Whether the frame under way will end in a checksum, if that is known.
    checksum: Option<bool>,
    /// The chain whose foothold it has met; `None` at the end of the archive.
    met: Option<usize>,
}

impl Walks<'_> {
    /// What each chain has found, in their order. `None` where it has come to nothing.
    fn all(&self) -> Vec<Option<Part>> {
        let found = thread::scope(|scope| {
            // Where no more threads are to be had, those that are there walk all of it.
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

    /// Sets out from one foothold after the other, as long as there are any.
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
            if steps % STEPS == 0 {
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

    /// `None` if it is time to end. `passed`: how far the chain has come since it last asked.
    fn has_time(&self, passed: u64) -> Option<()> {
        let passed = self.passed_bytes.fetch_add(passed, Relaxed).saturating_add(passed);
        let elapsed = self.since.elapsed();
        let is_late = self.effort.walk_time.is_some_and(|time| {
            // Whether going on like this would take longer than it may.
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

/// Follows the chains from the archive's beginning.
fn join(parts: &[Option<Part>]) -> Option<Walked> {
    let first = parts.first()?.as_ref()?;
    let (mut sum, mut checksum, mut met) = (first.sum, first.checksum, first.met);
    let mut frames = Vec::from_iter(first.frame);
    while let Some(index) = met {
        let part = parts.get(index)?.as_ref()?;
        if let Some(found) = part.head_checksum {
            // It did not know, and may have taken one thing for the other.
            if checksum.is_some_and(|known| known != found) {
                return None;
            }
            checksum = part.checksum;
        }
        sum.append(part.head, part.head_checksum.map(|_| part.sum))?;
        frames.extend(part.frame);
        met = part.met;
    }
    // Nothing is under way, and nothing is undeclared: the mean does not matter.
    let raw_bytes = sum.is_declared().then(|| sum.raw_bytes(0))??;
    Some(Walked::All { raw_bytes, frames })
}

#[cfg(test)]
mod tests;
