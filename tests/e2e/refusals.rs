//! A bad archive is refused wherever it is cut, damaged or longer than it should be, and whatever
//! limit it exceeds: the message names the place, and nothing is left behind. What is wrong by
//! itself is in `hostile`.

use std::{fs, path::PathBuf};

use unsnap_failure::{Failure, Family};
use unsnap_test_support::Setup;
use unsnap_test_support::{
    Site, assert_holds, expected_tree, ledger_tool, run, shapes, small, snapshot_shapes, unpack,
};
use unsnap_testkit::{
    compress,
    tar::{BLOCK_BYTES, TarBuilder, field, snapshot_head},
    tree::{Tree, decompress},
};
use unsnap_unpack::UnpackError;

const SLOT: u64 = 100;

/// What precedes the storages. Only its framing matters here, so its files are short.
fn head() -> TarBuilder {
    snapshot_head(SLOT, b"the bank", b"the status cache")
}

/// A snapshot that is good so far.
fn snapshot() -> TarBuilder {
    head().account("accounts/90.7", &[7; 600]).account("accounts/100.8", b"eight")
}

/// Runs, and expects a bad archive and no trace of the attempt. The destination is absent and empty
/// by turns.
#[track_caller]
fn assert_refused(site: &Site, config: &Setup, what: &str) -> UnpackError {
    let length = fs::metadata(archive_of(config)).unwrap().len();
    site.reset(length % 2 == 1);
    let before = site.state();
    let error = match unpack(config) {
        Ok(report) => panic!("{what}: accepted: {report:?}"),
        Err(error) => error,
    };
    assert_eq!(error.family(), Family::BadArchive, "{what}: {error}");
    assert!(error.to_string().contains(archive_of(config).to_str().unwrap()), "{what}: {error}");
    site.assert_untouched(&before, what);
    error
}

fn archive_of(config: &Setup) -> PathBuf {
    match &config.archive {
        unsnap_pass::Archive::File(path) => path.clone(),
        other => unreachable!("refusals read files, not {other:?}"),
    }
}

/// Cuts an archive at every byte. What the reference finds complete nonetheless (a skippable frame
/// is missing, say) must be unpacked; everything else must be refused.
fn cut_everywhere(name: &str, archive: &[u8]) {
    cut_at(name, archive, 0..archive.len());
}

fn cut_at(name: &str, archive: &[u8], lengths: impl Iterator<Item = usize>) {
    let site = Site::new();
    let tar = decompress(archive).unwrap();
    let expected = expected_tree(archive);
    let mut complete = 0;
    for length in lengths {
        let cut = &archive[..length];
        let what = format!("{name} cut at byte {length} of {}", archive.len());
        let mut config = small(&site.write("archive", cut), &site.output());
        // Thousands of runs: as few threads each as there can be.
        config.pass.tuning.depth = Some(1);
        config.pass.tuning.workers = Some(1);
        let lz4 = name.contains("lz4"); // whose reference takes a cut frame for a whole one
        if length > 0 && !lz4 && decompress(cut).is_ok_and(|decoded| decoded == tar) {
            complete += 1;
            site.reset(false);
            unpack(&config).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_holds(&site.output(), &expected, &what);
            continue;
        }
        let error = assert_refused(&site, &config, &what).to_string();
        let has_position = error.contains("byte ") || error.contains("is empty");
        // Before the format is known there is no place to speak of.
        assert!(has_position || error.contains("this is not"), "{what}: {error}");
    }
    assert!(complete <= 1 + archive.len() / 100, "{name}: {complete} cuts were no cuts");
}

/// Enough that no two entries look alike to a compressor, little enough to be cut at every byte.
fn cut_tar() -> Vec<u8> {
    let mut random = unsnap_testkit::random::Random::new(3);
    let mut bytes = |length| {
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        bytes
    };
    TarBuilder::new()
        .file("version", b"1.2.0")
        .file("snapshots/status_cache", &bytes(30))
        .file("snapshots/100/100", &bytes(60))
        .account("accounts/90.7", &bytes(700))
        .account("accounts/100.8", &bytes(40))
        .finish()
}

#[test]
fn plain_tar_cut_at_every_byte() {
    cut_everywhere("plain tar", &cut_tar());
}

#[test]
fn one_zstd_frame_cut_at_every_byte() {
    let tar = cut_tar();
    cut_everywhere("streamed frame", &compress::zstd_one_frame(&tar, 1, None, false, false));
    cut_everywhere("sized frame", &compress::zstd_one_frame(&tar, 1, None, true, true));
}

#[test]
fn many_zstd_frames_cut_at_every_byte() {
    let tar = cut_tar();
    cut_everywhere("sized frames", &compress::zstd_frames(&tar, 1024, 1));
    cut_everywhere("mixed frames", &compress::zstd_mixed(&tar, 5));
}

#[test]
fn firedancer_frames_cut_at_every_byte() {
    // Padded with long skippable frames, in the midst of which one place is like another.
    let archive = compress::zstd_firedancer(&cut_tar(), 1);
    let is_padding = |at: usize| {
        let around = at.saturating_sub(20)..(at + 20).min(archive.len());
        archive[around].iter().all(|&byte| byte == 0)
    };
    let cuts = (0..archive.len()).filter(|&at| at % 61 == 0 || !is_padding(at));
    cut_at("Firedancer's frames", &archive, cuts);
}

#[test]
fn lz4_cut_at_every_byte() {
    let tar = cut_tar();
    cut_everywhere("lz4 frame", &compress::lz4_frame(&tar));
    cut_everywhere("lz4 frames", &compress::lz4_frames(&tar, 3000));
}

#[test]
fn whatever_follows_is_refused() {
    let site = Site::new();
    let tar = snapshot().finish();
    let noise: Vec<u8> = (3..=u8::MAX).rev().collect();
    for (shape, archive) in snapshot_shapes(&tar) {
        let mut more_tar = vec![0_u8; 512];
        more_tar.push(1);
        let plain = shape == "plain";
        let lz4 = shape.contains("lz4");
        let compressed = |raw: &[u8]| match (plain, lz4) {
            (true, _) => raw.to_vec(),
            (_, true) => compress::lz4_frame(raw),
            _ => compress::zstd_one_frame(raw, 1, None, false, true),
        };
        let mut tails = vec![
            ("one byte", vec![1]),
            ("noise", noise.clone()),
            ("itself", archive.clone()),
            ("data behind the end of the tar", compressed(&more_tar)),
            ("another archive's entry", compressed(&TarBuilder::new().file("x", b"y").finish())),
        ];
        if !plain {
            tails.push(("zeros", vec![0; 512]));
            tails.push((
                "half a skippable frame",
                compress::skippable_frame(&[1; 20])[..15].to_vec(),
            ));
            tails.push(("a magic number", archive[..4].to_vec()));
        }
        for (tail_name, tail) in tails {
            let what = format!("{shape} followed by {tail_name}");
            let path = site.write("archive", &[archive.as_slice(), &tail].concat());
            let error = assert_refused(&site, &small(&path, &site.output()), &what).to_string();
            assert!(error.contains("byte "), "{what}: {error}");
        }
    }
}

#[test]
fn what_may_follow_is_accepted() {
    let site = Site::new();
    let tar = snapshot().finish();
    let expected = expected_tree(&tar);
    let zeros = [0; 10_240];
    for (shape, archive) in shapes(&tar) {
        let tails: Vec<Vec<u8>> = match shape {
            "plain" => vec![zeros.to_vec(), vec![0]],
            shape if shape.contains("lz4") => {
                vec![compress::lz4_frame(&zeros), compress::skippable_frame(b"note")]
            }
            _ => vec![
                compress::zstd_one_frame(&zeros, 1, None, false, true),
                compress::zstd_one_frame(&[], 1, None, true, false),
                compress::skippable_frame(b"note"),
            ],
        };
        for tail in tails {
            let path = site.write("archive", &[archive.as_slice(), &tail].concat());
            site.reset(false);
            unpack(&small(&path, &site.output())).unwrap();
            assert_holds(&site.output(), &expected, shape);
        }
    }
}

#[test]
fn every_flipped_bit_of_a_header_is_noticed() {
    let site = Site::new();
    let before = snapshot().into_bytes();
    let tar = snapshot().account("accounts/99.1", &[1; 100]).finish();
    let expected = expected_tree(&tar);
    let mut harmless = Vec::new();
    for bit in 0..BLOCK_BYTES * 8 {
        let mut flipped = tar.clone();
        flipped[before.len() + bit / 8] ^= 1 << (bit % 8);
        let what = format!("bit {} of byte {}", bit % 8, bit / 8);
        let config = small(&site.write("archive", &flipped), &site.output());
        // How the checksum's number is written is not part of the number: a zero in front may be a
        // space, a NUL behind too.
        if field::CHECKSUM.contains(&(bit / 8)) {
            site.reset(false);
            if unpack(&config).is_ok() {
                assert_holds(&site.output(), &expected, &what);
                harmless.push(bit);
                continue;
            }
        }
        let error = assert_refused(&site, &config, &what).to_string();
        assert!(error.contains(&format!("byte {}", before.len())), "{what}: {error}");
    }
    assert!(harmless.len() <= 4, "{harmless:?}");
}

#[test]
fn only_one_version_is_known() {
    let site = Site::new();
    for version in ["1.3.0", "1.2.0\n", "1.2", "vv1.2.0", "x"] {
        let tar = TarBuilder::new()
            .file("version", version.as_bytes())
            .file("snapshots/status_cache", b"status")
            .file("snapshots/100/100", b"bank")
            .finish();
        // In segments of a byte its content comes byte by byte.
        for segment_bytes in [None, Some(1)] {
            let mut config = small(&site.write("archive", &tar), &site.output());
            config.pass.tuning.decode.segment_bytes = segment_bytes;
            let error = assert_refused(&site, &config, version).to_string();
            assert!(error.contains("snapshot version is"), "{error}");
        }
    }
}

/// Lowers a limit.
type Lower<'a> = &'a dyn Fn(&mut unsnap_pass::Limits);

#[test]
fn limits_are_kept() {
    let site = Site::new();
    let tar = snapshot().finish();
    let archive = compress::zstd_frames(&tar, 2000, 1);
    let path = site.write("archive", &archive);
    let limited = |lower: Lower<'_>| {
        let mut config = small(&path, &site.output());
        lower(&mut config.pass.limits);
        config
    };
    let cases: [(&str, &str, Lower<'_>); 11] = [
        ("entries", "accounts/90.7", &|limits| limits.layout.entries_max = 5),
        ("apparent", "accounts/90.7", &|limits| limits.layout.apparent_bytes_max = 600),
        ("actual", "accounts/90.7", &|limits| limits.layout.actual_bytes_max = 600),
        ("storage", "accounts/90.7", &|limits| limits.layout.storage_bytes_max = 599),
        ("bank", "snapshots/100/100", &|limits| limits.layout.bank_file_bytes_max = 7),
        ("status", "status_cache", &|limits| limits.layout.status_cache_bytes_max = 5),
        ("version", "version", &|limits| limits.layout.version_bytes_max = 4),
        ("raw", "raw_bytes_max", &|limits| limits.decode.raw_bytes_max = 4000),
        ("frames", "frames_max", &|limits| limits.decode.frames_max = 2),
        ("window", "window_bytes_max", &|limits| limits.decode.window_bytes_max = 100),
        ("no storages at all", "accounts/90.7", &|limits| limits.layout.storage_bytes_max = 0),
    ];
    for (what, named, lower) in cases {
        let error = assert_refused(&site, &limited(lower), what).to_string();
        assert!(error.contains(named) && error.contains("byte "), "{what}: {error}");
    }
    // What is just within is accepted.
    site.reset(false);
    unpack(&limited(&|limits| {
        limits.layout.entries_max = 7;
        limits.layout.storage_bytes_max = 600;
        limits.decode.raw_bytes_max = tar.len() as u64;
    }))
    .unwrap();
}

#[test]
fn accounts_directories_are_left_as_they_were_too() {
    let site = Site::new();
    let accounts: Vec<PathBuf> =
        (0..3).map(|n| site.place().join(format!("accounts{n}"))).collect();
    fs::create_dir(&accounts[1]).unwrap();
    let before: Tree = site.state();
    let archive = site.write("archive", &snapshot().into_bytes());
    let mut config = small(&archive, &site.output());
    config.accounts = accounts;
    assert_eq!(unpack(&config).unwrap_err().family(), Family::BadArchive);
    site.assert_untouched(&before, "an archive without an end");
}

#[test]
fn the_program_says_so_and_ends_with_1() {
    let site = Site::new();
    let good = compress::zstd_frames(&snapshot().finish(), 3000, 1);
    let unknown = compress::zstd_frames(&snapshot().file("evil", b"x").finish(), 3000, 1);
    let cases: [(&str, &[u8], &[&str]); 6] = [
        ("cut.tar.zst", &good[..good.len() - 3], &["the archive is cut", "hint: "]),
        ("longer.tar.zst", &[&good[..], b"?"].concat(), &["foreign bytes", "3f"]),
        ("unknown.tar.zst", &unknown, &["evil", "hint: if this tar is not"]),
        ("link.tar", &snapshot().symlink("accounts/1.1", "x").finish(), &["accounts/1.1", "link"]),
        (
            "text.tar.zst",
            b"<html>404 Not Found</html>",
            &["this is not a zstd, lz4 or tar archive"],
        ),
        ("nothing.tar.zst", b"", &["the archive is empty"]),
    ];
    for (name, bytes, parts) in cases {
        let archive = site.write(name, bytes);
        for empty in [false, true] {
            site.reset(empty);
            let before = site.state();
            let mut tool = ledger_tool();
            tool.arg("unpack").arg(&archive).args(["--verify", "none", "--output"]);
            let outcome = run(tool.arg(site.output())).assert_code(1).assert_error(parts);
            assert!(outcome.stderr.contains(name), "{outcome:?}");
            assert_eq!(outcome.stdout, "");
            let told = outcome.stderr.lines().next().unwrap();
            let causes: Vec<&str> = told.split(": ").collect();
            let unique: std::collections::BTreeSet<&&str> = causes.iter().collect();
            assert_eq!(causes.len(), unique.len(), "says it twice: {told}");
            site.assert_untouched(&before, name);
        }
    }
}
