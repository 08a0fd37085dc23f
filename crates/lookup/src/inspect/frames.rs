//! Facts about the frames of an archive, from the fastest source.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use serde::Serialize;
use unsnap_decode::{DecodeSummary, Format, FrameContent, FrameMark, ReadAt, WalkEnd, walk_frames};
use unsnap_index::{Encoding, FrameTable, Index, TableSource};
use unsnap_pass::{Anywhere, CancelToken, IndexUse, SeekTableFound, seek_table};
use unsnap_source::ArchiveFile;

use super::scope::WhatToInspect;

/// Time limit for walking headers, if the archive has neither index nor seek table: each block
/// costs a read. Enough for some frames, or for all of a small archive.
const WALK_TIME: Duration = Duration::from_millis(100);

/// Part of the archive that is walked. The kernel reads ahead of such a walk, and so reads all of
/// it: three frames of 32 MiB.
const WALK_BYTES: u64 = 24 << 20;

/// Size of a read of that walk in bytes.
const WALK_READ_BYTES: usize = 4096;

/// Source of facts that a pass over an archive on a server has found.
const PASS: &str = "pass";

/// Facts about the frames of an archive.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FrameFacts {
    /// Source of the facts: `side-car`, `seek table` or `headers`, or `pass` if they were found while
    /// the archive was received from a server.
    pub source: &'static str,
    /// Whether all frames were found. If not, time was up, or `damage` says why.
    pub complete: bool,
    /// Damage that ended the search; `None` if there was none, or if time was up before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<FrameDamage>,
    /// Number of frames found, without skippable ones.
    pub frames: u64,
    /// Number of skippable frames found.
    pub skippable_frames: u64,
    /// Estimated total number of frames, if not all were found.
    pub estimated_frames: Option<u64>,
    /// Compressed sizes of frames.
    pub bytes: Sizes,
    /// Decoded sizes of frames that declare them.
    pub raw_bytes: Sizes,
    /// Number of frames that do not declare their decoded size.
    pub undeclared: u64,
}

/// Damage among the headers of frames and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FrameDamage {
    /// Offset in the archive at which it was found, in bytes.
    pub offset: u64,
    /// Whether the archive ends inside a frame. Otherwise a header is invalid.
    pub is_cut: bool,
}

/// Sizes of several things.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sizes {
    /// The smallest.
    pub smallest: u64,
    /// The largest.
    pub largest: u64,
    /// Sum of all.
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

    fn of_table(table: &FrameTable, source: &'static str) -> Self {
        let mut facts = Self { source, complete: true, ..Self::default() };
        for frame in table.frames() {
            let declared = FrameContent::Declared(frame.raw_bytes);
            facts
                .add(frame.bytes, if frame.skippable { FrameContent::Skippable } else { declared });
        }
        facts
    }

    /// Returns what is known of the frames of an archive on a server before it is received: nothing.
    pub fn unseen() -> Self {
        Self { source: PASS, ..Self::default() }
    }

    /// Returns the facts that a pass over the whole archive has found.
    pub fn of_pass(marks: &[FrameMark], summary: Option<&DecodeSummary>) -> Self {
        let Some(DecodeSummary { bytes_read, bytes_decoded, format, .. }) = summary else {
            return Self::unseen();
        };
        let encoding = match format {
            Some(Format::Zstd) => Encoding::Zstd,
            Some(Format::Lz4) => Encoding::Lz4,
            // It has none.
            Some(Format::Tar) | None => return Self { complete: true, ..Self::unseen() },
        };
        // The pass itself has proven the archive; contradictions are impossible.
        let table = FrameTable::of_marks(encoding, marks, *bytes_read, *bytes_decoded);
        table.map_or_else(|_| Self::unseen(), |table| Self::of_table(&table, PASS))
    }

    /// Walks headers until `go_on` returns false or `walk_bytes` are reached.
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
        if let WalkEnd::Damaged { offset, is_cut } = end {
            facts.damage = Some(FrameDamage { offset, is_cut });
        }
        if !facts.complete && passed > 0 {
            let estimate =
                u128::from(facts.frames) * u128::from(archive_bytes) / u128::from(passed);
            facts.estimated_frames = u64::try_from(estimate).ok();
        }
        facts
    }
}

/// Returns facts about the frames, from the index, the seek table or the headers, whichever exists
/// first.
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
        let facts = FrameFacts::of_table(&index.frames, TableSource::SideCar.name());
        return (facts, source.or(Some(TableSource::SideCar)));
    }
    if let Some(table) = &table {
        return (FrameFacts::of_table(table, TableSource::SeekTable.name()), source);
    }
    let since = Instant::now();
    let go_on = || !cancel.is_cancelled() && (what.frames || since.elapsed() < WALK_TIME);
    let walk_bytes = if what.frames { u64::MAX } else { WALK_BYTES };
    (FrameFacts::of_headers(&archive, bytes, walk_bytes, &go_on), None)
}
