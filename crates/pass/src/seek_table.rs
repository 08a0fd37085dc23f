//! The seek table at the end of an archive, used where there is no side-car.

use unsnap_decode::Basis;
use unsnap_index::{Encoding, FrameTable, IndexError, encoding_of};
use unsnap_source::ArchiveFile;

use crate::{Anywhere, IndexUse};

/// Result of the search for a seek table.
#[derive(Debug)]
pub enum SeekTableFound {
    /// There is no seek table, or the options forbid its use.
    None,
    /// Frames of the table, which add up to the archive. Some of them were checked; decoding may
    /// still prove the table wrong.
    Some(FrameTable),
    /// The table is not credible, for the stated reason.
    Ignored(String),
}

/// Reads the seek table of an archive and checks it. Reads the end of the archive, the table, and
/// the beginnings of up to 64 frames.
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
        // The decoder reports an archive that cannot be read, or does not begin like one.
        Ok(None) | Err(IndexError::NoTable(_) | IndexError::Read { .. }) => SeekTableFound::None,
        Err(error) => {
            let reason = format!("the seek table is ignored: {error}");
            tracing::warn!("{reason}");
            SeekTableFound::Ignored(reason)
        }
    }
}

/// Returns the length of the tar stream according to the seek table, if there is a credible one.
/// Adds a warning if the table is ignored.
pub fn length_by_seek_table(
    file: &ArchiveFile,
    wanted: IndexUse,
    warnings: &mut Vec<String>,
) -> Option<u64> {
    match seek_table(file, wanted) {
        SeekTableFound::Some(table) => Some(table.raw_bytes()),
        SeekTableFound::None => None,
        SeekTableFound::Ignored(reason) => {
            warnings.push(reason);
            None
        }
    }
}

/// Largest credible error of an estimate: twice or half the length. Samples of generated archives
/// were off by up to 5 percent; a guess.
const ESTIMATE_FACTOR: u64 = 2;

/// Returns the surveyed length, replacing an estimate by the seek table's length. A table that
/// contradicts the frame headers, or is far from the estimate, is ignored with a warning.
pub fn reconcile_with_seek_table(
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
                "the seek table is ignored: it declares {by_table} decoded bytes, but the frames \
                 hold about {raw_bytes}"
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
    fn a_seek_table_replaces_an_estimate_and_is_checked_against_headers() {
        let mut warnings = Vec::new();
        for (surveyed, by_table, taken) in [
            ((100, Basis::Sampled), None, (100, Basis::Sampled)),
            ((100, Basis::Sampled), Some(120), (120, Basis::Declared)),
            ((100, Basis::Declared), Some(100), (100, Basis::Declared)),
            ((100, Basis::Decoded), Some(100), (100, Basis::Decoded)),
        ] {
            assert_eq!(reconcile_with_seek_table(surveyed, by_table, &mut warnings), taken);
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
            assert_eq!(reconcile_with_seek_table(surveyed, Some(lie), &mut warnings), surveyed);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
        }
    }
}
