//! Tests of chains: whatever the footholds are, the result is either exact or unknown.

use std::{io, time::Duration};

use unsnap_testkit::{compress, random::Random};

use super::*;
use crate::Format;

const PATIENT: Effort<'static> = Effort { whole_bytes_max: 0, walk_time: None, go_on: &|_| true };

fn random_bytes(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes
}

fn below(random: &mut Random, limit: u64) -> usize {
    usize::try_from(random.below(limit)).unwrap()
}

/// Returns a sized frame, with or without a checksum, of bytes that compress in different ways: not
/// at all, so that blocks are raw, to about half, or to almost nothing.
fn frame(random: &mut Random) -> (u64, Vec<u8>) {
    let len = below(random, 400_000);
    let raw = match random.below(4) {
        0 => random_bytes(random, len),
        1 => vec![7; len],
        // An archive in an archive: magic numbers and blocks everywhere, none of which counts.
        2 => archive_of(random, 4, 1).1,
        _ => (0..len).map(|_| u8::try_from(random.below(12)).unwrap()).collect(),
    };
    let frame = compress::zstd_one_frame(&raw, 1, None, random.chance(50), true);
    (raw.len() as u64, frame)
}

/// Returns an archive of frames that all declare their size, and the sum of these sizes.
fn archive_of(random: &mut Random, frames: usize, depth: u32) -> (u64, Vec<u8>) {
    let (mut bytes, mut archive) = (0, Vec::new());
    for _ in 0..frames {
        match random.below(8) {
            0 if depth == 0 => {
                let inner = archive_of(random, 3, 1).1;
                archive.extend(compress::skippable_frame(&inner));
            }
            0 | 1 => {
                let raw = vec![3; below(random, 60_000)];
                archive.extend(compress::zstd_one_frame(&raw, 1, None, true, true));
                bytes += raw.len() as u64;
            }
            // Declares no size and is empty.
            2 => archive.extend(compress::zstd_one_frame(&[], 1, None, random.chance(50), false)),
            _ if depth > 0 => {
                let raw = random_bytes(random, 5000);
                archive.extend(compress::zstd_one_frame(&raw, 1, None, false, true));
                bytes += raw.len() as u64;
            }
            _ => {
                let (content, frame) = frame(random);
                archive.extend(frame);
                bytes += content;
            }
        }
    }
    (bytes, archive)
}

/// Returns every block inside a frame that a walk from `at` reaches.
fn stations(archive: &[u8], at: usize) -> Vec<Blocks> {
    let mut peek = Peek::new(&archive, archive.len() as u64, 100);
    let mut walk = Blocks::from_frame(at as u64, Format::Zstd);
    let mut found = Vec::new();
    loop {
        let before = walk;
        match walk.next(&mut peek) {
            Ok(Step::Block { .. }) => found.push(before),
            Ok(_) => {}
            Err(_) => return found,
        }
    }
}

/// Returns real and false footholds: the false ones follow magic numbers anywhere, or are random.
fn footholds(archive: &[u8], random: &mut Random) -> Vec<Blocks> {
    let truth = stations(archive, 0);
    let mut all = vec![Blocks::from_frame(0, Format::Zstd)];
    let share = 1 + random.below(20);
    all.extend(truth.iter().filter(|_| random.below(share) == 0));
    let magics = archive.windows(4).enumerate().skip(1);
    for (at, _) in magics.filter(|(_, bytes)| *bytes == [0x28, 0xb5, 0x2f, 0xfd]) {
        let found = stations(archive, at);
        all.extend(found.into_iter().take(3).filter(|_| random.below(share) == 0));
    }
    for _ in 0..random.below(10) {
        if let Some(&(mut somewhere)) = truth.first() {
            somewhere.at = 1 + random.below(archive.len() as u64);
            all.push(somewhere);
        }
    }
    all.sort_by_key(|walk| walk.at);
    all.dedup_by_key(|walk| walk.at);
    all.truncate(33);
    all
}

fn chains(archive: &[u8], footholds: &[Blocks]) -> Walked {
    walk(&archive, archive.len() as u64, footholds, &PATIENT).0
}

/// Returns the sum of the declared sizes according to libzstd; `None` if a frame is incomplete.
fn by_libzstd(mut archive: &[u8]) -> Option<u64> {
    let mut sum = 0;
    while !archive.is_empty() {
        let bytes = zstd_safe::find_frame_compressed_size(archive).ok()?;
        let skippable = archive[1..4] == [0x2a, 0x4d, 0x18];
        if !skippable {
            // Frames that declare no size are empty here.
            sum += zstd_safe::get_frame_content_size(archive).ok()?.unwrap_or(0);
        }
        archive = archive.get(bytes..)?;
    }
    Some(sum)
}

#[test]
fn frames_of_every_shape_add_up_from_any_footholds() {
    let mut joined = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let count = 1 + below(&mut random, 30);
        let (bytes, archive) = archive_of(&mut random, count, 0);
        assert_eq!(by_libzstd(&archive), Some(bytes), "seed {seed}: the test is wrong");
        for _ in 0..5 {
            let footholds = footholds(&archive, &mut random);
            let found = chains(&archive, &footholds);
            let Walked::All { raw_bytes, frames } = found else {
                panic!("seed {seed}: {found:?}");
            };
            assert_eq!(raw_bytes, bytes, "seed {seed}");
            joined += u32::from(frames.len() > 1);
            for at in frames {
                let at = usize::try_from(at).unwrap();
                assert_eq!(archive[at..at + 4], [0x28, 0xb5, 0x2f, 0xfd], "seed {seed}");
            }
        }
    }
    // Chains do meet; otherwise the first one would have walked the whole archive.
    assert!(joined > 100, "{joined}");
}

#[test]
fn an_ambiguous_archive_has_no_known_size() {
    // Ten blocks of 100 bytes, and a checksum that looks like the beginning of a frame...
    let mut archive = vec![0x28, 0xb5, 0x2f, 0xfd, 0xc4, 0x48, 0xe8, 3, 0, 0, 0, 0, 0, 0];
    let first_block = archive.len() as u64;
    for last in [0, 0, 0, 0, 0, 0, 0, 0, 0, 1] {
        archive.extend([&[0x20 | last, 3, 0][..], &[5; 100]].concat());
    }
    archive.extend([0x28, 0xb5, 0x2f, 0xfd]);
    // ... which the skippable frame after it completes: a header, and one block of 7000 bytes.
    let (block, skipped) = (7000_u32, 7000 * 8 + 1);
    archive.extend([0x50, 0x2a, 0x4d, 0x18]);
    archive.extend(u32::to_le_bytes(skipped));
    archive.extend(vec![0; 6999]);
    // In that reading another skippable frame follows.
    archive.extend([0x50, 0x2a, 0x4d, 0x18]);
    archive.extend((skipped - (block - 1) - 8).to_le_bytes());
    archive.resize(archive.len() + (skipped - (block - 1) - 8) as usize, 0);

    let bytes = archive.as_slice();
    let mut peek = Peek::new(&bytes, archive.len() as u64, 100);
    let misled = Blocks::find(&mut peek, first_block, None).unwrap();
    assert_eq!((misled.at, misled.checksum()), (first_block, None));
    let beginning = Blocks::from_frame(0, Format::Zstd);
    assert!(matches!(chains(bytes, &[beginning]), Walked::All { raw_bytes: 1000, .. }));
    assert_eq!(chains(bytes, &[beginning, misled]), Walked::Undeclared);
}

#[test]
fn a_truncated_archive_is_distinguished_from_a_short_one() {
    let mut whole = 0;
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (_, archive) = archive_of(&mut random, 8, 0);
        let footholds = footholds(&archive, &mut random);
        let mut ends = vec![archive.len()];
        ends.extend((0..30).map(|_| 1 + below(&mut random, archive.len() as u64 - 1)));
        // Between two frames, so that the shorter archive is complete.
        let first = zstd_safe::find_frame_compressed_size(&archive).unwrap();
        ends.push(first);
        for end in ends {
            let cut = &archive[..end];
            let held: Vec<_> =
                footholds.iter().copied().filter(|walk| walk.at < end as u64).collect();
            match (chains(cut, &held), by_libzstd(cut)) {
                (Walked::All { raw_bytes, .. }, expected) => {
                    assert_eq!(Some(raw_bytes), expected, "seed {seed}, cut at {end}");
                    whole += 1;
                }
                (found, None) => assert_eq!(found, Walked::Undeclared, "seed {seed}, {end}"),
                (found, Some(_)) => panic!("seed {seed}, cut at {end}: {found:?}"),
            }
        }
    }
    assert!(whole >= 40, "{whole}");
}

#[test]
fn one_unsized_or_lying_frame_makes_the_size_unknown() {
    let mut random = Random::new(1);
    let raw = random_bytes(&mut random, 300_000);
    let undeclared = compress::zstd_one_frame(&raw, 1, None, false, false);
    // Declares two bytes of content, but its only block is an RLE block of one byte.
    let lie = [&[0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x48][..], &[2, 0, 0, 0, 0, 0, 0, 0], &[9, 0, 0, 7]]
        .concat();
    let endless = [&[0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x48][..], &[0xff; 8], &[9, 0, 0, 7]].concat();
    for spoiler in [undeclared, lie, endless, b"garbage in the middle".to_vec()] {
        for before in [0, 1, 5] {
            let (_, mut archive) = archive_of(&mut random, before, 0);
            archive.extend(&spoiler);
            archive.extend(archive_of(&mut random, 5, 0).1);
            for _ in 0..5 {
                let footholds = footholds(&archive, &mut random);
                assert_eq!(chains(&archive, &footholds), Walked::Undeclared, "{before}");
            }
        }
    }
}

#[test]
fn a_foothold_that_errs_about_checksums_gives_no_wrong_size() {
    let mut random = Random::new(2);
    let raw = random_bytes(&mut random, 500_000);
    let with = |checksum| compress::zstd_one_frame(&raw, 1, None, checksum, true);
    let archive = [with(true), with(false), with(true)].concat();
    let others = stations(&[with(false), with(true), with(false)].concat(), 0);
    let truth = stations(&archive, 0);
    for station in &truth {
        for like in &others {
            let mut wrong = *like;
            wrong.at = station.at;
            match chains(&archive, &[Blocks::from_frame(0, Format::Zstd), wrong]) {
                Walked::All { raw_bytes, .. } => assert_eq!(raw_bytes, 1_500_000),
                found => assert_eq!(found, Walked::Undeclared),
            }
        }
    }
}

#[test]
fn lz4_frames_that_declare_their_sizes_add_up() {
    let mut random = Random::new(3);
    let archive: Vec<u8> = (0..20)
        .flat_map(|_| {
            let raw = random_bytes(&mut random, 200_000);
            compress::lz4_frame_sized(&raw)
        })
        .collect();
    let bytes = archive.as_slice();
    let mut peek = Peek::new(&bytes, archive.len() as u64, 100);
    let mut walk = Blocks::from_frame(0, Format::Lz4);
    let mut all = vec![walk];
    loop {
        let before = walk;
        match walk.next(&mut peek) {
            Ok(Step::Block { .. }) => all.push(before),
            Ok(_) => {}
            Err(stop) => break assert_eq!(stop, Stop::End),
        }
    }
    for stride in [1, 3, 10, 1000] {
        let footholds: Vec<_> = all.iter().copied().step_by(stride).collect();
        let found = chains(&archive, &footholds);
        assert!(matches!(found, Walked::All { raw_bytes: 4_000_000, .. }), "{stride}: {found:?}");
    }
    let agave = compress::lz4_frame(&vec![1; 100_000]);
    let beginning = [Blocks::from_frame(0, Format::Lz4)];
    assert_eq!(chains(&agave, &beginning), Walked::Undeclared);
}

#[test]
fn without_time_nothing_is_read() {
    let (_, archive) = archive_of(&mut Random::new(4), 10, 0);
    let footholds = footholds(&archive, &mut Random::new(4));
    let bytes = archive.as_slice();
    for effort in [
        Effort { walk_time: Some(Duration::ZERO), ..PATIENT },
        Effort { go_on: &|_| false, ..PATIENT },
    ] {
        let found = walk(&bytes, bytes.len() as u64, &footholds, &effort);
        assert_eq!(found, (Walked::Unfinished, Reads::default()));
    }
}

/// Archive whose reads fail from some offset on.
struct Bad<'a>(&'a [u8], u64);

impl ReadAt for Bad<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.1.checked_sub(offset).filter(|left| *left > 0);
        let left = usize::try_from(left.ok_or_else(|| io::Error::other("bad"))?).unwrap();
        let count = left.min(buffer.len());
        self.0.read_at(&mut buffer[..count], offset)
    }
}

#[test]
fn an_unreadable_archive_has_no_known_size() {
    let (_, archive) = archive_of(&mut Random::new(5), 10, 0);
    let footholds = footholds(&archive, &mut Random::new(5));
    for bad in (0..archive.len() as u64).step_by(archive.len() / 40) {
        let archive_bytes = archive.len() as u64;
        let found = walk(&Bad(&archive, bad), archive_bytes, &footholds, &PATIENT).0;
        let known = by_libzstd(&archive);
        if let Walked::All { raw_bytes, .. } = found {
            // Only the rest of the last block lies after that offset.
            assert_eq!(Some(raw_bytes), known, "{bad}");
        }
    }
}

/// As if no more threads could be started: each walks again when it has reached the next foothold.
#[test]
fn more_footholds_than_walks_at_once() {
    let (bytes, archive) = archive_of(&mut Random::new(6), 300, 1);
    let mut footholds = vec![Blocks::from_frame(0, Format::Zstd)];
    footholds.extend(stations(&archive, 0));
    assert!(footholds.len() > WALKS_MAX + 50, "{}", footholds.len());
    for _ in 0..10 {
        let found = chains(&archive, &footholds);
        assert!(matches!(found, Walked::All { raw_bytes, .. } if raw_bytes == bytes), "{found:?}");
    }
}
