//! Beginning of a run: at the archive's start, or at the last checkpoint of an interrupted run.
//!
//! Files of an interrupted run are checked against its journal. Every recorded file must exist with
//! its size, and with its digest if one was recorded; all other files are removed. If a recorded
//! file is missing, no file is used.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    os::fd::OwnedFd,
};

use rustix::{
    fs::{AtFlags, FileType, OFlags, ResolveFlags},
    io::Errno,
};
use unsnap_commit::{
    ArchiveFile as ArchiveIdentity, Checkpoint, CommitError, Journal, LoadError, Loaded, Manifest,
    Origin, ReadRange, Recorded, Run, Target, is_journal,
};
use unsnap_decode::Position;
use unsnap_fit::Kept;
use unsnap_layout::{Layout, Placement};
use unsnap_pass::{OpenArchive, PassError};
use unsnap_ring::Syscalls;
use unsnap_source::{ArchiveFile, Digest, Hasher};
use unsnap_tarstream::{Member, MemberKind};

use crate::{
    Destination, Options, UnpackError,
    decision::{Decision, Interrupted},
    places::Spread,
    report::Resumed,
    walk::Met,
};

/// Beginning of a run.
pub(crate) struct Beginning {
    /// Position at which decoding begins.
    pub decode: Position,
    /// Offset in the decoded stream of the member at which the walk begins.
    pub header_offset: u64,
    /// The rules, in their state at that member.
    pub rules: Layout,
    pub spread: Spread,
    pub met: Met,
    pub resumed: Option<Resumed>,
    /// Existing files of each destination; empty if there are none.
    pub kept: Vec<Kept>,
    /// Origin of the run for checkpoints; `None` for a stream or a dry run.
    pub origin: Option<Origin>,
    /// Journal of this run.
    pub journal: Option<Journal>,
    /// The reason, in words, why a run that should resume starts over.
    pub fallback: Option<String>,
}

impl Beginning {
    /// Finds the beginning and removes useless files. `target` is `None` if nothing is written.
    pub fn find(
        options: &Options,
        target: Option<&mut Target>,
        archives: &[OpenArchive],
        manifest: Option<&mut Manifest>,
    ) -> Result<Self, UnpackError> {
        let mut beginning = Self {
            decode: Position::default(),
            header_offset: 0,
            rules: options.rules(0),
            spread: Spread::new(options.destination().accounts().len()),
            met: Met::default(),
            resumed: None,
            kept: Vec::new(),
            origin: None,
            journal: None,
            fallback: None,
        };
        // Only a tree of one archive can be resumed.
        let (Some(target), Destination::Tree(tree), [archive]) =
            (target, options.destination(), archives)
        else {
            return Ok(beginning);
        };
        let Target { calls, staging, directories, .. } = target;
        let refuse = |reason| Err(UnpackError::NotResumable { path: tree.output.clone(), reason });
        let OpenArchive::File(archive) = archive else {
            if options.resumes() && staging.is_left_over() {
                return refuse("a stream cannot be read from the middle");
            }
            return Ok(beginning);
        };
        let identity = ArchiveIdentity::new(&archive.stat().map_err(PassError::source)?);
        beginning.origin =
            Some(Origin { archive: identity, from: 0, entries: 0, before: Vec::new() });
        let run = Run::new(options.source().layout().name(), staging.identities()?);
        if options.resumes() && staging.is_left_over() {
            match beginning.resume(options, calls, &run, archive, directories, manifest) {
                Ok(()) => return Ok(beginning),
                Err(Unusable::Failed(error)) => return Err(error),
                Err(Unusable::Stopped(errno)) => {
                    let step = "examine the files of the interrupted run to";
                    let path = tree.output.clone();
                    return Err(CommitError::Staging { step, path, errno }.into());
                }
                Err(Unusable::NotThis(reason)) => return refuse(reason),
                Err(Unusable::Because(reason)) => {
                    beginning.rules = options.rules(0);
                    beginning.spread = Spread::new(tree.accounts.len());
                    beginning.fallback = Some(format!("starting over: {reason}"));
                    staging.clear()?;
                }
            }
        }
        // Without a journal, the run cannot be resumed, but nothing else is lost.
        let journal = directories.first().map(|output| Journal::plan(calls, output, run));
        beginning.journal = journal.and_then(|journal| {
            journal
                .inspect_err(
                    |errno| tracing::warn!(%errno, "no journal: this run cannot be resumed"),
                )
                .ok()
        });
        Ok(beginning)
    }

    /// Continues at the last checkpoint in the journal.
    fn resume(
        &mut self,
        options: &Options,
        calls: &Syscalls,
        run: &Run,
        archive: &ArchiveFile,
        directories: &[OwnedFd],
        manifest: Option<&mut Manifest>,
    ) -> Result<(), Unusable> {
        let because = |reason: String| Err(Unusable::Because(reason));
        let loaded = directories.first().map(|output| Journal::load(calls, output));
        let Loaded { run: before, reached, one_archive, journal } = match loaded {
            Some(Ok(Some(loaded))) => loaded,
            None | Some(Ok(None)) => {
                return because("the interrupted run had not reached a checkpoint".to_owned());
            }
            Some(Err(LoadError::Damaged(reason))) => {
                return because(format!("the journal is damaged: {reason}"));
            }
            Some(Err(LoadError::Failed(errno))) => return Err(failed(errno)),
        };
        let interrupted = Interrupted {
            before: &before,
            now: run,
            reached: &reached,
            is_same_file: one_archive
                && self.origin.as_ref().is_some_and(|now| now.archive == reached.archive),
            expected: options.digest().expected().map(|digest| digest.kind()),
        };
        match interrupted.decide(|| has_same_content(archive, &reached))? {
            Decision::Resume => {}
            Decision::StartOver(reason) => return because(reason.to_owned()),
            Decision::Refuse(reason) => return Err(Unusable::NotThis(reason)),
        }
        let members = &reached.members;
        let checked = check(calls, members, directories, &mut self.rules, &mut self.spread);
        let (met, files) = checked.map_err(|unusable| match unusable {
            Unusable::Because(reason) => {
                Unusable::Because(format!("its files do not match the journal: {reason}"))
            }
            other => other,
        })?;
        if let Some(manifest) = manifest {
            let listed = files.iter().try_for_each(|file| file.list(calls, directories, manifest));
            listed.map_err(|error| Unusable::Failed(error.into()))?;
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
        if let Some(origin) = &mut self.origin {
            // With an expected digest, the whole archive is digested.
            let all = options.digest().expected().is_some();
            origin.from = if all { 0 } else { reached.restart.compressed_offset };
            origin.entries = reached.entries;
            origin.before = reached.read;
        }
        Ok(())
    }
}

/// A complete file of an interrupted run.
struct Staged<'a> {
    /// Path in the archive.
    path: &'a str,
    destination: usize,
    /// Path in the destination.
    placed: &'a str,
    bytes: u64,
    digest: Option<&'a str>,
}

impl Staged<'_> {
    /// Adds it to the manifest. Without a recorded digest, the file is read.
    fn list(
        &self,
        calls: &Syscalls,
        directories: &[OwnedFd],
        manifest: &mut Manifest,
    ) -> Result<(), CommitError> {
        let known = self.digest.and_then(|digest| digest.parse().ok());
        let usable = known.filter(|digest: &Digest| digest.kind() == manifest.kind());
        let (directory, hasher) = (&directories[self.destination], manifest.kind().hasher());
        let read = || digest_of(calls, directory, self.placed, hasher);
        let digest = usable.map_or_else(read, Ok).map_err(|errno| CommitError::Staging {
            step: "read the unpacked",
            path: self.path.into(),
            errno,
        })?;
        manifest.line(self.path, self.bytes, digest)
    }
}

/// Reason why the files of an interrupted run cannot be used.
enum Unusable {
    /// They belong to another run.
    NotThis(&'static str),
    /// They are useless.
    Because(String),
    /// Checking them failed.
    Failed(UnpackError),
    /// A system call that checks them failed.
    Stopped(Errno),
}

/// Classifies an error of a system call: either the files differ from the recorded ones, or the
/// machine is at fault.
fn failed(errno: Errno) -> Unusable {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::XDEV => {
            Unusable::Because(errno.to_string())
        }
        errno => Unusable::Stopped(errno),
    }
}

/// Returns whether this archive has the bytes that the interrupted runs had read, from its
/// beginning to the position at which decoding is to begin.
fn has_same_content(archive: &ArchiveFile, reached: &Checkpoint) -> Result<bool, Unusable> {
    let mut covered = 0;
    for ReadRange { from, to, digest } in &reached.read {
        let Ok(expected) = digest.parse::<Digest>() else { return Ok(false) };
        if *from > covered {
            return Ok(false);
        }
        let mut hasher = expected.kind().hasher();
        let read = archive.digest_range(&mut hasher, *from, *to);
        let end = read.map_err(|error| Unusable::Failed(PassError::source(error).into()))?;
        if end != *to || hasher.digest() != expected {
            return Ok(false);
        }
        covered = covered.max(*to);
    }
    Ok(covered >= reached.restart.compressed_offset && covered > 0)
}

/// Brings the layout and the distribution of storages to their state after the last of `members`,
/// and proves that exactly these members are in `directories`.
fn check<'a>(
    calls: &Syscalls,
    members: &'a [Recorded],
    directories: &[OwnedFd],
    layout: &mut Layout,
    spread: &mut Spread,
) -> Result<(Met, Vec<Staged<'a>>), Unusable> {
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
                listed.insert(path);
            }
            Placement::File { path, .. } => {
                met.files += 1;
                met.creates(member.size);
                let (destination, placed) = spread.place(&placement, member.size);
                let digest = recorded.digest.as_deref();
                files.push(Staged { path, destination, placed, bytes: member.size, digest });
            }
        }
    }
    for (index, directory) in directories.iter().enumerate() {
        let here = files.iter().filter(|file| file.destination == index);
        clean(calls, directory, here.map(|file| (file.placed, file)).collect(), listed)?;
        // Only the output has directories of the archive.
        listed = HashSet::new();
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
