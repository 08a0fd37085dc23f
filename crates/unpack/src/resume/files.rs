//! Files of an interrupted run: the proof that they are those of its journal.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
    os::fd::OwnedFd,
};

use rustix::{
    fs::{AtFlags, FileType, OFlags, ResolveFlags},
    io::Errno,
};
use unsnap_commit::{CommitError, Manifest, Recorded, is_journal};
use unsnap_layout::{Layout, Placement};
use unsnap_ring::Syscalls;
use unsnap_source::{Digest, Hasher};
use unsnap_state::State;
use unsnap_tarstream::{Member, MemberKind};

use super::{
    second_names,
    unusable::{Unusable, failed},
};
use crate::{places::BegunPlaces, walk::Met};

/// A complete file of an interrupted run.
pub(super) struct Staged<'a> {
    /// Path in the archive.
    path: &'a str,
    pub destination: usize,
    /// Path in the destination.
    placed: Cow<'a, str>,
    pub bytes: u64,
    digest: Option<&'a str>,
}

impl Staged<'_> {
    /// Adds it to the manifest. Without a recorded digest, the file is read.
    pub fn list(
        &self,
        calls: &Syscalls,
        directories: &[OwnedFd],
        manifest: &mut Manifest,
    ) -> Result<(), CommitError> {
        let known = self.digest.and_then(|digest| digest.parse().ok());
        let usable = known.filter(|digest: &Digest| digest.kind() == manifest.kind());
        let (directory, hasher) = (&directories[self.destination], manifest.kind().hasher());
        let read = || digest_of(calls, directory, &self.placed, hasher);
        let digest = usable.map_or_else(read, Ok).map_err(|errno| CommitError::Staging {
            step: "read the unpacked",
            path: self.path.into(),
            errno,
        })?;
        manifest.line(self.path, self.bytes, digest)
    }
}

/// Brings the layout and the places of files to their state after the last of `members`, and proves
/// that exactly these members are in `directories`, the staging directories in the order of the
/// spots.
pub(super) fn check<'a>(
    calls: &Syscalls,
    members: &'a [Recorded],
    directories: &[OwnedFd],
    state: Option<&State>,
    layout: &mut Layout,
    places: &mut BegunPlaces,
) -> Result<(Met, Vec<Staged<'a>>), Unusable> {
    let destinations = state.map_or(directories.len(), State::destinations);
    let (into, shadows) = directories.split_at(destinations.min(directories.len()));
    let present = state.map(|_| second_names::storages_in(calls, into)).transpose()?;
    let present = |name: &str| present.as_ref()?.get(name).copied();
    let mut met = Met::default();
    let (mut files, mut listed) = (Vec::new(), HashSet::new());
    for recorded in members {
        let member = member(recorded);
        let placement =
            layout.admit(&member).map_err(|error| Unusable::Because(error.to_string()))?;
        match placement {
            Placement::Root => {}
            Placement::Directory { path } => {
                met.directories += 1;
                // A state has none of the archive's directories.
                if state.is_none() {
                    listed.insert(path);
                }
            }
            Placement::File { path, .. } => {
                met.files += 1;
                let place = places.replay(&placement, member.size, &present);
                let place =
                    place.map_err(|name| Unusable::Because(format!("{name} is missing")))?;
                if let Some((destination, placed)) = place {
                    met.creates(member.size);
                    let digest = recorded.digest.as_deref();
                    files.push(Staged { path, destination, placed, bytes: member.size, digest });
                }
            }
        }
    }
    for (index, directory) in into.iter().enumerate() {
        let here = files.iter().filter(|file| file.destination == index);
        clean(calls, directory, here.map(|file| (&*file.placed, file)).collect(), listed)?;
        // Only the output has directories of the archive.
        listed = HashSet::new();
    }
    for (index, shadow) in (1..).zip(shadows) {
        let here = files.iter().filter(|file| file.destination == index);
        second_names::complete(calls, &into[index], shadow, here.map(|file| &*file.placed))?;
    }
    Ok((met, files))
}

/// Returns the recorded member with all fields that layouts use.
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

/// Removes all unexpected files below a directory. `listed` holds the directories of the archive;
/// others stay if they are not empty.
fn clean(
    calls: &Syscalls,
    root: &OwnedFd,
    mut expected: HashMap<&str, &Staged<'_>>,
    mut listed: HashSet<&str>,
) -> Result<(), Unusable> {
    let because = |reason: String| Err(Unusable::Because(reason));
    let mut paths = VecDeque::from([String::new()]);
    let mut unlisted = Vec::new();
    while let Some(path) = paths.pop_front() {
        let directory = open_beneath(calls, root, &path, OFlags::DIRECTORY).map_err(failed)?;
        for (name, kind) in calls.entries(&directory).map_err(failed)? {
            if path.is_empty() && is_journal(&name) {
                continue;
            }
            let inner = name.to_str().ok().map(|name| match path.as_str() {
                "" => name.to_owned(),
                path => format!("{path}/{name}"),
            });
            match (kind, inner) {
                (FileType::Directory, Some(inner)) => {
                    if !listed.remove(inner.as_str()) {
                        unlisted.push(inner.clone());
                    }
                    paths.push_back(inner);
                }
                (FileType::RegularFile, Some(inner)) if expected.contains_key(inner.as_str()) => {
                    let stat = calls.lstatat(&directory, &*name).map_err(failed)?;
                    let Some(file) = expected.remove(inner.as_str()) else { continue };
                    let found = u64::try_from(stat.st_size).unwrap_or(0);
                    if found != file.bytes {
                        let expected = file.bytes;
                        return because(format!("{inner} has {found} bytes instead of {expected}"));
                    }
                    if let Some(digest) = file.digest {
                        check_digest(calls, root, &inner, digest)?;
                    }
                }
                _ => calls.unlinkat(&directory, &*name, AtFlags::empty()).map_err(failed)?,
            }
        }
    }
    // Deepest directories first.
    for path in unlisted.into_iter().rev() {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let removed = open_beneath(calls, root, parent, OFlags::DIRECTORY)
            .and_then(|parent| calls.unlinkat(parent, name, AtFlags::REMOVEDIR));
        match removed {
            // The directory is not empty, or was removed with its parent.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    match expected.into_keys().chain(listed).next() {
        Some(path) => because(format!("{path} is missing")),
        None => Ok(()),
    }
}

fn check_digest(
    calls: &Syscalls,
    root: &OwnedFd,
    path: &str,
    expected: &str,
) -> Result<(), Unusable> {
    let because = |reason: String| Err(Unusable::Because(reason));
    let Ok(expected) = expected.parse::<Digest>() else {
        return because(format!("the recorded digest of {path} is invalid"));
    };
    match digest_of(calls, root, path, expected.kind().hasher()).map_err(failed)? {
        found if found == expected => Ok(()),
        found => because(format!("{path} has the digest {found} instead of {expected}")),
    }
}

/// Returns the digest of a staged file.
fn digest_of(
    calls: &Syscalls,
    root: &OwnedFd,
    path: &str,
    mut hasher: Hasher,
) -> Result<Digest, Errno> {
    let file = open_beneath(calls, root, path, OFlags::empty())?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match calls.read(&file, &mut buffer)? {
            0 => return Ok(hasher.digest()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

pub(crate) fn open_beneath(
    calls: &Syscalls,
    root: &OwnedFd,
    path: &str,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.is_empty() { "." } else { path };
    calls.openat2(root, path, flags | OFlags::RDONLY | OFlags::CLOEXEC, resolve)
}
