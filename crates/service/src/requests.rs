//! Answers to the requests of clients, given on the control server's thread from the shared state.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::SyncSender},
    time::Duration,
};

use unsnap_control::{
    Answer,
    protocol::{
        Answered, Event, JobState, Origin, Outcome, PreparingJob, Refusal, RefusalKind, Request,
        SubmittedJob,
    },
};
use unsnap_failure::Failure as _;
use unsnap_fastboot::{Candidate, FileIdentity, Pair};

use crate::{
    archives::Now,
    config::Sources,
    message::Message,
    plan::{Job, same_archives},
    reload,
    state::{CancelReason, End, State},
    vocabulary::ConfigKeys,
};

/// State shared by the supervisor and the handler of requests.
#[derive(Clone, Debug)]
pub struct Shared {
    state: Arc<Mutex<State>>,
    messages: SyncSender<Message>,
}

impl Shared {
    /// Shares a state. `messages` leads to the supervisor.
    pub fn new(state: State, messages: SyncSender<Message>) -> Self {
        Self { state: Arc::new(Mutex::new(state)), messages }
    }

    /// Locks the state. The caller must not block while it holds the lock.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the supervisor. If its queue is full, it is awake anyway.
    pub fn wake(&self) {
        let _ = self.messages.try_send(Message::Wake);
    }
}

/// Handler of clients' requests.
#[derive(Debug)]
pub struct RequestHandler {
    shared: Shared,
    sources: Sources,
}

impl RequestHandler {
    /// Creates the handler. A reload reads the configuration from `sources`.
    pub fn new(shared: Shared, sources: Sources) -> Self {
        Self { shared, sources }
    }

    fn submit(
        &self,
        target: Option<&str>,
        archive: &Path,
        incremental: Option<&Path>,
    ) -> Result<Answered, Refusal> {
        let pair = pair(archive, incremental)?;
        let files = FileIdentity::of_all(pair.archives().map(|archive| &*archive.path));
        let mut state = self.shared.state();
        if state.stopping {
            return Err(Refusal::new(RefusalKind::Stopping, "the service is stopping"));
        }
        if let Some((path, _)) =
            files.iter().find(|(path, file)| state.persistent.is_bad(path, *file))
        {
            let message = format!("{} is known to be bad", path.display());
            return Err(Refusal::new(RefusalKind::BadArchive, message)
                .hint("`status` says why; replace the file to have it tried again"));
        }
        let wanted = chosen(&state, target)?;
        let file = |path: &Path| Some(files.iter().find(|(known, _)| known == path)?.1);
        let given_up = |index: &&usize| {
            let attempts = &state.targets[**index].attempts;
            !attempts.refused(std::slice::from_ref(&pair), file).is_empty()
        };
        if let Some(index) = wanted.iter().find(given_up) {
            let name = &state.targets[*index].target.name;
            let slot = pair.slot();
            let message =
                format!("{name}: validators have ended early with the state of slot {slot}");
            return Err(Refusal::new(RefusalKind::BadArchive, message)
                .hint("`validator --replace` tries it again, as does a new file"));
        }
        let most = usize::from(state.config.settings.service.queue);
        if let Some(full) = wanted.iter().find(|index| state.targets[**index].queue.len() >= most) {
            let name = &state.targets[*full].target.name;
            let message = format!("the queue of {name} is full: {most} jobs are waiting");
            return Err(Refusal::new(RefusalKind::QueueFull, message));
        }
        let now = Now::get();
        let slot = pair.slot();
        let jobs = wanted.into_iter().map(|index| {
            let (pair, files) = (pair.clone(), files.clone());
            let id = state.queue(index, pair, files, Origin::Submitted, now);
            let target = &state.targets[index];
            let newest = target.newest().map(|newest| newest.slot);
            let newer = newest.filter(|newest| *newest > slot);
            SubmittedJob { id, target: target.target.name.clone(), newer }
        });
        let jobs = jobs.collect();
        Ok(Answered::Submitted { jobs })
    }

    /// Makes a job for the newest archives start as soon as it can.
    fn prepare(&self, target: Option<&str>) -> Result<Answered, Refusal> {
        // Files are examined while the state is not locked.
        let pairs = self.shared.state().pairs.clone();
        let archives = pairs.iter().flat_map(Pair::archives);
        let files = FileIdentity::of_all(archives.map(|archive| &*archive.path));
        let mut state = self.shared.state();
        if state.stopping {
            return Err(Refusal::new(RefusalKind::Stopping, "the service is stopping"));
        }
        let best = |index: usize| {
            let target = &state.targets[index];
            let known = |pair: &&Pair| pairs.contains(pair);
            let pair = state.best_pair(target).filter(known).cloned();
            pair.map(|pair| (index, pair)).ok_or_else(|| match state.given_up(target) {
                Some(reason) => Refusal::new(RefusalKind::NoArchive, reason),
                None => {
                    Refusal::new(RefusalKind::NoArchive, "there are no usable archives".to_owned())
                        .hint("`status` names the directories and the bad archives in them")
                }
            })
        };
        let chosen = chosen(&state, target)?.into_iter().map(best);
        let chosen: Vec<(usize, Pair)> = chosen.collect::<Result<_, _>>()?;
        let now = Now::get();
        let jobs = chosen.into_iter().map(|(index, pair)| {
            let is_of = |path: &Path| pair.archives().any(|archive| archive.path == path);
            let files: Vec<_> = files.iter().filter(|(path, _)| is_of(path)).cloned().collect();
            let job = state.request(index, &pair, &files, now);
            let target = state.targets[index].target.name.clone();
            PreparingJob { target, slot: pair.slot(), job }
        });
        Ok(Answered::Preparing { jobs: jobs.collect() })
    }

    fn cancel(&self, id: u64) -> Result<Answered, Refusal> {
        let mut state = self.shared.state();
        for index in 0..state.targets.len() {
            let target = &mut state.targets[index];
            let decline = |declined: &mut Option<u64>, origin, slot| {
                if origin != Origin::Submitted {
                    // Otherwise the pair would be found and queued again at once.
                    *declined = (*declined).max(Some(slot));
                }
            };
            if let Some(running) = target.running.as_mut().filter(|running| running.job.id == id) {
                running.end(CancelReason::Cancelled);
                decline(&mut target.declined, running.job.origin, running.job.slot());
                return Ok(Answered::Cancelled { job: id, was: JobState::Running, ending: true });
            }
            if let Some(job) = target.take(id) {
                decline(&mut target.declined, job.origin, job.slot());
                let was = if job.attempt > 1 { JobState::Retrying } else { JobState::Queued };
                let end = End::of(Outcome::Cancelled, None, Duration::ZERO);
                state.record_end(index, &job, end, Now::get().instant);
                return Ok(Answered::Cancelled { job: id, was, ending: false });
            }
        }
        Err(Refusal::new(RefusalKind::NoSuchJob, format!("there is no job {id}, or it has ended")))
    }

    fn pause(&self, pause: bool) -> bool {
        let mut state = self.shared.state();
        let was_paused = std::mem::replace(&mut state.persistent.paused, pause);
        for running in state.targets.iter().filter_map(|target| target.running.as_ref()) {
            if pause {
                running.pace.pause();
            } else {
                running.pace.resume();
            }
        }
        if was_paused != pause {
            state.unsaved = true;
            state.events.push(if pause { Event::Paused } else { Event::Resumed });
        }
        was_paused
    }

    fn reload(&self) -> Result<Answered, Refusal> {
        let refuse = |reason: String| Refusal::new(RefusalKind::BadConfig, reason);
        let config = reload::load(&self.sources).map_err(|error| refuse(error.0))?;
        let mut state = self.shared.state();
        let needs_restart = reload::needs_restart(&state.config, &config);
        state.next_config = Some(config);
        Ok(Answered::Reloaded { needs_restart })
    }
}

impl Answer for RequestHandler {
    fn answer(&self, request: Request) -> Result<Answered, Refusal> {
        let answer = match request {
            Request::Status {} | Request::Watch {} => {
                let status = self.shared.state().status(Now::get());
                Ok(Answered::Status(Box::new(status)))
            }
            Request::Submit { target, archive, incremental } => {
                self.submit(target.as_deref(), &archive, incremental.as_deref())
            }
            Request::Prepare { target } => self.prepare(target.as_deref()),
            Request::Cancel { job } => self.cancel(job),
            Request::Pause {} => Ok(Answered::Paused { was_paused: self.pause(true) }),
            Request::Resume {} => Ok(Answered::Resumed { was_paused: self.pause(false) }),
            Request::Reload {} => self.reload(),
            Request::Metrics {} => {
                let text = self.shared.state().metrics(Now::get(), true);
                Ok(Answered::Metrics { text })
            }
        };
        self.shared.wake();
        answer
    }
}

impl State {
    /// Makes a job for a pair start as soon as it can. Returns its number; `None` if the result is
    /// on disk.
    fn request(
        &mut self,
        index: usize,
        pair: &Pair,
        files: &[(PathBuf, FileIdentity)],
        now: Now,
    ) -> Option<u64> {
        let target = &mut self.targets[index];
        let is_it = |job: &Job| same_archives(&job.pair, pair);
        if let Some(running) = &target.running
            && running.cancel_reason.is_none()
            && is_it(&running.job)
        {
            return Some(running.job.id);
        }
        if let Some(job) = target.queue.iter_mut().find(|job| is_it(job)) {
            if job.origin == Origin::Found {
                job.origin = Origin::Requested;
            }
            job.not_before = None;
            return Some(job.id);
        }
        let is_there = target.checked && target.newest().is_some_and(|it| it.slot >= pair.slot());
        if is_there {
            return None;
        }
        target.declined = None;
        Some(self.queue(index, pair.clone(), files.to_vec(), Origin::Requested, now))
    }
}

/// Returns the targets that a client names: one, or all.
fn chosen(state: &State, target: Option<&str>) -> Result<Vec<usize>, Refusal> {
    let chosen: Vec<usize> = (0..state.targets.len())
        .filter(|index| target.is_none_or(|name| state.targets[*index].target.name == name))
        .collect();
    if chosen.is_empty() {
        let message = format!("there is no target {}", target.unwrap_or_default());
        let names = state.targets.iter().map(|target| &*target.target.name);
        let names: Vec<&str> = names.collect();
        return Err(Refusal::new(RefusalKind::NoSuchTarget, message)
            .hint(format!("known targets: {}", names.join(", "))));
    }
    Ok(chosen)
}

/// Returns the pair that a client names, or a refusal if the names do not fit.
fn pair(archive: &Path, incremental: Option<&Path>) -> Result<Pair, Refusal> {
    let refuse = |message: String| Refusal::new(RefusalKind::BadArchive, message);
    let named = |path: &Path| {
        if !path.is_absolute() {
            return Err(refuse(format!("{} is not an absolute path", path.display())));
        }
        Candidate::named(path).map_err(|error| refuse(error.to_string()))
    };
    let incremental = incremental.map(named).transpose()?;
    Pair::new(named(archive)?, incremental).map_err(|error| {
        let refusal = refuse(error.to_string());
        match error.remedy().and_then(|remedy| remedy.words(&ConfigKeys)) {
            Some(hint) => refusal.hint(hint),
            None => refusal,
        }
    })
}
