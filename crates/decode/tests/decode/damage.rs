//! Tests with truncated, damaged, lying or hostile archives.

use twox_hash::XxHash32;
use unsnap_decode::{DecodeError, Limits, Position};
use unsnap_testkit::{
    compress::{
        lz4_frame, skippable_frame, zstd_frames, zstd_one_frame, zstd_raw_blocks, zstd_rle_blocks,
    },
    random::Random,
};

use crate::support::{
    Outcome, Setup, Shape, assert_same, content, shapes, shapes_of, small_tar, watched,
};

const THREADS: [usize; 2] = [1, 2];

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const LZ4: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Setups that must all give the same result. Small segments make the streaming engine use
/// libzstd's own window.
fn setups() -> [Setup; 6] {
    [
        Setup::new(1),
        Setup::new(2).spans(3),
        Setup::new(1).segments(300).spans(50),
        Setup::new(1).own(1, 1),
        Setup::new(2).own(3, 2).spans(3),
        Setup::new(2).own(4, 1000),
    ]
}

/// Returns whether frames are copied through libzstd's own window, which retains the last block if
/// the next one is damaged.
fn copies(setup: &Setup) -> bool {
    setup.segment_bytes.is_some()
}

/// Decodes an invalid archive with every engine and returns the errors.
fn errors(archive: &[u8]) -> impl Iterator<Item = (Setup, Vec<u8>, DecodeError)> {
    setups().into_iter().map(|setup| {
        let Outcome { bytes, result, .. } = setup.decode(archive);
        (setup, bytes, result.unwrap_err())
    })
}

fn at(compressed_offset: usize, frame: u64, raw_offset: usize) -> Position {
    Position { compressed_offset: compressed_offset as u64, frame, raw_offset: raw_offset as u64 }
}

/// Returns the offsets in the archive and in the decoded stream at which frames begin, and those of
/// the end. lz4 frames are found by decoding them.
fn boundaries(shape: &Shape) -> Vec<(usize, usize)> {
    let mut found = vec![(0, 0)];
    let (mut at, mut raw) = (0, 0);
    while at < shape.archive.len() {
        let rest = &shape.archive[at..];
        let bytes = if rest.starts_with(&LZ4) {
            let mut left = rest;
            let mut decoder = lz4_flex::frame::FrameDecoder::new(&mut left);
            raw += usize::try_from(std::io::copy(&mut decoder, &mut std::io::sink()).unwrap())
                .unwrap();
            rest.len() - left.len()
        } else {
            zstd_safe::find_frame_compressed_size(rest).unwrap()
        };
        if rest.starts_with(&ZSTD) {
            let mut frame = Vec::with_capacity(shape.raw.len() + 1);
            zstd_safe::decompress(&mut frame, &rest[..bytes]).unwrap();
            raw += frame.len();
        }
        at += bytes;
        found.push((at, raw));
    }
    found
}

#[test]
fn a_truncated_archive_is_reported_with_its_end() {
    watched(|| {
        for shape in shapes_of(&small_tar()) {
            if shape.name == "tar" {
                continue;
            }
            let frames = boundaries(&shape);
            for cut in 0..shape.archive.len() {
                // All engines near headers, one of them elsewhere.
                let near = |&(start, _): &(usize, usize)| cut.abs_diff(start) < 18;
                let all = frames.iter().any(near);
                let chosen = |&index: &usize| all || index == cut % 6;
                for index in (0..6).filter(chosen) {
                    let setup = &setups()[index];
                    let context = format!("{} cut at {cut}: {setup:?}", shape.name);
                    let Outcome { bytes, result, .. } = setup.decode(&shape.archive[..cut]);
                    assert!(shape.raw.starts_with(&bytes), "{context}");
                    let frame = frames.iter().rposition(|&(start, _)| start <= cut).unwrap();
                    let (start, raw) = frames[frame];
                    assert!(bytes.len() >= raw, "{context}: complete frames must be returned");
                    match result {
                        Err(DecodeError::Empty) => assert_eq!(cut, 0, "{context}"),
                        Err(DecodeError::UnknownFormat { .. }) => {
                            assert!((1..4).contains(&cut), "{context}");
                        }
                        // Only the tar archive shows whether that is the end.
                        Ok(_) => {
                            assert!(cut == start && cut > 0, "{context}");
                            assert_same(&bytes, &shape.raw[..raw]);
                        }
                        Err(DecodeError::Truncated { at, .. }) => {
                            assert!(cut > start, "{context}");
                            assert_eq!(at.compressed_offset, cut as u64, "{context}");
                            assert_eq!(at.frame, frame as u64, "{context}");
                            assert_eq!(at.raw_offset, bytes.len() as u64, "{context}");
                        }
                        Err(other) => panic!("{context}: {other}"),
                    }
                }
            }
        }
    });
}

#[test]
fn a_truncated_tar_archive_ends_early() {
    let tar = small_tar();
    for cut in [1, 511, 512, 513, 1500, tar.len() - 1] {
        let Outcome { bytes, result, .. } = Setup::new(1).decode(&tar[..cut]);
        if cut < 512 {
            assert!(matches!(result, Err(DecodeError::UnknownFormat { .. })), "{result:?}");
        } else {
            result.unwrap();
            assert_same(&bytes, &tar[..cut]);
        }
    }
}

#[test]
fn foreign_bytes_after_the_last_frame_are_reported() {
    for shape in shapes_of(&small_tar()) {
        if shape.name == "tar" {
            continue;
        }
        let frames = boundaries(&shape);
        let end = at(shape.archive.len(), frames.len() as u64 - 1, shape.raw.len());
        let other = if shape.name.starts_with("lz4") { &ZSTD[..] } else { &LZ4 };
        for garbage in [b"\0", &b"\n"[..], b"gar", b"garbage", &[0; 1024], other] {
            for (setup, bytes, error) in errors(&[&shape.archive, garbage].concat()) {
                let context = format!("{}, {garbage:x?}: {setup:?}", shape.name);
                let DecodeError::TrailingBytes { at, found } = &error else {
                    panic!("{context}: {error}")
                };
                assert_eq!(*at, end, "{context}");
                assert!(found.starts_with(&format!("{:02x}", garbage[0])), "{found}");
                assert_same(&bytes, &shape.raw);
            }
        }
    }
}

/// Returns whether the error is a limit, which one engine may reach sooner than another.
fn is_limit(result: &Result<impl Sized, DecodeError>) -> bool {
    matches!(result, Err(DecodeError::Limit { .. }))
}

fn verdict(result: &Result<impl Sized, DecodeError>) -> (&'static str, u64) {
    match result {
        Ok(_) => ("good", 0),
        Err(DecodeError::Corrupt { at, .. }) => ("corrupt", at.frame),
        Err(DecodeError::Truncated { at, .. }) => ("truncated", at.frame),
        Err(DecodeError::TrailingBytes { at, .. }) => ("trailing", at.frame),
        Err(DecodeError::Unsupported { at, .. }) => ("unsupported", at.frame),
        Err(DecodeError::UnknownFormat { .. }) => ("unknown", 0),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn flipped_bits_do_no_harm_and_all_engines_agree() {
    watched(|| {
        for shape in shapes_of(&small_tar()) {
            let mut random = Random::new(9);
            for flip in 0..120 {
                let mut archive = shape.archive.clone();
                // The headers are at the beginning.
                let byte =
                    random.index(if flip % 2 == 0 { archive.len().min(24) } else { archive.len() });
                archive[byte] ^= 1 << random.below(8);
                let outcomes = setups().map(|setup| setup.decode(&archive));
                for outcome in &outcomes {
                    assert!(outcome.result.as_ref().err().is_none_or(DecodeError::is_bad_archive));
                }
                let judged: Vec<_> =
                    outcomes.iter().filter(|outcome| !is_limit(&outcome.result)).collect();
                for pair in judged.windows(2) {
                    let context = format!("{}, flip {flip} in byte {byte}", shape.name);
                    let verdicts = (verdict(&pair[0].result), verdict(&pair[1].result));
                    assert_eq!(verdicts.0, verdicts.1, "{context}");
                    let common = pair[0].bytes.len().min(pair[1].bytes.len());
                    assert_same(&pair[0].bytes[..common], &pair[1].bytes[..common]);
                }
            }
        }
    });
}

#[test]
fn damage_is_reported_with_its_block_after_all_bytes_before_it() {
    watched(|| {
        let raw = content(900_000);
        let frame = zstd_raw_blocks(&raw[..300_000], 10_000);
        let second = zstd_raw_blocks(&raw[300_000..600_000], 10_000);
        let third = zstd_one_frame(&raw[600_000..], 1, None, false, true);
        // A block of the reserved type, in the middle of the second frame.
        let block = 6 + 10 * (3 + 10_000);
        let mut bad = second.clone();
        bad[block] |= 0b110;
        let archive = [&frame, &bad[..], &third].concat();
        for (setup, bytes, error) in errors(&archive) {
            let DecodeError::Corrupt { at: found, .. } = error else { panic!("{error}") };
            assert_eq!(found.frame, 1);
            assert_same(&bytes, &raw[..bytes.len()]);
            assert_eq!(found.raw_offset, bytes.len() as u64);
            if copies(&setup) {
                assert!((390_000..=400_000).contains(&bytes.len()));
            } else {
                assert_eq!(found, at(frame.len() + block, 1, 400_000));
            }
        }

        // The same frame with a content size, for the workers: single segment, 8 bytes of size.
        let header = [&ZSTD[..], &[0xe0], &300_000_u64.to_le_bytes()].concat();
        let sized = |blocks: &[u8]| [&header[..], &blocks[6..]].concat();
        let mut compressed = second;
        compressed[block] |= 0b100; // Marks the raw bytes as a compressed block.
        let archive = [sized(&frame), sized(&compressed), third].concat();
        for threads in THREADS {
            for setup in Setup::new(threads).both() {
                let Outcome { bytes, result, .. } = setup.decode(&archive);
                let error = result.unwrap_err();
                let DecodeError::Corrupt { at: found, .. } = error else { panic!("{error}") };
                let place = header.len() + frame.len() - 6 + header.len() - 6 + block + 3;
                assert_eq!(found, at(place, 1, 400_000), "{threads} threads");
                assert_same(&bytes, &raw[..400_000]);
            }
        }
    });
}

#[test]
fn every_engine_detects_a_wrong_content_size() {
    let raw = content(300_000);
    let honest = zstd_one_frame(&raw, 1, Some(14), false, true);
    assert_eq!((honest[4], honest[5]), (0x80, 4 << 3), "a size of four bytes after the window");
    let good = zstd_frames(&raw, 100_000, 1);
    for lie in [0, 1, 16_384, 100_000, 299_999, 300_001, 400_000, 1 << 20] {
        let mut lying = honest.clone();
        lying[6..10].copy_from_slice(&u32::to_le_bytes(lie));
        let archive = [&good, &lying[..], &good].concat();
        for (setup, bytes, error) in errors(&archive) {
            let DecodeError::Corrupt { at, .. } = error else { panic!("{error}") };
            assert_eq!(at.frame, 3, "{setup:?}, {lie}");
            let begun = (good.len() as u64)..=(good.len() + lying.len()) as u64;
            assert!(begun.contains(&at.compressed_offset) && at.raw_offset >= 300_000);
            assert!(bytes.len() >= 300_000, "all bytes before the damage must be returned");
            assert!([&raw[..], &raw].concat().starts_with(&bytes));
        }
    }
}

#[test]
fn a_wrong_content_size_before_an_empty_block_is_detected() {
    // libzstd checks the size only at the last block that has bytes.
    let raw = content(512);
    let block = |header: u8, bytes: &[u8]| [&[header, 0x10, 0][..], bytes].concat();
    let last = [1, 0, 0];
    // Single segment, a size of 256 + 0x100 or one more.
    for (low, result) in [(0, Ok(())), (1, Err(()))] {
        let header = [&ZSTD[..], &[0x60, low, 1]].concat();
        let archive = [&header[..], &block(0, &raw), &last].concat();
        for setup in setups() {
            let outcome = setup.decode(&archive);
            assert_same(&outcome.bytes, &raw);
            match (outcome.result, result) {
                (Ok(_), Ok(())) => {}
                (Err(DecodeError::Corrupt { at: found, reason }), Err(())) => {
                    assert_eq!(found, at(archive.len(), 0, 512), "{setup:?}");
                    assert_eq!(reason, "the frame declares 513 bytes but holds 512");
                }
                (other, _) => panic!("{setup:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn every_engine_detects_a_wrong_checksum() {
    let raw = content(50_000);
    for sized in [false, true] {
        let mut archive = zstd_one_frame(&raw, 1, None, true, sized);
        let last = archive.len() - 1;
        archive[last] ^= 1;
        for (setup, bytes, error) in errors(&archive) {
            let DecodeError::Corrupt { at: found, reason } = error else { panic!("{error}") };
            assert!(reason.contains("checksum"), "{reason}");
            assert_same(&bytes, &raw[..bytes.len()]);
            if !copies(&setup) {
                assert_eq!(found, at(last - 3, 0, raw.len()));
                assert_same(&bytes, &raw);
            }
        }
    }
    let mut archive = lz4_frame(&raw);
    *archive.last_mut().unwrap() ^= 1;
    for (_, bytes, error) in errors(&archive) {
        let DecodeError::Corrupt { at: found, .. } = error else { panic!("{error}") };
        assert_eq!(found, at(archive.len(), 0, raw.len()));
        assert_same(&bytes, &raw);
    }
}

#[test]
fn an_empty_lz4_block_is_not_the_end_of_its_frame() {
    // The lz4 decoder does not distinguish such a block from the end mark.
    let raw = content(1000);
    let frame = lz4_frame(&raw);
    let header_bytes = 7;
    let (head, blocks) = frame.split_at(header_bytes);
    // Uncompressed, of length 0; compressed, a token for "no literals".
    for empty in [&[0, 0, 0, 0x80][..], &[1, 0, 0, 0, 0]] {
        let archive = [head, empty, blocks].concat();
        for setup in setups() {
            setup.decode(&archive).expect(&raw);
        }
        // Neither the end of the archive nor another frame after it ends the frame.
        let cut = archive[..header_bytes + empty.len()].to_vec();
        for (_, bytes, error) in errors(&cut) {
            let DecodeError::Truncated { at: found, .. } = error else { panic!("{error}") };
            assert_eq!(found, at(cut.len(), 0, 0));
            assert_same(&bytes, &[]);
        }
        for (_, _, error) in errors(&[&cut[..], &frame].concat()) {
            assert!(error.is_bad_archive(), "{error}");
        }
        // The checksum after the true end mark is verified.
        let mut wrong = archive;
        *wrong.last_mut().unwrap() ^= 1;
        for (_, bytes, error) in errors(&wrong) {
            assert!(matches!(error, DecodeError::Corrupt { .. }), "{error}");
            assert_same(&bytes, &raw);
        }
    }
}

#[test]
fn huge_windows_are_refused() {
    let first = zstd_one_frame(b"good", 1, None, false, true);
    for window_log in [28, 31, 41] {
        let archive = [&first[..], &ZSTD, &[0, (window_log - 10) << 3], &[0; 12]].concat();
        for (_, bytes, error) in errors(&archive) {
            let DecodeError::Limit { at: found_at, found, limit, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(found_at, at(first.len(), 1, 4));
            assert_eq!((found, limit), (1 << window_log, 128 << 20));
            assert_same(&bytes, b"good");
        }
    }
    // Within the limit, but more than the available memory.
    let archive = [&ZSTD[..], &[0, (27 - 10) << 3], &[0; 12]].concat();
    let error = Setup { budget: 1 << 20, ..Setup::new(1) }.decode(&archive).result.unwrap_err();
    let DecodeError::WindowMemory { window_bytes, limit, budget, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((window_bytes, limit), (128 << 20, 32 << 20));
    // With the budget that the error names, the window is no reason any more.
    let budget = usize::try_from(budget).unwrap();
    let error = Setup { budget, ..Setup::new(1) }.decode(&archive).result.unwrap_err();
    assert!(matches!(error, DecodeError::Truncated { .. }), "{error}");
}

#[test]
fn dictionaries_are_not_supported() {
    let archive = [&ZSTD[..], &[0x01, 0x48, 0x07], &[0; 12]].concat();
    for (_, _, error) in errors(&archive) {
        let DecodeError::Unsupported { at: found, .. } = error else { panic!("{error}") };
        assert_eq!(found, at(0, 0, 0));
    }
    // Dictionary number 0 means no dictionary.
    let frame = zstd_raw_blocks(b"text", 4);
    let archive = [&ZSTD[..], &[0x01, 0x38, 0x00], &frame[6..]].concat();
    Setup::new(2).decode(&archive).expect(b"text");
}

#[test]
fn frames_are_counted_and_limited() {
    watched(|| {
        const FRAMES: usize = 100_000;
        let empty = zstd_one_frame(&[], 1, None, false, true);
        let skippable = skippable_frame(b"");
        for frame in [empty, zstd_raw_blocks(&[], 1), skippable] {
            let archive = frame.repeat(FRAMES);
            for setup in THREADS.into_iter().flat_map(|threads| Setup::new(threads).both()) {
                let with = |frames_max| {
                    let limits = Limits { frames_max: frames_max as u64, ..Limits::default() };
                    Setup { limits, ..setup.clone() }.decode(&archive)
                };
                let summary = with(FRAMES).expect(&[]);
                assert_eq!(summary.frames + summary.skippable_frames, FRAMES as u64);
                let error = with(FRAMES / 2).result.unwrap_err();
                let DecodeError::Limit { at: place, found, limit, .. } = error else {
                    panic!("{error}")
                };
                let passed = FRAMES / 2 + 1;
                assert_eq!((found, limit), (passed as u64, passed as u64 - 1));
                assert_eq!(place, at(passed * frame.len(), passed as u64, 0));
            }
        }
        let archive = lz4_frame(b"a").repeat(100);
        let limits = Limits { frames_max: 50, ..Limits::default() };
        let error = Setup { limits, ..Setup::new(1) }.decode(&archive).result.unwrap_err();
        assert!(matches!(error, DecodeError::Limit { found: 51, limit: 50, .. }), "{error}");
    });
}

/// Hostile lz4: no frame and no block may cost more than its share. What is allocated are segments,
/// so their number is counted.
#[test]
fn the_work_for_tiny_lz4_frames_and_blocks_is_bounded() {
    const SEGMENT_BYTES: usize = 100_000;
    watched(|| {
        let header = |flags: u8| {
            // Blocks of 64 KiB.
            let fields = [flags, 0x40];
            let sum = XxHash32::oneshot(0, &fields).to_le_bytes()[1];
            [&LZ4[..], &fields, &[sum]].concat()
        };
        let (linked, independent) = (header(0x40), header(0x60));
        let end_mark = [0; 4];
        // Stored and compressed blocks of one byte, and blocks of nothing.
        let blocks: [&[u8]; 4] =
            [&[1, 0, 0, 0x80, b'a'], &[2, 0, 0, 0, 0x10, b'a'], &[0, 0, 0, 0x80], &[1, 0, 0, 0, 0]];
        for head in [&linked, &independent] {
            for block in blocks {
                let decoded = usize::from(block.ends_with(b"a"));
                for (frames, blocks) in [(100_000, 1), (1, 100_000)] {
                    let frame = [&head[..], &block.repeat(blocks), &end_mark].concat();
                    let archive = frame.repeat(frames);
                    let raw = vec![b'a'; decoded * frames * blocks];
                    for threads in [1, 2] {
                        let setup = Setup::new(threads).segments(SEGMENT_BYTES);
                        let outcome = setup.decode(&archive);
                        // A segment is left with less room than the next block may need: 510 bytes.
                        let most = raw.len() / (SEGMENT_BYTES - 510) + 2;
                        // Independent blocks of one frame are shared out by the most that they may
                        // decode to.
                        let shared = if head[4] == independent[4] && frames == 1 && threads > 1 {
                            blocks * 510 / (SEGMENT_BYTES - 510) + 1
                        } else {
                            0
                        };
                        assert!(outcome.segments <= most + shared, "{}", outcome.segments);
                        assert_eq!(outcome.expect(&raw).frames, frames as u64);
                    }
                }
            }
        }
    });
}

#[test]
fn decompression_bombs_are_stopped() {
    watched(|| {
        const LENGTH: usize = 600 << 20;
        const RATIO_COUNTS_FROM: u64 = 256 << 20;
        let zeros = vec![0; 8 << 20];
        for bomb in [
            zstd_rle_blocks(0, LENGTH, 128 << 10),
            zstd_one_frame(&zeros, 1, None, false, true).repeat(LENGTH / zeros.len()),
        ] {
            for setup in THREADS.into_iter().flat_map(|threads| Setup::new(threads).both()) {
                let running = setup.start(&bomb);
                let mut decoded = running.decoded;
                let mut length = 0;
                let error = loop {
                    match decoded.next() {
                        Ok(Some(piece)) => length += piece.segment.len() as u64,
                        Ok(None) => panic!("the bomb was decoded"),
                        Err(error) => break error,
                    }
                };
                let DecodeError::Limit { what, found, limit, at } = error else {
                    panic!("{error}")
                };
                assert!(what.contains("ratio_max") && found > limit && limit == 500, "{what}");
                let near = RATIO_COUNTS_FROM..RATIO_COUNTS_FROM + (17 << 20);
                assert!(near.contains(&at.raw_offset) || near.contains(&length), "{at} {length}");
                decoded.join();
            }
        }
    });
}

#[test]
fn decoded_bytes_are_limited() {
    for shape in shapes(400_000) {
        for setup in THREADS.into_iter().flat_map(|threads| Setup::new(threads).both()) {
            let most = shape.raw.len() as u64;
            let with = |raw_bytes_max| {
                let limits = Limits { raw_bytes_max, ..Limits::default() };
                Setup { limits, ..setup.clone() }.decode(&shape.archive)
            };
            with(most).expect(&shape.raw);
            let Outcome { bytes, result, .. } = with(most - 1);
            let error = result.unwrap_err();
            let DecodeError::Limit { what, found, limit, .. } = error else { panic!("{error}") };
            assert!(what.contains("raw_bytes_max") && found > limit, "{}: {what}", shape.name);
            assert!(shape.raw.starts_with(&bytes));
        }
    }
}

#[test]
fn garbage_is_not_an_archive() {
    for threads in THREADS {
        let verdict = |bytes: &[u8]| Setup::new(threads).decode(bytes).result.unwrap_err();
        assert!(matches!(verdict(b""), DecodeError::Empty));
        let garbage = [&b"BZh91AY&SY"[..], b"x", &[0; 511], &[0xff; 4096], &ZSTD[..3]];
        for garbage in garbage {
            let DecodeError::UnknownFormat { found } = verdict(garbage) else {
                panic!("{garbage:x?}")
            };
            assert!(found.starts_with(&format!("{:02x}", garbage[0])), "{found}");
        }
    }
}

#[test]
fn a_failing_source_is_not_reported_as_damage() {
    for shape in shapes(400_000) {
        for threads in THREADS {
            for fails_at in [0, 1, 600, shape.archive.len() / 2, shape.archive.len() - 1] {
                let fails_at = Some(fails_at.min(shape.archive.len() - 1));
                let setup = Setup { fails_at, ..Setup::new(threads).spans(1000) };
                for setup in setup.both() {
                    let Outcome { bytes, result, .. } = setup.decode(&shape.archive);
                    let error = result.unwrap_err();
                    assert!(!error.is_bad_archive(), "{}: {error}", shape.name);
                    assert!(matches!(error, DecodeError::Source(_)), "{}: {error}", shape.name);
                    assert!(shape.raw.starts_with(&bytes));
                }
            }
        }
    }
}

#[test]
fn noise_after_a_good_header_does_no_harm() {
    watched(|| {
        let mut random = Random::new(77);
        for _ in 0..700 {
            let mut archive = Vec::new();
            if random.chance(30) {
                archive.extend(zstd_one_frame(&content(500), 1, None, true, random.chance(50)));
            }
            let magic = if random.chance(80) { ZSTD } else { LZ4 };
            archive.extend_from_slice(&magic);
            if magic == ZSTD {
                // No reserved bit, no dictionary, a window of at most 2 MiB.
                archive.push(u8::try_from(random.below(256)).unwrap() & 0b1110_0100);
                archive.push(u8::try_from(random.below(12)).unwrap() << 3);
            }
            let mut noise = vec![0; random.index(600)];
            random.fill(&mut noise);
            for byte in &mut noise {
                // Small numbers, so that blocks have lengths within the archive.
                *byte &= *random.pick(&[0xff, 0x0f, 0x07, 0x01]);
            }
            archive.extend_from_slice(&noise);
            for setup in setups() {
                let outcome = setup.decode(&archive);
                assert!(outcome.result.err().is_none_or(|error| error.is_bad_archive()));
            }
        }
    });
}

#[test]
fn errors_of_the_archive_are_distinguished_from_those_of_the_machine() {
    let text = Setup::new(1).decode(b"no archive at all").result.unwrap_err().to_string();
    assert_eq!(
        text,
        "this is not a zstd, lz4 or tar archive: it begins with 6e 6f 20 61 72 63 68 69"
    );
    let archive = [zstd_one_frame(b"text", 1, None, false, true), b"more".to_vec()].concat();
    let error = Setup::new(1).decode(&archive).result.unwrap_err();
    assert!(error.is_bad_archive());
    let place = format!("byte {} (frame 1, decoded byte 4)", archive.len() - 4);
    assert!(error.to_string().contains(&place), "{error}");
}
