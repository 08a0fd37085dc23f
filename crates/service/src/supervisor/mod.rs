//! The supervisor: the main loop of the service. It scans directories, decides, starts workers, and
//! sleeps until a message arrives or a timer expires.

mod reloading;
mod reporting;
mod scanning;
mod scheduling;
mod yielding;

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use unsnap_control::{
    Answer, Events, Limits, Listener, Server, metrics::Textfile, protocol::Event,
};

use crate::{
    archives::{Archives, Now},
    config::{Config, Metrics, Sources},
    health::Health,
    hook::{Hook, TellProgram},
    message::Message,
    notify::Notify,
    persistent::{PersistentState, StateDirectory},
    reload,
    requests::{RequestHandler, Shared},
    space::Housekeeper,
    state::{CancelReason, State},
    target::{Remover, Swept},
    watch::{Change, Watch},
    worker::{Worker, WorkerReport},
};

/// Most messages queued for the supervisor. Senders block when the queue is full; inotify's own
/// queue then overflows, which the kernel reports.
const MESSAGES_MAX: usize = 256;

/// Interval between progress events while a client watches.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Interval between two samples of a running job, for the status line and the watchdog.
const GLANCE_EVERY: Duration = Duration::from_secs(1);

/// Extension requested from the service manager at a time while stopping takes long.
const EXTENSION: Duration = Duration::from_secs(5);

/// Outcome of [`Supervisor::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All jobs ended.
    Clean,
    /// A job did not end within `stop-within`. The process should exit now.
    Unfinished,
}

/// A handle to the supervisor for other threads, such as that of signals. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle(SyncSender<Message>);

impl Handle {
    /// Stops the service.
    pub fn stop(&self) {
        let _ = self.0.send(Message::Stop);
    }

    /// Requests a reload of the configuration.
    pub fn reload(&self) {
        let _ = self.0.send(Message::Reload);
    }
}

/// The main loop, its threads and its server.
pub struct Supervisor {
    shared: Shared,
    directory: StateDirectory,
    sources: Sources,
    sender: SyncSender<Message>,
    messages: Receiver<Message>,
    notify: Box<dyn Notify>,
    hook: Hook,
    archives: Archives,
    watch: Watch,
    remover: Remover,
    housekeeper: Housekeeper,
    workers: Vec<Worker>,
    /// Workers of removed targets, until their threads have ended.
    retired: Vec<Worker>,
    next_worker: u64,
    server: Option<Server>,
    events: Option<Events>,
    health: Health,
    textfile: Option<Textfile>,
    /// Time of the next scan of the directories.
    next_scan: Instant,
}

impl Supervisor {
    /// Starts the threads and the server, but no job. `directory` is the configured state
    /// directory, kept whatever a later configuration says. `listener` is the control socket. `tell`
    /// executes the program of `on-event`.
    pub fn new(
        config: Config,
        sources: Sources,
        directory: StateDirectory,
        listener: Listener,
        notify: Box<dyn Notify>,
        tell: TellProgram,
    ) -> io::Result<Self> {
        let now = Now::get();
        let (sender, messages) = sync_channel(MESSAGES_MAX);
        let persistent = PersistentState::load(&directory)?;
        let changes = sender.clone();
        let watch = Watch::start(move |change| {
            let _ = changes.send(Message::Change(change));
        })?;
        let settings = &config.settings;
        let remover = Remover::start(settings.neighbour.removal_files_per_second)?;
        let tidied = sender.clone();
        let housekeeper = Housekeeper::start(move |done| {
            let _ = tidied.send(Message::Housekeeping(done));
        })?;
        let access = reload::access(&config).map_err(|error| io::Error::other(error.0))?;
        let limits = Limits { connections_max: settings.control.connections_max.into() };
        let targets = config.targets.clone();
        let shared = Shared::new(State::new(Arc::new(config), persistent, now), sender.clone());
        let answer: Arc<dyn Answer> =
            Arc::new(RequestHandler::new(shared.clone(), sources.clone()));
        let mut supervisor = Self {
            shared,
            directory,
            sources,
            sender,
            messages,
            notify,
            hook: Hook::start(tell)?,
            archives: Archives::default(),
            watch,
            remover,
            housekeeper,
            workers: Vec::new(),
            retired: Vec::new(),
            next_worker: 0,
            events: None,
            server: None,
            health: Health::new(now.instant),
            textfile: None,
            next_scan: now.instant,
        };
        for target in targets {
            supervisor.add_target(target)?;
        }
        // Started last: no client sees a status without targets.
        let server = Server::start(listener, access, limits, answer)?;
        (supervisor.events, supervisor.server) = (Some(server.events()), Some(server));
        supervisor.offer_metrics(&Metrics::default())?;
        Ok(supervisor)
    }

    /// Returns a handle for other threads.
    pub fn handle(&self) -> Handle {
        Handle(self.sender.clone())
    }

    /// Runs until [`Handle::stop`] is called.
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
                // Unreachable: the supervisor holds a sender itself.
                Err(RecvTimeoutError::Disconnected) => return self.stop(),
            };
            // Messages that arrived together are handled together.
            for _ in 0..MESSAGES_MAX {
                match next.take() {
                    Some(Message::Stop) => return self.stop(),
                    Some(message) => self.handle_message(message),
                    None => break,
                }
                next = self.messages.try_recv().ok();
            }
            if let Some(message) = next {
                match message {
                    Message::Stop => return self.stop(),
                    message => self.handle_message(message),
                }
            }
        }
    }

    fn handle_message(&mut self, message: Message) {
        match message {
            Message::Change(Change::Complete(path)) => {
                self.archives.complete(path);
                self.next_scan = Instant::now();
            }
            Message::Change(Change::Other) => self.next_scan = Instant::now(),
            Message::WorkerReport(report) => self.handle_report(report),
            Message::Housekeeping(done) => self.tidied(done),
            // The main loop acts on these itself.
            Message::Wake | Message::Stop => {}
            Message::Reload => {
                self.notify.reloading();
                match reload::load(&self.sources) {
                    Ok(config) => self.shared.state().next_config = Some(config),
                    Err(error) => {
                        let message =
                            "the new configuration is refused; the old one stays in force";
                        tracing::error!(%error, "{message}");
                    }
                }
                self.apply_config();
                self.notify.ready();
            }
        }
    }

    fn handle_report(&mut self, report: WorkerReport) {
        let now = Now::get();
        let id = match &report {
            WorkerReport::Ended(ended) => ended.worker,
            WorkerReport::Swept { worker, .. } | WorkerReport::Adopted { worker, .. } => *worker,
        };
        let mut state = self.shared.state();
        // Reports about removed targets are ignored.
        let Some(index) = state.targets.iter().position(|target| target.worker == id) else {
            return;
        };
        match report {
            WorkerReport::Ended(ended) => {
                state.ended(index, &ended, now);
                // Results and archives may have changed.
                self.next_scan = now.instant;
            }
            WorkerReport::Swept { result, .. } => {
                let target = &mut state.targets[index];
                target.chore = None;
                let name = target.target.name.clone();
                match result {
                    Ok(Swept { outdated, leftovers }) => {
                        self.remover.remove(leftovers.keys().cloned());
                        target.leftovers = leftovers;
                        target.counts.results_removed += outdated.len() as u64;
                        if !outdated.is_empty() {
                            let event = Event::ResultsRemoved { target: name, paths: outdated };
                            state.events.push(event);
                        }
                    }
                    Err(error) => {
                        tracing::warn!(target = name, %error, "cannot sweep the target");
                    }
                }
            }
            WorkerReport::Adopted { result, .. } => {
                if state.adoption_ended(index, result, now) {
                    self.next_scan = now.instant;
                }
            }
        }
    }

    /// Runs one iteration: scans if it is due, decides, starts jobs, saves and reports. Returns the
    /// time of the next one.
    fn step(&mut self, now: Now) -> Instant {
        self.apply_config();
        if self.next_scan <= now.instant {
            self.scan(now);
        }
        let usable = self.usable(now);
        let mut wake = self.next_scan;
        if let Some(next) = usable.next {
            wake = wake.min(next);
        }
        self.shared.state().offer(usable.pairs, |path| self.archives.file(path));
        self.look_for_waiting();
        for index in 0..self.workers.len() {
            if let Some(until) = self.schedule(index, now) {
                wake = wake.min(until);
            }
        }
        self.save();
        self.retired.retain(|worker| !worker.is_dead());
        wake.min(self.report(now))
    }

    /// Stops the service: cancels running jobs, which leave files that the next start resumes from,
    /// and waits for them up to `stop-within`.
    fn stop(mut self) -> Stopped {
        self.notify.stopping();
        let deadline = {
            let mut state = self.shared.state();
            state.stopping = true;
            for running in state.targets.iter_mut().filter_map(|target| target.running.as_mut()) {
                running.end(CancelReason::Stopping);
            }
            Instant::now() + state.config.settings.service.stop_within.0
        };
        let busy = |supervisor: &Self| {
            let state = supervisor.shared.state();
            state.targets.iter().any(|target| target.running.is_some())
        };
        while busy(&self) && Instant::now() < deadline {
            self.notify.extend(EXTENSION);
            if let Ok(Message::WorkerReport(report)) = self.messages.recv_timeout(GLANCE_EVERY) {
                self.handle_report(report);
            }
        }
        let unfinished = busy(&self);
        self.save();
        // The server ends, and dropping the receiver unblocks senders.
        self.server = None;
        let Self { workers, retired, messages, watch, remover, housekeeper, .. } = self;
        drop(messages);
        drop((watch, remover, housekeeper));
        if unfinished {
            // Their threads are not joined: they end with the process.
            std::mem::forget((workers, retired));
            return Stopped::Unfinished;
        }
        Stopped::Clean
    }
}
