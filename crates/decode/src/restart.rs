//! Where decoding could begin anew.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use crate::Position;

/// Decoded bytes between two starts that are remembered. Less would spare a resumed run little: so
/// much is decoded in milliseconds.
const SPACING_BYTES: u64 = 256 << 10;

/// Starts that are remembered at most; when there are more, every other one is forgotten.
const STARTS_MAX: usize = 1 << 16;

/// Starts of zstd frames, noted as they are passed. A frame needs nothing of those before it, so
/// decoding can begin at any of them. Empty for archives of other formats.
#[derive(Debug, Default)]
pub struct FrameStarts {
    starts: Mutex<VecDeque<Position>>,
}

impl FrameStarts {
    pub(crate) fn note(&self, at: Position) {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        if starts.back().is_some_and(|last| at.raw_offset < last.raw_offset + SPACING_BYTES) {
            return;
        }
        if starts.len() >= STARTS_MAX {
            let mut index = 0;
            starts.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        starts.push_back(at);
    }

    /// The last start at or before a byte of the decoded stream; those before it are forgotten, so
    /// `raw_offset` may only grow from call to call. `None` means the archive's beginning.
    pub fn last_before(&self, raw_offset: u64) -> Option<Position> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        while starts.get(1).is_some_and(|next| next.raw_offset <= raw_offset) {
            starts.pop_front();
        }
        starts.front().copied().filter(|first| first.raw_offset <= raw_offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(raw_offset: u64) -> Position {
        Position { compressed_offset: raw_offset / 4, frame: 0, raw_offset }
    }

    #[test]
    fn the_last_start_before_a_byte_is_found() {
        let starts = FrameStarts::default();
        assert_eq!(starts.last_before(0), None);
        for index in 0..4 {
            starts.note(at(index * SPACING_BYTES));
            starts.note(at(index * SPACING_BYTES + 1));
        }
        assert_eq!(starts.last_before(0), Some(at(0)));
        assert_eq!(starts.last_before(SPACING_BYTES - 1), Some(at(0)));
        assert_eq!(starts.last_before(2 * SPACING_BYTES + 5), Some(at(2 * SPACING_BYTES)));
        assert_eq!(starts.last_before(u64::MAX), Some(at(3 * SPACING_BYTES)));
    }

    #[test]
    fn memory_is_bounded() {
        let starts = FrameStarts::default();
        for index in 0..10 * STARTS_MAX as u64 {
            starts.note(at(index * SPACING_BYTES));
        }
        assert!(starts.starts.lock().unwrap().len() <= STARTS_MAX);
        assert_eq!(starts.last_before(SPACING_BYTES), Some(at(0)));
    }
}
