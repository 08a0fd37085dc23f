//! Resuming: what an interrupted run has left is checked against its journal.
//!
//! Every recorded file must be there with its size (and its digest, where one was recorded);
//! everything else is removed. If anything recorded is missing, nothing of it is used.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io::Read,
    os::fd::OwnedFd,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat2, statat, unlinkat},
    io::Errno,
};
use unsnap_layout::{Layout, Placement};
use unsnap_source::{Digest, Hasher};
use unsnap_tarstream::{Member, MemberKind};

use crate::{
    journal::{Recorded, is_journal},
    staging::names,
    walk::Spread,
};

/// A file that a run has recorded, and which destination it went to.
struct Expected {
    bytes: u64,
    digest: Option<String>,
}

/// What was found to be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub files: u64,
    pub bytes: u64,
    /// Directories of the archive.
    pub directories: u64,
}

/// Takes the layout and the spread to where they were when the last of `members` had been met, and
/// proves that those are in `directories`, and nothing else. The error says in words what is wrong.
pub(crate) fn check(
    members: &[Recorded],
    directories: &[OwnedFd],
    layout: &mut Layout,
    spread: &mut Spread,
) -> Result<Kept, String> {
    let mut kept = Kept::default();
    let mut expected: Vec<HashMap<String, Expected>> =
        directories.iter().map(|_| HashMap::new()).collect();
    for recorded in members {
        let member = member(recorded);
        let placement = layout.admit(&member).map_err(|error| error.to_string())?;
        match placement {
            Placement::Root => {}
            Placement::Directory { .. } => kept.directories += 1,
            Placement::File { .. } => {
                let (destination, path) = spread.place(&placement, member.size);
                kept.files += 1;
                kept.bytes += member.size;
                let file = Expected { bytes: member.size, digest: recorded.digest.clone() };
                expected[destination].insert(path.to_owned(), file);
            }
        }
    }
    for (directory, expected) in directories.iter().zip(expected) {
        clean(directory, expected)?;
    }
    Ok(kept)
}

/// The member that was recorded, as far as layouts look at it.
fn member(recorded: &Recorded) -> Member<'_> {
    Member {
        kind: match recorded.bytes {
            Some(_) => MemberKind::Regular,
            None => MemberKind::Directory,
        },
        path: recorded.path.as_bytes(),
        link: b"",
        size: recorded.bytes.unwrap_or(0),
        header_offset: 0,
        payload_offset: 0,
        mode: None,
        mtime: None,
    }
}

/// Removes whatever is not expected below a directory.
fn clean(root: &OwnedFd, mut expected: HashMap<String, Expected>) -> Result<(), String> {
    let mut paths = VecDeque::from([String::new()]);
    while let Some(path) = paths.pop_front() {
        let at = |errno: Errno| format!("cannot look into {path:?}: {errno}");
        let directory = open_beneath(root, &path, OFlags::DIRECTORY).map_err(at)?;
        for (name, kind) in names(&directory).map_err(at)? {
            if path.is_empty() && is_journal(&name) {
                continue;
            }
            let inner = name.to_str().ok().map(|name| match path.as_str() {
                "" => name.to_owned(),
                path => format!("{path}/{name}"),
            });
            match (kind, inner) {
                (FileType::Directory, Some(inner)) => paths.push_back(inner),
                (FileType::RegularFile, Some(inner)) if expected.contains_key(&inner) => {
                    let stat = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(at)?;
                    let Some(file) = expected.remove(&inner) else { continue };
                    let found = u64::try_from(stat.st_size).unwrap_or(0);
                    if found != file.bytes {
                        let expected = file.bytes;
                        return Err(format!("{inner} has {found} bytes instead of {expected}"));
                    }
                    if let Some(digest) = file.digest {
                        check_digest(root, &inner, &digest)?;
                    }
                }
                _ => unlinkat(&directory, &name, AtFlags::empty()).map_err(at)?,
            }
        }
    }
    match expected.into_keys().next() {
        Some(path) => Err(format!("{path} is missing")),
        None => Ok(()),
    }
}

fn check_digest(root: &OwnedFd, path: &str, expected: &str) -> Result<(), String> {
    let expected: Digest = expected.parse().map_err(|_| format!("{path} has a bad digest"))?;
    let found = digest_of(root, path, expected.kind().hasher());
    match found.map_err(|error| format!("cannot read {path}: {error}"))? {
        found if found == expected => Ok(()),
        found => Err(format!("{path} has the digest {found} instead of {expected}")),
    }
}

/// The digest of a staged file.
pub(crate) fn digest_of(
    root: &OwnedFd,
    path: &str,
    hasher: Hasher,
) -> Result<Digest, std::io::Error> {
    let file = File::from(open_beneath(root, path, OFlags::empty())?);
    digest_prefix(file, hasher, u64::MAX).map(|(hasher, _)| hasher.digest())
}

/// Takes the first bytes of a file into a hasher, at most `limit`. Also says how many there were.
pub(crate) fn digest_prefix(
    file: impl Read,
    mut hasher: Hasher,
    limit: u64,
) -> Result<(Hasher, u64), std::io::Error> {
    let mut file = file.take(limit);
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((hasher, total)),
            Ok(count) => {
                hasher.update(&buffer[..count]);
                total += count as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn open_beneath(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.is_empty() { "." } else { path };
    openat2(root, path, flags | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty(), resolve)
}
