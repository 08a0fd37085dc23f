//! Watch over the free space during a run.
//!
//! Other processes write to the same disk, and estimates may be wrong. A full disk harms other
//! processes too (a validator's ledger), so the run ends earlier, as soon as two conditions hold:
//! the free space is less than the bytes in flight, which may still be written; and the rest of the
//! archive does not fit. Until then space may become free: a validator removes its old accounts in
//! the background.
//!
//! Space that is to stay free for other processes ([`FileSystem::keeping`]) counts as used. If less
//! than that is free, because others have written or because the estimate was too low, the run ends
//! at once, whatever it still needs: it never takes more than the bytes in flight of that space.
//!
//! The thread that passes segments on checks once for each segment. Between two checks only bytes
//! in flight are written, however fast the disk is. One `fstatfs` takes about a microsecond.

use unsnap_create::Written;

use crate::{FileSystem, FitError, Free, MinFree, Resource, Shortage};

/// Part of the need, in percent, that may be missing without a stop: overhead of the file system,
/// and rounding. A guess.
const SLACK_PERCENT: u64 = 2;

/// Number of inodes that may be missing without a stop, since those of files that are being created
/// may be counted twice. Somewhat more than creators have in flight at most.
const SLACK_INODES: u64 = 256;

/// Divisor for the part of a small file system that stays free if the rest of the archive is
/// unknown, where that part is less than the bytes in flight. A guess.
const RESERVE_PART: u64 = 16;

/// Number of inodes that stay free if the rest of the archive is unknown. A guess.
const RESERVE_INODES: u64 = 1024;

/// Watch over the file systems of a run.
#[derive(Debug)]
pub struct Watch {
    systems: Vec<Watched>,
    /// Most bytes in flight.
    in_flight_bytes: u64,
    /// Free bytes that count as used; for tests.
    hidden_bytes: u64,
}

/// A watched file system.
#[derive(Debug)]
pub(crate) struct Watched {
    system: FileSystem,
    /// Least bytes and inodes that the whole archive needs here; `None` if unknown.
    needed: Option<(u64, Option<u64>)>,
    /// Whether inodes are watched.
    inodes: bool,
}

impl Watched {
    pub fn new(system: FileSystem, needed: Option<(u64, Option<u64>)>) -> Self {
        Self { system, needed, inodes: true }
    }

    /// Watches only the space that is to stay free for other processes.
    pub fn unchecked(system: FileSystem) -> Self {
        Self { system, needed: None, inodes: false }
    }

    /// Returns an error if the file system is about to be full. `written` counts the bytes and
    /// files of each destination so far.
    fn look(
        &self,
        written: &[Written],
        in_flight_bytes: u64,
        hidden_bytes: u64,
    ) -> Result<(), FitError> {
        self.judge(&self.system.free()?.hide(hidden_bytes), written, in_flight_bytes)
    }

    fn judge(
        &self,
        free: &Free,
        written: &[Written],
        in_flight_bytes: u64,
    ) -> Result<(), FitError> {
        let (mut bytes, mut files) = (0, 0);
        for written in self.system.destinations.iter().filter_map(|index| written.get(*index)) {
            bytes += written.bytes;
            files += written.files;
        }
        let (bytes_needed, inodes_needed) = match self.needed {
            Some((bytes, inodes)) => (Some(bytes), inodes),
            None => (None, None),
        };
        if let Some(available) = free.bytes {
            let bytes = Stock {
                needed: bytes_needed,
                used: bytes,
                available,
                slack: bytes_needed.unwrap_or(0) / 100 * SLACK_PERCENT,
                in_flight: in_flight_bytes,
                reserve: in_flight_bytes.min(free.total_bytes / RESERVE_PART),
                min_free: free.min_free,
            };
            self.check(Resource::Bytes, &bytes)?;
        }
        if let Some(available) = free.inodes.filter(|_| self.inodes) {
            let inodes = Stock {
                needed: inodes_needed,
                used: files,
                available,
                slack: SLACK_INODES,
                in_flight: RESERVE_INODES,
                reserve: RESERVE_INODES.min(free.total_inodes / RESERVE_PART),
                min_free: None,
            };
            self.check(Resource::Inodes, &inodes)?;
        }
        Ok(())
    }

    fn check(&self, resource: Resource, stock: &Stock) -> Result<(), FitError> {
        if !stock.runs_out() {
            return Ok(());
        }
        Err(FitError::NoSpace(Box::new(Shortage {
            resource,
            file_system: self.system.name(),
            needed: stock.remaining(),
            exact: false,
            tar_bytes: None,
            announced: None,
            available: stock.available,
            min_free: stock.min_free,
            unpacking: true,
            device: self.system.device,
            others: Vec::new(),
        })))
    }
}

impl Watch {
    pub(crate) fn new(systems: Vec<Watched>, in_flight_bytes: u64, hidden_bytes: u64) -> Self {
        Self { systems, in_flight_bytes, hidden_bytes }
    }

    /// Checks every file system. `written` counts the bytes and files of each destination so far.
    ///
    /// # Errors
    ///
    /// [`FitError::NoSpace`] for the first file system that is about to be full.
    pub fn look(&self, written: &[Written]) -> Result<(), FitError> {
        self.systems
            .iter()
            .try_for_each(|system| system.look(written, self.in_flight_bytes, self.hidden_bytes))
    }
}

/// Bytes or inodes of a file system.
#[derive(Clone, Copy, Debug)]
struct Stock {
    /// Need of the whole archive; `None` if unknown.
    needed: Option<u64>,
    /// Part of it that is written.
    used: u64,
    available: u64,
    slack: u64,
    in_flight: u64,
    /// Amount that stays free if the need is unknown.
    reserve: u64,
    /// What stays free for other processes; `available` is without it.
    min_free: Option<MinFree>,
}

impl Stock {
    /// Returns the amount that is still to be written.
    fn remaining(&self) -> Option<u64> {
        Some(self.needed?.saturating_sub(self.used))
    }

    /// Returns whether the run must stop.
    fn runs_out(&self) -> bool {
        if self.min_free.is_some_and(|kept| kept.is_broken()) {
            return true;
        }
        match self.remaining() {
            None => self.available < self.reserve,
            Some(remaining) => {
                self.available < self.in_flight
                    && remaining > self.available.saturating_add(self.slack)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reserve;

    const STOCK: Stock = Stock {
        needed: Some(1000),
        used: 0,
        available: 1000,
        slack: 20,
        in_flight: 100,
        reserve: 50,
        min_free: None,
    };

    #[test]
    fn an_archive_that_fits_exactly_is_never_stopped() {
        for used in 0..=1000 {
            let stock = Stock { used, available: 1000 - used, ..STOCK };
            assert!(!stock.runs_out(), "{used}");
        }
    }

    #[test]
    fn an_archive_that_does_not_fit_is_stopped_shortly_before_the_disk_is_full() {
        // Another process has taken 300.
        for used in 0..=700 {
            let stock = Stock { used, available: 700 - used, ..STOCK };
            assert_eq!(stock.runs_out(), 700 - used < 100, "{used}");
        }
    }

    #[test]
    fn without_knowledge_a_reserve_is_kept() {
        for (available, stops) in [(0, true), (49, true), (50, false)] {
            let stock = Stock { needed: None, available, ..STOCK };
            assert_eq!(stock.runs_out(), stops, "{available}");
        }
    }

    #[test]
    fn an_estimate_that_was_too_low_is_no_reason_to_stop() {
        // The estimate is used up, so the rest is unknown.
        let stock = Stock { used: 2000, available: 0, ..STOCK };
        assert!(!stock.runs_out());
    }

    /// A disk that this run and others write to. Returns whether the run was stopped, and the free
    /// bytes then. `needed` is what the archive needs, `estimated` what it was thought to need, and
    /// `others` what other programs write for every 100 bytes of it.
    fn run_beside(needed: u64, estimated: Option<u64>, others: u64) -> (bool, u64) {
        const IN_FLIGHT: u64 = 100;
        let reserve = Reserve { bytes: 2000, ..Reserve::NONE };
        let needs = estimated.map(|bytes| (bytes, None));
        let watched = Watched::new(FileSystem::made_up(0, &[0]), needs);
        let (mut free, mut written) = (9000, Written::default());
        while written.bytes < needed {
            let now = Free {
                bytes: Some(free),
                common_bytes: Some(free),
                min_free: None,
                inodes: None,
                unit_bytes: 1,
                total_bytes: 100_000,
                total_inodes: 0,
            };
            if let Err(error) = watched.judge(&now.keep(&reserve), &[written], IN_FLIGHT) {
                assert!(error.to_string().contains("(min-free)"), "{error}");
                return (true, free);
            }
            written.bytes += IN_FLIGHT;
            free = free.saturating_sub(IN_FLIGHT + others);
        }
        (false, free)
    }

    #[test]
    fn min_free_is_broken_by_no_more_than_the_bytes_in_flight() {
        assert_eq!(run_beside(7000, Some(7000), 0), (false, 2000), "it fits exactly");
        for (needed, estimated, others, stops) in [
            // The estimate was too low.
            (9000, Some(4000), 0, true),
            (9000, None, 0, true),
            // Others fill the disk, fast and slowly: at the end, it has less than 100 to write.
            (4000, Some(4000), 3000, true),
            (7000, None, 3000, true),
            (7000, Some(7000), 100, true),
            (6900, Some(6900), 20, true),
            (7000, Some(7000), 1, false),
        ] {
            let (stopped, free) = run_beside(needed, estimated, others);
            assert_eq!(stopped, stops, "{needed} {estimated:?} {others}");
            assert!(free + 100 + others >= 2000, "{needed} {estimated:?} {others}: {free}");
        }
    }

    #[test]
    fn without_a_check_only_min_free_is_watched() {
        let free = Free {
            bytes: Some(0),
            common_bytes: Some(0),
            min_free: Some(MinFree { bytes: 10, free_bytes: 9 }),
            inodes: Some(0),
            unit_bytes: 1,
            total_bytes: 100,
            total_inodes: 100,
        };
        let watched = Watched::unchecked(FileSystem::made_up(0, &[0]));
        let judge = |free: Free| watched.judge(&free, &[], 0);
        let Err(FitError::NoSpace(shortage)) = judge(free) else { panic!() };
        assert_eq!(shortage.resource, Resource::Bytes);
        judge(Free { min_free: None, ..free }).unwrap();
    }
}
