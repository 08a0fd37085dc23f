//! States that are prepared beside a running validator, and adopted when it has ended.

mod adopted;
mod damaged;
mod refused;
mod successor;
mod upon;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

use rustix::fs::{FlockOperation, flock};
use unsnap_test_support::{
    Site,
    ledger::{Expected, Ledger, names, small_archive, small_pair},
};

use crate::fastboot;

/// Holds the lock that a running validator holds.
pub fn validator_on(ledger: &Ledger) -> File {
    let lock = File::create(ledger.root.join("ledger.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    lock
}

/// A ledger with a state of slot 50, and archives up to slot 110.
pub fn old_and_new(site: &Site, accounts: usize) -> (Ledger, Expected, Expected) {
    let ledger = Ledger::new(&site.place(), accounts);
    let old = small_archive(&ledger.snapshots, 50, None, &[(40, 900), (45, 700), (50, 5000)]);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    let old_state = Expected::of_files(&old, None);
    fs::remove_file(old).unwrap();
    let (full, incremental) = small_pair(&ledger.snapshots);
    (ledger, old_state, Expected::of_files(&full, Some(&incremental)))
}

/// The same with the new state ready beside.
pub fn ready_beside(site: &Site, accounts: usize) -> (Ledger, Expected, Expected) {
    let (ledger, old, new) = old_and_new(site, accounts);
    fastboot("prepare", &ledger, &["-q", "--beside"]).assert_code(0);
    new.assert_prepared(&ledger.beside(), 3, "ready");
    (ledger, old, new)
}

#[track_caller]
pub fn prepare(ledger: &Ledger, flags: &[&str]) -> serde_json::Value {
    let flags: Vec<&str> = flags.iter().copied().chain(["--format=json"]).collect();
    fastboot("prepare", ledger, &flags).assert_code(0).json()
}

/// All that a validator uses: of each file its bytes, inode, number of names and time of change.
type Used = BTreeMap<PathBuf, (Vec<u8>, u64, u64, i64, i64)>;

fn used(ledger: &Ledger) -> Used {
    let mut found = BTreeMap::new();
    let mut pending = vec![ledger.states()];
    for accounts in &ledger.accounts {
        pending.extend(["run", "snapshot", "unsnap-shadow"].map(|name| accounts.join(name)));
    }
    while let Some(path) = pending.pop().filter(|path| path.exists()) {
        let facts = fs::symlink_metadata(&path).unwrap();
        let mut bytes = Vec::new();
        if facts.is_dir() {
            pending.extend(names(&path).into_iter().map(|name| path.join(name)));
        } else {
            bytes = fs::read(&path).unwrap();
        }
        let times = (facts.ctime(), facts.ctime_nsec());
        found.insert(path, (bytes, facts.ino(), facts.nlink(), times.0, times.1));
    }
    found
}

/// Bytes of every file that a validator finds, and of the shadow; by its path in its place.
fn content(ledger: &Ledger) -> BTreeMap<PathBuf, Vec<u8>> {
    let place = ledger.root.parent().unwrap();
    let relative = |path: PathBuf| path.strip_prefix(place).unwrap().to_owned();
    used(ledger).into_iter().map(|(path, (bytes, ..))| (relative(path), bytes)).collect()
}
