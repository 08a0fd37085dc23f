//! Needs on a file system, and the margins of error of these figures.

use unsnap_decode::Basis;

use crate::{
    FileSystem, Free,
    estimate::{self, Need},
};

/// Files of an interrupted run that stay in a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Number of files.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

/// Margins of error in percent. An archive is refused if the figure less `refuse` does not fit, and
/// warned of if the figure plus `warn` does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Margin {
    refuse: u64,
    warn: u64,
}

/// Margin if every entry was seen. The file system adds about 0.1 percent (directories, extents).
const EXACT: Margin = Margin { refuse: 0, warn: 1 };

/// Margin if the length of the tar stream is known. The shares of padding and headers, and the
/// rounding of files, are estimated; they are 0.2 percent of a snapshot like mainnet's. A guess.
const DECLARED: Margin = Margin { refuse: 2, warn: 2 };

/// Margin if the length is estimated. For generated archives of 0.5 and 6 GB the estimate was up to
/// 5 percent too low (one frame: the blocks of its beginning, a bank file, are not quite as full as
/// the others); real ones vary more from one part to another.
const SAMPLED: Margin = Margin { refuse: 10, warn: 10 };

/// Margin of inodes if not every entry was seen. Samples of a large archive show ten or twenty
/// files, and mainnet's files differ much in size: for a generated archive of 695 entries the
/// estimate was 369.
const INODES: Margin = Margin { refuse: 60, warn: 60 };

/// Margin of inodes if every entry was seen.
const INODES_EXACT: Margin = Margin { refuse: 0, warn: 0 };

/// Free space, in percent of an estimate, that is enough in any case: ten times the error observed
/// for [`SAMPLED`].
const AMPLE: u64 = 150;

impl Margin {
    /// Returns the least credible need.
    fn least(self, needed: u64) -> u64 {
        percent(needed, 100 - self.refuse)
    }

    /// Compares a need with the available space; `None` for unlimited space.
    pub fn judge(self, needed: u64, available: Option<u64>) -> Verdict {
        match available {
            Some(available) if self.least(needed) > available => Verdict::Short,
            Some(available) if percent(needed, 100 + self.warn) > available => Verdict::Doubtful,
            _ => Verdict::Fits,
        }
    }
}

fn percent(number: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(number) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fits,
    Doubtful,
    Short,
}

/// Needs on one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    pub bytes: u64,
    pub inodes: Option<u64>,
    pub exact: bool,
    pub bytes_margin: Margin,
    pub inodes_margin: Margin,
}

impl Needed {
    /// Computes the needs on a file system. Without accounts directories everything goes to the
    /// output. With them, each takes an equal share of the storages, and the output takes the rest.
    /// Shares are only about equal, so the figures are not exact then. With `part`, storages are
    /// spread by free space instead: it gives the free space here and the free space on all file
    /// systems with accounts directories.
    pub fn on(
        system: &FileSystem,
        free: &Free,
        need: &Need,
        basis: Basis,
        accounts_directories: usize,
        part: Option<(u64, u64)>,
    ) -> Self {
        let share = need.storages.share(accounts_directories.max(1) as u64);
        let (mut bytes, mut inodes) = (0_u64, Some(0_u64));
        let mut add = |part: &estimate::Part| {
            bytes = bytes.saturating_add(part.bytes(free.unit_bytes));
            inodes = inodes.zip(part.files).map(|(sum, files)| sum.saturating_add(files));
        };
        let mut directories = Some(0);
        for destination in &system.destinations {
            if *destination == 0 {
                add(&need.others);
                directories = need.directories;
            }
            if part.is_none() && (*destination == 0) == (accounts_directories == 0) {
                add(&share);
            }
        }
        if let Some((part, whole)) = part.filter(|_| system.holds_accounts()) {
            add(&need.storages.part(part, whole));
        }
        let shared = accounts_directories > 1;
        let exact = basis == Basis::Decoded && !shared;
        Self {
            bytes,
            inodes: inodes.zip(directories).map(|(files, more)| files.saturating_add(more)),
            exact,
            bytes_margin: match basis {
                Basis::Decoded if !shared => EXACT,
                Basis::Declared if !shared => DECLARED,
                _ => SAMPLED,
            },
            inodes_margin: if exact { INODES_EXACT } else { INODES },
        }
    }

    /// Subtracts the files that exist already.
    pub fn without(mut self, system: &FileSystem, kept: &[Kept], unit_bytes: u64) -> Self {
        for Kept { files, bytes } in system.destinations.iter().filter_map(|index| kept.get(*index))
        {
            // Each file is rounded up, by half a unit on average.
            let bytes = bytes.saturating_add(files.saturating_mul(unit_bytes / 2));
            self.bytes = self.bytes.saturating_sub(bytes);
            self.inodes = self.inodes.map(|inodes| inodes.saturating_sub(*files));
            if *files > 0 {
                self.exact = false;
                self.bytes_margin = SAMPLED;
            }
        }
        self
    }

    /// Returns whether the space suffices beyond doubt, even if the figure is an estimate. Inodes
    /// are left out, since frame headers tell nothing about them.
    pub fn is_ample(&self, free: &Free) -> bool {
        free.bytes.is_none_or(|available| percent(self.bytes, AMPLE) <= available)
    }

    /// Returns the least credible needs of bytes and inodes.
    pub fn least(&self) -> (u64, Option<u64>) {
        let inodes = self.inodes.map(|inodes| self.inodes_margin.least(inodes));
        (self.bytes_margin.least(self.bytes), inodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Doubtful, Fits, Short};

    #[test]
    fn exact_figures_are_refused_only_when_nothing_can_help() {
        for (available, verdict) in [(999, Short), (1000, Doubtful), (1009, Doubtful), (1010, Fits)]
        {
            assert_eq!(EXACT.judge(1000, Some(available)), verdict, "{available}");
        }
        assert_eq!(EXACT.judge(0, Some(0)), Fits);
        assert_eq!(EXACT.judge(u64::MAX, None), Fits, "no limit is reported");
        assert_eq!(EXACT.judge(u64::MAX, Some(u64::MAX)), Fits);
    }

    #[test]
    fn estimates_have_a_margin() {
        for (available, verdict) in [(899, Short), (900, Doubtful), (1099, Doubtful), (1100, Fits)]
        {
            assert_eq!(SAMPLED.judge(1000, Some(available)), verdict, "{available}");
        }
        assert_eq!(INODES.judge(10, Some(16)), Fits);
        assert_eq!(INODES.judge(10, Some(4)), Doubtful);
        assert_eq!(INODES.judge(10, Some(3)), Short);
    }
}
