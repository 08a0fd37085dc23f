//! Checkpoints: from time to time, the files that are complete are made durable and recorded in the
//! journal.
//!
//! The walk thread takes a checkpoint between two members, when every earlier file is complete. The
//! write-back thread syncs the file systems and appends the checkpoint to the journal while the
//! walk continues.

use std::sync::Arc;

use crossbeam::channel::{Sender, TrySendError};
use unsnap_decode::FrameStarts;
use unsnap_pass::ReadMark;
use unsnap_source::Digest;
use unsnap_tarstream::{Member, MemberKind};

use crate::journal::{ArchiveFile, Checkpoint, ReadRange, Recorded};

/// Default number of file bytes between two checkpoints, which is also the most that a resumed run
/// repeats. A checkpoint costs a moment in which no new file is started, and a sync of the file
/// systems (BENCHMARKS.md).
pub const CHECKPOINT_BYTES: u64 = 16 << 30;

/// Most members between two checkpoints, however small. Bounds the memory for the next checkpoint.
const CHECKPOINT_MEMBERS: usize = 100_000;

/// Most bytes of names between two checkpoints, for the same reason.
const CHECKPOINT_NAME_BYTES: usize = 16 << 20;

/// The archive of a run and the offset at which the run begins to read it.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Identity of the archive file.
    pub archive: ArchiveFile,
    /// Offset in the archive at which this run began to read.
    pub from: u64,
    /// Ranges of the archive that earlier, interrupted runs had read.
    pub before: Vec<ReadRange>,
}

/// Collects the members for the next checkpoint. Used by the walk thread.
pub struct Checkpoints {
    /// File bytes between two checkpoints.
    every: u64,
    /// File bytes since the last checkpoint.
    since: u64,
    /// Members since the last checkpoint.
    members: Vec<Recorded>,
    /// Bytes of the members' names.
    name_bytes: usize,
    origin: Origin,
    frame_starts: Arc<FrameStarts>,
    read: ReadMark,
    /// Channel to the write-back thread, with room for one checkpoint. `None` once that thread has
    /// ended.
    outbox: Option<Sender<Checkpoint>>,
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
        let (since, name_bytes, members, outbox) = (0, 0, Vec::new(), Some(outbox));
        Self { every, since, members, name_bytes, origin, frame_starts, read, outbox }
    }

    /// Returns whether a checkpoint should be taken before the next member. That is never the case
    /// while the previous checkpoint still waits to be recorded.
    pub fn is_due(&self) -> bool {
        let enough = self.since >= self.every
            || self.members.len() >= CHECKPOINT_MEMBERS
            || self.name_bytes >= CHECKPOINT_NAME_BYTES;
        enough && self.outbox.as_ref().is_some_and(|outbox| !outbox.is_full())
    }

    /// Takes a checkpoint in front of the member whose header begins at `header_offset` of the
    /// decoded stream; `entries` members precede it. All files of these must be complete.
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
            // The write-back thread has ended. The run continues without checkpoints.
            Err(TrySendError::Disconnected(_)) => self.outbox = None,
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
        self.members.push(Recorded {
            // Layouts admit UTF-8 paths only.
            path: String::from_utf8_lossy(member.path).into_owned(),
            bytes: is_file.then_some(member.size),
            digest: None,
        });
    }

    /// Sets the digest of the member that was added last.
    pub fn digest(&mut self, digest: Digest) {
        if let Some(last) = self.members.last_mut() {
            last.digest = Some(digest.to_string());
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
        let origin = Origin { archive: ArchiveFile::new(&stat), from: 10, before };
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
                assert!(!checkpoints.is_due(), "{added} of {count}");
                checkpoints.member(&member(path, size));
            }
            assert!(checkpoints.is_due(), "{count}");
            checkpoints.take(0, count as u64);
            assert!(!checkpoints.is_due(), "{count}");
        }
    }

    #[test]
    fn one_lists_the_members_since_the_last() {
        let (mut checkpoints, inbox) = checkpoints(1);
        let digest = DigestKind::Xxh3.hasher().digest();
        checkpoints.member(&member(b"accounts/", 0));
        checkpoints.member(&member(b"accounts/1.0", 7));
        checkpoints.digest(digest);
        checkpoints.take(2048, 2);
        let taken = inbox.try_recv().unwrap();
        let recorded =
            |path: &str, bytes, digest| Recorded { path: path.to_owned(), bytes, digest };
        let expected = [
            recorded("accounts/", None, None),
            recorded("accounts/1.0", Some(7), Some(digest.to_string())),
        ];
        assert_eq!(taken.members, expected);
        assert_eq!((taken.header_offset, taken.entries), (2048, 2));
        // No frame start is known, and this run has read nothing yet.
        assert_eq!(taken.restart, crate::Restart::default());
        assert_eq!(taken.read.len(), 1);
        checkpoints.member(&member(b"accounts/2.0", 9));
        checkpoints.take(4096, 3);
        assert_eq!(inbox.try_recv().unwrap().members, [recorded("accounts/2.0", Some(9), None)]);
    }

    #[test]
    fn the_next_one_waits_until_the_last_is_recorded() {
        let (mut checkpoints, inbox) = checkpoints(1);
        checkpoints.member(&member(b"a", 1));
        checkpoints.take(512, 1);
        checkpoints.member(&member(b"b", 1));
        assert!(!checkpoints.is_due());
        // One taken all the same is put off, not lost.
        checkpoints.take(1024, 2);
        checkpoints.member(&member(b"c", 1));
        assert_eq!(inbox.try_recv().unwrap().entries, 1);
        assert!(checkpoints.is_due());
        checkpoints.take(1536, 3);
        let paths = inbox.try_recv().unwrap().members.into_iter().map(|member| member.path);
        assert_eq!(paths.collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn there_are_none_once_the_thread_that_records_them_has_ended() {
        let (mut checkpoints, inbox) = checkpoints(1);
        drop(inbox);
        checkpoints.member(&member(b"a", 1));
        checkpoints.take(512, 1);
        for file in iter::repeat_n(member(b"b", 1), 3) {
            checkpoints.member(&file);
        }
        assert!(!checkpoints.is_due());
        assert!(checkpoints.members.is_empty(), "memory is not used in vain");
    }
}
