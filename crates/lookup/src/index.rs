//! Creation of an index: one pass over the archive records every frame and every entry.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
};

use unsnap_decode::{Format, FrameStarts, Position};
use unsnap_index::{
    Encoding, Entry, EntryTable, FrameTable, Gathered, Identity, Index, IndexError,
};
use unsnap_pass::{Anywhere, Keeper, OpenArchive, Opened, Pass, PassError};
use unsnap_source::{ArchiveFile, Digest, DigestKind, Span};
use unsnap_tarstream::Event;

use crate::Reader;

impl Reader<'_> {
    /// Makes the index by a pass over the whole archive, which proves its end. The caller writes it
    /// to a file. An archive on a server is received once.
    pub fn index(&self) -> Result<Index, PassError> {
        let (archives, name) = (self.first(), self.archive_name());
        let failed = |error| PassError::index(&name, error);
        let opened = Opened::to_read(archives, self.options, self.handles, || Ok(()))?;
        let mut identified = match opened.archives.first() {
            Some(OpenArchive::File(file)) => {
                Identified::File(Box::new(file.again().map_err(PassError::source)?))
            }
            Some(OpenArchive::Remote(remote)) => {
                Identified::Passing(Arc::new(Mutex::new(Gathered::new(remote.bytes()))))
            }
            Some(OpenArchive::Stream(_)) | None => {
                let reason = "a stream has no index: give a file or an address";
                return Err(PassError::request(reason));
            }
        };
        let frame_starts = Arc::new(FrameStarts::complete());
        let noted = Arc::clone(&frame_starts);
        let mut pass = Pass::new(self.options, self.handles, opened.threads);
        (pass.frame_starts, pass.digest) = (frame_starts, Some(DigestKind::Xxh3));
        pass.keeper = identified.keeper();
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
        let identity = identified.identity(bytes, digest).map_err(failed)?;
        Index::new(identity, frames.map_err(failed)?, entries).map_err(failed)
    }
}

/// Where the identity of the archive comes from.
enum Identified {
    /// The file, which is read again.
    File(Box<ArchiveFile>),
    /// What is gathered while the archive comes from a server: it comes only once.
    Passing(Arc<Mutex<Gathered>>),
}

impl Identified {
    /// Returns what sees the archive while it comes.
    fn keeper(&mut self) -> Option<Keeper> {
        let Self::Passing(gathered) = self else { return None };
        let gathered = Arc::clone(gathered);
        let listener = move |span: &Span| {
            gathered.lock().unwrap_or_else(PoisonError::into_inner).pass(&span.bytes);
        };
        Some(Keeper { listener: Box::new(listener), part: None })
    }

    fn identity(self, bytes: u64, digest: u128) -> Result<Identity, IndexError> {
        match self {
            Self::File(file) => Identity::of(&Anywhere(&file), bytes, digest),
            Self::Passing(gathered) => {
                let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *gathered, Gathered::new(0)).identity(digest)
            }
        }
    }
}
