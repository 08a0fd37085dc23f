//! Target for zstd, end to end, with every engine.

use unsnap_decode::{DecodeError, Format};
use unsnap_zstd::{FrameStart, frame_start};

use crate::{
    INPUT_BYTES_MAX,
    engines::{Outcome, Setup},
    reference::{self, Frame, Reference},
};

/// Takes an archive of zstd frames, or any bytes except lz4.
///
/// The engines (streaming in place, in place with the shortest possible segments, through libzstd's
/// own window, frame-parallel) and libzstd's streaming interface return the same bytes, or all
/// refuse. Our engines refuse for the same kind of reason at the same frame.
///
/// Allowed:
///
/// * **limits**: we refuse what exceeds our limits, and engines notice it at different places;
/// * **lies**: libzstd does not compare the declared content size if the last block is empty, we
///   do;
/// * **window**: in a frame whose content exceeds its window, a match may refer to bytes before the
///   window. Decoders that still hold these bytes may accept the match, others refuse it or, in
///   libzstd's ring buffer, find other bytes. Frames before it must agree, and so must engines that
///   keep segments (they have the bytes of the stream or refuse).
pub fn decode_zstd(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    let format = Format::detect(&data[..data.len().min(512)]);
    match format {
        Some(Format::Lz4) => return,
        Some(Format::Zstd) => {}
        // There is nothing to decode.
        Some(Format::Tar) | None => {
            let setup = Setup {
                threads: 2,
                span_bytes: 700,
                segment_bytes: Some(1000),
                ..Setup::default()
            };
            let Outcome { bytes, result } = setup.decode(data);
            assert_eq!(result.is_ok(), format.is_some());
            assert!(bytes == if result.is_ok() { data } else { &[] });
            return;
        }
    }
    let Reference { bytes, good, frames } = reference::zstd(data);
    let outcomes = setups(data).map(|setup| (setup, setup.decode(data)));
    // The bytes comparable with libzstd: all, or those before a frame that outgrows its window.
    let outgrown = frames.iter().position(Frame::outgrows_its_window);
    let comparable = outgrown.map_or(usize::MAX, |frame| frames[frame].raw_offset);
    for (setup, outcome) in &outcomes {
        let common = outcome.bytes.len().min(bytes.len()).min(comparable);
        assert!(outcome.bytes[..common] == bytes[..common], "{setup:?}: the bytes differ");
        if outgrown.is_some() || outcome.is_limit() {
            continue;
        }
        let context = || format!("{setup:?}: {:?}, {frames:?}", outcome.result);
        match &outcome.result {
            Ok(_) => {
                assert!(good, "libzstd refuses: {}", context());
                assert_eq!(outcome.bytes.len(), bytes.len(), "{}", context());
            }
            Err(DecodeError::Corrupt { at, reason }) if good => {
                let lie = usize::try_from(at.frame).ok().and_then(|frame| frames.get(frame));
                assert!(lie.is_some_and(Frame::lies), "libzstd accepts: {}", context());
                assert!(reason.starts_with("the frame declares"), "{}", context());
            }
            Err(_) => assert!(!good, "libzstd accepts: {}", context()),
        }
    }
    agree(&outcomes, outgrown.is_some());
}

/// Checks that the engines agree with each other.
fn agree(outcomes: &[(Setup, Outcome)], outgrown: bool) {
    let comparable = |(_, outcome): &&(Setup, Outcome)| {
        let kept_segments = outcome.result.as_ref().is_ok_and(|summary| summary.copied_frames == 0);
        !outcome.is_limit() && (!outgrown || kept_segments)
    };
    let compared: Vec<_> = outcomes.iter().filter(comparable).collect();
    for pair in compared.windows(2) {
        let [(first, one), (second, other)] = pair else { continue };
        let context = || format!("{first:?}: {:?}, {second:?}: {:?}", one.result, other.result);
        let (one_says, other_says) = (one.verdict(), other.verdict());
        assert_eq!(one_says.1, other_says.1, "{}", context());
        // A frame that is truncated and also holds more than it declares is both: libzstd, which
        // knows the declared size, stops at one defect, and an engine that only counts stops at the
        // other.
        let both = [one_says.0, other_says.0];
        assert!(
            one_says.0 == other_says.0
                || both == ["truncated", "corrupt"]
                || both == ["corrupt", "truncated"],
            "{}",
            context()
        );
        let common = one.bytes.len().min(other.bytes.len());
        assert!(one.bytes[..common] == other.bytes[..common], "{}", context());
        assert!(one.result.is_err() || one.bytes.len() == other.bytes.len(), "{}", context());
    }
}

fn setups(data: &[u8]) -> [Setup; 4] {
    // Segments as short as they can be and still serve as the window of the first frame, so that
    // they change as often as possible.
    let shortest = match frame_start(data) {
        Ok(FrameStart::Frame(header)) => {
            let bytes = header.window_bytes + header.window_bytes.min(128 << 10);
            usize::try_from(bytes).ok().filter(|bytes| (1..=512 << 10).contains(bytes))
        }
        _ => None,
    };
    [
        Setup { threads: 1, span_bytes: 1 << 20, segment_bytes: None, ..Setup::default() },
        Setup {
            threads: 1,
            span_bytes: 60,
            segment_bytes: shortest.or(Some(3000)),
            ..Setup::default()
        },
        Setup { threads: 2, span_bytes: 3, segment_bytes: None, ..Setup::default() },
        Setup { threads: 1, span_bytes: 50, segment_bytes: Some(300), ..Setup::default() },
    ]
}
