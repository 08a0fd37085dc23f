//! Tests of surveys of good and bad archives.

use std::{
    io,
    sync::atomic::{AtomicU32, Ordering},
};

use unsnap_testkit::{compress, random::Random, tar::TarBuilder};

use super::*;

/// Small sizes, so that archives of a few megabytes count as large.
const SMALL: Plan = Plan {
    head: Budget { compressed_bytes: MIB, raw_bytes: 3 * MIB },
    windows: 8,
    window_bytes: MIB / 2,
    middle_samples: 3,
    middle: Budget { compressed_bytes: MIB / 8, raw_bytes: MIB / 2 },
};

/// Archives are read from end to end.
const WHOLE: Effort<'static> = effort(u64::MAX, None);
/// All archives count as large, and there is enough time.
const CHAINS: Effort<'static> = effort(0, None);
/// All archives count as large, and there is no time.
const NO_TIME: Effort<'static> = effort(0, Some(Duration::ZERO));

const fn effort(whole_bytes_max: u64, walk_time: Option<Duration>) -> Effort<'static> {
    Effort { whole_bytes_max, walk_time, go_on: &|_| true }
}

/// Keeps all samples.
#[derive(Default)]
struct Kept {
    beginning: Vec<u8>,
    middle: Vec<Vec<u8>>,
}

impl Samples for Kept {
    fn begin(&mut self, place: Place) {
        if place == Place::Middle {
            self.middle.push(Vec::new());
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.middle.last_mut().unwrap_or(&mut self.beginning).extend_from_slice(bytes);
    }
}

fn look(plan: Plan, effort: Effort<'_>, archive: &[u8]) -> (Option<(u64, Basis)>, Kept) {
    let mut kept = Kept::default();
    let len = archive.len() as u64;
    let survey = survey_by(plan, &archive, len, &Limits::default(), &effort, &mut kept);
    (survey.raw_bytes, kept)
}

/// Returns a tar archive whose files compress in different ways.
fn tar(bytes: usize) -> Vec<u8> {
    let mut random = Random::new(7);
    let mut tar = TarBuilder::new();
    let mut made = 0;
    for number in 0.. {
        let len = 1 + usize::try_from(random.below(200_000)).unwrap();
        // Some compress to half, some to less.
        let alphabet = 8 + random.below(8);
        let content: Vec<u8> =
            (0..len).map(|_| u8::try_from(random.below(alphabet)).unwrap()).collect();
        tar = tar.file(&format!("file {number}"), &content);
        made += len;
        if made >= bytes {
            return tar.finish();
        }
    }
    unreachable!()
}

fn assert_near(found: Option<(u64, Basis)>, expected: usize, what: &str) {
    let Some((bytes, Basis::Sampled)) = found else { panic!("{what}: {found:?}") };
    let expected = expected as u64;
    // The tolerance of the comparison with free space.
    assert!(bytes.abs_diff(expected) <= expected / 10, "{what}: {bytes}, expected {expected}");
}

#[test]
fn small_archives_are_known_exactly() {
    let tar = tar(500_000);
    let len = tar.len() as u64;
    for (what, archive) in [
        ("tar", tar.clone()),
        ("one frame", compress::zstd_one_frame(&tar, 1, None, true, false)),
        ("one sized frame", compress::zstd_one_frame(&tar, 1, None, false, true)),
        ("frames", compress::zstd_frames(&tar, 5000, 1)),
        ("frames without sizes", compress::zstd_frames_unsized(&tar, 5000, 1)),
        ("a mixture", compress::zstd_mixed(&tar, 3)),
        ("lz4", compress::lz4_frame(&tar)),
        ("lz4 frames", compress::lz4_frames(&tar, 5000)),
        (
            "skippable",
            [compress::skippable_frame(b"x"), compress::zstd_frames(&tar, 9000, 1)].concat(),
        ),
    ] {
        let (found, kept) = look(PLAN, WHOLE, &archive);
        assert_eq!(found, Some((len, Basis::Decoded)), "{what}");
        assert!(kept.beginning == tar, "{what}: other bytes");
    }
}

#[test]
fn walked_archives_are_known_if_they_declare_their_size() {
    let tar = tar(6_000_000);
    let len = tar.len() as u64;
    let archives = [
        ("tar", tar.clone()),
        ("one sized frame", compress::zstd_one_frame(&tar, 1, None, true, true)),
        ("frames", compress::zstd_frames(&tar, 300_000, 1)),
        ("tiny frames", compress::zstd_frames(&tar, 700, 1)),
        (
            "skippable",
            [compress::zstd_frames(&tar, 300_000, 1), compress::skippable_frame(&[7; 1000])]
                .concat(),
        ),
    ];
    for (what, archive) in archives {
        let (found, kept) = look(SMALL, WHOLE, &archive);
        assert_eq!(found, Some((len, Basis::Declared)), "{what}");
        assert!(
            tar.starts_with(&kept.beginning) && kept.beginning.len() as u64 >= MIB / 4,
            "{what}"
        );
        if what == "frames" {
            assert!(kept.middle.len() > 1, "{} samples", kept.middle.len());
            for sample in kept.middle {
                let common = sample.len().min(300_000);
                let found = tar.chunks(300_000).any(|piece| piece.starts_with(&sample[..common]));
                assert!(found && common > 1000, "{what}: {common}");
            }
        }
    }
    for (what, archive) in [
        ("one frame", compress::zstd_one_frame(&tar, 1, None, true, false)),
        ("frames without sizes", compress::zstd_frames_unsized(&tar, 300_000, 1)),
        ("lz4", compress::lz4_frame(&tar)),
    ] {
        assert_near(look(SMALL, WHOLE, &archive).0, tar.len(), what);
    }
}

fn frames_with_checksums(raw: &[u8]) -> Vec<u8> {
    let mut encoder = compress::ZstdEncoder::new(1, true, None);
    raw.chunks(1_500_000).flat_map(|piece| encoder.unsized_frame(piece).to_vec()).collect()
}

#[test]
fn large_archives_are_estimated() {
    // The beginning compresses unlike the rest, as a bank file does.
    let mut tar = TarBuilder::new().file("first", &vec![0; 1_000_000]).into_bytes();
    tar.extend(self::tar(16_000_000));
    for (what, archive) in [
        ("one frame", compress::zstd_one_frame(&tar, 1, None, true, false)),
        ("frames", compress::zstd_frames(&tar, 3 << 20, 1)),
        ("frames with checksums", frames_with_checksums(&tar)),
        ("small frames", compress::zstd_frames(&tar, 100_000, 1)),
        ("raw blocks", compress::zstd_raw_blocks(&tar, 100_000)),
        ("lz4", compress::lz4_frame(&tar)),
        ("lz4 frames", compress::lz4_frames(&tar, 400_000)),
    ] {
        let plan = Plan { window_bytes: MIB, ..SMALL };
        let (found, _) = look(plan, NO_TIME, &archive);
        assert_near(found, tar.len(), what);
        let (found, _) = look(plan, CHAINS, &archive);
        if matches!(what, "frames" | "small frames") {
            assert_eq!(found, Some((tar.len() as u64, Basis::Declared)), "{what}");
        } else {
            assert_near(found, tar.len(), what);
        }
    }
    // One frame that declares the whole size.
    let archive = compress::zstd_one_frame(&tar, 1, None, true, true);
    for effort in [NO_TIME, CHAINS] {
        let (found, _) = look(SMALL, effort, &archive);
        assert_eq!(found, Some((tar.len() as u64, Basis::Declared)));
    }
    // One frame that declares almost the whole size, and another one that only a walk finds.
    let archive = [archive, compress::zstd_one_frame(&[7; 1000], 1, None, false, true)].concat();
    let (found, _) = look(SMALL, CHAINS, &archive);
    assert_eq!(found, Some((tar.len() as u64 + 1000, Basis::Declared)));
}

/// Returns a frame of empty or raw blocks, with a content size field of eight bytes.
fn frame(content_bytes: u64, blocks: &[&[u8]]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x48];
    frame.extend(content_bytes.to_le_bytes());
    for (index, block) in blocks.iter().enumerate() {
        let last = u32::from(index + 1 == blocks.len());
        let header = u32::try_from(block.len()).unwrap() << 3 | last;
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(*block);
    }
    frame
}

fn is_declared(found: Option<(u64, Basis)>) -> bool {
    found.is_some_and(|(_, basis)| basis == Basis::Declared)
}

#[test]
fn wrong_sizes_and_garbage_are_not_believed() {
    // Decode too little to know the size from it.
    let head = Budget { compressed_bytes: 1000, raw_bytes: 1000 };
    let all = Plan { head, ..SMALL };
    let filling = frame(400_000, &[&vec![5; 100_000][..]; 4]);
    let with = |tail: &[u8]| [filling.as_slice(), tail].concat();
    let mut run = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x48];
    for _ in 0..20_000 {
        // An RLE block of 128 KiB in four bytes.
        run.extend([0x02, 0x00, 0x10, 0x00]);
    }
    run.extend([1, 0, 0]);
    for (what, archive) in [
        ("more than its blocks hold", with(&frame(1 << 20, &[&[1; 1000]]))),
        ("no end of bytes", with(&[frame(u64::MAX, &[b"x"]), frame(u64::MAX, &[b"x"])].concat())),
        ("a cut frame", with(&filling[..filling.len() - 1])),
        ("a cut header", with(&filling[..5])),
        ("a cut skippable frame", with(&[0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff])),
        ("garbage behind", with(b"garbage and more garbage")),
        ("a reserved block", with(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x48, 0x07, 0, 0])),
        ("a block that is too large", with(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x48, 0xf9, 0xff, 0xff])),
        ("more than limits allow", with(&run)),
        ("nothing", Vec::new()),
        ("text", vec![b'a'; 1_000_000]),
        (
            "a block of lz4 that is too large",
            [&compress::lz4_frame(b"x")[..7], &vec![0xff; 300_000]].concat(),
        ),
    ] {
        assert_eq!(look(all, WHOLE, &archive).0, None, "{what}");
        assert!(!is_declared(look(all, CHAINS, &archive).0), "{what}");
    }
    // Truncated anywhere, in every shape and surveyed in every way.
    let tar = tar(400_000);
    for archive in [
        compress::zstd_frames(&tar, 50_000, 1),
        compress::zstd_one_frame(&tar, 1, None, true, false),
        compress::lz4_frames(&tar, 50_000),
    ] {
        let head = Budget { compressed_bytes: 10_000, raw_bytes: 10_000 };
        let plan = Plan { head, window_bytes: 50_000, ..SMALL };
        for effort in [WHOLE, CHAINS, NO_TIME] {
            for cut in (0..archive.len()).step_by(20_011) {
                look(plan, effort, &archive[..cut]);
            }
        }
    }
}

#[test]
fn empty_frames_without_end_cost_little() {
    let empty = frame(0, &[b""]);
    let archive: Vec<u8> = empty.iter().copied().cycle().take(empty.len() * 300_000).collect();
    for effort in [WHOLE, CHAINS] {
        assert_eq!(look(SMALL, effort, &archive).0, Some((0, Basis::Declared)));
    }
    look(SMALL, NO_TIME, &archive);
}

/// Data that looks like a block everywhere, but never for long.
#[test]
fn deceptive_windows_cost_little() {
    let mut archive = frame(2 << 20, &[&vec![5; 100_000][..]; 4]);
    let mut random = Random::new(3);
    while archive.len() < 4 << 20 {
        // Raw blocks of at most two bytes, and now and then an invalid block.
        let size = u8::try_from(random.below(3)).unwrap();
        archive.extend([size << 3, 0, 0]);
        if random.below(14) == 0 {
            archive.extend([0x06; 3]);
        }
    }
    let reads = AtomicU32::new(0);
    let counted = Counted { bytes: &archive, reads: &reads };
    let len = archive.len() as u64;
    survey_by(SMALL, &counted, len, &Limits::default(), &NO_TIME, &mut Kept::default());
    let reads = reads.into_inner();
    assert!(reads < 100, "{reads} reads");
}

struct Counted<'a> {
    bytes: &'a [u8],
    reads: &'a AtomicU32,
}

impl ReadAt for Counted<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.read_at(buffer, offset)
    }
}

struct Broken;

impl ReadAt for Broken {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::Error::other("broken"))
    }
}

#[test]
fn an_unreadable_archive_has_no_known_size() {
    let survey = survey(&Broken, 1 << 40, &Limits::default(), &CHAINS, &mut Kept::default());
    assert_eq!(survey, Survey { raw_bytes: None, untold: None, reads: Reads::default() });
}

#[test]
fn blocks_are_found_from_anywhere() {
    let tar = tar(3_000_000);
    let archive = compress::zstd_one_frame(&tar, 1, None, false, false);
    let mut starts = std::collections::HashSet::new();
    let bytes = archive.as_slice();
    let mut peek = Peek::new(&bytes, archive.len() as u64, 1 << 20);
    let mut walk = Blocks::from_frame(0, Format::Zstd);
    while walk.next(&mut peek).is_ok() {
        starts.insert(walk.at);
    }
    assert!(starts.len() > 15);
    for from in (1..archive.len() as u64 * 2 / 3).step_by(9973) {
        let mut found = Blocks::find(&mut peek, from, None).unwrap();
        // It may begin at an offset that only looks like a block, but soon reaches a real one.
        for _ in 0..2 {
            found.next(&mut peek).unwrap();
        }
        assert!(starts.contains(&found.at), "from {from}: {} is no block", found.at);
    }
}
