//! Division of the memory budget before anything is read.

use crate::{
    Limits,
    frame::{FRAME_HEADER_BYTES_MAX, FrameHeader, FrameStart, frame_start},
};
use unsnap_arena::OpenSegment;

const MIB: usize = 1 << 20;

/// Segment size of the streaming engines in bytes. Large enough that the cost per segment (a
/// hand-off, a carry of up to 4 KiB) is negligible, small enough that writing begins early.
const STREAM_SEGMENT_BYTES: usize = 4 * MIB;

/// Memory for all segments when streaming, in bytes. Measured with a prototype: 64 MiB is as fast
/// as 256 MiB for one frame.
const STREAM_SEGMENTS_BYTES: usize = 64 * MIB;

/// Memory for reading ahead when streaming: 16 reads of 1 MiB.
const STREAM_READ_BYTES: usize = 16 * MIB;

/// Decoded bytes up to which small frames are decoded in one job.
const JOB_BYTES: usize = 4 * MIB;

/// Minimum number of segments in the pool: the one being filled, the window before it, and one
/// being written.
const SEGMENTS_MIN: usize = 3;

/// Smallest budget in bytes.
const BUDGET_BYTES_MIN: usize = MIB;

/// Sizes chosen by tests and benchmarks; `None` leaves the choice to the plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tuning {
    /// Bytes of a streaming segment and of a job of small frames.
    pub segment_bytes: Option<usize>,
    /// Bytes of one read.
    pub chunk_bytes: Option<usize>,
    /// Bytes of segments that the consumer of the decoded stream may hold while it waits for more.
    /// They come on top of the budget. Default: 0.
    pub held_bytes: usize,
}

/// Division of the memory budget between reading ahead and decoded segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Memory for compressed bytes, in bytes.
    pub read_bytes: usize,
    /// Memory for segments in bytes, headroom included.
    pub segments_bytes: usize,
    /// Decoded bytes in a segment of the streaming engines.
    pub segment_bytes: usize,
    /// Decoded bytes up to which small frames are decoded in one job.
    pub job_bytes: usize,
    /// Largest frame that is decoded as a whole, in decoded bytes.
    pub frame_bytes_max: usize,
    /// Largest window in bytes that libzstd may allocate itself, outside the arena.
    pub own_window_bytes_max: usize,
}

impl MemoryPlan {
    /// Returns the budget for `threads` decoding threads: 128 MiB plus 64 MiB per thread.
    pub fn default_budget(threads: usize) -> usize {
        128 * MIB + threads.clamp(1, 256) * 64 * MIB
    }

    /// Returns the smallest budget that works, in bytes.
    pub fn budget_min() -> usize {
        BUDGET_BYTES_MIN
    }

    /// Divides `budget` bytes for an archive that begins with `head` (empty if unknown). An archive
    /// whose first frame does not declare its size is expected to be streamed, which needs little
    /// memory however large the budget is.
    pub fn new(
        budget: usize,
        threads: usize,
        head: &[u8],
        limits: &Limits,
        tuning: Tuning,
    ) -> Self {
        let budget = budget.max(BUDGET_BYTES_MIN);
        let first = first_header(head);
        let streaming = threads < 2
            || first.is_some_and(|header| header.content_bytes.is_none())
            || (first.is_none() && !head.is_empty());
        let window = first.map_or(0, |header| header.window_bytes.min(limits.window_bytes_max));
        // More than any machine's memory, and small enough that additions do not overflow.
        let window = usize::try_from(window).unwrap_or(usize::MAX).min(usize::MAX / 8);

        let read_bytes = if streaming {
            STREAM_READ_BYTES.min(budget / 4)
        } else {
            (STREAM_READ_BYTES + threads * 16 * MIB).min(budget / 4)
        };
        let most = budget - read_bytes;
        let segment_bytes = tuning.segment_bytes.unwrap_or_else(|| {
            // Room for the window and one block, so that segments can serve as the window.
            let wanted = (window + 128 * 1024).next_multiple_of(64 * 1024);
            let fits = OpenSegment::footprint(wanted) * SEGMENTS_MIN <= most;
            let usual = STREAM_SEGMENT_BYTES.min(most / 8 / 4096 * 4096);
            if fits { usual.max(wanted) } else { usual }
        });
        let segments_bytes = if streaming {
            let enough = STREAM_SEGMENTS_BYTES.max(4 * OpenSegment::footprint(segment_bytes));
            most.min(enough)
        } else {
            most
        };
        let segments_bytes = segments_bytes / 4096 * 4096;
        // Room for two other segments beside it.
        let frame_footprint_max = segments_bytes / SEGMENTS_MIN / 4096 * 4096;
        let frame_bytes_max = usize::try_from(limits.frame_bytes_max).unwrap_or(usize::MAX);
        Self {
            read_bytes: read_bytes / 4096 * 4096,
            segments_bytes: segments_bytes + tuning.held_bytes.next_multiple_of(4096),
            segment_bytes: segment_bytes.max(1),
            job_bytes: tuning.segment_bytes.unwrap_or(JOB_BYTES).min(segments_bytes / 4),
            frame_bytes_max: frame_bytes_max.min(frame_footprint_max - OpenSegment::footprint(0)),
            own_window_bytes_max: (32 * MIB).max(budget - read_bytes - segments_bytes),
        }
    }

    /// Returns the size in bytes of the one reservation that holds everything.
    pub fn total_bytes(&self) -> usize {
        self.read_bytes + self.segments_bytes
    }
}

/// Returns the header of the first frame that is not skippable, if `head` reaches that far.
fn first_header(head: &[u8]) -> Option<FrameHeader> {
    let mut rest = head;
    loop {
        match frame_start(&rest[..rest.len().min(FRAME_HEADER_BYTES_MAX)]).ok()? {
            FrameStart::Zstd(header) => return Some(header),
            FrameStart::Skippable { bytes } => rest = rest.get(usize::try_from(bytes).ok()?..)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_FRAME: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x48];
    const FRAMES: [u8; 10] = [0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x48, 0, 0, 0, 2];

    fn plan(budget: usize, threads: usize, head: &[u8]) -> MemoryPlan {
        MemoryPlan::new(budget, threads, head, &Limits::default(), Tuning::default())
    }

    #[test]
    fn one_frame_needs_little_memory_whatever_the_budget() {
        let plan = plan(4 << 30, 8, &ONE_FRAME);
        assert_eq!((plan.read_bytes, plan.segments_bytes), (16 * MIB, 64 * MIB));
        assert_eq!(plan.segment_bytes, 4 * MIB);
    }

    #[test]
    fn frames_get_the_whole_budget_and_three_of_them_fit() {
        for threads in [2, 8, 64] {
            let budget = MemoryPlan::default_budget(threads);
            let plan = plan(budget, threads, &FRAMES);
            assert!(plan.total_bytes() <= budget);
            assert!(plan.frame_bytes_max >= 32 * MIB, "{threads} threads: {plan:?}");
            assert!(OpenSegment::footprint(plan.frame_bytes_max) * 3 <= plan.segments_bytes);
        }
    }

    #[test]
    fn any_budget_gives_a_plan_that_works() {
        for budget in [0, MIB, 3 * MIB, 20 * MIB, 100 * MIB, 1 << 34] {
            for head in [&ONE_FRAME[..], &FRAMES, &[]] {
                let plan = plan(budget, 2, head);
                assert!(plan.total_bytes() <= budget.max(BUDGET_BYTES_MIN), "{budget} {plan:?}");
                assert!(OpenSegment::footprint(plan.segment_bytes) * 3 <= plan.segments_bytes);
                assert!(OpenSegment::footprint(plan.job_bytes) * 3 <= plan.segments_bytes);
                assert!(plan.read_bytes >= 4096);
            }
        }
    }

    #[test]
    fn a_large_window_gets_large_segments_if_the_budget_allows() {
        // Window byte 0x68 = 8 MiB, as `zstd -19` writes.
        let head = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x68];
        assert!(plan(256 * MIB, 2, &head).segment_bytes >= 8 * MIB + 128 * 1024);
        assert!(plan(16 * MIB, 2, &head).segment_bytes < 8 * MIB);
    }
}
