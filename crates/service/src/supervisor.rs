//! The loop that everything comes together in: it looks, decides, has workers begin, and sleeps until
//! something happens or a clock runs out.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use unsnap_control::{Answer, Events, Limits, Listener, Server};
use unsnap_unpack::{CancelToken, Progress};

use crate::{
    archives::{Archives, Now, Usable},
    config::{Config, Sources, Target, TargetKind},
    desk::{Desk, Shared},
    health::{Health, Stages},
    memory::Memory,
    notify::Notify,
    plan::{Action, decide},
    reload,
    state::{Ending, Running, State, TargetState},
    status,
    target::{Remover, Sweep, Work, is_adoptable, results},
    watch::{Noticed, Watch},
    worker::{Said, Worker},
};

/// Messages to the supervisor that wait. Those who fill it wait in turn; inotify's queue then overflows,
/// which is told.
const MESSAGES_MAX: usize = 256;

/// Between two events of progress, if anybody watches.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Between two looks at a job that runs: for the status in words, and for the watchdog.
const GLANCE_EVERY: Duration = Duration::from_secs(1);

/// Told to the service manager at a time when ending takes long.
const EXTENSION: Duration = Duration::from_secs(5);

/// What the supervisor hears.
#[derive(Debug)]
pub enum Message {
    /// Of directories.
    Noticed(Noticed),
    /// Of workers.
    Said(Said),
    /// The state has changed.
    Look,
    /// Read the configuration again.
    Reload,
    /// End.
    Stop,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All jobs have ended.
    Clean,
    /// One has not, in the time that is configured. The process had better end now.
    Unfinished,
}

/// For signals. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle(SyncSender<Message>);

impl Handle {
    /// Ends the service.
    pub fn stop(&self) {
        let _ = self.0.send(Message::Stop);
    }

    /// Has the configuration read again.
    pub fn reload(&self) {
        let _ = self.0.send(Message::Reload);
    }
}

/// The loop, and whom it commands.
pub struct Supervisor {
    shared: Shared,
    sources: Sources,
    sender: SyncSender<Message>,
    messages: Receiver<Message>,
    notify: Box<dyn Notify>,
    archives: Archives,
    watch: Watch,
    remover: Remover,
    workers: Vec<Worker>,
    /// Of targets that are gone, until their threads have ended.
    retired: Vec<Worker>,
    next_worker: u64,
    server: Option<Server>,
    events: Option<Events>,
    health: Health,
    /// When the directories are looked at next.
    look_at: Instant,
}

impl Supervisor {
    /// Sets everything up, but begins nothing. `listener`: where clients are heard.
    pub fn new(
        config: Config,
        sources: Sources,
        listener: Listener,
        notify: Box<dyn Notify>,
    ) -> io::Result<Self> {
        let now = Now::get();
        let (sender, messages) = sync_channel(MESSAGES_MAX);
        let memory = Memory::load(&config.settings.service.state_directory)?;
        let tell = sender.clone();
        let watch = Watch::start(move |noticed| {
            let _ = tell.send(Message::Noticed(noticed));
        })?;
        let settings = &config.settings;
        let remover = Remover::start(settings.neighbour.removal_files_per_second)?;
        let access = reload::access(&config).map_err(|error| io::Error::other(error.0))?;
        let limits = Limits { connections_max: settings.control.connections_max.into() };
        let targets = config.targets.clone();
        let shared = Shared::new(State::new(Arc::new(config), memory, now), sender.clone());
        let desk: Arc<dyn Answer> = Arc::new(Desk::new(shared.clone(), sources.clone()));
        let server = Server::start(listener, access, limits, desk)?;
        let mut supervisor = Self {
            shared,
            sources,
            sender,
            messages,
            notify,
            archives: Archives::default(),
            watch,
            remover,
            workers: Vec::new(),
            retired: Vec::new(),
            next_worker: 0,
            events: Some(server.events()),
            server: Some(server),
            health: Health::new(now.instant),
            look_at: now.instant,
        };
        for target in targets {
            supervisor.add_target(target)?;
        }
        Ok(supervisor)
    }

    /// For signals.
    pub fn handle(&self) -> Handle {
        Handle(self.sender.clone())
    }

    /// Runs until it is told to stop.
    pub fn run(mut self) -> Stopped {
        self.step(Now::get());
        self.notify.ready();
        loop {
            let now = Now::get();
            let wake = self.step(now);
            let message =
                self.messages.recv_timeout(wake.saturating_duration_since(Instant::now()));
            let mut next = match message {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                // Cannot be: we hold a sender ourselves.
                Err(RecvTimeoutError::Disconnected) => return self.stop(),
            };
            // What has come together is dealt with together.
            for _ in 0..MESSAGES_MAX {
                match next.take() {
                    Some(Message::Stop) => return self.stop(),
                    Some(message) => self.hear(message),
                    None => break,
                }
                next = self.messages.try_recv().ok();
            }
            if let Some(message) = next {
                match message {
                    Message::Stop => return self.stop(),
                    message => self.hear(message),
                }
            }
        }
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::Noticed(Noticed::Complete(path)) => {
                self.archives.complete(path);
                self.look_at = Instant::now();
            }
            Message::Noticed(Noticed::Changed) => self.look_at = Instant::now(),
            Message::Said(said) => self.hear_worker(said),
            Message::Look => {}
            Message::Reload => {
                self.notify.reloading();
                match reload::load(&self.sources) {
                    Ok(config) => self.shared.state().next_config = Some(config),
                    Err(error) => {
                        tracing::error!(%error, "the new configuration is refused, the old one stays");
                    }
                }
                self.apply_config();
                self.notify.ready();
            }
            Message::Stop => {}
        }
    }

    fn hear_worker(&mut self, said: Said) {
        let now = Now::get();
        let id = match &said {
            Said::Ended(ended) => ended.worker,
            Said::Swept { worker, .. } => *worker,
        };
        let mut state = self.shared.state();
        // One whose target is gone has nothing more to say.
        let Some(index) = state.targets.iter().position(|target| target.worker == id) else {
            return;
        };
        match said {
            Said::Ended(ended) => {
                state.ended(index, ended, now);
                // Results, and archives that have been set aside.
                self.look_at = now.instant;
            }
            Said::Swept { moved, .. } => {
                let target = &mut state.targets[index];
                target.sweeping = false;
                match moved {
                    Ok(moved) if moved.is_empty() => {}
                    Ok(moved) => {
                        let target = target.target.name.clone();
                        let event = unsnap_control::protocol::Event::ResultsRemoved {
                            target,
                            paths: moved.clone(),
                        };
                        state.events.push(event);
                        self.remover.remove(moved);
                    }
                    Err(error) => {
                        tracing::warn!(target = target.target.name, %error, "cannot be tidied up");
                    }
                }
            }
        }
    }

    /// One round: looks if it is time, decides, begins. Gives the time of the next one.
    fn step(&mut self, now: Now) -> Instant {
        self.apply_config();
        if self.look_at <= now.instant {
            self.look(now);
        }
        let usable = self.usable(now);
        let mut wake = self.look_at;
        if let Some(next) = usable.next {
            wake = wake.min(next);
        }
        self.shared.state().pairs = usable.pairs;
        for index in 0..self.workers.len() {
            if let Some(until) = self.serve(index, now) {
                wake = wake.min(until);
            }
        }
        self.save();
        self.retired.retain(|worker| !worker.is_dead());
        wake.min(self.tell(now))
    }

    /// Looks at the directories of archives and of results.
    fn look(&mut self, now: Now) {
        let config = Arc::clone(&self.shared.state().config);
        let archives = &config.archives;
        self.watch.renew([&*archives.full, &*archives.incremental]);
        let settings = &config.settings.archives;
        let error = self.archives.look(archives, settings.settle.0, now).err();
        let targets: Vec<Target> =
            self.shared.state().targets.iter().map(|target| target.target.clone()).collect();
        let found: Vec<_> = targets.iter().map(results).collect();
        let adoptable = |target: &Target| match &target.kind {
            TargetKind::Fastboot { places, .. } => is_adoptable(places),
            TargetKind::Tree { .. } => false,
        };
        let adoptable: Vec<bool> = targets.iter().map(adoptable).collect();
        let mut state = self.shared.state();
        state.search_error = error.map(|error| {
            tracing::warn!(%error);
            error.to_string()
        });
        if state.search_error.is_none()
            && state.memory.forget_gone(|path, file| match self.archives.file(path) {
                Some(now) => now == file,
                // Submitted from elsewhere.
                None => file.is_that_of(path),
            })
        {
            state.unsaved = true;
        }
        for ((target, found), adoptable) in state.targets.iter_mut().zip(found).zip(adoptable) {
            // The next job puts it in its place.
            target.checked &= !adoptable;
            match found {
                Ok(found) => target.results = found,
                Err(error) => {
                    tracing::warn!(target = target.target.name, %error, "cannot be looked at");
                }
            }
            let files = &self.archives;
            target.unreadable.retain(|path, _| files.file(path).is_some());
        }
        self.look_at = now.instant + settings.rescan.0;
    }

    fn usable(&self, now: Now) -> Usable {
        let state = self.shared.state();
        let settle = state.config.settings.archives.settle.0;
        self.archives.usable(settle, now.instant, |path, file| state.memory.is_bad(path, file))
    }

    /// Decides for one target, and does it. Gives the time to look at it again.
    fn serve(&mut self, index: usize, now: Now) -> Option<Instant> {
        let shared = self.shared.clone();
        let mut guard = shared.state();
        let state = &mut *guard;
        let supersede = state.config.settings.service.supersede;
        // As many steps as `decide` takes at most.
        for _ in 0..state.targets[index].queue.len() + 4 {
            let target = &state.targets[index];
            let sweep_first = target.sweeping || (target.sweep_due && self.archives.known());
            let held = state.memory.paused || state.stopping || sweep_first;
            match decide(&target.view(&state.pairs, supersede, held, now.instant)) {
                Action::Drop { job, superseded } => {
                    self.drop_job(state, index, job, superseded, now)
                }
                Action::Supersede(job) => {
                    tracing::info!(job, "superseded by newer archives");
                    if let Some(running) = &mut state.targets[index].running {
                        running.end(Ending::Superseded);
                    }
                }
                Action::Queue(pair) => {
                    let file = |path: &_| {
                        Some((std::path::Path::to_owned(path), self.archives.file(path)?))
                    };
                    let files = pair.archives().filter_map(|archive| file(&archive.path)).collect();
                    state.queue(index, pair, files, unsnap_control::protocol::Origin::Found, now);
                }
                Action::Start(job) => self.start(state, index, job, now),
                Action::Wait(until) => {
                    self.sweep(state, index);
                    return until;
                }
            }
        }
        Some(now.instant + GLANCE_EVERY)
    }

    fn drop_job(&self, state: &mut State, index: usize, id: u64, superseded: bool, now: Now) {
        use unsnap_control::protocol::Outcome;
        let Some(job) = state.targets[index].take(id) else { return };
        let outcome = if superseded { Outcome::Superseded } else { Outcome::Cancelled };
        let message = (!superseded).then(|| "its archives are gone, or no good".to_owned());
        state.tell_ended(index, &job, outcome, message, Duration::ZERO, now.instant);
        // What it has left is of no use to others.
        state.targets[index].sweep_due = true;
    }

    /// Tidies up between jobs, once the archives are known: they say what is to be gone on with.
    fn sweep(&self, state: &mut State, index: usize) {
        let target = &mut state.targets[index];
        if !target.sweep_due
            || target.sweeping
            || target.running.is_some()
            || !self.archives.known()
        {
            return;
        }
        let spare = target.queue.iter().map(|job| job.pair.clone()).collect();
        let sweep = Sweep { target: target.target.clone(), results: target.results.clone(), spare };
        target.sweep_due = false;
        target.sweeping = self.workers[index].sweep(sweep);
    }

    fn start(&self, state: &mut State, index: usize, id: u64, now: Now) {
        use unsnap_control::protocol::{Event, Origin};
        let known_bad = state.memory.bad.iter().map(|bad| unsnap_fastboot::KnownBad {
            path: bad.path.clone(),
            file: bad.file(),
            reason: bad.reason.clone(),
        });
        let known_bad = known_bad.collect();
        let Ok(mut config) = state.config.unpacking() else { return };
        config.pace = Some(state.pace.clone());
        let target = &mut state.targets[index];
        let Some(job) = target.take(id) else { return };
        let (progress, cancel) = (Progress::default(), CancelToken::default());
        let work = Work {
            target: target.target.clone(),
            pair: job.pair.clone(),
            config: Arc::new(config),
            known_bad,
            submitted: job.origin == Origin::Submitted,
            progress: progress.clone(),
            cancel: cancel.clone(),
        };
        tracing::info!(
            job = id, target = target.target.name, slot = job.slot(), attempt = job.attempt,
            archive = %job.pair.full.path.display(), "started"
        );
        if !self.workers[index].begin(work) {
            tracing::error!(target = target.target.name, "its worker is gone");
            target.queue.push(job);
            return;
        }
        target.waits_for = None;
        let running = Running {
            job,
            since: now.instant,
            started_unix_ms: now.unix_ms(),
            stands: (progress.snapshot(), now.instant),
            progress,
            cancel,
            ending: None,
        };
        state.events.push(Event::JobStarted { job: target.running_status(&running, now.instant) });
        target.running = Some(running);
    }

    fn add_target(&mut self, target: Target) -> io::Result<()> {
        self.next_worker += 1;
        let (id, tell) = (self.next_worker, self.sender.clone());
        let worker = Worker::start(id, &target.name, move |said| {
            let _ = tell.send(Message::Said(said));
        })?;
        self.workers.push(worker);
        self.shared.state().targets.push(TargetState::new(target, id));
        Ok(())
    }

    /// Puts a new configuration into force, if there is one.
    fn apply_config(&mut self) {
        let (old, new) = {
            let mut state = self.shared.state();
            let Some(new) = state.next_config.take() else { return };
            let new = Arc::new(new);
            (std::mem::replace(&mut state.config, Arc::clone(&new)), new)
        };
        for key in reload::needs_restart(&old, &new) {
            tracing::warn!(key, "its change takes effect when the service is started again");
        }
        self.remover.set_pace(new.settings.neighbour.removal_files_per_second);
        if let (Some(server), Ok(access)) = (&self.server, reload::access(&new)) {
            server.set_access(access);
        }
        let mut before: Vec<(TargetState, Worker)> = {
            let mut state = self.shared.state();
            state.pace.set_rate(new.rate_limit());
            std::mem::take(&mut state.targets).into_iter().zip(self.workers.drain(..)).collect()
        };
        for target in &new.targets {
            match before.iter().position(|(old, _)| old.target == *target) {
                Some(same) => {
                    let (state, worker) = before.swap_remove(same);
                    self.workers.push(worker);
                    self.shared.state().targets.push(state);
                }
                None => {
                    if let Err(error) = self.add_target(target.clone()) {
                        tracing::error!(target = target.name, %error, "cannot be served");
                    }
                }
            }
        }
        for (mut gone, mut worker) in before {
            if let Some(running) = &mut gone.running {
                running.end(Ending::Cancelled);
            }
            worker.retire();
            self.retired.push(worker);
        }
        self.look_at = Instant::now();
        let mut state = self.shared.state();
        state.events.push(unsnap_control::protocol::Event::Reloaded);
        tracing::info!(targets = state.targets.len(), "a new configuration is in force");
    }

    /// Saves what is to survive.
    fn save(&self) {
        let (memory, directory) = {
            let mut state = self.shared.state();
            if !std::mem::take(&mut state.unsaved) {
                return;
            }
            (state.memory.clone(), state.config.settings.service.state_directory.clone())
        };
        if let Err(error) = memory.save(&directory) {
            tracing::warn!(%error, directory = %directory.display(), "what is to be remembered cannot be saved");
            self.shared.state().unsaved = true;
        }
    }

    /// Tells watchers and the service manager. Gives the time to do it again.
    fn tell(&mut self, now: Now) -> Instant {
        let (events, running, text) = {
            let mut state = self.shared.state();
            let running = state.targets.iter().any(|target| target.running.is_some());
            (std::mem::take(&mut state.events), running, status::words(&state))
        };
        let watched = self.events.as_ref().is_some_and(Events::watched);
        if let Some(publisher) = self.events.as_ref().filter(|_| watched) {
            events.iter().for_each(|event| publisher.publish(event));
            let progress = self.shared.state().progress_events(now.instant);
            progress.iter().for_each(|event| publisher.publish(event));
        }
        self.notify.status(&text);
        let control = self.server.as_ref().map(Server::heartbeat);
        let stages =
            Stages { watch: &self.watch, control: control.as_ref(), remover: &self.remover };
        let mut again = now.instant + Duration::from_secs(3600);
        let health = self.health.look(&mut self.shared.state(), &stages, now.instant);
        match health {
            Ok(()) => self.notify.watchdog(),
            Err(reason) => tracing::error!(reason, "stuck: the watchdog is not fed"),
        }
        if let Some(every) = self.notify.watchdog_every() {
            again = again.min(now.instant + every);
        }
        if running {
            let every = if watched { PROGRESS_EVERY } else { GLANCE_EVERY };
            again = again.min(now.instant + every);
        }
        again
    }

    /// Ends: running jobs are told, and leave what can be gone on with.
    fn stop(mut self) -> Stopped {
        self.notify.stopping();
        let deadline = {
            let mut state = self.shared.state();
            state.stopping = true;
            for running in state.targets.iter_mut().filter_map(|target| target.running.as_mut()) {
                running.end(Ending::Stopping);
            }
            Instant::now() + state.config.settings.service.stop_within.0
        };
        let busy = |supervisor: &Self| {
            let state = supervisor.shared.state();
            state.targets.iter().any(|target| target.running.is_some())
        };
        while busy(&self) && Instant::now() < deadline {
            self.notify.extend(EXTENSION);
            match self.messages.recv_timeout(GLANCE_EVERY) {
                Ok(Message::Said(said)) => self.hear_worker(said),
                Ok(_) | Err(_) => {}
            }
        }
        let unfinished = busy(&self);
        self.save();
        // No more clients; and nobody waits for us to hear.
        self.server = None;
        let Self { workers, retired, messages, watch, remover, .. } = self;
        drop(messages);
        drop((watch, remover));
        if unfinished {
            // Their threads cannot be waited for. The process ends, and with it they do.
            std::mem::forget((workers, retired));
            return Stopped::Unfinished;
        }
        Stopped::Clean
    }
}
