//! Target for the own zstd decoder in the pipeline.

use unsnap_decode::{DecodeError, Decoder, Format};

use crate::{
    INPUT_BYTES_MAX,
    engines::{Outcome, Setup},
    reference::{self, Reference},
    zstd_own::framed,
};

/// Takes zstd frames, or the parts of one, from which headers are made that fit. The pipeline with the
/// own decoder returns what libzstd returns, or both refuse; in front of damage the bytes are the same.
/// Any number of threads, chunks, and blocks in a chunk returns the same bytes and the same error, word
/// for word. All memory is returned.
///
/// Allowed: limits are checked whenever some blocks have been executed, so setups reach them at different
/// places; the own decoder refuses what libzstd notices only sometimes. See `is_stricter`. Frames whose
/// window does not fit into a segment are libzstd's, and compared by `decode_zstd`.
pub fn decode_own(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    compare(data);
    compare(&framed(data));
}

/// Length of a segment, of which three fit into the memory of a run.
const SEGMENT_BYTES: usize = 700 << 10;

fn compare(stream: &[u8]) {
    if Format::detect(&stream[..stream.len().min(512)]) != Some(Format::Zstd) {
        return;
    }
    let Reference { bytes, good, frames } = reference::zstd(stream);
    let is_large =
        |window_bytes: u64| window_bytes + window_bytes.min(128 << 10) > SEGMENT_BYTES as u64;
    if frames.iter().any(|frame| is_large(frame.window_bytes)) {
        return;
    }
    let [first, others @ ..] = setups().map(|setup| (setup, setup.decode(stream)));
    let ours = first.1;
    let said = |outcome: &Outcome| outcome.result.as_ref().err().map(ToString::to_string);
    for (setup, outcome) in &others {
        let common = outcome.bytes.len().min(ours.bytes.len());
        assert!(outcome.bytes[..common] == ours.bytes[..common], "{setup:?}: the bytes differ");
        if setup.threads > 1 && frames.iter().any(|frame| frame.content_bytes.is_some()) {
            // Workers decode such frames as a whole, by libzstd.
            continue;
        }
        assert_eq!(outcome.is_limit(), ours.is_limit(), "{setup:?}");
        if !ours.is_limit() {
            assert_eq!(said(outcome), said(&ours), "{setup:?}");
            assert_eq!(outcome.bytes.len(), ours.bytes.len(), "{setup:?}");
        }
    }
    if let Ok(summary) = &ours.result {
        assert_eq!(summary.own_frames, summary.frames, "{frames:?}");
    }
    let common = ours.bytes.len().min(bytes.len());
    assert!(ours.bytes[..common] == bytes[..common], "other bytes: {:?}", ours.result);
    match &ours.result {
        Ok(_) => {
            assert!(good, "only we decode it: {frames:?}");
            assert_eq!(ours.bytes.len(), bytes.len());
        }
        Err(error) => assert!(!good || is_stricter(error), "only we refuse it: {error}"),
    }
}

/// Returns whether we may refuse what libzstd decodes in pieces. The target `zstd_own` has the
/// reasons.
fn is_stricter(error: &DecodeError) -> bool {
    let checked_sometimes = [
        "a stream of literals does not hold exactly its symbols",
        "a match begins before the window",
        "the block is larger than its frame permits",
        "the frame declares",
        "the block ends inside its literals",
        "the description of a table of codes is invalid",
        "the description of the Huffman table is invalid",
    ];
    match error {
        DecodeError::Corrupt { reason, .. } => {
            checked_sometimes.iter().any(|reasons| reason.starts_with(reasons))
        }
        // What the test itself limits, and what the pipeline does not support.
        DecodeError::Limit { .. } | DecodeError::Unsupported { .. } => true,
        _ => false,
    }
}

fn setups() -> [Setup; 3] {
    let setup = |threads, span_bytes, chunks, blocks| Setup {
        threads,
        span_bytes,
        segment_bytes: Some(SEGMENT_BYTES),
        decoder: Decoder::Own,
        chunks: Some(chunks),
        chunk_blocks_max: Some(blocks),
    };
    [setup(1, 1 << 20, 1, 1000), setup(1, 60, 2, 1), setup(3, 700, 4, 3)]
}
