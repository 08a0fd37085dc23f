//! Looking after the free space while the run goes on.
//!
//! Others write to the same disk, and estimates may be wrong. A disk that is full harms them too
//! (a validator's ledger), so the run ends before that, as soon as two things hold: less is free
//! than is in flight, which can still be written; and what is still to come does not fit. Until then
//! space may come back: a validator removes its old accounts in the background.
//!
//! It is looked once for each segment, by the thread that hands the segments on: between two looks
//! nothing is written but what is in flight, however fast the disk is. One `fstatfs` takes about a
//! microsecond.

use unsnap_create::Written;

use crate::{FileSystem, FitError, Resource, Shortage};

/// Of what is needed, the part that may be missing without a stop, in percent: what a file system
/// adds to its files, and what is rounded up in passing.
const SLACK_PERCENT: u64 = 2;

/// Inodes of files that are being created may be counted twice. As many as creators have in flight
/// at most, and some more.
const SLACK_INODES: u64 = 256;

/// Where nothing is known about what is still to come, this part of a small file system is kept
/// free, if it is less than what is in flight. A guess.
const RESERVE_PART: u64 = 16;

/// Inodes that are kept free where nothing is known about what is still to come. A guess.
const RESERVE_INODES: u64 = 1024;

/// The file systems of a run.
#[derive(Debug)]
pub struct Watch {
    systems: Vec<Watched>,
    /// Bytes that may be in flight.
    in_flight_bytes: u64,
    /// For tests: free bytes that are taken for used.
    hidden_bytes: u64,
}

/// A file system that is looked after.
#[derive(Debug)]
pub(crate) struct Watched {
    system: FileSystem,
    /// Bytes and inodes that the whole archive needs here, at the least.
    needed: Option<(u64, Option<u64>)>,
}

impl Watched {
    pub fn new(system: FileSystem, needed: Option<(u64, Option<u64>)>) -> Self {
        Self { system, needed }
    }

    /// An error if it is going to be full. `written`: what destinations have been given so far.
    fn look(
        &self,
        written: &[Written],
        in_flight_bytes: u64,
        hidden_bytes: u64,
    ) -> Result<(), FitError> {
        let free = self.system.free()?;
        let (mut bytes, mut files) = (0, 0);
        for written in self.system.destinations.iter().filter_map(|index| written.get(*index)) {
            bytes += written.bytes;
            files += written.files;
        }
        let (bytes_needed, inodes_needed) = match self.needed {
            Some((bytes, inodes)) => (Some(bytes), inodes),
            None => (None, None),
        };
        if let Some(available) = free.bytes.map(|bytes| bytes.saturating_sub(hidden_bytes)) {
            let bytes = Stock {
                needed: bytes_needed,
                used: bytes,
                available,
                slack: bytes_needed.unwrap_or(0) / 100 * SLACK_PERCENT,
                in_flight: in_flight_bytes,
                reserve: in_flight_bytes.min(free.total_bytes / RESERVE_PART),
            };
            self.check(Resource::Bytes, &bytes)?;
        }
        if let Some(available) = free.inodes {
            let inodes = Stock {
                needed: inodes_needed,
                used: files,
                available,
                slack: SLACK_INODES,
                in_flight: RESERVE_INODES,
                reserve: RESERVE_INODES.min(free.total_inodes / RESERVE_PART),
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
            available: stock.available,
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

    /// Looks at every file system, and gives the first that is going to be full as an error.
    pub fn look(&self, written: &[Written]) -> Result<(), FitError> {
        self.systems
            .iter()
            .try_for_each(|system| system.look(written, self.in_flight_bytes, self.hidden_bytes))
    }
}

/// Bytes or inodes of a file system.
#[derive(Clone, Copy, Debug)]
struct Stock {
    /// For the whole archive; `None` if that is not known.
    needed: Option<u64>,
    /// Of that, what is written.
    used: u64,
    available: u64,
    slack: u64,
    in_flight: u64,
    /// What is kept free where nothing is known.
    reserve: u64,
}

impl Stock {
    /// What is still to be written.
    fn remaining(&self) -> Option<u64> {
        Some(self.needed?.saturating_sub(self.used))
    }

    fn runs_out(&self) -> bool {
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

    const STOCK: Stock = Stock {
        needed: Some(1000),
        used: 0,
        available: 1000,
        slack: 20,
        in_flight: 100,
        reserve: 50,
    };

    #[test]
    fn what_fits_exactly_is_never_stopped() {
        for used in 0..=1000 {
            let stock = Stock { used, available: 1000 - used, ..STOCK };
            assert!(!stock.runs_out(), "{used}");
        }
    }

    #[test]
    fn what_does_not_fit_is_stopped_before_the_end_and_not_earlier() {
        // Somebody else has taken 300.
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
    fn more_than_was_thought_is_no_reason_to_stop() {
        // The estimate is used up, and nobody knows what is still to come.
        let stock = Stock { used: 2000, available: 0, ..STOCK };
        assert!(!stock.runs_out());
    }
}
