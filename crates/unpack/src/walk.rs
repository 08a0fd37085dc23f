//! The walk: what the decoded stream says, and where it goes.

use unsnap_arena::SegmentView;
use unsnap_create::{Assembler, NewMember};
use unsnap_decode::{Decoded, DecodedSegment, Position};
use unsnap_layout::{Layout, LayoutError, Placement, Role, Summary, check_version};
use unsnap_tarstream::{Event, TarError, Walker};

use crate::{CancelToken, Error, Progress, watch::Watch};
use std::sync::atomic::Ordering;

/// What the walk has met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub files: u64,
    pub directories: u64,
}

/// Walks the decoded stream to its proven end and hands every payload on.
pub(crate) struct Walk<'a> {
    pub archive: &'a str,
    pub decoded: &'a mut Decoded,
    pub walker: Walker,
    pub layout: Layout,
    pub progress: &'a Progress,
    pub cancel: &'a CancelToken,
    /// Ends the run before a disk is full.
    pub watch: Option<&'a Watch>,
}

impl Walk<'_> {
    /// Hands payloads to `files`, or to nobody in a dry run.
    pub fn run(mut self, mut files: Option<&mut Files>) -> Result<(Summary, Met), Error> {
        let mut met = Met::default();
        let mut version = VersionFile::default();
        while let Some(DecodedSegment { segment, at }) = self.next_segment()? {
            if let (Some(watch), Some(files)) = (self.watch, &files) {
                watch.look(files.assembler.written())?;
            }
            let len = segment.len() as u64;
            let view = match &mut files {
                Some(files) => segment.prepend(files.assembler.take_carry()),
                None => segment.prepend(&[]),
            };
            self.segment(&view, at, &mut files, &mut met, &mut version)?;
            if let Some(files) = &mut files {
                files.assembler.end_segment(&view)?;
            }
            let shared = &self.progress.shared;
            shared.bytes_decoded.fetch_add(len, Ordering::Relaxed);
            shared.entries.store(met.files + met.directories, Ordering::Relaxed);
        }
        let end = self.decoded.summary().map_or_else(Position::default, |summary| Position {
            compressed_offset: summary.bytes_read,
            frame: summary.frames + summary.skippable_frames,
            raw_offset: summary.bytes_decoded,
        });
        self.walker.finish().map_err(|source| bad_tar(self.archive, source, end))?;
        let finished = self.layout.finish();
        let summary = finished.map_err(|source| bad_layout(self.archive, source, None))?;
        Ok((summary, met))
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
        files: &mut Option<&mut Files>,
        met: &mut Met,
        version: &mut VersionFile,
    ) -> Result<(), Error> {
        let archive = self.archive;
        let bad_layout = |source| bad_layout(archive, source, Some(at));
        let bytes = view.bytes();
        let mut position = 0;
        while position < bytes.len() {
            let step = self.walker.step(&bytes[position..]);
            let step = step.map_err(|source| bad_tar(archive, source, at))?;
            let range = position..position + step.consumed;
            position = range.end;
            match step.event {
                Event::Skipped | Event::End => {}
                Event::Member(member) => match self.layout.admit(&member).map_err(bad_layout)? {
                    Placement::Root => {}
                    Placement::Directory { path } => {
                        met.directories += 1;
                        if let Some(files) = files {
                            files.assembler.directory(0, path)?;
                        }
                    }
                    placement @ Placement::File { role, path } => {
                        met.files += 1;
                        version.open = role == Role::Version;
                        if let Some(files) = files {
                            let (destination, path) = match (role, placement.file_name()) {
                                (Role::Storage { .. }, Some(name)) => {
                                    files.spread(member.size, path, name)
                                }
                                _ => (0, path),
                            };
                            let new = NewMember { destination, path, size: member.size };
                            files.assembler.begin(new, view)?;
                        }
                    }
                },
                Event::Payload { last } => {
                    version.take(&bytes[range.clone()], last).map_err(bad_layout)?;
                    if let Some(files) = files {
                        files.assembler.payload(view, range, last)?;
                    }
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn bad_tar(archive: &str, source: TarError, at: Position) -> Error {
    Error::Tar { archive: archive.to_owned(), source: Box::new(source), at }
}

fn bad_layout(archive: &str, source: LayoutError, at: Option<Position>) -> Error {
    Error::Layout { archive: archive.to_owned(), source: Box::new(source), at }
}

/// Where files go.
pub(crate) struct Files {
    pub assembler: Assembler,
    /// Bytes given to each accounts directory so far; empty if storages stay in the output.
    pub accounts_bytes: Vec<u64>,
}

impl Files {
    /// The accounts directory that has been given least takes the next storage, flat; without
    /// accounts directories it goes where the archive says.
    fn spread<'m>(&mut self, size: u64, path: &'m str, name: &'m str) -> (usize, &'m str) {
        match self.accounts_bytes.iter_mut().enumerate().min_by_key(|(_, bytes)| **bytes) {
            Some((index, bytes)) => {
                *bytes += size;
                (index + 1, name)
            }
            None => (0, path),
        }
    }
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
