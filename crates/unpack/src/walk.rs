//! The walk: what the decoded stream says, and where it goes.

use std::{ops::ControlFlow, sync::atomic::Ordering};

use unsnap_arena::SegmentView;
use unsnap_create::{Assembler, NewMember};
use unsnap_decode::{Decoded, DecodedSegment, Position};
use unsnap_layout::{Layout, LayoutError, Placement, Role, Summary, check_version};
use unsnap_tarstream::{Event, TarError, Walker};

use crate::{
    CancelToken, Compromised, Error, Progress,
    bank::{BankCheck, ProvenBank},
    checkpoints::Checkpoints,
    content::{ContentCheck, Placements},
    manifest::Manifest,
    places::Places,
    tap::{Passing, Tap, show},
    watch::Watch,
};

/// What the walk has met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub entries: u64,
    pub files: u64,
    /// Of these, files that are created: of a full snapshot with an incremental one not all are.
    pub created: u64,
    pub created_bytes: u64,
    pub directories: u64,
}

/// Walks the decoded stream to its proven end and hands every payload on.
pub(crate) struct Walk<'a> {
    pub archive: &'a str,
    pub decoded: &'a mut Decoded,
    pub walker: Walker,
    pub layout: Layout,
    pub places: Places,
    /// Holds the bank file to the archive's name.
    pub bank: BankCheck,
    /// Checks its storages.
    pub content: ContentCheck,
    /// Notes where storages go, if somebody wants to know.
    pub placements: Option<Placements>,
    /// What was met before the place where the walker begins.
    pub met: Met,
    /// Decoded bytes in front of the place where the walker begins.
    pub skip: u64,
    pub checkpoints: Option<Checkpoints>,
    pub manifest: Option<&'a mut Manifest>,
    pub progress: &'a Progress,
    pub cancel: &'a CancelToken,
    /// For benchmarks: where to end, in decoded bytes.
    pub stop_after: Option<u64>,
    /// For tests: what an attacker does with the first member.
    pub compromised: Option<Compromised>,
    /// Ends the run before a disk is full.
    pub watch: Option<&'a Watch>,
    /// Listens.
    pub tap: Option<&'a mut dyn Tap>,
}

impl Met {
    /// Counts a file that is created, or would be.
    pub fn creates(&mut self, bytes: u64) {
        self.created += 1;
        self.created_bytes += bytes;
    }
}

/// What a walk has come to.
pub(crate) struct Walked {
    pub summary: Summary,
    pub met: Met,
    pub places: Places,
    /// What the bank file says, if it was held to the archive's name.
    pub bank: Option<ProvenBank>,
}

impl Walk<'_> {
    /// Hands payloads to `files`, or to nobody in a dry run.
    pub fn run(mut self, mut files: Option<&mut Assembler>) -> Result<Walked, Error> {
        let mut version = VersionFile::default();
        while let Some(DecodedSegment { segment, at }) = self.next_segment()? {
            if let (Some(watch), Some(files)) = (self.watch, &files) {
                watch.look(&files.written())?;
            }
            let len = segment.len() as u64;
            let view = match &mut files {
                Some(files) => segment.prepend(files.take_carry()),
                None => segment.prepend(&[]),
            };
            let flow = self.segment(&view, at, &mut files, &mut version)?;
            if let Some(files) = &mut files {
                files.end_segment(&view)?;
            }
            let shared = &self.progress.shared;
            shared.bytes_decoded.fetch_add(len, Ordering::Relaxed);
            if flow.is_break() {
                return self.walked();
            }
        }
        let end = self.decoded.summary().map_or_else(Position::default, |summary| Position {
            compressed_offset: summary.bytes_read,
            frame: summary.frames + summary.skippable_frames,
            raw_offset: summary.bytes_decoded,
        });
        self.walker.finish().map_err(|source| bad_tar(self.archive, source, end))?;
        self.walked()
    }

    fn walked(self) -> Result<Walked, Error> {
        let finished = self.layout.finish();
        let summary = finished.map_err(|source| bad_layout(self.archive, source, None))?;
        let Self { met, places, bank, .. } = self;
        Ok(Walked { summary, met, places, bank: bank.proven() })
    }

    fn next_segment(&mut self) -> Result<Option<DecodedSegment>, Error> {
        if self.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let archive = self.archive;
        self.decoded.next().map_err(|error| Error::from_decode(archive, error))
    }

    fn segment(
        &mut self,
        view: &SegmentView,
        at: Position,
        files: &mut Option<&mut Assembler>,
        version: &mut VersionFile,
    ) -> Result<ControlFlow<()>, Error> {
        let archive = self.archive;
        let bad_layout = |source| bad_layout(archive, source, Some(at));
        let bytes = view.bytes();
        let mut position = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
        self.skip -= position as u64;
        while position < bytes.len() {
            let step = self.walker.step(&bytes[position..]);
            let step = step.map_err(|source| bad_tar(archive, source, at))?;
            let range = position..position + step.consumed;
            position = range.end;
            match step.event {
                Event::Skipped => show(&mut self.tap, Passing::Skipped, view, range)?,
                Event::End => show(&mut self.tap, Passing::End, view, range)?,
                Event::Member(member) => {
                    if let Some(compromised) = self.compromised.take() {
                        compromised.strike();
                    }
                    if self.stop_after.is_some_and(|stop| member.header_offset >= stop)
                        && self.layout.finish().is_ok()
                    {
                        return Ok(ControlFlow::Break(()));
                    }
                    if let (Some(checkpoints), Some(files)) =
                        (&mut self.checkpoints, files.as_deref_mut())
                        && checkpoints.is_due()
                    {
                        files.settle()?;
                        checkpoints.take(member.header_offset, self.met.entries);
                    }
                    self.met.entries += 1;
                    self.progress.shared.entries.fetch_add(1, Ordering::Relaxed);
                    let placement = self.layout.admit(&member).map_err(bad_layout)?;
                    if let Some(checkpoints) = &mut self.checkpoints {
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
                            if let (Some(files), Places::Tree(_)) =
                                (files.as_deref_mut(), &self.places)
                            {
                                files.directory(0, path)?;
                            }
                        }
                        Placement::File { role, path } => {
                            self.met.files += 1;
                            version.open = role == Role::Version;
                            self.bank.begin(role, member.size);
                            self.content.begin(archive, role, member.size, at)?;
                            if let Some(manifest) = &mut self.manifest {
                                manifest.begin(path, member.size);
                            }
                            if let Some(files) = files {
                                let place = self.places.place(&placement, member.size, files)?;
                                if let Some((destination, path)) = place {
                                    self.met.creates(member.size);
                                    if let (Some(placements), Role::Storage { slot, .. }) =
                                        (&self.placements, role)
                                    {
                                        placements.note(slot, destination, path);
                                    }
                                    let new = NewMember { destination, path, size: member.size };
                                    files.begin(new, view)?;
                                }
                            } else {
                                self.met.creates(member.size);
                            }
                        }
                    }
                    show(&mut self.tap, Passing::Member { member, role }, view, range)?;
                    if role.is_some() && member.size == 0 {
                        self.file_ended()?;
                    }
                }
                Event::Payload { last } => {
                    version.take(&bytes[range.clone()], last).map_err(bad_layout)?;
                    self.bank.take(&bytes[range.clone()], last, at)?;
                    self.content.take(archive, view, range.clone(), last, at)?;
                    if let Some(manifest) = &mut self.manifest {
                        manifest.content(&bytes[range.clone()]);
                    }
                    show(&mut self.tap, Passing::Payload { last }, view, range.clone())?;
                    if let Some(files) = files {
                        files.payload(view, range, last)?;
                    }
                    if last {
                        self.file_ended()?;
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The content of a file has passed by.
    fn file_ended(&mut self) -> Result<(), Error> {
        let Some(manifest) = &mut self.manifest else { return Ok(()) };
        if let (Some(digest), Some(checkpoints)) = (manifest.end()?, &mut self.checkpoints) {
            checkpoints.digest(digest);
        }
        Ok(())
    }
}

pub(crate) fn bad_tar(archive: &str, source: TarError, at: Position) -> Error {
    Error::Tar { archive: archive.to_owned(), source: Box::new(source), at }
}

pub(crate) fn bad_layout(archive: &str, source: LayoutError, at: Option<Position>) -> Error {
    Error::Layout { archive: archive.to_owned(), source: Box::new(source), at }
}

/// The content of the `version` file, which is checked as it passes by.
#[derive(Default)]
struct VersionFile {
    open: bool,
    content: Vec<u8>,
}

impl VersionFile {
    fn take(&mut self, payload: &[u8], last: bool) -> Result<(), LayoutError> {
        if !self.open {
            return Ok(());
        }
        // The layout has limited its size to a few bytes.
        self.content.extend_from_slice(payload);
        if last {
            self.open = false;
            return check_version(&self.content);
        }
        Ok(())
    }
}
