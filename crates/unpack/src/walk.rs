//! The walk's listener: entries of the archive become files.

use std::{ops::ControlFlow, ops::Range};

use unsnap_arena::{Segment, SegmentView};
use unsnap_commit::{Checkpoints, Manifest};
use unsnap_create::{Assembler, NewMember};
use unsnap_decode::Position;
use unsnap_fit::Watch;
use unsnap_layout::{Layout, LayoutError, Placement, Role, Summary, check_version};
use unsnap_pass::{
    BankCheck, Compromised, Listener, PassError, Passing, Progress, ProvenBank, Tap, show,
};
use unsnap_tarstream::{Event, Member};

use crate::{
    UnpackError,
    places::Places,
    storages::{Placements, StorageCheck},
};

/// Counts of entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub entries: u64,
    pub files: u64,
    /// Files that are created, which of a full snapshot with an incremental one are not all.
    pub created: u64,
    pub created_bytes: u64,
    pub directories: u64,
}

impl Met {
    /// Counts a file that is created, or would be.
    pub fn creates(&mut self, bytes: u64) {
        self.created += 1;
        self.created_bytes += bytes;
    }
}

/// The listener of one archive's walk.
pub(crate) struct Entries<'a> {
    pub archive: &'a str,
    /// The rules that entries must follow.
    pub rules: Layout,
    pub places: Places,
    /// Entries so far, with those in front of the place where the walk begins.
    pub met: Met,
    pub content: Content,
    pub record: Record<'a>,
    /// Takes the files; `None` where nothing is created.
    pub files: Option<&'a mut Assembler>,
    pub progress: &'a Progress,
    /// Ends the run before a disk is full.
    pub watch: Option<&'a Watch>,
    pub tap: Option<&'a mut dyn Tap>,
    pub hooks: Hooks,
}

/// Checks of the content of files as it passes by.
pub(crate) struct Content {
    pub version: VersionFile,
    pub bank: BankCheck,
    pub storages: StorageCheck,
    /// Takes where storages go, for a second look.
    pub placements: Option<Placements>,
}

/// What is written down about files.
#[derive(Default)]
pub(crate) struct Record<'a> {
    pub checkpoints: Option<Checkpoints>,
    pub manifest: Option<&'a mut Manifest>,
}

/// For benchmarks and tests.
#[derive(Default)]
pub(crate) struct Hooks {
    /// Where the walk ends, in decoded bytes.
    pub stop_after: Option<u64>,
    /// Strikes at the first entry.
    pub compromised: Option<Compromised>,
}

/// The end of a walk.
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

    fn event(
        &mut self,
        event: Event<'_>,
        view: &SegmentView,
        range: Range<usize>,
        at: Position,
    ) -> Result<ControlFlow<()>, UnpackError> {
        match event {
            Event::Skipped => show(&mut self.tap, Passing::Skipped, view, range)?,
            Event::End => show(&mut self.tap, Passing::End, view, range)?,
            Event::Member(member) => return self.member(member, view, range, at),
            Event::Payload { last } => self.payload(last, view, range, at)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    fn segment_end(&mut self, view: &SegmentView) -> Result<(), UnpackError> {
        match &mut self.files {
            Some(files) => Ok(files.end_segment(view)?),
            None => Ok(()),
        }
    }
}

impl Entries<'_> {
    /// Checks that every entry was there that an archive must have.
    pub fn finish(self) -> Result<Walked, UnpackError> {
        let finished = self.rules.finish();
        let summary = finished.map_err(|source| PassError::layout(self.archive, source, None))?;
        let Self { met, places, content, .. } = self;
        Ok(Walked { summary, met, places, bank: content.bank.proven() })
    }

    fn member(
        &mut self,
        member: Member<'_>,
        view: &SegmentView,
        range: Range<usize>,
        at: Position,
    ) -> Result<ControlFlow<()>, UnpackError> {
        let archive = self.archive;
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
                    return self.shown(member, Some(role), view, range);
                };
                let place = self.places.place(&placement, member.size, files)?;
                if let Some((destination, path)) = place {
                    self.met.creates(member.size);
                    self.content.placed(role, destination, path);
                    files.begin(NewMember { destination, path, size: member.size }, view)?;
                }
            }
        }
        self.shown(member, role, view, range)
    }

    /// Shows the tap an entry, and ends a file that is empty.
    fn shown(
        &mut self,
        member: Member<'_>,
        role: Option<Role>,
        view: &SegmentView,
        range: Range<usize>,
    ) -> Result<ControlFlow<()>, UnpackError> {
        show(&mut self.tap, Passing::Member { member, role }, view, range)?;
        if role.is_some() && member.size == 0 {
            self.record.file_ended()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn payload(
        &mut self,
        last: bool,
        view: &SegmentView,
        range: Range<usize>,
        at: Position,
    ) -> Result<(), UnpackError> {
        self.content.take(self.archive, view, range.clone(), last, at)?;
        if let Some(manifest) = &mut self.record.manifest {
            manifest.content(&view.bytes()[range.clone()]);
        }
        show(&mut self.tap, Passing::Payload { last }, view, range.clone())?;
        if let Some(files) = &mut self.files {
            files.payload(view, range, last)?;
        }
        if last {
            self.record.file_ended()?;
        }
        Ok(())
    }

    /// Takes a checkpoint in front of an entry, if one is due.
    fn checkpoint(&mut self, header_offset: u64) -> Result<(), UnpackError> {
        if let (Some(checkpoints), Some(files)) = (&mut self.record.checkpoints, &mut self.files)
            && checkpoints.is_due()
        {
            files.settle()?;
            checkpoints.take(header_offset, self.met.entries);
        }
        Ok(())
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

    /// Takes note where a file goes.
    fn placed(&self, role: Role, destination: usize, path: &str) {
        if let (Some(placements), Role::Storage { slot, .. }) = (&self.placements, role) {
            placements.note(slot, destination, path);
        }
    }

    fn take(
        &mut self,
        archive: &str,
        view: &SegmentView,
        range: Range<usize>,
        last: bool,
        at: Position,
    ) -> Result<(), UnpackError> {
        let bytes = &view.bytes()[range.clone()];
        let version = self.version.take(bytes, last);
        version.map_err(|source| PassError::layout(archive, source, Some(at)))?;
        self.bank.take(bytes, last, at)?;
        self.storages.take(archive, view, range, last, at)
    }
}

impl Record<'_> {
    /// The content of a file has passed by.
    fn file_ended(&mut self) -> Result<(), UnpackError> {
        let Some(manifest) = &mut self.manifest else { return Ok(()) };
        if let (Some(digest), Some(checkpoints)) = (manifest.end()?, &mut self.checkpoints) {
            checkpoints.digest(digest);
        }
        Ok(())
    }
}

/// The content of the `version` file, which is checked as it passes by.
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
