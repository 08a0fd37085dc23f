//! `--tee`: an archive from a server is unpacked and kept.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use unsnap_test_support::{
    Site, assert_holds, available, expected_tree_of, genuine_full, ledger_tool, run, until,
};
use unsnap_testkit::{
    scratch::{Ext4, ScratchFs, Tmpfs},
    server::{Fault, Personality, Script, Server},
    spec::ArchiveSpec,
};

fn all_is_well() -> Script {
    Box::new(|_, _| None)
}

fn serve(archive: &Path, personality: Personality, script: Script) -> Server {
    let name = archive.file_name().unwrap().to_str().unwrap();
    Server::start(name, fs::read(archive).unwrap(), personality, script)
}

/// Unpacks the newest archive of a server, and keeps it in `tee`.
fn unpack(server: &Server, output: &Path, tee: &Path) -> Command {
    let mut command = ledger_tool();
    command.arg("unpack").arg(server.url("/snapshot.tar.bz2")).arg("--output").arg(output);
    command.arg("--tee").arg(tee).args(["--format", "json"]);
    command
}

/// Makes the directory that keeps archives.
fn archives(site: &Site) -> PathBuf {
    let directory = site.place().join("archives");
    fs::create_dir(&directory).unwrap();
    directory
}

fn names(directory: &Path) -> Vec<OsString> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// An archive of several chunks: it has some 11 MB.
fn large(site: &Site) -> PathBuf {
    site.archive(&ArchiveSpec { total_bytes: 40_000_000, ..ArchiveSpec::default() })
}

#[test]
fn the_archive_is_kept_byte_for_byte() {
    for (personality, direct) in [
        (Personality::agave(), "auto"),
        (Personality::firedancer(), "off"),
        (Personality::nginx(), "auto"),
    ] {
        let site = Site::new();
        let (archive, tee, output) = (large(&site), archives(&site), site.output());
        let server = serve(&archive, personality, all_is_well());
        let mut command = unpack(&server, &output, &tee);
        let report = run(command.arg(format!("--use-direct-io={direct}"))).assert_code(0).json();
        let kept = tee.join(archive.file_name().unwrap());
        assert_eq!(names(&tee), [archive.file_name().unwrap()]);
        assert!(fs::read(&kept).unwrap() == fs::read(&archive).unwrap());
        assert_holds(&output, &expected_tree_of(&archive), direct);
        let expected = serde_json::json!([{
            "path": kept, "bytes": fs::metadata(&archive).unwrap().len(), "reused_bytes": 0, "kept": true, "reason": null,
        }]);
        assert_eq!(report["tee"], expected);
        // Nobody is asked for what is there already.
        let asked = server.asked().len();
        let mut command = unpack(&server, &site.place().join("again"), &tee);
        let outcome =
            run(&mut command).assert_code(4).assert_error(&["exists", "unpack that file"]);
        assert!(outcome.stderr.contains("archives/snapshot-"), "{}", outcome.stderr);
        assert_eq!(server.asked().len(), asked + 1, "only for its name");
    }
}

#[test]
fn without_writing_files_the_archive_is_checked_and_kept() {
    let site = Site::new();
    let tee = archives(&site);
    let server = serve(&genuine_full(), Personality::agave(), all_is_well());
    let mut command = ledger_tool();
    command.arg("unpack").arg(server.url("/snapshot.tar.bz2")).arg("--dry-run");
    run(command.arg("--tee").arg(&tee)).assert_code(0);
    assert_eq!(names(&tee), [genuine_full().file_name().unwrap()]);
}

#[test]
fn an_archive_that_proves_bad_or_breaks_off_leaves_nothing() {
    let site = Site::new();
    let (archive, tee) = (large(&site), archives(&site));
    let name = archive.file_name().unwrap().to_str().unwrap();
    let bytes = fs::read(&archive).unwrap();
    let cut = bytes[..bytes.len() - 100].to_vec();
    let server = Server::start(name, cut, Personality::agave(), all_is_well());
    run(&mut unpack(&server, &site.output(), &tee)).assert_code(1).assert_error(&["archive-cut"]);
    assert!(names(&tee).is_empty());
    // The last bytes never come.
    let script: Script = Box::new(move |_, _| Some(Fault::Cut(5_000_000)));
    let server = serve(&archive, Personality::agave(), script);
    let mut command = unpack(&server, &site.output(), &tee);
    run(command.args(["--retry-for", "100ms"])).assert_code(3).assert_error(&["network"]);
    assert!(names(&tee).is_empty());
    assert!(!site.output().exists());
    // Everything came, but it is not what was expected.
    let server = serve(&archive, Personality::nginx(), all_is_well());
    let other = format!("xxh3:{}", "0".repeat(32));
    let mut command = unpack(&server, &site.output(), &tee);
    run(command.args(["--expect-digest", &other])).assert_code(1).assert_error(&["digest"]);
    assert!(names(&tee).is_empty());
}

#[test]
fn only_an_archive_from_the_network_with_a_name_is_kept() {
    let site = Site::new();
    let tee = archives(&site);
    let mut command = ledger_tool();
    command.arg("unpack").arg(genuine_full()).arg("--output").arg(site.output());
    run(command.arg("--tee").arg(&tee)).assert_code(2).assert_error(&["from the network"]);
    let server = Server::start("x.tar.zst", vec![1], Personality::agave(), all_is_well());
    let mut command = ledger_tool();
    command.arg("unpack").arg(server.url("/x.tar.zst")).arg("--output").arg(site.output());
    let outcome = run(command.args(["--layout", "any"]).arg("--tee").arg(&tee));
    outcome.assert_code(2).assert_error(&["\"x.tar.zst\"", "name of a snapshot"]);
    let server = serve(&genuine_full(), Personality::agave(), all_is_well());
    let mut command = unpack(&server, &site.output(), &site.place().join("none"));
    run(&mut command).assert_code(2).assert_error(&["no directory", "none"]);
    assert!(names(&tee).is_empty() && !site.output().exists());
}

#[test]
fn a_full_disk_costs_the_kept_archive_and_not_the_unpacked_one() {
    let Some(disk) = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 4 << 20, inodes: None }))
    else {
        return;
    };
    let site = Site::new();
    let archive = large(&site);
    let server = serve(&archive, Personality::nginx(), all_is_well());
    let outcome = run(&mut unpack(&server, &site.output(), disk.path())).assert_code(0);
    let report = outcome.json();
    assert_eq!(report["tee"][0]["kept"], false);
    assert!(report["tee"][0]["reason"].as_str().unwrap().contains("free bytes"), "{report:#}");
    assert!(report["fallbacks"].to_string().contains("was not kept"), "{report:#}");
    assert!(outcome.stderr.contains("not kept"), "{}", outcome.stderr);
    assert_holds(&site.output(), &expected_tree_of(&archive), "beside a full disk");
    assert!(names(disk.path()).is_empty());
}

/// Each fits alone.
#[test]
fn on_one_disk_the_unpacked_files_come_first() {
    let options = Ext4 { size_bytes: 64 << 20, ..Ext4::default() };
    let Some(disk) = available(ScratchFs::ext4(&options)) else { return };
    let site = Site::new();
    let stat = rustix::fs::statvfs(disk.path()).unwrap();
    // An archive has more than a fifth of the size of its files.
    let total_bytes = stat.f_bavail * stat.f_frsize / 10 * 9;
    let archive = site.archive(&ArchiveSpec { total_bytes, ..ArchiveSpec::default() });
    assert!(fs::metadata(&archive).unwrap().len() > total_bytes / 5);
    let (output, tee) = (disk.path().join("output"), disk.path().join("archives"));
    fs::create_dir(&tee).unwrap();
    let server = serve(&archive, Personality::agave(), all_is_well());
    let report = run(&mut unpack(&server, &output, &tee)).assert_code(0).json();
    assert_eq!(report["tee"][0]["kept"], false, "{report:#}");
    assert_holds(&output, &expected_tree_of(&archive), "beside an archive that was given up");
    assert!(names(&tee).is_empty());
}

#[test]
fn what_a_killed_run_leaves_is_used_up_by_the_next() {
    let site = Site::new();
    let (archive, tee, output) = (large(&site), archives(&site), site.output());
    let server =
        serve(&archive, Personality::agave(), Box::new(|_, _| Some(Fault::Stall(4 << 20))));
    let mut command = unpack(&server, &output, &tee);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_begun = || {
        let entries = fs::read_dir(&tee).unwrap().map(Result::unwrap);
        entries.map(|entry| entry.metadata().unwrap().len()).sum::<u64>() > 1 << 20
    };
    until("a part of the archive is written", is_begun);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!output.exists() && !tee.join(archive.file_name().unwrap()).exists());
    assert_eq!(names(&tee).len(), 2, "the part and its marks");

    let server = serve(&archive, Personality::agave(), all_is_well());
    run(&mut unpack(&server, &output, &tee)).assert_code(0);
    assert_eq!(names(&tee), [archive.file_name().unwrap()]);
    assert!(
        fs::read(tee.join(archive.file_name().unwrap())).unwrap() == fs::read(&archive).unwrap()
    );
    assert_holds(&output, &expected_tree_of(&archive), "after a killed run");
}
