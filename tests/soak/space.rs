//! The disk that somebody else fills, and what must hold of `min-free`.
//!
//! unsnap never writes what would leave less than `min-free`; what others write, it cannot help. Then
//! the service gives back what serves only a later start. So that everything below is exact, the disk is
//! either so full that nothing which the validator and unsnap remove gives room for a job ([`SWING`]), or
//! filled while nobody else writes.
//!
//! | while a validator runs, and less is free | law |
//! |---|---|
//! | far less, from one look of the soak to the next | jobs of the service have written nothing between them; no start with `--min-free` and no `prepare --beside` has made a state |
//! | less, and nobody but the service at work | after a few looks of the service no state lies ready, and the shadow keeps nothing on the disk |
//! | not less, but by less than a state | a newer archive comes, and at least `min-free` stays free |

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::MetadataExt,
};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use unsnap_test_support::{disk::Disk, ledger::Ledger, machine::Machine, until};
use unsnap_testkit::series::Snapshot;

use crate::{daemon::MIN_FREE, driver::Soak, process::How};

pub const MIN_FREE_FLAG: &str = "--min-free";

/// More than everything that the validator and unsnap have on the disk, which is some 3 MB: who frees
/// some of it does not change that far less is free than should be.
pub const SWING: u64 = 16 << 20;

/// Bytes by which less must be free than should be, so that the shadow and the ready state, some 300 kB
/// each, would not be enough: both have to go.
const BOTH: u64 = 2 << 20;

/// Looks of the service, each as [`Service::look`] makes it, within which it gives everything back. The
/// first one is enough unless another unsnap has the ready state locked in that moment.
const LOOKS_MAX: u32 = 5;

/// Bytes above `min-free` that are too few for any state.
const CROWDED: u64 = 16 << 10;

/// Bytes that directories and the file system's own records of a job that is refused may take.
const RECORDS: u64 = 128 << 10;

/// What somebody else may leave free.
const LEFT: [u64; 5] = [0, 64 << 10, 1 << 20, 8 << 20, MIN_FREE - 4 * BOTH];

/// Returns the bytes that are free.
fn free(disk: &Disk) -> u64 {
    let space = statvfs(disk.path()).unwrap();
    space.f_bavail * space.f_frsize
}

/// Takes everything of a disk but these bytes.
fn fill(disk: &Disk, left: u64) {
    let file = File::create(disk.path().join("ballast")).unwrap();
    // As much as there is: what the file system wants for itself is not known.
    let mut bytes = free(disk).saturating_sub(left);
    while bytes > 0 && fallocate(&file, FallocateFlags::empty(), 0, bytes).is_err() {
        bytes -= bytes.min(64 << 10);
    }
}

/// Returns the slots of the marked states of a place.
pub fn marked(ledger: &Ledger) -> BTreeSet<u64> {
    let entries = fs::read_dir(ledger.states()).into_iter().flatten();
    // Others may be renaming and removing them.
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let slots = names.filter_map(|name| name.parse().ok());
    slots.filter(|slot| ledger.mark(*slot).exists()).collect()
}

/// Returns the names of storages that only a shadow keeps on the disk.
fn pinned(machine: &Machine) -> Vec<String> {
    let shadows = machine.ledger.accounts.iter().map(|path| path.join("unsnap-shadow"));
    let files = shadows.flat_map(|shadow| fs::read_dir(shadow).into_iter().flatten());
    let pinned = files.filter_map(|file| {
        let file = file.ok()?;
        let name = file.file_name().into_string().ok()?;
        let is_storage = name.starts_with(|first: char| first.is_ascii_digit());
        (is_storage && file.metadata().ok()?.nlink() == 1).then_some(name)
    });
    pinned.collect()
}

impl Soak {
    pub fn fill_disk(&mut self) {
        let Some(disk) = self.machine.disk.as_ref().filter(|_| !self.is_full) else { return };
        let left = *self.random.pick(&LEFT);
        if free(disk) > left {
            fill(disk, left);
            self.is_full = true;
        }
    }

    pub fn free_disk(&mut self) {
        if let Some(disk) = self.machine.disk.as_ref().filter(|_| self.is_full) {
            fs::remove_file(disk.path().join("ballast")).unwrap();
            // XFS frees it in the background.
            until("the disk has room", || free(disk) > MIN_FREE + SWING);
        }
        (self.is_full, self.written) = (false, None);
    }

    /// Fills the disk up to `min-free`, but for less than a state, and adds archives of which the service
    /// would make one.
    pub fn crowd_disk(&mut self) {
        if self.machine.disk.is_none() || self.is_full || self.service.is_none() {
            return;
        }
        self.settle();
        let snapshot = Snapshot::full_above(self.machine.alone(&[]).archives);
        let archive_bytes = (snapshot.archive().1.len() as u64).next_multiple_of(4096);
        fill(self.disk(), MIN_FREE + CROWDED + archive_bytes);
        self.is_full = true;
        self.machine.add_archive(snapshot);
        let before = free(self.disk()).min(MIN_FREE);
        self.service.as_ref().unwrap().settle();
        let after = free(self.disk());
        let law = format!("the service has left {after} bytes free, of {before}");
        self.hold(after + RECORDS >= before, &law);
    }

    fn disk(&self) -> &Disk {
        self.machine.disk.as_ref().unwrap()
    }

    /// Returns whether less is free than should be, by more than these bytes.
    pub fn is_short_by(&self, bytes: u64) -> bool {
        self.machine.disk.as_ref().is_some_and(|disk| free(disk) + bytes < MIN_FREE)
    }

    /// Returns the states that are there, in place, ready or about to be ready, if the disk is far too
    /// full for another one.
    pub fn while_full(&self) -> Option<BTreeSet<u64>> {
        let ledger = &self.machine.ledger;
        let places = [ledger.clone(), ledger.beside(), ledger.next()];
        self.is_short_by(SWING).then(|| places.iter().flat_map(marked).collect())
    }

    /// Nobody who is to leave `min-free` has made a state, if the disk was and is far too full for one.
    pub fn assert_none_was_made(&self, before: Option<&BTreeSet<u64>>) {
        if let Some((before, now)) = before.zip(self.while_full()) {
            let made: Vec<_> = now.difference(before).collect();
            self.hold(made.is_empty(), &format!("made in spite of min-free: {made:?}"));
        }
    }

    /// A start that is to leave `min-free` was served no state that was not there before.
    pub fn assert_none_was_served(
        &self,
        how: &How,
        before: Option<&BTreeSet<u64>>,
        loads: &[(String, u64)],
    ) {
        let Some(before) = before.filter(|_| self.is_short_by(SWING)) else { return };
        let is_asked = how.own.iter().any(|word| word == MIN_FREE_FLAG);
        let is_made =
            |load: &&(String, u64)| load.0 == "state" && !before.contains(&load.1) && is_asked;
        let made = loads.iter().find(is_made);
        self.hold(made.is_none(), &format!("made in spite of min-free: {made:?}"));
    }

    /// What the service does about a disk on which less is free than should be. Of the validator and its
    /// front end nobody is at work now.
    pub fn assert_min_free(&mut self) {
        let is_watched = self.service.is_some() && self.running.is_some();
        if !is_watched || !self.is_short_by(BOTH) {
            self.written = None;
            return;
        }
        let service = self.service.as_ref().unwrap();
        if let Some(bytes) = self.written.filter(|_| self.is_short_by(SWING)) {
            let now = service.written_bytes();
            // It counts anew after a start or a change of its configuration.
            let written = now.checked_sub(bytes).unwrap_or(now);
            let law = format!("the service has written {written} bytes in spite of min-free");
            self.hold(written == 0, &law);
        }
        let left = (0..LOOKS_MAX).find_map(|_| {
            service.look();
            self.all_is_given_back().then_some(())
        });
        self.hold(left.is_some(), &format!("not given back within {LOOKS_MAX} looks"));
        *self.counts.entry("given back".to_owned()).or_default() += 1;
        // A job that began before has noticed.
        let is_over = self.is_short_by(SWING) && !service.is_working();
        self.written = is_over.then(|| service.written_bytes());
    }

    /// Returns whether no state lies ready, and the shadow keeps nothing on the disk.
    fn all_is_given_back(&self) -> bool {
        marked(&self.machine.ledger.beside()).is_empty() && pinned(&self.machine).is_empty()
    }
}
