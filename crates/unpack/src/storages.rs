//! Checks of storages during the walk.

use std::{
    collections::HashMap,
    fs::File,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::fs::{OFlags, ResolveFlags};
use unsnap_arena::Slice;
use unsnap_decode::Position;
use unsnap_layout::Role;
use unsnap_pass::{PassError, ProvenBank, Span};
use unsnap_ring::Syscalls;
use unsnap_verify::accounts::{
    AccountsCheck, AccountsConfig, AccountsStream, AccountsSummary, FileLook, SecondLook, StorageId,
};

use crate::{
    UnpackError, Verify,
    report::AccountsReport,
    structure::{StructureCheck, checkers},
};

/// Check of one archive's storages.
pub(crate) enum StorageCheck {
    Nothing,
    /// Every storage is a sequence of whole records.
    Structure {
        check: Box<StructureCheck>,
        /// Whether a storage is being received.
        open: bool,
    },
    /// As `Structure`, and the accounts are summed up.
    Accounts {
        stream: AccountsStream<Slice>,
        /// Whether a storage is being received.
        open: bool,
    },
}

impl StorageCheck {
    /// Returns the check of an archive that so many threads decode.
    pub fn structure(decode_threads: usize) -> Result<Self, PassError> {
        let check = StructureCheck::start(checkers(decode_threads))?;
        Ok(Self::Structure { check: Box::new(check), open: false })
    }

    /// Begins a file.
    pub fn begin(
        &mut self,
        archive: &str,
        role: Role,
        size: u64,
        at: Position,
    ) -> Result<(), UnpackError> {
        let Role::Storage { slot, id } = role else { return Ok(()) };
        let id = u64::from(id);
        match self {
            Self::Nothing => {}
            Self::Structure { check, open } => {
                let begun = check.begin(slot, id, size);
                begun.map_err(|error| PassError::storage(archive, error, at))?;
                *open = true;
            }
            Self::Accounts { stream, open } => {
                let begun = stream.begin(slot, id, size);
                begun.map_err(|error| UnpackError::accounts(archive, error))?;
                *open = true;
            }
        }
        Ok(())
    }

    /// Takes the next bytes of the current file; `last` marks its end.
    pub fn take(&mut self, archive: &str, span: &Span<'_>, last: bool) -> Result<(), UnpackError> {
        match self {
            Self::Structure { check, open: true } => check.part(span.slice(), last, span.at),
            Self::Accounts { stream, open: true } => {
                let mut taken = stream.piece(span.slice());
                if last {
                    taken = taken.and_then(|()| stream.end());
                }
                taken.map_err(|error| UnpackError::accounts(archive, error))?;
            }
            Self::Nothing
            | Self::Structure { open: false, .. }
            | Self::Accounts { open: false, .. } => {}
        }
        if let (Self::Structure { open, .. } | Self::Accounts { open, .. }, true) = (self, last) {
            *open = false;
        }
        Ok(())
    }

    /// Ends a segment.
    pub fn segment_end(&mut self, archive: &str) -> Result<(), UnpackError> {
        match self {
            Self::Structure { check, .. } => Ok(check.segment_end(archive)?),
            Self::Nothing | Self::Accounts { .. } => Ok(()),
        }
    }

    /// Waits until the structure of everything so far is checked. Returns the first error in stream
    /// order.
    pub fn settle(&mut self, archive: &str) -> Result<(), UnpackError> {
        match self {
            Self::Structure { check, .. } => Ok(check.settle(archive)?),
            Self::Nothing | Self::Accounts { .. } => Ok(()),
        }
    }
}

/// Place of a storage.
#[derive(Clone, Copy, Debug)]
struct Placed {
    destination: usize,
    /// Number in its file name there.
    id: u32,
}

/// Verification of the accounts of all archives of a run.
pub(crate) struct AccountsVerification {
    check: AccountsCheck<Slice>,
    /// Places of storages, by slot. Each slot has one storage.
    placed: Placements,
}

/// Places of storages, recorded by the walks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placements(Arc<Mutex<HashMap<u64, Placed>>>);

impl Placements {
    pub fn note(&self, slot: u64, destination: usize, path: &str) {
        let id = path.rsplit_once('.').and_then(|(_, id)| id.parse().ok());
        if let Some(id) = id {
            let mut placed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            placed.insert(slot, Placed { destination, id });
        }
    }

    fn of(&self, slot: u64) -> Option<Placed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&slot).copied()
    }
}

impl AccountsVerification {
    /// Starts the threads, if accounts are to be verified. `spill` takes the data that does not fit
    /// into memory.
    pub fn start(verify: Verify, spill: Option<File>) -> Result<Option<Self>, PassError> {
        let Verify::Accounts { memory_bytes } = verify else { return Ok(None) };
        let mut config = AccountsConfig { spill, ..AccountsConfig::default() };
        if let Some(bytes) = memory_bytes {
            config.memory_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        let check = AccountsCheck::new(config).map_err(PassError::thread)?;
        Ok(Some(Self { check, placed: Placements::default() }))
    }

    /// Returns the check for the storages of one more archive.
    pub fn stream(&self) -> (StorageCheck, Placements) {
        let stream = self.check.stream();
        (StorageCheck::Accounts { stream, open: false }, self.placed.clone())
    }

    /// Returns the places of storages.
    pub fn placements(&self) -> Placements {
        self.placed.clone()
    }

    /// Finds the newest version of each account and compares the sums with the bank file of the
    /// newest archive. `look` reads accounts again that occur twice.
    pub fn finish(
        self,
        archive: &str,
        bank: Option<&ProvenBank>,
        look: &mut dyn SecondLook,
    ) -> Result<AccountsReport, UnpackError> {
        let failed = |error| UnpackError::accounts(archive, error);
        let summary = self.check.finish(look).map_err(failed)?;
        let Some(bank) = bank else {
            let reason = format!("{archive} has no bank file to verify its accounts by (a bug)");
            return Err(PassError::request(reason).into());
        };
        summary.expect_checksum(&bank.checksum).map_err(failed)?;
        summary.expect_capitalization(bank.facts.capitalization).map_err(failed)?;
        let found = summary.accounts + summary.closed_accounts + summary.older_versions;
        if found != summary.records {
            let reason =
                format!("{found} of {} records are accounted for (a bug)", summary.records);
            return Err(PassError::request(reason).into());
        }
        Ok(report(&summary))
    }
}

fn report(summary: &AccountsSummary) -> AccountsReport {
    AccountsReport {
        accounts: summary.accounts,
        capitalization: summary.capitalization,
        closed_accounts: summary.closed_accounts,
        records: summary.records,
        older_versions: summary.older_versions,
        looked_at: summary.looked_at,
        spilt_bytes: summary.spilt_bytes,
        archives: Vec::new(),
    }
}

/// Returns a look that reads records from unpacked files. `directories` are those of the
/// destinations.
pub(crate) fn look_into_files<'a>(
    calls: &'a Syscalls,
    directories: &'a [OwnedFd],
    placements: Placements,
    flat: bool,
    mut before_each: impl FnMut() + 'a,
) -> FileLook<impl FnMut(&StorageId) -> std::io::Result<File> + 'a> {
    FileLook::new(move |storage: &StorageId| {
        before_each();
        let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let Placed { destination, id } = placements.of(storage.slot).ok_or_else(missing)?;
        let directory = directories.get(destination).ok_or_else(missing)?;
        let name = format!("{}.{id}", storage.slot);
        let path = if flat || destination > 0 { name } else { format!("accounts/{name}") };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(calls.openat2(directory, path.as_str(), flags, resolve)?.into())
    })
}
