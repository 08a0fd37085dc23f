//! File systems that targets are on, their free space, and what targets keep there.

use std::{collections::BTreeMap, os::unix::fs::MetadataExt, path::Path};

use unsnap_control::protocol::{DiskStatus, Event, Kept, KeptStatus};
use unsnap_fit::Free;
use unsnap_ring::Syscalls;

use crate::{
    config::{Target, TargetKind},
    space::Done,
    state::{Disk, State, TargetState},
};

/// Measures the file systems of all targets. Directories that are missing or cannot be examined are
/// left out: the jobs of their targets report them.
pub fn disks(targets: &[Target]) -> Vec<Disk> {
    let mut disks: BTreeMap<u64, DiskStatus> = BTreeMap::new();
    for target in targets {
        for path in directories(target) {
            let Some((device, free)) = free(path) else { continue };
            let disk = disks.entry(device).or_insert_with(|| DiskStatus {
                path: path.to_owned(),
                targets: Vec::new(),
                bytes: free.total_bytes,
                bytes_available: free.bytes.unwrap_or(0),
                kept: Vec::new(),
            });
            if !disk.targets.contains(&target.name) {
                disk.targets.push(target.name.clone());
            }
        }
    }
    disks.into_iter().map(|(device, status)| Disk { device, status }).collect()
}

impl State {
    /// Returns what targets keep on a file system, as far as it is known, without what is nothing.
    pub fn kept_on(&self, device: u64) -> Vec<KeptStatus> {
        let of_target = |target: &TargetState| {
            let figures = match &target.target.kind {
                TargetKind::Fastboot { .. } => {
                    let kept = target.kept.get(&device).copied().unwrap_or_default();
                    vec![
                        (Kept::Ready, kept.ready),
                        (Kept::Next, kept.next),
                        (Kept::Shadow, kept.shadow),
                        (Kept::Leftovers, kept.leaving),
                    ]
                }
                TargetKind::Tree { directory } if is_on(directory, device) => {
                    let made =
                        target.results.iter().filter_map(|it| self.persistent.made(&it.path));
                    let trees = made.map(|made| made.bytes).sum();
                    vec![(Kept::Trees, trees), (Kept::Leftovers, target.leftovers.values().sum())]
                }
                TargetKind::Tree { .. } => Vec::new(),
            };
            let name = target.target.name.clone();
            figures
                .into_iter()
                .filter(|(_, bytes)| *bytes > 0)
                .map(move |(what, bytes)| KeptStatus { target: name.clone(), what, bytes })
        };
        self.targets.iter().flat_map(of_target).collect()
    }
}

impl TargetState {
    /// Returns the event that space is short, if it has become so or if something was given back.
    pub fn space_event(&mut self, done: &Done) -> Option<Event> {
        let was_short = std::mem::replace(&mut self.shortage, done.short.clone()).is_some();
        let figures = done.short.as_ref()?;
        // A shadow also goes when its state is gone.
        let (shadow_removed, ready_discarded) = (done.shadow_removed, done.ready_discarded);
        if was_short && !shadow_removed && !ready_discarded {
            return None;
        }
        let then = match (shadow_removed, ready_discarded) {
            (true, true) => "; removed the shadow and the ready state",
            (true, false) => "; removed the shadow",
            (false, true) => "; discarded the ready state",
            (false, false) => "",
        };
        let (target, message) =
            (self.target.name.clone(), format!("space is short: {figures}{then}"));
        Some(Event::SpaceShort { target, shadow_removed, ready_discarded, message })
    }
}

fn is_on(path: &Path, device: u64) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.dev() == device)
}

/// Returns the directories that a target writes to.
fn directories(target: &Target) -> Vec<&Path> {
    match &target.kind {
        TargetKind::Tree { directory } => vec![directory],
        TargetKind::Fastboot { places, .. } => {
            let accounts = places.accounts.iter().map(|path| &**path);
            accounts.chain([&*places.snapshots]).collect()
        }
    }
}

fn free(path: &Path) -> Option<(u64, Free)> {
    let directory = std::fs::File::open(path).ok()?;
    let device = directory.metadata().ok()?.dev();
    let free = Free::of(&Syscalls::default(), &directory.into(), path).ok()?;
    Some((device, free))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnap_fastboot::{Places, Returnable};

    #[test]
    fn targets_on_one_file_system_share_a_disk_and_missing_directories_have_none() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = |name: &str, directory: &Path| Target {
            name: name.to_owned(),
            kind: TargetKind::Tree { directory: directory.to_owned() },
            keep: 1,
        };
        let mut places = Places::new(scratch.path());
        places.accounts = vec![scratch.path().to_owned()];
        let state = Target { name: "state".to_owned(), kind: state_kind(places), keep: 1 };
        let targets =
            [tree("one", scratch.path()), state, tree("missing", &scratch.path().join("missing"))];
        let found = disks(&targets);
        let [Disk { device, status: disk }] = &found[..] else { panic!("{found:?}") };
        assert!(is_on(scratch.path(), *device));
        assert_eq!(disk.targets, ["one", "state"]);
        assert_eq!(disk.path, scratch.path());
        assert!(disk.bytes > 0 && disk.bytes_available <= disk.bytes);
    }
    fn state_kind(places: Places) -> TargetKind {
        let format = unsnap_state::Format::V3;
        TargetKind::Fastboot { places, format, shadow: true, beside: true, max_behind: 0 }
    }

    #[test]
    fn what_a_state_keeps_is_told_on_its_device() {
        let mut state = crate::testing::at_work(crate::archives::Now::get());
        let target = &mut state.targets[0];
        target.target.kind = state_kind(Places::new("/l"));
        target.kept =
            BTreeMap::from([(7, Returnable { ready: 5, shadow: 0, leaving: 2, next: 3 })]);
        let kept = |what, bytes| KeptStatus { target: "t".to_owned(), what, bytes };
        assert_eq!(
            state.kept_on(7),
            [kept(Kept::Ready, 5), kept(Kept::Next, 3), kept(Kept::Leftovers, 2)]
        );
        assert_eq!(state.kept_on(8), []);
    }

    #[test]
    fn a_shortage_is_told_when_it_begins_and_when_something_is_given_back() {
        let mut state = crate::testing::at_work(crate::archives::Now::get());
        let target = &mut state.targets[0];
        let short = |ready_discarded| Done {
            short: Some("1 GiB are free".to_owned()),
            ready_discarded,
            ..Done::default()
        };
        assert_eq!(target.space_event(&Done::default()), None);
        assert!(target.space_event(&short(false)).is_some());
        assert_eq!(target.space_event(&short(false)), None);
        let Some(Event::SpaceShort {
            ready_discarded: true, shadow_removed: false, message, ..
        }) = target.space_event(&short(true))
        else {
            panic!("not told");
        };
        assert_eq!(message, "space is short: 1 GiB are free; discarded the ready state");
        assert_eq!(target.space_event(&Done::default()), None);
        assert!(target.space_event(&short(false)).is_some());
    }
}
