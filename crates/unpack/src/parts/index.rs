//! Making an index: one pass over the archive, which notes every frame and every entry.

use std::{
    fs::File,
    io::{self, Write},
    ops::ControlFlow,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::io::Errno;

use unsnap_decode::{Format, FrameStarts};
use unsnap_index::{Encoding, Entry, EntryTable, FrameTable, Identity, Index, side_car_path};
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

/// Whoever may read the archive may read where everything is in it.
const FILE_MODE: u32 = 0o644;

/// Writes a side-car beside its archive, in one step, durably, in place of an older one.
pub fn write_side_car(archive: &Path, bytes: &[u8]) -> Result<PathBuf, Error> {
    let path = side_car_path(archive);
    let failed = |step: &'static str| {
        let path = path.clone();
        move |error: io::Error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            Error::Staging { step, path, errno }
        }
    };
    let directory = match archive.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".unsnap-index.")
        .permissions(std::fs::Permissions::from_mode(FILE_MODE))
        .tempfile_in(directory)
        .map_err(failed("create"))?;
    file.write_all(bytes).map_err(failed("write"))?;
    file.as_file().sync_all().map_err(failed("sync"))?;
    file.persist(&path).map_err(|error| failed("publish")(error.error))?;
    let holder = File::open(directory).and_then(|directory| directory.sync_all());
    holder.map_err(failed("sync the directory of"))?;
    Ok(path)
}
