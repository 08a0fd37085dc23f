//! A plain scan of an archive's accounts, which shares nothing with unsnap: by the layout of append vecs
//! alone (`solana-accounts-db` 4.2.2, `append_vec.rs`), over files that the crates tar, zstd and
//! `lz4_flex` have extracted.

use std::{collections::BTreeMap, path::Path};

use unsnap_testkit::tree::reference_entries_of_file;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    pub pubkey: String,
    pub lamports: u64,
    pub owner: String,
    pub executable: bool,
    pub rent_epoch: u64,
    pub data: Vec<u8>,
    pub slot: u64,
    pub id: u32,
    pub offset: usize,
}

/// All records in the order of the archive.
pub fn scan(archive: &Path) -> Vec<Scanned> {
    let mut records = Vec::new();
    for entry in reference_entries_of_file(archive).unwrap() {
        let Some(name) = entry.path.strip_prefix("accounts/") else { continue };
        let (slot, id) = name.split_once('.').unwrap();
        let (slot, id) = (slot.parse().unwrap(), id.parse().unwrap());
        storage(&entry.bytes, slot, id, &mut records);
    }
    assert!(!records.is_empty(), "{} has no accounts", archive.display());
    records
}

fn storage(bytes: &[u8], slot: u64, id: u32, records: &mut Vec<Scanned>) {
    let mut offset = 0;
    while offset + 136 <= bytes.len() {
        let number =
            |at: usize| u64::from_le_bytes(bytes[offset + at..offset + at + 8].try_into().unwrap());
        let address = |at: usize| bs58::encode(&bytes[offset + at..offset + at + 32]).into_string();
        let length = usize::try_from(number(8)).unwrap();
        if number(48) == 0 && bytes[offset + 16..offset + 48] == [0; 32] {
            break;
        }
        records.push(Scanned {
            pubkey: address(16),
            lamports: number(48),
            owner: address(64),
            executable: bytes[offset + 96] == 1,
            rent_epoch: number(56),
            data: bytes[offset + 136..offset + 136 + length].to_owned(),
            slot,
            id,
            offset,
        });
        offset = (offset + 136 + length).next_multiple_of(8);
    }
}

/// The newest version of each account, if that has lamports, by address.
pub fn newest(records: &[Scanned]) -> BTreeMap<String, Scanned> {
    let mut newest: BTreeMap<String, Scanned> = BTreeMap::new();
    for record in records {
        let kept = newest.entry(record.pubkey.clone()).or_insert_with(|| record.clone());
        if record.slot > kept.slot {
            *kept = record.clone();
        }
    }
    newest.retain(|_, record| record.lamports > 0);
    newest
}

/// The content of a storage of accounts, each given by a letter for its address, its lamports and its data.
pub fn storage_of(accounts: &[(u8, u64, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (address, lamports, data) in accounts {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend([0; 8]);
        bytes.extend((data.len() as u64).to_le_bytes());
        bytes.extend([*address; 32]);
        bytes.extend(lamports.to_le_bytes());
        bytes.extend([0; 8 + 32 + 8 + 32]);
        bytes.extend(*data);
    }
    bytes
}
