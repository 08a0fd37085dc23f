//! What a job has read and written so far.

use unsnap_pass::Snapshot;
use unsnap_unpack::Report;

/// Amounts of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Compressed bytes decoded.
    pub bytes_read: u64,
    /// Decoded bytes.
    pub bytes_decoded: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Files completed.
    pub files: u64,
}

impl Amounts {
    /// Returns the amounts of a run. Work of an interrupted run was counted when that ended.
    fn of_run(run: &Snapshot) -> Self {
        Self {
            bytes_read: run.bytes_read,
            bytes_decoded: run.bytes_decoded,
            bytes_written: run.bytes_written.saturating_sub(run.resumed_bytes),
            files: run.files.saturating_sub(run.resumed_files),
        }
    }

    /// Returns the amounts of a run that has ended.
    pub fn of_report(report: &Report) -> Self {
        let resumed = report.resumed.map_or((0, 0), |resumed| (resumed.bytes, resumed.files));
        Self {
            bytes_read: report.bytes_read,
            bytes_decoded: report.bytes_decoded,
            bytes_written: report.bytes_written.saturating_sub(resumed.0),
            files: report.files.saturating_sub(resumed.1),
        }
    }

    /// Returns the sums.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// Returns the larger one of each amount.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn since(self, before: Self) -> Self {
        self.each(before, u64::saturating_sub)
    }

    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            bytes_read: of(self.bytes_read, other.bytes_read),
            bytes_decoded: of(self.bytes_decoded, other.bytes_decoded),
            bytes_written: of(self.bytes_written, other.bytes_written),
            files: of(self.files, other.files),
        }
    }
}

/// Sums up the runs of a job, whose counters begin at 0 with each run: the check of the names, one
/// or two archives, the next attempt after another archive of the same slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    total: Amounts,
    last: Amounts,
}

impl Meter {
    /// Returns the amounts including what a run has done by now.
    pub fn read(&self, run: &Snapshot) -> Amounts {
        let now = Amounts::of_run(run);
        let is_another = now.bytes_read < self.last.bytes_read
            || now.bytes_written < self.last.bytes_written
            || now.files < self.last.files;
        let since = if is_another { now } else { now.since(self.last) };
        self.total.plus(since)
    }

    /// Takes what a run has done by now as counted. To be called about once a second: what a run
    /// does between its last call and the beginning of the next run is missed.
    pub fn advance(&mut self, run: &Snapshot) {
        self.total = self.read(run);
        self.last = Amounts::of_run(run);
    }
}

#[cfg(test)]
mod tests {
    use unsnap_pass::Progress;

    use super::*;

    #[test]
    fn amounts_never_go_back_whatever_the_runs_do() {
        let progress = Progress::default();
        let mut meter = Meter::default();
        let written = |meter: &Meter| meter.read(&progress.snapshot()).bytes_written;
        progress.count_written(70);
        assert_eq!(written(&meter), 70);
        meter.advance(&progress.snapshot());
        progress.count_written(5);
        assert_eq!(written(&meter), 75, "what was counted is not counted again");
        meter.advance(&progress.snapshot());
        // Another run begins, of which 1000 bytes have been written before.
        progress.reset(None);
        assert_eq!(written(&meter), 75);
        progress.begin(3, 1000);
        assert_eq!(written(&meter), 75, "they were counted when they were written");
        progress.count_written(20);
        meter.advance(&progress.snapshot());
        assert_eq!(written(&meter), 95);
        assert_eq!(meter.read(&progress.snapshot()).files, 0);
    }

    #[test]
    fn amounts_add_up_one_by_one() {
        let one = Amounts { bytes_read: 1, bytes_decoded: 9, bytes_written: 3, files: 4 };
        let two = Amounts { bytes_read: 5, bytes_decoded: 1, bytes_written: u64::MAX, files: 0 };
        let sums = Amounts { bytes_read: 6, bytes_decoded: 10, bytes_written: u64::MAX, files: 4 };
        assert_eq!(one.plus(two), sums);
        let most = Amounts { bytes_read: 5, bytes_decoded: 9, bytes_written: u64::MAX, files: 4 };
        assert_eq!(one.max(two), most);
    }
}
