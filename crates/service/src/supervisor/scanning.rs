//! Scanning the directories of archives and results.

use std::sync::Arc;

use unsnap_fastboot::Attempts;
use unsnap_ring::Syscalls;

use super::Supervisor;
use crate::{
    archives::{Now, Usable},
    config::{Config, Target, TargetKind},
    disks::disks,
    space::{Done, Round, RoundTarget},
    state::TargetState,
    target::{is_adoptable, result_directories, results},
};

impl Supervisor {
    /// Scans the directories of archives and results, and updates the state.
    pub(super) fn scan(&mut self, now: Now) {
        let config = Arc::clone(&self.shared.state().config);
        let archives = &config.archives;
        let settings = &config.settings.archives;
        let targets: Vec<Target> =
            self.shared.state().targets.iter().map(|target| target.target.clone()).collect();
        let results_of = targets.iter().flat_map(result_directories);
        self.watch.renew([&*archives.full, &*archives.incremental], results_of);
        let error = self.archives.scan(archives, settings.settle.0, now).err();
        let found: Vec<_> = targets.iter().map(results).collect();
        let adoptable: Vec<bool> = targets.iter().map(is_adoptable).collect();
        let attempts = |target: &Target| match &target.kind {
            TargetKind::Fastboot { places, .. } => {
                Attempts::read(&Syscalls::default(), &places.snapshots)
            }
            TargetKind::Tree { .. } => Attempts::default(),
        };
        let attempts: Vec<Attempts> = targets.iter().map(attempts).collect();
        let mut disks = disks(&targets);
        let mut state = self.shared.state();
        state.search_error = error.map(|error| {
            tracing::warn!(%error, "cannot scan the directories of archives");
            error.to_string()
        });
        if state.search_error.is_none()
            && state.persistent.forget_gone(|path, file| match self.archives.file(path) {
                Some(now) => now == file,
                // Submitted from another directory.
                None => file.is_that_of(path),
            })
        {
            state.unsaved = true;
        }
        let looked = found.into_iter().zip(adoptable).zip(attempts);
        let mut events = Vec::new();
        for (target, ((found, adoptable), attempts)) in state.targets.iter_mut().zip(looked) {
            target.adoption.due = adoptable;
            events.extend(target.learn(attempts));
            match found {
                Ok(found) => target.results = found,
                Err(error) => {
                    let target = &target.target.name;
                    tracing::warn!(target, %error, "cannot list the target's results");
                }
            }
            let files = &self.archives;
            target.unreadable.retain(|path, _| files.file(path).is_some());
        }
        for disk in &mut disks {
            disk.status.kept = state.kept_on(disk.device);
        }
        state.disks = disks;
        state.events.extend(events);
        self.next_scan = now.instant + settings.rescan.0;
        drop(state);
        self.order_housekeeping(&config, now);
    }

    /// Has the fastboot targets looked after by the housekeeper.
    fn order_housekeeping(&self, config: &Config, now: Now) {
        let target = |target: &TargetState| match &target.target.kind {
            TargetKind::Fastboot { places, .. } => Some(RoundTarget {
                worker: target.worker,
                name: target.target.name.clone(),
                places: places.clone(),
                is_busy: target.running.is_some(),
                ready: target.ready().map(|ready| ready.slot),
            }),
            TargetKind::Tree { .. } => None,
        };
        let targets = self.shared.state().targets.iter().filter_map(target).collect();
        let age_max = config.settings.archives.bad_archives_max_age.0;
        self.housekeeper.order(Round {
            targets,
            archives: config.archives.clone(),
            bad_archives_age_max: (!age_max.is_zero()).then_some(age_max),
            min_free: config.settings.neighbour.min_free,
            now,
        });
    }

    /// Records what the housekeeper has done. Removals take no time while space is short.
    pub(super) fn tidied(&mut self, all: Vec<Done>) {
        let now = Now::get();
        let mut state = self.shared.state();
        self.remover.hurry(all.iter().any(|done| done.short.is_some()));
        let backoff = state.backoff();
        let mut events = Vec::new();
        for mut done in all {
            self.remover.remove(std::mem::take(&mut done.moved));
            let found = state.targets.iter_mut().find(|target| target.worker == done.worker);
            let Some(target) = found else { continue };
            let event = target.space_event(&done);
            if let Some(kept) = done.kept {
                let shadow_bytes = kept.values().map(|on_it| on_it.shadow).sum();
                target.counts.shadow_bytes = Some(shadow_bytes);
                target.kept = kept;
            }
            let counts = &mut target.counts;
            counts.shadow_removed += u64::from(done.shadow_removed);
            counts.ready_discarded += u64::from(done.ready_discarded);
            counts.space_looks += 1;
            if done.ready_discarded {
                // The next one would fill the same space. Whether it fits is asked later.
                target.retry_timer.failed(backoff, now.instant);
                self.next_scan = now.instant;
            }
            events.extend(event);
        }
        state.events.extend(events);
    }

    /// Returns the archives that may be unpacked now.
    pub(super) fn usable(&self, now: Now) -> Usable {
        let state = self.shared.state();
        let settle = state.config.settings.archives.settle.0;
        self.archives.usable(settle, now.instant, |path, file| state.persistent.is_bad(path, file))
    }
}
