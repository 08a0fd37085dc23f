//! Listener of the walk: it turns entries of the archive into files.

use std::{ops::ControlFlow, time::Instant};

use unsnap_arena::{Segment, SegmentView};
use unsnap_commit::{Checkpoints, Manifest};
use unsnap_create::{Assembler, NewMember};
use unsnap_decode::Position;
use unsnap_fit::Watch;
use unsnap_layout::{Layout, LayoutError, Placement, Role, Summary, check_version};
use unsnap_pass::{
    BankCheck, Compromised, Listener, PassError, Passing, Progress, ProvenBank, Span, Tap, show,
};
use unsnap_tarstream::{Event, Member};

use crate::{
    UnpackError,
    places::Places,
    storages::{Placements, StorageCheck},
};

/// Counts of entries so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub entries: u64,
    pub files: u64,
    /// Files that are created. When a full snapshot is unpacked with an incremental one, some files
    /// are not.
    pub created: u64,
    pub created_bytes: u64,
    pub directories: u64,
}

impl Met {
    /// Counts a file that is created, or would be in a run that writes.
    pub fn creates(&mut self, bytes: u64) {
        self.created += 1;
        self.created_bytes += bytes;
    }
}

/// The listener of one archive's walk.
pub(crate) struct Entries<'a> {
    pub archive: &'a str,
    /// Rules for the entries.
    pub rules: Layout,
    pub places: Places,
    /// Counts of entries, including those before the beginning of a resumed walk.
    pub met: Met,
    pub content: Content,
    pub record: Record<'a>,
    /// Receives the files; `None` if nothing is written.
    pub files: Option<&'a mut Assembler>,
    pub progress: &'a Progress,
    /// Ends the run before a file system is full.
    pub watch: Option<&'a Watch>,
    pub tap: Option<&'a mut dyn Tap>,
    pub hooks: Hooks,
}

/// Checks of file contents during the walk.
pub(crate) struct Content {
    pub version: VersionFile,
    pub bank: BankCheck,
    pub storages: StorageCheck,
    /// Records the places of storages, for a second look.
    pub placements: Option<Placements>,
}

/// Records of files: checkpoints and the manifest.
#[derive(Default)]
pub(crate) struct Record<'a> {
    pub checkpoints: Option<&'a mut Checkpoints>,
    pub manifest: Option<&'a mut Manifest>,
}

/// Hooks for benchmarks and tests.
#[derive(Default)]
pub(crate) struct Hooks {
    /// Offset in the decoded stream at which the walk ends.
    pub stop_after: Option<u64>,
    /// Runs at the first entry.
    pub compromised: Option<Compromised>,
}

/// Result of a walk.
pub(crate) struct Walked {
    pub summary: Summary,
    pub met: Met,
    pub places: Places,
    /// The bank file, if it was checked against the archive's name.
    pub bank: Option<ProvenBank>,
}

impl Listener<UnpackError> for Entries<'_> {
    fn segment(&mut self, segment: Segment) -> Result<SegmentView, UnpackError> {
        let Some(files) = &mut self.files else { return Ok(segment.prepend(&[])) };
        if let Some(watch) = self.watch {
            watch.look(&files.written())?;
        }
        Ok(segment.prepend(files.take_carry()))
    }

    fn event(&mut self, event: Event<'_>, span: &Span<'_>) -> Result<ControlFlow<()>, UnpackError> {
        match event {
            Event::Skipped => show(&mut self.tap, Passing::Skipped, span)?,
            Event::End => show(&mut self.tap, Passing::End, span)?,
            Event::Member(member) => return self.member(member, span),
            Event::Payload { last } => self.payload(last, span)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    fn segment_end(&mut self, view: &SegmentView) -> Result<(), UnpackError> {
        self.content.storages.segment_end(self.archive)?;
        match &mut self.files {
            Some(files) => Ok(files.end_segment(view)?),
            None => Ok(()),
        }
    }
}

impl Entries<'_> {
    /// Checks that no required entry was missing.
    pub fn finish(self) -> Result<Walked, UnpackError> {
        let finished = self.rules.finish();
        let summary = finished.map_err(|source| PassError::layout(self.archive, source, None))?;
        let Self { met, places, content, .. } = self;
        Ok(Walked { summary, met, places, bank: content.bank.proven() })
    }

    fn member(
        &mut self,
        member: Member<'_>,
        span: &Span<'_>,
    ) -> Result<ControlFlow<()>, UnpackError> {
        let (archive, at) = (self.archive, span.at);
        if let Some(compromised) = self.hooks.compromised.take() {
            compromised.strike();
        }
        if self.hooks.stop_after.is_some_and(|stop| member.header_offset >= stop)
            && self.rules.finish().is_ok()
        {
            return Ok(ControlFlow::Break(()));
        }
        self.checkpoint(member.header_offset)?;
        self.met.entries += 1;
        self.progress.count_entry();
        let placement = self.rules.admit(&member);
        let placement = placement.map_err(|source| PassError::layout(archive, source, Some(at)))?;
        if let Some(checkpoints) = &mut self.record.checkpoints {
            checkpoints.member(&member);
        }
        let role = match placement {
            Placement::File { role, .. } => Some(role),
            _ => None,
        };
        match placement {
            Placement::Root => {}
            Placement::Directory { path } => {
                self.met.directories += 1;
                if let (Some(files), Places::Tree(_)) = (&mut self.files, &self.places) {
                    files.directory(0, path)?;
                }
            }
            Placement::File { role, path } => {
                self.met.files += 1;
                self.content.begin(archive, role, member.size, at)?;
                if let Some(manifest) = &mut self.record.manifest {
                    manifest.begin(path, member.size);
                }
                let Some(files) = &mut self.files else {
                    self.met.creates(member.size);
                    return self.shown(member, Some(role), span);
                };
                let place = self.places.place(&placement, member.size, files)?;
                if let Some((destination, path)) = place {
                    self.met.creates(member.size);
                    self.content.placed(role, destination, path);
                    let new = NewMember { destination, path, size: member.size };
                    let file = files.begin(new, span.view)?;
                    if let Some(checkpoints) = &mut self.record.checkpoints {
                        checkpoints.begun(file);
                    }
                }
            }
        }
        self.shown(member, role, span)
    }

    /// Shows an entry to the tap, and ends a file that is empty.
    fn shown(
        &mut self,
        member: Member<'_>,
        role: Option<Role>,
        span: &Span<'_>,
    ) -> Result<ControlFlow<()>, UnpackError> {
        show(&mut self.tap, Passing::Member { member, role }, span)?;
        if role.is_some() && member.size == 0 {
            self.record.file_ended()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn payload(&mut self, last: bool, span: &Span<'_>) -> Result<(), UnpackError> {
        self.content.take(self.archive, span, last)?;
        if let Some(manifest) = &mut self.record.manifest {
            manifest.content(span.bytes());
        }
        show(&mut self.tap, Passing::Payload { last }, span)?;
        if let Some(files) = &mut self.files {
            files.payload(span.view, span.range.clone(), last)?;
        }
        if last {
            self.record.file_ended()?;
        }
        Ok(())
    }

    /// Takes a checkpoint before an entry, if one is due.
    fn checkpoint(&mut self, header_offset: u64) -> Result<(), UnpackError> {
        if let (Some(checkpoints), Some(files)) = (&mut self.record.checkpoints, &mut self.files)
            && checkpoints.is_due(Instant::now())
        {
            files.settle()?;
            // A resumed run does not check again what is recorded.
            self.content.storages.settle(self.archive)?;
            checkpoints.take(header_offset, Instant::now());
        }
        Ok(())
    }

    /// Waits for the checks of everything that was walked. Returns the first error in stream order,
    /// which precedes any error of the walk.
    pub fn settle_checks(&mut self) -> Result<(), UnpackError> {
        self.content.storages.settle(self.archive)
    }

    /// Gives up the current file and waits for all others, so that a last checkpoint saves as much as
    /// possible. Does nothing if there is nothing to save.
    ///
    /// An error of a creator is reported only once, here or to the walk.
    pub fn settle(&mut self) -> Result<(), UnpackError> {
        match (&self.record.checkpoints, &mut self.files) {
            (Some(checkpoints), Some(files)) if checkpoints.has_complete_members() => {
                files.abandon();
                Ok(files.settle()?)
            }
            _ => Ok(()),
        }
    }
}

impl Content {
    fn begin(
        &mut self,
        archive: &str,
        role: Role,
        size: u64,
        at: Position,
    ) -> Result<(), UnpackError> {
        self.version.open = role == Role::Version;
        self.bank.begin(role, size);
        self.storages.begin(archive, role, size, at)
    }

    /// Records the place of a file.
    fn placed(&self, role: Role, destination: usize, path: &str) {
        if let (Some(placements), Role::Storage { slot, .. }) = (&self.placements, role) {
            placements.note(slot, destination, path);
        }
    }

    fn take(&mut self, archive: &str, span: &Span<'_>, last: bool) -> Result<(), UnpackError> {
        let version = self.version.take(span.bytes(), last);
        version.map_err(|source| PassError::layout(archive, source, Some(span.at)))?;
        self.bank.take(span.bytes(), last, span.at)?;
        self.storages.take(archive, span, last)
    }
}

impl Record<'_> {
    /// Ends a file.
    fn file_ended(&mut self) -> Result<(), UnpackError> {
        let Some(manifest) = &mut self.manifest else { return Ok(()) };
        if let (Some(digest), Some(checkpoints)) = (manifest.end()?, &mut self.checkpoints) {
            checkpoints.digest(digest);
        }
        Ok(())
    }
}

/// Content of the `version` file, which is checked when it is complete.
#[derive(Default)]
pub(crate) struct VersionFile {
    open: bool,
    content: Vec<u8>,
}

impl VersionFile {
    fn take(&mut self, payload: &[u8], last: bool) -> Result<(), LayoutError> {
        if !self.open {
            return Ok(());
        }
        // The rules limit its size to a few bytes.
        self.content.extend_from_slice(payload);
        if last {
            self.open = false;
            return check_version(&self.content);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unsnap_arena::{Arena, OpenSegment};
    use unsnap_failure::{Code, Failure};
    use unsnap_layout::{ArchiveName, Limits, SnapshotLayout};
    use unsnap_tarstream::Walker;
    use unsnap_testkit::tar::{TarBuilder, snapshot_tar};

    use super::*;
    use crate::places::Spread;

    /// Walks a tar in segments of so many bytes, without creating files.
    fn walk(tar: &[u8], name: Option<&str>, segment_bytes: usize) -> Result<Walked, UnpackError> {
        let name = name.map(|name| ArchiveName::parse(name).unwrap());
        let progress = Progress::default();
        let mut entries = Entries {
            archive: "the archive",
            rules: Layout::Snapshot(SnapshotLayout::new(Limits::default(), name)),
            places: Places::Tree(Spread::new(1)),
            met: Met::default(),
            content: Content {
                version: VersionFile::default(),
                bank: BankCheck::new("the archive".to_owned(), None),
                storages: StorageCheck::structure(2).unwrap(),
                placements: None,
            },
            record: Record::default(),
            files: None,
            progress: &progress,
            watch: None,
            tap: None,
            hooks: Hooks::default(),
        };
        let mut arena = Arena::builder().bytes(4 << 20).populate(false).build().unwrap();
        let pool = arena.pool(4 << 20).unwrap();
        let mut walker = Walker::new(unsnap_tarstream::Limits::default());
        let at = Position::default();
        for piece in tar.chunks(segment_bytes) {
            let (mut open, _) = OpenSegment::allocate(&pool, 0, piece.len()).unwrap();
            open.spare_mut()[..piece.len()].copy_from_slice(piece);
            open.advance(piece.len());
            let view = entries.segment(open.seal())?;
            let mut start = 0;
            while start < piece.len() {
                let step = walker.step(&piece[start..]).unwrap();
                let span = Span { view: &view, range: start..start + step.consumed, at };
                start = span.range.end;
                let flow = entries.event(step.event, &span)?;
                assert!(flow.is_continue());
            }
            entries.segment_end(&view)?;
        }
        entries.settle_checks()?;
        entries.finish()
    }

    #[test]
    fn entries_are_counted_however_the_stream_is_cut() {
        let tar = snapshot_tar(7, &[(6, 1, vec![0; 136]), (7, 2, vec![0; 272])]);
        for segment_bytes in [513, 4096, tar.len()] {
            let walked = walk(&tar, None, segment_bytes).unwrap();
            let Met { entries, files, directories, created, .. } = walked.met;
            assert_eq!((entries, files, directories, created), (7, 5, 2, 5), "{segment_bytes}");
            assert_eq!(walked.summary.slot(), Some(7));
            assert!(walked.places.storages().is_empty() && walked.bank.is_none());
        }
    }

    #[test]
    fn a_missing_or_foreign_entry_ends_the_walk() {
        let code = |tar: &[u8], name| walk(tar, name, 4096).map(drop).unwrap_err().code();
        let missing = TarBuilder::new().file("version", b"1.2.0").finish();
        assert_eq!(code(&missing, None), Code::NoSnapshot);
        let foreign = TarBuilder::new().file("README", b"text").finish();
        assert_eq!(code(&foreign, None), Code::NoSnapshot);
        let version = TarBuilder::new().file("version", b"9.9.9").finish();
        assert_eq!(code(&version, None), Code::NoSnapshot);
        let bad = snapshot_tar(7, &[(6, 1, vec![1; 100])]);
        assert_eq!(code(&bad, None), Code::BadStorage);
        let name = "snapshot-8-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";
        assert_eq!(code(&snapshot_tar(7, &[]), Some(name)), Code::WrongBank);
    }
}
