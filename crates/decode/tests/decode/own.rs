//! The own decoder in the pipeline, against libzstd in the pipeline.

use unsnap_decode::DecodeError;
use unsnap_testkit::{
    compress::{skippable_frame, zstd_one_frame, zstd_raw_blocks, zstd_rle_blocks},
    random::Random,
};
use zstd_safe::{CCtx, CParameter, OutBuffer};

use crate::support::{Outcome, Setup, assert_same, content, watched};

/// Returns setups of the own decoder that must all behave alike, with segments of this size.
fn setups(segment_bytes: usize) -> [Setup; 4] {
    let with = |threads: usize| Setup::new(threads).segments(segment_bytes);
    [
        with(1).own(1, 1000),
        with(1).own(2, 1).spans(100),
        with(2).own(1, 3).spans(7),
        with(3).own(8, 2),
    ]
}

/// Returns one frame, flushed after about `flush_bytes` bytes each time.
fn frame(raw: &[u8], parameters: &[CParameter], flush_bytes: usize) -> Vec<u8> {
    let mut context = CCtx::create();
    for &parameter in parameters {
        context.set_parameter(parameter).unwrap();
    }
    let room = zstd_safe::compress_bound(raw.len()) + 64 * (1 + raw.len() / flush_bytes) + 1024;
    let mut frame = vec![0; room];
    let mut output = OutBuffer::around(&mut frame[..]);
    for piece in raw.chunks(flush_bytes) {
        let mut input = zstd_safe::InBuffer::around(piece);
        context.compress_stream(&mut output, &mut input).unwrap();
        assert_eq!(input.pos(), piece.len());
        assert_eq!(context.flush_stream(&mut output).unwrap(), 0);
    }
    assert_eq!(context.end_stream(&mut output).unwrap(), 0);
    let length = output.pos();
    frame.truncate(length);
    frame
}

/// Returns content of every kind: records, noise, runs, and repetitions from far away.
fn mixed_content(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let records = content(len);
    let mut raw = Vec::with_capacity(len + 5000);
    while raw.len() < len {
        let count = 1 + random.index(5000);
        match random.below(4) {
            0 => raw.extend(&records[raw.len()..(raw.len() + count).min(len)]),
            1 => raw.resize(raw.len() + count, u8::try_from(random.below(256)).unwrap()),
            2 => {
                let from = raw.len();
                raw.resize(from + count, 0);
                random.fill(&mut raw[from..]);
            }
            _ => {
                let from = random.index(raw.len() + 1);
                let until = (from + count).min(raw.len());
                raw.extend_from_within(from..until);
            }
        }
    }
    raw.truncate(len);
    raw
}

#[test]
fn every_level_decodes_over_the_borders_of_segments_and_chunks() {
    watched(|| {
        let raw = mixed_content(300_000, 1);
        for level in -5_i32..=22 {
            let window = CParameter::WindowLog(12 + level.unsigned_abs() % 4);
            let checksum = CParameter::ChecksumFlag(level % 2 == 0);
            let parameters = [CParameter::CompressionLevel(level), window, checksum];
            for flush_bytes in [700, 20_000, raw.len()] {
                let archive = frame(&raw, &parameters, flush_bytes);
                // The least that serves as a window, so that repeat offsets, tables and matches cross
                // as many borders as possible.
                let CParameter::WindowLog(window_log) = window else { unreachable!() };
                for setup in setups(2 << window_log) {
                    let summary = setup.decode(&archive).expect(&raw);
                    assert_eq!((summary.own_frames, summary.copied_frames), (1, 0), "{level}");
                }
            }
        }
    });
}

#[test]
fn long_distances_decode_if_the_window_fits_into_a_segment() {
    watched(|| {
        let mut raw = mixed_content(1_500_000, 2);
        raw.extend_from_within(..700_000);
        let long = CParameter::EnableLongDistanceMatching(true);
        let archive = frame(&raw, &[long, CParameter::WindowLog(21)], raw.len());
        for (segment_bytes, own) in [((2 << 20) + (128 << 10), 1), (2 << 20, 0)] {
            for setup in setups(segment_bytes) {
                let summary = setup.decode(&archive).expect(&raw);
                assert_eq!((summary.own_frames, summary.copied_frames), (own, 1 - own));
            }
        }
    });
}

#[test]
fn small_frames_share_chunks() {
    watched(|| {
        let mut random = Random::new(4);
        let raw = mixed_content(400_000, 3);
        let (mut archive, mut at, mut frames) = (Vec::new(), 0, 0);
        while at < raw.len() {
            let end = (at + random.index(6000)).min(raw.len());
            let piece = &raw[at..end];
            let level = 1 + i32::try_from(random.below(15)).unwrap();
            archive.extend(match random.below(5) {
                0 => zstd_raw_blocks(piece, 1 + random.index(2000)),
                1 => zstd_one_frame(piece, level, Some(10), true, false),
                2 => frame(piece, &[CParameter::WindowLog(11)], 300),
                _ => zstd_one_frame(piece, level, Some(17), false, false),
            });
            (at, frames) = (end, frames + 1);
            if random.chance(1) {
                archive.extend(skippable_frame(b"a note"));
            }
        }
        for setup in [Setup::new(1).own(1, 1), Setup::new(1).own(1, 9), Setup::new(3).own(5, 1000)]
        {
            let summary = setup.spans(500).decode(&archive).expect(&raw);
            assert_eq!((summary.frames, summary.own_frames), (frames, frames));
        }
    });
}

/// Returns small archives of several frames, with blocks of all types.
fn archives() -> Vec<Vec<u8>> {
    let raw = mixed_content(5_000, 5);
    let checksum = CParameter::ChecksumFlag(true);
    let small = [CParameter::WindowLog(10), CParameter::CompressionLevel(3), checksum];
    let best = [CParameter::WindowLog(11), CParameter::CompressionLevel(19)];
    let tail = [zstd_raw_blocks(&raw[..50], 20), zstd_rle_blocks(3, 500, 200)].concat();
    vec![
        frame(&raw, &small, 400),
        [frame(&raw[..1500], &best, 5_000), tail.clone()].concat(),
        [tail, zstd_one_frame(&content(900), 1, Some(10), true, true)].concat(),
    ]
}

/// Decodes damaged bytes by all setups, which must agree in everything, and returns the result.
fn agreed(archive: &[u8]) -> Outcome {
    let mut first: Option<Outcome> = None;
    // Handwritten frames have a window of 128 KiB.
    for setup in setups(256 << 10) {
        let outcome = setup.decode(archive);
        let Some(first) = &first else {
            first = Some(outcome);
            continue;
        };
        assert_same(&outcome.bytes, &first.bytes);
        let said = |outcome: &Outcome| outcome.result.as_ref().err().map(ToString::to_string);
        assert_eq!(said(&outcome), said(first), "{setup:?}");
    }
    first.unwrap()
}

#[test]
fn an_archive_cut_anywhere_is_reported_as_by_libzstd() {
    watched(|| {
        for archive in archives() {
            for cut in 1..archive.len() {
                let ours = agreed(&archive[..cut]);
                let theirs = Setup::new(1).decode(&archive[..cut]);
                assert_same(&ours.bytes, &theirs.bytes);
                let said = |outcome: Outcome| outcome.result.err().map(|error| error.to_string());
                assert_eq!(said(ours), said(theirs), "cut at {cut}");
            }
        }
    });
}

/// Returns whether we may refuse what libzstd decodes, which checks some things only sometimes.
fn is_stricter(error: &DecodeError) -> bool {
    let said = error.to_string();
    let checked_sometimes = [
        "a stream of literals does not hold exactly its symbols",
        "a match begins before the window",
        "larger than its frame permits",
        "description of",
        "inside its literals",
        "the frame declares",
    ];
    checked_sometimes.iter().any(|reason| said.contains(reason))
}

#[test]
fn flipped_bytes_have_the_verdict_of_libzstd() {
    watched(|| {
        let mut random = Random::new(6);
        let (mut refused, mut decoded) = (0, 0);
        for archive in archives() {
            for _ in 0..1500 {
                let mut damaged = archive.clone();
                let at = random.index(damaged.len());
                damaged[at] ^= 1 << random.below(8);
                let ours = agreed(&damaged);
                let theirs = Setup::new(1).decode(&damaged);
                let common = ours.bytes.len().min(theirs.bytes.len());
                assert_same(&ours.bytes[..common], &theirs.bytes[..common]);
                match (&ours.result, &theirs.result) {
                    (Ok(_), Ok(_)) => {
                        assert_eq!(ours.bytes.len(), theirs.bytes.len());
                        decoded += 1;
                    }
                    (Err(ours), Err(_)) => {
                        assert!(ours.is_bad_archive(), "{ours}");
                        refused += 1;
                    }
                    (Err(ours), Ok(_)) => assert!(is_stricter(ours), "only we refuse it: {ours}"),
                    (Ok(_), Err(theirs)) => panic!("only we decode it: {theirs}"),
                }
            }
        }
        assert!(refused > 1000 && decoded > 100, "{refused} {decoded}");
    });
}

#[test]
fn damage_counts_before_what_is_read_behind_it() {
    watched(|| {
        // The checksum of the first frame is wrong, and garbage follows the second one.
        let raw = content(3_000);
        let mut first = zstd_one_frame(&raw, 1, None, true, false);
        let last = first.len() - 1;
        first[last] ^= 1;
        let second = zstd_one_frame(&raw, 1, None, true, false);
        for setup in setups(1 << 20) {
            let Outcome { bytes, result, .. } =
                setup.decode(&[&first[..], &second, b"garbage"].concat());
            let error = result.unwrap_err();
            let DecodeError::Corrupt { at, reason } = &error else { panic!("{error}") };
            assert!(reason.contains("checksum"), "{reason}");
            assert_eq!((at.frame, at.raw_offset), (0, 3_000));
            assert_eq!(at.compressed_offset, last as u64 - 3);
            assert_same(&bytes, &raw);

            // Without the damage, the garbage is reported where it is in the decoded stream.
            let Outcome { bytes, result, .. } =
                setup.decode(&[&second[..], &second, b"garbage"].concat());
            let error = result.unwrap_err();
            let DecodeError::TrailingBytes { at, .. } = &error else { panic!("{error}") };
            assert_eq!((at.frame, at.raw_offset), (2, 6_000));
            assert_same(&bytes, &[&raw[..], &raw].concat());
        }
    });
}
