//! What is needed on a file system, and how far that may be off.

use unsnap_decode::Basis;

use crate::{
    FileSystem, Free, Kept,
    estimate::{self, Need},
};

/// How far a figure may be off, in percent: below that it is refused, above that warned of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Margin {
    refuse: u64,
    warn: u64,
}

/// Every entry was seen. What the file system adds (directories, extents) is about 0.1 percent.
const EXACT: Margin = Margin { refuse: 0, warn: 1 };

/// The tar stream's length is known; what its padding and headers take of it, and how files are
/// rounded up, is estimated. It is 0.2 percent of a snapshot like mainnet's. A guess.
const DECLARED: Margin = Margin { refuse: 2, warn: 2 };

/// The length is estimated. Of made archives of 0.5 and 6 GB the estimate was up to 5 percent too low
/// (one frame: the blocks of its beginning, a bank file, are not quite as full as the others); real
/// ones vary more from one part to another.
const SAMPLED: Margin = Margin { refuse: 10, warn: 10 };

/// Of inodes, if not every entry was seen. Samples of a large archive show some ten or twenty files,
/// and those of mainnet are of very different sizes: of a made archive of 695 entries, 369 were
/// estimated.
const INODES: Margin = Margin { refuse: 60, warn: 60 };

/// Of inodes, if every entry was seen.
const INODES_EXACT: Margin = Margin { refuse: 0, warn: 0 };

/// In percent of an estimate, what is enough in any case: ten times what [`SAMPLED`] ones were off by.
const AMPLE: u64 = 150;

impl Margin {
    /// What is needed at the least.
    fn least(self, needed: u64) -> u64 {
        percent(needed, 100 - self.refuse)
    }

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fits,
    Doubtful,
    Short,
}

/// What is needed on one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    pub bytes: u64,
    pub inodes: Option<u64>,
    pub exact: bool,
    pub bytes_margin: Margin,
    pub inodes_margin: Margin,
}

impl Needed {
    /// Without accounts directories everything goes to the output; with them, each takes an equal
    /// share of the storages, and the output the rest. Shares are only about equal: then nothing
    /// is exact. `part`: how much space of how much for storages is here, if that decides instead.
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

    /// Less what is there already.
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

    /// Whether a figure that is only an estimate leaves no doubt that there is enough space. Of inodes a
    /// longer look at frames tells nothing.
    pub fn is_ample(&self, free: &Free) -> bool {
        free.bytes.is_none_or(|available| percent(self.bytes, AMPLE) <= available)
    }

    /// Bytes and inodes that are needed at the least.
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
        assert_eq!(EXACT.judge(u64::MAX, None), Fits, "who does not tell has enough");
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
