//! Makes a ledger larger: archives of any size that Agave has written and loads, to measure with.

use crate::load::{self, Check, Places};
use agave_snapshots::snapshot_archive_info::SnapshotArchiveInfoGetter as _;
use agave_snapshots::snapshot_config::SnapshotConfig;
use agave_snapshots::{ArchiveFormat, ZstdConfig};
use anyhow::{Context, Result, bail};
use solana_account::{AccountSharedData, WritableAccount as _};
use solana_genesis_config::GenesisConfig;
use solana_leader_schedule::SlotLeader;
use solana_pubkey::Pubkey;
use solana_runtime::bank::Bank;
use solana_runtime::bank_forks::BankForks;
use solana_runtime::leader_schedule_utils::leader_schedule;
use solana_runtime::snapshot_bank_utils::bank_to_full_snapshot_archive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of accounts in each slot, and so in each storage: mainnet's mean (a state of 500 GB has
/// 430,000 storages).
const SLOT_BYTES: u64 = 1_160_000;
/// What a record takes besides its data (append vec, `STORE_META_OVERHEAD`).
const RECORD_BYTES: u64 = 136;
/// Slots after which Agave's cache of new accounts is written to storages (a guess: 120 MB).
const FLUSH_EVERY: u64 = 100;
/// Lamports of each account that is added.
const LAMPORTS: u64 = 1_000_000_000;

/// What came out.
pub struct Grown {
    pub archive: PathBuf,
    pub slot: u64,
    pub accounts: u64,
}

/// Loads the archives, adds accounts in new slots until they take `bytes`, and writes a full archive
/// to `output`, all by Agave's own code.
///
/// The richest account of genesis pays for them, so the capitalization stays what it is.
pub fn grow(genesis: &GenesisConfig, places: &Places, bytes: u64, output: &Path) -> Result<Grown> {
    let bank = load::from_archives(genesis, places, Check::IndexToo)?;
    let (&payer, _) = genesis
        .accounts
        .iter()
        .max_by_key(|(key, _)| bank.get_balance(key))
        .context("the genesis has no accounts")?;
    let forks = BankForks::new_rw_arc(bank);
    let mut bank = forks.read().expect("no thread has panicked").root_bank();
    let mut content = Content::new();
    let mut written = 0;
    while written < bytes {
        let slot = bank.slot() + 1;
        let child = Bank::new_from_parent(bank.clone(), leader(&bank, slot)?, slot);
        let accounts = content.slot(SLOT_BYTES.min(bytes - written));
        written += accounts.iter().map(|(_, account)| record_bytes(account)).sum::<u64>();
        let mut rich = child.get_account(&payer).context("the payer is gone")?;
        if rich.checked_sub_lamports(LAMPORTS * accounts.len() as u64).is_err() {
            bail!("the richest account of this genesis cannot pay for so many accounts");
        }
        let new: Vec<_> =
            accounts.iter().map(|(key, account)| (key, account)).chain([(&payer, &rich)]).collect();
        child.store_accounts((child.slot(), new.as_slice()), None);
        child.fill_bank_with_ticks_for_tests();
        child.set_block_id(Some(child.last_blockhash()));
        child.squash();
        if child.slot().is_multiple_of(FLUSH_EVERY) {
            child.force_flush_accounts_cache();
        }
        bank = Arc::new(child);
    }
    let config = SnapshotConfig {
        full_snapshot_archives_dir: output.to_path_buf(),
        incremental_snapshot_archives_dir: output.to_path_buf(),
        archive_format: ArchiveFormat::TarZstd { config: ZstdConfig::default() },
        ..places.config().clone()
    };
    let archive = bank_to_full_snapshot_archive(&config, &bank)?;
    Ok(Grown { archive: archive.path().clone(), slot: bank.slot(), accounts: content.accounts })
}

/// The leader that a load expects.
fn leader(bank: &Bank, slot: u64) -> Result<SlotLeader> {
    let (epoch, index) = bank.get_epoch_and_slot_index(slot);
    let schedule = leader_schedule(epoch, bank).context("no leaders are known for this epoch")?;
    Ok(schedule.get_slot_leader_at_index(usize::try_from(index)?))
}

/// The size of the account's record in a storage: records begin at multiples of 8.
fn record_bytes(account: &AccountSharedData) -> u64 {
    use solana_account::ReadableAccount as _;
    (RECORD_BYTES + account.data().len() as u64).next_multiple_of(8)
}

/// Accounts in mainnet's proportions: 67 of 100 are token accounts, 8 are empty (wallets), 25 belong
/// to other programs, with up to 2 kB of data.
struct Content {
    /// State of a xorshift generator: the same archive each time.
    state: u64,
    token_program: Pubkey,
    programs: Vec<Pubkey>,
    mints: Vec<Pubkey>,
    accounts: u64,
}

impl Content {
    fn new() -> Self {
        let mut content = Self {
            state: 0x9E37_79B9_7F4A_7C15,
            token_program: Pubkey::default(),
            programs: Vec::new(),
            mints: Vec::new(),
            accounts: 0,
        };
        content.token_program = content.key();
        content.programs = (0..1000).map(|_| content.key()).collect();
        content.mints = (0..20_000).map(|_| content.key()).collect();
        content
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn key(&mut self) -> Pubkey {
        let mut key = [0; 32];
        key.chunks_mut(8).for_each(|part| part.copy_from_slice(&self.next().to_le_bytes()));
        Pubkey::new_from_array(key)
    }

    /// The accounts of one slot: together they take at least `bytes`.
    fn slot(&mut self, bytes: u64) -> Vec<(Pubkey, AccountSharedData)> {
        let mut accounts = Vec::new();
        let mut taken = 0;
        while taken < bytes {
            let account = self.account();
            taken += record_bytes(&account);
            accounts.push((self.key(), account));
        }
        self.accounts += accounts.len() as u64;
        accounts
    }

    fn account(&mut self) -> AccountSharedData {
        match self.next() % 100 {
            0..67 => {
                // An account of the token program: mint, owner, amount; the rest is mostly zero.
                let mut data = vec![0; 165];
                let mint = usize::try_from(self.next() % 20_000).expect("small");
                data[..32].copy_from_slice(self.mints[mint].as_ref());
                data[32..64].copy_from_slice(self.key().as_ref());
                let amount = self.next() >> (self.next() % 64);
                data[64..72].copy_from_slice(&amount.to_le_bytes());
                data[108] = 1;
                account(&data, self.token_program)
            }
            67..75 => account(&[], Pubkey::default()),
            _ => {
                let len = usize::try_from(self.next() % 2048).expect("small");
                // A quarter of what programs keep is keys and numbers, which do not compress.
                let mut data = vec![0; len];
                for part in data.chunks_mut(32) {
                    let (random, filled) = (self.next().to_le_bytes(), part.len().min(8));
                    part[..filled].copy_from_slice(&random[..filled]);
                }
                let owner = usize::try_from(self.next() % 1000).expect("small");
                account(&data, self.programs[owner])
            }
        }
    }
}

fn account(data: &[u8], owner: Pubkey) -> AccountSharedData {
    let mut account = AccountSharedData::new(LAMPORTS, 0, &owner);
    account.set_data_from_slice(data);
    account
}
