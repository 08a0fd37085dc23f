//! Division of the memory budget before anything is read.

use unsnap_arena::OpenSegment;
use unsnap_zstd::{FRAME_HEADER_BYTES_MAX, FrameHeader, FrameStart, SLOT_BYTES_MAX, frame_start};

use crate::{Format, Limits, lz4::header::FrameHeader as Lz4FrameHeader};

const MIB: usize = 1 << 20;

/// Segment size of the streaming engines in bytes. Large enough that the cost per segment (a
/// hand-off, a carry of up to 4 KiB) is negligible, small enough that writing begins early.
const STREAM_SEGMENT_BYTES: usize = 4 * MIB;

/// Memory for all segments when streaming, in bytes. Measured with a prototype: 64 MiB is as fast
/// as 256 MiB for one frame.
const STREAM_SEGMENTS_BYTES: usize = 64 * MIB;

/// Memory for reading ahead when streaming: 16 reads of 1 MiB.
const STREAM_READ_BYTES: usize = 16 * MIB;

/// Memory for a plain tar archive, most of which is passed on as it was read.
const PLAIN_READ_BYTES: usize = 64 * MIB;
const PLAIN_SEGMENT_BYTES: usize = MIB;
const PLAIN_SEGMENTS_BYTES: usize = 16 * MIB;

/// Decoded bytes up to which small frames are decoded in one job.
const JOB_BYTES: usize = 4 * MIB;

/// Minimum number of segments in the pool: the one being filled, the window before it, and one
/// being written.
const SEGMENTS_MIN: usize = 3;

/// Window of its own that libzstd may always allocate, in bytes: `zstd --long=25`.
const OWN_WINDOW_BYTES_MIN: usize = 32 * MIB;

/// Size of Agave's frames in decoded bytes. Workers should get them, although they leave less memory
/// for reading ahead: 24 MiB hold a compressed one beside as many bytes again.
const AGAVE_FRAME_BYTES: usize = 32 * MIB;
const AGAVE_READ_BYTES: usize = 24 * MIB;

/// Smallest budget in bytes.
const BUDGET_BYTES_MIN: usize = MIB;

/// Chunks for each thread of the own decoder, so that all have something to do while one chunk takes
/// long.
const CHUNKS_PER_THREAD: usize = 4;

/// Decoder of zstd frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decoder {
    /// The better one: libzstd, until there is evidence enough for the own decoder.
    #[default]
    Auto,
    /// The own decoder (`unsnap-zstd`), which decodes one frame with all threads. libzstd decodes
    /// frames that one worker decodes as a whole, and those whose window is larger than a segment.
    Own,
    /// libzstd.
    Libzstd,
}

/// The decoder, and sizes chosen by tests and benchmarks; `None` leaves the choice to the plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tuning {
    /// Decoder of zstd frames.
    pub decoder: Decoder,
    /// Number of chunks that the own decoder has in memory at a time.
    pub chunks: Option<usize>,
    /// Most blocks in a chunk.
    pub chunk_blocks_max: Option<usize>,
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
    /// Number of chunks that the own decoder has in memory at a time, outside the arena; 0 without
    /// that decoder.
    pub chunks: usize,
    /// Most blocks in a chunk.
    pub chunk_blocks_max: usize,
    /// Whether the archive is not compressed, so that what was read can be passed on.
    pub is_plain: bool,
    /// Whether the consumer keeps segments until more have come. Frames and blocks that do not
    /// declare their size must not be shared out then: what they could decode to is reserved for
    /// them, so a few bytes that are kept could occupy all of the memory.
    pub is_kept: bool,
    beside_window: BesideWindow,
}

/// What a sufficient budget has beside a window of libzstd's own, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BesideWindow {
    /// Window of the first frame, if the plan leaves room for it.
    first: usize,
    /// Beside a window that is not larger.
    for_first: usize,
    /// Beside any other window.
    for_others: usize,
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
        let chunks_wanted = match tuning.decoder {
            Decoder::Auto | Decoder::Libzstd => 0,
            // A thread alone executes a chunk before it cuts the next.
            Decoder::Own if threads < 2 => 1,
            Decoder::Own => CHUNKS_PER_THREAD * threads,
        };
        let chunks = chunks_wanted.min(budget / 4 / SLOT_BYTES_MAX);
        let budget = budget - chunks * SLOT_BYTES_MAX;
        let chunks = tuning.chunks.filter(|_| tuning.decoder == Decoder::Own).unwrap_or(chunks);
        let first = first_header(head);
        let is_plain = Format::detect(head) == Some(Format::Tar);
        let streaming = threads < 2 || is_streamed(first.as_ref(), head, limits);
        let window = first.map_or(0, |header| header.window_bytes.min(limits.window_bytes_max));
        // More than any machine's memory, and small enough that additions do not overflow.
        let window = usize::try_from(window).unwrap_or(usize::MAX).min(usize::MAX / 8);

        let read_wanted = STREAM_READ_BYTES + if streaming { 0 } else { threads * 16 * MIB };
        let read_bytes = if is_plain {
            PLAIN_READ_BYTES.min(budget / 2)
        } else {
            read_share(read_wanted, budget, streaming)
        };
        let most = budget - read_bytes;
        // Room for the window and one block, so that segments can serve as the window.
        let wanted = (window + 128 * 1024).next_multiple_of(64 * 1024);
        let fits = OpenSegment::footprint(wanted) * SEGMENTS_MIN <= most;
        let usual = if is_plain { PLAIN_SEGMENT_BYTES } else { STREAM_SEGMENT_BYTES };
        let usual = usual.min(most / 8 / 4096 * 4096);
        let by_window = if fits { usual.max(wanted) } else { usual };
        let segment_bytes = tuning.segment_bytes.unwrap_or(by_window);
        let frames_bytes = match (is_plain, streaming) {
            (true, _) => PLAIN_SEGMENTS_BYTES,
            (false, true) => STREAM_SEGMENTS_BYTES,
            (false, false) => Self::default_budget(threads),
        };
        let enough_for = |bytes| frames_bytes.max(4 * OpenSegment::footprint(bytes));
        let mut enough = enough_for(segment_bytes);
        if streaming && !fits {
            // libzstd needs the rest for a window of its own.
            enough = most
                .saturating_sub(window)
                .clamp(SEGMENTS_MIN * OpenSegment::footprint(segment_bytes), enough);
        }
        let segments_bytes = most.min(enough) / 4096 * 4096;
        let others_bytes = read_wanted + chunks_wanted * SLOT_BYTES_MAX;
        // Room for two other segments beside it.
        let frame_footprint_max = segments_bytes / SEGMENTS_MIN / 4096 * 4096;
        let frame_bytes_max = usize::try_from(limits.frame_bytes_max).unwrap_or(usize::MAX);
        let held_bytes = tuning.held_bytes.next_multiple_of(4096);
        Self {
            read_bytes: read_bytes / 4096 * 4096 + if is_plain { held_bytes } else { 0 },
            segments_bytes: segments_bytes + held_bytes,
            segment_bytes: segment_bytes.max(1),
            job_bytes: tuning.segment_bytes.unwrap_or(JOB_BYTES).min(segments_bytes / 4),
            frame_bytes_max: frame_bytes_max.min(frame_footprint_max - OpenSegment::footprint(0)),
            own_window_bytes_max: OWN_WINDOW_BYTES_MIN.max(budget - read_bytes - segments_bytes),
            chunks,
            chunk_blocks_max: tuning.chunk_blocks_max.unwrap_or(usize::MAX),
            is_plain,
            is_kept: held_bytes > 0,
            beside_window: BesideWindow {
                first: if streaming { window } else { 0 },
                for_first: others_bytes
                    + SEGMENTS_MIN * OpenSegment::footprint(STREAM_SEGMENT_BYTES),
                for_others: others_bytes + enough_for(STREAM_SEGMENT_BYTES.max(wanted)),
            },
        }
    }

    /// Returns a budget with which libzstd has room for a window of its own of this size.
    pub fn budget_for_window(&self, window_bytes: usize) -> usize {
        let BesideWindow { first, for_first, for_others } = self.beside_window;
        let beside = if window_bytes <= first { for_first } else { for_others };
        window_bytes.saturating_add(beside).next_multiple_of(MIB)
    }

    /// Returns the most bytes of the decoded stream that are in memory.
    pub fn decoded_bytes_max(&self) -> usize {
        self.segments_bytes + if self.is_plain { self.read_bytes } else { 0 }
    }

    /// Returns the size in bytes of the one reservation that holds everything.
    pub fn total_bytes(&self) -> usize {
        self.read_bytes + self.segments_bytes
    }
}

/// Returns whether an archive with this beginning is streamed: its first frame does not declare its
/// size, or is too large for a worker, or has blocks that depend on each other. An archive of zstd
/// frames whose first one is not known may have frames for workers.
fn is_streamed(first: Option<&FrameHeader>, head: &[u8], limits: &Limits) -> bool {
    if let Some(header) = first {
        return header.content_bytes.is_none_or(|bytes| bytes > limits.frame_bytes_max);
    }
    match Format::detect(head) {
        Some(Format::Zstd) => false,
        Some(Format::Lz4) => {
            !matches!(Lz4FrameHeader::parse(head), Ok(Some(header)) if header.independent)
        }
        Some(Format::Tar) | None => !head.is_empty(),
    }
}

/// Returns the part of the budget for reading ahead.
fn read_share(wanted: usize, budget: usize, streaming: bool) -> usize {
    let share = wanted.min(budget / 4);
    let beside_frames =
        budget.saturating_sub(SEGMENTS_MIN * OpenSegment::footprint(AGAVE_FRAME_BYTES));
    if !streaming && beside_frames >= AGAVE_READ_BYTES { share.min(beside_frames) } else { share }
}

/// Returns the header of the first frame that is not skippable, if `head` reaches that far.
fn first_header(head: &[u8]) -> Option<FrameHeader> {
    let mut rest = head;
    loop {
        match frame_start(&rest[..rest.len().min(FRAME_HEADER_BYTES_MAX)]).ok()? {
            FrameStart::Frame(header) => return Some(header),
            FrameStart::Skippable { bytes } => rest = rest.get(usize::try_from(bytes).ok()?..)?,
            FrameStart::Incomplete | FrameStart::Foreign => return None,
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
    fn agaves_frames_go_to_workers_with_little_more_memory_than_they_need() {
        for budget in [121, 124, 128, 160, 256] {
            let plan = plan(budget * MIB, 2, &FRAMES);
            assert!(plan.frame_bytes_max >= 32 * MIB, "{budget} MiB: {plan:?}");
            assert!(plan.read_bytes >= AGAVE_READ_BYTES, "{budget} MiB: {plan:?}");
            assert!(plan.total_bytes() <= budget * MIB);
        }
        // The first frame is skippable and longer than what is known of the archive.
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18][..], &u32::to_le_bytes(1 << 20)].concat();
        assert!(plan(256 * MIB, 2, &skippable).frame_bytes_max >= 32 * MIB);
    }

    #[test]
    fn the_own_decoder_stays_within_the_budget() {
        let tuning = Tuning { decoder: Decoder::Own, ..Tuning::default() };
        for (threads, chunks) in [(1, 1), (2, 8), (16, 64)] {
            for budget in [MIB, 20 * MIB, 100 * MIB, MemoryPlan::default_budget(threads)] {
                for head in [&ONE_FRAME[..], &FRAMES, &[]] {
                    let limits = Limits::default();
                    let plan = MemoryPlan::new(budget, threads, head, &limits, tuning);
                    let bytes = plan.total_bytes() + plan.chunks * SLOT_BYTES_MAX;
                    assert!(bytes <= budget, "{budget}: {plan:?}");
                    assert!(plan.chunks <= chunks);
                }
            }
            let budget = MemoryPlan::default_budget(threads);
            let plan = MemoryPlan::new(budget, threads, &ONE_FRAME, &Limits::default(), tuning);
            // A quarter of the memory is the most.
            assert_eq!(plan.chunks, chunks.min(budget / 4 / SLOT_BYTES_MAX));
        }
        assert_eq!(plan(MemoryPlan::default_budget(2), 2, &ONE_FRAME).chunks, 0);
    }

    /// Returns whether a frame with this window can be decoded.
    fn decodes(plan: &MemoryPlan, window: usize) -> bool {
        window + 128 * 1024 <= plan.segment_bytes || window <= plan.own_window_bytes_max
    }

    #[test]
    fn archives_of_zstd_long_decode_with_any_number_of_threads() {
        // Window byte 0x88 = 128 MiB, of a frame that declares 500 GB, and of one that does not.
        let declared = [&[0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x88][..], &u64::to_le_bytes(500 << 30)];
        for head in [&declared.concat()[..], &[0x28, 0xb5, 0x2f, 0xfd, 0, 0x88]] {
            for decoder in [Decoder::Libzstd, Decoder::Own] {
                for threads in [1, 2, 3, 5, 6, 16, 256] {
                    let tuning = Tuning { decoder, ..Tuning::default() };
                    let budget = MemoryPlan::default_budget(threads);
                    let plan = MemoryPlan::new(budget, threads, head, &Limits::default(), tuning);
                    assert!(decodes(&plan, 128 * MIB), "{threads} threads: {plan:?}");
                }
            }
        }
    }

    #[test]
    fn the_budget_for_a_window_is_sufficient_whatever_comes_first() {
        let long = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x88];
        for decoder in [Decoder::Libzstd, Decoder::Own] {
            for threads in [1, 2, 8, 64] {
                for head in [&ONE_FRAME[..], &FRAMES, &long, &[]] {
                    for budget in [MIB, 30 * MIB, 100 * MIB, 150 * MIB, 1000 * MIB] {
                        for window in [40 * MIB, 64 * MIB, 128 * MIB] {
                            let tuning = Tuning { decoder, ..Tuning::default() };
                            let limits = Limits::default();
                            let plan =
                                |budget| MemoryPlan::new(budget, threads, head, &limits, tuning);
                            let small = plan(budget);
                            let raised = plan(small.budget_for_window(window));
                            assert!(decodes(&raised, window), "{window}: {small:?} {raised:?}");
                        }
                    }
                }
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
