//! What an interrupted run has made durable is used, exactly, or not at all.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};
use unsnap_failure::{Failure, Family, Remedy};
use unsnap_pass::{Archive, FaultPlan, IoEngine};
use unsnap_ring::Call;
use unsnap_source::DigestKind;
use unsnap_test_support::Setup;
use unsnap_test_support::{
    Site, assert_holds, assert_same_tree, expected_tree_of, finish, ledger_tool, run, small,
    unpack, until,
};
use unsnap_testkit::{
    spec::{ArchiveSpec, Compression, FileSizes, Frames},
    tree::Tree,
};
use unsnap_unpack::{DigestUse, Report, Resumed, UnpackError};

/// A file of 150: when it fails, most of the archive has been unpacked.
const FAILING_FILE: u64 = 110;

const JOURNAL: &str = ".unsnap-journal";

/// An archive of 12 MB in files of 80 kB.
fn spec(frames: Frames, compression: Compression) -> ArchiveSpec {
    let file_sizes = FileSizes::Fixed(80_000);
    ArchiveSpec {
        total_bytes: 12_000_000,
        file_sizes,
        frames,
        compression,
        ..ArchiveSpec::default()
    }
}

fn config(archive: &Path, site: &Site) -> Setup {
    let mut config = small(archive, &site.output());
    config.resume = true;
    config.pass.tuning.checkpoint_bytes = Some(1_000_000);
    // So that decoding is never far ahead of the walk.
    config.pass.tuning.decode.segment_bytes = Some(64 << 10);
    config
}

fn staging(site: &Site) -> PathBuf {
    site.place().join(".output.unsnap-staging")
}

/// Fails one file. Nothing but a file that was created is closed by an operation of its own, so
/// this counts neither the archive's reads nor the journal's writes.
fn failing_file(number: u64) -> IoEngine {
    IoEngine::Faulty(FaultPlan::new(1).fail_nth(Call::Close, number, Errno::IO))
}

/// Runs until a file fails, after some checkpoints, and leaves what it has done.
#[track_caller]
fn interrupt(config: &Setup, site: &Site) {
    interrupt_at(config, site, FAILING_FILE);
}

#[track_caller]
fn interrupt_at(config: &Setup, site: &Site, file: u64) {
    let mut config = config.clone();
    config.pass.io.engine = failing_file(file);
    let error = unpack(&config).unwrap_err();
    assert_eq!(error.family(), Family::Environment, "{error}");
    assert!(staging(site).join(JOURNAL).exists(), "nothing is left of the interrupted run");
    assert!(!site.output().exists());
}

#[track_caller]
fn assert_complete(report: &Report, expected: &Tree, site: &Site) {
    assert_holds(&site.output(), expected, format_args!("{:?}", report.resumed));
    assert!(!site.output().join(JOURNAL).exists());
    assert!(!staging(site).exists());
}

#[track_caller]
fn resumed(report: &Report) -> Resumed {
    report.resumed.unwrap_or_else(|| panic!("nothing was resumed: {:?}", report.fallbacks))
}

#[test]
fn an_interrupted_run_is_resumed_whatever_the_archive() {
    for (frames, compression, from_the_middle) in [
        (Frames::One, Compression::Zstd, false),
        (Frames::Sized(100_000), Compression::Zstd, true),
        (Frames::Sized(900_000), Compression::Zstd, true),
        (Frames::Firedancer, Compression::Zstd, true),
        (Frames::One, Compression::Lz4, false),
        (Frames::One, Compression::None, false),
    ] {
        let site = Site::new();
        let archive = site.archive(&spec(frames, compression));
        let expected = expected_tree_of(&archive);
        let config = config(&archive, &site);
        interrupt(&config, &site);
        let report = unpack(&config).unwrap();
        let Resumed { files, bytes, from_byte } = resumed(&report);
        assert!(files > 5 && bytes >= 1_000_000, "{frames:?}: {:?}", report.resumed);
        assert_eq!(from_byte > 0, from_the_middle, "{frames:?}");
        let engines = match frames {
            Frames::Sized(_) => &["frame-parallel"][..],
            // The first frame of the rest is not decoded by workers if it does not declare its size.
            Frames::Firedancer => &["frame-parallel", "mixed"],
            Frames::One => &["streaming"],
        };
        assert!(engines.contains(&report.decode_engine), "{frames:?}: {}", report.decode_engine);
        assert_complete(&report, &expected, &site);
        assert_eq!(report.files, 3 + 150, "{frames:?}");
        assert_eq!(report.digest.is_some(), from_byte == 0, "only what is read is digested");
    }
}

/// Interrupted again and again, it still comes to its end.
#[test]
fn a_resumed_run_is_resumed_again() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::Sized(100_000), Compression::Zstd));
    let config = config(&archive, &site);
    let mut steps = 0;
    let mut kept = 0;
    let report = loop {
        // Every run comes a little further than the one before.
        let mut config = config.clone();
        config.pass.io.engine = failing_file(40);
        match unpack(&config) {
            Ok(report) => break report,
            Err(error) => assert_eq!(error.family(), Family::Environment, "{error}"),
        }
        let journal = fs::metadata(staging(&site).join(JOURNAL)).unwrap().len();
        assert!(journal > kept, "a run has got nowhere");
        kept = journal;
        steps += 1;
        assert!(steps < 100);
    };
    assert!(steps > 2, "{steps}");
    assert_complete(&report, &expected_tree_of(&archive), &site);
}

/// Killed without warning, whatever it was doing: the next run goes on, with the flag or without
/// it having been given before.
#[test]
fn a_killed_run_is_resumed() {
    for frames in [Frames::One, Frames::Sized(100_000)] {
        let site = Site::new();
        let spec = ArchiveSpec { total_bytes: 60_000_000, ..spec(frames, Compression::Zstd) };
        let archive = site.archive(&spec);
        let output = site.output();
        let tool = |flags: &[&str]| {
            let mut tool = ledger_tool();
            tool.arg("unpack").arg(&archive).arg("--output").arg(&output);
            tool.args(["--format=json", "--checkpoint-every=500kB"]).args(flags);
            tool
        };
        let mut child = tool(&[]).stdout(std::process::Stdio::null()).spawn().unwrap();
        let journal = staging(&site).join(JOURNAL);
        until("a checkpoint is written, or it is too late", || {
            fs::metadata(&journal).is_ok_and(|file| file.len() > 2000)
                || child.try_wait().unwrap().is_some()
        });
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        finish(child);
        if output.exists() {
            // It was faster than us; the others were not.
            assert_holds(&output, &expected_tree_of(&archive), "finished");
            continue;
        }
        assert!(journal.exists());
        let outcome = run(&mut tool(&["--resume"])).assert_code(0);
        assert!(outcome.json()["resumed"]["files"].as_u64().unwrap() > 0, "{}", outcome.stdout);
        assert_holds(&output, &expected_tree_of(&archive), "resumed");
        assert!(!staging(&site).exists());
    }
}

#[test]
fn without_the_flag_everything_is_taken_back_and_begun_anew() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::One, Compression::Zstd));
    let config = config(&archive, &site);
    let before = site.state();
    let mut plain = config.clone();
    plain.resume = false;
    plain.pass.io.engine = failing_file(FAILING_FILE);
    unpack(&plain).unwrap_err();
    site.assert_untouched(&before, "a failed run without --resume");

    interrupt(&config, &site);
    plain.pass.io.engine = IoEngine::Threads;
    let report = unpack(&plain).unwrap();
    assert_eq!(report.resumed, None);
    assert_complete(&report, &expected_tree_of(&archive), &site);
}

#[test]
fn another_archive_is_refused_and_a_copy_is_not() {
    let site = Site::new();
    let spec = spec(Frames::Sized(100_000), Compression::Zstd);
    let archive = site.archive(&spec);
    let config = config(&archive, &site);
    interrupt(&config, &site);

    // One byte of what was unpacked already.
    let bytes = fs::read(&archive).unwrap();
    let byte = bytes[5000];
    fs::File::options().write(true).open(&archive).unwrap().write_all_at(&[!byte], 5000).unwrap();
    let error = unpack(&config).unwrap_err();
    assert!(matches!(error, UnpackError::NotResumable { .. }), "{error}");
    assert_eq!(error.family(), Family::NotClean);
    assert_eq!(error.remedy(), Some(Remedy::StartOver));
    assert!(staging(&site).join(JOURNAL).exists(), "it can still be resumed");

    // The same bytes in another file.
    fs::remove_file(&archive).unwrap();
    fs::write(&archive, &bytes).unwrap();
    let report = unpack(&config).unwrap();
    assert!(resumed(&report).from_byte > 0);
    assert_complete(&report, &expected_tree_of(&archive), &site);
}

/// Whatever is wrong with what is left, nothing of it is used.
#[test]
fn what_does_not_match_its_journal_is_not_used() {
    type Damage = fn(&Path);
    let damages: [(&str, &str, Damage); 7] = [
        ("a journal damaged in the middle", "journal is damaged", |staging| {
            let journal = fs::File::options().write(true).open(staging.join(JOURNAL)).unwrap();
            journal.write_all_at(b"x", 700).unwrap();
        }),
        ("a journal that is cut to nothing", "had not reached a checkpoint", |staging| {
            fs::write(staging.join(JOURNAL), "").unwrap();
        }),
        ("no journal", "had not reached a checkpoint", |staging| {
            fs::remove_file(staging.join(JOURNAL)).unwrap();
        }),
        ("a journal that is a link", "cannot open it", |staging| {
            let journal = staging.join(JOURNAL);
            fs::rename(&journal, staging.join("elsewhere")).unwrap();
            std::os::unix::fs::symlink("elsewhere", journal).unwrap();
        }),
        ("a file that is missing", "is missing", |staging| {
            fs::remove_file(storage(staging)).unwrap();
        }),
        ("a file that is cut", "bytes instead of", |staging| {
            fs::File::options()
                .write(true)
                .open(storage(staging))
                .unwrap()
                .set_len(79_999)
                .unwrap();
        }),
        ("a link in place of a file", "is missing", |staging| {
            let path = storage(staging);
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
        }),
    ];
    let site = Site::new();
    let archive = site.archive(&spec(Frames::Sized(100_000), Compression::Zstd));
    let expected = expected_tree_of(&archive);
    let config = config(&archive, &site);
    for (what, reason, damage) in damages {
        interrupt(&config, &site);
        damage(&staging(&site));
        let report = unpack(&config).unwrap();
        assert_eq!(report.resumed, None, "{what}");
        let told = report
            .fallbacks
            .iter()
            .any(|fallback| fallback.starts_with("starting over: ") && fallback.contains(reason));
        assert!(told, "{what}: {:?}", report.fallbacks);
        assert_complete(&report, &expected, &site);
        site.reset(false);
    }
}

/// The first storage: recorded by the first checkpoint.
fn storage(staging: &Path) -> PathBuf {
    let journal = fs::read(staging.join(JOURNAL)).unwrap();
    let text = String::from_utf8_lossy(&journal);
    let from = text.find("accounts/").unwrap();
    let path = text[from..].split('"').next().unwrap();
    staging.join(path)
}

#[test]
fn what_was_not_recorded_is_removed() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::One, Compression::Zstd));
    let config = config(&archive, &site);
    interrupt(&config, &site);
    let accounts = staging(&site).join("accounts");
    fs::write(accounts.join("1.1"), "planted").unwrap();
    fs::create_dir(accounts.join("deep")).unwrap();
    fs::write(accounts.join("deep/er"), "planted").unwrap();
    std::os::unix::fs::symlink("/etc", staging(&site).join("link")).unwrap();
    let report = unpack(&config).unwrap();
    resumed(&report);
    assert_complete(&report, &expected_tree_of(&archive), &site);
}

/// Typing errors must not cost what has been unpacked.
#[test]
fn what_is_for_other_destinations_is_refused_and_stays() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::One, Compression::Zstd));
    let mut config = config(&archive, &site);
    let accounts = [site.place().join("a"), site.place().join("b")];
    config.accounts = accounts.to_vec();
    interrupt(&config, &site);
    let left = site.state();
    let mut others: Vec<Setup> = Vec::new();
    for accounts in
        [vec![], vec![accounts[0].clone()], vec![accounts[1].clone(), accounts[0].clone()]]
    {
        others.push(Setup { accounts, ..config.clone() });
    }
    let typo = vec![accounts[0].clone(), site.place().join("typo")];
    others.push(Setup { accounts: typo, ..config.clone() });
    others.push(Setup { archive: Archive::File(site.path("typo")), ..config.clone() });
    others.push(Setup { manifest: Some(site.path("no/such/directory")), ..config.clone() });
    for other in others {
        let error = unpack(&other).unwrap_err();
        let family = error.family();
        let refused = [Family::NotClean, Family::Environment, Family::Request].contains(&family);
        assert!(refused, "{error}");
        assert_same_tree(&site.state(), &left, &error);
    }
    resumed(&unpack(&config).unwrap());
}

/// Neither what one has read nor what another has unpacked is mixed, however often the archive
/// changes in between.
#[test]
fn archives_are_never_mixed() {
    let site = Site::new();
    let spec = spec(Frames::Sized(100_000), Compression::Zstd);
    let archive = site.archive(&spec);
    let genuine = fs::read(&archive).unwrap();
    let mut config = config(&archive, &site);
    interrupt_at(&config, &site, 40);
    // A copy.
    let other = site.path("other").join(spec.name());
    fs::create_dir(site.path("other")).unwrap();
    fs::write(&other, &genuine).unwrap();
    config.archive = Archive::File(other.clone());
    interrupt_at(&config, &site, 40);
    // What the second run has read of its archive is no longer what is in the first.
    let journal =
        String::from_utf8_lossy(&fs::read(staging(&site).join(JOURNAL)).unwrap()).into_owned();
    let end: String = journal
        .rsplit("\"to\":")
        .next()
        .unwrap()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let at = end.parse::<u64>().unwrap() - 1;
    let file = fs::File::options().write(true).open(&archive).unwrap();
    file.write_all_at(&[!genuine[usize::try_from(at).unwrap()]], at).unwrap();
    config.archive = Archive::File(archive);
    let error = unpack(&config).unwrap_err();
    assert!(matches!(error, UnpackError::NotResumable { .. }), "{error}");
    // But the second can be gone on with.
    config.archive = Archive::File(other.clone());
    let report = unpack(&config).unwrap();
    resumed(&report);
    assert_complete(&report, &expected_tree_of(&other), &site);
}

/// An unexpected digest of a resumed run is a bad archive, of which nothing is kept.
#[test]
fn an_unexpected_digest_ends_resuming() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::One, Compression::Zstd));
    let before = site.state();
    let mut config = config(&archive, &site);
    interrupt(&config, &site);
    config.digest = DigestUse::Expect(format!("blake3:{}", "0".repeat(64)).parse().unwrap());
    let error = unpack(&config).unwrap_err();
    assert_eq!(error.family(), Family::BadArchive, "{error}");
    site.assert_untouched(&before, "a wrong digest of a resumed run");
}

/// The manifest must not be what it is about.
#[test]
fn a_manifest_destroys_nothing() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::One, Compression::Zstd));
    let bytes = fs::read(&archive).unwrap();
    let mut config = config(&archive, &site);
    config.manifest = Some(archive.clone());
    assert_eq!(unpack(&config).unwrap_err().family(), Family::Request);
    assert!(fs::read(&archive).unwrap() == bytes, "the archive was overwritten");

    site.reset(true);
    config.manifest = Some(site.output().join("manifest"));
    assert_eq!(unpack(&config).unwrap_err().family(), Family::Request);
    assert_eq!(fs::read_dir(site.output()).unwrap().count(), 0);

    // An old one stays until there is a new one.
    let old = site.write("manifest", b"old");
    config.manifest = Some(old.clone());
    config.archive = Archive::File(site.path("typo"));
    unpack(&config).unwrap_err();
    assert_eq!(fs::read(old).unwrap(), b"old");
}

#[test]
fn files_are_spread_as_before() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::Sized(100_000), Compression::Zstd));
    let mut config = config(&archive, &site);
    config.accounts = vec![site.place().join("a"), site.place().join("b")];
    config.resume = false;
    unpack(&config).unwrap();
    let plain = site.state();
    for name in ["output", "a", "b"] {
        fs::remove_dir_all(site.place().join(name)).unwrap();
    }
    config.resume = true;
    interrupt(&config, &site);
    let report = unpack(&config).unwrap();
    resumed(&report);
    assert_same_tree(&site.state(), &plain, "resumed, over two accounts directories");
}

/// A bad archive is not worth going on with.
#[test]
fn of_a_bad_archive_nothing_is_kept() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::Sized(100_000), Compression::Zstd));
    let bytes = fs::read(&archive).unwrap();
    fs::write(&archive, &bytes[..bytes.len() - 3000]).unwrap();
    let before = site.state();
    let error = unpack(&config(&archive, &site)).unwrap_err();
    assert_eq!(error.family(), Family::BadArchive, "{error}");
    site.assert_untouched(&before, "a cut archive with --resume");
}

#[test]
fn digests_are_checked_and_listed_across_an_interruption() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::Sized(100_000), Compression::Zstd));
    let expected = expected_tree_of(&archive);
    let mut config = config(&archive, &site);
    config.digest = DigestUse::Report(DigestKind::Blake3);
    config.manifest = Some(site.path("plain.jsonl"));
    let report = unpack(&config).unwrap();
    let digest = report.digest.unwrap();
    let plain = fs::read_to_string(site.path("plain.jsonl")).unwrap();
    assert_eq!(plain.lines().count(), 3 + 150 + 1);
    assert!(plain.ends_with(&format!("{{\"files\":153,\"bytes\":{}}}\n", report.bytes_written)));
    site.reset(false);

    // Recorded with digests, and without.
    for recorded in [true, false] {
        let manifest = site.path("resumed.jsonl");
        config.manifest = recorded.then(|| manifest.clone());
        interrupt(&config, &site);
        if recorded {
            assert_eq!(fs::read(&manifest).unwrap(), b"", "of a failed run there is no manifest");
        }
        config.manifest = Some(manifest.clone());
        config.digest = DigestUse::Expect(digest.parse().unwrap());
        let report = unpack(&config).unwrap();
        assert!(resumed(&report).from_byte > 0);
        assert_eq!(report.digest.as_deref(), Some(digest.as_str()));
        assert_eq!(fs::read_to_string(&manifest).unwrap(), plain, "{recorded}");
        assert_complete(&report, &expected, &site);
        site.reset(false);
    }

    // With a recorded digest, a change that leaves the size alone is seen too.
    interrupt(&config, &site);
    fs::File::options()
        .write(true)
        .open(storage(&staging(&site)))
        .unwrap()
        .write_all_at(b"changed", 1000)
        .unwrap();
    let report = unpack(&config).unwrap();
    assert_eq!(report.resumed, None);
    assert!(report.fallbacks.iter().any(|fallback| fallback.contains("has the digest")));
    assert_complete(&report, &expected, &site);
}

#[test]
fn an_unexpected_digest_publishes_nothing() {
    let site = Site::new();
    let archive = site.archive(&spec(Frames::One, Compression::Zstd));
    let before = site.state();
    let wrong = format!("xxh3:{}", "0".repeat(32));
    let manifest = site.path("manifest");
    let mut tool = ledger_tool();
    tool.arg("unpack").arg(&archive).arg("--output").arg(site.output());
    tool.arg("--expect-digest").arg(&wrong).arg("--manifest").arg(&manifest);
    run(&mut tool).assert_code(1).assert_error(&["the digest is xxh3:", &wrong, "hint: "]);
    site.assert_untouched(&before, "a wrong digest");
    assert_eq!(fs::read(&manifest).unwrap(), b"");
}
