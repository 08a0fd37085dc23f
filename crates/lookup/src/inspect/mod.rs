//! Inspection of an archive without unpacking it.

mod beginning;
mod frames;
mod scope;
mod stream_facts;

use std::{io, ops::ControlFlow, sync::Arc, time::Instant};

use serde::Serialize;
use unsnap_decode::{DecodeError, Format, FrameStarts, Position};
use unsnap_failure::{Failure, Family};
use unsnap_layout::ArchiveName;
use unsnap_pass::{OpenArchive, Opened, Pass, PassError, Phase, millis};
use unsnap_source::ArchiveFile;
use unsnap_tarstream::Event;

use self::{
    beginning::{Beginning, HEAD_BYTES},
    frames::frames,
    stream_facts::StreamFacts,
};
pub use self::{
    frames::{FrameDamage, FrameFacts, Sizes},
    scope::WhatToInspect,
    stream_facts::{BankInspection, StreamDamage},
};
use crate::{LookupError, OwnerTotals, Producer, Reader, StorageFacts, producer::Evidence};

/// Facts about an archive.
#[derive(Debug, Serialize)]
pub struct Inspection {
    /// The archive.
    pub archive: String,
    /// Size in bytes.
    pub archive_bytes: u64,
    /// `full` or `incremental`; `None` if its name is not a snapshot's.
    pub kind: Option<&'static str>,
    /// Slot in its name.
    pub slot: Option<u64>,
    /// Slot of the full snapshot it builds on.
    pub base_slot: Option<u64>,
    /// Hash in its name.
    pub hash: Option<String>,
    /// Compression.
    pub compression: &'static str,
    /// Window of its first zstd frame in bytes.
    pub window_bytes: Option<u64>,
    /// Whether that frame ends in a checksum.
    pub checksum: Option<bool>,
    /// Facts about its frames.
    pub frames: FrameFacts,
    /// The likely producer.
    pub producer: Producer,
    /// Fields of the bank file.
    pub bank: Option<BankInspection>,
    /// Whether the bank file cannot be parsed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bank_is_bad: bool,
    /// Whether damage comes before the end of the bank file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bank_not_reached: bool,
    /// Damage that ended the pass over the decoded stream. Facts about entries, storages and owners
    /// are those of the part before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<StreamDamage>,
    /// Facts about its storages.
    pub storages: Option<StorageFacts>,
    /// Owners with the most data.
    pub owners: Option<Vec<OwnerTotals>>,
    /// Whether an index was used.
    pub index: bool,
    /// Number of bytes decoded.
    pub bytes_decoded: u64,
    /// Parts that were not inspected, each with the way to inspect it.
    pub not_looked_at: Vec<String>,
    /// Elapsed time in milliseconds.
    pub elapsed_ms: u64,
    /// Defect of the archive: its stream or its frames are damaged, or its bank file is bad or does
    /// not match its name.
    #[serde(skip)]
    pub mismatch: Option<LookupError>,
}

impl Reader<'_> {
    /// Inspects an archive: its properties, its producer, its bank file. Reads only the parts that
    /// hold these, unless `what` requests more. Damage and a defective bank file do not fail the
    /// inspection: see [`Inspection::mismatch`].
    pub fn inspect(
        &self,
        what: WhatToInspect,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Inspection, LookupError> {
        let started = Instant::now();
        let Self { options, handles, .. } = *self;
        let (archives, archive) = (self.first(), self.archive_name());
        let mut opened = Opened::to_read(archives, options, handles, confined)?;
        let index = opened.load_indexes(options, handles)?.into_iter().flatten().next();
        let (file, head, archive_bytes) = beginning_of(opened.archives.first())?;
        let format = Format::detect(&head);
        let beginning = Beginning::of(&head, format);
        let (mut frames, table) = match &file {
            Some(file) => frames(file, options.io.index, index.as_ref(), what, &handles.cancel),
            None => (FrameFacts::unseen(), None),
        };
        let name = archives[0].snapshot_name();
        let mut seen = StreamFacts::new(&archive, &archives[0], options, what);
        handles.progress.enter(Phase::Unpacking);
        // A server would be asked once for each header, so frames are found by receiving them.
        let by_frames = what.frames && file.is_none();
        let whole = what.owners.is_some() || (what.storages && index.is_none()) || by_frames;
        let passed = if let (Some(index), Some(file), false) = (&index, &file, whole) {
            seen.index(index, file, options, handles)
        } else {
            // Frames decoded ahead are wasted if the pass ends with the bank file, so one thread
            // suffices there.
            let threads = if whole { opened.threads } else { 1 };
            let mut pass = Pass::new(options, handles, threads);
            let frame_starts = Arc::new(FrameStarts::complete());
            if whole && file.is_none() {
                pass.frame_starts = Arc::clone(&frame_starts);
            }
            let see = |_, event: Event<'_>, bytes: &[u8], at: Position| {
                seen.event(event, bytes, Some(at))?;
                let done = !whole && seen.is_enough();
                let flow = if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                Ok::<_, LookupError>(flow)
            };
            pass.over(archives, opened.archives, see).map(|summaries| {
                if whole && file.is_none() {
                    frames = FrameFacts::of_pass(&frame_starts.take_all(), summaries.first());
                }
            })
        };
        // What was seen before damage is still wanted.
        let refuted = match passed {
            Err(error) if error.family() != Family::BadArchive => return Err(error),
            passed => passed.err(),
        };
        let damage = refuted.as_ref().map(|error| seen.damage(error));
        handles.progress.enter(Phase::Done);
        let (bank, bank_error) = seen.bank(name.as_ref());
        let bank_is_bad = seen.bank_is_bad();
        let compression = format.map_or("unknown", Format::name);
        let proven = bank.as_ref().filter(|_| bank_error.is_none() && name.is_some());
        let producer = Evidence {
            compression,
            header: beginning.header.as_ref(),
            tag: beginning.firedancer_tag,
            frames: &frames,
            table,
            block_id: proven.map(|bank| bank.block_id.is_some()),
        }
        .guess();
        let bank_not_reached = damage.is_some() && bank.is_none() && !bank_is_bad;
        let mismatch = refuted
            .or_else(|| Some(damage_error(&archive, frames.damage?, &frames).into()))
            .or_else(|| Some(PassError::bank(&archive, bank_error?, seen.bank_at).into()));
        let storages = seen.storages();
        let misses = Misses {
            frames: !frames.complete && frames.damage.is_none(),
            is_file: file.is_some(),
            bank: bank.is_none() && !bank_is_bad && !bank_not_reached,
            storages: storages.is_none(),
            owners: what.owners.is_none(),
        };
        Ok(Inspection {
            archive_bytes,
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
            not_looked_at: misses.told(),
            elapsed_ms: millis(started.elapsed()),
            bank_is_bad,
            bank_not_reached,
            damage,
            mismatch,
            archive,
        })
    }
}

/// Returns the file, if the archive is one, its first bytes, and its length.
fn beginning_of(
    archive: Option<&OpenArchive>,
) -> Result<(Option<ArchiveFile>, Vec<u8>, u64), PassError> {
    match archive {
        Some(OpenArchive::File(file)) => {
            let file = file.again().map_err(PassError::source)?;
            let head = file.read_head(HEAD_BYTES).map_err(PassError::source)?;
            let bytes = file.size();
            Ok((Some(file), head, bytes))
        }
        Some(OpenArchive::Remote(remote)) => Ok((None, remote.head().to_vec(), remote.bytes())),
        Some(OpenArchive::Stream(_)) | None => {
            Err(PassError::request("a stream cannot be inspected: give a file or an address"))
        }
    }
}

/// What was not looked at.
#[allow(clippy::struct_excessive_bools, reason = "one for each part")]
struct Misses {
    frames: bool,
    /// Whether the archive is a file, and not on a server.
    is_file: bool,
    bank: bool,
    storages: bool,
    owners: bool,
}

impl Misses {
    /// Returns the parts, each with the way to inspect it.
    fn told(&self) -> Vec<String> {
        let how_frames = if self.is_file {
            "--frames, or make an index (ledger-tool index)"
        } else {
            "--frames receives all of the archive"
        };
        let bank = "it does not come before the first storage; make an index, or use --storages";
        let storages = "--storages goes through all of the archive; with an index it need not";
        let owners = "--owners N goes through all of the archive";
        [
            (self.frames, "all frames", how_frames),
            (self.bank, "the bank file", bank),
            (self.storages, "storages", storages),
            (self.owners, "accounts by owner", owners),
        ]
        .into_iter()
        .filter(|(is_missing, ..)| *is_missing)
        .map(|(_, what, how)| format!("{what}: {how}"))
        .collect()
    }
}

/// Returns the error for damage among the frames.
fn damage_error(archive: &str, damage: FrameDamage, frames: &FrameFacts) -> PassError {
    let at = Position {
        compressed_offset: damage.offset,
        frame: frames.frames + frames.skippable_frames,
        raw_offset: frames.raw_bytes.sum,
    };
    let error = if damage.is_cut {
        DecodeError::Truncated { at, inside: "a frame" }
    } else {
        let reason = "the header of a frame or block is invalid".to_owned();
        DecodeError::Corrupt { at, reason }
    };
    PassError::decode(archive, error)
}
