//! Frames of every feature of the format.

use zstd_safe::{CParameter, ParamSwitch, Strategy};

use crate::support::{Encoding, KINDS, Kind, Random, compare, content, decodes};

const LENGTHS: [usize; 9] = [0, 1, 2, 30, 300, 5_000, 131_072, 131_073, 300_000];

#[test]
fn every_level() {
    for level in (-5_i32..=22).chain([-100, -1000]) {
        let kinds = if level < 10 { &KINDS[..] } else { &[Kind::Records, Kind::Mixed] };
        for &kind in kinds {
            let raw = content(kind, 300_000, level.unsigned_abs().into());
            let frame = Encoding::level(level).frame(&raw);
            decodes(&frame, &raw, &[1, 3], &(level, kind));
        }
    }
}

#[test]
fn every_length() {
    for kind in KINDS {
        for (index, len) in LENGTHS.into_iter().chain(3..40).enumerate() {
            let raw = content(kind, len, index as u64);
            for level in [-3, 1, 19] {
                let frame = Encoding::level(level).frame(&raw);
                decodes(&frame, &raw, &[1, 2], &(kind, len, level));
            }
        }
    }
}

#[test]
fn every_window_with_and_without_a_size() {
    for window_log in 10..=27 {
        for size_unknown in [false, true] {
            let mut encoding = Encoding::level(3)
                .with(CParameter::WindowLog(window_log))
                .with(CParameter::ChecksumFlag(window_log % 2 == 0));
            encoding.size_unknown = size_unknown;
            let raw = content(Kind::Records, 1_500_000, window_log.into());
            decodes(&encoding.frame(&raw), &raw, &[1, 2], &(window_log, size_unknown));
        }
    }
}

#[test]
fn long_distances() {
    // The first megabytes again after as many that are different.
    let mut raw = content(Kind::Mixed, 9_000_000, 1);
    raw.extend(content(Kind::Noise, 7_000_000, 2));
    raw.extend_from_within(..9_000_000);
    let encoding = Encoding::level(1)
        .with(CParameter::EnableLongDistanceMatching(true))
        .with(CParameter::WindowLog(27));
    let frame = encoding.frame(&raw);
    assert!(frame.len() < 14_000_000, "matches of 16 MB distance are used");
    decodes(&frame, &raw, &[1, 2, 4], &"long");
}

#[test]
fn blocks_of_any_size_with_flushes() {
    for (index, flush_bytes) in [1, 7, 100, 3_000, 70_000].into_iter().enumerate() {
        for kind in KINDS {
            let raw = content(kind, (flush_bytes * 300).min(600_000), index as u64);
            for level in [1, 5, 13] {
                let mut encoding = Encoding::level(level);
                encoding.flush_bytes = Some(flush_bytes);
                decodes(&encoding.frame(&raw), &raw, &[1, 2], &(flush_bytes, kind, level));
            }
        }
    }
}

#[test]
fn small_compressed_blocks() {
    for target in [1_340, 4_000, 30_000] {
        for kind in [Kind::Records, Kind::Words, Kind::Mixed] {
            let raw = content(kind, 1_500_000, 9);
            let encoding = Encoding::level(3).with(CParameter::TargetCBlockSize(target));
            decodes(&encoding.frame(&raw), &raw, &[1, 3], &(target, kind));
        }
    }
}

#[test]
fn literals_never_or_always_compressed() {
    for switch in [ParamSwitch::Enable, ParamSwitch::Disable] {
        for kind in KINDS {
            let raw = content(kind, 700_000, 4);
            for level in [-5, 1, 12] {
                let encoding =
                    Encoding::level(level).with(CParameter::LiteralCompressionMode(switch));
                decodes(&encoding.frame(&raw), &raw, &[1, 2], &(switch, kind, level));
            }
        }
    }
}

#[test]
fn frames_made_by_several_threads() {
    let raw = content(Kind::Mixed, 6_000_000, 5);
    for overlap in [0, 9] {
        let encoding = Encoding::level(3)
            .with(CParameter::NbWorkers(2))
            .with(CParameter::JobSize(1 << 20))
            .with(CParameter::OverlapSizeLog(overlap))
            .with(CParameter::ChecksumFlag(true));
        decodes(&encoding.frame(&raw), &raw, &[1, 2, 4], &overlap);
    }
}

#[test]
fn every_strategy() {
    let strategies = [
        Strategy::ZSTD_fast,
        Strategy::ZSTD_dfast,
        Strategy::ZSTD_greedy,
        Strategy::ZSTD_lazy2,
        Strategy::ZSTD_btopt,
        Strategy::ZSTD_btultra2,
    ];
    for (index, strategy) in strategies.into_iter().enumerate() {
        for min_match in [3, 5, 7] {
            let raw = content(KINDS[index % KINDS.len()], 500_000, 6);
            let encoding = Encoding::level(6)
                .with(CParameter::Strategy(strategy))
                .with(CParameter::MinMatch(min_match));
            decodes(&encoding.frame(&raw), &raw, &[2], &(index, min_match));
        }
    }
}

#[test]
fn frames_one_after_the_other_with_skippable_ones() {
    let mut random = Random(11);
    let (mut stream, mut expected) = (Vec::new(), Vec::new());
    for index in 0..60 {
        let raw = content(random.pick(&KINDS), random.below(30_000), index);
        let mut encoding =
            Encoding::level(1 + index as i32 % 5).with(CParameter::ChecksumFlag(index % 3 == 0));
        encoding.size_unknown = index % 2 == 0;
        stream.extend(encoding.frame(&raw));
        expected.extend(raw);
        if index % 7 == 0 {
            stream.extend([0x50 + index as u8 % 16, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        }
    }
    decodes(&stream, &expected, &[1, 2, 4], &"frames");
    assert!(compare(&stream, 2, &"frames"));
    decodes(&[], &[], &[1, 2], &"no frame");
}

#[test]
fn random_parameters() {
    let mut random = Random(77);
    for round in 0..100 {
        let raw = content(random.pick(&KINDS), random.below(600_000), round);
        let mut encoding = Encoding::level(random.below(12) as i32 - 3)
            .with(CParameter::WindowLog(10 + random.below(10) as u32))
            .with(CParameter::ChecksumFlag(random.below(2) == 0))
            .with(CParameter::ContentSizeFlag(random.below(2) == 0));
        encoding.size_unknown = random.below(2) == 0;
        if random.below(3) == 0 {
            encoding.flush_bytes = Some(1 + random.below(20_000));
        }
        let frame = encoding.frame(&raw);
        decodes(&frame, &raw, &[1 + random.below(4)], &(round, &encoding));
    }
}
