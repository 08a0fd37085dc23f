//! The seek table at an archive's end, which is used where there is no side-car.

use unsnap_decode::Basis;
use unsnap_index::{Encoding, FrameTable, IndexError, encoding_of};
use unsnap_source::ArchiveFile;

use crate::{Anywhere, IndexUse};

/// What has become of looking for a seek table.
#[derive(Debug)]
pub enum SeekTableFound {
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
pub fn seek_table(file: &ArchiveFile, wanted: IndexUse) -> SeekTableFound {
    if wanted == IndexUse::Ignore {
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

/// The length of the tar stream by the seek table at the archive's end, if there is one that seems right.
pub fn length_by_seek_table(
    file: &ArchiveFile,
    wanted: IndexUse,
    warnings: &mut Vec<String>,
) -> Option<u64> {
    match seek_table(file, wanted) {
        SeekTableFound::Some(table) => Some(table.raw_bytes()),
        SeekTableFound::None => None,
        SeekTableFound::PassedOver(reason) => {
            warnings.push(reason);
            None
        }
    }
}

/// How far an estimate is from the length at most: twice or half of it. Samples of made archives were
/// off by up to 5 percent; a guess.
const ESTIMATE_FACTOR: u64 = 2;

/// What a survey has shown, with the length that a seek table says in place of an estimate. A table that
/// contradicts headers, or is far from the estimate, is passed over.
pub fn hold_to_seek_table(
    (raw_bytes, basis): (u64, Basis),
    by_table: Option<u64>,
    warnings: &mut Vec<String>,
) -> (u64, Basis) {
    let Some(by_table) = by_table else { return (raw_bytes, basis) };
    let near = |estimate: u64| {
        let (least, most) = (estimate / ESTIMATE_FACTOR, estimate.saturating_mul(ESTIMATE_FACTOR));
        (least..=most).contains(&by_table)
    };
    match basis {
        Basis::Sampled if near(raw_bytes) => (by_table, Basis::Declared),
        Basis::Decoded | Basis::Declared if by_table == raw_bytes => (raw_bytes, basis),
        _ => {
            let reason = format!(
                "the seek table is passed over: it says that {by_table} bytes are decoded, and the \
                 frames say about {raw_bytes}"
            );
            tracing::warn!("{reason}");
            warnings.push(reason);
            (raw_bytes, basis)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seek_table_is_taken_for_an_estimate_and_held_to_what_is_known() {
        let mut warnings = Vec::new();
        for (surveyed, by_table, taken) in [
            ((100, Basis::Sampled), None, (100, Basis::Sampled)),
            ((100, Basis::Sampled), Some(120), (120, Basis::Declared)),
            ((100, Basis::Declared), Some(100), (100, Basis::Declared)),
            ((100, Basis::Decoded), Some(100), (100, Basis::Decoded)),
        ] {
            assert_eq!(hold_to_seek_table(surveyed, by_table, &mut warnings), taken);
        }
        assert_eq!(warnings, [] as [String; 0]);
        for (surveyed, lie) in [
            ((100, Basis::Sampled), 201),
            ((100, Basis::Sampled), 49),
            ((100, Basis::Declared), 101),
            ((100, Basis::Decoded), 99),
            ((u64::MAX, Basis::Sampled), 0),
        ] {
            warnings.clear();
            assert_eq!(hold_to_seek_table(surveyed, Some(lie), &mut warnings), surveyed);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
        }
    }
}
