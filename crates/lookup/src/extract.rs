//! Extraction of single entries.

use std::{
    fs::File,
    io::{self, Write},
    ops::ControlFlow,
    path::PathBuf,
    time::Instant,
};

use serde::Serialize;
use unsnap_commit::{Spot, Target};
use unsnap_decode::Position;
use unsnap_index::{Entry, Index, ReadCounts, ReadOptions};
use unsnap_layout::{Layout, Placement};
use unsnap_pass::{Handles, LayoutKind, OpenArchive, Opened, Pass, PassError, Phase, millis};
use unsnap_tarstream::{Event, MemberKind};

use crate::{
    LookupError, Reader, Selection,
    entries::EntryReader,
    output::{DirectoryOutput, EntryOutput, StreamOutput, several_selected},
};

/// Destination of extracted entries.
pub enum ExtractTo<'a> {
    /// A directory. It is published complete and durable, or not at all.
    Directory(PathBuf),
    /// A stream for the content of a single entry. Nothing is written if several entries are
    /// selected.
    Stream(&'a mut dyn Write),
}

/// Report of an extraction.
#[derive(Clone, Debug, Serialize)]
pub struct Extracted {
    /// The archive.
    pub archive: String,
    /// Number of extracted entries.
    pub entries: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// Whether the archive's index was used.
    pub index: bool,
    /// Reads by the index; `None` if the whole archive was read.
    pub reads: Option<Reads>,
    /// Elapsed time in milliseconds.
    pub elapsed_ms: u64,
}

/// Reads made for parts of an archive.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reads {
    /// Number of reads.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Number of reads saved by reading across gaps.
    pub reads_saved: u64,
    /// Bytes of these gaps.
    pub extra_bytes: u64,
    /// Number of decoded frames.
    pub frames: u64,
}

impl From<ReadCounts> for Reads {
    fn from(counts: ReadCounts) -> Self {
        let ReadCounts { reads, bytes_read, extra_bytes, reads_saved, frames, .. } = counts;
        Self { reads, bytes_read, reads_saved, extra_bytes, frames }
    }
}

impl Reader<'_> {
    /// Extracts entries. With an index, only the frames that hold them are read and decoded.
    /// Without one, the archive is read to its end, or to the last entry if all are named
    /// literally. `layout` holds the rules for the archive's entries. Fails if no entry is
    /// selected.
    pub fn extract(
        &self,
        what: &Selection,
        layout: LayoutKind,
        to: ExtractTo<'_>,
        how: ReadOptions,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Extracted, LookupError> {
        let started = Instant::now();
        let Self { options, handles, .. } = *self;
        let Handles { progress, cancel } = handles;
        let (archives, archive) = (self.first(), self.archive_name());
        progress.reset(options.neighbour.pace.as_ref());
        options.neighbour.settle()?;
        let mut target = match &to {
            ExtractTo::Stream(_) => None,
            ExtractTo::Directory(path) => {
                let calls = options.io.engine.syscalls();
                let (spots, direct) = ([Spot::empty(path)], options.io.direct);
                Some(Target::open(&calls, cancel.unfinished(), &spots, 1, direct, false)?)
            }
        };
        let mut opened = Opened::open(archives, options)?;
        // Opened here, since a confined thread can open nothing.
        let spool = match &to {
            ExtractTo::Stream(_) if what.entries_max() != Some(1) => Target::temporary_file(None),
            _ => None,
        };
        let needs = Target::needs(target.as_ref(), false);
        opened.confine(options, &needs);
        drop(needs);
        confined().map_err(PassError::thread)?;
        // On any error, dropping `target` removes all staged files.
        let indexes = opened.load_indexes(options, handles)?;
        let wanted = indexes.first().and_then(Option::as_ref).map(|index| wanted(index, what));
        let entries =
            wanted.as_ref().map_or(what.entries_max(), |wanted| Some(wanted.len() as u64));
        let (mut directory, mut stream);
        let output: &mut dyn EntryOutput = match (to, &target) {
            (ExtractTo::Stream(output), _) => {
                let spool = spool_for(entries, spool)?;
                stream = StreamOutput::new(output, spool);
                &mut stream
            }
            (ExtractTo::Directory(path), target) => {
                let made = target.as_ref().and_then(|target| DirectoryOutput::new(target, path));
                directory = made.ok_or(LookupError::CANCELLED)?;
                &mut directory
            }
        };
        let rules = layout.rules(&archives[0], &options.limits);
        let mut extraction = Extraction {
            archive: &archive,
            rules,
            what,
            output,
            open: false,
            entries: 0,
            bytes: 0,
        };
        let mut extracted = Extracted {
            archive: archive.clone(),
            entries: 0,
            bytes: 0,
            index: false,
            reads: None,
            elapsed_ms: 0,
        };
        progress.enter(Phase::Unpacking);
        if let (Some(Some(index)), Some(wanted), Some(OpenArchive::File(file))) =
            (indexes.first(), &wanted, opened.archives.first())
        {
            let limits = options.limits.tar;
            let reader =
                EntryReader { archive: &archive, file, index, options: how, limits, handles };
            let see = |event: Event<'_>, bytes: &[u8]| extraction.event(event, bytes, None);
            extracted.reads = Some(reader.entries(wanted, see)?.into());
            extracted.index = true;
        } else {
            let pass = Pass::new(options, handles, opened.threads);
            let see = |_, event: Event<'_>, bytes: &[u8], at: Position| {
                // The rest of the archive need not be read.
                if let Event::Member(_) = event
                    && what.entries_max() == Some(extraction.entries)
                {
                    return Ok(ControlFlow::Break(()));
                }
                extraction.event(event, bytes, Some(at))?;
                Ok::<_, LookupError>(ControlFlow::Continue(()))
            };
            pass.over(archives, opened.archives, see)?;
        }
        (extracted.entries, extracted.bytes) = (extraction.entries, extraction.bytes);
        if extracted.entries == 0 {
            let what = format!("no entry matches {}", what.words());
            return Err(LookupError::NotFound { archive, what });
        }
        extraction.output.finish()?;
        if let Some(target) = &mut target {
            progress.enter(Phase::Syncing);
            target.staging.sync()?;
            if cancel.is_cancelled() {
                return Err(LookupError::CANCELLED);
            }
            progress.enter(Phase::Publishing);
            target.staging.publish()?;
        }
        progress.enter(Phase::Done);
        extracted.elapsed_ms = millis(started.elapsed());
        Ok(extracted)
    }
}

/// Returns the spool of a stream; `None` if there is at most one entry. Nothing may be written before
/// that is certain. `entries`: number of selected entries, if it is known.
fn spool_for(entries: Option<u64>, spool: Option<File>) -> Result<Option<File>, LookupError> {
    match (entries, spool) {
        (Some(0 | 1), _) => Ok(None),
        (Some(_), _) => Err(several_selected()),
        (None, Some(spool)) => Ok(Some(spool)),
        (None, None) => {
            let error = rustix::io::Errno::OPNOTSUPP.into();
            Err(LookupError::TemporaryFile { error })
        }
    }
}

/// Returns the entries of an index that are selected, in the archive's order.
fn wanted<'i>(index: &'i Index, what: &Selection) -> Vec<&'i Entry> {
    let is_wanted =
        |entry: &&Entry| entry.kind != MemberKind::Directory && what.includes(&entry.path());
    index.entries.entries().iter().filter(is_wanted).collect()
}

/// Extraction of the selected entries from a walk.
struct Extraction<'a> {
    archive: &'a str,
    /// Checks the paths, which are hostile.
    rules: Layout,
    what: &'a Selection,
    output: &'a mut dyn EntryOutput,
    /// Whether the current entry is selected.
    open: bool,
    entries: u64,
    bytes: u64,
}

impl Extraction<'_> {
    fn event(
        &mut self,
        event: Event<'_>,
        bytes: &[u8],
        at: Option<Position>,
    ) -> Result<(), LookupError> {
        match event {
            Event::Member(member) => {
                let wanted =
                    member.kind != MemberKind::Directory && self.what.includes(member.path);
                self.open = false;
                if !wanted {
                    return Ok(());
                }
                let placement = self.rules.admit(&member);
                let placement =
                    placement.map_err(|source| PassError::layout(self.archive, source, at))?;
                if let Placement::File { path, .. } = placement {
                    self.output.begin(path)?;
                    self.entries += 1;
                    self.open = true;
                }
            }
            Event::Payload { .. } if self.open => {
                self.bytes += bytes.len() as u64;
                self.output.bytes(bytes)?;
            }
            Event::Payload { .. } | Event::Skipped | Event::End => {}
        }
        Ok(())
    }
}
