//! Every account of generated archives, and the answers to queries about them.
//!
//! Tests compare the answers of programs and of database engines with these, which come straight
//! from the generator, without an archive and without the code under test.

mod programs;

pub use programs::{Decoded, decoded};

use std::collections::HashMap;

use crate::content::{HEADER_BYTES, fill_segment};
use crate::plan;
use crate::spec::{ArchiveSpec, Error};

/// A record of a storage: one version of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address.
    pub pubkey: [u8; 32],
    /// Owning program.
    pub owner: [u8; 32],
    /// Balance.
    pub lamports: u64,
    /// Slot of the storage.
    pub slot: u64,
    /// Number of the storage.
    pub storage_id: u32,
    /// Offset of the record in the storage in bytes.
    pub offset: u64,
    /// Whether the data is a program.
    pub executable: bool,
    /// Epoch of the last rent collection.
    pub rent_epoch: u64,
    /// Data.
    pub data: Vec<u8>,
}

/// Returns all records of an archive, in the order of the archive.
///
/// # Panics
///
/// If the generator has made something else than whole records.
pub fn rows(spec: &ArchiveSpec) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for storage in plan::storages(spec)? {
        for (segment, range) in (0..).zip(spec.content.segments(storage.size)) {
            let mut bytes = vec![0; crate::length(range.end - range.start)];
            fill_segment(spec.content, spec.seed, storage.id.into(), segment, &mut bytes);
            let mut at = 0;
            while at < bytes.len() {
                let record = &bytes[at..];
                let number = |at: usize| {
                    u64::from_le_bytes(*record[at..].first_chunk().expect("a whole header"))
                };
                let key = |at: usize| *record[at..].first_chunk().expect("a whole header");
                let end = HEADER_BYTES + crate::length(number(8));
                rows.push(Row {
                    pubkey: key(16),
                    owner: key(64),
                    lamports: number(48),
                    slot: storage.slot,
                    storage_id: storage.id,
                    offset: range.start + at as u64,
                    executable: record[96] == 1,
                    rent_epoch: number(56),
                    data: record[HEADER_BYTES..end].to_vec(),
                });
                at = (at + end).next_multiple_of(8).min(bytes.len());
            }
        }
    }
    Ok(rows)
}

/// Returns of each account its newest version, if that has lamports. The order stays.
pub fn newest(rows: Vec<Row>) -> Vec<Row> {
    let mut slots: HashMap<[u8; 32], u64> = HashMap::new();
    for row in &rows {
        let slot = slots.entry(row.pubkey).or_insert(row.slot);
        *slot = row.slot.max(*slot);
    }
    let is_newest = |row: &Row| slots[&row.pubkey] == row.slot && row.lamports > 0;
    rows.into_iter().filter(is_newest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use crate::lattice::totals_of_specs;
    use crate::mainnet::TOKEN_PROGRAM;

    fn spec(total_bytes: u64) -> ArchiveSpec {
        ArchiveSpec { content: Content::Mainnet, total_bytes, ..ArchiveSpec::default() }
    }

    #[test]
    fn accounts_are_of_mainnets_kinds() {
        let rows = rows(&spec(20_000_000)).unwrap();
        let percent = |owner: [u8; 32]| {
            rows.iter().filter(|row| row.owner == owner).count() * 100 / rows.len()
        };
        assert!((65..=69).contains(&percent(TOKEN_PROGRAM)), "{}", percent(TOKEN_PROGRAM));
        assert!((7..=9).contains(&percent([0; 32])), "{}", percent([0; 32]));
        for (what, is_there) in [
            ("closed", rows.iter().any(|row| row.lamports == 0)),
            ("executable", rows.iter().any(|row| row.executable)),
            ("collected", rows.iter().any(|row| row.rent_epoch == 0)),
            ("empty", rows.iter().any(|row| row.data.is_empty())),
            ("large", rows.iter().any(|row| row.data.len() > 30_000)),
        ] {
            assert!(is_there, "no account is {what}");
        }
    }

    #[test]
    fn the_newest_versions_add_up_to_the_capitalization() {
        let full = spec(1_000_000);
        let increment = ArchiveSpec {
            slot: full.slot + 100,
            base_slot: Some(full.slot),
            files: Some(1),
            total_bytes: 50_000,
            ..full.clone()
        };
        let both: Vec<Row> =
            [&full, &increment].iter().flat_map(|spec| rows(spec).unwrap()).collect();
        let count = both.len();
        let newest = newest(both);
        assert!(newest.len() < count);
        let lamports: u64 = newest.iter().map(|row| row.lamports).sum();
        let totals = totals_of_specs(&[&full, &increment]).unwrap();
        assert_eq!(lamports, totals.capitalization);
    }
}
