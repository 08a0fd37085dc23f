//! The archives in the watched directories, and which of them are complete.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use unsnap_fastboot::{Candidates, FastbootError, FileIdentity, Pair, SearchDirs};

/// Most pairs considered, the best first. A guess: hundreds of bad archives would have to come
/// before a good one.
const PAIRS_MAX: usize = 1000;

/// The archives found by the last scan.
#[derive(Debug, Default)]
pub struct Archives {
    found: Option<Candidates>,
    seen: BTreeMap<PathBuf, Seen>,
    /// Archives reported as complete since the last scan.
    reported: BTreeSet<PathBuf>,
}

/// An archive as of the last scan.
#[derive(Clone, Copy, Debug)]
struct Seen {
    file: FileIdentity,
    /// Time at which it was first seen with this identity.
    since: Instant,
    /// Whether it was renamed into place, closed by its writer, or unchanged for long enough.
    complete: bool,
}

/// The current time on both clocks: the monotonic one for intervals, the wall clock to compare with
/// file times.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Monotonic time.
    pub instant: Instant,
    /// Wall clock: nanoseconds since 1970.
    pub unix_ns: i128,
}

impl Now {
    /// Reads both clocks.
    pub fn get() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let unix_ns = since.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0));
        Self { instant: Instant::now(), unix_ns }
    }

    /// Returns the wall clock in milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        u64::try_from(self.unix_ns / 1_000_000).unwrap_or(0)
    }
}

/// The archives that may be unpacked now.
#[derive(Debug, Default)]
pub struct Usable {
    /// Pairs, the best first.
    pub pairs: Vec<Pair>,
    /// Time at which the next archive becomes usable if it does not change.
    pub next: Option<Instant>,
}

impl Archives {
    /// Records that inotify reported a file as complete: it was renamed into place or closed by its
    /// writer.
    pub fn complete(&mut self, path: PathBuf) {
        self.reported.insert(path);
    }

    /// Scans the directories. After an error the result of the last scan stays.
    pub fn scan(
        &mut self,
        dirs: &SearchDirs,
        settle: Duration,
        now: Now,
    ) -> Result<(), FastbootError> {
        let found = Candidates::find(dirs)?;
        let files = FileIdentity::of_all(found.archives().map(|archive| &*archive.path));
        self.note(&files, settle, now);
        self.found = Some(found);
        self.reported.clear();
        Ok(())
    }

    /// Returns whether a scan has succeeded.
    pub fn known(&self) -> bool {
        self.found.is_some()
    }

    fn note(&mut self, files: &[(PathBuf, FileIdentity)], settle: Duration, now: Now) {
        let settle_ns = i128::try_from(settle.as_nanos()).unwrap_or(i128::MAX);
        let note = |(path, file): &(PathBuf, FileIdentity)| {
            let before = self.seen.get(path).filter(|before| before.file == *file).copied();
            let mut seen =
                before.unwrap_or(Seen { file: *file, since: now.instant, complete: false });
            // A modification time in the future proves nothing: then only our own clock counts.
            seen.complete |= self.reported.contains(path)
                || file.modified_ns.saturating_add(settle_ns) <= now.unix_ns;
            (path.clone(), seen)
        };
        self.seen = files.iter().map(note).collect();
    }

    /// Returns the identity of a file as of the last scan.
    pub fn file(&self, path: &Path) -> Option<FileIdentity> {
        self.seen.get(path).map(|seen| seen.file)
    }

    /// Returns the archives that are complete and not bad.
    pub fn usable(
        &self,
        settle: Duration,
        now: Instant,
        is_bad: impl Fn(&Path, FileIdentity) -> bool,
    ) -> Usable {
        let Some(found) = &self.found else { return Usable::default() };
        let mut good = found.clone();
        let mut next: Option<Instant> = None;
        for archive in found.archives() {
            let path = &archive.path;
            let Some(seen) = self.seen.get(path) else {
                // Removed between listing and stat.
                good.set_aside(path);
                continue;
            };
            let counts_at = seen.since + settle;
            let counts = seen.complete || counts_at <= now;
            if !counts {
                next = Some(next.map_or(counts_at, |next| next.min(counts_at)));
            }
            if !counts || is_bad(path, seen.file) {
                good.set_aside(path);
            }
        }
        Usable { pairs: good.pairs().take(PAIRS_MAX).collect(), next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SETTLE: Duration = Duration::from_secs(10);

    fn name(slot: u64) -> String {
        format!("snapshot-{slot}-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst")
    }

    #[test]
    fn an_archive_counts_when_it_is_complete_or_has_settled() {
        let scratch = tempfile::tempdir().unwrap();
        let dirs = SearchDirs::new(scratch.path());
        let path = scratch.path().join(name(5));
        fs::write(&path, "some").unwrap();
        let mut archives = Archives::default();
        let now = Now::get();
        archives.scan(&dirs, SETTLE, now).unwrap();
        let slots = |archives: &Archives, at| {
            let usable = archives.usable(SETTLE, at, |_, _| false);
            (usable.pairs.iter().map(Pair::slot).collect::<Vec<_>>(), usable.next)
        };
        assert_eq!(slots(&archives, now.instant), (vec![], Some(now.instant + SETTLE)));
        assert_eq!(slots(&archives, now.instant + SETTLE), (vec![5], None));

        // The file grows: its time starts again.
        fs::write(&path, "some more").unwrap();
        let later = Now { instant: now.instant + SETTLE, ..now };
        archives.scan(&dirs, SETTLE, later).unwrap();
        assert_eq!(slots(&archives, later.instant).0, [] as [u64; 0]);
        archives.complete(path.clone());
        archives.scan(&dirs, SETTLE, later).unwrap();
        assert_eq!(slots(&archives, later.instant), (vec![5], None));

        // An old file is complete.
        let mut fresh = Archives::default();
        let much_later = Now { unix_ns: now.unix_ns + 20_000_000_000, ..now };
        fresh.scan(&dirs, SETTLE, much_later).unwrap();
        assert_eq!(slots(&fresh, now.instant), (vec![5], None));
    }

    #[test]
    fn a_bad_archive_is_passed_over_until_it_changes() {
        let scratch = tempfile::tempdir().unwrap();
        let dirs = SearchDirs::new(scratch.path());
        let path = scratch.path().join(name(6));
        fs::write(scratch.path().join(name(5)), "good").unwrap();
        fs::write(&path, "bad").unwrap();
        let mut archives = Archives::default();
        let now = Now { unix_ns: i128::MAX, ..Now::get() };
        archives.scan(&dirs, SETTLE, now).unwrap();
        let bad = archives.file(&path).unwrap();
        let best = |archives: &Archives| {
            let is_bad = |at: &Path, file| at == path && file == bad;
            archives.usable(SETTLE, now.instant, is_bad).pairs[0].slot()
        };
        assert_eq!(best(&archives), 5);
        fs::write(&path, "grown").unwrap();
        archives.scan(&dirs, SETTLE, now).unwrap();
        assert_eq!(best(&archives), 6);
        fs::remove_dir_all(scratch.path()).unwrap();
        assert!(archives.scan(&dirs, SETTLE, now).is_err());
        assert!(archives.known());
    }
}
