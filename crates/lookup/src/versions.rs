//! Which version of an account is the newest.

use std::{num::NonZeroUsize, ops::ControlFlow};

use twox_hash::XxHash3_64;
use unsnap_commit::Target;
use unsnap_layout::append_vec::RecordHeader;
use unsnap_pass::{
    Archive, Handles, Options, PassError,
    ordered::{self, Submit, Times},
};
use unsnap_source::DigestKind;
use unsnap_unpack::{Destination, DigestUse, Report, Source, UnpackError, Unpacker};
use unsnap_verify::accounts::{
    AccountsError,
    entries::{Entries, Gathered, PARTITIONS, Place, Remembered, sorting, u64_at},
};

use crate::{
    LookupError,
    records::{Batch, Records, Storage},
};

/// Bytes for what is remembered of accounts, by default; what is more goes to a file.
pub const MEMORY_BYTES: usize = 1 << 30;

/// A version of an account: what is remembered of a record.
///
/// The public key is kept as it is, and not as a fingerprint: then nothing needs to be read again, and
/// accounts come out in the order of their keys. An archive that was made to have most keys begin alike
/// is refused for it, by [`AccountsError::PartitionTooLarge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub pubkey: [u8; 32],
    /// Of which archive.
    pub side: u8,
    pub slot: u64,
    pub place: Place,
    pub lamports: u64,
    pub data_len: u32,
    /// Of what makes the account: keyed, and the same for equal ones.
    pub digest: u64,
}

impl Remembered for Version {
    const BYTES: usize = 32 + 1 + 8 + 8 + 8 + 4 + 8;

    fn sort_bits(&self) -> u64 {
        // Uppermost byte first: partitions are in the order of keys.
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

/// All versions of all accounts, in memory and in a file.
pub(crate) struct Versions {
    entries: Entries<Version>,
    gathered: Gathered<Version>,
    memory_bytes_max: usize,
}

impl Versions {
    /// What does not fit into so many bytes goes to a file without a name, where temporary files go.
    pub fn new(memory_bytes_max: usize) -> Self {
        let entries = Entries::new(memory_bytes_max, Target::temporary_file(None));
        Self { entries, gathered: Gathered::new(), memory_bytes_max }
    }

    pub fn remember(&mut self, version: Version) -> Result<(), AccountsError> {
        self.gathered.push(version, &self.entries)
    }

    /// Shows `see` the versions of each account, the oldest of the first archive first and the newest
    /// of the last archive last. Accounts come in the order of their public keys.
    /// `config`: of the archive that is named if they cannot be sorted.
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

/// The newest of the versions of an account in one archive, which are in order; an error if it has two
/// of one slot.
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
pub(crate) fn checked(
    archive: &Archive,
    digest: DigestUse,
    options: &Options,
    handles: &Handles,
) -> Result<Unpacker, UnpackError> {
    let source = Source::snapshot(archive.clone());
    let nowhere = Destination::Nowhere { manifest: None };
    let check = unsnap_unpack::Options::new(source, nowhere, digest)?;
    Ok(Unpacker::new(check.with_pass(options.clone())).with_handles(handles.clone()))
}

/// Listens to storages as they pass by.
pub(crate) trait StorageTap: Send {
    /// Some bytes of the storage under way.
    fn piece(&mut self, bytes: &[u8]);

    /// It has ended.
    fn end(&mut self, storage: Storage);
}

/// Nobody listens.
impl StorageTap for () {
    fn piece(&mut self, _: &[u8]) {}
    fn end(&mut self, _: Storage) {}
}

/// How the records of an archive are remembered.
pub(crate) struct Remember<'a> {
    pub archive: &'a Archive,
    pub options: &'a Options,
    /// Which of the archives it is.
    pub side: u8,
    /// Digest accounts by this key; without one they are not digested.
    pub seed: Option<u64>,
    /// Threads that follow records and digest accounts.
    pub threads: NonZeroUsize,
    pub handles: &'a Handles,
}

impl Remember<'_> {
    /// Goes through an archive and remembers all its records. `storages` listens.
    pub fn all(
        &self,
        versions: &mut Versions,
        storages: &mut dyn StorageTap,
    ) -> Result<Report, LookupError> {
        let digest = DigestUse::Report(DigestKind::Xxh3);
        let unpacker = checked(self.archive, digest, self.options, self.handles)?;
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
        // What the walk says is a consequence of it.
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
                // At most 10 MiB.
                data_len: u32::try_from(header.data_len).unwrap_or(u32::MAX),
                digest: self.seed.map_or(0, |seed| digest(seed, header, data)),
            });
        });
        versions
    }
}

/// What makes an account, as one number: what a validator's hash of it covers.
fn digest(seed: u64, header: &RecordHeader, data: &[u8]) -> u64 {
    let mut fields = [0; 8 + 32 + 1 + 8];
    fields[..8].copy_from_slice(&header.lamports.to_le_bytes());
    fields[8..40].copy_from_slice(&header.owner);
    fields[40] = header.executable;
    fields[41..].copy_from_slice(&XxHash3_64::oneshot_with_seed(seed, data).to_le_bytes());
    XxHash3_64::oneshot_with_seed(seed, &fields)
}
