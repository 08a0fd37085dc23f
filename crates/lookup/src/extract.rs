//! Taking single entries out of an archive.

use std::{
    io::{self, Write},
    ops::ControlFlow,
    path::PathBuf,
    time::Instant,
};

use serde::Serialize;
use unsnap_commit::{Spot, Target};
use unsnap_decode::Position;
use unsnap_index::{Entry, ReadCounts, ReadOptions};
use unsnap_layout::{Layout, Placement};
use unsnap_pass::{Handles, LayoutKind, OpenArchive, Opened, Pass, PassError, Phase, millis};
use unsnap_tarstream::{Event, MemberKind};

use crate::{
    LookupError, Reader, Selection,
    entries::EntryReader,
    tree::{Stream, Take, Tree},
};

/// Where entries go.
pub enum ExtractTo<'a> {
    /// A directory, which appears complete and durable or not at all.
    Directory(PathBuf),
    /// A stream, which takes the content of one entry.
    Stream(&'a mut dyn Write),
}

/// What was taken out.
#[derive(Clone, Debug, Serialize)]
pub struct Extracted {
    /// The archive.
    pub archive: String,
    /// Entries that were taken.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Whether they were looked up in the archive's index.
    pub index: bool,
    /// What looking them up has cost; `None` if the archive was gone through.
    pub reads: Option<Reads>,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// What reading parts has cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reads {
    /// Reads that were made.
    pub reads: u64,
    /// Bytes they have read.
    pub bytes_read: u64,
    /// Reads that were saved by reading over gaps.
    pub reads_saved: u64,
    /// Bytes of these gaps.
    pub extra_bytes: u64,
    /// Frames that were decoded.
    pub frames: u64,
}

impl From<ReadCounts> for Reads {
    fn from(counts: ReadCounts) -> Self {
        let ReadCounts { reads, bytes_read, extra_bytes, reads_saved, frames, .. } = counts;
        Self { reads, bytes_read, reads_saved, extra_bytes, frames }
    }
}

impl Reader<'_> {
    /// Takes entries out of the archive. With an index only the frames that hold them are read and
    /// decoded; without, the archive up to its end, or up to the last of them if they are named one
    /// by one. `layout`: what the archive may contain. Fails if there are none.
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
        let (archives, archive) = (&self.archives[..1], self.archive_name());
        progress.reset(options.neighbour.pace.as_ref());
        options.neighbour.settle()?;
        let mut target = match &to {
            ExtractTo::Stream(_) => None,
            ExtractTo::Directory(path) => {
                let calls = options.io.engine.syscalls();
                Some(Target::open(&calls, &[Spot::empty(path)], 1, options.io.direct, false)?)
            }
        };
        let mut opened = Opened::open(archives, options)?;
        let needs = Target::needs(target.as_ref(), false);
        opened.confine(options, &needs);
        drop(needs);
        confined().map_err(PassError::thread)?;
        // Dropped on any error, `target` takes everything back.
        let indexes = opened.load_indexes(options, handles)?;
        let (mut tree, mut stream);
        let take: &mut dyn Take = match (to, &target) {
            (ExtractTo::Stream(output), _) => {
                stream = Stream::new(output);
                &mut stream
            }
            (ExtractTo::Directory(path), target) => {
                let made = target.as_ref().and_then(|target| Tree::new(target, path));
                tree = made.ok_or(LookupError::CANCELLED)?;
                &mut tree
            }
        };
        let rules = layout.rules(&archives[0], &options.limits);
        let mut taker =
            Taker { archive: &archive, rules, what, take, open: false, entries: 0, bytes: 0 };
        let mut extracted = Extracted {
            archive: archive.clone(),
            entries: 0,
            bytes: 0,
            index: false,
            reads: None,
            elapsed_ms: 0,
        };
        progress.enter(Phase::Unpacking);
        if let (Some(Some(index)), Some(OpenArchive::File(file))) =
            (indexes.first(), opened.archives.first())
        {
            let is_wanted =
                |entry: &&Entry| entry.kind != MemberKind::Directory && what.takes(&entry.path());
            let wanted: Vec<&Entry> = index.entries.entries().iter().filter(is_wanted).collect();
            let limits = options.limits.tar;
            let reader =
                EntryReader { archive: &archive, file, index, options: how, limits, handles };
            let see = |event: Event<'_>, bytes: &[u8]| taker.event(event, bytes, None);
            extracted.reads = Some(reader.entries(&wanted, see)?.into());
            extracted.index = true;
        } else {
            let pass = Pass::new(options, handles, opened.threads);
            let see = |_, event: Event<'_>, bytes: &[u8], at: Position| {
                // Nothing behind the last one needs to be read.
                if let Event::Member(_) = event
                    && what.entries_max() == Some(taker.entries)
                {
                    return Ok(ControlFlow::Break(()));
                }
                taker.event(event, bytes, Some(at))?;
                Ok::<_, LookupError>(ControlFlow::Continue(()))
            };
            pass.over(archives, opened.archives, see)?;
        }
        (extracted.entries, extracted.bytes) = (taker.entries, taker.bytes);
        if extracted.entries == 0 {
            let what = "no entry matches".to_owned();
            return Err(LookupError::NotFound { archive, what });
        }
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

/// Picks entries out of a walk.
struct Taker<'a> {
    archive: &'a str,
    /// Says where entries go: names are hostile.
    rules: Layout,
    what: &'a Selection,
    take: &'a mut dyn Take,
    /// The entry under way is wanted.
    open: bool,
    entries: u64,
    bytes: u64,
}

impl Taker<'_> {
    fn event(
        &mut self,
        event: Event<'_>,
        bytes: &[u8],
        at: Option<Position>,
    ) -> Result<(), LookupError> {
        match event {
            Event::Member(member) => {
                let wanted = member.kind != MemberKind::Directory && self.what.takes(member.path);
                self.open = false;
                if !wanted {
                    return Ok(());
                }
                let placement = self.rules.admit(&member);
                let placement =
                    placement.map_err(|source| PassError::layout(self.archive, source, at))?;
                if let Placement::File { path, .. } = placement {
                    self.take.begin(path)?;
                    self.entries += 1;
                    self.open = true;
                }
            }
            Event::Payload { .. } if self.open => {
                self.bytes += bytes.len() as u64;
                self.take.bytes(bytes)?;
            }
            Event::Payload { .. } | Event::Skipped | Event::End => {}
        }
        Ok(())
    }
}
