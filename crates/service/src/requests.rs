//! Requests of clients are answered here, on the control server's thread: quickly, from the state.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::SyncSender},
    time::Duration,
};

use unsnap_control::{
    Answer,
    protocol::{
        Answered, Event, JobState, Origin, Outcome, Refusal, RefusalKind, Request, SubmittedJob,
    },
};
use unsnap_unpack::{Candidate, FileIdentity, Pair};

use crate::{
    archives::Now,
    config::Sources,
    reload,
    state::{Ending, State},
    supervisor::Message,
};

/// What the supervisor and the desk share.
#[derive(Clone, Debug)]
pub struct Shared {
    state: Arc<Mutex<State>>,
    messages: SyncSender<Message>,
}

impl Shared {
    /// The state, and where the supervisor hears.
    pub fn new(state: State, messages: SyncSender<Message>) -> Self {
        Self { state: Arc::new(Mutex::new(state)), messages }
    }

    /// The state, for a moment.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the supervisor look. If it has that much to do that nothing fits, it looks anyway.
    pub fn poke(&self) {
        let _ = self.messages.try_send(Message::Look);
    }
}

/// Answers.
#[derive(Debug)]
pub struct Desk {
    shared: Shared,
    sources: Sources,
}

impl Desk {
    /// `sources`: where the configuration is read again from.
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
        if let Some((path, _)) = files.iter().find(|(path, file)| state.memory.is_bad(path, *file))
        {
            let message = format!("{} is known to be bad", path.display());
            return Err(Refusal::new(RefusalKind::BadArchive, message)
                .hint("see `status`; a file that has changed is another one"));
        }
        let wanted: Vec<usize> = (0..state.targets.len())
            .filter(|index| target.is_none_or(|name| state.targets[*index].target.name == name))
            .collect();
        if wanted.is_empty() {
            let message = format!("there is no target {}", target.unwrap_or_default());
            let names = state.targets.iter().map(|target| &*target.target.name);
            let names: Vec<&str> = names.collect();
            return Err(Refusal::new(RefusalKind::NoSuchTarget, message)
                .hint(format!("targets are {}", names.join(", "))));
        }
        let most = usize::from(state.config.settings.service.queue);
        if let Some(full) = wanted.iter().find(|index| state.targets[**index].queue.len() >= most) {
            let name = &state.targets[*full].target.name;
            let message = format!("{name} has {most} jobs waiting already");
            return Err(Refusal::new(RefusalKind::QueueFull, message));
        }
        let now = Now::get();
        let jobs = wanted.into_iter().map(|index| {
            let (pair, files) = (pair.clone(), files.clone());
            let id = state.queue(index, pair, files, Origin::Submitted, now);
            SubmittedJob { id, target: state.targets[index].target.name.clone() }
        });
        let jobs = jobs.collect();
        Ok(Answered::Submitted { jobs })
    }

    fn cancel(&self, id: u64) -> Result<Answered, Refusal> {
        let mut state = self.shared.state();
        for index in 0..state.targets.len() {
            let target = &mut state.targets[index];
            let decline = |declined: &mut Option<u64>, origin, slot| {
                if origin == Origin::Found {
                    // Or it would be found again at once.
                    *declined = (*declined).max(Some(slot));
                }
            };
            if let Some(running) = target.running.as_mut().filter(|running| running.job.id == id) {
                running.end(Ending::Cancelled);
                decline(&mut target.declined, running.job.origin, running.job.slot());
                return Ok(Answered::Cancelled { job: id, was: JobState::Running });
            }
            if let Some(job) = target.take(id) {
                decline(&mut target.declined, job.origin, job.slot());
                let was = if job.attempt > 1 { JobState::Retrying } else { JobState::Queued };
                let now = Now::get().instant;
                state.tell_ended(index, &job, Outcome::Cancelled, None, Duration::ZERO, now);
                return Ok(Answered::Cancelled { job: id, was });
            }
        }
        Err(Refusal::new(RefusalKind::NoSuchJob, format!("there is no job {id}, or it is over")))
    }

    fn pause(&self, pause: bool) -> bool {
        let mut state = self.shared.state();
        let was_paused = std::mem::replace(&mut state.memory.paused, pause);
        if pause {
            state.pace.pause();
        } else {
            state.pace.resume();
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

impl Answer for Desk {
    fn answer(&self, request: Request) -> Result<Answered, Refusal> {
        let answer = match request {
            Request::Status {} | Request::Watch {} => {
                let now = Now::get().instant;
                Ok(Answered::Status(Box::new(self.shared.state().status(now))))
            }
            Request::Submit { target, archive, incremental } => {
                self.submit(target.as_deref(), &archive, incremental.as_deref())
            }
            Request::Cancel { job } => self.cancel(job),
            Request::Pause {} => Ok(Answered::Paused { was_paused: self.pause(true) }),
            Request::Resume {} => Ok(Answered::Resumed { was_paused: self.pause(false) }),
            Request::Reload {} => self.reload(),
            Request::Metrics {} => {
                let text = self.shared.state().metrics(Now::get());
                Ok(Answered::Metrics { text })
            }
        };
        self.shared.poke();
        answer
    }
}

/// The archives that somebody names.
fn pair(archive: &Path, incremental: Option<&Path>) -> Result<Pair, Refusal> {
    let refuse = |message: String| Refusal::new(RefusalKind::BadArchive, message);
    let named = |path: &Path| {
        if !path.is_absolute() {
            return Err(refuse(format!("{} is no absolute path", path.display())));
        }
        Candidate::named(path).map_err(|error| refuse(error.to_string()))
    };
    let full = named(archive)?;
    let incremental = incremental.map(named).transpose()?;
    if full.name.base_slot().is_some() {
        return Err(refuse(format!("{} is not of a full snapshot", archive.display()))
            .hint("give the full archive, and this one as the incremental one"));
    }
    if let Some(upon) = &incremental
        && upon.name.base_slot() != Some(full.name.slot())
    {
        let message = format!("{} does not build upon the full one", upon.path.display());
        return Err(refuse(message));
    }
    Ok(Pair { full, incremental })
}
