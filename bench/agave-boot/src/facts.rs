//! What two banks are compared by.

use anyhow::{Context, Result};
use serde::Serialize;
use solana_account::ReadableAccount as _;
use solana_pubkey::Pubkey;
use solana_runtime::bank::Bank;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that must not depend on where a bank was loaded from.
///
/// Ids of storages are left out: they are counters of a node, and the archive load renumbers them.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    slot: u64,
    epoch: u64,
    block_height: u64,
    bank_hash: String,
    parent_hash: String,
    last_blockhash: String,
    block_id: Option<String>,
    capitalization: u64,
    /// What the archive's name carries: base58 of blake3 of the accounts lt hash.
    accounts_lt_hash: String,
    transaction_count: u64,
    signature_count: u64,
    tick_height: u64,
    accounts_data_len: u64,
    storages: usize,
    /// Sum of the storages' lengths.
    stored_bytes: u64,
    /// Accounts that can be loaded through the index; those without lamports cannot.
    accounts: usize,
    /// blake3 of all these accounts in the order of their keys: key, slot, and every field.
    accounts_digest: String,
    /// Signatures and other keys in the status cache.
    statuses: usize,
    /// blake3 of the status cache, sorted.
    statuses_digest: String,
}

impl Facts {
    /// Reads them off a bank; every account is loaded.
    pub fn of(bank: &Bank) -> Result<Self> {
        let storages = bank.get_snapshot_storages(None);
        let mut keys = BTreeSet::new();
        for storage in &storages {
            storage
                .accounts
                .scan_pubkeys(|key| {
                    keys.insert(*key);
                })
                .with_context(|| format!("cannot scan {}", storage.path().display()))?;
        }
        let (accounts, accounts_digest) = accounts(bank, &keys);
        let (statuses, statuses_digest) = statuses(bank)?;
        Ok(Self {
            slot: bank.slot(),
            epoch: bank.epoch(),
            block_height: bank.block_height(),
            bank_hash: bank.hash().to_string(),
            parent_hash: bank.parent_hash().to_string(),
            last_blockhash: bank.last_blockhash().to_string(),
            block_id: bank.block_id().map(|id| id.to_string()),
            capitalization: bank.capitalization(),
            accounts_lt_hash: bank.get_snapshot_hash().0.to_string(),
            transaction_count: bank.transaction_count(),
            signature_count: bank.signature_count(),
            tick_height: bank.tick_height(),
            accounts_data_len: bank.load_accounts_data_size(),
            storages: storages.len(),
            stored_bytes: storages.iter().map(|storage| storage.accounts.len() as u64).sum(),
            accounts,
            accounts_digest,
            statuses,
            statuses_digest,
        })
    }
}

fn accounts(bank: &Bank, keys: &BTreeSet<Pubkey>) -> (usize, String) {
    let mut count = 0;
    let mut hasher = blake3::Hasher::new();
    for key in keys {
        let Some((account, slot)) = bank.get_account_modified_slot(key) else {
            continue;
        };
        count += 1;
        hasher
            .update(key.as_ref())
            .update(&slot.to_le_bytes())
            .update(&account.lamports().to_le_bytes())
            .update(account.owner().as_ref())
            .update(&[u8::from(account.executable())])
            .update(&account.rent_epoch().to_le_bytes())
            .update(&account.data().len().to_le_bytes())
            .update(account.data());
    }
    (count, hasher.finalize().to_string())
}

fn statuses(bank: &Bank) -> Result<(usize, String)> {
    // A poisoned lock would mean that a panic was survived, and the guard in `load` ends there.
    let cache = bank.status_cache.read().ok().context("status cache is poisoned")?;
    let mut sorted = BTreeMap::new();
    for (slot, is_root, status) in cache.root_slot_deltas() {
        let status = status.lock().ok().context("status cache is poisoned")?;
        for (blockhash, (index, keys)) in status.iter() {
            for (key, result) in keys {
                let at = (slot, blockhash.to_bytes(), *key);
                sorted.insert(at, format!("{is_root} {index} {result:?}"));
            }
        }
        // A root without transactions is a fact, too.
        sorted.insert((slot, [0; 32], Default::default()), format!("{is_root}"));
    }
    let mut hasher = blake3::Hasher::new();
    for ((slot, blockhash, key), result) in &sorted {
        hasher.update(&slot.to_le_bytes()).update(blockhash).update(key).update(result.as_bytes());
    }
    let roots = cache.roots().len();
    Ok((sorted.len() - roots, hasher.finalize().to_string()))
}
