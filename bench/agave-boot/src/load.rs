//! The validator's start, as far as snapshots go: which of its functions are called, in which
//! order. Each step names its place in the published 4.2.2 sources.

use agave_snapshots::paths as snapshot_paths;
use agave_snapshots::snapshot_archive_info::SnapshotArchiveInfoGetter as _;
use agave_snapshots::snapshot_config::SnapshotConfig;
use anyhow::{Context, Result, anyhow, bail};
use solana_accounts_db::accounts_db::AccountsDbConfig;
use solana_accounts_db::utils::{
    create_all_accounts_run_and_snapshot_dirs, create_and_canonicalize_directories,
    create_and_canonicalize_directory,
};
use solana_genesis_config::GenesisConfig;
use solana_runtime::bank::Bank;
use solana_runtime::runtime_config::RuntimeConfig;
use solana_runtime::snapshot_bank_utils::{
    bank_from_latest_snapshot_archives, bank_from_snapshot_dir,
};
use solana_runtime::snapshot_utils::{self, BankSnapshotInfo};
use std::any::Any;
use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Where the validator's code works.
pub struct Places {
    config: SnapshotConfig,
    /// The run/ of each accounts path: what the validator calls account paths from there on.
    run_dirs: Vec<PathBuf>,
}

/// What a validator in when-newest mode starts from.
pub enum Source {
    /// A bank snapshot directory: fastboot.
    Directory(Box<BankSnapshotInfo>),
    /// The archives, with the reason; all that was prepared would be deleted.
    Archives(&'static str),
    /// Genesis, because there is no full archive; all that was prepared would be deleted.
    Genesis,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(bank_snapshot) => write!(f, "directory of slot {}", bank_snapshot.slot),
            Self::Archives(reason) => write!(f, "archives: {reason}"),
            Self::Genesis => write!(f, "genesis: no full archive"),
        }
    }
}

impl Places {
    /// Creates what is missing and deletes what the validator deletes before it looks for
    /// snapshots.
    ///
    /// `snapshots` and `accounts` are what the validator is given under these flags' names.
    pub fn prepare(snapshots: &Path, accounts: &[PathBuf], archives: PathBuf) -> Result<Self> {
        // agave-validator: commands/run/execute.rs, execute() and new_snapshot_config().
        let accounts = create_and_canonicalize_directories(accounts)
            .context("unable to access account path")?;
        let (run_dirs, _snapshot_dirs) = create_all_accounts_run_and_snapshot_dirs(&accounts)
            .context("unable to create account directories")?;
        let snapshots = create_and_canonicalize_directory(snapshots)
            .context("failed to create snapshots directory")?;
        if accounts.contains(&snapshots) {
            bail!("the --accounts and --snapshots paths must be unique");
        }
        let bank_snapshots_dir = snapshots.join(snapshot_paths::BANK_SNAPSHOTS_DIR);
        fs::create_dir_all(&bank_snapshots_dir)
            .context("failed to create bank snapshots directory")?;
        let config = SnapshotConfig {
            bank_snapshots_dir,
            full_snapshot_archives_dir: archives.clone(),
            incremental_snapshot_archives_dir: archives,
            // Neither decides what is loaded; scratch may be on a tmpfs, and locked memory scarce.
            use_direct_io: false,
            use_registered_io_uring_buffers: false,
            ..SnapshotConfig::new_load_only()
        };
        // solana-core: validator.rs, Validator::new_with_exit().
        snapshot_utils::purge_incomplete_bank_snapshots(&config.bank_snapshots_dir);
        snapshot_utils::purge_old_bank_snapshots_at_startup(&config.bank_snapshots_dir);
        Ok(Self { config, run_dirs })
    }

    /// What the validator's code is told about snapshots.
    pub fn config(&self) -> &SnapshotConfig {
        &self.config
    }
}

/// What is checked while a bank is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// What a validator checks.
    AsValidator,
    /// Its index of accounts, too: all storages are read a second time.
    IndexToo,
}

/// Reads the genesis; the validator's code wants it under this name.
pub fn genesis(genesis: &Path) -> Result<GenesisConfig> {
    let dir = tempfile::tempdir().context("cannot make a scratch directory")?;
    fs::copy(genesis, dir.path().join("genesis.bin"))
        .with_context(|| format!("cannot read {}", genesis.display()))?;
    GenesisConfig::load(dir.path()).with_context(|| format!("cannot load {}", genesis.display()))
}

/// The choice of solana-ledger: bank_forks_utils.rs, try_load_bank_forks_from_snapshot(), in
/// when-newest mode. That crate is not a dependency because it brings RocksDB with it.
pub fn choose(places: &Places) -> Source {
    let config = &places.config;
    let Some(full) =
        snapshot_paths::get_highest_full_snapshot_archive_info(&config.full_snapshot_archives_dir)
    else {
        return Source::Genesis;
    };
    let incremental = snapshot_paths::get_highest_incremental_snapshot_archive_info(
        &config.incremental_snapshot_archives_dir,
        full.slot(),
    );
    let latest = incremental.map_or(full.slot(), |archive| archive.slot().max(full.slot()));
    match snapshot_utils::get_highest_loadable_bank_snapshot(config) {
        None => Source::Archives("no loadable directory"),
        Some(bank_snapshot) if bank_snapshot.slot < latest => {
            Source::Archives("the archives are newer than the directory")
        }
        Some(bank_snapshot) => Source::Directory(Box::new(bank_snapshot)),
    }
}

/// Unpacks and loads the highest archives. All of Agave's checks are on: the hash in the name,
/// capitalization, accounts lt hash, bank hash.
pub fn from_archives(genesis: &GenesisConfig, places: &Places, check: Check) -> Result<Bank> {
    guarded(|| {
        let (bank, _full, _incremental) = bank_from_latest_snapshot_archives(
            &places.run_dirs,
            &places.config,
            genesis,
            &RuntimeConfig::default(),
            None,  // debug_keys
            None,  // limit_load_slot_count_from_snapshot
            true,  // accounts_db_skip_shrink
            false, // accounts_db_force_initial_clean
            check == Check::IndexToo,
            accounts_db_config(),
            None, // accounts_update_notifier
            Arc::new(AtomicBool::new(false)),
        )?;
        Ok(bank)
    })
}

/// Fastboots. All of Agave's checks are on: capitalization, accounts lt hash, bank hash.
pub fn from_directory(
    genesis: &GenesisConfig,
    places: &Places,
    bank_snapshot: &BankSnapshotInfo,
    check: Check,
) -> Result<Bank> {
    guarded(|| {
        bank_from_snapshot_dir(
            &places.run_dirs,
            bank_snapshot,
            genesis,
            &RuntimeConfig::default(),
            None, // debug_keys
            None, // leader_for_tests
            None, // limit_load_slot_count_from_snapshot
            check == Check::IndexToo,
            accounts_db_config(),
            None, // accounts_update_notifier
            Arc::new(AtomicBool::new(false)),
        )
    })
}

fn accounts_db_config() -> AccountsDbConfig {
    // Calculating the accounts lt hash is part of this call in 4.2.2, nothing runs on behind it.
    AccountsDbConfig { skip_initial_hash_calc: false, ..AccountsDbConfig::default() }
}

/// The validator's code panics where a check fails late; a validator would end there.
fn guarded(load: impl FnOnce() -> agave_snapshots::Result<Bank>) -> Result<Bank> {
    match catch_unwind(AssertUnwindSafe(load)) {
        // Without its sources: Agave's errors repeat them.
        Ok(loaded) => loaded.map_err(|error| anyhow!("{error}")),
        Err(panic) => Err(anyhow!("panicked: {}", panic_message(panic.as_ref()))),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)")
}
