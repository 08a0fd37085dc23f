//! Clusters: a state is made only from archives of the ledger's own cluster.
//!
//! An archive does not name its cluster, but its bank file has the time of the cluster's genesis, and
//! its hard forks. The ledger's `genesis.bin` has the time in its first eight bytes
//! (`solana-genesis-config`, `creation_time`); the SHA-256 hash of the whole file is the genesis hash.
//! Mainnet, testnet and devnet differ in all of these.
//!
//! The shred version follows from the genesis hash and the hard forks, so it tells the forks of one
//! cluster apart. A validator computes it from the state that it loads, and ends if its command line
//! expects another ([`ExpectedCluster`]). What would end it like this is not prepared.

use std::path::Path;

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use sha2::{Digest, Sha256};
use unsnap_failure::Remedy;
use unsnap_layout::{ArchiveHash, BankFacts, BankReader, HardFork};
use unsnap_ring::Syscalls;
use unsnap_state::format::bank_file;

use crate::{
    FastbootError,
    files::{failed, open_directory},
};

/// Name of the genesis in a ledger.
const GENESIS: &str = "genesis.bin";

/// Longest genesis that is hashed. Agave's own limit is 10 MiB; a flag raises it. A guess.
const GENESIS_BYTES_MAX: u64 = 1 << 30;

/// Bytes of a file that are read at once. A guess.
const PIECE_BYTES: usize = 1 << 16;

/// What a validator's command line says about its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedCluster {
    /// `--expected-genesis-hash`
    pub genesis_hash: Option<ArchiveHash>,
    /// `--expected-shred-version`
    pub shred_version: Option<u16>,
    /// All occurrences of `--hard-fork`.
    pub hard_forks: Vec<u64>,
}

/// The cluster of a ledger, as far as it is known.
#[derive(Debug)]
pub(crate) struct Cluster<'a> {
    ledger: &'a Path,
    expected: &'a ExpectedCluster,
    genesis: Option<Genesis>,
}

/// The genesis of a ledger.
#[derive(Debug)]
struct Genesis {
    /// Its time, in seconds since 1970.
    time: i64,
    /// Its hash, if somebody expects one.
    hash: Option<ArchiveHash>,
}

impl<'a> Cluster<'a> {
    /// Reads the genesis of a ledger. Refuses one whose hash is not the expected one.
    pub fn of(
        calls: &Syscalls,
        ledger: &'a Path,
        expected: &'a ExpectedCluster,
    ) -> Result<Self, FastbootError> {
        let is_hashed = expected.genesis_hash.is_some() || expected.shred_version.is_some();
        let genesis = Genesis::read(calls, ledger, is_hashed)?;
        let found = genesis.as_ref().and_then(|genesis| genesis.hash);
        if let (Some(expected), Some(found)) = (expected.genesis_hash, found)
            && expected != found
        {
            let reason = format!(
                "{} is of another cluster: its hash is {found}, but the validator expects {expected} \
                 (--expected-genesis-hash)",
                ledger.join(GENESIS).display()
            );
            let remedy = Remedy::advice("correct the flag, or name the ledger of its cluster");
            return Err(FastbootError::request(reason, Some(remedy)));
        }
        Ok(Self { ledger, expected, genesis })
    }

    /// Refuses an archive whose cluster's genesis was at another time than the ledger's.
    pub fn refuse_other(&self, archive: &Path, archives_genesis: i64) -> Result<(), FastbootError> {
        let own = self.genesis.as_ref().map(|genesis| genesis.time);
        let Some(own) = own.filter(|own| *own != archives_genesis) else {
            return Ok(());
        };
        let reason = format!(
            "{} is of another cluster: its genesis was at Unix time {archives_genesis}, that of the \
             ledger {} at {own}",
            archive.display(),
            self.ledger.display()
        );
        let remedy = Remedy::advice(
            "remove the archive, or name the ledger of its cluster; if the ledger is to change \
             clusters, remove its genesis.bin first",
        );
        Err(FastbootError::request(reason, Some(remedy)))
    }

    /// Refuses an archive from which the validator would compute another shred version than the one
    /// that it expects. Of a pair, this is the incremental one.
    pub fn refuse_version(&self, archive: &Path, facts: &BankFacts) -> Result<(), FastbootError> {
        let remedy = "remove the archive, or correct the flag";
        self.compare(archive, facts.slot, facts.hard_forks.as_deref(), remedy)
    }

    /// Refuses a state in the same way. One whose bank file cannot be read is not judged.
    pub fn refuse_state(
        &self,
        calls: &Syscalls,
        directory: &Path,
        slot: u64,
    ) -> Result<(), FastbootError> {
        if self.expected.shred_version.is_none() {
            return Ok(());
        }
        let forks = hard_forks_of_state(calls, directory, slot).unwrap_or_else(|errno| {
            let error = failed("read the bank file in", directory, errno);
            tracing::debug!(%error, "the shred version of the state is not known");
            None
        });
        let remedy = "withdraw the state (ledger-tool fastboot withdraw), or correct the flag";
        self.compare(directory, slot, forks.as_deref(), remedy)
    }

    fn compare(
        &self,
        path: &Path,
        slot: u64,
        forks: Option<&[HardFork]>,
        remedy: &'static str,
    ) -> Result<(), FastbootError> {
        let Some(expected) = self.expected.shred_version else { return Ok(()) };
        let own = self.genesis.as_ref().and_then(|genesis| genesis.hash);
        // Without a genesis the validator fetches one, and ends if it is not the expected one.
        let (Some(genesis), Some(forks)) = (own.or(self.expected.genesis_hash), forks) else {
            tracing::info!(path = %path.display(), "the shred version is not known, nor checked");
            return Ok(());
        };
        let forks = with_new_forks(forks, slot, &self.expected.hard_forks);
        let found = shred_version(genesis.as_bytes(), &forks);
        if found == expected {
            return Ok(());
        }
        let reason = format!(
            "{} is of another cluster, or of another fork of it: its shred version is {found}, but the \
             validator expects {expected} (--expected-shred-version)",
            path.display()
        );
        Err(FastbootError::request(reason, Some(Remedy::advice(remedy))))
    }
}

impl Genesis {
    /// Reads the genesis of a ledger; `None` if it has none yet, or not all of it: a validator fetches
    /// it when it starts for the first time.
    fn read(
        calls: &Syscalls,
        ledger: &Path,
        is_hashed: bool,
    ) -> Result<Option<Self>, FastbootError> {
        let read = |errno| failed("read", &ledger.join(GENESIS), errno);
        let directory = open_directory(calls, ledger)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match calls.openat(&directory, GENESIS, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(read(errno)),
        };
        let (mut time, mut hasher, mut length) = (Vec::with_capacity(8), Sha256::new(), 0);
        let mut piece = vec![0; PIECE_BYTES];
        while time.len() < 8 || (is_hashed && length <= GENESIS_BYTES_MAX) {
            let count = calls.pread(&file, &mut piece, length).map_err(read)?;
            let Some(bytes) = piece.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
            time.extend(bytes.iter().take(8 - time.len()));
            hasher.update(bytes);
            length += count as u64;
        }
        let Some(time) = time.first_chunk() else { return Ok(None) };
        let is_whole = is_hashed && length <= GENESIS_BYTES_MAX;
        let hash = is_whole.then(|| ArchiveHash::new(hasher.finalize().into()));
        Ok(Some(Self { time: i64::from_le_bytes(*time), hash }))
    }
}

/// Returns the hard forks in the bank file of a state; `None` if they are not known. Reads only the
/// beginning of the file.
fn hard_forks_of_state(
    calls: &Syscalls,
    directory: &Path,
    slot: u64,
) -> Result<Option<Vec<HardFork>>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = calls.open(&directory.join(bank_file(slot)), flags)?;
    let length = u64::try_from(calls.fstat(&file)?.st_size).unwrap_or(0);
    let mut reader = BankReader::new(length);
    let mut piece = vec![0; PIECE_BYTES];
    while reader.hard_forks().is_none() {
        let count = calls.read(&file, &mut piece)?;
        if count == 0 || reader.push(&piece[..count]).is_err() {
            return Ok(None);
        }
    }
    Ok(reader.hard_forks().map(<[_]>::to_vec))
}

/// Returns the hard forks of a validator that has loaded the bank of a slot. Like `agave-validator`
/// 4.2.2 (`Bank::register_hard_fork`), it leaves out those on its command line that are not newer than
/// the bank.
fn with_new_forks(forks: &[HardFork], slot: u64, new: &[u64]) -> Vec<HardFork> {
    let mut forks = forks.to_vec();
    for &new in new.iter().filter(|new| **new > slot) {
        match forks.iter_mut().find(|fork| fork.slot == new) {
            Some(fork) => fork.count = fork.count.saturating_add(1),
            None => forks.push(HardFork { slot: new, count: 1 }),
        }
    }
    forks.sort_by_key(|fork| (fork.slot, fork.count));
    forks
}

/// Returns the shred version, as `solana-shred-version` 3.0.1 computes it.
fn shred_version(genesis: &[u8; 32], forks: &[HardFork]) -> u16 {
    let mut hash = *genesis;
    for fork in forks {
        let mut hasher = Sha256::new();
        hasher.update(hash);
        hasher.update(fork.slot.to_le_bytes());
        hasher.update(fork.count.to_le_bytes());
        hash = hasher.finalize().into();
    }
    let (pairs, _) = hash.as_chunks();
    let folded = pairs.iter().fold(0, |version, pair| version ^ u16::from_be_bytes(*pair));
    // 0 means that there is none.
    folded.saturating_add(1)
}

#[cfg(test)]
mod tests;
