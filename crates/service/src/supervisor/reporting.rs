//! What has happened is saved, and told.

use std::time::{Duration, Instant};

use unsnap_control::{Events, Server};

use super::{GLANCE_EVERY, PROGRESS_EVERY, Supervisor};
use crate::{archives::Now, health::Stages, status};

/// When there is nobody to tell.
const NOBODY_WAITS: Duration = Duration::from_hours(1);

impl Supervisor {
    /// Saves what is to survive.
    pub(super) fn save(&self) {
        let memory = {
            let mut state = self.shared.state();
            if !std::mem::take(&mut state.unsaved) {
                return;
            }
            state.memory.clone()
        };
        if let Err(error) = memory.save(&self.directory) {
            let directory = self.directory.path().display();
            tracing::warn!(%error, %directory, "what is to be remembered cannot be saved");
            self.shared.state().unsaved = true;
        }
    }

    /// Tells watchers and the service manager. Gives the time to do it again.
    pub(super) fn tell(&mut self, now: Now) -> Instant {
        let (events, running, text) = {
            let mut state = self.shared.state();
            let running = state.targets.iter().any(|target| target.running.is_some());
            (std::mem::take(&mut state.events), running, status::words(&state))
        };
        let watched = self.events.as_ref().is_some_and(Events::watched);
        if let Some(publisher) = self.events.as_ref().filter(|_| watched) {
            let progress = self.shared.state().progress_events(now.instant);
            for event in events.iter().chain(&progress) {
                publisher.publish(event);
            }
        }
        self.notify.status(&text);
        let control = self.server.as_ref().map(Server::heartbeat);
        let stages =
            Stages { watch: &self.watch, control: control.as_ref(), remover: &self.remover };
        let mut again = now.instant + NOBODY_WAITS;
        let health = self.health.look(&mut self.shared.state(), &stages, now.instant);
        match health {
            Ok(()) => self.notify.watchdog(),
            Err(reason) => tracing::error!(reason, "stuck: the watchdog is not fed"),
        }
        if let Some(textfile) = &mut self.textfile {
            if textfile.next().is_none_or(|due| due <= now.instant) {
                let text = self.shared.state().metrics(now);
                if let Err(error) = textfile.write(&text) {
                    tracing::warn!(%error, "the file of metrics cannot be written");
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
