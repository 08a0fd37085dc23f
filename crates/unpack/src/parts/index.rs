//! Making an index: one pass over the archive, which notes every frame and every entry.

use std::{ops::ControlFlow, sync::Arc};

use unsnap_decode::{Format, FrameStarts};
use unsnap_index::{Encoding, Entry, EntryTable, FrameTable, Identity, Index};
use unsnap_source::{Digest, DigestKind};
use unsnap_tarstream::Event;

use crate::{
    CancelToken, Config, Error, Progress,
    opening::{OpenArchive, Opened},
    parts::Anywhere,
    pipeline::{Pass, open_to_read},
};

/// Finds out where everything is. Confines the calling thread.
pub(crate) fn make(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Index, Error> {
    let archive = config.archive.display_name();
    let failed = |error| Error::index(&archive, error);
    let mut config = config.clone();
    config.digest = Some(DigestKind::Xxh3);
    config.expect_digest = None;
    let Opened { archives, threads, .. } = open_to_read(&config, progress, || Ok(()))?;
    let Some(OpenArchive::File(file)) = archives.first() else {
        let reason = "only a file can have an index, and this is a stream".to_owned();
        return Err(Error::Request { reason, hint: None });
    };
    let file = file.again().map_err(Error::Source)?;
    let frame_starts = Arc::new(FrameStarts::complete());
    let noted = Arc::clone(&frame_starts);
    let pass = Pass { config: &config, progress, cancel, threads, frame_starts };
    let mut entries = EntryTable::default();
    let summary = pass.over(archives, |event, _, _| {
        if let Event::Member(member) = event {
            entries.push(Entry::of(&member)).map_err(failed)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let summary = summary.unwrap_or_default();
    let (bytes, raw_bytes) = (summary.bytes_read, summary.bytes_decoded);
    let of_marks = |encoding| FrameTable::of_marks(encoding, &noted.take_all(), bytes, raw_bytes);
    let frames = match summary.format {
        Some(Format::Lz4) => of_marks(Encoding::Lz4),
        Some(Format::Zstd) => of_marks(Encoding::Zstd),
        Some(Format::Tar) | None => Ok(FrameTable::plain(bytes)),
    };
    // Both were asked for, and a pass that was not broken off has come to the end.
    let Some(Digest::Xxh3(digest)) = summary.source.digest else { return Err(Error::Cancelled) };
    let identity = Identity::of(&Anywhere(&file), bytes, digest).map_err(failed)?;
    Index::new(identity, frames.map_err(failed)?, entries).map_err(failed)
}
