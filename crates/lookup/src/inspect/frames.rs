//! The frames of an archive, by whatever tells them soonest.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use serde::Serialize;
use unsnap_decode::{FrameContent, ReadAt, WalkEnd, walk_frames};
use unsnap_index::{FrameTable, Index, TableSource};
use unsnap_pass::{Anywhere, CancelToken, IndexUse, SeekTableFound, seek_table};
use unsnap_source::ArchiveFile;

use super::WhatToInspect;

/// How long headers are walked, if the archive has neither index nor seek table: each block of it costs a
/// read. Enough for some frames, or for all of a small archive.
const WALK_TIME: Duration = Duration::from_millis(100);

/// How far, for the kernel reads ahead of such a walk, and so all of it: three frames of 32 MiB.
const WALK_BYTES: u64 = 24 << 20;

/// Bytes of a read of that walk.
const WALK_READ_BYTES: usize = 4096;

/// The frames of an archive.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FrameFacts {
    /// Where this is from: `side-car`, `seek table`, or `headers`.
    pub source: &'static str,
    /// Whether all frames were seen.
    pub complete: bool,
    /// Frames that were seen, skippable ones not counted.
    pub frames: u64,
    /// Skippable frames that were seen.
    pub skippable_frames: u64,
    /// How many frames there are in all, extrapolated from those seen.
    pub estimated_frames: Option<u64>,
    /// Bytes of the archive that frames take: the smallest, the largest, and all together.
    pub bytes: Sizes,
    /// Bytes they decode to; without those that do not say.
    pub raw_bytes: Sizes,
    /// Frames that do not say how much they decode to.
    pub undeclared: u64,
}

/// Sizes of several things.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sizes {
    /// The smallest.
    pub smallest: u64,
    /// The largest.
    pub largest: u64,
    /// All together.
    pub sum: u64,
}

impl Sizes {
    fn add(&mut self, bytes: u64, is_first: bool) {
        self.smallest = if is_first { bytes } else { self.smallest.min(bytes) };
        self.largest = self.largest.max(bytes);
        self.sum = self.sum.saturating_add(bytes);
    }
}

impl FrameFacts {
    fn add(&mut self, bytes: u64, content: FrameContent) {
        if content == FrameContent::Skippable {
            self.skippable_frames += 1;
            return;
        }
        self.bytes.add(bytes, self.frames == 0);
        match content {
            FrameContent::Declared(raw) => {
                self.raw_bytes.add(raw, self.frames == self.undeclared);
            }
            FrameContent::Undeclared | FrameContent::Skippable => self.undeclared += 1,
        }
        self.frames += 1;
    }

    fn of_table(table: &FrameTable, source: TableSource) -> Self {
        let mut facts = Self { source: source.name(), complete: true, ..Self::default() };
        for frame in table.frames() {
            let declared = FrameContent::Declared(frame.raw_bytes);
            facts
                .add(frame.bytes, if frame.skippable { FrameContent::Skippable } else { declared });
        }
        facts
    }

    /// By headers, as far as there is time.
    fn of_headers(
        archive: &dyn ReadAt,
        archive_bytes: u64,
        walk_bytes: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Self {
        let mut facts = Self { source: TableSource::Headers.name(), ..Self::default() };
        let mut passed = 0;
        let end = walk_frames(archive, archive_bytes, WALK_READ_BYTES, go_on, &mut |frame| {
            facts.add(frame.bytes, frame.content);
            passed = frame.offset + frame.bytes;
            let is_last = passed == archive_bytes;
            if passed < walk_bytes || is_last {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        facts.complete = end == WalkEnd::Complete;
        if !facts.complete && passed > 0 {
            let estimate =
                u128::from(facts.frames) * u128::from(archive_bytes) / u128::from(passed);
            facts.estimated_frames = u64::try_from(estimate).ok();
        }
        facts
    }
}

/// The frames, by what there is: index, seek table, headers.
pub fn frames(
    file: &ArchiveFile,
    wanted: IndexUse,
    index: Option<&Index>,
    what: WhatToInspect,
    cancel: &CancelToken,
) -> (FrameFacts, Option<TableSource>) {
    let (archive, bytes) = (Anywhere(file), file.size());
    let table = match seek_table(file, wanted) {
        SeekTableFound::Some(table) => Some(table),
        SeekTableFound::None | SeekTableFound::Ignored(_) => None,
    };
    let source = table.is_some().then_some(TableSource::SeekTable);
    if let Some(index) = index {
        let facts = FrameFacts::of_table(&index.frames, TableSource::SideCar);
        return (facts, source.or(Some(TableSource::SideCar)));
    }
    if let Some(table) = &table {
        return (FrameFacts::of_table(table, TableSource::SeekTable), source);
    }
    let since = Instant::now();
    let go_on = || !cancel.is_cancelled() && (what.frames || since.elapsed() < WALK_TIME);
    let walk_bytes = if what.frames { u64::MAX } else { WALK_BYTES };
    (FrameFacts::of_headers(&archive, bytes, walk_bytes, &go_on), None)
}
