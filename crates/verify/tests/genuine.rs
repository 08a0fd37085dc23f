//! Archives written by Agave: the check must agree with their names and their bank files.

#![allow(clippy::unwrap_used)] // helpers are tests too
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

use std::{
    fs::File,
    io::{Read, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use unsnap_verify::{
    StorageScanner,
    accounts::{
        AccountsCheck, AccountsConfig, AccountsError, AccountsSummary, FileLook, Picker, StorageId,
        StreamLook,
    },
    lattice::LatticeHash,
};

/// An archive as this test reads it, independently of the crate.
struct Archive {
    /// Slot, number, content.
    storages: Vec<(u64, u64, Vec<u8>)>,
    bank: Bank,
    /// The hash in the archive's name.
    checksum: [u8; 32],
}

struct Bank {
    hash: LatticeHash,
    capitalization: u64,
}

const FULL: &str = "snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";
const INCREMENTAL: &str =
    "incremental-snapshot-39-47-FgdisjK9WWpr26styZuQubshv1Du6YnWze9a6UPdY24Q.tar.zst";

impl Archive {
    fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/agave-tiny");
        let stream = zstd::Decoder::new(File::open(folder.join(name)).unwrap()).unwrap();
        let (mut storages, mut bank) = (Vec::new(), None);
        for entry in tar::Archive::new(stream).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let parts: Vec<_> = path.to_str().unwrap().trim_end_matches('/').split('/').collect();
            match parts[..] {
                ["accounts", file] => {
                    let (slot, id) = file.split_once('.').unwrap();
                    storages.push((slot.parse().unwrap(), id.parse().unwrap(), content));
                }
                ["snapshots", slot, same] if slot == same => bank = Some(content),
                _ => (),
            }
        }
        let stem = name.strip_suffix(".tar.zst").unwrap();
        let checksum = bs58::decode(stem.rsplit('-').next().unwrap()).into_vec().unwrap();
        let checksum = checksum.try_into().unwrap();
        Self { storages, bank: Bank::read(&bank.unwrap(), &checksum), checksum }
    }
}

impl Bank {
    /// The file ends in `Some(hash)` and, since Agave 4.1, `Some(block id)` or `None`.
    fn read(file: &[u8], checksum: &[u8; 32]) -> Self {
        let hash_at_end = |behind: usize| {
            let end = file.len() - behind;
            let (tag, hash) = file[end - 2049..end].split_first().unwrap();
            let hash = LatticeHash::from_bytes(hash.try_into().unwrap());
            (*tag == 1 && hash.checksum() == *checksum).then_some(hash)
        };
        let hash = [33, 1, 0].into_iter().find_map(hash_at_end).expect("a hash as in the name");
        Self { hash, capitalization: Self::capitalization(file) }
    }

    /// Skips the fields before it, as listed in `serde_snapshot.rs` of `solana-runtime`.
    fn capitalization(file: &[u8]) -> u64 {
        let mut at = 0;
        let mut number = |skip: usize| {
            at += skip;
            let number = u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
            at += 8;
            number
        };
        let list = |count: u64, bytes: usize| usize::try_from(count).unwrap() * bytes;
        // The queue of blockhashes: last index, an optional hash, the hashes.
        number(0);
        let some = usize::from(file[8]);
        let hashes = number(1 + some * 32);
        number(list(hashes, 56)); // its maximum age
        let ancestors = number(0);
        number(list(ancestors, 16) + 64); // hash and parent's hash, then the parent's slot
        let forks = number(0);
        number(list(forks, 16)); // transactions
        number(0); // ticks
        number(0); // signatures
        number(0)
    }
}

/// Checks archives as streams of pieces of `piece_bytes`. Files are read again from `folder`.
fn check(archives: &[&Archive], piece_bytes: usize, files: Option<&Path>) -> AccountsSummary {
    let config =
        AccountsConfig { workers: NonZeroUsize::new(2).unwrap(), ..AccountsConfig::default() };
    let check = AccountsCheck::new(config).unwrap();
    for archive in archives {
        let mut stream = check.stream();
        for (slot, id, content) in &archive.storages {
            stream.begin(*slot, *id, content.len() as u64).unwrap();
            for piece in content.chunks(piece_bytes) {
                stream.piece(piece.to_vec()).unwrap();
            }
            stream.end().unwrap();
        }
    }
    if let Some(folder) = files {
        let path = |slot: u64, id: u64| -> PathBuf { folder.join(format!("{slot}.{id}")) };
        for (slot, id, content) in archives.iter().flat_map(|archive| &archive.storages) {
            File::create(path(*slot, *id)).unwrap().write_all(content).unwrap();
        }
        let open = |storage: &StorageId| File::open(path(storage.slot, storage.id));
        return check.finish(&mut FileLook::new(open)).unwrap();
    }
    let pass = |picker: &mut Picker<'_, '_>| {
        for (stream, archive) in archives.iter().enumerate() {
            for (slot, id, content) in &archive.storages {
                let size = content.len() as u64;
                if picker.begin(&StorageId { stream, slot: *slot, id: *id, size }) {
                    content.chunks(piece_bytes).for_each(|piece| picker.piece(piece));
                }
            }
        }
        Ok(())
    };
    check.finish(&mut StreamLook::new(pass)).unwrap()
}

fn assert_agrees(summary: &AccountsSummary, archive: &Archive) {
    summary.expect_checksum(&archive.checksum).unwrap();
    summary.expect_hash(&archive.bank.hash).unwrap();
    summary.expect_capitalization(archive.bank.capitalization).unwrap();
}

#[test]
fn a_full_archive_matches_its_name_and_its_bank() {
    let full = Archive::read(FULL);
    for piece_bytes in [100, 4096, 1 << 20] {
        assert_agrees(&check(&[&full], piece_bytes, None), &full);
    }
}

#[test]
fn a_full_and_an_incremental_archive_match_the_incremental_name() {
    let (full, incremental) = (Archive::read(FULL), Archive::read(INCREMENTAL));
    let folder = tempfile::tempdir().unwrap();
    for files in [None, Some(folder.path())] {
        let summary = check(&[&full, &incremental], 5000, files);
        assert_agrees(&summary, &incremental);
        assert!(summary.older_versions > 0, "the pair has accounts in common");
        assert!(summary.looked_at > summary.older_versions, "newer versions are looked at too");
    }
    // The order of the streams does not matter; the slots do.
    assert_agrees(&check(&[&incremental, &full], 5000, None), &incremental);
}

#[test]
fn an_incremental_archive_alone_does_not_match_its_name() {
    let incremental = Archive::read(INCREMENTAL);
    let summary = check(&[&incremental], 5000, None);
    let error = summary.expect_checksum(&incremental.checksum).unwrap_err();
    assert!(matches!(error, AccountsError::WrongHash { .. }), "{error}");
}

#[test]
fn any_bit_that_flips_in_an_account_shows() {
    let mut full = Archive::read(FULL);
    let (_, _, content) = &mut full.storages[0];
    // The first account's lamports, owner, and data or the next account's key.
    for at in [48, 64, 140] {
        content[at] ^= 1;
    }
    let summary = check(&[&full], 5000, None);
    assert!(summary.expect_checksum(&full.checksum).is_err());
}

#[test]
fn every_storage_of_genuine_archives_is_a_row_of_records() {
    for name in [FULL, INCREMENTAL] {
        for (slot, id, content) in Archive::read(name).storages {
            let mut scanner = StorageScanner::new(slot, id, content.len() as u64).unwrap();
            scanner.feed(&content, &mut ()).unwrap();
            assert!(scanner.finish().unwrap().records > 0, "accounts/{slot}.{id}");
        }
    }
}
