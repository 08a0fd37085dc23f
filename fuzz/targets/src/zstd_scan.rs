//! Frame and block headers, what is planned by them, and what they add up to.

use std::num::NonZeroU32;

use unsnap_arena::OpenSegment;
use unsnap_decode::{
    Limits, MemoryPlan, Tuning,
    fuzzing::{
        BLOCK_HEADER_BYTES, FRAME_HEADER_BYTES_MAX, FrameStart, FrameStartError, block_header,
        declared_bytes, frame_start,
    },
};

use crate::INPUT_BYTES_MAX;

/// A sequence of zstd frames. Headers mean what they mean to libzstd, however little of what
/// follows is there; frames are as long as libzstd says. The memory plan for an archive that begins
/// like this keeps its promises. What the walk over all headers adds up to is what the frames one after
/// the other declare, from wherever else it set out.
///
/// Allowed: libzstd refuses windows beyond 2 GiB, the scan leaves that to the limits; the two largest
/// content sizes mean "unknown" and "error" to libzstd, to us they are sizes (and lies).
pub fn zstd_scan(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    check_plan(data);
    check_walk(data);
    let mut rest = data;
    loop {
        check_prefixes(rest);
        let Some(length) = check_frame(rest) else { break };
        assert!(length > 0);
        rest = &rest[length..];
        if rest.is_empty() {
            break;
        }
    }
}

/// More bytes than a header has change nothing, fewer are never mistaken for a header.
fn check_prefixes(stream: &[u8]) {
    let whole = frame_start(stream);
    let enough = stream.len().min(FRAME_HEADER_BYTES_MAX);
    assert_eq!(frame_start(&stream[..enough]), whole);
    let mut known = false;
    for length in 0..=enough {
        let start = frame_start(&stream[..length]);
        known |= start != Err(FrameStartError::Incomplete);
        let expected = if known { whole } else { Err(FrameStartError::Incomplete) };
        assert_eq!(start, expected, "with {length} bytes");
        if let (Ok(FrameStart::Zstd(header)), true) = (start, known) {
            assert!(header.header_bytes <= length);
        }
    }
}

/// The length of the frame at the beginning, if it is one and whole.
fn check_frame(stream: &[u8]) -> Option<usize> {
    let scanned = scan(stream);
    let theirs = zstd_safe::find_frame_compressed_size(stream).ok();
    let start = frame_start(stream);
    if let Ok(FrameStart::Zstd(header)) = start {
        let content = zstd_safe::get_frame_content_size(stream).ok();
        let window_log_31 = header.window_bytes > (1 << 31) + (7 << 28);
        let comparable = header.content_bytes.is_none_or(|bytes| bytes < u64::MAX - 1);
        if !comparable {
            // Whatever libzstd makes of it.
        } else if window_log_31 && header.header_bytes > 5 {
            // libzstd may refuse to look at the header.
            assert!(content.is_none_or(|content| content == header.content_bytes));
        } else {
            assert_eq!(content, Some(header.content_bytes));
            assert_eq!(scanned, theirs, "{header:?}");
        }
        let dictionary = zstd_safe::get_dict_id_from_frame(stream).map_or(0, NonZeroU32::get);
        assert!(dictionary == header.dictionary || content.is_none());
        assert!(header.header_bytes <= FRAME_HEADER_BYTES_MAX);
        assert!(header.block_bytes_max() <= 128 << 10);
    } else {
        assert_eq!(scanned, theirs, "{start:?}");
    }
    scanned
}

/// A frame's length by its headers alone, the way the planner passes it.
fn scan(stream: &[u8]) -> Option<usize> {
    let header = match frame_start(stream).ok()? {
        FrameStart::Zstd(header) => header,
        FrameStart::Skippable { bytes } => {
            return usize::try_from(bytes).ok().filter(|&bytes| bytes <= stream.len());
        }
    };
    let mut at = header.header_bytes;
    loop {
        let (bytes, last) = block_header(*stream.get(at..)?.first_chunk()?)?;
        at += BLOCK_HEADER_BYTES + usize::try_from(bytes).ok()?;
        if last {
            at += if header.has_checksum { 4 } else { 0 };
        }
        if at > stream.len() {
            return None;
        }
        if last {
            return Some(at);
        }
    }
}

/// Footholds of a walk beside the beginning: each costs a thread.
const FOOTHOLDS: usize = 8;

/// What walks from many places tell is what one walk tells, which is what the headers say.
fn check_walk(data: &[u8]) {
    let alone = declared_bytes(data, &[]);
    if let Some(bytes) = alone {
        assert_eq!(Some(bytes), declared_one_by_one(data));
    }
    // As far apart as the bytes say, so that mutations move them.
    let strides = data.iter().map(|byte| 1 + usize::from(*byte) % 61);
    let places = strides.scan(0, |at, stride| {
        *at += stride;
        Some(*at as u64)
    });
    let footholds: Vec<u64> =
        places.take_while(|at| *at < data.len() as u64).take(FOOTHOLDS).collect();
    if let Some(bytes) = declared_bytes(data, &footholds) {
        assert_eq!(Some(bytes), alone, "from {footholds:?} as well");
    }
    // And from where frames have been seen to begin their first blocks.
    let mut footholds = Vec::new();
    let mut at = 0;
    while let (Some(bytes), true) = (scan(&data[at..]), footholds.len() < FOOTHOLDS) {
        if let Ok(FrameStart::Zstd(header)) = frame_start(&data[at..]) {
            footholds.push((at + header.header_bytes) as u64);
        }
        at += bytes;
    }
    let found = declared_bytes(data, &footholds);
    assert!(found.is_none() || found == alone, "from {footholds:?} as well");
}

/// The sum of what frames declare, if nothing else is there.
fn declared_one_by_one(mut data: &[u8]) -> Option<u64> {
    let mut sum = 0_u64;
    while !data.is_empty() {
        if let FrameStart::Zstd(header) = frame_start(data).ok()? {
            // A frame that declares nothing must be empty, where the walk tells a sum.
            sum = sum.checked_add(header.content_bytes.unwrap_or(0))?;
        }
        data = data.get(scan(data)?..)?;
    }
    Some(sum)
}

/// Any budget gives a plan that works, whatever the archive begins with.
fn check_plan(data: &[u8]) {
    let head = &data[..data.len().min(512)];
    for budget in [0, 1 << 20, 5 << 20, 100 << 20, 1 << 34] {
        for threads in [1, 2, 64] {
            let limits = Limits::default();
            let plan = MemoryPlan::new(budget, threads, head, &limits, Tuning::default());
            assert!(plan.total_bytes() <= budget.max(MemoryPlan::budget_min()), "{plan:?}");
            assert!(plan.read_bytes >= 4096 && plan.read_bytes.is_multiple_of(4096), "{plan:?}");
            assert_eq!(plan.segments_bytes % 4096, 0, "{plan:?}");
            for bytes in [plan.segment_bytes, plan.job_bytes, plan.frame_bytes_max] {
                let three = OpenSegment::footprint(bytes) * 3;
                assert!(bytes > 0 && three <= plan.segments_bytes, "{bytes} of {plan:?}");
            }
        }
    }
}
