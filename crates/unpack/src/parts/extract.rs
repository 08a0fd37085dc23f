//! Taking single entries out of an archive.

use std::{
    io::{self, Write},
    ops::ControlFlow,
    sync::Arc,
    time::Instant,
};

use serde::Serialize;
use unsnap_decode::Position;
use unsnap_index::{Entry, ReadCounts, ReadOptions};
use unsnap_layout::{Layout, Placement};
use unsnap_tarstream::{Event, MemberKind};

use crate::{
    CancelToken, Config, Error, Phase, Progress,
    opening::{OpenArchive, Opened},
    parts::{
        Selection, load,
        lookup::Lookup,
        tree::{Stream, Take, Tree},
    },
    pipeline::{Pass, no_thread},
    report::millis,
    stages::layout,
    walk::bad_layout,
};

/// Where entries go.
pub(crate) enum To<'a> {
    /// The directory of the configuration.
    Directory,
    /// A stream, which takes one.
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

/// Takes entries out. Confines the calling thread; `confined` is called when that is done.
pub(crate) fn extract(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
    what: &Selection,
    how: ReadOptions,
    to: To<'_>,
    confined: impl FnOnce() -> io::Result<()>,
) -> Result<Extracted, Error> {
    let started = Instant::now();
    progress.reset(config.pace.as_ref());
    let opened = Opened::open(config, matches!(to, To::Directory))?;
    opened.confine(config);
    confined().map_err(|error| no_thread(&error))?;
    // Dropped on any error, `target` takes everything back.
    let Opened { mut target, archives, side_cars, threads, .. } = opened;
    let indexes = load(side_cars, &archives, config, progress, cancel)?;
    let (mut tree, mut stream);
    let take: &mut dyn Take = match (to, &target) {
        (To::Stream(output), _) => {
            stream = Stream::new(output);
            &mut stream
        }
        (To::Directory, target) => {
            let made = target.as_ref().and_then(|target| Tree::new(target, config.output.clone()));
            tree = made.ok_or(Error::Cancelled)?;
            &mut tree
        }
    };
    let archive = config.archive.display_name();
    let layout = layout(config, &config.archive);
    let mut taker =
        Taker { archive: &archive, layout, what, take, open: false, entries: 0, bytes: 0 };
    let mut extracted = Extracted {
        archive: archive.clone(),
        entries: 0,
        bytes: 0,
        index: false,
        reads: None,
        elapsed_ms: 0,
    };
    progress.enter(Phase::Unpacking);
    if let (Some(Some(index)), Some(OpenArchive::File(file))) = (indexes.first(), archives.first())
    {
        let is_wanted =
            |entry: &&Entry| entry.kind != MemberKind::Directory && what.takes(&entry.path());
        let wanted: Vec<&Entry> = index.entries.entries().iter().filter(is_wanted).collect();
        let (options, limits) = (how, config.limits.tar);
        let lookup = Lookup { archive: &archive, file, index, options, limits, progress, cancel };
        let see = |event: Event<'_>, bytes: &[u8]| taker.event(event, bytes, None);
        extracted.reads = Some(lookup.entries(&wanted, see)?.into());
        extracted.index = true;
    } else {
        let pass = Pass { config, progress, cancel, threads, frame_starts: Arc::default() };
        pass.over(archives, |event, bytes, at| {
            // Once all are there, what follows need not be looked at.
            if let Event::Member(_) = event
                && what.entries_max() == Some(taker.entries)
            {
                return Ok(ControlFlow::Break(()));
            }
            taker.event(event, bytes, Some(at))?;
            Ok(ControlFlow::Continue(()))
        })?;
    }
    (extracted.entries, extracted.bytes) = (taker.entries, taker.bytes);
    if extracted.entries == 0 {
        return Err(Error::NotFound { archive, what: "no entry is what was asked for".to_owned() });
    }
    if let Some(target) = &mut target {
        progress.enter(Phase::Syncing);
        target.staging.sync()?;
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        progress.enter(Phase::Publishing);
        target.staging.publish()?;
    }
    progress.enter(Phase::Done);
    extracted.elapsed_ms = millis(started.elapsed());
    Ok(extracted)
}

/// Picks entries out of a walk.
struct Taker<'a> {
    archive: &'a str,
    /// Says where entries go: names are hostile.
    layout: Layout,
    what: &'a Selection,
    take: &'a mut dyn Take,
    /// The entry under way is wanted.
    open: bool,
    entries: u64,
    bytes: u64,
}

impl Taker<'_> {
    fn event(&mut self, event: Event<'_>, bytes: &[u8], at: Option<Position>) -> Result<(), Error> {
        match event {
            Event::Member(member) => {
                let wanted = member.kind != MemberKind::Directory && self.what.takes(member.path);
                self.open = false;
                if !wanted {
                    return Ok(());
                }
                let placement = self.layout.admit(&member);
                let placement = placement.map_err(|source| bad_layout(self.archive, source, at))?;
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
