//! Checkpoints: from time to time, the files that are complete are made durable and recorded in the
//! journal.
//!
//! The walk thread takes a checkpoint between two members, when every earlier file is complete. The
//! write-back thread syncs the file systems and appends the checkpoint to the journal while the
//! walk continues.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam::channel::Sender;
use unsnap_create::FileId;
use unsnap_decode::FrameStarts;
use unsnap_pass::ReadMark;
use unsnap_source::Digest;
use unsnap_tarstream::{Member, MemberKind};

use crate::journal::{ArchiveId, Checkpoint, ReadRange, Recorded};

/// Default number of file bytes between two checkpoints, which is also the most that a resumed run
/// repeats after a kill. A checkpoint costs a moment in which no new file is started, and a sync of
/// the file systems (BENCHMARKS.md).
pub const CHECKPOINT_BYTES: u64 = 16 << 30;

/// The same for an archive from the network, which is slower than a disk: 1 GB of it or so would be
/// received again. A guess.
pub const REMOTE_CHECKPOINT_BYTES: u64 = 4 << 30;

/// Most members between two checkpoints, however small. Bounds the memory for the next checkpoint,
/// with names to some 30 MB. A guess.
const CHECKPOINT_MEMBERS: usize = 100_000;

/// Most bytes of names between two checkpoints, for the same reason.
const CHECKPOINT_NAME_BYTES: usize = 16 << 20;

/// File bytes before the first checkpoint of a run that is to be resumable, so that an early
/// interruption loses little. A guess: syncing them takes about a second.
const EARLY_BYTES: u64 = 256 << 20;

/// Time between two checkpoints of such a run. A guess at the loss that an operator accepts.
const INTERVAL: Duration = Duration::from_mins(1);

/// The archive of a run and the offset at which the run begins to read it.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Identity of the archive.
    pub archive: ArchiveId,
    /// Offset in the archive at which this run began to read.
    pub from: u64,
    /// Number of members before the one at which this run began to unpack.
    pub entries: u64,
    /// Ranges of the archive that earlier, interrupted runs had read.
    pub before: Vec<ReadRange>,
}

/// Collects the members for the next checkpoint. Used by the walk thread.
pub struct Checkpoints {
    /// File bytes between two checkpoints.
    every: u64,
    /// File bytes since the last checkpoint.
    since: u64,
    /// Number of members up to the last checkpoint.
    entries: u64,
    /// Members since the last checkpoint.
    members: Vec<Noted>,
    /// Bytes of the members' names.
    name_bytes: usize,
    origin: Origin,
    frame_starts: Arc<FrameStarts>,
    read: ReadMark,
    /// Time of the last checkpoint, in a run that takes them by time as well.
    taken_at: Option<Instant>,
    /// Whether no checkpoint has been taken yet.
    is_first: bool,
    /// Channel to the write-back thread, with room for one checkpoint. `None` once that thread has
    /// ended.
    outbox: Option<Sender<Checkpoint>>,
}

/// A member for the next checkpoint.
struct Noted {
    recorded: Recorded,
    /// Offset of its header in the decoded stream.
    header_offset: u64,
    /// Number of its file; `None` for a directory, and before the file is begun.
    file: Option<FileId>,
}

impl Checkpoints {
    /// Prepares checkpoints after every `every` bytes of files. `frame_starts` and `read` are
    /// filled by the decoder of the archive. Checkpoints are sent to `outbox`, a channel with room
    /// for one.
    pub fn new(
        every: u64,
        origin: Origin,
        frame_starts: Arc<FrameStarts>,
        read: ReadMark,
        outbox: Sender<Checkpoint>,
    ) -> Self {
        Self {
            every,
            since: 0,
            entries: origin.entries,
            members: Vec::new(),
            name_bytes: 0,
            origin,
            frame_starts,
            read,
            taken_at: None,
            is_first: true,
            outbox: Some(outbox),
        }
    }

    /// Takes the first checkpoint early, and later ones by time as well as by bytes, beginning `now`.
    #[must_use]
    pub fn by_time(mut self, now: Instant) -> Self {
        self.taken_at = Some(now);
        self
    }

    /// Returns whether a checkpoint should be taken before the next member. That is never the case
    /// while the previous checkpoint still waits to be recorded.
    pub fn is_due(&self, now: Instant) -> bool {
        let by_time = self.taken_at.is_some_and(|taken_at| {
            let early = self.is_first && self.since >= EARLY_BYTES;
            early || self.since > 0 && now.saturating_duration_since(taken_at) >= INTERVAL
        });
        let enough = by_time
            || self.since >= self.every
            || self.members.len() >= CHECKPOINT_MEMBERS
            || self.name_bytes >= CHECKPOINT_NAME_BYTES;
        enough && self.outbox.as_ref().is_some_and(|outbox| !outbox.is_full())
    }

    /// Takes a checkpoint in front of the member whose header begins at `header_offset` of the
    /// decoded stream. All files of the members before it must be complete. Does nothing while the
    /// previous checkpoint still waits to be recorded.
    pub fn take(&mut self, header_offset: u64, now: Instant) {
        let Some(outbox) = self.outbox.clone().filter(|outbox| !outbox.is_full()) else { return };
        let checkpoint = self.checkpoint(self.members.len(), header_offset);
        if outbox.try_send(checkpoint).is_err() {
            // The write-back thread has ended. The run continues without checkpoints.
            self.outbox = None;
        }
        (self.since, self.name_bytes, self.is_first) = (0, 0, false);
        self.taken_at = self.taken_at.map(|_| now);
    }

    /// Returns whether [`take_last`](Self::take_last) could record anything.
    pub fn has_complete_members(&self) -> bool {
        self.members.len() > 1 && self.outbox.is_some()
    }

    /// Takes the last checkpoint of a run that failed or was interrupted. All files of this archive
    /// must be complete but those from `first_lost` on and that of the last member, which the
    /// checkpoint leaves out.
    /// Waits until an earlier checkpoint has been recorded.
    pub fn take_last(&mut self, first_lost: Option<FileId>) {
        let is_lost = |noted: &Noted| {
            noted.file.is_some_and(|file| first_lost.is_some_and(|lost| file >= lost))
        };
        let last = self.members.len().saturating_sub(1);
        let count = self.members.iter().position(is_lost).unwrap_or(last).min(last);
        let Some(Noted { header_offset, .. }) = self.members.get(count).filter(|_| count > 0)
        else {
            return;
        };
        let checkpoint = self.checkpoint(count, *header_offset);
        if let Some(outbox) = self.outbox.take() {
            // Without the write-back thread the run cannot be resumed, and nothing else is lost.
            let _ = outbox.send(checkpoint);
        }
    }

    /// Returns a checkpoint of the first `count` members, which ends in front of `header_offset`.
    fn checkpoint(&mut self, count: usize, header_offset: u64) -> Checkpoint {
        let members: Vec<Recorded> =
            self.members.drain(..count).map(|noted| noted.recorded).collect();
        self.entries += members.len() as u64;
        let start = self.frame_starts.last_before(header_offset);
        let mut read = self.origin.before.clone();
        read.extend(self.read.get().map(|(to, digest)| ReadRange {
            from: self.origin.from,
            to,
            digest: digest.to_string(),
        }));
        Checkpoint {
            archive: self.origin.archive.clone(),
            members,
            header_offset,
            entries: self.entries,
            restart: start.unwrap_or_default().into(),
            read,
        }
    }

    /// Adds an admitted member to the next checkpoint.
    pub fn member(&mut self, member: &Member<'_>) {
        if self.outbox.is_none() {
            return;
        }
        let is_file = member.kind != MemberKind::Directory;
        self.since += member.size;
        self.name_bytes += member.path.len();
        let recorded = Recorded {
            // Layouts admit UTF-8 paths only.
            path: String::from_utf8_lossy(member.path).into_owned(),
            bytes: is_file.then_some(member.size),
            digest: None,
        };
        self.members.push(Noted { recorded, header_offset: member.header_offset, file: None });
    }

    /// Sets the number of the file of the member that was added last.
    pub fn begun(&mut self, file: FileId) {
        if let Some(last) = self.members.last_mut() {
            last.file = Some(file);
        }
    }

    /// Sets the digest of the member that was added last.
    pub fn digest(&mut self, digest: Digest) {
        if let Some(last) = self.members.last_mut() {
            last.recorded.digest = Some(digest.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, iter};

    use crossbeam::channel::{Receiver, bounded};
    use unsnap_source::DigestKind;

    use super::*;

    fn checkpoints(every: u64) -> (Checkpoints, Receiver<Checkpoint>) {
        let stat = rustix::fs::fstat(File::open("/proc/self/exe").unwrap()).unwrap();
        let before = vec![ReadRange { from: 0, to: 10, digest: "xxh3:00".to_owned() }];
        let origin = Origin {
            archive: ArchiveId::File(crate::ArchiveFile::new(&stat)),
            from: 10,
            entries: 5,
            before,
        };
        let (outbox, inbox) = bounded(1);
        let (starts, read) = (Arc::default(), ReadMark::default());
        (Checkpoints::new(every, origin, starts, read, outbox), inbox)
    }

    fn member(path: &[u8], size: u64) -> Member<'_> {
        let kind = if path.ends_with(b"/") { MemberKind::Directory } else { MemberKind::Regular };
        let (header_offset, payload_offset) = (0, 512);
        let (link, mode, mtime) = (&b""[..], None, None);
        Member { kind, path, link, size, header_offset, payload_offset, mode, mtime }
    }

    #[test]
    fn one_is_due_after_enough_bytes_members_or_names() {
        let long = [b'n'; 4096];
        let cases: [(&[u8], u64, usize); 3] = [
            (b"file", 25, 4),
            (b"file", 0, CHECKPOINT_MEMBERS),
            (&long, 0, CHECKPOINT_NAME_BYTES / long.len()),
        ];
        for (path, size, count) in cases {
            let (mut checkpoints, _inbox) = checkpoints(100);
            for added in 0..count {
                assert!(!checkpoints.is_due(Instant::now()), "{added} of {count}");
                checkpoints.member(&member(path, size));
            }
            assert!(checkpoints.is_due(Instant::now()), "{count}");
            checkpoints.take(0, Instant::now());
            assert!(!checkpoints.is_due(Instant::now()), "{count}");
        }
    }

    #[test]
    fn one_lists_the_members_since_the_last() {
        let (mut checkpoints, inbox) = checkpoints(1);
        let digest = DigestKind::Xxh3.hasher().digest();
        checkpoints.member(&member(b"accounts/", 0));
        checkpoints.member(&member(b"accounts/1.0", 7));
        checkpoints.digest(digest);
        checkpoints.take(2048, Instant::now());
        let taken = inbox.try_recv().unwrap();
        let recorded =
            |path: &str, bytes, digest| Recorded { path: path.to_owned(), bytes, digest };
        let expected = [
            recorded("accounts/", None, None),
            recorded("accounts/1.0", Some(7), Some(digest.to_string())),
        ];
        assert_eq!(taken.members, expected);
        assert_eq!((taken.header_offset, taken.entries), (2048, 5 + 2));
        // No frame start is known, and this run has read nothing yet.
        assert_eq!(taken.restart, crate::Restart::default());
        assert_eq!(taken.read.len(), 1);
        checkpoints.member(&member(b"accounts/2.0", 9));
        checkpoints.take(4096, Instant::now());
        assert_eq!(inbox.try_recv().unwrap().members, [recorded("accounts/2.0", Some(9), None)]);
    }

    #[test]
    fn the_next_one_waits_until_the_last_is_recorded() {
        let (mut checkpoints, inbox) = checkpoints(1);
        checkpoints.member(&member(b"a", 1));
        checkpoints.take(512, Instant::now());
        checkpoints.member(&member(b"b", 1));
        assert!(!checkpoints.is_due(Instant::now()));
        // One taken all the same is put off, not lost.
        checkpoints.take(1024, Instant::now());
        checkpoints.member(&member(b"c", 1));
        assert_eq!(inbox.try_recv().unwrap().entries, 5 + 1);
        assert!(checkpoints.is_due(Instant::now()));
        checkpoints.take(1536, Instant::now());
        let taken = inbox.try_recv().unwrap();
        assert_eq!(taken.entries, 5 + 3);
        let paths = taken.members.into_iter().map(|member| member.path);
        assert_eq!(paths.collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn there_are_none_once_the_thread_that_records_them_has_ended() {
        let (mut checkpoints, inbox) = checkpoints(1);
        drop(inbox);
        checkpoints.member(&member(b"a", 1));
        checkpoints.take(512, Instant::now());
        for file in iter::repeat_n(member(b"b", 1), 3) {
            checkpoints.member(&file);
        }
        assert!(!checkpoints.is_due(Instant::now()));
        assert!(checkpoints.members.is_empty(), "memory is not used in vain");
    }

    const GIB: u64 = 1 << 30;

    fn note(checkpoints: &mut Checkpoints, path: &str, size: u64, header_offset: u64) {
        checkpoints.member(&Member { header_offset, ..member(path.as_bytes(), size) });
    }

    #[test]
    fn by_bytes_alone_the_first_is_due_like_any_other() {
        let now = Instant::now();
        let (mut checkpoints, _inbox) = checkpoints(CHECKPOINT_BYTES);
        note(&mut checkpoints, "a", 15 * GIB, 0);
        assert!(!checkpoints.is_due(now + 10 * INTERVAL));
        note(&mut checkpoints, "b", GIB, 16 * GIB);
        assert!(checkpoints.is_due(now));
    }

    #[test]
    fn by_time_the_first_is_early_and_later_ones_come_every_minute() {
        let now = Instant::now();
        let (checkpoints, inbox) = checkpoints(CHECKPOINT_BYTES);
        let mut checkpoints = checkpoints.by_time(now);
        assert!(!checkpoints.is_due(now + 2 * INTERVAL), "nothing was written");
        note(&mut checkpoints, "a", EARLY_BYTES - 1, 0);
        assert!(!checkpoints.is_due(now));
        assert!(checkpoints.is_due(now + INTERVAL));
        note(&mut checkpoints, "b", 1, GIB);
        assert!(checkpoints.is_due(now));
        checkpoints.take(2 * GIB, now);
        assert_eq!(inbox.try_recv().unwrap().members.len(), 2);
        note(&mut checkpoints, "c", EARLY_BYTES, 2 * GIB);
        assert!(!checkpoints.is_due(now + Duration::from_millis(59_999)));
        assert!(checkpoints.is_due(now + INTERVAL));
    }

    /// Returns the members and the position of the last checkpoint, when the files from this one on
    /// are lost. There are four members, of which the second is a directory.
    fn last(first_lost: Option<usize>, members: usize) -> Option<(Vec<String>, u64, u64)> {
        let (mut checkpoints, inbox) = checkpoints(CHECKPOINT_BYTES);
        let files = [3, 4, 7, 8].map(|number| FileId { stream: 0, number });
        for (index, path) in ["a", "b/", "c", "d"].into_iter().take(members).enumerate() {
            note(&mut checkpoints, path, 10, 512 * index as u64);
            if !path.ends_with('/') {
                checkpoints.begun(files[index]);
            }
        }
        checkpoints.take_last(first_lost.map(|index| files[index]));
        let taken = inbox.try_recv().ok()?;
        let paths = taken.members.into_iter().map(|member| member.path).collect();
        Some((paths, taken.header_offset, taken.entries))
    }

    #[test]
    fn the_last_one_leaves_out_the_member_under_way_and_lost_files() {
        // The last member's file may be incomplete, and there may be no other.
        assert_eq!(last(None, 0), None);
        assert_eq!(last(None, 1), None);
        let some = |paths: &[&str], header_offset, entries| {
            let paths = paths.iter().map(|&path| path.to_owned()).collect();
            Some((paths, header_offset, entries))
        };
        assert_eq!(last(None, 4), some(&["a", "b/", "c"], 1536, 5 + 3));
        assert_eq!(last(Some(3), 4), some(&["a", "b/", "c"], 1536, 5 + 3));
        assert_eq!(last(Some(2), 4), some(&["a", "b/"], 1024, 5 + 2));
        assert_eq!(last(Some(0), 4), None);
    }
}
