//! Bytes that change on the disk.

use std::{
    collections::HashSet,
    fs::File,
    io::Read,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

use unsnap_test_support::{ledger::Ledger, machine::storages};
use unsnap_testkit::series;

use crate::{driver::Soak, laws::KILLS_MAX, space::marked};

impl Soak {
    /// Changes a byte of a storage that belongs to an account.
    pub fn flip(&mut self, ledger: &Ledger) {
        let mut flippable = storages(ledger);
        // A second name of a file that the running validator reads would change under it, too.
        if self.running.is_some() {
            let of_validator = storages(&self.machine.ledger);
            let used: HashSet<u64> = of_validator.iter().filter_map(|path| inode(path)).collect();
            flippable.retain(|path| inode(path).is_some_and(|inode| !used.contains(&inode)));
        }
        if flippable.is_empty() {
            return;
        }
        let path = self.random.pick(&flippable).clone();
        // The service may be quicker.
        let Ok(file) = File::options().read(true).write(true).open(&path) else { return };
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes).unwrap();
        let Some(at) = self.byte_of_an_account(&bytes) else { return };
        file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
        self.tell(&format!("flipped: byte {at} of {}", path.display()));
        for slot in marked(ledger) {
            self.flipped.entry(slot).or_default();
        }
        self.excused = KILLS_MAX;
    }

    /// Chooses a byte of a storage whose change every sum of its accounts shows. (That of an account
    /// without lamports shows nowhere, nor does a byte between two accounts.)
    fn byte_of_an_account(&mut self, storage: &[u8]) -> Option<usize> {
        /// Bytes of a record before its length, which is left alone: every byte counts.
        const DATA_LENGTH: std::ops::Range<usize> = 8..16;
        const HEADER: usize = 136;
        let sum = |bytes: &[u8]| series::totals(&[(1, bytes)]).lattice_hash;
        let mut records = Vec::new();
        let mut start = 0;
        while let Some(length) = storage.get(start..).and_then(|rest| rest.get(DATA_LENGTH)) {
            let length = u64::from_le_bytes(length.try_into().unwrap());
            let end = start + HEADER + usize::try_from(length).unwrap();
            records.push(start..end);
            start = end.next_multiple_of(8);
        }
        // Most bytes count.
        (0..20).find_map(|_| {
            let record = self.random.pick(&records).clone();
            let at = record.start + self.random.index(record.len());
            let mut flipped = storage.to_vec();
            flipped[at] ^= 1;
            let is_length = DATA_LENGTH.contains(&(at - record.start));
            (!is_length && sum(&flipped) != sum(storage)).then_some(at)
        })
    }
}

fn inode(path: &Path) -> Option<u64> {
    Some(path.metadata().ok()?.ino())
}
