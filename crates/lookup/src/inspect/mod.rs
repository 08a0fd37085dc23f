//! Looking at an archive without unpacking it.

mod beginning;
mod frames;
mod seen;

use std::{io, ops::ControlFlow, time::Instant};

use serde::Serialize;
use unsnap_decode::{Format, Position};
use unsnap_layout::ArchiveName;
use unsnap_pass::{OpenArchive, Opened, Pass, PassError, Phase, millis};
use unsnap_tarstream::Event;

use self::{
    beginning::{Beginning, HEAD_BYTES},
    frames::frames,
    seen::Seen,
};
pub use self::{
    frames::{FrameFacts, Sizes},
    seen::BankInspection,
};
use crate::{LookupError, OwnerTotals, Producer, Reader, StorageFacts, producer::Evidence};

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
    pub mismatch: Option<PassError>,
}

impl Reader<'_> {
    /// Looks at an archive: what it is, which program made it, what its bank file says. Reads only what
    /// holds that, unless more is wanted.
    pub fn inspect(
        &self,
        what: WhatToInspect,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Inspection, LookupError> {
        let started = Instant::now();
        let Self { options, handles, .. } = *self;
        let (archives, archive) = (&self.archives[..1], self.archive_name());
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
        let mut seen = Seen::new(&archive, &archives[0], options, what);
        handles.progress.enter(Phase::Unpacking);
        let whole = what.owners.is_some() || (what.storages && index.is_none());
        if let (Some(index), false) = (&index, whole) {
            seen.index(index, &file, options, handles)?;
        } else {
            // Frames decoded ahead would be in vain if the pass ends with the bank file: one thread stops there.
            let threads = if whole { opened.threads } else { 1 };
            let pass = Pass::new(options, handles, threads);
            let see = |_, event: Event<'_>, bytes: &[u8], at: Position| {
                seen.event(event, bytes, Some(at))?;
                let done = !whole && seen.is_enough();
                let flow = if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                Ok::<_, LookupError>(flow)
            };
            pass.over(archives, opened.archives, see)?;
        }
        handles.progress.enter(Phase::Done);
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
            mismatch: mismatch.map(|source| PassError::bank(&archive, source, seen.bank_at)),
            archive,
        })
    }
}
