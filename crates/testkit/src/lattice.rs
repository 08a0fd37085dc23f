//! The true lattice hash and capitalization of accounts, computed the slow way.
//!
//! The lattice hash of an account is 2048 bytes of BLAKE3 output over `lamports || data ||
//! executable || owner || public key`, taken as 1024 16-bit integers. The lattice hash of several
//! accounts is their element-wise sum (`solana-accounts-db` 4.2.2, `accounts_db.rs`). If an account
//! is in several storages, only the one in the highest slot counts; accounts without lamports do
//! not count.
//!
//! This implementation follows the description, ignores speed, and takes two passes over
//! everything.

use crate::bank::LATTICE_HASH_BYTES;
use crate::content;
use crate::plan;
use crate::spec::{ArchiveSpec, Error};
use std::collections::HashMap;

/// Totals of the accounts in one or two archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Their lattice hash.
    pub lattice_hash: Box<[u8; LATTICE_HASH_BYTES]>,
    /// Total of their lamports.
    pub capitalization: u64,
}

/// Returns the totals of generated archives: a full one, or a full one and an incremental one based
/// on it.
pub fn totals_of_specs(specs: &[&ArchiveSpec]) -> Result<Totals, Error> {
    let plans = specs.iter().map(|spec| Ok((*spec, plan::storages(spec)?)));
    let plans = plans.collect::<Result<Vec<_>, Error>>()?;
    Ok(totals(|see| {
        for (spec, storages) in &plans {
            for storage in storages {
                for (segment, range) in (0..).zip(spec.content.segments(storage.size)) {
                    let mut bytes = vec![0; crate::length(range.end - range.start)];
                    let file = storage.id.into();
                    content::fill_segment(spec.content, spec.seed, file, segment, &mut bytes);
                    see(storage.slot, &bytes);
                }
            }
        }
    }))
}

/// Returns the totals of storages. `visit` passes every storage, or whole records of it, with its
/// slot. It is called twice and must pass the same storages.
///
/// # Panics
///
/// If the total of the lamports exceeds 64 bits.
pub fn totals(visit: impl Fn(&mut dyn FnMut(u64, &[u8]))) -> Totals {
    let mut newest: HashMap<[u8; 32], u64> = HashMap::new();
    visit(&mut |slot, storage| {
        for record in records(storage) {
            let known = newest.entry(*record.key).or_insert(slot);
            *known = slot.max(*known);
        }
    });
    let mut sum = [0u16; LATTICE_HASH_BYTES / 2];
    let mut capitalization: u64 = 0;
    visit(&mut |slot, storage| {
        for record in records(storage).filter(|record| newest[record.key] == slot) {
            capitalization = capitalization.checked_add(record.lamports()).expect("64 bits");
            if record.lamports() > 0 {
                record.add_to(&mut sum);
            }
        }
    });
    let mut lattice_hash = Box::new([0; LATTICE_HASH_BYTES]);
    for (bytes, element) in lattice_hash.as_chunks_mut().0.iter_mut().zip(sum) {
        *bytes = element.to_le_bytes();
    }
    Totals { lattice_hash, capitalization }
}

/// A record of a storage. See [`content`] for its fields.
struct Record<'a> {
    header: &'a [u8],
    key: &'a [u8; 32],
    data: &'a [u8],
}

impl Record<'_> {
    fn lamports(&self) -> u64 {
        let bytes = self.header[48..].first_chunk().expect("a header is 136 bytes long");
        u64::from_le_bytes(*bytes)
    }

    fn add_to(&self, sum: &mut [u16; LATTICE_HASH_BYTES / 2]) {
        let (lamports, owner, executable) =
            (&self.header[48..56], &self.header[64..96], &self.header[96..97]);
        let mut hasher = blake3::Hasher::new();
        for part in [lamports, self.data, executable, owner, self.key] {
            hasher.update(part);
        }
        let mut hash = [0; LATTICE_HASH_BYTES];
        hasher.finalize_xof().fill(&mut hash);
        for (element, bytes) in sum.iter_mut().zip(hash.as_chunks().0) {
            *element = element.wrapping_add(u16::from_le_bytes(*bytes));
        }
    }
}

fn records(storage: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = storage;
    std::iter::from_fn(move || {
        let (header, after) = rest.split_at_checked(content::HEADER_BYTES)?;
        let data_length = crate::length(u64::from_le_bytes(*header[8..].first_chunk()?));
        let data = after.get(..data_length)?;
        let length = (header.len() + data_length).next_multiple_of(8);
        rest = rest.get(length..).unwrap_or_default();
        Some(Record { header, key: header[16..].first_chunk()?, data })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::expected_files;
    use crate::bank::name_hash;
    use crate::spec::{FileSizes, LatticeHash};
    use crate::tree::{files, reference_entries_of_file};
    use std::path::Path;

    /// Returns the account files among the files of archives.
    fn storages(archives: &[Vec<(String, Vec<u8>)>]) -> Vec<(u64, &[u8])> {
        let files = archives.iter().flatten();
        let storages = files.filter_map(|(path, bytes)| {
            let (slot, _) = path.strip_prefix("accounts/")?.split_once('.')?;
            Some((slot.parse().ok()?, &bytes[..]))
        });
        storages.collect()
    }

    fn totals_of(archives: &[Vec<(String, Vec<u8>)>]) -> Totals {
        let storages = storages(archives);
        totals(|see| storages.iter().for_each(|(slot, bytes)| see(*slot, bytes)))
    }

    /// The result is the hash that Agave put in the names of genuine archives.
    #[test]
    fn genuine_archives_have_the_hash_of_their_names() {
        let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data"));
        let read = |path: &str| {
            let entries = reference_entries_of_file(&data.join(path)).unwrap();
            files(entries).into_iter().collect::<Vec<_>>()
        };
        for (full, incremental) in [
            (
                "agave-tiny/snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst",
                "agave-tiny/incremental-snapshot-39-47-FgdisjK9WWpr26styZuQubshv1Du6YnWze9a6UPdY24Q.tar.zst",
            ),
            (
                "agave-tiny-lz4/snapshot-11-5Mj3ns2bt9KNEoPpiRtmYfNSKWp3eKLuGkuRjktG6zhH.tar.lz4",
                "agave-tiny-lz4/incremental-snapshot-11-14-5ZTTtfzY3zxrMzs24ujdsdgDdeV7vpQsodZW29Fv8C93.tar.lz4",
            ),
        ] {
            let mut archives = vec![read(full)];
            assert!(full.contains(&name_hash(&totals_of(&archives).lattice_hash)), "{full}");
            archives.push(read(incremental));
            let hash = name_hash(&totals_of(&archives).lattice_hash);
            assert!(incremental.contains(&hash), "{incremental}");
        }
    }

    fn small(slot: u64, lattice_hash: LatticeHash) -> ArchiveSpec {
        let file_sizes = FileSizes::Fixed(20_000);
        ArchiveSpec {
            total_bytes: 200_000,
            file_sizes,
            slot,
            lattice_hash,
            ..ArchiveSpec::default()
        }
    }

    fn made(spec: &ArchiveSpec) -> Vec<(String, Vec<u8>)> {
        expected_files(spec).unwrap().collect()
    }

    /// Bank file and name agree with the accounts in the archives.
    #[test]
    fn made_archives_have_the_hash_of_their_names() {
        let full = small(1000, LatticeHash::OfAccounts);
        // The same seed gives the same accounts again, with fewer in the increment.
        let increment = ArchiveSpec {
            base_slot: Some(1000),
            total_bytes: 60_000,
            ..small(1100, LatticeHash::OfAccountsUpon(Box::new(full.clone())))
        };
        let archives = [made(&full), made(&increment)];
        let totals = [totals_of(&archives[..1]), totals_of(&archives)];
        assert_eq!(totals[0], totals_of_specs(&[&full]).unwrap());
        assert_eq!(totals[0], totals[1], "accounts that occur twice count once");
        let other = ArchiveSpec { seed: 1, ..increment.clone() };
        let with_other = [archives[0].clone(), made(&other)];
        assert_ne!(totals[0], totals_of(&with_other), "other accounts count too");

        for (spec, archives) in
            [(&full, &archives[..1]), (&increment, &archives[..]), (&other, &with_other[..])]
        {
            let totals = totals_of(archives);
            let hash = name_hash(&totals.lattice_hash);
            assert!(spec.name().contains(&hash), "{}", spec.name());
            let bank_path = format!("snapshots/{0}/{0}", spec.slot);
            let files = archives.last().unwrap();
            let (_, bank) = files.iter().find(|(path, _)| *path == bank_path).unwrap();
            assert_eq!(bank[bank.len() - 33 - 2048..bank.len() - 33], totals.lattice_hash[..]);
            let capitalization = totals.capitalization.to_le_bytes();
            assert!(bank.windows(8).any(|bytes| bytes == capitalization));
        }
    }

    #[test]
    fn without_the_switch_nothing_is_computed() {
        let [random, true_one] =
            [LatticeHash::Random, LatticeHash::OfAccounts].map(|hash| small(1000, hash).name());
        assert_ne!(random, true_one);
        assert_eq!(random, ArchiveSpec { slot: 1000, ..ArchiveSpec::default() }.name());
    }
}
