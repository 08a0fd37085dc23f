//! Shortages of space or inodes.

use unsnap_settings::format_size;

use crate::MinFree;

/// Resource that a file system can run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Space for the content of files.
    Bytes,
    /// Inodes, one for each file and directory.
    Inodes,
}

/// A file system that has less than the archive needs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Missing resource.
    pub resource: Resource,
    /// Paths of the destinations on the file system.
    pub file_system: String,
    /// Amount needed or, during a run, still needed; `None` if unknown.
    pub needed: Option<u64>,
    /// Whether `needed` is exact.
    pub exact: bool,
    /// Length of the tar stream from which `needed` is estimated, if that length is exact.
    pub tar_bytes: Option<u64>,
    /// Length of the archives by their servers, if that is all that is known: `needed` is the least that
    /// their content can take.
    pub announced: Option<u64>,
    /// Available amount.
    pub available: u64,
    /// What stays free for other processes, if it makes the difference between free and available
    /// bytes.
    pub min_free: Option<MinFree>,
    /// Device number of the file system, as in `stat`.
    pub device: u64,
    /// Whether it was found during the run, and not before.
    pub unpacking: bool,
    /// Other shortages there or on other file systems, if found before the run.
    pub others: Vec<Self>,
}

impl Shortage {
    /// Combines shortages into one; `None` if there are none.
    pub fn of_all(mut shortages: Vec<Self>) -> Option<Self> {
        let others = shortages.split_off(1.min(shortages.len()));
        let first = shortages.pop()?;
        Some(Self { others, ..first })
    }

    /// Keeps the shortages that `is_kept` selects, and combines them again.
    pub fn retain<E>(
        &self,
        mut is_kept: impl FnMut(&Self) -> Result<bool, E>,
    ) -> Result<Option<Self>, E> {
        let mut kept = Vec::new();
        for shortage in std::iter::once(self).chain(&self.others) {
            if is_kept(shortage)? {
                kept.push(Self { others: Vec::new(), ..shortage.clone() });
            }
        }
        Ok(Self::of_all(kept))
    }

    /// Returns the amount that must become free.
    pub fn missing(&self) -> u64 {
        let needed = self.needed.unwrap_or(0);
        let missing = needed.saturating_sub(self.available);
        self.min_free.map_or(missing, |kept| {
            missing.max(needed.saturating_add(kept.bytes).saturating_sub(kept.free_bytes))
        })
    }

    /// Returns whether there would be enough if nothing were left to other processes.
    pub fn fits_without_min_free(&self) -> bool {
        self.min_free.is_some_and(|kept| self.needed.is_none_or(|it| it <= kept.free_bytes))
    }

    fn amount(&self, number: u64) -> String {
        match self.resource {
            Resource::Inodes => format!("{number} inodes"),
            Resource::Bytes if number < 1024 => format!("{number} bytes"),
            Resource::Bytes => format!("{} ({number} bytes)", format_size(number)),
        }
    }

    /// Says why less is available than free.
    fn of_free(&self) -> String {
        self.min_free.map_or_else(String::new, |MinFree { bytes, free_bytes }| {
            let (kept, free) = (self.amount(bytes), self.amount(free_bytes));
            format!(" ({free} are free, of which min-free leaves {kept} to other programs)")
        })
    }

    /// Returns the needed and the available amount, with the file system.
    pub fn figures(&self) -> String {
        let Self { file_system, exact, tar_bytes, .. } = self;
        let about = match self.announced {
            Some(_) => "at least ",
            None if *exact => "",
            None => "about ",
        };
        let needed = self.amount(self.needed.unwrap_or(0));
        let estimate = match tar_bytes {
            _ if *exact => String::new(),
            _ if self.announced.is_some() => {
                let length = self.amount(self.announced.unwrap_or(0));
                format!(" (by half of the {length} that the archives have on their servers)")
            }
            Some(bytes) => format!(" (estimated from the {bytes} bytes of its tar stream)"),
            None => " (estimated)".to_owned(),
        };
        let available = self.amount(self.available);
        format!(
            "{about}{needed} are needed on the file system of {file_system}, and {available} are \
             available{}{estimate}",
            self.of_free()
        )
    }
}

impl std::fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file_system, .. } = self;
        let available = self.amount(self.available);
        if !self.unpacking {
            write!(formatter, "the archive does not fit: {}", self.figures())?;
            return self
                .others
                .iter()
                .try_for_each(|other| write!(formatter, "; {}", other.figures()));
        }
        if let Some(MinFree { bytes, free_bytes }) = self.min_free {
            let (kept, free) = (self.amount(bytes), self.amount(free_bytes));
            let rest = match self.needed {
                Some(needed) => format!("{} are still to come", self.amount(needed)),
                None => "the archive does not tell how much is still to come".to_owned(),
            };
            return write!(
                formatter,
                "stopped to leave {kept} of the file system of {file_system} to other programs \
                 (min-free): {free} are free, and {rest}"
            );
        }
        let what = match self.resource {
            Resource::Bytes => "is full",
            Resource::Inodes => "has no inodes left",
        };
        write!(formatter, "stopped before the file system of {file_system} {what}: ")?;
        match self.needed {
            Some(needed) => {
                let needed = self.amount(needed);
                write!(formatter, "{needed} are still to come, and {available} are available")
            }
            None => write!(
                formatter,
                "{available} are available, and how much is still to come is unknown"
            ),
        }
    }
}
