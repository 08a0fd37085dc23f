//! Where a run begins: at the archive's beginning, or where an interrupted one stood.
//!
//! What an interrupted run has left is checked against its journal. Every recorded file must be
//! there with its size (and its digest, where one was recorded); everything else is removed. If
//! anything recorded is missing, nothing of it is used.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    os::fd::OwnedFd,
};

use rustix::{
    fs::{AtFlags, FileType, OFlags, ResolveFlags},
    io::Errno,
};
use unsnap_decode::Position;
use unsnap_layout::{Layout, Placement};
use unsnap_ring::Syscalls;
use unsnap_source::{ArchiveFile, Digest, Hasher};
use unsnap_tarstream::{Member, MemberKind};

use crate::{
    Config, Error, Resumed,
    journal::{self, Checkpoint, Journal, Loaded, Recorded, Run, is_journal},
    manifest::Manifest,
    opening::{OpenArchive, Target},
    stages::layout,
    walk::{Met, Spread},
};

/// Where a run begins.
pub(crate) struct Beginning {
    /// Where decoding begins.
    pub decode: Position,
    /// Where the member begins, in the decoded stream, that the walk begins with.
    pub header_offset: u64,
    /// The rules, and the spread, as they stand there.
    pub layout: Layout,
    pub spread: Spread,
    pub met: Met,
    pub resumed: Option<Resumed>,
    /// What is there already, in each destination; empty if nothing is.
    pub kept: Vec<Kept>,
    /// To write down what this run does.
    pub journal: Option<Journal>,
    /// Why nothing was resumed although that was wanted, in words.
    pub fallback: Option<String>,
}

impl Beginning {
    /// Finds out where to begin, and removes what is of no use. `target`: `None` in a dry run.
    pub fn find(
        config: &Config,
        target: &mut Option<Target>,
        archive: &OpenArchive,
        manifest: Option<&mut Manifest>,
    ) -> Result<Self, Error> {
        let mut beginning = Self {
            decode: Position::default(),
            header_offset: 0,
            layout: layout(config),
            spread: Spread::new(config.accounts.len()),
            met: Met::default(),
            resumed: None,
            kept: Vec::new(),
            journal: None,
            fallback: None,
        };
        let Some(Target { calls, staging, directories, .. }) = target else { return Ok(beginning) };
        let OpenArchive::File(archive) = archive else {
            if config.resume {
                staging.clear()?;
                beginning.fallback = Some("beginning anew: a stream cannot be resumed".to_owned());
            }
            return Ok(beginning);
        };
        let file = journal::ArchiveFile::new(&archive.stat().map_err(Error::Source)?);
        let run = Run::new(file, config.layout.name(), staging.identities()?);
        if config.resume && staging.is_left_over() {
            match beginning.resume(calls, &run, archive, directories, manifest)? {
                Ok(()) => return Ok(beginning),
                Err(Unusable::OtherArchive) => {
                    return Err(Error::OtherArchive { path: config.output.clone() });
                }
                Err(Unusable::Because(reason)) => {
                    beginning.layout = layout(config);
                    beginning.spread = Spread::new(config.accounts.len());
                    beginning.fallback = Some(format!("beginning anew: {reason}"));
                }
            }
        }
        if config.resume {
            staging.clear()?;
        }
        // A convenience: without it the run cannot be resumed, that is all.
        let journal = directories.first().map(|output| Journal::plan(calls, output, run));
        beginning.journal = journal.and_then(|journal| {
            journal.inspect_err(|errno| tracing::warn!(%errno, "there will be no journal")).ok()
        });
        Ok(beginning)
    }

    /// Takes itself to where the journal says the interrupted run stood.
    fn resume(
        &mut self,
        calls: &Syscalls,
        run: &Run,
        archive: &ArchiveFile,
        directories: &[OwnedFd],
        manifest: Option<&mut Manifest>,
    ) -> Result<Result<(), Unusable>, Error> {
        let because = |reason: String| Ok(Err(Unusable::Because(reason)));
        let loaded = directories.first().map(|output| Journal::load(calls, output));
        let Loaded { run: before, reached, journal } = match loaded {
            Some(Ok(Some(loaded))) => loaded,
            None | Some(Ok(None)) => {
                return because("the interrupted run had not come to a checkpoint".to_owned());
            }
            Some(Err(reason)) => return because(format!("the journal is damaged: {reason}")),
        };
        if (&before.layout, &before.staging) != (&run.layout, &run.staging) {
            let reason = "the interrupted run had another layout or other destinations";
            return because(reason.to_owned());
        }
        if before.archive != run.archive && !has_same_beginning(archive, &reached)? {
            return Ok(Err(Unusable::OtherArchive));
        }
        let inconsistent = reached.restart.raw_offset > reached.header_offset
            || !reached.header_offset.is_multiple_of(512);
        if inconsistent {
            return because("the journal is damaged: its offsets make no sense".to_owned());
        }
        let members = &reached.members;
        let checked = check(calls, members, directories, &mut self.layout, &mut self.spread);
        let (met, files) = match checked {
            Ok(found) => found,
            Err(reason) => {
                return because(format!("what is left does not match its journal: {reason}"));
            }
        };
        if let Some(manifest) = manifest {
            files.iter().try_for_each(|file| file.list(calls, directories, manifest))?;
        }
        self.met = Met { entries: reached.entries, ..met };
        let resumed = Resumed {
            files: met.files,
            bytes: files.iter().map(|file| file.bytes).sum(),
            from_byte: reached.restart.compressed_offset,
        };
        self.kept = vec![Kept::default(); directories.len()];
        for file in &files {
            let Kept { files, bytes } = &mut self.kept[file.destination];
            (*files, *bytes) = (*files + 1, *bytes + file.bytes);
        }
        self.decode = reached.restart.into();
        self.header_offset = reached.header_offset;
        self.resumed = Some(resumed);
        self.journal = Some(journal);
        Ok(Ok(()))
    }
}

/// What is there already in a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub files: u64,
    pub bytes: u64,
}

/// A file that is there.
struct Staged<'a> {
    /// In the archive.
    path: &'a str,
    destination: usize,
    /// Below the destination.
    placed: &'a str,
    bytes: u64,
    digest: Option<&'a str>,
}

impl Staged<'_> {
    /// Puts it into the manifest; without a digest it has to be read.
    fn list(
        &self,
        calls: &Syscalls,
        directories: &[OwnedFd],
        manifest: &mut Manifest,
    ) -> Result<(), Error> {
        let known = self.digest.and_then(|digest| digest.parse().ok());
        let usable = known.filter(|digest: &Digest| digest.kind() == manifest.kind());
        let (directory, hasher) = (&directories[self.destination], manifest.kind().hasher());
        let read = || digest_of(calls, directory, self.placed, hasher);
        let digest = usable.map_or_else(read, Ok).map_err(|errno| Error::Staging {
            step: "read the unpacked",
            path: self.path.into(),
            errno,
        })?;
        manifest.line(self.path, self.bytes, digest)
    }
}

/// Why what an interrupted run has left cannot be used.
enum Unusable {
    OtherArchive,
    Because(String),
}

/// Whether what the interrupted run had read of its archive is the same here.
fn has_same_beginning(archive: &ArchiveFile, reached: &Checkpoint) -> Result<bool, Error> {
    let Some((bytes, digest)) = &reached.read else { return Ok(false) };
    let Ok(expected) = digest.parse::<Digest>() else { return Ok(false) };
    let mut hasher = expected.kind().hasher();
    let read = archive.digest_prefix(&mut hasher, *bytes).map_err(Error::Source)?;
    Ok(read == *bytes && hasher.digest() == expected)
}

/// Takes the layout and the spread to where they were when the last of `members` had been met, and
/// proves that those are in `directories`, and nothing else. The error says in words what is wrong.
fn check<'a>(
    calls: &Syscalls,
    members: &'a [Recorded],
    directories: &[OwnedFd],
    layout: &mut Layout,
    spread: &mut Spread,
) -> Result<(Met, Vec<Staged<'a>>), String> {
    let mut met = Met::default();
    let (mut files, mut listed) = (Vec::new(), HashSet::new());
    for recorded in members {
        let member = member(recorded);
        let placement = layout.admit(&member).map_err(|error| error.to_string())?;
        match placement {
            Placement::Root => {}
            Placement::Directory { path } => {
                met.directories += 1;
                listed.insert(path);
            }
            Placement::File { path, .. } => {
                met.files += 1;
                let (destination, placed) = spread.place(&placement, member.size);
                let digest = recorded.digest.as_deref();
                files.push(Staged { path, destination, placed, bytes: member.size, digest });
            }
        }
    }
    for (index, directory) in directories.iter().enumerate() {
        let here = files.iter().filter(|file| file.destination == index);
        clean(calls, directory, here.map(|file| (file.placed, file)).collect(), &listed)?;
        // Directories are made in the output only.
        listed.clear();
    }
    Ok((met, files))
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

/// Removes whatever is not expected below a directory. `listed`: the directories of the archive;
/// others stay if there is something in them.
fn clean(
    calls: &Syscalls,
    root: &OwnedFd,
    mut expected: HashMap<&str, &Staged<'_>>,
    listed: &HashSet<&str>,
) -> Result<(), String> {
    let mut paths = VecDeque::from([String::new()]);
    let mut unlisted = Vec::new();
    while let Some(path) = paths.pop_front() {
        let at = |errno: Errno| format!("cannot look into {path:?}: {errno}");
        let directory = open_beneath(calls, root, &path, OFlags::DIRECTORY).map_err(at)?;
        for (name, kind) in calls.entries(&directory).map_err(at)? {
            if path.is_empty() && is_journal(&name) {
                continue;
            }
            let inner = name.to_str().ok().map(|name| match path.as_str() {
                "" => name.to_owned(),
                path => format!("{path}/{name}"),
            });
            match (kind, inner) {
                (FileType::Directory, Some(inner)) => {
                    if !listed.contains(inner.as_str()) {
                        unlisted.push(inner.clone());
                    }
                    paths.push_back(inner);
                }
                (FileType::RegularFile, Some(inner)) if expected.contains_key(inner.as_str()) => {
                    let stat = calls.lstatat(&directory, &*name).map_err(at)?;
                    let Some(file) = expected.remove(inner.as_str()) else { continue };
                    let found = u64::try_from(stat.st_size).unwrap_or(0);
                    if found != file.bytes {
                        let expected = file.bytes;
                        return Err(format!("{inner} has {found} bytes instead of {expected}"));
                    }
                    if let Some(digest) = file.digest {
                        check_digest(calls, root, &inner, digest)?;
                    }
                }
                _ => calls.unlinkat(&directory, &*name, AtFlags::empty()).map_err(at)?,
            }
        }
    }
    // The deepest first.
    for path in unlisted.into_iter().rev() {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let removed = open_beneath(calls, root, parent, OFlags::DIRECTORY)
            .and_then(|parent| calls.unlinkat(parent, name, AtFlags::REMOVEDIR));
        match removed {
            // There is something in it, or it went with the one above.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => {}
            Err(errno) => return Err(format!("cannot remove {path:?}: {errno}")),
        }
    }
    match expected.into_keys().next() {
        Some(path) => Err(format!("{path} is missing")),
        None => Ok(()),
    }
}

fn check_digest(
    calls: &Syscalls,
    root: &OwnedFd,
    path: &str,
    expected: &str,
) -> Result<(), String> {
    let expected: Digest = expected.parse().map_err(|_| format!("{path} has a bad digest"))?;
    let found = digest_of(calls, root, path, expected.kind().hasher());
    match found.map_err(|error| format!("cannot read {path}: {error}"))? {
        found if found == expected => Ok(()),
        found => Err(format!("{path} has the digest {found} instead of {expected}")),
    }
}

/// The digest of a staged file.
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

fn open_beneath(
    calls: &Syscalls,
    root: &OwnedFd,
    path: &str,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.is_empty() { "." } else { path };
    calls.openat2(root, path, flags | OFlags::RDONLY | OFlags::CLOEXEC, resolve)
}
