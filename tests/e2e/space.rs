//! What cannot fit is refused before anything is written, and a run ends before a disk is full.

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    fs::{statvfs, syncfs},
    thread::{CapabilitySet, capabilities},
};
use unsnap_failure::{Failure, Family, Remedy};
use unsnap_fit::{FitError, PreflightReport, Resource};
use unsnap_test_support::Setup;
use unsnap_test_support::{
    Site, assert_holds, assert_same_tree, available, cleaned, expected_tree_of, finish, has_tool,
    ledger_tool, ledger_tool_path, run, skip_unsupported, small, unpack, until,
};
use unsnap_testkit::{
    compress::zstd_frames,
    random::Random,
    scratch::{Ext4, ScratchFs, Tmpfs},
    spec::{ArchiveSpec, Compression, FileSizes, Frames},
    tar::TarBuilder,
    tree::{Node, Tree, decompress, read_tree},
};
use unsnap_unpack::{PreflightMode, UnpackError};

fn tool(archive: &Path, output: &Path) -> Command {
    let mut tool = ledger_tool();
    tool.arg("unpack").arg(archive).arg("--output").arg(output).args(["--format", "json"]);
    tool
}

/// What files take in pages of 4096 bytes, as on a tmpfs.
fn in_pages(tree: &Tree) -> u64 {
    let size = |node: &Node| match node {
        Node::File { bytes, .. } => (bytes.len() as u64).next_multiple_of(4096),
        _ => 0,
    };
    tree.values().map(size).sum()
}

fn spec(total_bytes: u64, frames: Frames, compression: Compression) -> ArchiveSpec {
    ArchiveSpec { total_bytes, frames, compression, ..ArchiveSpec::default() }
}

/// Refused on every way of getting to know what is needed, on a file system and below its root.
fn assert_refused(disk: &ScratchFs, total_bytes: u64) {
    for (spec, exact) in [
        (spec(total_bytes, Frames::One, Compression::Zstd), None),
        (spec(total_bytes, Frames::Sized(1 << 20), Compression::Zstd), None),
        (spec(total_bytes, Frames::Firedancer, Compression::Zstd), None),
        (spec(total_bytes, Frames::One, Compression::Lz4), None),
        (spec(total_bytes, Frames::One, Compression::None), None),
        (spec(14_000_000, Frames::One, Compression::Zstd), Some(())),
    ] {
        let site = Site::new();
        let archive = site.archive(&spec);
        let before = read_tree(disk.path()).unwrap();
        let words = if exact.is_some() { "fit: 1" } else { "fit: about " };
        for output in [disk.path().join("output"), disk.path().to_owned()] {
            let outcome = run(&mut tool(&archive, &output)).assert_code(3).assert_error(&[
                "error: the archive does not ",
                words,
                " bytes)",
                " are needed on the file system of ",
                output.to_str().unwrap(),
                " are available",
                "hint: free space there, or unpack to a larger file system; --no-preflight",
            ]);
            assert_eq!(outcome.stdout, "");
            assert_eq!(outcome.stderr.contains("(estimated"), exact.is_none(), "{outcome:?}");
            let after = read_tree(disk.path()).unwrap();
            assert_same_tree(&after, &before, format_args!("{spec:?}"));
        }
    }
}

#[test]
fn too_small_a_disk_is_refused() {
    let options = Ext4 { size_bytes: 12 << 20, ..Ext4::default() };
    if let Some(disk) = available(ScratchFs::ext4(&options)) {
        assert_refused(&disk, 30_000_000);
    }
    if let Some(disk) = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 12 << 20, inodes: None })) {
        assert_refused(&disk, 30_000_000);
    }
}

#[test]
fn too_few_inodes_are_refused() {
    // Seen one by one, and estimated.
    for (files, words) in [(400, "406 inodes are needed"), (8000, "about ")] {
        let site = Site::new();
        let file_sizes = FileSizes::Fixed(3000);
        let total_bytes = files * 3000;
        let archive =
            site.archive(&ArchiveSpec { total_bytes, file_sizes, ..ArchiveSpec::default() });
        let hint = "hint: remove files there, or unpack to a file system made with more inodes";
        let words = ["does not fit: ", words, " inodes", hint];
        let options = Ext4 { size_bytes: 80 << 20, inodes: Some(64), ..Ext4::default() };
        if let Some(disk) = available(ScratchFs::ext4(&options)) {
            let before = read_tree(disk.path()).unwrap();
            run(&mut tool(&archive, &disk.path().join("output")))
                .assert_code(3)
                .assert_error(&words);
            assert_same_tree(&read_tree(disk.path()).unwrap(), &before, files);
        }
        let options = Tmpfs { size_bytes: 80 << 20, inodes: Some(300) };
        if let Some(disk) = available(ScratchFs::tmpfs(&options)) {
            run(&mut tool(&archive, disk.path())).assert_code(3).assert_error(&words);
            assert!(read_tree(disk.path()).unwrap().is_empty());
        }
    }
}

/// ext4's reserved blocks are free space only for a process that certainly may use them: `doctor`
/// and `unpack` say the same. Mounted for another user than root, so that nothing else lets root in.
#[test]
fn ext4s_reserved_blocks_count_only_for_the_capability_in_the_initial_user_namespace() {
    if !has_tool("setpriv", "--version") || !has_tool("unshare", "--version") {
        return;
    }
    let options = Ext4 {
        size_bytes: 64 << 20,
        reserved_percent: 40,
        mount_options: "resuid=65534".to_owned(),
        ..Ext4::default()
    };
    let Some(disk) = available(ScratchFs::ext4(&options)) else { return };
    let space = statvfs(disk.path()).unwrap();
    let (all, unreserved) = (space.f_bfree * space.f_frsize, space.f_bavail * space.f_frsize);
    let total_bytes = unreserved + (all - unreserved) / 2;
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes, ..ArchiveSpec::default() });
    let output = disk.path().join("output");
    let without: [&[&str]; 2] = [
        &["setpriv", "--bounding-set", "-sys_resource"],
        &["unshare", "--user", "--map-root-user"],
    ];
    let after = |prefix: &[&str]| {
        let mut command = cleaned(Command::new(prefix[0]));
        command.args(&prefix[1..]).arg(ledger_tool_path());
        command
    };
    let free = |mut command: Command| {
        let told = run(command.arg("doctor").arg(disk.path()).args(["--format", "json"]));
        told.json()["facts"]["places"][0]["free_bytes"].as_u64().unwrap()
    };
    for prefix in without {
        let tried = Command::new(prefix[0]).args(&prefix[1..]).arg("true").status().unwrap();
        if !tried.success() {
            skip_unsupported(format_args!("{prefix:?} is refused"));
            return;
        }
        // ext4 frees the blocks of removed files when it commits, and keeps some for itself.
        syncfs(fs::File::open(disk.path()).unwrap()).unwrap();
        let space = statvfs(disk.path()).unwrap();
        assert_eq!(free(after(prefix)), space.f_bavail * space.f_frsize, "{prefix:?}");
        let unpack = |flags: &[&str]| {
            let mut unpack = after(prefix);
            run(unpack.arg("unpack").arg(&archive).arg("--output").arg(&output).args(flags))
                .assert_code(3)
        };
        unpack(&["-q"]).assert_error(&["does not fit"]);
        // It would be wrong to promise them.
        unpack(&["-q", "--no-preflight"]).assert_error(&["No space left"]);
        assert!(!output.exists());
    }
    if !capabilities(None).unwrap().effective.contains(CapabilitySet::SYS_RESOURCE) {
        skip_unsupported("root may not use the reserve: it lacks CAP_SYS_RESOURCE");
        return;
    }
    assert_eq!(free(ledger_tool()), all);
    run(&mut tool(&archive, &output)).assert_code(0);
}

#[test]
fn what_fits_exactly_is_unpacked() {
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes: 9_000_000, ..ArchiveSpec::default() });
    let expected = expected_tree_of(&archive);
    let needed = in_pages(&expected);
    for (missing, code) in [(0, 0), (4096, 3)] {
        let options = Tmpfs { size_bytes: needed - missing, inodes: None };
        let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
        let outcome = run(&mut tool(&archive, disk.path())).assert_code(code);
        if code == 0 {
            let preflight = &outcome.json()["preflight"];
            assert_eq!(preflight["bytes_needed"], needed);
            assert_eq!(preflight["inodes_needed"], expected.len());
            assert_eq!(preflight["warnings"].as_array().unwrap().len(), 1, "{preflight:#}");
            assert!(outcome.stderr.contains("it may not fit"), "{outcome:#?}");
            assert_same_tree(&read_tree(disk.path()).unwrap(), &expected, "it fits");
        } else {
            outcome.assert_error(&[&format!("({needed} bytes) are needed")]);
            assert!(read_tree(disk.path()).unwrap().is_empty());
        }
    }
}

#[test]
fn each_file_system_is_asked_once_and_for_its_share() {
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes: 9_000_000, ..ArchiveSpec::default() });
    let expected = expected_tree_of(&archive);
    let storages: Tree = expected
        .iter()
        .filter(|(path, _)| path.starts_with("accounts/"))
        .map(|(path, node)| (path.clone(), node.clone()))
        .collect();
    let options = Tmpfs { size_bytes: 64 << 20, inodes: None };
    let (Some(one), Some(two)) =
        (available(ScratchFs::tmpfs(&options)), available(ScratchFs::tmpfs(&options)))
    else {
        return;
    };
    let unpack = |output: &Path, accounts: [&Path; 2]| {
        let accounts = accounts.map(|path| path.display().to_string()).join(",");
        let outcome = run(tool(&archive, output).args(["--accounts", &accounts]));
        outcome.assert_code(0).json()["preflight"].clone()
    };
    // Output and one directory here, the other directory there.
    let preflight = unpack(
        &one.path().join("output"),
        [&one.path().join("accounts"), &two.path().join("accounts")],
    );
    let systems = preflight["file_systems"].as_array().unwrap();
    let needed = |index: usize| systems[index]["bytes_needed"].as_u64().unwrap();
    assert_eq!(systems.len(), 2, "{preflight:#}");
    assert_eq!(systems[0]["destinations"].as_array().unwrap().len(), 2);
    let half = in_pages(&storages).div_ceil(2);
    assert_eq!(needed(1), half);
    assert_eq!(needed(0), half + in_pages(&expected) - in_pages(&storages));
    assert_eq!(preflight["bytes_needed"], needed(0) + needed(1));

    // All of them on one file system.
    let preflight = unpack(&two.path().join("a"), [&two.path().join("b"), &two.path().join("c")]);
    let systems = preflight["file_systems"].as_array().unwrap();
    assert_eq!(systems.len(), 1, "{preflight:#}");
    let all = systems[0]["bytes_needed"].as_u64().unwrap();
    assert!(all.abs_diff(in_pages(&expected)) <= 1, "{preflight:#}");
}

/// As if archives were large, and however long it takes to walk them.
fn patient(archive: &Path, output: &Path) -> Setup {
    let mut config = small(archive, output);
    config.pass.tuning.survey_whole_bytes = Some(1 << 20);
    config.preflight = PreflightMode::Exact;
    config
}

fn preflight(config: &Setup) -> PreflightReport {
    unpack(config).unwrap().preflight.unwrap()
}

#[test]
fn large_archives_of_frames_are_known_to_the_byte() {
    for (frames, exact) in [
        (Frames::Sized(1 << 20), true),
        (Frames::Sized(50_000), true),
        (Frames::Sized(1 << 30), true),
        (Frames::One, false),
        (Frames::Firedancer, false),
    ] {
        let site = Site::new();
        let archive = site.archive(&spec(40_000_000, frames, Compression::Zstd));
        let tar_bytes = decompress(&fs::read(&archive).unwrap()).unwrap().len() as u64;
        let mut config = patient(&archive, &site.output());
        let found = preflight(&config);
        assert_eq!(found.tar_bytes_exact, exact, "{frames:?}: {found:?}");
        assert_eq!(found.basis, if exact { "declared" } else { "sampled" });
        let since = (!exact).then_some("not every frame declares its size");
        assert_eq!(found.sampled_since, since, "{frames:?}");
        assert!(found.reads > 0 && found.read_bytes > 0, "{found:?}");
        let found_bytes = found.tar_bytes.unwrap();
        if exact {
            assert_eq!(found_bytes, tar_bytes, "{frames:?}");
        } else {
            assert!(found_bytes.abs_diff(tar_bytes) < tar_bytes / 5, "{found_bytes} {tar_bytes}");
        }
        if frames == Frames::Sized(1 << 20) {
            // Where there is ample room an estimate is enough, and says so.
            site.reset(false);
            config.preflight = PreflightMode::Within(None);
            let found = preflight(&config);
            assert_eq!((found.basis, found.tar_bytes_exact), ("sampled", false));
            assert_eq!(found.sampled_since, Some("samples suffice, there is ample room"));
        }
    }
}

/// Frames of 1 MiB that declare their sizes, more than what is read from end to end: by the program, and
/// by nothing but the figures that hold for everybody.
#[test]
fn an_archive_beyond_the_small_ones_is_known_to_the_byte() {
    let mut random = Random::new(11);
    let mut tar = TarBuilder::new();
    let mut content = vec![0; 9 << 20];
    for number in 0..8 {
        // Nothing that compresses, so that the archive is as large as what is in it.
        random.fill(&mut content);
        tar = tar.file(&format!("file {number}"), &content[number..]);
    }
    let tar = tar.finish();
    let site = Site::new();
    let archive = site.write("large.tar.zst", &zstd_frames(&tar, 1 << 20, 1));
    assert!(fs::metadata(&archive).unwrap().len() > 64 << 20);
    let output = site.output();
    let flags = ["--layout", "any", "--preflight", "exact"];
    let found = run(tool(&archive, &output).args(flags)).assert_code(0).json();
    let preflight = &found["preflight"];
    assert_eq!(preflight["tar_bytes"], tar.len(), "{preflight:#}");
    // What a full decode finds.
    assert_eq!(found["bytes_decoded"], tar.len());
    assert_eq!(preflight["basis"], "declared");
    assert_eq!(preflight["tar_bytes_exact"], true);
    assert_eq!(preflight["sampled_since"], serde_json::Value::Null);
    // A read for each block of 128 KiB, and samples.
    let (reads, blocks) = (preflight["reads"].as_u64().unwrap(), tar.len() as u64 >> 17);
    assert!((blocks..blocks * 2).contains(&reads), "{reads} for {blocks} blocks");

    let options = Tmpfs { size_bytes: 32 << 20, inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
    run(tool(&archive, &disk.path().join("output")).args(flags)).assert_code(3).assert_error(&[
        "the archive does not fit: about ",
        &format!(" (estimated from the {} bytes of its tar stream)", tar.len()),
    ]);
    assert!(read_tree(disk.path()).unwrap().is_empty());
}

#[test]
fn preflight_is_switched_by_its_flags() {
    let site = Site::new();
    let archive = site.archive(&spec(4_000_000, Frames::One, Compression::Zstd));
    for flags in [&["--no-preflight"][..], &["--preflight", "off"]] {
        let output = site.output();
        let report = run(tool(&archive, &output).args(flags)).assert_code(0).json();
        assert_eq!(report["preflight"]["skipped"], "the check is switched off");
        fs::remove_dir_all(output).unwrap();
    }
    for flags in [
        &["--no-preflight", "--preflight", "exact"][..],
        &["--no-preflight", "--preflight-time", "1s"],
        &["--preflight", "maybe"],
    ] {
        run(tool(&archive, &site.output()).args(flags)).assert_code(2);
    }
}

/// Whatever is short is told at once.
#[test]
fn all_that_is_short_is_told() {
    let options = Tmpfs { size_bytes: 8 << 20, inodes: None };
    let (Some(one), Some(two)) =
        (available(ScratchFs::tmpfs(&options)), available(ScratchFs::tmpfs(&options)))
    else {
        return;
    };
    // Not even the files beside the storages have room.
    fs::write(one.path().join("filler"), vec![1; (8 << 20) - 8192]).unwrap();
    let site = Site::new();
    let archive = site.archive(&spec(30_000_000, Frames::One, Compression::Zstd));
    let accounts = two.path().join("accounts");
    let told = run(tool(&archive, &one.path().join("output")).arg("--accounts").arg(&accounts));
    let on = |path: &Path| format!("are needed on the file system of {}", path.display());
    told.assert_code(3).assert_error(&[
        &on(&one.path().join("output")),
        "; about ",
        &on(&accounts),
    ]);
    assert!(read_tree(two.path()).unwrap().is_empty());
}

/// What no window shows is walked over: an archive that is large without being so, most of which is
/// a hole in a frame that decoders pass over.
#[test]
fn frames_around_a_hole_are_found() {
    let site = Site::new();
    let made = site.archive(&spec(20_000_000, Frames::Sized(1 << 20), Compression::Zstd));
    let bytes = fs::read(&made).unwrap();
    let tar_bytes = decompress(&bytes).unwrap().len() as u64;
    let magic = bytes.windows(4).skip(1).position(|four| four == [0x28, 0xb5, 0x2f, 0xfd]);
    let first = magic.unwrap() + 1;
    let mut file = fs::File::create(&made).unwrap();
    let hole_bytes = 80_u32 << 20;
    file.write_all(&bytes[..first]).unwrap();
    file.write_all(&0x184d_2a50_u32.to_le_bytes()).unwrap();
    file.write_all(&hole_bytes.to_le_bytes()).unwrap();
    file.seek(SeekFrom::Current(hole_bytes.into())).unwrap();
    file.write_all(&bytes[first..]).unwrap();
    drop(file);
    let mut config = patient(&made, &site.output());
    // Large by the measure that counts otherwise, too.
    config.pass.tuning.survey_whole_bytes = None;
    let found = preflight(&config);
    assert_eq!((found.basis, found.tar_bytes), ("declared", Some(tar_bytes)), "{found:?}");
}

#[test]
fn large_archives_are_refused_by_exact_figures() {
    let options = Tmpfs { size_bytes: 12 << 20, inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
    let site = Site::new();
    let archive = site.archive(&spec(30_000_000, Frames::Sized(1 << 20), Compression::Zstd));
    let tar_bytes = decompress(&fs::read(&archive).unwrap()).unwrap().len() as u64;
    let error = unpack(&patient(&archive, &disk.path().join("output"))).unwrap_err();
    let UnpackError::Fit(FitError::NoSpace(shortage)) = &error else { panic!("{error}") };
    assert!(!shortage.unpacking && shortage.resource == Resource::Bytes, "{error}");
    assert_eq!(shortage.tar_bytes, Some(tar_bytes), "{error}");
    let needed = shortage.needed.unwrap();
    assert!(needed.abs_diff(tar_bytes) < tar_bytes / 50, "{error}");
    let words = format!(" (estimated from the {tar_bytes} bytes of its tar stream)");
    assert!(error.to_string().contains(&words), "{error}");
    assert!(read_tree(disk.path()).unwrap().is_empty());
}

#[test]
fn of_a_stream_nothing_is_known() {
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes: 3_000_000, ..ArchiveSpec::default() });
    let outcome =
        run(tool(Path::new("-"), &site.output()).stdin(fs::File::open(&archive).unwrap()));
    // A file on standard input is read like any stream.
    let preflight = &outcome.assert_code(0).json()["preflight"];
    assert_eq!(preflight["basis"], "unknown");
    assert!(preflight["skipped"].as_str().unwrap().contains("a stream"), "{preflight:#}");
    assert_eq!(preflight["bytes_needed"], serde_json::Value::Null);
    assert_eq!(preflight["file_systems"].as_array().unwrap().len(), 1);
}

#[test]
fn a_disk_that_others_fill_ends_the_run() {
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes: 9_000_000, ..ArchiveSpec::default() });
    let before = site.state();
    let mut config = small(&archive, &site.output());
    // As if somebody had taken all of it as soon as the run began.
    config.pass.tuning.hidden_bytes = Some(u64::MAX);
    let error = unpack(&config).unwrap_err();
    assert_eq!(error.family(), Family::Environment, "{error}");
    let UnpackError::Fit(FitError::NoSpace(shortage)) = &error else { panic!("{error}") };
    assert!(shortage.unpacking && shortage.resource == Resource::Bytes, "{error}");
    assert_eq!(shortage.available, 0);
    assert!(shortage.needed.unwrap() >= 8_000_000, "{error}");
    assert!(error.to_string().contains("stopped before the file system of"), "{error}");
    assert_eq!(error.remedy(), Some(Remedy::MakeRoom { inodes: false, unpacking: true }));
    site.assert_untouched(&before, "stopped");

    config.preflight = PreflightMode::Off;
    unpack(&config).unwrap();
    assert_holds(&site.output(), &expected_tree_of(&archive), "not watched");
}

/// Real files take the space away while a stream is stuck in the middle. Whatever the moment, the
/// run ends by itself and does not run into the wall: what is in flight (less than 1 MiB) is less
/// than what it leaves free.
#[test]
fn a_stream_ends_before_the_disk_is_full() {
    let options = Tmpfs { size_bytes: 64 << 20, inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
    let site = Site::new();
    let file_sizes = FileSizes::Fixed(200_000);
    let spec = ArchiveSpec { total_bytes: 50_000_000, file_sizes, ..ArchiveSpec::default() };
    let mut archive = fs::read(site.archive(&spec)).unwrap();
    let rest = archive.split_off(archive.len() / 2);
    let mut child = tool(Path::new("-"), &disk.path().join("output"))
        .args(["--memory-budget", "1MiB"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut feed = child.stdin.take().unwrap();
    feed.write_all(&archive).unwrap();
    let staged = disk.path().join(".output.unsnap-staging/accounts");
    // Nearly all that it has been given: 250 files are in the archive.
    until("most of it is staged", || {
        fs::read_dir(&staged).is_ok_and(|entries| entries.count() > 100)
    });
    let free = statvfs(disk.path()).unwrap();
    let free = free.f_bavail * free.f_frsize;
    // 10 MB remain; of 25 files it may not have written yet, and 25 MB are still to come.
    fs::write(disk.path().join("others"), vec![1; usize::try_from(free).unwrap() - 10_000_000])
        .unwrap();
    // It may have ended before it has taken all.
    let _ = feed.write_all(&rest);
    drop(feed);
    finish(child).assert_code(3).assert_error(&[
        "error: stopped before the file system of ",
        "output is full: ",
        "how much is still to come is unknown",
        "hint: free space there and unpack again; --no-preflight",
    ]);
    let left: Vec<_> =
        fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["others"]);
}

/// Another program fills the disk while a stream is stuck in the middle: the run ends because one page
/// less than min-free is free, and says so; without a check beforehand, too.
#[test]
fn a_run_ends_when_another_writer_leaves_less_than_min_free() {
    let kept = 16 << 20;
    for flags in [&[][..], &["--no-preflight"]] {
        let options = Tmpfs { size_bytes: 64 << 20, inodes: None };
        let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
        let site = Site::new();
        let file_sizes = FileSizes::Fixed(200_000);
        let spec = ArchiveSpec { total_bytes: 30_000_000, file_sizes, ..ArchiveSpec::default() };
        let mut archive = fs::read(site.archive(&spec)).unwrap();
        let rest = archive.split_off(archive.len() / 2);
        let mut child = tool(Path::new("-"), &disk.path().join("output"))
            .args(["--memory-budget", "1MiB", "--min-free", &kept.to_string()])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut feed = child.stdin.take().unwrap();
        feed.write_all(&archive).unwrap();
        let staged = disk.path().join(".output.unsnap-staging/accounts");
        until("some of it is staged", || {
            fs::read_dir(&staged).is_ok_and(|entries| entries.count() > 50)
        });
        let free = statvfs(disk.path()).unwrap();
        let others = free.f_bavail * free.f_frsize - kept + 4096;
        fs::write(disk.path().join("others"), vec![1; usize::try_from(others).unwrap()]).unwrap();
        // It may have ended before it has taken all.
        let _ = feed.write_all(&rest);
        drop(feed);
        finish(child).assert_code(3).assert_error(&[
            "error: stopped to leave 16.0 MiB (16777216 bytes) of the file system of ",
            " to other programs (min-free): ",
            " are free, and the archive does not tell how much is still to come",
            "hint: free space there and unpack again, or leave less to other programs (--min-free)",
        ]);
        let left: Vec<_> =
            fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["others"]);
    }
}

/// Room for the archive, but not beside what is to stay free.
#[test]
fn an_archive_that_would_leave_less_than_min_free_is_refused() {
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes: 9_000_000, ..ArchiveSpec::default() });
    let needed = in_pages(&expected_tree_of(&archive));
    let options = Tmpfs { size_bytes: needed + (16 << 20), inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
    let output = disk.path().join("output");
    for (min_free, code) in [("1KiB,100%", 3), ("17MiB", 3), ("15MiB", 0)] {
        for dry in [&["--dry-run"][..], &[]] {
            let told = run(tool(&archive, &output).args(["--min-free", min_free]).args(dry));
            let told = told.assert_code(code);
            if code == 3 {
                told.assert_error(&[
                    &format!("({needed} bytes) are needed on the file system of "),
                    "are free, of which min-free leaves ",
                    "hint: free space there, or leave less to other programs (--min-free)",
                ]);
                assert!(read_tree(disk.path()).unwrap().is_empty());
            }
        }
    }
    for bad in ["a lot", "110%"] {
        let refused = run(tool(&archive, &output).args(["--min-free", bad])).assert_code(2);
        assert!(refused.stderr.contains("such as 10GiB,2%"), "{refused:?}");
    }
}
