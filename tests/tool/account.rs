//! Single accounts: what a plain scan of all storages finds.

use std::{collections::BTreeMap, fs, path::Path};

use unsnap_testkit::tree::{files, reference_entries};

use crate::{
    lookup::{index, tool},
    support::{Site, genuine, genuine_full},
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
