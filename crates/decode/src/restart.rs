//! Frame starts, at which decoding can restart.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use crate::Position;

/// Minimum distance of two remembered starts, in decoded bytes. A smaller distance would save a
/// resumed run little, since this much is decoded in milliseconds.
const SPACING_BYTES: u64 = 256 << 10;

/// Most remembered starts. When there are more, every other one is forgotten.
const STARTS_MAX: usize = 1 << 16;

/// Start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameMark {
    /// Position of the start.
    pub at: Position,
    /// Whether decoders skip the frame.
    pub skippable: bool,
}

/// Starts of frames, recorded as decoding passes them. A frame does not depend on earlier frames,
/// so decoding can begin at any of them.
#[derive(Debug, Default)]
pub struct FrameStarts {
    /// Some starts of zstd frames, enough for a restart. Empty for other formats.
    starts: Mutex<VecDeque<Position>>,
    /// Starts of all frames, if requested.
    all: Option<Mutex<Vec<FrameMark>>>,
}

impl FrameStarts {
    /// Creates a record of every frame, at 32 bytes each.
    /// [`Limits::frames_max`](crate::Limits::frames_max) bounds their number.
    pub fn complete() -> Self {
        Self { all: Some(Mutex::default()), ..Self::default() }
    }

    /// Returns whether every frame is recorded.
    pub(crate) fn are_complete(&self) -> bool {
        self.all.is_some()
    }

    /// Takes the starts of all frames passed so far, in order. Empty unless created by
    /// [`complete`](Self::complete).
    pub fn take_all(&self) -> Vec<FrameMark> {
        let all = self.all.as_ref().map(|all| all.lock().unwrap_or_else(PoisonError::into_inner));
        all.map(|mut all| std::mem::take(&mut *all)).unwrap_or_default()
    }

    /// Records the start of a frame of any kind.
    pub(crate) fn mark(&self, at: Position, skippable: bool) {
        if let Some(all) = &self.all {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(FrameMark { at, skippable });
        }
    }

    pub(crate) fn note(&self, at: Position) {
        self.mark(at, false);
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

    /// Returns the last start at or before an offset in the decoded stream; `None` means the
    /// beginning of the archive. Earlier starts are forgotten, so `raw_offset` may only grow from
    /// call to call.
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
    fn all_starts_are_kept_if_requested() {
        let starts = FrameStarts::complete();
        starts.note(at(0));
        starts.note(at(1));
        starts.mark(at(2), true);
        let all = starts.take_all();
        let offsets: Vec<u64> = all.iter().map(|mark| mark.at.raw_offset).collect();
        assert_eq!((offsets, all[2].skippable), (vec![0, 1, 2], true));
        let some = FrameStarts::default();
        some.note(at(0));
        assert_eq!(some.take_all(), []);
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
