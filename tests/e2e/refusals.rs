//! A bad archive is refused, whatever is wrong with it: the message names the entry and the place,
//! and nothing is left behind.

use std::{
    fs,
    path::{Path, PathBuf},
};

use unsnap_testkit::{
    compress,
    spec::ArchiveSpec,
    tar::{BLOCK_BYTES, Dialect, Header, TarBuilder, field, snapshot_head},
    tree::{Tree, decompress},
};
use unsnap_unpack::{Config, Error, Family, LayoutKind};

use crate::support::{
    Site, assert_holds, expected_tree, ledger_tool, run, shapes, small, small_any, snapshot_shapes,
    unpack,
};

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
fn assert_refused(site: &Site, config: &Config, what: &str) -> Error {
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

fn archive_of(config: &Config) -> PathBuf {
    match &config.archive {
        unsnap_unpack::Archive::File(path) => path.clone(),
        unsnap_unpack::Archive::Stdin => unreachable!("refusals read files"),
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
        config.tuning.depth = Some(1);
        config.tuning.workers = Some(1);
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

/// One thing that is wrong, behind a good beginning.
struct Wrong {
    what: &'static str,
    tar: TarBuilder,
    /// Goes in front of the entries in question: this is where they must be reported.
    at: usize,
    /// What the message must name.
    named: &'static str,
}

/// Appends to a snapshot that is good so far.
fn wrong(
    what: &'static str,
    named: &'static str,
    append: impl FnOnce(TarBuilder) -> TarBuilder,
) -> Wrong {
    let good = snapshot();
    Wrong { what, at: good.len(), tar: append(good), named }
}

fn gnu(kind: u8, path: &str, size: u64) -> Header {
    Header::new(Dialect::Gnu, kind, path, size)
}

fn wrong_entries() -> Vec<Wrong> {
    let entry = |what, named, header: Header| wrong(what, named, |tar| tar.entry(header, &[]));
    let file = |what, path: &'static str| wrong(what, path, |tar| tar.file(path, b"x"));
    let empty = Header::account("accounts/98.1", 0);
    let two_sizes = wrong("two sizes", "accounts/98.1", |tar| {
        tar.pax(&[("size", "5")]).file_in(Dialect::Ustar, "accounts/98.1", b"x")
    });
    vec![
        // Reported where the entry's own header is, behind its PAX header of two blocks.
        Wrong { at: two_sizes.at + 2 * BLOCK_BYTES, ..two_sizes },
        file("unknown name", "evil"),
        file("unknown name among the accounts", "accounts/notes.txt"),
        file("directory in between", "accounts/98/1"),
        file("bank file of another name", "snapshots/100/99"),
        file("bank file of another slot", "snapshots/99/99"),
        file("upwards", "../x"),
        file("upwards from within", "accounts/../x"),
        file("upwards at the end", "accounts/.."),
        file("absolute", "/etc/x"),
        file("empty component", "accounts//98.1"),
        file("dot component", "accounts/./98.1"),
        file("slash behind a file", "accounts/98.1/"),
        file("leading zero", "accounts/098.1"),
        file("number too large", "accounts/98.4294967295"),
        file("storage newer than the snapshot", "accounts/101.9"),
        file("same storage again", "accounts/90.7"),
        file("same slot again", "accounts/90.8"),
        file("second version", "version"),
        wrong("second directory", "snapshots/100", |tar| tar.directory("snapshots/100/")),
        wrong("unknown directory", "extra", |tar| tar.directory("extra")),
        wrong("directory in place of a storage", "accounts/98.1", |tar| {
            tar.directory("accounts/98.1")
        }),
        wrong("symbolic link", "accounts/98.1", |tar| tar.symlink("accounts/98.1", "/etc/passwd")),
        wrong("symbolic link in place of a directory", "accounts", |tar| {
            tar.symlink("accounts", "/tmp")
        }),
        wrong("hard link", "accounts/98.1", |tar| tar.hard_link("accounts/98.1", "version")),
        entry("fifo", "accounts/98.1", gnu(b'6', "accounts/98.1", 0)),
        entry("character device", "accounts/98.1", gnu(b'3', "accounts/98.1", 0)),
        entry("block device", "accounts/98.1", gnu(b'4', "accounts/98.1", 0)),
        entry("sparse file", "accounts/98.1", gnu(b'S', "accounts/98.1", 0)),
        entry("unknown type", "accounts/98.1", gnu(b'Z', "accounts/98.1", 0)),
        entry("empty storage", "accounts/98.1", empty),
        entry("directory with content", "snapshots", gnu(b'5', "snapshots", 512)),
        entry(
            "negative size",
            "accounts/98.1",
            gnu(b'0', "accounts/98.1", 0).size_binary(u64::MAX),
        ),
        entry("size of no number", "accounts/98.1", {
            gnu(b'0', "accounts/98.1", 0).patch(field::SIZE.start, b"ninety-nine\0")
        }),
        wrong("long name upwards", "../../x", |tar| tar.long_name(b"../../x").file("cut", b"x")),
    ]
}

#[test]
fn wrong_entries_are_named_with_their_place() {
    let site = Site::new();
    for Wrong { what, tar, at, named } in wrong_entries() {
        for (shape, archive) in shapes(&tar.finish()) {
            let what = format!("{what}, {shape}");
            let config = small(&site.write("archive", &archive), &site.output());
            let error = assert_refused(&site, &config, &what).to_string();
            assert!(error.contains(named), "{what}: no {named} in {error}");
            assert!(error.contains(&format!("byte {at}")), "{what}: no byte {at} in {error}");
        }
    }
}

#[test]
fn layout_any_has_limits_too() {
    let site = Site::new();
    let long_component = "c".repeat(256);
    let long_path = "d/".repeat(2050);
    let file = |path: &str| TarBuilder::new().file(path, b"x");
    let cases = [
        ("symbolic link", "link", TarBuilder::new().symlink("link", "/etc")),
        ("through a link", "link", TarBuilder::new().symlink("link", "/etc").file("link/x", b"x")),
        ("hard link", "hard", file("a").hard_link("hard", "a")),
        ("fifo", "pipe", TarBuilder::new().entry(gnu(b'6', "pipe", 0), &[])),
        ("device", "disk", TarBuilder::new().entry(gnu(b'4', "disk", 0), &[])),
        ("sparse", "holes", TarBuilder::new().entry(gnu(b'S', "holes", 0), &[])),
        ("upwards", "../x", file("../x")),
        ("upwards inside", "a/../../x", file("a/../../x")),
        ("upwards at the end", "a/..", TarBuilder::new().directory("a/..")),
        ("absolute", "/etc/x", file("/etc/x")),
        ("absolute after a dot", ".//etc/x", file(".//etc/x")),
        ("control character", "a\\x0ab", file("a\nb")),
        ("escape sequence", "\\x1b[31m", file("\x1b[31m")),
        ("right to left", "202e", file("a\u{202e}b")),
        ("not UTF-8", "\\xff", TarBuilder::new().entry(gnu(b'0', "", 0).path(b"a\xff"), &[])),
        ("empty component", "a//b", file("a//b")),
        ("twice", "\"a\"", file("a").file("a", b"y")),
        ("twice, said differently", "./a", file("a").file("./a", b"y")),
        ("file, then directory", "a/b", file("a").file("a/b", b"y")),
        ("directory, then file", "a", file("a/b").file("a", b"y")),
        (
            "long component",
            "ccc",
            TarBuilder::new().long_name(long_component.as_bytes()).file("c", b""),
        ),
        ("long path", "d/d", TarBuilder::new().long_name(long_path.as_bytes()).file("c", b"")),
        ("empty name", "empty path", file("")),
    ];
    for (what, named, tar) in cases {
        let config = small_any(&site.write("archive.tar", &tar.finish()), &site.output());
        let error = assert_refused(&site, &config, what).to_string();
        let named = named.trim_matches('"');
        assert!(error.contains(named), "{what}: no {named:?} in {error}");
        assert!(error.contains("byte "), "{what}: {error}");
        assert!(!error.contains(['\x1b', '\n', '\u{202e}']), "{what}: {error:?}");
    }
}

#[test]
fn a_slot_that_contradicts_the_name_is_refused() {
    let site = Site::new();
    let spec = ArchiveSpec { slot: SLOT + 1, ..ArchiveSpec::default() };
    let other_slot = spec.name();
    let incremental = ArchiveSpec { slot: SLOT, base_slot: Some(95), ..spec.clone() }.name();
    let archive = compress::zstd_frames(&snapshot().finish(), 5000, 1);
    let cases = [
        (other_slot, "snapshots/100", "slot 100"),
        // A storage of slot 90 belongs to the full snapshot of slot 95.
        (incremental, "accounts/90.7", "slot 95"),
    ];
    for (name, entry, slot) in cases {
        let config = small(&site.write(&name, &archive), &site.output());
        let error = assert_refused(&site, &config, &name).to_string();
        assert!(error.contains(entry) && error.contains(slot), "{error}");
        assert!(error.contains("byte "), "{error}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let site = Site::new();
    let account = |tar: TarBuilder| tar.account("accounts/90.7", b"x").finish();
    let bank = |tar: TarBuilder| tar.file("snapshots/100/100", b"bank");
    let status = |tar: TarBuilder| tar.file("snapshots/status_cache", b"status");
    let version = |tar: TarBuilder| tar.file("version", b"1.2.0");
    let cases = [
        ("version", account(bank(status(TarBuilder::new())))),
        ("snapshots/status_cache", account(bank(version(TarBuilder::new())))),
        ("snapshots/<slot>/<slot>", account(status(version(TarBuilder::new())))),
        ("version", TarBuilder::new().finish()),
    ];
    for (missing, tar) in cases {
        for (shape, archive) in shapes(&tar) {
            let config = small(&site.write("archive", &archive), &site.output());
            let error = assert_refused(&site, &config, shape).to_string();
            assert!(error.contains(&format!("has no {missing}")), "{shape}: {error}");
        }
    }
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
            config.tuning.decode.segment_bytes = segment_bytes;
            let error = assert_refused(&site, &config, version).to_string();
            assert!(error.contains("snapshot version is"), "{error}");
        }
    }
}

/// Lowers a limit.
type Lower<'a> = &'a dyn Fn(&mut unsnap_unpack::Limits);

#[test]
fn limits_are_kept() {
    let site = Site::new();
    let tar = snapshot().finish();
    let archive = compress::zstd_frames(&tar, 2000, 1);
    let path = site.write("archive", &archive);
    let limited = |lower: Lower<'_>| {
        let mut config = small(&path, &site.output());
        lower(&mut config.limits);
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
fn a_bomb_is_not_unpacked() {
    let site = Site::new();
    // 300 MiB of zeros in about 10 kB; a storage so large that all of it is within the sizes.
    let blocks = 300 << 20;
    let header = snapshot().entry(Header::account("accounts/99.1", blocks), &[]).into_bytes();
    let bomb = compress::zstd_rle_blocks(0, usize::try_from(blocks).unwrap(), 128 << 10);
    let archive = [compress::zstd_one_frame(&header, 1, None, false, true), bomb].concat();
    let config = small(&site.write("archive", &archive), &site.output());
    let error = assert_refused(&site, &config, "bomb").to_string();
    assert!(error.contains("ratio_max"), "{error}");
}

#[test]
fn zstd_golden_frames_are_judged_as_by_zstd() {
    let site = Site::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/zstd-golden");
    let frames = |folder: &str| {
        let entries = fs::read_dir(golden.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let frames: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|end| end == "zst")).collect();
        assert!(frames.len() >= 3);
        frames
    };
    for (folder, good) in [("golden-decompression", true), ("golden-decompression-errors", false)] {
        for path in frames(folder) {
            for threads in [1, 2] {
                let mut config = small_any(&path, &site.output());
                config.decode_threads = Some(threads);
                site.reset(false);
                // The good ones decode, some into zeros, which are an empty tar, the others into
                // no tar at all.
                let decoded = match unpack(&config) {
                    Ok(report) => report.files == 0,
                    Err(Error::Tar { .. }) => true,
                    Err(Error::Decode { .. }) => false,
                    Err(error) => panic!("{}: {error}", path.display()),
                };
                assert_eq!(decoded, good, "{}, {threads} threads", path.display());
            }
        }
    }
}

#[test]
fn an_archive_may_not_end_early_in_its_tar() {
    let site = Site::new();
    let good = snapshot();
    let length = good.len();
    let cases = [
        ("no end", good.clone().into_bytes()),
        ("one zero block", good.clone().zero_blocks(1).into_bytes()),
        (
            "one zero block and more",
            good.clone().zero_blocks(1).account("accounts/1.1", b"x").finish(),
        ),
        ("half a zero block", good.clone().zero_blocks(1).raw(&[0; 100]).into_bytes()),
        ("dangling extension", good.pax(&[("path", "accounts/1.1")]).finish()),
    ];
    for (what, tar) in cases {
        for (shape, archive) in shapes(&tar) {
            let what = format!("{what}, {shape}");
            let config = small(&site.write("archive", &archive), &site.output());
            let error = assert_refused(&site, &config, &what).to_string();
            let place = (length..=length + 3 * BLOCK_BYTES)
                .any(|place| error.contains(&format!("byte {place}")));
            assert!(place, "{what}: {error}");
        }
    }
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
fn a_dry_run_refuses_the_same() {
    let site = Site::new();
    let before = site.state();
    for Wrong { what, tar, .. } in wrong_entries() {
        let mut config = small(&site.write("archive", &tar.finish()), &site.output());
        let written = unpack(&config).unwrap_err().to_string();
        config.dry_run = true;
        let checked = unpack(&config).unwrap_err().to_string();
        assert_eq!(written, checked, "{what}");
        config.layout = LayoutKind::Any;
        site.assert_untouched(&before, what);
    }
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
            let outcome =
                run(ledger_tool().arg("unpack").arg(&archive).arg("--output").arg(site.output()))
                    .assert_code(1)
                    .assert_error(parts);
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
