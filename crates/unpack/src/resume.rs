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

use crate::{Destination, Options, UnpackError, places::Spread, report::Resumed, walk::Met};

/// Where a run begins.
pub(crate) struct Beginning {
    /// Where decoding begins.
    pub decode: Position,
    /// Where the member begins, in the decoded stream, that the walk begins with.
    pub header_offset: u64,
    /// The rules, and the spread, as they stand there.
    pub rules: Layout,
    pub spread: Spread,
    pub met: Met,
    pub resumed: Option<Resumed>,
    /// What is there already, in each destination; empty if nothing is.
    pub kept: Vec<Kept>,
    /// What is unpacked, for checkpoints; `None` for a stream or a dry run.
    pub origin: Option<Origin>,
    /// To write down what this run does.
    pub journal: Option<Journal>,
    /// Why nothing was resumed although that was wanted, in words.
    pub fallback: Option<String>,
}

impl Beginning {
    /// Finds out where to begin, and removes files that are of no use. `target`: `None` where nothing
    /// is written.
    pub fn find(
        options: &Options,
        target: Option<&mut Target>,
        archives: &[OpenArchive],
        manifest: Option<&mut Manifest>,
    ) -> Result<Self, UnpackError> {
        let mut beginning = Self {
            decode: Position::default(),
            header_offset: 0,
            rules: rules(options),
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
            if tree.resume && staging.is_left_over() {
                return refuse("a stream cannot be read from the middle");
            }
            return Ok(beginning);
        };
        let identity = ArchiveIdentity::new(&archive.stat().map_err(PassError::source)?);
        beginning.origin = Some(Origin { archive: identity, from: 0, before: Vec::new() });
        let run = Run::new(options.source().layout().name(), staging.identities()?);
        if tree.resume && staging.is_left_over() {
            match beginning.resume(options, calls, &run, archive, directories, manifest) {
                Ok(()) => return Ok(beginning),
                Err(Unusable::Failed(error)) => return Err(error),
                Err(Unusable::Stopped(errno)) => {
                    let step = "look at the files that an interrupted run left of";
                    let path = tree.output.clone();
                    return Err(CommitError::Staging { step, path, errno }.into());
                }
                Err(Unusable::NotThis(reason)) => return refuse(reason),
                Err(Unusable::Because(reason)) => {
                    beginning.rules = rules(options);
                    beginning.spread = Spread::new(tree.accounts.len());
                    beginning.fallback = Some(format!("starting over: {reason}"));
                    staging.clear()?;
                }
            }
        }
        // A convenience: without it the run cannot be resumed, and that is all.
        let journal = directories.first().map(|output| Journal::plan(calls, output, run));
        beginning.journal = journal.and_then(|journal| {
            journal.inspect_err(|errno| tracing::warn!(%errno, "there will be no journal")).ok()
        });
        Ok(beginning)
    }

    /// Takes itself to where the journal says the interrupted run stood.
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
                return because("the interrupted run had not come to a checkpoint".to_owned());
            }
            Some(Err(LoadError::Damaged(reason))) => {
                return because(format!("the journal is damaged: {reason}"));
            }
            Some(Err(LoadError::Failed(errno))) => return Err(failed(errno)),
        };
        if before != *run {
            return Err(Unusable::NotThis("it was for another layout or other destinations"));
        }
        let same_file =
            one_archive && self.origin.as_ref().is_some_and(|now| now.archive == reached.archive);
        if !same_file {
            if !has_same_content(archive, &reached)? {
                return Err(Unusable::NotThis(
                    "it is of another archive, or the archive has changed",
                ));
            }
            // What was unpacked must be of what is expected, as far as digests can tell.
            let kind = options.digest().expected().map(|digest| digest.kind());
            let told =
                |range: &ReadRange| range.digest.parse().ok().map(|digest: Digest| digest.kind());
            if kind.is_some() && reached.read.iter().any(|range| told(range) != kind) {
                let reason = "the archive is another file, and what the interrupted run has read of its \
                              own was not digested as what is expected";
                return because(reason.to_owned());
            }
        }
        let inconsistent = reached.restart.raw_offset > reached.header_offset
            || !reached.header_offset.is_multiple_of(512);
        if inconsistent {
            return because("the journal is damaged: its offsets make no sense".to_owned());
        }
        let members = &reached.members;
        let checked = check(calls, members, directories, &mut self.rules, &mut self.spread);
        let (met, files) = checked.map_err(|unusable| match unusable {
            Unusable::Because(reason) => {
                Unusable::Because(format!("what is left does not match its journal: {reason}"))
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
            // Where a digest is expected, all of the archive is digested.
            let all = options.digest().expected().is_some();
            origin.from = if all { 0 } else { reached.restart.compressed_offset };
            origin.before = reached.read;
        }
        Ok(())
    }
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

/// Why what an interrupted run has left cannot be used.
enum Unusable {
    /// It is good, but for something else than what is asked for.
    NotThis(&'static str),
    /// It is worthless.
    Because(String),
    /// That cannot be found out now.
    Failed(UnpackError),
    /// The same, for this reason.
    Stopped(Errno),
}

/// A system call has failed: either what is there is not what it must be, or the machine is at fault.
fn failed(errno: Errno) -> Unusable {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::XDEV => {
            Unusable::Because(errno.to_string())
        }
        errno => Unusable::Stopped(errno),
    }
}

/// Whether what the interrupted runs had read of their archives is the same here, from the archive's
/// beginning to where decoding is to begin.
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

/// Takes the layout and the spread to where they were when the last of `members` had been met, and
/// proves that those are in `directories`, and nothing else. The error says in words what is wrong.
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
        // Directories are made in the output only.
        listed = HashSet::new();
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
    // The deepest first.
    for path in unlisted.into_iter().rev() {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let removed = open_beneath(calls, root, parent, OFlags::DIRECTORY)
            .and_then(|parent| calls.unlinkat(parent, name, AtFlags::REMOVEDIR));
        match removed {
            // There is something in it, or it went with the one above.
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
        return because(format!("{path} has a bad digest"));
    };
    match digest_of(calls, root, path, expected.kind().hasher()).map_err(failed)? {
        found if found == expected => Ok(()),
        found => because(format!("{path} has the digest {found} instead of {expected}")),
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

/// The rules for the first archive's entries.
fn rules(options: &Options) -> Layout {
    options.source().layout().rules(&options.archives()[0], &options.pass.limits)
}
