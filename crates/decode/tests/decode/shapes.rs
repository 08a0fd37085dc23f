//! Tests that archives of every shape decode to the original bytes.

use unsnap_decode::{Decoder, MemoryPlan};
use unsnap_testkit::{
    archive::write_archive,
    compress::{
        lz4_frame_independent, lz4_frame_large_blocks, zstd_firedancer, zstd_frame_count,
        zstd_mixed, zstd_one_frame,
    },
    random::Random,
    spec::{ArchiveSpec, Compression, Frames},
};

use crate::support::{Setup, assert_same, content, shapes, snapshot, watched};

const THREADS: [usize; 3] = [1, 2, 8];

#[test]
fn every_shape_decodes_from_spans_of_any_size() {
    watched(|| {
        for shape in shapes(150_000) {
            for threads in THREADS {
                for span_bytes in [1, 2, 3, 7, 100, 4096, 1 << 20] {
                    for setup in Setup::new(threads).spans(span_bytes).both() {
                        let outcome = setup.decode(&shape.archive);
                        assert!(outcome.result.is_ok(), "{}: {:?}", shape.name, outcome.result);
                        outcome.expect(&shape.raw);
                    }
                }
            }
        }
    });
}

#[test]
fn every_shape_decodes_into_segments_of_any_size() {
    watched(|| {
        for (bytes, sizes) in [(6000, &[1, 513, 4096][..]), (600_000, &[4096, 5000, 100_000])] {
            for shape in shapes(bytes) {
                for threads in [1, 2] {
                    for &segment_bytes in sizes {
                        for setup in Setup::new(threads).segments(segment_bytes).both() {
                            let outcome = setup.decode(&shape.archive);
                            assert!(outcome.result.is_ok(), "{}: {:?}", shape.name, outcome.result);
                            outcome.expect(&shape.raw);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn segments_serve_as_the_window_if_they_are_large_enough() {
    watched(|| {
        let raw = content(600_000);
        for window_log in 10..=12 {
            for level in [1, 9, 19] {
                let archive = zstd_one_frame(&raw, level, Some(window_log), true, false);
                // A block is then as large as the window.
                let least = 2 << window_log;
                for (segment_bytes, copied) in
                    [(least - 1, 1), (least, 0), (least + 1, 0), (least + 700, 0), (2 * least, 0)]
                {
                    for setup in Setup::new(1).segments(segment_bytes).spans(5000).both() {
                        let outcome = setup.decode(&archive);
                        assert!(outcome.segments >= raw.len() / segment_bytes);
                        let own = if setup.decoder == Decoder::Own { 1 - copied } else { 0 };
                        let summary = outcome.expect(&raw);
                        let found = (summary.copied_frames, summary.own_frames);
                        assert_eq!(found, (copied, own), "{segment_bytes}");
                    }
                }
            }
        }
    });
}

#[test]
fn matches_reach_back_a_whole_window_across_segments() {
    // Noise that repeats after nearly a window.
    let window: usize = 128 << 10;
    let mut noise = vec![0; window - 1000];
    Random::new(3).fill(&mut noise);
    let raw = noise.repeat(12);
    for level in [6, 19] {
        let archive = zstd_one_frame(&raw, level, Some(17), false, false);
        assert!(archive.len() < 4 * window, "the matches were found");
        for segment_bytes in [2 * window, 2 * window + 4097, 3 * window - 1] {
            for setup in Setup::new(1).segments(segment_bytes).both() {
                assert_eq!(setup.decode(&archive).expect(&raw).copied_frames, 0);
            }
        }
        for segment_bytes in [1000, window, 2 * window - 1] {
            for setup in Setup::new(1).segments(segment_bytes).both() {
                assert_eq!(setup.decode(&archive).expect(&raw).copied_frames, 1);
            }
        }
    }
}

#[test]
fn archives_of_zstd_long_decode_with_any_number_of_threads() {
    watched(|| {
        let raw = content(3_000_000);
        // Large enough for a compressor not to make the window smaller.
        let mut declared = zstd_one_frame(&raw, 1, Some(27), false, false);
        assert_eq!((declared[4], declared[5]), (0, 0x88), "a window of 128 MiB, no size");
        let undeclared = declared.clone();
        declared[4] |= 0xc0;
        declared.splice(6..6, (raw.len() as u64).to_le_bytes());
        for archive in [&undeclared, &declared] {
            for threads in [1, 2, 3] {
                let budget = MemoryPlan::default_budget(threads);
                for setup in (Setup { budget, ..Setup::new(threads) }).both() {
                    let summary = setup.decode(archive).expect(&raw);
                    assert_eq!(summary.frames, 1);
                }
            }
        }
    });
}

#[test]
fn mixtures_of_all_frames_decode() {
    watched(|| {
        let raw = snapshot(700_000);
        for seed in 0..50 {
            let archive = zstd_mixed(&raw, seed);
            let frames = zstd_frame_count(&archive);
            let mut random = Random::new(seed);
            for threads in THREADS {
                let span_bytes = *random.pick(&[1, 10, 1000, 4096, 1 << 20]);
                let mut setup = Setup::new(threads).spans(span_bytes);
                setup.segment_bytes =
                    *random.pick(&[None, Some(2000), Some(50_000), Some(200_000)]);
                for setup in setup.both() {
                    let outcome = setup.decode(&archive);
                    assert!(outcome.result.is_ok(), "seed {seed}: {setup:?} {:?}", outcome.result);
                    assert_eq!(outcome.expect(&raw).frames, frames);
                }
            }
        }
    });
}

#[test]
fn frames_go_to_the_engine_that_suits_them() {
    let raw = snapshot(600_000);
    let one = zstd_one_frame(&raw, 1, None, false, false);
    let sized = zstd_one_frame(&raw, 1, None, false, true);
    for (archive, threads, parallel, own) in
        [(&one, 1, 0, 1), (&one, 8, 0, 1), (&sized, 1, 0, 1), (&sized, 2, 1, 0), (&sized, 8, 1, 0)]
    {
        let summary = Setup::new(threads).decode(archive).expect(&raw);
        let found = (summary.frames, summary.parallel_frames, summary.copied_frames);
        assert_eq!(found, (1, parallel, 0));
        assert_eq!(summary.own_frames, 0);
        let found = Setup::new(threads).own(2, 8).decode(archive).expect(&raw);
        assert_eq!((found.parallel_frames, found.own_frames), (1 - own, own));
    }
    // The first frame may be all that there is, but one that follows is short.
    let summary =
        Setup::new(2).decode(&[&one[..], &one].concat()).expect(&[&raw[..], &raw].concat());
    assert_eq!((summary.frames, summary.parallel_frames), (2, 1));
    // What its blocks could decode to has no place in memory.
    let long = snapshot(30_000_000);
    let archive = [&one[..], &zstd_one_frame(&long, 1, None, false, false)].concat();
    let summary = Setup::new(2).decode(&archive).expect(&[raw.clone(), long].concat());
    assert_eq!(summary.parallel_frames, 0);
    // Frames without and with a size.
    let archive = zstd_firedancer(&raw, 1);
    let summary = Setup::new(2).decode(&archive).expect(&raw);
    assert!(summary.frames > 5);
    assert_eq!(summary.parallel_frames, summary.frames);
}

#[test]
fn undeclared_frames_are_decoded_in_order_whatever_the_memory() {
    watched(|| {
        let raw = snapshot(5_000_000);
        let mut random = Random::new(11);
        let mut archive = Vec::new();
        let mut rest = &raw[..];
        let mut frames = 0;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((1 + random.index(90_000)).min(rest.len()));
            // A few declare their size.
            archive.extend(zstd_one_frame(piece, 1, None, random.chance(30), random.chance(20)));
            rest = after;
            frames += 1;
        }
        for budget in [MemoryPlan::budget_min(), 4 << 20, 32 << 20, 256 << 20] {
            for (threads, span_bytes) in [(2, 5000), (2, 1 << 20), (8, 1 << 20)] {
                let setup = Setup::new(threads).spans(span_bytes);
                let setup = Setup { budget, chunk_bytes: 32 << 10, ..setup };
                let summary = setup.decode(&archive).expect(&raw);
                assert_eq!(summary.frames, frames);
                // The least memory has room for few of them.
                let least = if budget < 32 << 20 { 1 } else { frames / 2 };
                assert!(summary.parallel_frames >= least, "{budget}: {summary:?}");
            }
        }
    });
}

#[test]
fn plain_tar_is_passed_on_as_it_was_read() {
    const CHUNK_BYTES: usize = 64 << 10;
    watched(|| {
        let raw = snapshot(3_000_000);
        let setup = Setup { headroom: true, ..Setup::new(2) };
        let running = setup.start(&raw);
        // There is no memory for copies.
        let taken: Vec<_> = std::iter::from_fn(|| running.segments.try_allocate(4096)).collect();
        assert!(!taken.is_empty());
        let mut decoded = running.decoded;
        let mut bytes = Vec::new();
        while let Some(piece) = decoded.next().unwrap() {
            assert_eq!(piece.segment.raw_offset(), bytes.len() as u64);
            let view = piece.segment.prepend(&[7; 4096]);
            let written = view.slice(4096, 0..view.bytes().len());
            assert_eq!(written[..4096], [7; 4096]);
            bytes.extend_from_slice(&written[4096..]);
        }
        decoded.join();
        assert_same(&bytes, &raw);

        // Spans that do not begin at multiples of 512, or have nothing reserved in front, are copied.
        for setup in [
            setup.clone().spans(1000),
            Setup { chunk_bytes: 5000, ..setup.clone() },
            Setup { headroom: false, ..setup.clone() },
        ] {
            setup.decode(&raw).expect(&raw);
        }
        let outcome = setup.decode(&raw);
        assert_eq!(outcome.segments, raw.len().div_ceil(CHUNK_BYTES));
        outcome.expect(&raw);
    });
}

#[test]
fn independent_lz4_blocks_are_shared_out_whatever_the_memory() {
    watched(|| {
        let raw = snapshot(12_000_000);
        for archive in [
            lz4_frame_independent(&raw, raw.len()),
            lz4_frame_independent(&raw, 40_001),
            lz4_frame_large_blocks(&raw, false),
            lz4_frame_large_blocks(&raw, true),
        ] {
            for budget in [MemoryPlan::budget_min(), 4 << 20, 32 << 20, 256 << 20] {
                for threads in THREADS {
                    let setup = Setup { budget, chunk_bytes: 32 << 10, ..Setup::new(threads) };
                    let summary = setup.decode(&archive).expect(&raw);
                    assert_eq!(summary.frames, 1);
                    let independent = archive[4] & 0x20 > 0;
                    if budget == 256 << 20 {
                        let shared = u64::from(independent && threads > 1);
                        assert_eq!(summary.shared_frames, shared);
                    }
                }
            }
        }
    });
}

#[test]
fn the_summary_counts_frames() {
    let found = |name: &str| {
        let shapes = shapes(300_000);
        let shape = shapes.iter().find(|shape| shape.name == name).unwrap();
        let summary = Setup::new(2).decode(&shape.archive).expect(&shape.raw);
        (summary.frames, summary.skippable_frames)
    };
    assert_eq!(found("skippable everywhere"), (2, 4));
    assert_eq!(found("lz4 with skippable"), (3, 2));
    assert_eq!(found("empty frames"), (8, 0));
    assert_eq!(found("tar"), (0, 0));
}

#[test]
fn genuine_archives_decode_alike_in_every_form() {
    watched(|| {
        let spec = ArchiveSpec { total_bytes: 20_000_000, ..ArchiveSpec::default() };
        let made = |compression, frames| {
            let mut archive = Vec::new();
            let spec = ArchiveSpec { compression, frames, ..spec.clone() };
            let summary = write_archive(&spec, &mut archive).unwrap();
            (archive, summary.frames)
        };
        let (raw, _) = made(Compression::None, Frames::One);
        for (compression, frames) in [
            (Compression::None, Frames::One),
            (Compression::Zstd, Frames::One),
            (Compression::Zstd, Frames::Sized(1_000_001)),
            (Compression::Zstd, Frames::AGAVE),
            (Compression::Zstd, Frames::Firedancer),
            (Compression::Lz4, Frames::One),
            (Compression::Lz4, Frames::Sized(3_000_000)),
        ] {
            let (archive, frames) = made(compression, frames);
            for threads in [1, 2] {
                let setup = Setup { chunk_bytes: 1 << 20, ..Setup::new(threads) };
                for setup in setup.both() {
                    assert_eq!(setup.decode(&archive).expect(&raw).frames, frames);
                }
            }
        }
    });
}
