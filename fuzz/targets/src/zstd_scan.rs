//! Target for frame and block headers, the plans made from them, and their totals.

use std::num::NonZeroU32;

use unsnap_arena::OpenSegment;
use unsnap_decode::{
    Limits, MemoryPlan, Tuning,
    fuzzing::{block_header, declared_bytes},
};
use unsnap_zstd::{BLOCK_HEADER_BYTES, FRAME_HEADER_BYTES_MAX, FrameStart, frame_start};

use crate::INPUT_BYTES_MAX;

/// Takes a sequence of zstd frames. Headers mean the same as to libzstd, however few of the
/// following bytes are present, and frames have the length that libzstd reports. The memory plan
/// for an archive with this beginning keeps its promises. The walk over all headers, from any set
/// of starting points, gives the total that the frames declare one by one.
///
/// Allowed: libzstd refuses windows above 2 GiB, while the scan leaves that to the limits. The two
/// largest content sizes mean "unknown" and "error" to libzstd, but to us they are sizes (and
/// lies).
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

/// Bytes after a header change nothing, and a truncated header is never mistaken for a whole one.
fn check_prefixes(stream: &[u8]) {
    let whole = frame_start(stream);
    let enough = stream.len().min(FRAME_HEADER_BYTES_MAX);
    assert_eq!(frame_start(&stream[..enough]), whole);
    let mut known = false;
    for length in 0..=enough {
        let start = frame_start(&stream[..length]);
        known |= start != Ok(FrameStart::Incomplete);
        let expected = if known { whole } else { Ok(FrameStart::Incomplete) };
        assert_eq!(start, expected, "with {length} bytes");
        if let (Ok(FrameStart::Frame(header)), true) = (start, known) {
            assert!(header.header_bytes <= length);
        }
    }
}

/// Returns the length of the first frame, if it is complete.
fn check_frame(stream: &[u8]) -> Option<usize> {
    let scanned = scan(stream);
    let theirs = zstd_safe::find_frame_compressed_size(stream).ok();
    let start = frame_start(stream);
    if let Ok(FrameStart::Frame(header)) = start {
        let content = zstd_safe::get_frame_content_size(stream).ok();
        let window_log_31 = header.window_bytes > (1 << 31) + (7 << 28);
        let comparable = header.content_bytes.is_none_or(|bytes| bytes < u64::MAX - 1);
        if !comparable {
            // libzstd's result does not matter.
        } else if window_log_31 && header.header_bytes > 5 {
            // libzstd may refuse to parse the header.
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

/// Returns a frame's length from its headers alone, as the planner computes it.
fn scan(stream: &[u8]) -> Option<usize> {
    let header = match frame_start(stream).ok()? {
        FrameStart::Frame(header) => header,
        FrameStart::Skippable { bytes } => {
            return usize::try_from(bytes).ok().filter(|&bytes| bytes <= stream.len());
        }
        FrameStart::Incomplete | FrameStart::Foreign => return None,
    };
    let mut at = header.header_bytes;
    loop {
        let block = block_header(*stream.get(at..)?.first_chunk()?)?;
        at += BLOCK_HEADER_BYTES + block.stored_bytes();
        if block.last {
            at += if header.has_checksum { 4 } else { 0 };
        }
        if at > stream.len() {
            return None;
        }
        if block.last {
            return Some(at);
        }
    }
}

/// Starting points of a walk besides the beginning. Each costs a thread.
const FOOTHOLDS: usize = 8;

/// Checks that walks from many places give the same total as one walk and as the headers.
fn check_walk(data: &[u8]) {
    let alone = declared_bytes(data, &[]);
    if let Some(bytes) = alone {
        assert_eq!(Some(bytes), declared_one_by_one(data));
    }
    // Distances come from the input, so that mutations change them.
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
    // Also from places where frames were seen to begin their first blocks.
    let mut footholds = Vec::new();
    let mut at = 0;
    while let (Some(bytes), true) = (scan(&data[at..]), footholds.len() < FOOTHOLDS) {
        if let Ok(FrameStart::Frame(header)) = frame_start(&data[at..]) {
            footholds.push((at + header.header_bytes) as u64);
        }
        at += bytes;
    }
    let found = declared_bytes(data, &footholds);
    assert!(found.is_none() || found == alone, "from {footholds:?} as well");
}

/// Returns the total that frames declare, if there is nothing else.
fn declared_one_by_one(mut data: &[u8]) -> Option<u64> {
    let mut sum = 0_u64;
    while !data.is_empty() {
        if let FrameStart::Frame(header) = frame_start(data).ok()? {
            // A frame without a declared size must be empty if the walk returns a total.
            sum = sum.checked_add(header.content_bytes.unwrap_or(0))?;
        }
        data = data.get(scan(data)?..)?;
    }
    Some(sum)
}

/// Checks that any budget gives a working plan, whatever the archive begins with.
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
