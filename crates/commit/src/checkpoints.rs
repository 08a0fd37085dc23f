//! Checkpoints: now and then, what is complete is made durable and put into the journal.
//!
//! The walk thread takes a checkpoint between two members, when every file before is complete; the
//! write-back thread syncs and writes it down while the walk goes on.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

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

/// Bytes of files before the first checkpoint of a run that is to be resumable: little is lost if it is
/// interrupted early. A guess: a sync of so much takes about a second.
const EARLY_BYTES: u64 = 256 << 20;

/// Time between two checkpoints of such a run. A guess: what an operator is ready to lose.
const INTERVAL: Duration = Duration::from_mins(1);

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
    /// Where the member begins that was noted last.
    last_header_offset: u64,
    /// When the last checkpoint was taken, of a run that takes them by time as well.
    taken_at: Option<Instant>,
    /// Whether none has been taken yet.
    is_first: bool,
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
        Self {
            every,
            since,
            members,
            name_bytes,
            origin,
            frame_starts,
            read,
            last_header_offset: 0,
            taken_at: None,
            is_first: true,
            outbox,
        }
    }

    /// Takes the first checkpoint early, and later ones by time as well as by bytes, beginning `now`.
    #[must_use]
    pub fn by_time(mut self, now: Instant) -> Self {
        self.taken_at = Some(now);
        self
    }

    /// Whether one should be taken before the next member.
    pub fn is_due(&self, now: Instant) -> bool {
        let by_time = self.taken_at.is_some_and(|taken_at| {
            let early = self.is_first && self.since >= EARLY_BYTES;
            early || self.since > 0 && now.saturating_duration_since(taken_at) >= INTERVAL
        });
        let enough = by_time
            || self.since >= self.every
            || self.members.len() >= CHECKPOINT_MEMBERS
            || self.name_bytes >= CHECKPOINT_NAME_BYTES;
        // While the one before is still being written down, the next waits.
        enough && self.outbox.as_ref().is_some_and(|outbox| !outbox.is_full())
    }

    /// Takes one in front of a member. Every file before must be complete.
    pub fn take(&mut self, header_offset: u64, entries: u64, now: Instant) {
        let checkpoint = self.checkpoint(header_offset, entries);
        let Some(outbox) = &self.outbox else { return };
        match outbox.try_send(checkpoint) {
            Ok(()) => {
                (self.since, self.name_bytes, self.is_first) = (0, 0, false);
                self.taken_at = self.taken_at.map(|_| now);
            }
            Err(TrySendError::Full(checkpoint)) => self.members = checkpoint.members,
            // Nobody writes them down any more; the run itself is not harmed by that.
            Err(TrySendError::Disconnected(_)) => self.outbox = None,
        }
    }

    /// Returns whether [`take_last`](Self::take_last) would record anything.
    pub fn has_complete_members(&self) -> bool {
        self.members.len() > 1 && self.outbox.is_some()
    }

    /// Takes the last one of an interrupted run, in front of the member that was noted last, whose
    /// file may be incomplete. Every file before it must be complete. `entries`: members before it.
    /// Waits until an earlier one has been written down.
    pub fn take_last(&mut self, entries: u64) {
        if !self.has_complete_members() {
            return;
        }
        self.members.pop();
        let checkpoint = self.checkpoint(self.last_header_offset, entries);
        if let Some(outbox) = self.outbox.take() {
            // If nobody writes them down any more, the run cannot be resumed, and that is all.
            let _ = outbox.send(checkpoint);
        }
    }

    fn checkpoint(&mut self, header_offset: u64, entries: u64) -> Checkpoint {
        let start = self.frame_starts.last_before(header_offset);
        let mut read = self.origin.before.clone();
        read.extend(self.read.get().map(|(to, digest)| ReadRange {
            from: self.origin.from,
            to,
            digest: digest.to_string(),
        }));
        Checkpoint {
            archive: self.origin.archive.clone(),
            members: std::mem::take(&mut self.members),
            header_offset,
            entries,
            restart: start.unwrap_or_default().into(),
            read,
        }
    }

    /// Notes a member that has been admitted, and that will be complete at the next checkpoint.
    pub fn member(&mut self, member: &Member<'_>) {
        if self.outbox.is_none() {
            return;
        }
        let is_file = member.kind != MemberKind::Directory;
        self.since += member.size;
        self.last_header_offset = member.header_offset;
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

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Receiver, bounded};

    use super::*;

    const GIB: u64 = 1 << 30;

    /// Checkpoints every 16 GiB of an archive in no particular place.
    fn checkpoints() -> (Checkpoints, Receiver<Checkpoint>) {
        let (outbox, inbox) = bounded(1);
        let archive = ArchiveFile::new(&rustix::fs::stat("/").unwrap());
        let origin = Origin { archive, from: 0, before: Vec::new() };
        let (frame_starts, read) = (Arc::default(), ReadMark::default());
        (Checkpoints::new(CHECKPOINT_BYTES, origin, frame_starts, read, outbox), inbox)
    }

    fn note(checkpoints: &mut Checkpoints, path: &str, size: u64, header_offset: u64) {
        checkpoints.member(&Member {
            kind: MemberKind::Regular,
            path: path.as_bytes(),
            link: b"",
            size,
            header_offset,
            payload_offset: header_offset + 512,
            mode: None,
            mtime: None,
        });
    }

    #[test]
    fn by_bytes_alone_the_first_is_due_like_any_other() {
        let now = Instant::now();
        let (mut checkpoints, _inbox) = checkpoints();
        note(&mut checkpoints, "a", 15 * GIB, 0);
        assert!(!checkpoints.is_due(now + 10 * INTERVAL));
        note(&mut checkpoints, "b", GIB, 16 * GIB);
        assert!(checkpoints.is_due(now));
    }

    #[test]
    fn by_time_the_first_is_early_and_later_ones_come_every_minute() {
        let now = Instant::now();
        let (checkpoints, inbox) = checkpoints();
        let mut checkpoints = checkpoints.by_time(now);
        assert!(!checkpoints.is_due(now + 2 * INTERVAL), "nothing was written");
        note(&mut checkpoints, "a", EARLY_BYTES - 1, 0);
        assert!(!checkpoints.is_due(now));
        assert!(checkpoints.is_due(now + INTERVAL));
        note(&mut checkpoints, "b", 1, GIB);
        assert!(checkpoints.is_due(now));
        checkpoints.take(2 * GIB, 2, now);
        assert_eq!(inbox.try_recv().unwrap().members.len(), 2);
        note(&mut checkpoints, "c", EARLY_BYTES, 2 * GIB);
        assert!(!checkpoints.is_due(now + INTERVAL - Duration::from_millis(1)));
        assert!(checkpoints.is_due(now + INTERVAL));
    }

    #[test]
    fn the_last_one_leaves_out_the_member_under_way() {
        let (mut checkpoints, inbox) = checkpoints();
        checkpoints.take_last(0);
        note(&mut checkpoints, "a", 10, 0);
        // Its file may be incomplete, and there is no other.
        checkpoints.take_last(0);
        assert!(inbox.try_recv().is_err());
        note(&mut checkpoints, "b", 10, 1024);
        checkpoints.take_last(1);
        let last = inbox.try_recv().unwrap();
        let names: Vec<&str> = last.members.iter().map(|member| member.path.as_str()).collect();
        assert_eq!((names, last.header_offset, last.entries), (vec!["a"], 1024, 1));
    }
}
