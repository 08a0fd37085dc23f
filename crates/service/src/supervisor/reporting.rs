//! Saving the persistent state and reporting to clients, the service manager and node_exporter.

use std::time::{Duration, Instant};

use unsnap_control::{Events, Server};

use super::{GLANCE_EVERY, PROGRESS_EVERY, Supervisor};
use crate::{archives::Now, health::Stages, state::Running, status};

/// Interval between reports while nothing else sets one.
const IDLE_INTERVAL: Duration = Duration::from_hours(1);

impl Supervisor {
    /// Writes the persistent state to disk if it has changed. After an error the next call retries.
    pub(super) fn save(&self) {
        let persistent = {
            let mut state = self.shared.state();
            if !std::mem::take(&mut state.unsaved) {
                return;
            }
            state.persistent.clone()
        };
        if let Err(error) = persistent.save(&self.directory) {
            let directory = self.directory.path().display();
            tracing::warn!(%error, %directory, "cannot save unpackd.json; retrying");
            self.shared.state().unsaved = true;
        }
    }

    /// Sends events to watching clients and the program of `on-event`, notifies the service manager and
    /// writes the metrics' file. Returns the time of the next report.
    pub(super) fn report(&mut self, now: Now) -> Instant {
        let (events, running, text, program) = {
            let mut state = self.shared.state();
            let running = state.targets.iter_mut().filter_map(|target| target.running.as_mut());
            let running = running.map(Running::glance).count() > 0;
            let program = state.config.settings.service.on_event.clone();
            (state.take_events(), running, status::status_line(&state), program)
        };
        for event in &events {
            self.hook.tell(&program, event);
        }
        let watched = self.events.as_ref().is_some_and(Events::watched);
        if let Some(publisher) = self.events.as_ref().filter(|_| watched) {
            let progress = self.shared.state().progress_events(now.instant);
            for event in events.iter().chain(&progress) {
                publisher.publish(event);
            }
        }
        self.notify.status(&text);
        let control = self.server.as_ref().map(Server::heartbeat);
        let stages = Stages {
            watch: &self.watch,
            control: control.as_ref(),
            remover: &self.remover,
            housekeeper: &self.housekeeper,
        };
        let mut again = now.instant + IDLE_INTERVAL;
        let health = self.health.check(&mut self.shared.state(), &stages, now.instant);
        match health {
            Ok(()) => self.notify.watchdog(),
            Err(reason) => {
                tracing::error!(reason, "a thread is stuck; the watchdog is not notified");
            }
        }
        if let Some(textfile) = &mut self.textfile {
            if textfile.next().is_none_or(|due| due <= now.instant) {
                let text = self.shared.state().metrics(now, false);
                if let Err(error) = textfile.write(&text) {
                    tracing::warn!(%error, "cannot write the metrics' textfile");
                }
            }
            again = again.min(textfile.next().unwrap_or(again));
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
}
