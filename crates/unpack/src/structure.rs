//! The check of the structure of storages, on threads of its own.
//!
//! ```text
//! walk ──▶ job: the parts of storages in a segment ──▶ a checker
//!                                                          │ a storage that continues
//!          the next job ──────────────────────────────▶ another checker
//! ```
//!
//! The walk only notes where storages are. A checker scans those that begin in its segment first, and
//! then the one that began before, whose scan it receives from the checker of the segment before.
//! Segments are checked in any order; the error reported is the first in the stream.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use crossbeam::{
    channel::{Receiver, Sender, bounded},
    sync::WaitGroup,
};
use unsnap_arena::Slice;
use unsnap_decode::Position;
use unsnap_pass::PassError;
use unsnap_verify::{StorageError, StorageScanner};

/// Decoding threads for each further checker. A checker scans 20 GB/s, and the decoding threads of
/// a machine rarely decode 2 GB/s each (November 2026).
const THREADS_PER_CHECKER: usize = 8;

/// Returns the number of checkers beside so many decoding threads.
pub(crate) fn checkers(decode_threads: usize) -> usize {
    1 + decode_threads / THREADS_PER_CHECKER
}

/// The check of the storages of one archive. Dropping it ends its threads.
pub(crate) struct StructureCheck {
    /// `None` once it is being dropped.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    found: Arc<Found>,
    /// The storage that was begun and has no part yet.
    begun: Option<StorageScanner>,
    /// Parts for the next job, all of one segment.
    parts: Vec<Part>,
    /// Origin of that segment.
    at: Position,
    /// Promise of the job before to return the scan of a storage that continues.
    continued: Option<Receiver<StorageScanner>>,
    submitted: u64,
    /// Jobs in flight.
    in_flight: WaitGroup,
}

/// A part of a storage.
struct Part {
    /// `None` if the storage began in an earlier job.
    scanner: Option<StorageScanner>,
    bytes: Slice,
    /// Whether the storage ends here.
    last: bool,
}

struct Job {
    number: u64,
    at: Position,
    parts: Vec<Part>,
    /// For the first part, if its storage began before.
    continued: Option<Receiver<StorageScanner>>,
    /// For the last part, if its storage continues.
    continues: Option<Sender<StorageScanner>>,
    /// Dropped at the end.
    _in_flight: WaitGroup,
}

/// What the checkers found.
#[derive(Default)]
struct Found {
    checked: AtomicU64,
    any: AtomicBool,
    /// First error in stream order, with the number of its job.
    error: Mutex<Option<(u64, Position, StorageError)>>,
}

impl StructureCheck {
    /// Starts the checkers.
    pub fn start(checkers: usize) -> Result<Self, PassError> {
        // One waiting job for each keeps it busy.
        let (jobs, inbox) = bounded::<Job>(checkers);
        let found = Arc::new(Found::default());
        let mut threads = Vec::with_capacity(checkers);
        for index in 0..checkers.max(1) {
            let (inbox, found) = (inbox.clone(), Arc::clone(&found));
            let checker = thread::Builder::new()
                .name(format!("unsnap-check-{index}"))
                .spawn(move || inbox.iter().for_each(|job| job.run(&found)));
            threads.push(checker.map_err(PassError::thread)?);
        }
        Ok(Self {
            jobs: Some(jobs),
            threads,
            found,
            begun: None,
            parts: Vec::new(),
            at: Position::default(),
            continued: None,
            submitted: 0,
            in_flight: WaitGroup::new(),
        })
    }

    /// Begins a storage.
    pub fn begin(&mut self, slot: u64, id: u64, size: u64) -> Result<(), StorageError> {
        self.begun = Some(StorageScanner::new(slot, id, size)?);
        Ok(())
    }

    /// Takes the next bytes of the storage, from a segment of this origin; `last` marks its end.
    pub fn part(&mut self, bytes: Slice, last: bool, at: Position) {
        self.at = at;
        self.parts.push(Part { scanner: self.begun.take(), bytes, last });
    }

    /// Passes the parts of a segment to a checker. Returns an error of any segment so far.
    pub fn segment_end(&mut self, archive: &str) -> Result<(), PassError> {
        self.submit()?;
        if self.found.any.load(Ordering::Acquire) { self.settle(archive) } else { Ok(()) }
    }

    /// Waits until everything so far is checked. Returns the first error in stream order.
    pub fn settle(&mut self, archive: &str) -> Result<(), PassError> {
        self.submit()?;
        std::mem::take(&mut self.in_flight).wait();
        let found = self.found.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((_, at, error)) = found {
            return Err(PassError::storage(archive, error, at));
        }
        if self.found.checked.load(Ordering::Acquire) < self.submitted {
            return Err(died());
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<(), PassError> {
        let parts = std::mem::take(&mut self.parts);
        let (Some(last), Some(jobs)) = (parts.last(), &self.jobs) else { return Ok(()) };
        let (continues, continued) = if last.last {
            (None, None)
        } else {
            let (continues, continued) = bounded(1);
            (Some(continues), Some(continued))
        };
        let job = Job {
            number: self.submitted,
            at: self.at,
            parts,
            continued: std::mem::replace(&mut self.continued, continued),
            continues,
            _in_flight: self.in_flight.clone(),
        };
        self.submitted += 1;
        jobs.send(job).map_err(|_| died())
    }
}

impl Drop for StructureCheck {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic was reported by the thread, and by `settle`.
            let _ = thread.join();
        }
    }
}

impl Job {
    fn run(self, found: &Found) {
        let Self { number, at, parts, continued, continues, .. } = self;
        let mut parts = parts.into_iter();
        // The first part last: its scan may not have arrived yet.
        let first = continued.and_then(|continued| Some((continued, parts.next()?)));
        let begun = parts.try_for_each(|part| check(part, None, continues.as_ref()));
        let first = first.map_or(Ok(()), |(continued, part)| match continued.recv() {
            Ok(scanner) => check(part, Some(scanner), continues.as_ref()),
            // The storage is bad, which was reported, or the checker has panicked.
            Err(_) => Ok(()),
        });
        if let Err(error) = first.and(begun) {
            let mut kept = found.error.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.as_ref().is_none_or(|&(before, ..)| number < before) {
                *kept = Some((number, at, error));
            }
            found.any.store(true, Ordering::Release);
        }
        found.checked.fetch_add(1, Ordering::AcqRel);
    }
}

/// Scans a part of a storage, and passes the scan on if the storage continues.
fn check(
    part: Part,
    scanner: Option<StorageScanner>,
    continues: Option<&Sender<StorageScanner>>,
) -> Result<(), StorageError> {
    let Some(mut scanner) = part.scanner.or(scanner) else { return Ok(()) };
    scanner.feed(&part.bytes, &mut ())?;
    if part.last {
        return scanner.finish().map(drop);
    }
    if let Some(continues) = continues {
        // Nobody listens if the walk has ended.
        let _ = continues.send(scanner);
    }
    Ok(())
}

/// Returns the error for a checker that ended without a result, which happens only after a panic.
fn died() -> PassError {
    let reason = "a thread that checks storages ended unexpectedly (a bug)";
    PassError::thread(std::io::Error::other(reason))
}

#[cfg(test)]
mod tests {
    use unsnap_arena::Arena;
    use unsnap_failure::{Code, Failure};

    use super::*;

    /// Returns a storage of `records` records with 16 bytes of data each.
    fn storage(records: usize) -> Vec<u8> {
        let mut record = [0; 152];
        record[8] = 16;
        record[48] = 1;
        record.repeat(records)
    }

    /// Checks storages that arrive in segments of so many bytes, one after the other.
    fn check(storages: &[Vec<u8>], segment_bytes: usize, checkers: usize) -> Result<(), PassError> {
        let mut arena = Arena::builder().bytes(8 << 20).populate(false).build().unwrap();
        let pool = arena.pool(8 << 20).unwrap();
        let mut check = StructureCheck::start(checkers).unwrap();
        let at = |segment: usize| Position { frame: segment as u64, ..Position::default() };
        let (mut segment, mut room) = (0, segment_bytes);
        for (id, storage) in storages.iter().enumerate() {
            let begun = check.begin(7, id as u64, storage.len() as u64);
            if let Err(error) = begun {
                check.settle("a")?;
                return Err(PassError::storage("a", error, at(segment)));
            }
            let mut rest = &storage[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(room.min(rest.len()));
                let (mut block, _) = pool.allocate(now.len()).unwrap();
                block[..now.len()].copy_from_slice(now);
                check.part(block.freeze().slice(..now.len()), later.is_empty(), at(segment));
                (rest, room) = (later, room - now.len());
                if room == 0 {
                    check.segment_end("a")?;
                    (segment, room) = (segment + 1, segment_bytes);
                }
            }
        }
        check.settle("a")?;
        // Everything has been returned.
        assert!(pool.try_allocate(8 << 20).is_some());
        Ok(())
    }

    #[test]
    fn good_storages_pass_however_they_are_cut() {
        let storages: Vec<_> = (1..60).map(|records| storage(records * records % 97)).collect();
        let storages: Vec<_> = storages.into_iter().filter(|bytes| !bytes.is_empty()).collect();
        for (segment_bytes, storages) in [
            (1, &storages[..3]),
            (100, &storages[..10]),
            (152, &storages[..10]),
            (5000, &storages),
            (100_000, &storages),
            (10_000_000, &storages),
        ] {
            for checkers in [1, 4] {
                check(storages, segment_bytes, checkers).unwrap();
            }
        }
    }

    #[test]
    fn the_first_error_in_the_stream_is_reported() {
        let mut storages: Vec<_> = (0..40).map(|_| storage(50)).collect();
        for bad in [30, 20, 5] {
            // The executable flag of the last record.
            let flag = storages[bad].len() - 152 + 96;
            storages[bad][flag] = 7;
            for segment_bytes in [1000, 5000, 7600, 20_000, 1 << 20] {
                for checkers in [1, 3] {
                    let error = check(&storages, segment_bytes, checkers).unwrap_err();
                    assert_eq!(error.code(), Code::BadStorage);
                    let PassError::Storage { source, at, .. } = &error else { panic!("{error}") };
                    assert_eq!(source.id, bad as u64, "{error}");
                    let segment = (bad * 7600 + flag) / segment_bytes;
                    // The header may begin in the segment before.
                    assert!(
                        (segment..=segment + 1).contains(&usize::try_from(at.frame).unwrap()),
                        "{error}"
                    );
                }
            }
        }
        // An empty storage is found by the walk, after the others.
        storages[30].clear();
        let error = check(&storages, 5000, 2).unwrap_err();
        assert!(matches!(&error, PassError::Storage { source, .. } if source.id == 5), "{error}");
    }

    #[test]
    fn a_checker_that_panics_is_no_success() {
        let mut check = StructureCheck::start(1).unwrap();
        check.submitted = 1;
        assert!(check.settle("a").unwrap_err().to_string().contains("unexpectedly"));
    }

    #[test]
    fn large_machines_have_more_checkers() {
        assert_eq!([1, 2, 7, 8, 64].map(checkers), [1, 1, 1, 2, 9]);
    }
}
