//! Beginning of a run: at the archive's start, or at the last checkpoint of an interrupted run.
//!
//! Files of an interrupted run are checked against its journal. Every recorded file must exist with
//! its size, and with its digest if one was recorded; all other files are removed. If a recorded
//! file is missing, no file is used.

mod files;
mod second_names;
mod unusable;

use std::os::fd::OwnedFd;

use unsnap_commit::{
    ArchiveFile as FileId, ArchiveId, Checkpoint, CommitError, Journal, LoadError, Loaded,
    Manifest, Origin, ReadRange, Run, Staging, Target,
};
use unsnap_decode::Position;
use unsnap_fit::Kept;
use unsnap_layout::Layout;
use unsnap_pass::{HeldRange, OpenArchive, PassError};
use unsnap_ring::Syscalls;
use unsnap_source::{ArchiveFile, Digest};

pub(crate) use files::open_beneath;

use crate::{
    Destination, Options, UnpackError, Verify,
    decision::{Decision, Interrupted},
    places::BegunPlaces,
    report::Resumed,
    tees::remote_id,
    walk::Met,
};
use files::check;
use unusable::{Unusable, failed};

/// Beginning of a run.
pub(crate) struct Beginning {
    /// Position at which decoding begins.
    pub decode: Position,
    /// Offset in the decoded stream of the member at which the walk begins.
    pub header_offset: u64,
    /// The rules, in their state at that member.
    pub rules: Layout,
    pub places: BegunPlaces,
    pub met: Met,
    pub resumed: Option<Resumed>,
    /// Existing files of each destination; empty if there are none.
    pub kept: Vec<Kept>,
    /// Origin of the run for checkpoints; `None` for a stream or a dry run.
    pub origin: Option<Origin>,
    /// Journal of this run.
    pub journal: Option<Journal>,
    /// Ranges of the archive that interrupted runs had read.
    pub held: Vec<HeldRange>,
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
            places: BegunPlaces::new(options),
            met: Met::default(),
            resumed: None,
            kept: Vec::new(),
            origin: None,
            journal: None,
            held: Vec::new(),
            fallback: None,
        };
        let Some((target, archive)) = target.zip(archives.first()) else { return Ok(beginning) };
        // A state goes on only where that was asked for. Of a tree the operator may ask it later.
        let is_recorded = match options.destination() {
            Destination::Nowhere { .. } => false,
            Destination::Tree(_) => archives.len() == 1,
            Destination::State(_) => options.resumes(),
        };
        let Some(path) = options.destination().paths().first().copied().filter(|_| is_recorded)
        else {
            return Ok(beginning);
        };
        let Target { calls, staging, directories, .. } = target;
        let refuse = |reason| Err(UnpackError::NotResumable { path: path.clone(), reason });
        let identity = match archive {
            OpenArchive::File(file) => {
                ArchiveId::File(FileId::new(&file.stat().map_err(PassError::source)?))
            }
            OpenArchive::Remote(remote) => ArchiveId::Remote(remote_id(remote)),
            OpenArchive::Stream(_) => {
                if options.resumes() && staging.is_left_over() {
                    return refuse("a stream cannot be read from the middle");
                }
                return Ok(beginning);
            }
        };
        beginning.origin =
            Some(Origin { archive: identity, from: 0, entries: 0, before: Vec::new() });
        let run = Run::new(&what(options, options.archives().len()), staging.identities()?);
        if options.resumes() && staging.is_left_over() {
            match beginning.resume(options, calls, &run, archive, directories, manifest) {
                Ok(()) => return Ok(beginning),
                Err(Unusable::Failed(error)) => return Err(error),
                Err(Unusable::Stopped(errno)) => {
                    let step = "examine the files of the interrupted run to";
                    return Err(CommitError::Staging { step, path: path.clone(), errno }.into());
                }
                Err(Unusable::NotThis(reason)) if options.state().is_none() => {
                    return refuse(reason);
                }
                // A state is made of whatever archives are the newest.
                Err(Unusable::NotThis(reason)) => beginning.start_over(options, staging, reason)?,
                Err(Unusable::Because(reason)) => {
                    beginning.start_over(options, staging, &reason)?;
                }
            }
        }
        // Without a journal, the run cannot be resumed, but nothing else is lost.
        let journal = directories.first().map(|output| Journal::plan(calls, output, run));
        beginning.journal = journal.and_then(|journal| {
            journal.inspect_err(|errno| tracing::warn!(%errno, "{NO_JOURNAL}")).ok()
        });
        Ok(beginning)
    }

    /// Begins at the archive's start, because the files of the interrupted run cannot be used.
    fn start_over(
        &mut self,
        options: &Options,
        staging: &mut Staging,
        reason: &str,
    ) -> Result<(), UnpackError> {
        self.rules = options.rules(0);
        self.places = BegunPlaces::new(options);
        self.fallback = Some(format!("starting over: {reason}"));
        Ok(staging.clear()?)
    }

    /// Continues at the last checkpoint in the journal.
    fn resume(
        &mut self,
        options: &Options,
        calls: &Syscalls,
        run: &Run,
        archive: &OpenArchive,
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
        // Since then an incremental archive has appeared. The storages of the full one are the same;
        // its other files are not of the state any more.
        let alone = Run::new(&what(options, 1), run.staging.clone());
        let has_grown = before != *run && before == alone && options.archives().len() > 1;
        let interrupted = Interrupted {
            before: &before,
            now: if has_grown { &alone } else { run },
            reached: &reached,
            is_same_file: one_archive
                && self.origin.as_ref().is_some_and(|now| now.archive == reached.archive),
            expected: options.digest().expected().map(|digest| digest.kind()),
        };
        let has_same_content = || match archive {
            OpenArchive::File(file) => has_same_content(file, &reached),
            // It would have to be received again.
            OpenArchive::Remote(_) | OpenArchive::Stream(_) => Ok(false),
        };
        match interrupted.decide(has_same_content)? {
            Decision::Resume => {}
            Decision::StartOver(reason) => return because(reason.to_owned()),
            Decision::Refuse(reason) => return Err(Unusable::NotThis(reason)),
        }
        self.held = held(&reached.read);
        if let OpenArchive::Remote(remote) = archive
            && !remote.has_ranges()
            && !covers(&self.held, reached.restart.compressed_offset)
        {
            return because(
                "the server sends the archive from its beginning only, and the interrupted run did \
                 not digest what it received"
                    .to_owned(),
            );
        }
        let members = &reached.members;
        let (rules, places) = (&mut self.rules, &mut self.places);
        let checked = check(calls, members, directories, options.state(), rules, places);
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
            files: met.created,
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
        self.journal = match directories.first().filter(|_| has_grown) {
            None => Some(journal),
            // The other way round, files of the incremental archive would be taken for those of the
            // full one.
            Some(state) => Journal::replace(calls, state, run.clone(), &reached)
                .inspect_err(|errno| tracing::warn!(%errno, "{NO_JOURNAL}"))
                .ok(),
        };
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

const NO_JOURNAL: &str = "no journal: this run cannot be resumed";

/// Returns the name of what a run makes of so many archives. A run resumes only one that made the
/// same.
fn what(options: &Options, archives: usize) -> String {
    let layout = options.source().layout().name();
    if options.state().is_none() {
        return layout.to_owned();
    }
    // Files are not checked again.
    let checks = if options.source().verify() == Verify::None { "unchecked" } else { "checked" };
    format!("state of a {layout}, archives: {archives}, {checks}")
}

/// Returns the ranges with usable digests.
fn held(read: &[ReadRange]) -> Vec<HeldRange> {
    let held = |ReadRange { from, to, digest }: &ReadRange| {
        digest.parse().ok().map(|digest| HeldRange { from: *from, to: *to, digest })
    };
    read.iter().filter_map(held).collect()
}

/// Returns whether the ranges hold every byte before `end`.
fn covers(held: &[HeldRange], end: u64) -> bool {
    let mut covered = 0;
    for range in held {
        if range.from > covered {
            return false;
        }
        covered = covered.max(range.to);
    }
    covered >= end
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
