//! Looking at an archive without unpacking it.

use std::{
    io,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;
use unsnap_decode::{
    FRAME_HEADER_BYTES_MAX, Format, FrameContent, FrameHeader, FrameStart, Position, ReadAt,
    WalkEnd, frame_start, walk_frames,
};
use unsnap_index::{Entry, FrameTable, Index, ReadOptions, TableSource};
use unsnap_layout::{ArchiveName, BankFacts, BankHash, BankReader, Layout, Placement, Role};
use unsnap_source::ArchiveFile;
use unsnap_tarstream::Event;
use unsnap_verify::StorageScanner;

use crate::{
    CancelToken, Config, Error, Phase, Progress,
    opening::{OpenArchive, Opened},
    parts::{
        Anywhere, OwnerTotals, Producer, SeekTableFound, StorageFacts, load,
        lookup::Lookup,
        owners::Owners,
        producer::{Evidence, FIREDANCER_TAG},
        seek_table,
        storages::StorageTally,
    },
    pipeline::{Pass, open_to_read},
    report::millis,
    stages::{archive_name, layout},
    walk::bad_layout,
};

/// How long headers are walked, if the archive has neither index nor seek table: each block of it costs a
/// read. Enough for some frames, or for all of a small archive.
const WALK_TIME: Duration = Duration::from_millis(100);

/// How far, for the kernel reads ahead of such a walk, and so all of it: three frames of 32 MiB.
const WALK_BYTES: u64 = 24 << 20;

/// Bytes of a read of that walk.
const WALK_READ_BYTES: usize = 4096;

/// What is to be looked at beyond headers and the bank file.
#[derive(Clone, Copy, Debug, Default)]
pub struct WhatToInspect {
    /// All storages: a pass over all of the archive, if it has no index.
    pub storages: bool,
    /// The programs that own the most data, so many of them: a pass over all of the archive.
    pub owners: Option<usize>,
    /// All frames: a read for each block of the archive, if it has neither index nor seek table.
    pub frames: bool,
}

/// What an archive is.
#[derive(Debug, Serialize)]
pub struct Inspection {
    /// The archive.
    pub archive: String,
    /// Its size in bytes.
    pub archive_bytes: u64,
    /// What its name says: `full`, `incremental`, or `None` if that is not a snapshot's.
    pub kind: Option<&'static str>,
    /// Slot in its name.
    pub slot: Option<u64>,
    /// Slot of the full snapshot it builds on.
    pub base_slot: Option<u64>,
    /// Hash in its name.
    pub hash: Option<String>,
    /// How it is compressed.
    pub compression: &'static str,
    /// Window of its first frame, in bytes, if it is zstd.
    pub window_bytes: Option<u64>,
    /// Whether that frame ends in a checksum.
    pub checksum: Option<bool>,
    /// Its frames.
    pub frames: FrameFacts,
    /// Who has made it.
    pub producer: Producer,
    /// What its bank file says.
    pub bank: Option<BankInspection>,
    /// What its storages are like.
    pub storages: Option<StorageFacts>,
    /// The programs that own the most data.
    pub owners: Option<Vec<OwnerTotals>>,
    /// Whether an index was used.
    pub index: bool,
    /// Decoded bytes that were gone through.
    pub bytes_decoded: u64,
    /// What was not looked at, and how to have it looked at.
    pub not_looked_at: Vec<String>,
    /// How long it took.
    pub elapsed_ms: u64,
    /// Why the archive is not what its name says.
    #[serde(skip)]
    pub mismatch: Option<Error>,
}

/// The frames of an archive.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FrameFacts {
    /// Where this is from: `side-car`, `seek table`, or `headers`.
    pub source: &'static str,
    /// Whether all frames were seen.
    pub complete: bool,
    /// Frames that were seen, skippable ones not counted.
    pub frames: u64,
    /// Skippable frames that were seen.
    pub skippable_frames: u64,
    /// How many frames there are in all, extrapolated from those seen.
    pub estimated_frames: Option<u64>,
    /// Bytes of the archive that frames take: the smallest, the largest, and all together.
    pub bytes: Sizes,
    /// Bytes they decode to; without those that do not say.
    pub raw_bytes: Sizes,
    /// Frames that do not say how much they decode to.
    pub undeclared: u64,
}

/// Sizes of several things.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sizes {
    /// The smallest.
    pub smallest: u64,
    /// The largest.
    pub largest: u64,
    /// All together.
    pub sum: u64,
}

impl Sizes {
    fn add(&mut self, bytes: u64, is_first: bool) {
        self.smallest = if is_first { bytes } else { self.smallest.min(bytes) };
        self.largest = self.largest.max(bytes);
        self.sum = self.sum.saturating_add(bytes);
    }
}

impl FrameFacts {
    fn add(&mut self, bytes: u64, content: FrameContent) {
        if content == FrameContent::Skippable {
            self.skippable_frames += 1;
            return;
        }
        self.bytes.add(bytes, self.frames == 0);
        match content {
            FrameContent::Declared(raw) => {
                self.raw_bytes.add(raw, self.frames == self.undeclared);
            }
            FrameContent::Undeclared | FrameContent::Skippable => self.undeclared += 1,
        }
        self.frames += 1;
    }

    fn of_table(table: &FrameTable, source: TableSource) -> Self {
        let mut facts = Self { source: source.name(), complete: true, ..Self::default() };
        for frame in table.frames() {
            let declared = FrameContent::Declared(frame.raw_bytes);
            facts
                .add(frame.bytes, if frame.skippable { FrameContent::Skippable } else { declared });
        }
        facts
    }

    /// By headers, as far as there is time.
    fn of_headers(
        archive: &dyn ReadAt,
        archive_bytes: u64,
        walk_bytes: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Self {
        let mut facts = Self { source: TableSource::Headers.name(), ..Self::default() };
        let mut passed = 0;
        let end = walk_frames(archive, archive_bytes, WALK_READ_BYTES, go_on, &mut |frame| {
            facts.add(frame.bytes, frame.content);
            passed = frame.offset + frame.bytes;
            let is_last = passed == archive_bytes;
            if passed < walk_bytes || is_last {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        facts.complete = end == WalkEnd::Complete;
        if !facts.complete && passed > 0 {
            let estimate =
                u128::from(facts.frames) * u128::from(archive_bytes) / u128::from(passed);
            facts.estimated_frames = u64::try_from(estimate).ok();
        }
        facts
    }
}

/// What a bank file says.
#[derive(Clone, Debug, Serialize)]
pub struct BankInspection {
    /// Bytes of the file.
    pub bytes: u64,
    /// Slot of the bank.
    pub slot: u64,
    /// Its epoch.
    pub epoch: u64,
    /// Slot of its parent.
    pub parent_slot: u64,
    /// Its hash, in base58.
    pub hash: String,
    /// The hash of its parent, in base58.
    pub parent_hash: String,
    /// Lamports of all accounts.
    pub capitalization: u64,
    /// Blocks since genesis.
    pub block_height: u64,
    /// Transactions since genesis.
    pub transaction_count: u64,
    /// Id of its last block, in base58.
    pub block_id: Option<String>,
    /// Whether it is the bank file of the archive's name: `matches`, what does not, or `no name` if
    /// there is nothing to hold it to.
    pub hash_check: String,
}

/// Looks at an archive. Confines the calling thread; `confined` is called when that is done.
pub(crate) fn inspect(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
    what: WhatToInspect,
    confined: impl FnOnce() -> io::Result<()>,
) -> Result<Inspection, Error> {
    let started = Instant::now();
    let opened = open_to_read(config, progress, confined)?;
    let Opened { archives, side_cars, threads, .. } = opened;
    let index = load(side_cars, &archives, config, progress, cancel)?.into_iter().flatten().next();
    let archive = config.archive.display_name();
    let Some(OpenArchive::File(file)) = archives.first() else {
        let reason = "only a file can be inspected, and this is a stream".to_owned();
        return Err(Error::Request { reason, hint: None });
    };
    let file = file.again().map_err(Error::Source)?;
    let head = file.read_head(HEAD_BYTES).map_err(Error::Source)?;
    let format = Format::detect(&head);
    let beginning = Beginning::of(&head, format);
    let (frames, table) = frames(&file, config, index.as_ref(), what, cancel);
    let name = archive_name(&config.archive);
    let mut seen = Seen::new(&archive, config, what);
    progress.enter(Phase::Unpacking);
    let whole = what.owners.is_some() || (what.storages && index.is_none());
    if let (Some(index), false) = (&index, whole) {
        seen.index(index, &file, config, progress, cancel)?;
    } else {
        // Frames decoded ahead would be in vain if the pass ends with the bank file: one thread stops there.
        let threads = if whole { threads } else { 1 };
        let pass = Pass { config, progress, cancel, threads, frame_starts: Arc::default() };
        pass.over(archives, |event, bytes, at| {
            seen.event(event, bytes, Some(at))?;
            let done = !whole && seen.is_enough();
            Ok(if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    progress.enter(Phase::Done);
    let (bank, mismatch) = seen.bank(name.as_ref());
    let compression = format.map_or("unknown", Format::name);
    let proven = bank.as_ref().filter(|_| mismatch.is_none() && name.is_some());
    let producer = Evidence {
        compression,
        header: beginning.header.as_ref(),
        tag: beginning.firedancer_tag,
        frames: &frames,
        table,
        block_id: proven.map(|bank| bank.block_id.is_some()),
    }
    .guess();
    let mut not_looked_at = Vec::new();
    let mut missing = |what: &str, how: &str| not_looked_at.push(format!("{what}: {how}"));
    if !frames.complete {
        missing("all frames", "--frames, or make an index (ledger-tool index)");
    }
    if bank.is_none() {
        let how = "it does not come before the first storage; make an index, or use --storages";
        missing("the bank file", how);
    }
    let storages = seen.storages();
    if storages.is_none() {
        let how = "--storages goes through all of the archive; with an index it need not";
        missing("storages", how);
    }
    if what.owners.is_none() {
        missing("accounts by owner", "--owners N goes through all of the archive");
    }
    Ok(Inspection {
        archive_bytes: file.size(),
        kind: name.as_ref().map(ArchiveName::kind),
        slot: name.as_ref().map(ArchiveName::slot),
        base_slot: name.as_ref().and_then(ArchiveName::base_slot),
        hash: name.as_ref().map(|name| name.hash().to_string()),
        compression,
        window_bytes: beginning.header.map(|header| header.window_bytes),
        checksum: beginning.header.map(|header| header.has_checksum),
        producer,
        frames,
        bank,
        storages,
        owners: what.owners.map(|count| seen.owners.take().unwrap_or_default().largest(count)),
        index: index.is_some(),
        bytes_decoded: seen.bytes_decoded,
        not_looked_at,
        elapsed_ms: millis(started.elapsed()),
        mismatch: mismatch.map(|source| Error::Bank {
            archive: archive.clone(),
            source: Box::new(source),
            at: seen.bank_at,
        }),
        archive,
    })
}

/// Bytes of the beginning that are looked at: the first header may follow on a skippable frame.
const HEAD_BYTES: usize = 4096;

/// What the first bytes say.
#[derive(Default)]
struct Beginning {
    header: Option<FrameHeader>,
    firedancer_tag: bool,
}

impl Beginning {
    fn of(head: &[u8], format: Option<Format>) -> Self {
        let mut beginning = Self::default();
        if format != Some(Format::Zstd) {
            return beginning;
        }
        let mut rest = head;
        loop {
            match frame_start(&rest[..rest.len().min(FRAME_HEADER_BYTES_MAX)]) {
                Ok(FrameStart::Zstd(header)) => {
                    beginning.header = Some(header);
                    return beginning;
                }
                Ok(FrameStart::Skippable { bytes }) => {
                    let tag = rest.get(8..16).and_then(|tag| tag.first_chunk());
                    beginning.firedancer_tag |=
                        tag.is_some_and(|tag| u64::from_le_bytes(*tag) == FIREDANCER_TAG);
                    let passed = usize::try_from(bytes).ok().and_then(|bytes| rest.get(bytes..));
                    let Some(after) = passed else { return beginning };
                    rest = after;
                }
                Err(_) => return beginning,
            }
        }
    }
}

/// The frames, by what there is: index, seek table, headers.
fn frames(
    file: &ArchiveFile,
    config: &Config,
    index: Option<&Index>,
    what: WhatToInspect,
    cancel: &CancelToken,
) -> (FrameFacts, Option<TableSource>) {
    let (archive, bytes) = (Anywhere(file), file.size());
    let table = match seek_table(file, config) {
        SeekTableFound::Some(table) => Some(table),
        SeekTableFound::None | SeekTableFound::PassedOver(_) => None,
    };
    let source = table.is_some().then_some(TableSource::SeekTable);
    if let Some(index) = index {
        let facts = FrameFacts::of_table(&index.frames, TableSource::SideCar);
        return (facts, source.or(Some(TableSource::SideCar)));
    }
    if let Some(table) = &table {
        return (FrameFacts::of_table(table, TableSource::SeekTable), source);
    }
    let since = Instant::now();
    let go_on = || !cancel.is_cancelled() && (what.frames || since.elapsed() < WALK_TIME);
    let walk_bytes = if what.frames { u64::MAX } else { WALK_BYTES };
    (FrameFacts::of_headers(&archive, bytes, walk_bytes, &go_on), None)
}

/// What has been seen of the decoded stream.
struct Seen<'a> {
    archive: &'a str,
    layout: Layout,
    what: WhatToInspect,
    tally: StorageTally,
    /// Whether all storages are in the tally.
    all_storages: bool,
    first_storage: bool,
    reader: Option<(BankReader, u64)>,
    facts: Option<(BankFacts, u64)>,
    bank_at: Position,
    scanner: Option<StorageScanner>,
    owners: Option<Owners>,
    bytes_decoded: u64,
}

impl<'a> Seen<'a> {
    fn new(archive: &'a str, config: &Config, what: WhatToInspect) -> Self {
        Self {
            archive,
            layout: layout(config, &config.archive),
            what,
            tally: StorageTally::default(),
            all_storages: what.storages || what.owners.is_some(),
            first_storage: false,
            reader: None,
            facts: None,
            bank_at: Position::default(),
            scanner: None,
            owners: what.owners.map(|_| Owners::default()),
            bytes_decoded: 0,
        }
    }

    /// Whether nothing of what follows is wanted.
    fn is_enough(&self) -> bool {
        self.facts.is_some() || self.first_storage
    }

    /// By the index: storages by their entries, and the bank file out of its frames.
    fn index(
        &mut self,
        index: &Index,
        file: &ArchiveFile,
        config: &Config,
        progress: &Progress,
        cancel: &CancelToken,
    ) -> Result<(), Error> {
        let entries = index.entries.entries();
        for entry in entries {
            self.tally.add(entry);
        }
        self.all_storages = true;
        let bank: Vec<&Entry> = entries.iter().filter(|entry| is_bank_file(entry)).collect();
        let (options, limits) = (ReadOptions::default(), config.limits.tar);
        let archive = self.archive;
        let lookup = Lookup { archive, file, index, options, limits, progress, cancel };
        lookup.entries(&bank, |event, bytes| self.event(event, bytes, None)).map(drop)
    }

    fn event(&mut self, event: Event<'_>, bytes: &[u8], at: Option<Position>) -> Result<(), Error> {
        let position = at.unwrap_or_default();
        self.bytes_decoded += bytes.len() as u64;
        match event {
            Event::Member(member) => {
                let placement = self.layout.admit(&member);
                let placement = placement.map_err(|source| bad_layout(self.archive, source, at))?;
                match placement {
                    Placement::File { role: Role::BankFile { .. }, .. } => {
                        self.reader = Some((BankReader::new(member.size), member.size));
                    }
                    Placement::File { role: Role::Storage { slot, id }, .. } => {
                        self.first_storage = true;
                        self.tally.add(&Entry::of(&member));
                        if self.what.owners.is_some() {
                            let scanner = StorageScanner::new(slot, u64::from(id), member.size);
                            let bad = |error| Error::storage(self.archive, error, position);
                            self.scanner = Some(scanner.map_err(bad)?);
                        }
                    }
                    _ => {}
                }
            }
            Event::Payload { last } => self.payload(bytes, last, position)?,
            Event::Skipped | Event::End => {}
        }
        Ok(())
    }

    fn payload(&mut self, bytes: &[u8], last: bool, at: Position) -> Result<(), Error> {
        let archive = self.archive;
        if let Some((reader, _)) = &mut self.reader {
            let bad = |source| {
                let (archive, source) = (archive.to_owned(), Box::new(source));
                Error::Bank { archive, source, at }
            };
            reader.push(bytes).map_err(bad)?;
            if last && let Some((reader, size)) = self.reader.take() {
                self.facts = Some((reader.finish().map_err(bad)?, size));
                self.bank_at = at;
            }
        }
        if let (Some(scanner), Some(owners)) = (&mut self.scanner, &mut self.owners) {
            let bad = |error| Error::storage(archive, error, at);
            scanner.feed(bytes, owners).map_err(bad)?;
            if last && let Some(scanner) = self.scanner.take() {
                scanner.finish().map_err(bad)?;
            }
        }
        Ok(())
    }

    fn storages(&mut self) -> Option<StorageFacts> {
        self.all_storages.then(|| std::mem::take(&mut self.tally).facts())
    }

    /// What the bank file says, and why it is not that of the name.
    fn bank(
        &self,
        name: Option<&ArchiveName>,
    ) -> (Option<BankInspection>, Option<unsnap_layout::BankError>) {
        let Some((facts, bytes)) = &self.facts else { return (None, None) };
        let proof = name.map(|name| facts.prove(name));
        let (hash_check, block_id, mismatch) = match proof {
            None => ("no name".to_owned(), None, None),
            Some(Ok(proof)) => ("matches".to_owned(), proof.block_id, None),
            Some(Err(error)) => (error.to_string(), None, Some(error)),
        };
        let bank = BankInspection {
            bytes: *bytes,
            slot: facts.slot,
            epoch: facts.epoch(),
            parent_slot: facts.parent_slot,
            hash: facts.hash.to_string(),
            parent_hash: facts.parent_hash.to_string(),
            capitalization: facts.capitalization,
            block_height: facts.block_height,
            transaction_count: facts.transaction_count,
            block_id: block_id.map(|id| BankHash(id).to_string()),
            hash_check,
        };
        (Some(bank), mismatch)
    }
}

/// Whether an entry is `snapshots/<slot>/<slot>`.
fn is_bank_file(entry: &Entry) -> bool {
    let path = entry.path();
    let path = path.strip_prefix(b"./").unwrap_or(&path);
    let Some(rest) = path.strip_prefix(b"snapshots/") else { return false };
    let mut parts = rest.split(|byte| *byte == b'/');
    let (slot, name, more) = (parts.next(), parts.next(), parts.next());
    slot.is_some_and(|slot| slot.iter().all(u8::is_ascii_digit)) && slot == name && more.is_none()
}
