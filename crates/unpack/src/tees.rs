//! Archives from the network that are kept as files.

use std::{os::fd::BorrowedFd, path::PathBuf};

use unsnap_commit::{CommitError, CompleteTee, RemoteId, RunningTee, Tee, TeeLost, TeeRoom};
use unsnap_failure::{Code, Remedy};
use unsnap_fetch::{Identity, Remote};
use unsnap_fit::{Announced, FileSystem};
use unsnap_pass::{Archive, Handles, Keeper, Memory, Need, PassError, Progress, Snapshot};
use unsnap_source::DigestKind;

use crate::{Options, UnpackError, report::TeeReport};

/// The files under construction, one for each archive that is kept.
#[derive(Default)]
pub(crate) struct Tees {
    tees: Vec<Option<Tee>>,
    /// Whether the run fails without them.
    are_required: bool,
}

/// The same while archives are received.
#[derive(Default)]
pub(crate) struct RunningTees {
    running: Vec<RunningTee>,
    lost: Vec<TeeLost>,
    are_required: bool,
}

/// The same when everything is durable.
#[derive(Default)]
pub(crate) struct CompleteTees {
    complete: Vec<CompleteTee>,
    lost: Vec<TeeLost>,
    are_required: bool,
}

impl Tees {
    /// Opens a file for each archive from the network, if the options say so.
    pub fn open(options: &Options, handles: &Handles) -> Result<Self, UnpackError> {
        let Some(to) = &options.tee else { return Ok(Self::default()) };
        let archives = options.archives();
        if !archives.iter().any(|archive| matches!(archive, Archive::Remote(_))) {
            let reason = "only archives from the network are kept: this one is a file, or a stream \
                          without a name";
            return Err(PassError::request(reason).into());
        }
        let calls = options.pass.io.engine.syscalls();
        let resumes = options.resumes().then_some(options.pass.io.direct);
        let directories = [&to.first, &to.second];
        let open = |(archive, directory): (&Archive, &PathBuf)| match archive {
            Archive::Remote(remote) => {
                let name = remote.address.file_name();
                if archive.snapshot_name().is_none() {
                    let reason = format!("an archive is not kept under the name {name:?}");
                    let advice = "give the address of an archive with the name of a snapshot";
                    return Err(PassError::request_with(reason, Remedy::advice(advice)).into());
                }
                let unfinished = handles.cancel.unfinished();
                let opened = Tee::open(&calls, unfinished, &directory.join(name), resumes);
                Ok(Some(opened.map_err(CommitError::from)?))
            }
            _ => Ok(None),
        };
        let tees =
            archives.iter().zip(directories).map(open).collect::<Result<_, UnpackError>>()?;
        Ok(Self { tees, are_required: to.is_required })
    }

    /// Returns what the servers announce of each archive, and where archives must be kept.
    pub fn announced(
        &self,
        options: &Options,
        archives: &[Option<RemoteId>],
    ) -> Vec<Option<Announced>> {
        let calls = options.pass.io.engine.syscalls();
        let device = |tee: &Tee| {
            Some(FileSystem::of(&calls, vec![tee.directory().ok()?]).ok()?.first()?.device)
        };
        let tees = self.tees.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        let each = archives.iter().zip(tees).map(|(archive, tee)| {
            let kept_on = tee.filter(|_| self.are_required).and_then(device);
            archive.as_ref().map(|archive| Announced { bytes: archive.length, kept_on })
        });
        each.collect()
    }

    /// Refuses archives that must be kept where there is no room for them. Directories on the file
    /// systems of the destinations are not looked at here: the archives' content goes there as well.
    pub fn refuse_without_room(
        &self,
        options: &Options,
        systems: &[FileSystem],
        announced: &[Option<Announced>],
    ) -> Result<(), UnpackError> {
        let calls = options.pass.io.engine.syscalls();
        for (tee, one) in self.tees.iter().zip(announced).filter(|_| self.are_required) {
            let (Some(tee), Some(Announced { kept_on: Some(device), .. })) = (tee, one) else {
                continue;
            };
            let Ok(directory) = tee.directory() else { continue };
            let path = directory.1.clone();
            let system = FileSystem::of(&calls, vec![directory])?.into_iter().next();
            let is_destination = systems.iter().any(|system| system.device == *device);
            let Some(system) = system.filter(|_| !is_destination) else { continue };
            let there = announced.iter().flatten().filter(|one| one.kept_on == Some(*device));
            let needed = there.map(|one| one.bytes).fold(0, u64::saturating_add);
            let free = system.keeping(options.min_free).free()?.bytes;
            if let Some(free) = free.filter(|free| *free < needed) {
                let reason = format!("its disk has {free} free bytes, and {needed} are needed");
                let code = Code::NoSpace;
                return Err(UnpackError::NotKept { path, reason, code });
            }
        }
        Ok(())
    }

    /// Returns the directories that a confined run needs, with the kind of access.
    pub fn needs(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Need)> {
        self.tees.iter().flatten().map(Tee::need)
    }

    /// Starts writing. Also returns what keeps each archive. `systems` are the file
    /// systems of the destinations. A run that is of no use without
    /// the archives ends by closing `memory`.
    ///
    /// # Errors
    ///
    /// [`UnpackError::NotKept`] for an archive that must be kept and cannot be.
    pub fn start(
        self,
        options: &Options,
        systems: &[FileSystem],
        archives: Vec<Option<RemoteId>>,
        progress: &Progress,
        memory: &Memory,
    ) -> Result<(RunningTees, Vec<Option<Keeper>>), UnpackError> {
        let are_required = self.are_required;
        let mut all = RunningTees { are_required, ..RunningTees::default() };
        let mut keepers = Vec::new();
        let total = archives.iter().flatten().map(|archive| archive.length).sum();
        for (tee, archive) in self.tees.into_iter().zip(archives) {
            let started = tee.zip(archive).map(|(tee, archive)| {
                let mut room = room(&tee, options, systems, total, progress);
                if are_required {
                    room.lost = Box::new(memory.closer());
                }
                tee.start(archive, options.pass.io.direct, room)
            });
            keepers.push(match started {
                None => None,
                Some(Ok((running, part))) => {
                    let listener = Box::new(running.sink());
                    all.running.push(running);
                    Some(Keeper { listener, part })
                }
                Some(Err(lost)) if are_required => return Err(not_kept(lost)),
                Some(Err(lost)) => {
                    all.lost.push(lost);
                    None
                }
            });
        }
        Ok((all, keepers))
    }
}

/// Returns the space for a tee, beside what is unpacked to the same file system.
fn room(
    tee: &Tee,
    options: &Options,
    systems: &[FileSystem],
    total: u64,
    progress: &Progress,
) -> TeeRoom {
    let calls = options.pass.io.engine.syscalls();
    let directory = tee.directory().ok();
    let own = directory.and_then(|directory| FileSystem::of(&calls, vec![directory]).ok());
    let own = own.and_then(|systems| systems.into_iter().next());
    let own = own.map(|own| own.keeping(options.min_free));
    let shares = own.as_ref().is_some_and(|own| {
        options.writes() && systems.iter().any(|system| system.device == own.device)
    });
    let (progress, in_flight) = (progress.clone(), options.pass.resources.memory_bytes());
    let needed = move || {
        let Snapshot { bytes_read, bytes_written, .. } = progress.snapshot();
        let rest = still_to_write(total, bytes_read, bytes_written);
        if shares { rest.saturating_add(in_flight) } else { 0 }
    };
    let free = move || own.as_ref()?.free().ok()?.bytes;
    TeeRoom { free: Box::new(free), needed: Box::new(needed), lost: Box::new(|| ()) }
}

fn not_kept(lost: TeeLost) -> UnpackError {
    UnpackError::NotKept { path: lost.path, reason: lost.reason, code: Code::System }
}

/// Estimates the bytes that are still going to be written, apart from those in memory, by what has
/// been made of the bytes read so far.
fn still_to_write(total: u64, read: u64, written: u64) -> u64 {
    if read == 0 {
        return 0;
    }
    let rest = u128::from(total.saturating_sub(read)) * u128::from(written) / u128::from(read);
    u64::try_from(rest).unwrap_or(u64::MAX)
}

/// Returns the identity of an archive on a server.
pub(crate) fn remote_id(remote: &Remote) -> RemoteId {
    let mut head = DigestKind::Xxh3.hasher();
    head.update(remote.head());
    let Identity { bytes, etag, last_modified } = remote.identity().clone();
    RemoteId { length: bytes, etag, last_modified, head: head.digest().to_string() }
}

impl RunningTees {
    /// Leaves what has come of the archives for a later run.
    pub fn keep(self) {
        self.running.into_iter().for_each(RunningTee::keep);
    }

    /// Returns the error of a run that has ended because an archive cannot be kept, if it has.
    pub fn why_stopped(&mut self) -> Option<UnpackError> {
        let mut running = self.running.iter_mut().filter(|_| self.are_required);
        running.find_map(RunningTee::lost).map(not_kept)
    }

    /// Waits until the files are complete and durable. The sources must have ended.
    ///
    /// # Errors
    ///
    /// [`UnpackError::NotKept`] for an archive that must be kept and cannot be.
    pub fn finish(self) -> Result<CompleteTees, UnpackError> {
        let are_required = self.are_required;
        let mut all = CompleteTees { complete: Vec::new(), lost: self.lost, are_required };
        for running in self.running {
            match running.finish() {
                Ok(complete) => all.complete.push(complete),
                Err(lost) if are_required => return Err(not_kept(lost)),
                Err(lost) => all.lost.push(lost),
            }
        }
        Ok(all)
    }
}

impl CompleteTees {
    /// Returns whether the run fails without the files, so that they get their names first.
    pub fn are_required(&self) -> bool {
        self.are_required
    }

    /// Gives the files their names, durably. Returns what the report says of them.
    ///
    /// # Errors
    ///
    /// [`UnpackError::NotKept`] for an archive that must be kept and cannot be.
    pub fn publish(self) -> Result<Vec<TeeReport>, UnpackError> {
        let are_required = self.are_required;
        let mut reports = Vec::new();
        let mut lost = self.lost;
        for complete in self.complete {
            let (path, bytes) = (complete.path().display().to_string(), complete.bytes());
            let reused_bytes = complete.reused();
            match complete.publish() {
                Ok(()) => {
                    reports.push(TeeReport { path, bytes, reused_bytes, kept: true, reason: None });
                }
                Err(one) if are_required => return Err(not_kept(one)),
                Err(one) => lost.push(one),
            }
        }
        reports.extend(lost.into_iter().map(|TeeLost { path, bytes, reason }| TeeReport {
            path: path.display().to_string(),
            bytes,
            reused_bytes: 0,
            kept: false,
            reason: Some(reason),
        }));
        Ok(reports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_from_the_beginning() {
        assert_eq!(still_to_write(100, 0, 0), 0);
        assert_eq!(still_to_write(100, 25, 75), 225);
        assert_eq!(still_to_write(100, 100, 300), 0);
        assert_eq!(still_to_write(100, 120, 300), 0, "of several archives, one is a file");
        assert_eq!(still_to_write(u64::MAX, 1, u64::MAX), u64::MAX);
    }
}
