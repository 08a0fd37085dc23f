//! Checkpoints: now and then, what is complete is made durable and put into the journal.
//!
//! The walk thread takes a checkpoint between two members, when every file before is complete; the
//! write-back thread syncs and writes it down while the walk goes on.

use std::sync::Arc;

use crossbeam::channel::{Sender, TrySendError};
use unsnap_decode::FrameStarts;
use unsnap_pass::ReadMark;
use unsnap_source::Digest;
use unsnap_tarstream::{Member, MemberKind};

use crate::journal::{ArchiveFile, Checkpoint, ReadRange, Recorded};

/// Bytes of files between two checkpoints, by default: what an interrupted run may have to do again.
/// One costs a moment in which nothing new is begun, and a sync of the file systems (BENCHMARKS.md).
pub const CHECKPOINT_BYTES: u64 = 16 << 30;

/// Members between two checkpoints at most, however small. Bounds what is kept in memory for the
/// next one.
const CHECKPOINT_MEMBERS: usize = 100_000;

/// Bytes of names between two checkpoints at most, for the same reason.
const CHECKPOINT_NAME_BYTES: usize = 16 << 20;

/// What a run is unpacking, and from where on.
#[derive(Clone, Debug)]
pub struct Origin {
    pub archive: ArchiveFile,
    /// Where in the archive this run has begun to read.
    pub from: u64,
    /// What the runs before it had read.
    pub before: Vec<ReadRange>,
}

/// Gathers what the next checkpoint will speak of. Lives on the walk thread.
pub struct Checkpoints {
    /// Bytes between two.
    every: u64,
    /// Bytes since the last.
    since: u64,
    members: Vec<Recorded>,
    /// Bytes of their names.
    name_bytes: usize,
    origin: Origin,
    frame_starts: Arc<FrameStarts>,
    read: ReadMark,
    /// To the thread that writes them down. Has room for one.
    outbox: Option<Sender<Checkpoint>>,
}

impl Checkpoints {
    pub fn new(
        every: u64,
        origin: Origin,
        frame_starts: Arc<FrameStarts>,
        read: ReadMark,
        outbox: Sender<Checkpoint>,
    ) -> Self {
        let (since, name_bytes, members, outbox) = (0, 0, Vec::new(), Some(outbox));
        Self { every, since, members, name_bytes, origin, frame_starts, read, outbox }
    }

    /// Whether one should be taken before the next member.
    pub fn is_due(&self) -> bool {
        let enough = self.since >= self.every
            || self.members.len() >= CHECKPOINT_MEMBERS
            || self.name_bytes >= CHECKPOINT_NAME_BYTES;
        // While the one before is still being written down, the next waits.
        enough && self.outbox.as_ref().is_some_and(|outbox| !outbox.is_full())
    }

    /// Takes one in front of a member. Every file before must be complete.
    pub fn take(&mut self, header_offset: u64, entries: u64) {
        let start = self.frame_starts.last_before(header_offset);
        let mut read = self.origin.before.clone();
        read.extend(self.read.get().map(|(to, digest)| ReadRange {
            from: self.origin.from,
            to,
            digest: digest.to_string(),
        }));
        let checkpoint = Checkpoint {
            archive: self.origin.archive.clone(),
            members: std::mem::take(&mut self.members),
            header_offset,
            entries,
            restart: start.unwrap_or_default().into(),
            read,
        };
        let Some(outbox) = &self.outbox else { return };
        match outbox.try_send(checkpoint) {
            Ok(()) => (self.since, self.name_bytes) = (0, 0),
            Err(TrySendError::Full(checkpoint)) => self.members = checkpoint.members,
            // Nobody writes them down any more; the run itself is not harmed by that.
            Err(TrySendError::Disconnected(_)) => self.outbox = None,
        }
    }

    /// Notes a member that has been admitted, and that will be complete at the next checkpoint.
    pub fn member(&mut self, member: &Member<'_>) {
        if self.outbox.is_none() {
            return;
        }
        let is_file = member.kind != MemberKind::Directory;
        self.since += member.size;
        self.name_bytes += member.path.len();
        self.members.push(Recorded {
            // Layouts admit nothing else.
            path: String::from_utf8_lossy(member.path).into_owned(),
            bytes: is_file.then_some(member.size),
            digest: None,
        });
    }

    /// Notes the digest of the member that was noted last.
    pub fn digest(&mut self, digest: Digest) {
        if let Some(last) = self.members.last_mut() {
            last.digest = Some(digest.to_string());
        }
    }
}
