//! Inspection of an archive without unpacking it.

mod beginning;
mod frames;
mod scope;
mod stream_facts;

use std::{io, ops::ControlFlow, time::Instant};

use serde::Serialize;
use unsnap_decode::{DecodeError, Format, Position};
use unsnap_failure::{Failure, Family};
use unsnap_layout::ArchiveName;
use unsnap_pass::{OpenArchive, Opened, Pass, PassError, Phase, millis};
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
        let Some(OpenArchive::File(file)) = opened.archives.first() else {
            let reason = "only a file can be inspected, and this is a stream";
            return Err(PassError::request(reason).into());
        };
        let file = file.again().map_err(PassError::source)?;
        let head = file.read_head(HEAD_BYTES).map_err(PassError::source)?;
        let format = Format::detect(&head);
        let beginning = Beginning::of(&head, format);
        let (frames, table) =
            frames(&file, options.io.index, index.as_ref(), what, &handles.cancel);
        let name = archives[0].snapshot_name();
        let mut seen = StreamFacts::new(&archive, &archives[0], options, what);
        handles.progress.enter(Phase::Unpacking);
        let whole = what.owners.is_some() || (what.storages && index.is_none());
        let passed = if let (Some(index), false) = (&index, whole) {
            seen.index(index, &file, options, handles)
        } else {
            // Frames decoded ahead are wasted if the pass ends with the bank file, so one thread
            // suffices there.
            let threads = if whole { opened.threads } else { 1 };
            let pass = Pass::new(options, handles, threads);
            let see = |_, event: Event<'_>, bytes: &[u8], at: Position| {
                seen.event(event, bytes, Some(at))?;
                let done = !whole && seen.is_enough();
                let flow = if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                Ok::<_, LookupError>(flow)
            };
            pass.over(archives, opened.archives, see).map(drop)
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
        let mut not_looked_at = Vec::new();
        let mut missing = |what: &str, how: &str| not_looked_at.push(format!("{what}: {how}"));
        if !frames.complete && frames.damage.is_none() {
            missing("all frames", "--frames, or make an index (ledger-tool index)");
        }
        if bank.is_none() && !bank_is_bad && !bank_not_reached {
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
            bank_is_bad,
            bank_not_reached,
            damage,
            mismatch,
            archive,
        })
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
