//! What preparing a state would do: a dry run, which changes nothing.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{fs::OFlags, io::Errno};
use serde::Serialize;
use unsnap_failure::{Failure, Family};
use unsnap_fit::{Announced, FileSystem, Preflight, PreflightReport, Question};
use unsnap_pass::{CancelToken, OpenArchive, Opened, Progress, on_a_thread_of_its_own};
use unsnap_ring::Syscalls;
use unsnap_state::format::{FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX};
use unsnap_state::{Base, Format, SHADOW_DIRECTORY};
use unsnap_unpack::ReusedReport;

use crate::{
    Candidate, Condition, FastbootError, LedgerLock, Pair, Places, Request, StateSurvey, Survey,
    base, blamed,
    clear::{Taken, enough_to_clear, old_files},
    cluster::Cluster,
    files::{failed, open_directory, read_small},
    removal::Removal,
    request::Work,
    space::{bytes_in, pinned_in},
    states::state_directories,
};

/// What preparing would do.
#[derive(Clone, Debug, Serialize)]
pub struct DryRun {
    /// The action.
    pub action: Action,
    /// Slot of the state that a validator would find afterwards.
    pub slot: u64,
    /// The archives that count, the full one first.
    pub archives: Vec<PathBuf>,
    /// Bad archives, which would be set aside.
    pub set_aside: Vec<PathBuf>,
    /// What would be written, as the archives tell; `None` if nothing would be.
    pub written: Option<PreflightReport>,
    /// Storages of the full archive that would be linked from an earlier state; only the incremental
    /// archive would be unpacked then. `None` if there are none.
    pub reused: Option<ReusedReport>,
    /// Whether old states would have to be removed before the new one is written.
    pub clears_first: bool,
    /// What would be removed.
    pub cleared: Vec<Files>,
    /// What would stay as it is.
    pub kept: Vec<Files>,
    /// Space on each file system.
    pub space: Vec<Space>,
}

/// What preparing would do with the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Unpack archives.
    Prepare,
    /// Move the ready state into place.
    Adopt,
    /// Nothing: there is a state as new as the archives. Repairs it, if storages are missing.
    Nothing,
}

/// Files of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Files {
    /// Kind.
    pub what: What,
    /// Slot, of a state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<u64>,
    /// Directory.
    pub path: PathBuf,
    /// Bytes on the disk. Of a shadow, those that it alone keeps there; of storages that would be
    /// removed, those that the new state would not link.
    pub bytes: u64,
    /// Device number of the directory's file system.
    #[serde(skip)]
    device: Option<u64>,
}

/// Kind of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The directory of a state, without its storages.
    State,
    /// A directory `run` with its storages.
    Storages,
    /// Second names of storages.
    Shadow,
    /// The ready state, or a part of it.
    Ready,
    /// What an earlier run left.
    Leftover,
}

/// Space on a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Space {
    /// The validator's directories on it.
    pub directories: Vec<PathBuf>,
    /// Free bytes now; `None` if the file system does not report them.
    pub free_bytes: Option<u64>,
    /// Bytes that are to stay free.
    pub min_free_bytes: u64,
    /// Bytes that would be written; `None` if unknown.
    pub written_bytes: Option<u64>,
    /// Bytes that would be freed.
    pub cleared_bytes: u64,
    /// Free bytes when everything is done; `None` if unknown.
    pub free_after_bytes: Option<u64>,
}

/// Determines what [`prepare`](crate::prepare) would do or, with `beside`,
/// [`prepare_beside`](crate::prepare_beside). Changes nothing, not even by making a missing
/// directory. Looks at every file of old states.
///
/// # Errors
///
/// Those for which preparing would refuse the request before it clears anything, as far as they can
/// be found without writing: a running validator, no archive, or no space.
pub fn dry_run(
    request: &Request,
    beside: bool,
    calls: &Syscalls,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<DryRun, FastbootError> {
    let work = Work { request, calls, progress, cancel };
    let places = &Places { ledger: request.places.own_ledger()?, ..request.places.clone() };
    match places.refuse_links() {
        // Not made yet.
        Err(error) if error.errno() == Some(Errno::NOENT) => {}
        result => result?,
    }
    if beside {
        LedgerLock::refuse_ours(calls, &places.ledger)?;
    } else {
        LedgerLock::check(&places.ledger)?;
    }
    let survey = Survey::of(calls, places, progress)?;
    let look = Look { work, places, beside, survey };
    let mut candidates = work.candidates(&places.search_dirs())?;
    let (mut set_aside, mut first_error) = (Vec::new(), None);
    while let Some(pair) = candidates.best() {
        let action = look.action(&pair)?;
        let is_prepared = action == Action::Prepare;
        let base = is_prepared.then(|| base::find(work, places, &pair)).flatten();
        let base = base.filter(|_| pair.full().offered.is_none());
        let unpacked = pair.archives().filter(|archive| {
            is_prepared && (base.is_none() || pair.incremental() == Some(*archive))
        });
        let unpacked: Vec<&Candidate> = unpacked.collect();
        match work.prove(unpacked.iter().copied()) {
            Ok(()) => return look.at(&pair, action, &unpacked, base, set_aside),
            Err(error) if error.family() == Family::BadArchive && request.pair.is_none() => {
                let archive = blamed(&pair, &error).path.clone();
                candidates.set_aside(&archive);
                set_aside.push(archive);
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(first_error.unwrap_or_else(|| FastbootError::NoArchive {
        full: places.full_archives.clone(),
        incremental: places.incremental_archives.clone(),
    }))
}

struct Look<'a> {
    work: Work<'a>,
    places: &'a Places,
    beside: bool,
    survey: Survey,
}

impl Look<'_> {
    /// Returns what would be done if this pair counts.
    fn action(&self, pair: &Pair) -> Result<Action, FastbootError> {
        let request = self.work.request;
        let used = self.survey.loadable().filter(|_| !request.replace || self.beside);
        let used = used.filter(|state| is_usable(&state.condition)).map(|state| state.slot);
        let ready = if request.replace { None } else { self.ready(request.format)? };
        let is_new = |slot: &u64| *slot >= pair.slot();
        let cluster = Cluster::of(self.work.calls, &request.places.ledger, &request.cluster)?;
        let is_expected = |places: &Places, slot| {
            let directory = places.state(slot);
            if self.beside {
                Ok(())
            } else {
                cluster.refuse_state(self.work.calls, &directory, slot)
            }
        };
        let ready = ready.filter(|slot| is_expected(&self.places.beside(), *slot).is_ok());
        let newer = ready.filter(|slot| is_new(slot) && used.is_none_or(|used| *slot > used));
        Ok(match newer {
            Some(_) if !self.beside => Action::Adopt,
            Some(_) => Action::Nothing,
            None => match used.filter(is_new) {
                Some(used) => {
                    is_expected(self.places, used)?;
                    Action::Nothing
                }
                None => Action::Prepare,
            },
        })
    }

    /// Returns the slot of the ready state if it is whole and has this format.
    fn ready(&self, format: Format) -> Result<Option<u64>, FastbootError> {
        let Some(StateSurvey { slot, directory, condition: Condition::Whole { .. }, .. }) =
            &self.survey.ready
        else {
            return Ok(None);
        };
        let state = open_directory(self.work.calls, directory)?;
        let mark =
            read_small(self.work.calls, &state, FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX);
        let mark = mark.map_err(|errno| failed("read the mark in", directory, errno))?;
        Ok(mark.is_some_and(|mark| mark == format.version().as_bytes()).then_some(*slot))
    }

    fn at(
        &self,
        pair: &Pair,
        action: Action,
        unpacked: &[&Candidate],
        base: Option<(Places, Arc<Base>)>,
        set_aside: Vec<PathBuf>,
    ) -> Result<DryRun, FastbootError> {
        let used = self.survey.loadable().map(|state| state.slot);
        let ready = self.survey.ready.as_ref().map(|state| state.slot);
        let slot = match action {
            Action::Prepare => pair.slot(),
            Action::Adopt => ready.unwrap_or_default(),
            Action::Nothing => used.max(ready).unwrap_or_default(),
        };
        let (mut cleared, kept) = self.cleared_and_kept(action)?;
        if let Some((holder, base)) = &base {
            for (run, bytes) in holder.run_directories().zip(base.bytes_by_path()) {
                if let Some(files) = cleared.iter_mut().find(|files| files.path == run) {
                    files.bytes = files.bytes.saturating_sub(bytes);
                }
            }
        }
        let systems = self.file_systems()?;
        let (written, clears_first) = match action {
            Action::Prepare => {
                let (report, clears_first) = self.written(unpacked, &systems)?;
                (Some(report), clears_first)
            }
            Action::Adopt | Action::Nothing => (None, false),
        };
        let mut space = Vec::new();
        for (index, system) in systems.iter().enumerate() {
            space.push(space_on(index, system, written.as_ref(), &cleared)?);
        }
        let archives = pair.archives().map(|archive| archive.path.clone()).collect();
        Ok(DryRun {
            action,
            slot,
            archives,
            set_aside,
            written,
            reused: base.map(|(_, base)| ReusedReport::of(&base)),
            clears_first,
            cleared,
            kept,
            space,
        })
    }

    /// Lists all files of states, in the directories that preparing would clear and in the others.
    fn cleared_and_kept(&self, action: Action) -> Result<(Vec<Files>, Vec<Files>), FastbootError> {
        let Self { places, beside, .. } = self;
        let own = self.files(places, None)?;
        let ready = self.files(&places.beside(), Some(What::Ready))?;
        let (left, ready): (Vec<_>, Vec<_>) =
            ready.into_iter().partition(|files| files.what == What::Leftover);
        let (own_left, own): (Vec<_>, Vec<_>) =
            own.into_iter().partition(|files| files.what == What::Leftover);
        let left = [own_left, left].concat();
        let used = self.survey.loadable().map(|state| state.slot);
        let is_ready_needed = self.survey.ready.as_ref().map(|state| state.slot) > used;
        Ok(match (action, beside) {
            (Action::Prepare, false) => ([own, ready, left].concat(), Vec::new()),
            // Its files are moved.
            (Action::Adopt, _) => ([own, left].concat(), ready),
            (Action::Nothing, true) if is_ready_needed => (left, [own, ready].concat()),
            (Action::Prepare, true) | (Action::Nothing, _) => ([ready, left].concat(), own),
        })
    }

    /// Lists the files in some directories. `all_are` names states, storages and shadows.
    fn files(&self, places: &Places, all_are: Option<What>) -> Result<Vec<Files>, FastbootError> {
        let calls = self.work.calls;
        let mut found = Vec::new();
        let mut add = |what: What, slot: Option<u64>, path: PathBuf| {
            let (device, mut bytes) = match what {
                // The rest of it has names in `run`.
                What::Shadow => pinned_in(calls, &path)?,
                _ => bytes_in(calls, &path, |_, _| true)?,
            };
            if let (What::Leftover, Some(device)) = (what, device) {
                bytes = Taken::by(calls, std::slice::from_ref(&path), device)?.bytes;
            }
            if bytes > 0 || slot.is_some() {
                let what = if what == What::Leftover { what } else { all_are.unwrap_or(what) };
                found.push(Files { what, slot, path, bytes, device });
            }
            Ok::<_, FastbootError>(())
        };
        for (slot, path) in state_directories(calls, places)? {
            add(What::State, Some(slot), path)?;
        }
        for run in places.run_directories() {
            add(What::Storages, None, run)?;
        }
        for accounts in &places.accounts {
            add(What::Shadow, None, accounts.join(SHADOW_DIRECTORY))?;
        }
        for path in Removal::left_over(calls, places)?.paths() {
            add(What::Leftover, None, path)?;
        }
        Ok(found)
    }

    /// Returns the file systems of the states and the accounts paths, by the nearest directories
    /// that exist.
    fn file_systems(&self) -> Result<Vec<FileSystem>, FastbootError> {
        let paths = std::iter::once(&self.places.snapshots).chain(&self.places.accounts);
        let directories = paths.map(|path| Ok((self.nearest(path)?, path.clone())));
        let directories = directories.collect::<Result<Vec<_>, FastbootError>>()?;
        let systems = FileSystem::of(self.work.calls, directories)?;
        let min_free = self.work.request.min_free;
        Ok(systems.into_iter().map(|system| system.keeping(min_free)).collect())
    }

    fn nearest(&self, path: &Path) -> Result<std::os::fd::OwnedFd, FastbootError> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let mut at = path;
        loop {
            match self.work.calls.open(at, flags) {
                Err(Errno::NOENT) => {
                    at = at.parent().ok_or_else(|| failed("open", path, Errno::NOENT))?;
                    if at.as_os_str().is_empty() {
                        at = Path::new(".");
                    }
                }
                opened => return opened.map_err(|errno| failed("open", at, errno)),
            }
        }
    }

    /// Returns what the archives need, and whether they fit only when old files are removed first.
    fn written(
        &self,
        unpacked: &[&Candidate],
        systems: &[FileSystem],
    ) -> Result<(PreflightReport, bool), FastbootError> {
        let Work { request, calls, .. } = self.work;
        let handles = self.work.handles();
        let archives: Vec<_> = unpacked.iter().map(|archive| archive.archive()).collect();
        // Before the thread is confined, which may not look at other directories.
        let kept_on: Vec<Option<u64>> = unpacked
            .iter()
            .map(|candidate| {
                let directory = self.nearest(candidate.path.parent()?).ok()?;
                Some(calls.fstat(&directory).ok()?.st_dev)
            })
            .collect();
        let (report, shortage) = on_a_thread_of_its_own(|| {
            let mut opened = Opened::to_read(&archives, &request.pass, &handles, || Ok(()))?;
            let indexes = opened.load_indexes(&request.pass, &handles)?;
            let announced = opened.archives.iter().zip(kept_on).map(|(archive, kept_on)| {
                let OpenArchive::Remote(remote) = archive else { return None };
                Some(Announced { bytes: remote.bytes(), kept_on })
            });
            let announced = announced.collect();
            let files = opened.archives.iter().map(OpenArchive::file);
            let accounts = self.places.accounts.len();
            let question = Question {
                archives: files.zip(indexes.iter().map(Option::as_ref)).collect(),
                announced,
                systems,
                accounts,
                by_space: accounts > 1,
                kept: &[],
                mode: request.preflight,
                options: &request.pass,
                handles: &handles,
                may_walk_beside: false,
            };
            Ok::<_, FastbootError>(Preflight::figures(&question)?)
        })?;
        let Some(shortage) = shortage else { return Ok((report, false)) };
        let beside = [self.places.beside(), self.places.next()];
        let directories =
            beside.iter().flat_map(|places| places.accounts.iter().chain([&places.snapshots]));
        let mut cleared: Vec<PathBuf> = directories.cloned().collect();
        if !self.beside {
            cleared.extend(old_files(self.work.calls, self.places)?);
        }
        enough_to_clear(self.work.calls, &cleared, &shortage)?;
        Ok((report, true))
    }
}

/// Returns whether a validator could start from a state, perhaps after a repair.
fn is_usable(condition: &Condition) -> bool {
    match condition {
        Condition::Whole { .. } | Condition::Unknown { .. } => true,
        Condition::Damaged { repairable, .. } => *repairable,
        Condition::NotLoadable { .. } => false,
    }
}

/// Returns the space on a file system: the `index`-th of the report.
fn space_on(
    index: usize,
    system: &FileSystem,
    written: Option<&PreflightReport>,
    cleared: &[Files],
) -> Result<Space, FastbootError> {
    let free = system.free()?;
    let free_bytes = free.min_free.map_or(free.bytes, |kept| Some(kept.free_bytes));
    let on_it = cleared.iter().filter(|files| files.device == Some(system.device));
    let cleared_bytes = on_it.map(|files| files.bytes).sum::<u64>();
    let written_bytes = match written {
        Some(report) => report.file_systems.get(index).and_then(|on_it| on_it.bytes_needed),
        None => Some(0),
    };
    let after =
        |(free, written): (u64, u64)| free.saturating_add(cleared_bytes).saturating_sub(written);
    Ok(Space {
        directories: system.paths.clone(),
        free_bytes,
        min_free_bytes: free.min_free.map_or(0, |kept| kept.bytes),
        written_bytes,
        cleared_bytes,
        free_after_bytes: free_bytes.zip(written_bytes).map(after),
    })
}
