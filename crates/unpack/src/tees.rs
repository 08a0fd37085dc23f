//! Archives from the network that are kept as files.

use std::os::fd::BorrowedFd;

use unsnap_commit::{CommitError, CompleteTee, RemoteId, RunningTee, Tee, TeeLost, TeeRoom};
use unsnap_failure::Remedy;
use unsnap_fetch::{Identity, Remote};
use unsnap_fit::FileSystem;
use unsnap_pass::{Archive, Handles, Keeper, Need, PassError, Progress, Snapshot};
use unsnap_source::DigestKind;

use crate::{Options, UnpackError, report::TeeReport};

/// The files under construction, one for each archive that is kept.
#[derive(Default)]
pub(crate) struct Tees(Vec<Option<Tee>>);

/// The same while archives are received.
#[derive(Default)]
pub(crate) struct RunningTees {
    running: Vec<RunningTee>,
    lost: Vec<TeeLost>,
}

/// The same when everything is durable.
#[derive(Default)]
pub(crate) struct CompleteTees {
    complete: Vec<CompleteTee>,
    lost: Vec<TeeLost>,
}

impl Tees {
    /// Opens a file for each archive from the network, if the options say so.
    pub fn open(options: &Options, handles: &Handles) -> Result<Self, UnpackError> {
        let Some(directory) = &options.tee else { return Ok(Self::default()) };
        let archives = options.archives();
        if !archives.iter().any(|archive| matches!(archive, Archive::Remote(_))) {
            let reason = "only archives from the network are kept: this one is a file, or a stream \
                          without a name";
            return Err(PassError::request(reason).into());
        }
        let calls = options.pass.io.engine.syscalls();
        let resumes = options.resumes().then_some(options.pass.io.direct);
        let open = |archive: &Archive| match archive {
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
        Ok(Self(archives.iter().map(open).collect::<Result<_, UnpackError>>()?))
    }

    /// Returns the directories that a confined run needs, with the kind of access.
    pub fn needs(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Need)> {
        self.0.iter().flatten().map(Tee::need)
    }

    /// Starts writing. Also returns what keeps each archive. `systems` are the file
    /// systems of the destinations.
    pub fn start(
        self,
        options: &Options,
        systems: &[FileSystem],
        archives: Vec<Option<RemoteId>>,
        progress: &Progress,
    ) -> (RunningTees, Vec<Option<Keeper>>) {
        let (mut all, mut keepers) = (RunningTees::default(), Vec::new());
        let total = archives.iter().flatten().map(|archive| archive.length).sum();
        for (tee, archive) in self.0.into_iter().zip(archives) {
            let started = tee.zip(archive).map(|(tee, archive)| {
                let room = room(&tee, options, systems, total, progress);
                tee.start(archive, options.pass.io.direct, room)
            });
            keepers.push(match started {
                None => None,
                Some(Ok((running, part))) => {
                    let listener = Box::new(running.sink());
                    all.running.push(running);
                    Some(Keeper { listener, part })
                }
                Some(Err(lost)) => {
                    all.lost.push(lost);
                    None
                }
            });
        }
        (all, keepers)
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
    TeeRoom { free: Box::new(free), needed: Box::new(needed) }
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

    /// Waits until the files are complete and durable. The sources must have ended.
    pub fn finish(self) -> CompleteTees {
        let mut all = CompleteTees { complete: Vec::new(), lost: self.lost };
        for running in self.running {
            match running.finish() {
                Ok(complete) => all.complete.push(complete),
                Err(lost) => all.lost.push(lost),
            }
        }
        all
    }
}

impl CompleteTees {
    /// Gives the files their names, durably. Returns what the report says of them.
    pub fn publish(self) -> Vec<TeeReport> {
        let mut reports = Vec::new();
        let mut lost = self.lost;
        for complete in self.complete {
            let (path, bytes) = (complete.path().display().to_string(), complete.bytes());
            let reused_bytes = complete.reused();
            match complete.publish() {
                Ok(()) => {
                    reports.push(TeeReport { path, bytes, reused_bytes, kept: true, reason: None });
                }
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
        reports
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
