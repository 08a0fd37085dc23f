//! Verification of a state by its accounts: do they add up to the lattice hash in its bank file?
//!
//! Nothing else finds a byte that has changed on the disk: such a storage is still a sequence of
//! whole records, and every validator that loads it ends. All storages are read, which takes as long
//! as the disk needs, so only a state with which a validator has ended early is verified.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    os::fd::OwnedFd,
    path::Path,
    thread,
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use unsnap_layout::{ArchiveHash, ArchiveName, BankError, BankFacts, BankReader, Compression};
use unsnap_pass::{CancelToken, PassError, Phase, Progress, on_a_thread_of_its_own};
use unsnap_ring::{Admission, Bucket, Pace, Syscalls};
use unsnap_state::format::{
    NO_OBSOLETE_ACCOUNTS, OBSOLETE_ACCOUNTS, Storage, bank_file, check_obsolete_accounts,
};
use unsnap_unpack::Verify;
use unsnap_verify::accounts::{AccountsCheck, AccountsConfig, AccountsError, FileLook, StorageId};

use crate::{
    FastbootError, Places, Request,
    files::{failed, open_directory, read_small},
    request::Work,
    states::{listed, marked_states},
    withdraw::unmark_one,
};

/// Bytes of a storage that are read at once, and bytes that may wait for the threads that hash.
/// Guesses.
const PIECE_BYTES: usize = 1 << 20;
const QUEUE_BYTES_MAX: u64 = 64 << 20;

/// Interval at which a read that is held back looks whether the limit has changed. A guess.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Result of verifying a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The accounts add up to the bank file's hash.
    Sound,
    /// They do not. Holds the reason, in words.
    Wrong(String),
    /// The state cannot be verified. Holds the reason, in words.
    Unknown(String),
}

/// Verifies the state that a validator would load, if it is one of [`Request::suspects`], and
/// withdraws it if its accounts are wrong. Returns whether it was withdrawn. Its storages must all be
/// there: see [`repair`](crate::repair). Refused while a validator is running.
pub fn withdraw_wrong(
    request: &Request,
    calls: &Syscalls,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<bool, FastbootError> {
    if request.suspects.is_empty() {
        return Ok(false);
    }
    let (places, _lock) = request.places.settle_locked()?;
    Work { request, calls, progress, cancel }.withdraw_wrong_locked(&places)
}

impl Work<'_> {
    /// Verifies the suspect of the request, if it is the state that a validator would load, and
    /// withdraws it if it is wrong. Returns whether it was withdrawn. The ledger must be locked.
    pub fn withdraw_wrong_locked(&self, places: &Places) -> Result<bool, FastbootError> {
        let newest = marked_states(self.calls, places)?.into_iter().next();
        let Some((slot, directory)) =
            newest.filter(|(slot, _)| self.request.suspects.contains(slot))
        else {
            return Ok(false);
        };
        tracing::info!(slot, "verifying the state: a validator has ended early with it");
        match on_a_thread_of_its_own(|| self.verify(places, slot, &directory))? {
            Verdict::Sound => {
                tracing::info!(slot, "the accounts of the state add up to its hash");
                Ok(false)
            }
            Verdict::Unknown(reason) => {
                tracing::warn!(slot, reason, "the state cannot be verified");
                Ok(false)
            }
            Verdict::Wrong(reason) => {
                tracing::warn!(slot, reason, "the state is damaged and was withdrawn");
                unmark_one(self.calls, &directory)?;
                Ok(true)
            }
        }
    }

    /// Verifies a state whose storages are all there. The calling thread gets the limits of the
    /// request.
    fn verify(
        &self,
        places: &Places,
        slot: u64,
        directory: &Path,
    ) -> Result<Verdict, FastbootError> {
        self.request.pass.neighbour.settle()?;
        let memory_bytes = match self.request.verify {
            Verify::Accounts { memory_bytes } => memory_bytes,
            Verify::None | Verify::Structure => None,
        };
        let Self { request, calls, progress, cancel } = *self;
        let pace = request.pass.neighbour.pace.as_ref();
        let limited = Limited { pace, buckets: BTreeMap::new(), cancel };
        let state = State { calls, places, slot, directory };
        verify(&state, memory_bytes, progress, limited)
    }
}

/// A state on the disk.
struct State<'a> {
    calls: &'a Syscalls,
    places: &'a Places,
    slot: u64,
    directory: &'a Path,
}

fn verify(
    state: &State<'_>,
    memory_bytes: Option<u64>,
    progress: &Progress,
    limited: Limited<'_>,
) -> Result<Verdict, FastbootError> {
    let calls = state.calls;
    let at = |errno| failed("verify the state in", state.directory, errno);
    let opened = open_directory(calls, state.directory)?;
    let storages = match listed(calls, &opened).map_err(at)? {
        Ok(storages) => storages,
        Err(condition) => return Ok(Verdict::Unknown(format!("{condition:?}"))),
    };
    // Accounts that are not loaded would have to be left out of the sum. Only validators write such
    // lists.
    let most = NO_OBSOLETE_ACCOUNTS.len() as u64;
    match read_small(calls, &opened, OBSOLETE_ACCOUNTS, most) {
        Ok(Some(bytes)) if check_obsolete_accounts(&bytes).is_ok() => {}
        Ok(_) | Err(Errno::FBIG) => {
            return Ok(Verdict::Unknown("it lists obsolete accounts".to_owned()));
        }
        Err(errno) => return Err(at(errno)),
    }
    let facts = match state.bank(&opened)? {
        Ok(facts) => facts,
        Err(error) => return Ok(Verdict::Wrong(error.to_string())),
    };
    let files = Files::find(state, &storages)?;
    match files.sum(calls, memory_bytes, progress, limited)? {
        Ok(hash) => Ok(state.compare(&facts, hash)),
        Err(verdict) => Ok(verdict),
    }
}

impl State<'_> {
    /// Reads the bank file.
    fn bank(&self, opened: &OwnedFd) -> Result<Result<BankFacts, BankError>, FastbootError> {
        let path = self.directory.join(bank_file(self.slot));
        let failed = |errno| failed("read", &path, errno);
        let file = self.calls.openat(opened, &*bank_file(self.slot), READ, Mode::empty());
        let file = file.map_err(failed)?;
        let length = self.calls.fstat(&file).map_err(failed)?.st_size;
        let mut reader = BankReader::new(u64::try_from(length).unwrap_or(0));
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let count = self.calls.read(&file, &mut buffer).map_err(failed)?;
            if count == 0 {
                return Ok(reader.finish());
            }
            if let Err(error) = reader.push(&buffer[..count]) {
                return Ok(Err(error));
            }
        }
    }

    /// Compares the hash of the accounts with that in the bank file, as if it were in the name of an
    /// archive.
    fn compare(&self, facts: &BankFacts, hash: [u8; 32]) -> Verdict {
        let (slot, hash) = (self.slot, ArchiveHash::new(hash));
        match facts.prove(&ArchiveName::Full { slot, hash, compression: Compression::Zstd }) {
            Ok(_) => Verdict::Sound,
            Err(error @ BankError::NoLatticeHash { .. }) => Verdict::Unknown(error.to_string()),
            Err(BankError::WrongLatticeHash { .. }) => {
                Verdict::Wrong("the accounts do not add up to the hash in its bank file".to_owned())
            }
            Err(error) => Verdict::Wrong(error.to_string()),
        }
    }
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The storages of a state.
struct Files {
    /// The directories with their names.
    directories: Vec<OwnedFd>,
    /// The storages, each with the index of its directory.
    storages: Vec<(Storage, usize)>,
    /// For an unnamed temporary file.
    spill: Option<File>,
}

impl Files {
    fn find(state: &State<'_>, storages: &[Storage]) -> Result<Self, FastbootError> {
        let mut homes: HashMap<String, usize> = HashMap::new();
        let mut directories = Vec::new();
        for path in state.places.run_directories() {
            let directory = open_directory(state.calls, &path)?;
            let entries = state.calls.entries(&directory);
            for (name, _) in entries.map_err(|errno| failed("read", &path, errno))? {
                homes.insert(name.to_string_lossy().into_owned(), directories.len());
            }
            directories.push(directory);
        }
        let mut found = Vec::with_capacity(storages.len());
        for storage in storages {
            let name = storage.to_string();
            let home = homes.get(&name);
            let home = home.ok_or_else(|| failed("find", name.as_ref(), Errno::NOENT))?;
            found.push((*storage, *home));
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let spill = state.calls.open(&state.places.snapshots, flags);
        let spill = spill.inspect_err(|errno| tracing::debug!(%errno, "no temporary file"));
        Ok(Self { directories, storages: found, spill: spill.ok().map(File::from) })
    }

    /// Returns the checksum of all accounts, or the verdict if they have none.
    fn sum(
        mut self,
        calls: &Syscalls,
        memory_bytes: Option<u64>,
        progress: &Progress,
        mut limited: Limited<'_>,
    ) -> Result<Result<[u8; 32], Verdict>, FastbootError> {
        let mut config = AccountsConfig {
            queue_bytes_max: QUEUE_BYTES_MAX,
            spill: self.spill.take(),
            ..AccountsConfig::default()
        };
        if let Some(bytes) = memory_bytes {
            config.memory_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        let check = AccountsCheck::new(config).map_err(PassError::thread)?;
        progress.begin_files(Phase::Verifying);
        progress.expect_files(self.storages.len() as u64);
        let mut stream = check.stream();
        for (storage, home) in &self.storages {
            let name = storage.to_string();
            let opened = calls.openat(&self.directories[*home], &*name, READ, Mode::empty());
            let read = opened.and_then(|file| Ok((calls.fstat(&file)?, file)));
            let (size, device, file) = match read {
                Ok((stat, file)) => (u64::try_from(stat.st_size).unwrap_or(0), stat.st_dev, file),
                Err(errno) => return unreadable(&name, errno),
            };
            if let Err(error) = stream.begin(storage.slot, storage.id.into(), size) {
                return Ok(Err(judge(&error)));
            }
            loop {
                let mut piece = vec![0; limited.piece_bytes()];
                match calls.read(&file, &mut piece) {
                    Ok(0) => break,
                    Ok(count) => piece.truncate(count),
                    Err(errno) => return unreadable(&name, errno),
                }
                limited.admit(device, piece.len() as u64)?;
                if let Err(error) = stream.piece(piece) {
                    return Ok(Err(judge(&error)));
                }
            }
            if let Err(error) = stream.end() {
                return Ok(Err(judge(&error)));
            }
            progress.count_file();
        }
        drop(stream);
        let home = |(storage, home): &(Storage, usize)| ((storage.slot, storage.id.into()), *home);
        let homes: HashMap<(u64, u64), usize> = self.storages.iter().map(home).collect();
        let mut look = FileLook::new(|storage: &StorageId| {
            let home = homes.get(&(storage.slot, storage.id)).copied();
            let home = home.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            let name = format!("{}.{}", storage.slot, storage.id);
            Ok(calls.openat(&self.directories[home], &*name, READ, Mode::empty())?.into())
        });
        match check.finish(&mut look) {
            Ok(summary) => Ok(Ok(summary.hash.checksum())),
            Err(error) => Ok(Err(judge(&error))),
        }
    }
}

/// The rate limit of the request, for reads: beside another validator they take as much from a disk as
/// writes.
struct Limited<'a> {
    pace: Option<&'a Pace>,
    /// One for each device.
    buckets: BTreeMap<u64, Bucket>,
    cancel: &'a CancelToken,
}

impl Limited<'_> {
    /// Waits until so many bytes of a device may be read; they have been. Fails when the caller asks to
    /// stop.
    fn admit(&mut self, device: u64, bytes: u64) -> Result<(), FastbootError> {
        let is_over = || self.cancel.is_cancelled();
        if let Some(pace) = self.pace {
            let bucket = self.buckets.entry(device).or_insert_with(|| Bucket::new(pace.clone()));
            while !is_over() {
                match bucket.admit(bytes) {
                    Admission::Granted => break,
                    Admission::Later(time) => thread::sleep(time.min(LOOK_EVERY)),
                    Admission::Paused => pace.wait_while_paused(is_over),
                }
            }
        }
        if is_over() { Err(FastbootError::CANCELLED) } else { Ok(()) }
    }

    fn piece_bytes(&self) -> usize {
        let most = self.pace.and_then(Bucket::piece_bytes);
        most.map_or(PIECE_BYTES, |most| most.min(PIECE_BYTES))
    }
}

/// Returns the verdict on a storage that cannot be read: a validator fails on it as well.
fn unreadable<T>(name: &str, errno: Errno) -> Result<Result<T, Verdict>, FastbootError> {
    match errno {
        Errno::IO | Errno::NOENT => Ok(Err(Verdict::Wrong(format!("{name}: {errno}")))),
        errno => Err(failed("read", name.as_ref(), errno)),
    }
}

/// Returns the verdict on accounts that have no sum.
fn judge(error: &AccountsError) -> Verdict {
    match error {
        AccountsError::Storage(_) | AccountsError::TooManyLamports { .. } => {
            Verdict::Wrong(error.to_string())
        }
        // Too little memory and no disk for the rest, or accounts of which no version is newer.
        error => Verdict::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
