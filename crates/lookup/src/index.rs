//! Creation of an index: one pass over the archive records every frame and every entry.

use std::{ops::ControlFlow, sync::Arc};

use unsnap_decode::{Format, FrameStarts, Position};
use unsnap_index::{Encoding, Entry, EntryTable, FrameTable, Identity, Index};
use unsnap_pass::{Anywhere, OpenArchive, Opened, Pass, PassError};
use unsnap_source::{Digest, DigestKind};
use unsnap_tarstream::Event;

use crate::Reader;

impl Reader<'_> {
    /// Makes the index by a pass over the whole archive, which proves its end. The caller writes it
    /// to a file.
    pub fn index(&self) -> Result<Index, PassError> {
        let (archives, name) = (self.first(), self.archive_name());
        let failed = |error| PassError::index(&name, error);
        let opened = Opened::to_read(archives, self.options, self.handles, || Ok(()))?;
        let Some(OpenArchive::File(file)) = opened.archives.first() else {
            return Err(PassError::request("only a file can have an index, and this is a stream"));
        };
        let file = file.again().map_err(PassError::source)?;
        let frame_starts = Arc::new(FrameStarts::complete());
        let noted = Arc::clone(&frame_starts);
        let mut pass = Pass::new(self.options, self.handles, opened.threads);
        (pass.frame_starts, pass.digest) = (frame_starts, Some(DigestKind::Xxh3));
        let mut entries = EntryTable::default();
        let see = |_, event: Event<'_>, _: &[u8], _: Position| {
            if let Event::Member(member) = event {
                entries.push(Entry::of(&member)).map_err(failed)?;
            }
            Ok::<_, PassError>(ControlFlow::Continue(()))
        };
        let summaries = pass.over(archives, opened.archives, see)?;
        let summary = summaries.into_iter().next().unwrap_or_default();
        let (bytes, raw_bytes) = (summary.bytes_read, summary.bytes_decoded);
        let of_marks =
            |encoding| FrameTable::of_marks(encoding, &noted.take_all(), bytes, raw_bytes);
        let frames = match summary.format {
            Some(Format::Lz4) => of_marks(Encoding::Lz4),
            Some(Format::Zstd) => of_marks(Encoding::Zstd),
            Some(Format::Tar) | None => Ok(FrameTable::plain(bytes)),
        };
        // It was requested, and a complete pass has digested everything.
        let Some(Digest::Xxh3(digest)) = summary.source.digest else {
            return Err(PassError::Cancelled);
        };
        let identity = Identity::of(&Anywhere(&file), bytes, digest).map_err(failed)?;
        Index::new(identity, frames.map_err(failed)?, entries).map_err(failed)
    }
}
