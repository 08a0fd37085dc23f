//! Plan that turns requested ranges of the decoded stream into reads of the archive.

use std::ops::Range;

use crate::{Encoding, FrameTable, IndexError};

const MIB: u64 = 1 << 20;

/// Largest read that combines neighbours. A frame of 32 MiB takes some 10 MB.
const READ_BYTES_MAX: u64 = 16 * MIB;

/// Decoded bytes of small frames that are combined, so that handing them from thread to thread
/// costs little. As in the pipeline.
const BATCH_RAW_BYTES_MAX: u64 = 64 * MIB;

/// Frames up to this size, compressed and decoded, are decoded as a whole: `frame_bytes_max` in the
/// limits of decoding. Larger ones are streamed.
const WHOLE_FRAME_BYTES_MAX: u64 = 128 * MIB;

/// Part of a plain tar that is read by itself.
const PLAIN_BYTES: u64 = 4 * MIB;

/// The unit of decoding: a frame, or a part of a plain tar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Index of the frame.
    pub frame: usize,
    /// Its range in the archive and in the decoded stream.
    pub extent: Range<u64>,
    pub raw: Range<u64>,
}

/// Units that are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Range to read, including the gaps between units.
    pub extent: Range<u64>,
    pub units: Range<usize>,
    /// Whether this is one frame that is too large to hold in memory.
    pub streamed: bool,
    /// Bytes of memory for the read and for its decoded data.
    pub cost: u64,
}

/// The reads, and the requested ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Ranges of the decoded stream, in order and not touching.
    pub wanted: Vec<Range<u64>>,
    pub units: Vec<Unit>,
    pub batches: Vec<Batch>,
    /// Bytes between units that are read because skipping them would take longer.
    pub gap_bytes: u64,
    /// Number of reads saved that way.
    pub reads_saved: u64,
}

impl Plan {
    /// Creates a plan. Units at most `gap_bytes_max` apart are read together.
    pub fn new(
        table: &FrameTable,
        ranges: &[Range<u64>],
        gap_bytes_max: u64,
    ) -> Result<Self, IndexError> {
        let wanted = in_order(table, ranges)?;
        let mut units: Vec<Unit> = Vec::new();
        for range in &wanted {
            if table.encoding() == Encoding::Plain {
                let pieces = cut(range, PLAIN_BYTES);
                units.extend(pieces.map(|raw| Unit { frame: 0, extent: raw.clone(), raw }));
                continue;
            }
            for number in table.holding(range) {
                let Some(frame) = table.frames().get(number) else { continue };
                let is_new = units.last().is_none_or(|last| last.frame != number);
                if frame.raw_bytes > 0 && is_new {
                    let (extent, raw) = (frame.extent(), frame.raw_extent());
                    units.push(Unit { frame: number, extent, raw });
                }
            }
        }
        let mut plan =
            Self { wanted, units: Vec::new(), batches: Vec::new(), gap_bytes: 0, reads_saved: 0 };
        for (index, unit) in units.iter().enumerate() {
            plan.add(index, unit, gap_bytes_max);
        }
        plan.units = units;
        Ok(plan)
    }

    fn add(&mut self, index: usize, unit: &Unit, gap_bytes_max: u64) {
        let (bytes, raw_bytes) = (length(&unit.extent), length(&unit.raw));
        let streamed = bytes.max(raw_bytes) > WHOLE_FRAME_BYTES_MAX;
        if let Some(batch) = self.batches.last_mut().filter(|last| !last.streamed && !streamed) {
            let gap = unit.extent.start.saturating_sub(batch.extent.end);
            let read = unit.extent.end - batch.extent.start;
            let cost = batch.cost + gap + bytes + raw_bytes;
            if gap <= gap_bytes_max && read <= READ_BYTES_MAX && cost - read <= BATCH_RAW_BYTES_MAX
            {
                self.gap_bytes += gap;
                self.reads_saved += u64::from(gap > 0);
                batch.extent.end = unit.extent.end;
                batch.units.end = index + 1;
                batch.cost = cost;
                return;
            }
        }
        let cost = if streamed { 0 } else { bytes + raw_bytes };
        let (extent, units) = (unit.extent.clone(), index..index + 1);
        self.batches.push(Batch { extent, units, streamed, cost });
    }

    /// Returns the requested parts of a range of the decoded stream.
    pub fn wanted_of(&self, raw: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let from = self.wanted.partition_point(|wanted| wanted.end <= raw.start);
        let (start, end) = (raw.start, raw.end);
        let within = self.wanted[from..].iter().take_while(move |wanted| wanted.start < end);
        within.map(move |wanted| wanted.start.max(start)..wanted.end.min(end))
    }
}

/// Sorts ranges and merges those that touch.
fn in_order(table: &FrameTable, ranges: &[Range<u64>]) -> Result<Vec<Range<u64>>, IndexError> {
    let mut ranges: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut wanted: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match wanted.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => wanted.push(range),
        }
    }
    let raw_bytes = table.raw_bytes();
    match wanted.last() {
        Some(last) if last.end > raw_bytes => {
            Err(IndexError::OutOfRange { offset: last.end - 1, raw_bytes })
        }
        _ => Ok(wanted),
    }
}

fn cut(range: &Range<u64>, bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = *range;
    let count = length(range).div_ceil(bytes);
    (0..count).map(move |piece| {
        let start = start + piece * bytes;
        start..(start + bytes).min(end)
    })
}

pub(crate) fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    /// Frames of 100 decoded bytes that take 10 each, every other one skippable.
    fn table() -> FrameTable {
        let mut table = FrameTable::new(Encoding::Zstd);
        for index in 0..20 {
            table.push(10, (index % 2 == 0).then_some(100)).unwrap();
        }
        table
    }

    fn plan(ranges: &[Range<u64>], gap: u64) -> Plan {
        Plan::new(&table(), ranges, gap).unwrap()
    }

    fn extents(plan: &Plan) -> Vec<Range<u64>> {
        plan.batches.iter().map(|batch| batch.extent.clone()).collect()
    }

    #[test]
    fn neighbours_are_read_together() {
        let wanted = [50..250, 600..601, 900..1000];
        let apart = plan(&wanted, 0);
        assert_eq!(extents(&apart), [0..10, 20..30, 40..50, 120..130, 180..190]);
        assert_eq!((apart.gap_bytes, apart.reads_saved), (0, 0));
        let near = plan(&wanted, 10);
        assert_eq!(extents(&near), [0..50, 120..130, 180..190]);
        assert_eq!((near.gap_bytes, near.reads_saved), (20, 2));
        let all = plan(&wanted, 100);
        assert_eq!(extents(&all), vec![0..190; 1]);
        assert_eq!((all.gap_bytes, all.reads_saved), (190 - 50, 4));
        assert_eq!(all.units.len(), 5);
    }

    #[test]
    fn ranges_are_put_in_order_and_together() {
        let plan = plan(&[300..310, 5..5, 10..20, 15..30, 30..40], 0);
        assert_eq!(plan.wanted, [10..40, 300..310]);
        let of = |raw: Range<u64>| plan.wanted_of(&raw).collect::<Vec<_>>();
        assert_eq!(of(0..100), vec![10..40; 1]);
        assert_eq!(of(20..305), [20..40, 300..305]);
        assert_eq!(of(100..200), [] as [Range<u64>; 0]);
        let beyond = 0..1001;
        assert!(Plan::new(&table(), slice::from_ref(&beyond), 0).is_err());
    }

    #[test]
    fn reads_are_bounded_and_large_frames_are_streamed() {
        let mut table = FrameTable::new(Encoding::Zstd);
        for _ in 0..10 {
            table.push(6 << 20, Some(30 << 20)).unwrap();
        }
        table.push(1 << 20, Some(1 << 40)).unwrap();
        let all = 0..table.raw_bytes();
        let plan = Plan::new(&table, slice::from_ref(&all), 0).unwrap();
        let (last, others) = plan.batches.split_last().unwrap();
        assert!(last.streamed && others.iter().all(|batch| !batch.streamed));
        assert!(others.iter().all(|batch| length(&batch.extent) <= READ_BYTES_MAX));
        assert_eq!(others.len(), 5);
    }

    #[test]
    fn only_requested_parts_of_a_plain_tar_are_read() {
        let table = FrameTable::plain(100 << 20);
        let plan = Plan::new(&table, &[512..1024, 50 << 20..60 << 20], 0).unwrap();
        let bytes: u64 = plan.batches.iter().map(|batch| length(&batch.extent)).sum();
        assert_eq!(bytes, 512 + (10 << 20));
    }
}
