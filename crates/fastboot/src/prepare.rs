//! The newest pair of archives becomes a state.

use std::path::{Path, PathBuf};

use serde::Serialize;
use unsnap_ring::Syscalls;
use unsnap_unpack::{
    Archive, CancelToken, Candidates, Config, Error, Family, FastbootFormat, FileIdentity, Pair,
    Progress, Report, Room, State, Unpacker, Verify,
};

use crate::{
    LedgerLock, Places, Repaired, Survey,
    clear::{clear, enough_to_clear},
    files::{failed, open_directory},
    remove::{Removal, Remover},
    repair::repair_locked,
};

/// What an archive that proved bad is renamed to, in its directory: its own name and this. A
/// validator passes such names over.
const SET_ASIDE_SUFFIX: &str = ".unsnap-bad";

/// What to prepare, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where a validator keeps what.
    pub places: Places,
    /// How archives are unpacked. What and where to is filled in.
    pub config: Config,
    /// How the list of storages is written.
    pub format: FastbootFormat,
    /// Keep second names of the storages, for [`repair`](crate::repair).
    pub shadow: bool,
    /// Prepare the newest archives even if there is a state as new as they are.
    pub replace: bool,
    /// Prepare these, and nothing else if they prove bad; `None` for the newest that are any good.
    pub pair: Option<Pair>,
    /// Archives that have proved bad before, and are passed over.
    pub known_bad: Vec<KnownBad>,
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

/// What there is for a validator now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// A state was prepared.
    Prepared(Box<Prepared>),
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

/// Sees to it that a validator finds a state as new as the newest good pair of archives.
///
/// Refused while a validator is running on the ledger ([`Error::Running`]); nothing is touched then.
/// What is old is cleared away when a pair of archives has been found whose bank files are those of
/// their names, and that there is room for; until then everything is as it was. From then on there
/// is no state until the new one is complete and durable. On an error what was begun is taken back,
/// and the validator goes to the archives.
///
/// Archives that prove bad are renamed, so that the validator does not choose them either, but only
/// when there is something else for it.
pub fn prepare(
    request: &Request,
    calls: &Syscalls,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Outcome, Error> {
    let places = request.places.settle()?;
    places.refuse_links()?;
    let _lock = LedgerLock::take(&places.ledger)?;
    let mut candidates = match &request.pair {
        Some(pair) => Candidates::only(pair.clone()),
        None => Candidates::find(&places.search_dirs())?,
    };
    let mut survey = Survey::of(calls, &places)?;
    let mut bad = Bad { archives: request.known_bad.clone(), first: None };
    for KnownBad { path, file, .. } in &bad.archives {
        if file.is_that_of(path) {
            candidates.set_aside(path);
        }
    }
    while let Some(pair) = candidates.best() {
        let is_new_enough = |survey: &Survey| {
            let newest = survey.newest().filter(|state| state.condition.is_loadable());
            newest.is_some_and(|state| state.slot >= pair.slot())
        };
        if is_new_enough(&survey) && !request.replace {
            let slot = survey.newest().map_or(0, |state| state.slot);
            let state = repair_locked(calls, &places, &survey)?;
            if !matches!(state, Repaired::Withdrawn { .. } | Repaired::NoState) {
                let set_aside = bad.rename(calls)?;
                Removal::tidy(calls, &places);
                return Ok(Outcome::Ready { slot, state, set_aside });
            }
            tracing::warn!(slot, "the state cannot be made whole, and is withdrawn");
        }
        let files = FileIdentity::of_all(pair.archives().map(|archive| &*archive.path));
        let proven = prove(request, &pair, progress, cancel);
        let prepared = proven.and_then(|()| {
            prepare_pair(request, calls, &places, &pair, progress, cancel, &mut bad)
        });
        match prepared {
            Ok(prepared) => return Ok(Outcome::Prepared(Box::new(prepared))),
            Err(error) if error.family() == Family::BadArchive && request.pair.is_none() => {
                let archive = pair.blamed(&error).path.clone();
                tracing::warn!(archive = %archive.display(), %error, "set aside");
                candidates.set_aside(&archive);
                bad.add(archive, &files, error);
                // If it proved bad only after the way had been cleared, there is none any more.
                survey = Survey::of(calls, &places)?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(bad.first.unwrap_or_else(|| Error::NoArchive {
        full: places.full_archives.clone(),
        incremental: places.incremental_archives.clone(),
    }))
}

/// Archives that proved bad.
struct Bad {
    archives: Vec<KnownBad>,
    /// What was wrong with the first of them in this run.
    first: Option<Error>,
}

impl Bad {
    /// `files`: what the archives were before they were looked at.
    fn add(&mut self, path: PathBuf, files: &[(PathBuf, FileIdentity)], error: Error) {
        if let Some((_, file)) = files.iter().find(|(known, _)| *known == path) {
            self.archives.push(KnownBad { path, file: *file, reason: error.to_string() });
        }
        self.first.get_or_insert(error);
    }

    /// Gives them names that a validator passes over, unless others are there under their names now.
    fn rename(&mut self, calls: &Syscalls) -> Result<Vec<SetAside>, Error> {
        let archives = self.archives.drain(..).filter(|bad| bad.file.is_that_of(&bad.path));
        archives
            .map(|KnownBad { path, reason, .. }| {
                let now = set_aside(calls, &path)?;
                Ok(SetAside { path, now, reason })
            })
            .collect()
    }
}

fn set_aside(calls: &Syscalls, path: &Path) -> Result<PathBuf, Error> {
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

/// Holds the bank files of a pair to the names of its archives.
fn prove(
    request: &Request,
    pair: &Pair,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<(), Error> {
    for candidate in pair.archives() {
        let mut config = request.config.clone();
        config.archive = Archive::File(candidate.path.clone());
        config.dry_run = true;
        // Of the bank file only: no use in decoding ahead what follows it.
        config.decode_threads = Some(1);
        config.verify = Verify::Structure;
        let unpacker = Unpacker::new(config).with_handles(progress.clone(), cancel.clone());
        let facts = unpacker.prove()?;
        tracing::info!(slot = facts.slot, bank = %facts.hash, "the bank file is the one of the archive's name");
    }
    Ok(())
}

fn prepare_pair(
    request: &Request,
    calls: &Syscalls,
    places: &Places,
    pair: &Pair,
    progress: &Progress,
    cancel: &CancelToken,
    bad: &mut Bad,
) -> Result<Prepared, Error> {
    let (slot, directory) = (pair.slot(), places.state(pair.slot()));
    let mut config = request.config.clone();
    config.archive = Archive::File(pair.full.path.clone());
    config.output.clone_from(&directory);
    config.accounts.clone_from(&places.accounts);
    config.dry_run = false;
    config.incremental = pair.incremental.as_ref().map(|one| Archive::File(one.path.clone()));
    config.state = Some(State { format: request.format, shadow: request.shadow });
    let mut remover: Option<Remover> = None;
    let unpacker = Unpacker::new(config).with_handles(progress.clone(), cancel.clone());
    let staged = unpacker.stage(|room| {
        if let Room::WhenCleared(shortage) = &room {
            enough_to_clear(calls, places, shortage)?;
        }
        let removal = clear(calls, places)?;
        match room {
            Room::Beside => remover = Some(removal.start(calls)),
            // What is gone cannot be had back; but a validator would clear the same away.
            Room::WhenCleared(shortage) => {
                tracing::warn!("what is old is removed first: {shortage}");
                removal.finish(calls)?;
            }
        }
        Ok(())
    })?;
    // Before there is a state, so that the validator cannot choose them over it.
    let set_aside = bad.rename(calls)?;
    let report = staged.publish()?;
    if let Some(remover) = remover {
        remover.finish();
    }
    Ok(Prepared { slot, directory, report, set_aside })
}
