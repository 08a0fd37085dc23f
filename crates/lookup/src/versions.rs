//! Versions of accounts, and the choice of the newest.

use std::{num::NonZeroUsize, ops::ControlFlow};

use twox_hash::XxHash3_64;
use unsnap_commit::Target;
use unsnap_layout::append_vec::RecordHeader;
use unsnap_pass::{
    Archive, Handles, Options, PassError,
    ordered::{self, Submit, Times},
};
use unsnap_source::DigestKind;
use unsnap_unpack::{CheckOutputs, DigestUse, Report, Single, Unpacker};
use unsnap_verify::accounts::{
    AccountsError,
    entries::{Entries, Gathered, PARTITIONS, Place, Remembered, sorting, u64_at},
};

use crate::{
    LookupError,
    records::{Batch, Records, StorageTap},
};

/// Default memory for remembered accounts in bytes; the rest goes to a temporary file.
pub const MEMORY_BYTES: usize = 1 << 30;

/// A version of an account: the remembered part of a record.
///
/// The full public key is kept instead of a fingerprint, so that no record is read again and
/// accounts are in the order of their keys. An archive made to have most keys begin alike is
/// refused with [`AccountsError::PartitionTooLarge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub pubkey: [u8; 32],
    /// Number of the archive.
    pub side: u8,
    pub slot: u64,
    pub place: Place,
    pub lamports: u64,
    pub data_len: u32,
    /// Keyed digest of the account's content, the same for equal accounts.
    pub digest: u64,
}

impl Remembered for Version {
    const BYTES: usize = 32 + 1 + 8 + 8 + 8 + 4 + 8;

    fn sort_bits(&self) -> u64 {
        // Most significant byte first, so that partitions are in the order of keys.
        self.pubkey[..8].iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.pubkey);
        bytes.push(self.side);
        bytes.extend(self.slot.to_le_bytes());
        bytes.extend(self.place.to_bits().to_le_bytes());
        bytes.extend(self.lamports.to_le_bytes());
        bytes.extend(self.data_len.to_le_bytes());
        bytes.extend(self.digest.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        let mut pubkey = [0; 32];
        pubkey.copy_from_slice(&bytes[..32]);
        let mut data_len = [0; 4];
        data_len.copy_from_slice(&bytes[57..61]);
        Self {
            pubkey,
            side: bytes[32],
            slot: u64_at(bytes, 33),
            place: Place::from_bits(u64_at(bytes, 41)),
            lamports: u64_at(bytes, 49),
            data_len: u32::from_le_bytes(data_len),
            digest: u64_at(bytes, 61),
        }
    }
}

/// All versions of all accounts, in memory and in a temporary file.
pub(crate) struct Versions {
    entries: Entries<Version>,
    gathered: Gathered<Version>,
    memory_bytes_max: usize,
}

impl Versions {
    /// Creates an empty set. Versions beyond so many bytes go to an unnamed file in the directory
    /// for temporary files.
    pub fn new(memory_bytes_max: usize) -> Self {
        let entries = Entries::new(memory_bytes_max, Target::temporary_file(None));
        Self { entries, gathered: Gathered::new(), memory_bytes_max }
    }

    pub fn remember(&mut self, version: Version) -> Result<(), AccountsError> {
        self.gathered.push(version, &self.entries)
    }

    /// Shows the versions of each account to `see`, from the oldest of the first archive to the
    /// newest of the last archive. Accounts are in the order of their public keys. An error names
    /// `archive`.
    pub fn each(
        mut self,
        archive: &str,
        mut see: impl FnMut(&[Version]) -> Result<(), LookupError>,
    ) -> Result<(), LookupError> {
        let failed = |error| LookupError::accounts(archive, error);
        self.gathered.flush(&self.entries).map_err(failed)?;
        sorting(&self.entries, self.memory_bytes_max).map_err(failed)?;
        for index in 0..PARTITIONS {
            let mut versions = self.entries.take(index).map_err(failed)?;
            versions.sort_unstable();
            for account in versions.chunk_by(|one, other| one.pubkey == other.pubkey) {
                see(account)?;
            }
        }
        Ok(())
    }
}

/// Returns the newest of an account's versions in one archive, which are in order. Fails if two
/// have the same slot.
pub(crate) fn newest<'v>(
    archive: &str,
    versions: &'v [Version],
) -> Result<Option<&'v Version>, LookupError> {
    match versions.windows(2).find(|pair| pair[0].slot == pair[1].slot) {
        None => Ok(versions.last()),
        Some(pair) => {
            let source = AccountsError::TwiceInSlot {
                pubkey: bs58::encode(pair[0].pubkey).into_string(),
                slot: pair[0].slot,
            };
            Err(LookupError::accounts(archive, source))
        }
    }
}

/// Prepares a pass over an archive with the checks of a snapshot.
pub fn checked(
    archive: &Archive,
    digest: DigestUse,
    options: &Options,
    handles: &Handles,
) -> Unpacker {
    let outputs = CheckOutputs { digest, manifest: None };
    let check = unsnap_unpack::Options::check(Single::snapshot(archive.clone()), outputs);
    Unpacker::new(check.with_pass(options.clone())).with_handles(handles.clone())
}

/// A pass that remembers the records of an archive.
pub(crate) struct Remember<'a> {
    pub archive: &'a Archive,
    pub options: &'a Options,
    /// Number of the archive.
    pub side: u8,
    /// Key for digests of accounts; `None` for no digests.
    pub seed: Option<u64>,
    /// Number of threads that parse records and digest accounts.
    pub threads: NonZeroUsize,
    pub handles: &'a Handles,
}

impl Remember<'_> {
    /// Decodes the archive and remembers all its records. Shows the storages to `storages`.
    pub fn all(
        &self,
        versions: &mut Versions,
        storages: &mut dyn StorageTap,
    ) -> Result<Report, LookupError> {
        let digest = DigestUse::Report(DigestKind::Xxh3);
        let unpacker = checked(self.archive, digest, self.options, self.handles);
        let remember = |found: Vec<Version>| {
            found.into_iter().try_for_each(|version| versions.remember(version))
        };
        let (walked, remembered) = ordered::run(
            "scan",
            self.threads,
            &Times::default(),
            || (),
            |(), batch: Batch| self.batch(&batch),
            remember,
            |to: Submit<'_, Batch, Vec<Version>>| {
                let mut records = Records::new(|batch| match to.submit(batch) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(ordered::Stopped) => ControlFlow::Break(()),
                });
                records.storages_to(storages);
                unpacker.tap(&mut records)
            },
        )
        .map_err(PassError::thread)?;
        // The error of the walk is a consequence of this one.
        remembered.map_err(|error| LookupError::accounts(&self.archive.display_name(), error))?;
        Ok(walked?)
    }

    fn batch(&self, batch: &Batch) -> Vec<Version> {
        let mut versions = Vec::new();
        batch.each(|position, header, data| {
            versions.push(Version {
                pubkey: header.pubkey,
                side: self.side,
                slot: batch.storage.slot,
                place: Place::new(batch.storage.number, position),
                lamports: header.lamports,
                // Data has at most 10 MiB.
                data_len: u32::try_from(header.data_len).unwrap_or(u32::MAX),
                digest: self.seed.map_or(0, |seed| digest(seed, header, data)),
            });
        });
        versions
    }
}

/// Returns the digest of an account's content: the fields that a validator's hash covers.
fn digest(seed: u64, header: &RecordHeader, data: &[u8]) -> u64 {
    let mut fields = [0; 8 + 32 + 1 + 8];
    fields[..8].copy_from_slice(&header.lamports.to_le_bytes());
    fields[8..40].copy_from_slice(&header.owner);
    fields[40] = header.executable;
    fields[41..].copy_from_slice(&XxHash3_64::oneshot_with_seed(seed, data).to_le_bytes());
    XxHash3_64::oneshot_with_seed(seed, &fields)
}
