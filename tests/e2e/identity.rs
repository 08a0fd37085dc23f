//! What comes out is what went in: byte for byte, exactly the archive's files and directories, with
//! modes 0644 and 0755.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
};

use unsnap_pass::{Decoder, DirectMode, FaultPlan, IoEngine};
use unsnap_test_support::Setup;
use unsnap_test_support::{
    Site, assert_holds, assert_same_tree, expected_tree, expected_tree_of, genuine, genuine_full,
    has_tool, has_uring, is_root, ledger_tool, ledger_tool_after, run, shapes, skip,
    skip_unsupported, small, small_any, snapshot_shapes, unpack,
};
use unsnap_testkit::{
    random::Random,
    spec::{ArchiveSpec, Compression, FileSizes, Frames},
    tar::{Dialect, Header, TarBuilder, account_path, snapshot_head},
    tree::{Node, Tree, read_tree},
};

fn engines() -> Vec<(&'static str, IoEngine)> {
    let faulty = |seed| IoEngine::Faulty(FaultPlan::new(seed).short(300).interrupt(200));
    let mut engines = vec![
        ("threads", IoEngine::Threads),
        ("faulty 1", faulty(1)),
        ("faulty 2", faulty(2)),
        ("faulty 3", faulty(3)),
    ];
    if has_uring() {
        engines.push(("uring", IoEngine::Uring));
    }
    engines
}

/// The modes, as far as direct I/O is to be had where the tests work. `Auto` may use both ways in
/// one run.
fn direct_modes(site: &Site) -> Vec<DirectMode> {
    let mut config = small(&genuine_full(), &site.output());
    config.pass.io.direct = DirectMode::On;
    let works = unpack(&config);
    site.reset(false);
    match works {
        Ok(_) => vec![DirectMode::On, DirectMode::Auto, DirectMode::Off],
        Err(error) => {
            // Of the file system that the tests are on.
            skip_unsupported(format_args!("direct I/O: {error}"));
            vec![DirectMode::Auto, DirectMode::Off]
        }
    }
}

#[track_caller]
fn assert_unpacks(site: &Site, config: &Setup, expected: &Tree, what: &str) {
    site.reset(false);
    if let Err(error) = unpack(config) {
        panic!("{what}: {error}");
    }
    assert_holds(&config.output, expected, what);
}

#[test]
fn genuine_archives_by_every_engine_mode_and_number_of_threads() {
    let site = Site::new();
    let modes = direct_modes(&site);
    for archive in genuine() {
        let expected = expected_tree_of(&archive);
        for (engine_name, engine) in engines() {
            for &direct in &modes {
                for threads in [1, 2, 8] {
                    let mut config = small(&archive, &site.output());
                    config.pass.resources.memory_budget = Some(16 << 20);
                    config.pass.io.engine = engine.clone();
                    config.pass.io.direct = direct;
                    config.pass.resources.decode_threads = Some(threads);
                    for decoder in [Decoder::Libzstd, Decoder::Own] {
                        config.pass.resources.decoder = decoder;
                        config.pass.tuning.decode.chunks = Some(1 + threads);
                        let what = format!(
                            "{}, {engine_name}, {direct:?}, {threads}, {decoder:?}",
                            archive.display()
                        );
                        assert_unpacks(&site, &config, &expected, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn generated_archives_of_every_shape() {
    let site = Site::new();
    let modes = direct_modes(&site);
    let base = ArchiveSpec { total_bytes: 8_000_000, ..ArchiveSpec::default() };
    let fixed = FileSizes::Fixed;
    // Few: ext4 passes over recently freed inodes one by one, so that making thousands of files
    // again and again takes most of a second each time.
    let small_files =
        |bytes| ArchiveSpec { file_sizes: fixed(bytes), total_bytes: 300 * bytes, ..base.clone() };
    let specs = [
        ArchiveSpec { frames: Frames::One, ..base.clone() },
        ArchiveSpec { frames: Frames::AGAVE, total_bytes: 40_000_000, ..base.clone() },
        ArchiveSpec { frames: Frames::Sized(300_000), ..small_files(8192) },
        ArchiveSpec { frames: Frames::Sized(5_000), ..small_files(3000) },
        ArchiveSpec { frames: Frames::Firedancer, ..base.clone() },
        ArchiveSpec { frames: Frames::Firedancer, ..small_files(1234) },
        ArchiveSpec { compression: Compression::Lz4, ..base.clone() },
        ArchiveSpec {
            compression: Compression::Lz4,
            frames: Frames::Sized(1_000_000),
            ..base.clone()
        },
        ArchiveSpec { compression: Compression::None, ..base.clone() },
        ArchiveSpec { file_sizes: fixed(20_000_001), files: Some(1), ..base.clone() },
        ArchiveSpec {
            file_sizes: fixed(20_000_001),
            files: Some(1),
            frames: Frames::AGAVE,
            ..base.clone()
        },
        ArchiveSpec {
            level: 12,
            checksum: true,
            base_slot: Some(base.slot - 1000),
            ..base.clone()
        },
    ];
    for (index, spec) in specs.iter().enumerate() {
        let archive = site.archive(spec);
        let expected = expected_tree_of(&archive);
        for (number, (engine_name, engine)) in engines().into_iter().enumerate() {
            // One of the faulty ones is enough for archives of this size.
            if engine_name.starts_with("faulty") && number % 3 != index % 3 {
                continue;
            }
            for &direct in &modes {
                let mut config =
                    Setup::new(unsnap_pass::Archive::File(archive.clone()), site.output());
                config.pass.io.engine = engine.clone();
                config.pass.io.direct = direct;
                // Frames of 32 MiB want the default, to be decoded side by side.
                config.pass.resources.memory_budget =
                    (spec.frames != Frames::AGAVE).then_some(48 << 20);
                config.pass.resources.decode_threads = Some([1, 2, 8][(index + number) % 3]);
                config.pass.resources.decoder = [Decoder::Libzstd, Decoder::Own][number % 2];
                let what = format!("{spec:?}, {engine_name}, {direct:?}");
                assert_unpacks(&site, &config, &expected, &what);
            }
        }
        fs::remove_file(archive).unwrap();
    }
}

/// Storages whose lengths put headers, payloads and tails at every place relative to a border.
fn awkward_snapshot(sizes: &[usize]) -> Vec<u8> {
    let mut random = Random::new(11);
    let mut storage = |index: usize, size: usize| {
        let mut bytes = vec![0; size];
        random.fill(&mut bytes);
        let slot = 1 + index as u64;
        (slot, u32::try_from(index).unwrap(), bytes)
    };
    let storages: Vec<_> =
        sizes.iter().enumerate().map(|(index, &size)| storage(index, size)).collect();
    let head = snapshot_head(1000, &[1; 700], &[2; 4096]);
    storages
        .iter()
        .fold(head, |tar, (slot, id, bytes)| tar.account(&account_path(*slot, *id), bytes))
        .finish()
}

/// Segments so small that everything straddles their borders.
fn tiny_segments(segments: &[usize], storages: &[usize]) {
    let site = Site::new();
    let modes = direct_modes(&site);
    let tar = awkward_snapshot(storages);
    let expected = expected_tree(&tar);
    let mut run = 0;
    for (shape, archive) in snapshot_shapes(&tar) {
        let archive = site.write("archive", &archive);
        for &segment_bytes in segments {
            for direct_bytes_min in [0, u64::MAX] {
                for threads in [1, 3] {
                    // All engines take turns.
                    let engines = engines();
                    let (engine_name, engine) = &engines[run % engines.len()];
                    run += 1;
                    let mut config = small(&archive, &site.output());
                    config.pass.io.engine = engine.clone();
                    config.pass.io.direct = modes[0];
                    config.pass.resources.decode_threads = Some(threads);
                    config.pass.resources.decoder = [Decoder::Libzstd, Decoder::Own][run / 2 % 2];
                    config.pass.tuning.decode.chunks = Some(2);
                    config.pass.tuning.decode.segment_bytes = Some(segment_bytes);
                    config.pass.tuning.decode.chunk_bytes = Some(4096);
                    config.pass.tuning.direct_bytes_min = Some(direct_bytes_min);
                    config.pass.tuning.depth = Some(1);
                    config.pass.tuning.workers = Some(1);
                    let what = format!(
                        "{shape}, segments of {segment_bytes}, direct from {direct_bytes_min}, \
                         {threads} threads, {engine_name}"
                    );
                    assert_unpacks(&site, &config, &expected, &what);
                }
            }
        }
    }
}

const AWKWARD: &[usize] = &[1, 511, 512, 513, 1024, 4095, 4096, 4097, 8192, 12_000, 136, 40_001];

#[test]
fn segments_of_single_bytes() {
    tiny_segments(&[1, 7], &[1, 511, 513, 4097]);
}

#[test]
fn segments_of_about_a_tar_block() {
    tiny_segments(&[511, 512, 513], AWKWARD);
}

#[test]
fn segments_of_about_a_page() {
    tiny_segments(&[4095, 4096, 5000], AWKWARD);
}

#[test]
fn segments_of_about_a_window() {
    tiny_segments(&[8191, 65_537], AWKWARD);
}

#[test]
fn genuine_archives_in_small_segments() {
    let site = Site::new();
    let modes = direct_modes(&site);
    for archive in genuine() {
        let expected = expected_tree_of(&archive);
        for segment_bytes in [513, 4096, 5000, 65_537] {
            for direct_bytes_min in [0, u64::MAX] {
                let mut config = small(&archive, &site.output());
                config.pass.io.direct = modes[0];
                config.pass.tuning.decode.segment_bytes = Some(segment_bytes);
                config.pass.tuning.decode.chunk_bytes = Some(4096);
                config.pass.tuning.direct_bytes_min = Some(direct_bytes_min);
                config.pass.tuning.depth = Some(1);
                config.pass.tuning.workers = Some(1);
                let what = format!("{}, {segment_bytes}", archive.display());
                assert_unpacks(&site, &config, &expected, &what);
            }
        }
    }
}

/// A tar that is no snapshot, with one of everything that `--layout any` takes.
fn any_tar() -> Vec<u8> {
    let deep = "deep/".repeat(60) + "file";
    let long = format!("long/{}/{}", "n".repeat(120), "m".repeat(200));
    let prefixed = Header::new(Dialect::Ustar, b'0', "name", 4).prefix(b"some/where");
    let large = Header::new(Dialect::Ustar, b'0', "cut", 0);
    TarBuilder::new()
        .pax_global(&[("comment", "made for a test")])
        .directory("./")
        .file("./dot", b"dot")
        .directory("a/b/")
        .directory("empty directory/")
        .file("a/b/empty", b"")
        .file("a/b/c", &[7; 5000])
        .directory("a/")
        .file_in(Dialect::V7, "old", b"seventh edition")
        .entry(prefixed, b"ustr")
        .long_name(long.as_bytes())
        .file("cut", b"by a GNU extension")
        .long_name(deep.as_bytes())
        .file("cut", b"far down")
        .pax(&[("path", &format!("pax/{}", "p".repeat(250))), ("mtime", "1.5")])
        .file_in(Dialect::Ustar, "cut", b"by PAX")
        .pax(&[("size", "9000"), ("path", "pax/sized")])
        .entry(large, &[9; 9000])
        .file("Grüße aus Köln.txt", b"UTF-8")
        .file("spaces and 'quotes' \"and\" $dollars", b"x")
        .finish()
}

#[test]
fn any_tar_under_layout_any() {
    let site = Site::new();
    let tar = any_tar();
    let expected = expected_tree(&tar);
    assert_eq!(expected["pax/sized"], Node::File { mode: 0o644, bytes: vec![9; 9000] });
    assert!(expected.contains_key("empty directory"));
    for (shape, bytes) in shapes(&tar) {
        let archive = site.write("archive", &bytes);
        for (engine_name, engine) in engines() {
            let mut config = small_any(&archive, &site.output());
            config.pass.io.engine = engine;
            assert_unpacks(&site, &config, &expected, &format!("{shape}, {engine_name}"));
        }
    }
}

#[test]
fn a_tar_of_nothing_is_an_empty_directory() {
    let site = Site::new();
    for (shape, bytes) in shapes(&TarBuilder::new().finish()) {
        let archive = site.write("archive", &bytes);
        let config = small_any(&archive, &site.output());
        assert_unpacks(&site, &config, &Tree::new(), shape);
    }
}

#[test]
fn storages_go_flat_into_accounts_directories() {
    let site = Site::new();
    let spec = ArchiveSpec {
        total_bytes: 3_000_000,
        file_sizes: FileSizes::Fixed(20_000),
        ..ArchiveSpec::default()
    };
    for archive in [genuine_full(), site.archive(&spec)] {
        let whole = expected_tree_of(&archive);
        let is_account = |path: &String| path.starts_with("accounts");
        let (storages, rest): (Tree, Tree) =
            whole.into_iter().partition(|(path, _)| is_account(path));
        let storages: Tree = storages
            .into_iter()
            .filter_map(|(path, node)| Some((path.strip_prefix("accounts/")?.to_owned(), node)))
            .collect();
        for count in [1, 3] {
            let directories: Vec<PathBuf> =
                (0..count).map(|index| site.place().join(format!("accounts {index}"))).collect();
            // Some are there already, some are not.
            fs::create_dir(&directories[0]).unwrap();
            let mut config = small(&archive, &site.output());
            config.accounts.clone_from(&directories);
            let report = unpack(&config).unwrap();
            assert_eq!(report.files, storages.len() as u64 + 3);
            assert_holds(&site.output(), &rest, "output");

            let mut union = Tree::new();
            let mut bytes = BTreeMap::new();
            for directory in &directories {
                let tree = read_tree(directory).unwrap();
                assert!(!tree.is_empty(), "{} got nothing", directory.display());
                for (name, node) in tree {
                    let Node::File { bytes: content, .. } = &node else {
                        panic!("{name}: {node:?}")
                    };
                    *bytes.entry(directory.clone()).or_insert(0) += content.len();
                    assert!(union.insert(name, node).is_none(), "one storage in two directories");
                }
            }
            assert_same_tree(&union, &storages, "all accounts directories together");
            let (least, most) = (bytes.values().min().unwrap(), bytes.values().max().unwrap());
            let largest = storages.values().map(|node| match node {
                Node::File { bytes, .. } => bytes.len(),
                _ => 0,
            });
            assert!(most - least <= largest.max().unwrap(), "unevenly spread: {bytes:?}");
            site.reset(false);
            for directory in directories {
                fs::remove_dir_all(directory).unwrap();
            }
        }
    }
}

#[test]
fn standard_input_is_an_archive_too() {
    let site = Site::new();
    for archive in genuine() {
        let expected = expected_tree_of(&archive);
        let mut tool = ledger_tool();
        tool.args(["unpack", "-", "--format", "json", "--output"]).arg(site.output());

        // A file.
        let report = run(tool.stdin(File::open(&archive).unwrap())).assert_code(0).json();
        assert_eq!(report["archive"], "standard input");
        assert_holds(&site.output(), &expected, "redirected");

        // A pipe.
        site.reset(false);
        let mut cat =
            std::process::Command::new("cat").arg(&archive).stdout(Stdio::piped()).spawn().unwrap();
        run(tool.stdin(cat.stdout.take().unwrap())).assert_code(0);
        assert!(cat.wait().unwrap().success());
        assert_holds(&site.output(), &expected, "piped");
        site.reset(false);
    }
}

#[test]
fn direct_io_that_a_stream_cannot_have_is_named() {
    let mut tool = ledger_tool();
    tool.args(["unpack", "-", "--dry-run", "--format", "json", "--use-direct-io"]);
    let report = run(tool.stdin(File::open(genuine_full()).unwrap())).assert_code(0).json();
    assert_eq!(report["direct_read"], false);
    let fallbacks = report["fallbacks"].as_array().unwrap();
    let named = |fallback: &serde_json::Value| fallback.as_str().unwrap().contains("stream");
    assert!(fallbacks.iter().any(named), "{fallbacks:?}");
}

#[test]
fn a_named_pipe_is_read_like_standard_input() {
    if !has_tool("mkfifo", "--version") {
        return;
    }
    let site = Site::new();
    let pipe = site.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let archive = genuine_full();
    let writer = {
        let (archive, pipe) = (archive.clone(), pipe.clone());
        std::thread::spawn(move || fs::copy(archive, pipe).unwrap())
    };
    unpack(&small(&pipe, &site.output())).unwrap();
    writer.join().unwrap();
    assert_holds(&site.output(), &expected_tree_of(&archive), "named pipe");
}

#[test]
fn the_umask_does_not_matter() {
    let site = Site::new();
    let archive = genuine_full();
    let expected = expected_tree_of(&archive);
    for engine in ["auto", "threads"] {
        for umask in ["077", "000", "777"] {
            if umask == "777" && !is_root() {
                skip("a umask of 777 locks out everybody but root");
                continue;
            }
            site.reset(false);
            run(ledger_tool_after(&format!("umask {umask}"))
                .arg("unpack")
                .arg(&archive)
                .args(["--io-engine", engine, "--output"])
                .arg(site.output()))
            .assert_code(0);
            assert_holds(&site.output(), &expected, format!("umask {umask}, {engine}"));
        }
    }
}

#[test]
fn few_open_files_suffice() {
    let site = Site::new();
    let spec = ArchiveSpec {
        total_bytes: 1_500_000,
        file_sizes: FileSizes::Fixed(3000),
        frames: Frames::Sized(200_000),
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let expected = expected_tree_of(&archive);
    for engine in ["auto", "threads"] {
        for limit in [128, 70] {
            site.reset(false);
            run(ledger_tool_after(&format!("ulimit -n {limit}"))
                .arg("unpack")
                .arg(&archive)
                .args(["--io-engine", engine, "--output"])
                .arg(site.output()))
            .assert_code(0);
            assert_holds(&site.output(), &expected, format!("{limit} open files, {engine}"));
        }
    }
}

#[test]
fn outputs_may_be_named_in_many_ways() {
    let site = Site::new();
    let archive = genuine_full();
    let expected = expected_tree_of(&archive);
    let slash = |path: &Path| PathBuf::from(format!("{}/", path.display()));
    let real = site.place().join("real");
    fs::create_dir(&real).unwrap();
    let link = site.place().join("link");
    symlink(&real, &link).unwrap();
    let linked_output = site.place().join("linked output");
    symlink(site.output(), &linked_output).unwrap();

    // Given name, where the files must be, whether it is there before.
    let cases = [
        (site.output(), site.output(), false),
        (site.output(), site.output(), true),
        (slash(&site.output()), site.output(), false),
        (slash(&site.output()), site.output(), true),
        (site.place().join("./link/../output"), site.output(), false),
        (link.join("output"), real.join("output"), false),
        (link.join("output"), real.join("output"), true),
        (linked_output.clone(), site.output(), true),
    ];
    for (given, found, exists) in cases {
        let what = format!("{} (exists: {exists})", given.display());
        if exists {
            fs::create_dir(&found).unwrap();
        }
        let before = names(&site.place());
        unpack(&small(&archive, &given)).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_holds(&found, &expected, &what);
        fs::remove_dir_all(&found).unwrap();
        let mut after = names(&site.place());
        if exists && found == site.output() {
            after.insert("output".to_owned());
        }
        assert_eq!(before, after, "{what}");
        assert!(names(&real).is_empty(), "{what}");
    }

    // Relative to the working directory, and in it.
    run(ledger_tool().current_dir(site.place()).arg("unpack").arg(&archive).args(["-o", "output"]))
        .assert_code(0);
    assert_holds(&site.output(), &expected, "relative");
}

fn names(directory: &Path) -> std::collections::BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn accounts_need_no_order_and_heads_no_directories() {
    let site = Site::new();
    let tar = TarBuilder::new()
        .account(&account_path(7, 2), &[1; 900])
        .file("snapshots/100/100", b"bank")
        .account(&account_path(100, 1), &vec![2; 40_000])
        .file("version", b"v1.2.0")
        .directory("accounts/")
        .account(&account_path(3, 2), &[3])
        .file("snapshots/status_cache", b"status")
        .finish();
    let archive = site.write("archive.tar", &tar);
    assert_unpacks(&site, &small(&archive, &site.output()), &expected_tree(&tar), "disordered");
}
