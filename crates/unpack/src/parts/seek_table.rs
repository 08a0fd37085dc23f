//! The seek table at an archive's end, which is used where there is no side-car.

use unsnap_index::{Encoding, FrameTable, IndexError, encoding_of};
use unsnap_source::ArchiveFile;

use crate::{Config, IndexUse, parts::Anywhere};

/// What has become of looking for a seek table.
#[derive(Debug)]
pub(crate) enum SeekTableFound {
    /// There is none, or it is not wanted.
    None,
    /// Its frames, which add up to the archive; some have been looked at. Decoding may still show that it
    /// lies.
    Some(FrameTable),
    /// There is one that is not to be believed, for this reason.
    PassedOver(String),
}

/// Looks for the seek table of an archive: a read of its end, of the table, and of the beginnings of up
/// to 64 frames.
pub(crate) fn seek_table(file: &ArchiveFile, config: &Config) -> SeekTableFound {
    if config.index == IndexUse::Ignore {
        return SeekTableFound::None;
    }
    let (archive, bytes) = (Anywhere(file), file.size());
    let read = || -> Result<_, IndexError> {
        if encoding_of(&archive, bytes)? != Encoding::Zstd {
            return Ok(None);
        }
        let table = FrameTable::of_seek_table(&archive, bytes)?;
        table.as_ref().map_or(Ok(()), |table| table.check_samples(&archive))?;
        Ok(table)
    };
    match read() {
        Ok(Some(table)) => SeekTableFound::Some(table),
        // What cannot be read, or begins like no archive, is refused by whoever decodes it.
        Ok(None) | Err(IndexError::NoTable(_) | IndexError::Read { .. }) => SeekTableFound::None,
        Err(error) => {
            let reason = format!("the seek table is passed over: {error}");
            tracing::warn!("{reason}");
            SeekTableFound::PassedOver(reason)
        }
    }
}
