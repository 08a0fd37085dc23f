//! Files of a new archive, and their names in it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, OFlags, Stat},
    io::Errno,
};
use unsnap_failure::Remedy;
use unsnap_layout::{
    ArchiveName, BankReader, Compression, Limits, Role, SnapshotLayout, SnapshotSummary,
    check_version,
};
use unsnap_ring::Syscalls;
use unsnap_state::{
    RUN_DIRECTORY,
    format::{
        FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX, Format, OBSOLETE_ACCOUNTS, STATUS_CACHE,
        STORAGES_LIST, STORAGES_LIST_BYTES_MAX, VERSION, Version, check_obsolete_accounts,
    },
};
use unsnap_tarstream::{Member, MemberKind};

use super::request::CreateRequest;
use crate::PackError;

/// An entry of the archive.
#[derive(Debug)]
pub struct Entry {
    /// Name in the archive.
    pub name: String,
    /// Role of the file; `None` for a directory.
    pub role: Option<Role>,
    /// Size of its content in bytes.
    pub size: u64,
    /// Path and identity of the file when it was listed; `None` for a directory.
    pub file: Option<(PathBuf, FileIdentity)>,
}

/// Identity of a file, by which changes are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    size: i64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
    #[allow(clippy::unnecessary_cast, clippy::cast_possible_wrap)] // as the architecture has it
    pub fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as i64,
            written: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

/// All files of a new archive.
pub struct Content {
    pub name: ArchiveName,
    pub summary: SnapshotSummary,
    entries: Vec<Entry>,
    /// Directories whose files were listed, with their identities.
    listed: Listed,
}

impl Content {
    /// Lists the files and checks that they make a snapshot.
    pub fn find(calls: &Syscalls, request: &CreateRequest) -> Result<Self, PackError> {
        let directory = &request.directory;
        let snapshots = directory.join("snapshots");
        let (head, storages, listed) = if snapshots.is_dir() {
            let slot = the_slot(&snapshots)?;
            let head = Head {
                slot,
                version: directory.join(VERSION),
                status_cache: snapshots.join(STATUS_CACHE),
                bank: snapshots.join(slot.to_string()).join(slot.to_string()),
            };
            let places = match request.accounts.as_slice() {
                [] => vec![directory.join("accounts")],
                places => places.to_vec(),
            };
            let (storages, listed) = storages_in(calls, &places)?;
            (head, storages, listed)
        } else {
            let slot = directory.file_name().and_then(|name| name.to_str()?.parse().ok());
            let slot: u64 = slot.ok_or_else(|| {
                let reason = "neither a tree with a directory snapshots nor a state, whose directory \
                              is named after its slot";
                bad(directory, reason)
            })?;
            let head = Head {
                slot,
                version: directory.join(VERSION),
                status_cache: directory.join(STATUS_CACHE),
                bank: directory.join(slot.to_string()),
            };
            (head, storages_of_state(calls, directory, &request.accounts)?, Vec::new())
        };
        let mut entries = head.entries(calls)?;
        entries.extend(storages);
        let name = head.name(calls, request.base_slot)?;
        let summary = check(directory, name, &entries)?;
        Ok(Self { name, summary, entries, listed })
    }

    /// Returns the total size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }

    /// Calls `see` with all entries, in order.
    pub fn each(&self, see: impl FnMut(&Entry) -> Result<(), PackError>) -> Result<(), PackError> {
        self.entries.iter().try_for_each(see)
    }

    /// Checks that no file was added to or removed from the listed directories.
    pub fn unchanged(&self, calls: &Syscalls) -> Result<(), PackError> {
        for (path, identity) in &self.listed {
            if identity_of(calls, path)? != *identity {
                let what = "files were added or removed";
                return Err(PackError::Changed { path: path.clone(), what });
            }
        }
        Ok(())
    }
}

/// The files other than storages.
struct Head {
    slot: u64,
    version: PathBuf,
    status_cache: PathBuf,
    bank: PathBuf,
}

impl Head {
    /// Returns their entries in a validator's order.
    fn entries(&self, calls: &Syscalls) -> Result<Vec<Entry>, PackError> {
        let version = small(calls, &self.version, Limits::default().version_bytes_max)?;
        check_version(&version).map_err(|error| bad(&self.version, error))?;
        let slot = self.slot;
        let directory = |name| Entry { name, role: None, size: 0, file: None };
        Ok(vec![
            file(calls, VERSION.to_owned(), Role::Version, &self.version)?,
            directory("snapshots/".to_owned()),
            file(
                calls,
                format!("snapshots/{STATUS_CACHE}"),
                Role::StatusCache,
                &self.status_cache,
            )?,
            directory(format!("snapshots/{slot}")),
            file(calls, format!("snapshots/{slot}/{slot}"), Role::BankFile { slot }, &self.bank)?,
        ])
    }

    /// Returns the archive's name, which follows from the bank file.
    fn name(&self, calls: &Syscalls, base_slot: Option<u64>) -> Result<ArchiveName, PackError> {
        let path = &self.bank;
        let failed = |step| move |errno| PackError::File { step, path: path.clone(), errno };
        let file = open(calls, path)?;
        let length = calls.fstat(&file).map_err(failed("examine"))?.st_size;
        let mut reader = BankReader::new(u64::try_from(length).unwrap_or(0));
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = calls.read(&file, &mut buffer).map_err(failed("read"))?;
            if read == 0 {
                break;
            }
            reader.push(&buffer[..read]).map_err(|error| bad(path, error))?;
        }
        let facts = reader.finish().map_err(|error| bad(path, error))?;
        if facts.slot != self.slot {
            let reason =
                format!("the bank file belongs to slot {}, expected {}", facts.slot, self.slot);
            return Err(bad(path, reason));
        }
        let hash = facts.name_hash();
        let hash =
            hash.ok_or_else(|| bad(path, "the bank file has no lattice hash of the accounts"))?;
        let (slot, compression) = (self.slot, Compression::Zstd);
        Ok(match base_slot {
            None => ArchiveName::Full { slot, hash, compression },
            Some(base_slot) if base_slot < slot => {
                ArchiveName::Incremental { base_slot, slot, hash, compression }
            }
            Some(base_slot) => {
                return Err(PackError::request(
                    format!("slot {slot} does not build on slot {base_slot}"),
                    Remedy::advice("give the slot of the full snapshot"),
                ));
            }
        })
    }
}

/// Returns the only slot that has a directory.
fn the_slot(snapshots: &Path) -> Result<u64, PackError> {
    let mut slots = Vec::new();
    for entry in list(snapshots)? {
        if entry.is_dir() {
            let slot = entry.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
            slots.extend(slot);
        }
    }
    match slots.as_slice() {
        [slot] => Ok(*slot),
        [] => Err(bad(snapshots, "no directory is named after a slot")),
        _ => Err(bad(
            snapshots,
            "several directories are named after slots: give the directory of one",
        )),
    }
}

/// Listed directories with their identities.
type Listed = Vec<(PathBuf, FileIdentity)>;

/// Returns the storages in some directories, in the order of their slots.
fn storages_in(calls: &Syscalls, places: &[PathBuf]) -> Result<(Vec<Entry>, Listed), PackError> {
    let (mut storages, mut listed) = (Vec::new(), Vec::new());
    for place in places {
        listed.push((place.clone(), identity_of(calls, place)?));
        for path in list(place)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let slot_and_id = name.split_once('.');
            let numbers = slot_and_id
                .and_then(|(slot, id)| Some((slot.parse().ok()?, id.parse().ok()?)))
                .filter(|(slot, id)| name == storage_name(*slot, *id));
            let (slot, id) =
                numbers.ok_or_else(|| bad(&path, "the name is not that of a storage"))?;
            storages.push(storage(calls, slot, id, &path)?);
        }
    }
    storages.sort_by_key(|entry| match entry.role {
        Some(Role::Storage { slot, id }) => (slot, id),
        _ => (0, 0),
    });
    Ok((storages, listed))
}

/// Returns the storages that a state lists, in the order of their slots.
fn storages_of_state(
    calls: &Syscalls,
    state: &Path,
    accounts: &[PathBuf],
) -> Result<Vec<Entry>, PackError> {
    if accounts.is_empty() {
        let reason =
            format!("{} is a state, whose storages are in the accounts paths", state.display());
        return Err(PackError::request(reason, Remedy::NameAccounts));
    }
    let read = |name: &str, limit| {
        let path = state.join(name);
        let bytes = small(calls, &path, limit)?;
        Ok::<_, PackError>((path, bytes))
    };
    let (path, mark) = read(FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX)?;
    let format = Version::parse(&mark).and_then(Format::of).map_err(|error| bad(&path, error))?;
    let (path, obsolete) = read(OBSOLETE_ACCOUNTS, STORAGES_LIST_BYTES_MAX)?;
    check_obsolete_accounts(&obsolete).map_err(|error| bad(&path, error))?;
    let (path, list) = read(STORAGES_LIST, STORAGES_LIST_BYTES_MAX)?;
    let mut list = format.decode_storages(&list).map_err(|error| bad(&path, error))?;
    list.sort_by_key(|storage| (storage.slot, storage.id));
    let mut entries = Vec::with_capacity(list.len());
    for found in list {
        let name = storage_name(found.slot, found.id);
        let places = accounts.iter().flat_map(|path| [path.join(RUN_DIRECTORY), path.clone()]);
        let file = places.map(|place| place.join(&name)).find(|path| path.is_file());
        let file = file.ok_or_else(|| {
            bad(state, format!("storage {name} is in none of the accounts paths"))
        })?;
        entries.push(storage(calls, found.slot, found.id, &file)?);
    }
    Ok(entries)
}

fn storage_name(slot: u64, id: u32) -> String {
    format!("{slot}.{id}")
}

fn storage(calls: &Syscalls, slot: u64, id: u32, path: &Path) -> Result<Entry, PackError> {
    let name = format!("accounts/{}", storage_name(slot, id));
    file(calls, name, Role::Storage { slot, id }, path)
}

/// Returns the entry of a regular file.
fn file(calls: &Syscalls, name: String, role: Role, path: &Path) -> Result<Entry, PackError> {
    let stat = calls.lstatat(rustix::fs::CWD, path).map_err(|errno| missing(path, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(bad(path, "not a regular file"));
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    Ok(Entry {
        name,
        role: Some(role),
        size,
        file: Some((path.to_owned(), FileIdentity::of(&stat))),
    })
}

/// Checks entries against the rules for snapshots: names, limits, slots.
fn check(
    directory: &Path,
    name: ArchiveName,
    entries: &[Entry],
) -> Result<SnapshotSummary, PackError> {
    let mut layout = SnapshotLayout::new(Limits::default(), Some(name));
    for entry in entries {
        let member = Member {
            kind: if entry.role.is_some() { MemberKind::Regular } else { MemberKind::Directory },
            path: entry.name.as_bytes(),
            link: b"",
            size: entry.size,
            header_offset: 0,
            payload_offset: 0,
            mode: None,
            mtime: None,
        };
        let at = entry.file.as_ref().map_or(directory, |(path, _)| path);
        layout.admit(&member).map_err(|error| bad(at, error))?;
    }
    layout.finish().map_err(|error| bad(directory, error))
}

#[allow(clippy::disallowed_methods, reason = "lists what is packed, which is only read")]
fn list(directory: &Path) -> Result<Vec<PathBuf>, PackError> {
    let failed = |error: std::io::Error| {
        missing(directory, Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let entries = fs::read_dir(directory).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

fn open(calls: &Syscalls, path: &Path) -> Result<std::os::fd::OwnedFd, PackError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    calls.open(path, flags).map_err(|errno| missing(path, errno))
}

fn identity_of(calls: &Syscalls, path: &Path) -> Result<FileIdentity, PackError> {
    calls.stat(path).map(|stat| FileIdentity::of(&stat)).map_err(|errno| missing(path, errno))
}

/// Reads a file of at most `limit` bytes.
fn small(calls: &Syscalls, path: &Path, limit: u64) -> Result<Vec<u8>, PackError> {
    let file = open(calls, path)?;
    let failed = |errno| PackError::File { step: "read", path: path.to_owned(), errno };
    let length = u64::try_from(calls.fstat(&file).map_err(failed)?.st_size).unwrap_or(0);
    if length > limit {
        return Err(bad(path, format!("{length} bytes, limit is {limit}")));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let mut filled = 0;
    while filled < bytes.len() {
        match calls.read(&file, &mut bytes[filled..]).map_err(failed)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn missing(path: &Path, errno: Errno) -> PackError {
    match errno {
        Errno::NOENT => bad(path, "no such file or directory"),
        errno => PackError::File { step: "examine", path: path.to_owned(), errno },
    }
}

fn bad(path: &Path, reason: impl std::fmt::Display) -> PackError {
    PackError::BadDirectory { path: path.to_owned(), reason: reason.to_string() }
}
