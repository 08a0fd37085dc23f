//! The loop that everything comes together in: it looks, decides, has workers begin, and sleeps until
//! something happens or a clock runs out.

mod looking;
mod reloading;
mod serving;
mod telling;

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use unsnap_control::{Answer, Events, Limits, Listener, Server, metrics::Textfile};

use crate::{
    archives::{Archives, Now},
    config::{Config, Metrics, Sources},
    desk::{Desk, Shared},
    health::Health,
    memory::{Memory, StateDirectory},
    notify::Notify,
    reload,
    state::{Ending, State},
    target::Remover,
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
    directory: StateDirectory,
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
    textfile: Option<Textfile>,
    /// When the directories are looked at next.
    look_at: Instant,
}

impl Supervisor {
    /// Sets everything up, but begins nothing. `directory`: the configured one, which is kept whatever
    /// is configured later. `listener`: where clients are heard.
    pub fn new(
        config: Config,
        sources: Sources,
        directory: StateDirectory,
        listener: Listener,
        notify: Box<dyn Notify>,
    ) -> io::Result<Self> {
        let now = Now::get();
        let (sender, messages) = sync_channel(MESSAGES_MAX);
        let memory = Memory::load(&directory)?;
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
        let mut supervisor = Self {
            shared,
            directory,
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
            events: None,
            server: None,
            health: Health::new(now.instant),
            textfile: None,
            look_at: now.instant,
        };
        for target in targets {
            supervisor.add_target(target)?;
        }
        // Not before: nobody is told that there are no targets.
        let server = Server::start(listener, access, limits, desk)?;
        (supervisor.events, supervisor.server) = (Some(server.events()), Some(server));
        supervisor.offer_metrics(&Metrics::default())?;
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
            // What it is about is done by whoever hears it.
            Message::Look | Message::Stop => {}
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
                state.ended(index, &ended, now);
                // Results, and archives that have been set aside.
                self.look_at = now.instant;
            }
            Said::Swept { moved, .. } => {
                let target = &mut state.targets[index];
                target.sweeping = false;
                match moved {
                    Ok(moved) if moved.is_empty() => {}
                    Ok(moved) => {
                        target.counts.results_removed += moved.len() as u64;
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
            if let Ok(Message::Said(said)) = self.messages.recv_timeout(GLANCE_EVERY) {
                self.hear_worker(said);
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
