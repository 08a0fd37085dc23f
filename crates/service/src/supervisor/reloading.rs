//! Applying a new configuration: targets, access rights, limits and metrics.

use std::{io, sync::Arc, time::Instant};

use unsnap_control::{ScrapeListener, metrics::Textfile, protocol::Event};

use super::Supervisor;
use crate::{
    config::{Metrics, Target},
    message::Message,
    reload,
    state::{CancelReason, TargetState},
    worker::Worker,
};

impl Supervisor {
    /// Serves metrics as the configuration says. `before` is the configuration they are served by
    /// now.
    pub(super) fn offer_metrics(&mut self, before: &Metrics) -> io::Result<()> {
        let config = Arc::clone(&self.shared.state().config);
        let metrics = &config.settings.metrics;
        let other = |reason: String| io::Error::other(format!("metrics: {reason}"));
        let path = Some(&metrics.textfile).filter(|path| !path.as_os_str().is_empty());
        let textfile = path.map(|path| Textfile::new(path, metrics.textfile_every.0));
        self.textfile = textfile.transpose().map_err(other)?;
        if metrics.listen == before.listen {
            // The address is in use by the present listener.
            return Ok(());
        }
        let listener = match &*metrics.listen {
            "" => None,
            address => {
                let parsed = ScrapeListener::address(address).map_err(other)?;
                let bound = ScrapeListener::bind(parsed);
                Some(bound.map_err(|error| other(format!("cannot listen on {address}: {error}")))?)
            }
        };
        if let Some(server) = &self.server {
            server.set_metrics_listener(listener);
        }
        Ok(())
    }

    /// Adds a target and starts its worker.
    pub(super) fn add_target(&mut self, target: Target) -> io::Result<()> {
        let (state, worker) = self.start_worker(target)?;
        self.workers.push(worker);
        self.shared.state().targets.push(state);
        Ok(())
    }

    fn start_worker(&mut self, target: Target) -> io::Result<(TargetState, Worker)> {
        self.next_worker += 1;
        let (id, sender) = (self.next_worker, self.sender.clone());
        let own = self.directory.path().to_owned();
        let worker = Worker::start(id, &target.name, own, move |report| {
            let _ = sender.send(Message::WorkerReport(report));
        })?;
        Ok((TargetState::new(target, id), worker))
    }

    /// Applies the new configuration, if there is one.
    pub(super) fn apply_config(&mut self) {
        let (old, new) = {
            let mut state = self.shared.state();
            let Some(new) = state.next_config.take() else { return };
            let new = Arc::new(new);
            (std::mem::replace(&mut state.config, Arc::clone(&new)), new)
        };
        for key in reload::needs_restart(&old, &new) {
            tracing::warn!(
                key,
                "the change of this key takes effect after a restart of the service"
            );
        }
        if old.settings.metrics != new.settings.metrics
            && let Err(error) = self.offer_metrics(&old.settings.metrics)
        {
            tracing::error!(%error, "cannot serve metrics as the new configuration says");
        }
        self.remover.set_pace(new.settings.neighbour.removal_files_per_second);
        if let (Some(server), Ok(access)) = (&self.server, reload::access(&new)) {
            server.set_access(access);
        }
        let shared = self.shared.clone();
        // Clients see the targets of before or those of now.
        let mut state = shared.state();
        let running = state.targets.iter().filter_map(|target| target.running.as_ref());
        // A job that a validator's start waits for has no limit.
        for running in running.filter(|running| !running.hurries) {
            running.pace.set_rate(new.rate_limit());
        }
        let targets = std::mem::take(&mut state.targets).into_iter();
        let mut before: Vec<(TargetState, Worker)> = targets.zip(self.workers.drain(..)).collect();
        for target in &new.targets {
            let same = before.iter().position(|(old, _)| old.target == *target);
            let added = match same {
                Some(same) => Ok(before.swap_remove(same)),
                None => self.start_worker(target.clone()),
            };
            match added {
                Ok((target, worker)) => {
                    state.targets.push(target);
                    self.workers.push(worker);
                }
                Err(error) => {
                    let target = &target.name;
                    tracing::error!(target, %error, "cannot start the target's worker");
                }
            }
        }
        for (mut gone, mut worker) in before {
            if let Some(running) = &mut gone.running {
                running.end(CancelReason::Cancelled);
            }
            worker.retire();
            self.retired.push(worker);
        }
        self.next_scan = Instant::now();
        state.events.push(Event::Reloaded);
        tracing::info!(targets = state.targets.len(), "new configuration in force");
    }
}
