//! Entry point of the walk over all headers for the fuzz targets.

use crate::{
    Format,
    survey::{
        Effort,
        blocks::Blocks,
        chains::{self, Walked},
    },
};

/// Returns the sum of the sizes that the frames of a zstd archive declare, found by walks from its
/// beginning and from `footholds`. These are in ascending order and may be any offsets. Returns
/// `None` if the sum cannot be determined.
pub fn declared_bytes(archive: &[u8], footholds: &[u64]) -> Option<u64> {
    let beginning = Blocks::from_frame(0, Format::Zstd);
    let others = footholds.iter().copied().map(Blocks::amid_zstd);
    let footholds: Vec<_> = std::iter::once(beginning).chain(others).collect();
    let effort = Effort { whole_bytes_max: 0, walk_time: None, go_on: &|_| true };
    match chains::walk(&archive, archive.len() as u64, &footholds, &effort).0 {
        Walked::All { raw_bytes, .. } => Some(raw_bytes),
        Walked::Undeclared | Walked::Unfinished => None,
    }
}
