//! A file system that has too little.

/// What a file system can run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Space for the content of files.
    Bytes,
    /// Inodes: one for each file and directory.
    Inodes,
}

/// A file system has less than the archive needs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// What it is short of.
    pub resource: Resource,
    /// The destinations that lie on it.
    pub file_system: String,
    /// What is needed, or still needed; `None` if nobody knows.
    pub needed: Option<u64>,
    /// Whether `needed` is exact, and not an estimate.
    pub exact: bool,
    /// Length of the archive's tar stream, from which `needed` is estimated, if that is exact.
    pub tar_bytes: Option<u64>,
    /// What there is.
    pub available: u64,
    /// Device number of that file system, as `stat` gives it.
    pub device: u64,
    /// Whether it was found in the middle of the run, and not before.
    pub unpacking: bool,
    /// What else is short, there or on other file systems, if it was found before the run.
    pub others: Vec<Self>,
}

impl Shortage {
    /// One for all, if there are any.
    pub fn of_all(mut shortages: Vec<Self>) -> Option<Self> {
        let others = shortages.split_off(1.min(shortages.len()));
        let first = shortages.pop()?;
        Some(Self { others, ..first })
    }

    /// All of them one by one, as far as `is_kept`, and again one for all.
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

    fn amount(&self, number: u64) -> String {
        match self.resource {
            Resource::Inodes => format!("{number} inodes"),
            Resource::Bytes => {
                let unit = |&(size, _): &(u64, _)| number >= size;
                match [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
                    .into_iter()
                    .find(unit)
                {
                    Some((size, name)) => {
                        // In tenths, rounded down.
                        let tenths = u128::from(number) * 10 / u128::from(size);
                        format!("{}.{} {name} ({number} bytes)", tenths / 10, tenths % 10)
                    }
                    None => format!("{number} bytes"),
                }
            }
        }
    }

    /// What is needed, and what is available, where.
    pub fn figures(&self) -> String {
        let Self { file_system, exact, tar_bytes, .. } = self;
        let about = if *exact { "" } else { "about " };
        let needed = self.amount(self.needed.unwrap_or(0));
        let estimate = match tar_bytes {
            _ if *exact => String::new(),
            Some(bytes) => format!(", by an estimate from the {bytes} bytes of its tar stream,"),
            None => ", by an estimate,".to_owned(),
        };
        let available = self.amount(self.available);
        format!(
            "{about}{needed}{estimate} are needed on the file system of {file_system}, and \
             {available} are available"
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
                "{available} are available, and the archive does not tell how much is to come"
            ),
        }
    }
}
