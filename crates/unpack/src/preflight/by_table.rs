//! The length of the tar stream by the seek table at the archive's end, in place of a walk over headers.

use unsnap_decode::Basis;
use unsnap_source::ArchiveFile;

use crate::{
    Config,
    parts::{SeekTableFound, seek_table},
};

/// How far an estimate is from the length at most: twice or half of it. Samples were off by up to 5 percent
/// (see [`needed`](super::needed)); a guess.
const ESTIMATE_FACTOR: u64 = 2;

/// The length by the table, if there is one that seems right.
pub(super) fn length_by_seek_table(
    file: &ArchiveFile,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Option<u64> {
    match seek_table(file, config) {
        SeekTableFound::Some(table) => Some(table.raw_bytes()),
        SeekTableFound::None => None,
        SeekTableFound::PassedOver(reason) => {
            warnings.push(reason);
            None
        }
    }
}

/// What a survey has shown, with the length that a seek table says in place of an estimate. A table that
/// contradicts headers, or is far from the estimate, is passed over.
pub(super) fn hold_to_table(
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
            assert_eq!(hold_to_table(surveyed, by_table, &mut warnings), taken);
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
            assert_eq!(hold_to_table(surveyed, Some(lie), &mut warnings), surveyed);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
        }
    }
}
