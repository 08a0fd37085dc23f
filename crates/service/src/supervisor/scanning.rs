//! Scanning the directories of archives and results.

use std::sync::Arc;

use super::Supervisor;
use crate::{
    archives::{Now, Usable},
    config::{Target, TargetKind},
    disks::disks,
    target::{is_adoptable, results},
};

impl Supervisor {
    /// Scans the directories of archives and results, and updates the state.
    pub(super) fn scan(&mut self, now: Now) {
        let config = Arc::clone(&self.shared.state().config);
        let archives = &config.archives;
        self.watch.renew([&*archives.full, &*archives.incremental]);
        let settings = &config.settings.archives;
        let error = self.archives.scan(archives, settings.settle.0, now).err();
        let targets: Vec<Target> =
            self.shared.state().targets.iter().map(|target| target.target.clone()).collect();
        let found: Vec<_> = targets.iter().map(results).collect();
        let adoptable = |target: &Target| match &target.kind {
            TargetKind::Fastboot { places, .. } => is_adoptable(places),
            TargetKind::Tree { .. } => false,
        };
        let adoptable: Vec<bool> = targets.iter().map(adoptable).collect();
        let disks = disks(&targets);
        let mut state = self.shared.state();
        state.disks = disks;
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
        for ((target, found), adoptable) in state.targets.iter_mut().zip(found).zip(adoptable) {
            // The next job adopts the prepared state.
            target.checked &= !adoptable;
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
        self.next_scan = now.instant + settings.rescan.0;
    }

    /// Returns the archives that may be unpacked now.
    pub(super) fn usable(&self, now: Now) -> Usable {
        let state = self.shared.state();
        let settle = state.config.settings.archives.settle.0;
        self.archives.usable(settle, now.instant, |path, file| state.persistent.is_bad(path, file))
    }
}
