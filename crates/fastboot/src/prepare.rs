//! The newest pair of archives becomes a state.

use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use serde::Serialize;
use unsnap_failure::{Failure, Family};
use unsnap_lookup::Reader;
use unsnap_pass::{Archive, CancelToken, Handles, LayoutKind, Progress, on_a_thread_of_its_own};
use unsnap_ring::Syscalls;
use unsnap_source::DigestKind;
use unsnap_state::{Format, State};
use unsnap_unpack::{
    Destination, DigestUse, FileSink, Options, PreflightMode, Report, Room, Source, Unpacker,
    Verify,
};

use crate::{
    Candidates, FastbootError, FileIdentity, Pair, Places, Repaired,
    clear::enough_to_clear,
    files::{failed, open_directory},
    removal::{Removal, Remover},
};

/// What an archive that proved bad is renamed to, in its directory: its own name and this. A
/// validator passes such names over.
const SET_ASIDE_SUFFIX: &str = ".unsnap-bad";

/// Files that are removed in a second while something is being unpacked beside, when nobody says
/// otherwise: so that unpacking keeps the journal of the file system to itself. A guess.
pub const REMOVAL_FILES_PER_SECOND: NonZeroU32 = NonZeroU32::new(4000).unwrap();

/// What to prepare, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where a validator keeps what.
    pub places: Places,
    /// What is checked of the archives.
    pub verify: Verify,
    /// How the check for free space is made.
    pub preflight: PreflightMode,
    /// How archives are read.
    pub pass: unsnap_pass::Options,
    /// Is told of each file as it becomes complete.
    pub files: Option<FileSink>,
    /// How the list of storages is written.
    pub format: Format,
    /// Keep second names of the storages, for [`repair`](crate::repair).
    pub shadow: bool,
    /// Prepare the newest archives even if there is a state as new as they are.
    pub replace: bool,
    /// Prepare these, and nothing else if they prove bad; `None` for the newest that are any good.
    pub pair: Option<Pair>,
    /// Archives that have proved bad before, and are passed over.
    pub known_bad: Vec<KnownBad>,
    /// Files of older states that are removed in a second while the new one is being unpacked; when it
    /// is complete, the rest goes as fast as it can.
    pub removal_files_per_second: NonZeroU32,
}

/// An archive that has proved bad.
#[derive(Clone, Debug)]
pub struct KnownBad {
    /// Where it is.
    pub path: PathBuf,
    /// The file it was then: if another has its name now, that is not known to be bad.
    pub file: FileIdentity,
    /// Why.
    pub reason: String,
}

/// What there is for a validator now, or lies ready for it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// A state was prepared.
    Prepared(Box<Prepared>),
    /// One that lay ready took its place: see [`prepare_beside`](crate::prepare_beside).
    Adopted {
        /// Its slot.
        slot: u64,
        /// Its directory.
        directory: PathBuf,
        /// Storages of it.
        storages: u64,
        /// Milliseconds until it was whole in its place, durably; what it took to look at it is among
        /// them, what removing the old one took is not.
        elapsed_ms: u64,
        /// Archives that proved bad.
        set_aside: Vec<SetAside>,
    },
    /// There was one, as new as the newest archives that are any good.
    Ready {
        /// Its slot.
        slot: u64,
        /// What was done to it.
        state: Repaired,
        /// Archives that proved bad.
        set_aside: Vec<SetAside>,
    },
}

/// A state that was prepared.
#[derive(Clone, Debug, Serialize)]
pub struct Prepared {
    /// Its slot.
    pub slot: u64,
    /// Its directory.
    pub directory: PathBuf,
    /// What unpacking was like.
    pub report: Report,
    /// Archives that proved bad.
    pub set_aside: Vec<SetAside>,
}

/// An archive that proved bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetAside {
    /// What it was called.
    pub path: PathBuf,
    /// What it is called now, so that the validator does not choose it.
    pub now: PathBuf,
    /// Why.
    pub reason: String,
}

/// Where a state is put.
pub(crate) trait Ground {
    /// Where it goes.
    fn target(&self) -> &Places;

    /// What is as new as a pair of archives already, if anything: it is made the outcome. Archives
    /// that proved bad get their new names before a validator could choose them over it.
    fn there(&mut self, pair: &Pair, bad: &mut Bad) -> Result<Option<Outcome>, FastbootError>;

    /// Places in which what is old is cleared away for something new.
    fn cleared(&self) -> Vec<&Places>;

    /// Clears it away.
    fn clear(&mut self) -> Result<Removal, FastbootError>;

    /// Starts removing what has been cleared away.
    fn remove(&self, removal: Removal) -> Remover;
}

/// What is asked for, and the handles of who asks.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub request: &'a Request,
    pub calls: &'a Syscalls,
    pub progress: &'a Progress,
    pub cancel: &'a CancelToken,
}

impl Work<'_> {
    /// Goes through the pairs of archives, the best first, until something as new is there, or has
    /// been unpacked. `places`: where the archives are.
    pub fn newest(
        &self,
        places: &Places,
        ground: &mut impl Ground,
    ) -> Result<Outcome, FastbootError> {
        let mut candidates = match &self.request.pair {
            Some(pair) => Candidates::only(pair.clone()),
            None => Candidates::find(&places.search_dirs())?,
        };
        let mut bad = Bad::known(&self.request.known_bad);
        for known in bad.archives.iter().filter(|bad| bad.file.is_that_of(&bad.path)) {
            candidates.set_aside(&known.path);
        }
        while let Some(pair) = candidates.best() {
            // Looked at each time: an archive may prove bad only after the way has been cleared.
            if let Some(outcome) = ground.there(&pair, &mut bad)? {
                return Ok(outcome);
            }
            let files = FileIdentity::of_all(pair.archives().map(|archive| &*archive.path));
            let proven = self.prove(&pair);
            match proven.and_then(|()| self.unpack(ground, &pair, &mut bad)) {
                Ok(prepared) => return Ok(Outcome::Prepared(Box::new(prepared))),
                Err(error)
                    if error.family() == Family::BadArchive && self.request.pair.is_none() =>
                {
                    let archive = pair.blamed(&error).path.clone();
                    tracing::warn!(archive = %archive.display(), %error, "set aside");
                    candidates.set_aside(&archive);
                    bad.add(archive, &files, error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(bad.first.unwrap_or_else(|| FastbootError::NoArchive {
            full: places.full_archives.clone(),
            incremental: places.incremental_archives.clone(),
        }))
    }

    /// Checks the bank files of a pair against the names of its archives.
    fn prove(&self, pair: &Pair) -> Result<(), FastbootError> {
        let handles = self.handles();
        for candidate in pair.archives() {
            let archives = [Archive::File(candidate.path.clone())];
            let (archives, options) = (&archives[..], &self.request.pass);
            let facts =
                on_a_thread_of_its_own(|| Reader { archives, options, handles: &handles }.prove())?;
            tracing::info!(slot = facts.slot, bank = %facts.hash, "the bank file agrees with the archive's name");
        }
        Ok(())
    }

    fn unpack(
        &self,
        ground: &mut impl Ground,
        pair: &Pair,
        bad: &mut Bad,
    ) -> Result<Prepared, FastbootError> {
        let Self { request, calls, .. } = *self;
        let (slot, directory) = (pair.slot(), ground.target().state(pair.slot()));
        let incremental = pair.incremental.as_ref().map(|one| Archive::File(one.path.clone()));
        let full = Archive::File(pair.full.path.clone());
        let source = Source::new(full, incremental, LayoutKind::Snapshot, request.verify)?;
        let state = State {
            directory: directory.clone(),
            accounts: ground.target().accounts.clone(),
            format: request.format,
            shadow: request.shadow,
        };
        let digest = DigestUse::Report(DigestKind::Xxh3);
        let mut options = Options::new(source, Destination::State(state), digest)?;
        (options.pass, options.preflight) = (request.pass.clone(), request.preflight);
        options.files.clone_from(&request.files);
        let unpacker = Unpacker::new(options).with_handles(self.handles());
        let mut remover: Option<Remover> = None;
        let staged = unpacker.stage(|room| {
            if let Room::WhenCleared(shortage) = &room {
                enough_to_clear(calls, &ground.cleared(), shortage)?;
            }
            let removal = ground.clear()?;
            let started = ground.remove(removal);
            match room {
                Room::Beside => remover = Some(started),
                // What is gone cannot be had back; but a validator would clear the same away.
                Room::WhenCleared(shortage) => {
                    tracing::warn!("what is old is removed first: {shortage}");
                    started.finish(self.progress);
                }
            }
            if self.cancel.is_cancelled() { Err(FastbootError::CANCELLED) } else { Ok(()) }
        })?;
        // Before there is a state, so that the validator cannot choose them over it.
        let set_aside = bad.rename(calls)?;
        let report = staged.publish()?;
        if let Some(remover) = remover {
            remover.finish(self.progress);
        }
        Ok(Prepared { slot, directory, report, set_aside })
    }

    fn handles(&self) -> Handles {
        Handles { progress: self.progress.clone(), cancel: self.cancel.clone() }
    }
}

/// Archives that proved bad.
pub(crate) struct Bad {
    /// Those that have no other name yet.
    archives: Vec<KnownBad>,
    renamed: Vec<SetAside>,
    /// What was wrong with the first of them in this run.
    first: Option<FastbootError>,
}

impl Bad {
    fn known(archives: &[KnownBad]) -> Self {
        Self { archives: archives.to_vec(), renamed: Vec::new(), first: None }
    }

    /// `files`: what the archives were before they were looked at.
    fn add(&mut self, path: PathBuf, files: &[(PathBuf, FileIdentity)], error: FastbootError) {
        if let Some((_, file)) = files.iter().find(|(known, _)| *known == path) {
            self.archives.push(KnownBad { path, file: *file, reason: error.to_string() });
        }
        self.first.get_or_insert(error);
    }

    /// Gives them names that a validator passes over, unless others are there under their names now.
    /// Gives all that have such names now.
    pub fn rename(&mut self, calls: &Syscalls) -> Result<Vec<SetAside>, FastbootError> {
        while let Some(KnownBad { path, file, reason }) = self.archives.pop() {
            if file.is_that_of(&path) {
                let now = set_aside(calls, &path)?;
                self.renamed.push(SetAside { path, now, reason });
            }
        }
        Ok(self.renamed.clone())
    }
}

fn set_aside(calls: &Syscalls, path: &Path) -> Result<PathBuf, FastbootError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(path.to_owned());
    };
    let mut new_name = name.to_owned();
    new_name.push(SET_ASIDE_SUFFIX);
    let holder = open_directory(calls, parent)?;
    let renamed = calls.renameat(&holder, name, &holder, new_name.as_os_str());
    renamed
        .and_then(|()| calls.fsync(&holder))
        .map_err(|errno| failed("set aside", path, errno))?;
    Ok(parent.join(new_name))
}
