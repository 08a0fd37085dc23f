//! Single accounts: what a plain scan of all storages finds.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;
use unsnap_test_support::{Outcome, Site, genuine, genuine_full};
use unsnap_testkit::{
    compress,
    tar::snapshot_tar,
    tree::{files, reference_entries},
};

use crate::{
    lookup::{index, tool},
    scan::{newest, scan as scan_all, storage_of},
};

/// The newest version of an account, by a plain scan.
#[derive(Clone, Debug, PartialEq)]
struct Newest {
    slot: u64,
    lamports: u64,
    owner: Vec<u8>,
    data: Vec<u8>,
}

type Accounts = BTreeMap<Vec<u8>, Newest>;

/// Adds all records of an archive's storages, by the layout of `append_vec.rs` of `solana-accounts-db`.
fn scan(archive: &Path, accounts: &mut Accounts) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    for (path, storage) in files(reference_entries(&fs::read(archive).unwrap()).unwrap()) {
        let Some(name) = path.strip_prefix("accounts/") else { continue };
        let slot: u64 = name.split_once('.').unwrap().0.parse().unwrap();
        let mut at = 0;
        while at + 136 <= storage.len() {
            let record = &storage[at..];
            let length = usize::try_from(number(&record[8..16])).unwrap();
            let (lamports, key) = (number(&record[48..56]), record[16..48].to_vec());
            if lamports == 0 && key.iter().all(|byte| *byte == 0) {
                break;
            }
            let account = Newest {
                slot,
                lamports,
                owner: record[64..96].to_vec(),
                data: record[136..136 + length].to_vec(),
            };
            let known = accounts.get(&key).is_some_and(|known| known.slot > slot);
            if !known {
                accounts.insert(key, account);
            }
            at = (at + 136 + length).next_multiple_of(8);
        }
    }
}

fn base58(bytes: &[u8]) -> String {
    bs58::encode(bytes).into_string()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Asks for all these accounts at once and compares.
fn check(archive: &Path, flags: &[&str], expected: &Accounts) {
    let keys: Vec<String> =
        expected.keys().map(|key| format!("--account={}", base58(key))).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let words = [&["extract", "--format", "json"][..], &keys, flags].concat();
    let found = tool(&words, archive).assert_code(0).json();
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), expected.len());
    for (found, (key, expected)) in found.iter().zip(expected) {
        assert_eq!(found["pubkey"], base58(key));
        assert_eq!(found["owner"], base58(&expected.owner));
        assert_eq!(
            (&found["slot"], &found["lamports"]),
            (&expected.slot.into(), &expected.lamports.into())
        );
        assert_eq!(found["data"], hexadecimal(&expected.data));
    }
}

#[test]
fn accounts_are_those_of_a_plain_scan() {
    let site = Site::new();
    let genuine = genuine();
    let full = genuine_full();
    let incremental = genuine
        .iter()
        .find(|path| path.display().to_string().contains("incremental-snapshot-39-47"))
        .unwrap();
    let mut accounts = Accounts::new();
    scan(&full, &mut accounts);
    assert!(accounts.len() > 20);
    check(&full, &[], &accounts);
    let before = accounts.clone();
    scan(incremental, &mut accounts);
    assert_ne!(accounts, before, "something is newer");
    check(&full, &["--incremental", incremental.to_str().unwrap()], &accounts);

    // With an index and a slot only one storage is looked at; elsewhere there is nothing to be found.
    let archive = site.path(full.file_name().unwrap().to_str().unwrap());
    fs::copy(&full, &archive).unwrap();
    index(&archive);
    let (key, account) = before.iter().next().unwrap();
    let slot = account.slot.to_string();
    check(&archive, &["--slot", &slot], &[(key.clone(), account.clone())].into());
    let beyond = format!("{}-", account.slot + 1);
    let words = ["extract", "--account", &base58(key), "--slot", &beyond];
    tool(&words, &archive).assert_code(1).assert_error(&["there is no account", &base58(key)]);
}

#[test]
fn an_account_is_shown_as_text_and_as_its_data() {
    let full = genuine_full();
    let mut accounts = Accounts::new();
    scan(&full, &mut accounts);
    let text = |bytes: &[u8]| str::from_utf8(bytes).is_ok_and(|text| !text.is_empty());
    let (key, account) = accounts.iter().find(|(_, account)| text(&account.data)).unwrap();
    let raw = tool(&["extract", "--format", "raw", "--account", &base58(key)], &full);
    assert_eq!(raw.assert_code(0).stdout.as_bytes(), account.data);
    let shown = tool(&["extract", "--account", &base58(key)], &full).assert_code(0).stdout;
    for part in [base58(key), base58(&account.owner), format!("accounts/{}.", account.slot)] {
        assert!(shown.contains(&part), "{part} in {shown}");
    }
}

/// The address that `storage_of` makes of a letter.
fn address(letter: u8) -> String {
    base58(&[letter; 32])
}

/// Asks for these accounts by `extract`.
fn extract(archive: &Path, letters: &[u8], flags: &[&str]) -> Outcome {
    let keys: Vec<String> =
        letters.iter().map(|letter| format!("--account={}", address(*letter))).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    tool(&[&["extract", "--format", "json"][..], &keys, flags].concat(), archive)
}

#[test]
fn the_newest_version_is_that_of_the_highest_slot_be_it_without_lamports() {
    let site = Site::new();
    // Storages come in no order of slots, and numbers of storages say nothing.
    let storages = [
        (9, 1, storage_of(&[(1, 9, b"nine"), (2, 0, b""), (3, 9, b"is there again")])),
        (5, 8, storage_of(&[(1, 5, b"five"), (2, 5, b"five"), (3, 0, b""), (4, 5, b"once")])),
        (70, 2, storage_of(&[(5, 0, b"closed with data")])),
        (7, 9, storage_of(&[(2, 7, b"seven"), (1, 0, b""), (5, 7, b"seven"), (6, 0, b"")])),
    ];
    let archive = compress::zstd_frames(&snapshot_tar(100, &storages), 700, 1);
    let archive = site.write("versions.tar.zst", &archive);
    let records = scan_all(&archive);
    let letters = [1, 2, 3, 4, 5, 6];
    for indexed in [false, true] {
        if indexed {
            index(&archive);
        }
        let found = extract(&archive, &letters, &[]).assert_code(0).json();
        for (found, letter) in found.as_array().unwrap().iter().zip(letters) {
            let versions = records.iter().filter(|record| record.pubkey == address(letter));
            let newest = versions.max_by_key(|record| record.slot).unwrap();
            assert_eq!(found["pubkey"], newest.pubkey);
            assert_eq!(found["storage"], format!("accounts/{}.{}", newest.slot, newest.id));
            assert_eq!(
                (&found["lamports"], &found["data"]),
                (&newest.lamports.into(), &hexadecimal(&newest.data).into())
            );
        }
        // Of some slots, the newest among these.
        let found = extract(&archive, &[1, 2], &["--slot", "5-8"]).assert_code(0).json();
        assert_eq!((&found[0]["slot"], &found[0]["lamports"]), (&7.into(), &0.into()));
        assert_eq!((&found[1]["slot"], &found[1]["lamports"]), (&7.into(), &7.into()));
    }
    // Lists of the newest versions leave out those that have ceased to be.
    let listed = tool(&["accounts", "--newest"], &archive).assert_code(0).stdout;
    let listed: Vec<(String, u64)> = listed
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["pubkey"].as_str().unwrap().to_owned(), line["slot"].as_u64().unwrap())
        })
        .collect();
    let expected: Vec<(String, u64)> =
        newest(&records).into_values().map(|record| (record.pubkey, record.slot)).collect();
    let sorted = |mut list: Vec<(String, u64)>| {
        list.sort();
        list
    };
    assert_eq!(sorted(listed), sorted(expected));
    assert_eq!(newest(&records).len(), 3, "1, 3 and 4");
}

#[test]
fn what_a_validator_would_not_load_has_no_newest_version() {
    let site = Site::new();
    let twice = [(5, 1, storage_of(&[(1, 5, b"one"), (2, 1, b""), (1, 5, b"two")]))];
    let two_storages =
        [(5, 1, storage_of(&[(1, 5, b"one")])), (5, 2, storage_of(&[(1, 6, b"two")]))];
    for (name, storages, reason) in [
        ("twice", &twice[..], format!("account {} occurs twice in slot 5", address(1))),
        ("two-storages", &two_storages[..], "slot 5".to_owned()),
    ] {
        let archive = compress::zstd_frames(&snapshot_tar(100, storages), 700, 1);
        let archive = site.write(name, &archive);
        for _ in 0..2 {
            for flags in [&[][..], &["--slot", "5"]] {
                extract(&archive, &[1], flags).assert_code(1).assert_error(&[&reason]);
            }
            tool(&["accounts", "--newest"], &archive).assert_code(1).assert_error(&[&reason]);
            // The second time by the index.
            index(&archive);
        }
    }
}
