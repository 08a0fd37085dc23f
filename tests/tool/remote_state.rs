//! States of archives from servers, which are kept in the validator's directories.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use unsnap_test_support::{
    Site, available, cleaned,
    ledger::{Expected, Ledger, look, small_archive, small_pair},
    ledger_tool, run, validator_path,
};
use unsnap_testkit::{
    scratch::{ScratchFs, Tmpfs},
    server::{Fault, Personality, Script, Server},
};

fn all_is_well() -> Script {
    Box::new(|_, _| None)
}

fn serve(archive: &Path, personality: Personality, script: Script) -> Server {
    let name = archive.file_name().unwrap().to_str().unwrap();
    Server::start(name, fs::read(archive).unwrap(), personality, script)
}

/// Makes archives that are on no disk of the validator.
fn elsewhere(site: &Site) -> (PathBuf, PathBuf) {
    let directory = site.place().join("elsewhere");
    fs::create_dir(&directory).unwrap();
    small_pair(&directory)
}

fn prepare(ledger: &Ledger, servers: &[&Server]) -> Command {
    let mut command = ledger_tool();
    command.args(["fastboot", "prepare", "--format", "json"]).args(ledger.arguments());
    for server in servers {
        command.arg("--archive").arg(server.url("/snapshot.tar.bz2"));
    }
    command
}

/// Returns the names of the archives and of what is left of them.
fn archives(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains("snapshot-")).collect();
    names.sort();
    names
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_state_is_made_while_both_archives_come_and_they_are_kept() {
    for (personality, beside) in [
        (Personality::agave(), false),
        (Personality::firedancer(), false),
        (Personality::nginx(), true),
        (Personality::agave(), true),
    ] {
        let site = Site::new();
        let (full, incremental) = elsewhere(&site);
        let ledger = Ledger::new(&site.place(), 2);
        let servers =
            [&full, &incremental].map(|archive| serve(archive, personality.clone(), all_is_well()));
        let all = || {
            let mut command = prepare(&ledger, &[&servers[0], &servers[1]]);
            command.args(beside.then_some(["--beside", "--min-free=0"]).iter().flatten());
            command
        };
        let report = run(&mut all()).assert_code(0).json();
        assert_eq!(report["slot"], 110, "{report:#}");
        for archive in [&full, &incremental] {
            let kept = ledger.snapshots.join(name(archive));
            assert!(fs::read(kept).unwrap() == fs::read(archive).unwrap(), "byte for byte");
        }
        assert_eq!(archives(&ledger.snapshots).len(), 2);
        let expected = Expected::of_files(&full, Some(&incremental));
        let place = if beside { ledger.beside() } else { ledger.clone() };
        expected.assert_prepared(&place, 3, "from servers");
        // Nothing comes a second time but the redirect's first bytes.
        let asked = [0, 1].map(|index: usize| servers[index].asked().len());
        let again = run(&mut all()).assert_code(0).json();
        assert_eq!(again["slot"], 110, "{again:#}");
        assert_eq!([0, 1].map(|index: usize| servers[index].asked().len()), asked.map(|n| n + 1));
    }
}

#[test]
fn only_what_is_newer_than_the_validators_own_archives_is_received() {
    let site = Site::new();
    let (full, incremental) = elsewhere(&site);
    let ledger = Ledger::new(&site.place(), 1);
    ledger.add(&full);
    let older = small_archive(&site.place(), 70, None, &[(60, 500)]);
    let [of_older, of_newer] =
        [&older, &incremental].map(|archive| serve(archive, Personality::agave(), all_is_well()));
    let report = run(&mut prepare(&ledger, &[&of_older, &of_newer])).assert_code(0).json();
    assert_eq!(report["slot"], 110, "{report:#}");
    assert_eq!(of_older.asked().len(), 1, "only for its name");
    assert_eq!(archives(&ledger.snapshots).len(), 2);
    // A newer incremental archive is all that comes for the next state.
    let next = small_archive(&site.place(), 120, Some(100), &[(115, 800)]);
    let server = serve(&next, Personality::nginx(), all_is_well());
    let report = run(&mut prepare(&ledger, &[&server])).assert_code(0).json();
    assert_eq!(report["slot"], 120, "{report:#}");
    assert!(report["report"]["reused"].is_object(), "{report:#}");
    Expected::of_files(&full, Some(&next)).assert_whole(&ledger, "upon an earlier state");
    assert!(ledger.snapshots.join(name(&next)).exists());
}

#[test]
fn a_wrong_or_broken_archive_leaves_the_state_that_is_there() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    let old = small_archive(&ledger.snapshots, 80, None, &[(75, 3000), (80, 900)]);
    run(&mut prepare(&ledger, &[])).assert_code(0);
    let expected = Expected::of_files(&old, None);
    let (full, _) = elsewhere(&site);
    let bytes = fs::read(&full).unwrap();
    // Another bank under the name, which the first bytes tell.
    let other = small_archive(&site.place(), 99, None, &[(90, 700)]);
    let wrong =
        Server::start(&name(&full), fs::read(&other).unwrap(), Personality::agave(), all_is_well());
    run(&mut prepare(&ledger, &[&wrong])).assert_code(0).json();
    expected.assert_whole(&ledger, "beside an archive with a wrong bank");
    // It never comes.
    let gone: Script = Box::new(|number, _| (number > 0).then_some(Fault::Status("404 Gone")));
    let gone = Server::start(&name(&full), bytes.clone(), Personality::agave(), gone);
    run(&mut prepare(&ledger, &[&gone])).assert_code(3).assert_error(&["[network]", "404"]);
    expected.assert_whole(&ledger, "without an archive");
    assert_eq!(archives(&ledger.snapshots), [name(&old)], "nothing else is kept");
    ledger.assert_tidy("without an archive");
    // It is not the one that was expected.
    let server = serve(&full, Personality::agave(), all_is_well());
    let mut command = prepare(&ledger, &[&server]);
    let outcome = run(command.args(["--expect-name", &name(&old)]));
    outcome.assert_code(1).assert_error(&["[wrong-archive]"]);
    let mut command = prepare(&ledger, &[]);
    command.arg("--archive").arg(&full);
    run(&mut command).assert_code(2).assert_error(&["not an address", "directory of archives"]);
    expected.assert_whole(&ledger, "after refusals");
}

/// A validator that finds a state and no archive begins at genesis.
#[test]
fn a_state_without_its_archive_is_never_made() {
    let Some(disk) = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 64 << 10, inodes: None }))
    else {
        return;
    };
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    let (full, _) = elsewhere(&site);
    let mut rest = fs::File::create(disk.path().join("rest")).unwrap();
    while rest.write_all(&[1; 64]).is_ok() {}
    let server = serve(&full, Personality::nginx(), all_is_well());
    let mut command = prepare(&ledger, &[&server]);
    command.arg("--full-snapshot-archive-path").arg(disk.path());
    let outcome = run(&mut command).assert_code(3);
    outcome.assert_error(&["[no-space]", "cannot keep the archive"]);
    assert!(look(&ledger.snapshots, &ledger.accounts).unwrap().is_none());
    assert!(archives(disk.path()).is_empty());
}

#[test]
fn a_dry_run_tells_what_would_come() {
    let site = Site::new();
    let (full, _) = elsewhere(&site);
    let ledger = Ledger::new(&site.place(), 1);
    let server = serve(&full, Personality::agave(), all_is_well());
    let mut command = prepare(&ledger, &[&server]);
    let told = run(command.arg("--dry-run")).assert_code(0).json();
    assert_eq!(told["action"], "prepare", "{told:#}");
    assert_eq!(told["written"]["basis"], "announced", "{told:#}");
    let length = fs::metadata(&full).unwrap().len();
    assert_eq!(told["written"]["bytes_needed"], length / 2 + length, "half, and itself");
    assert!(archives(&ledger.snapshots).is_empty());
}

#[test]
fn a_validator_starts_from_its_own_archives_if_the_network_fails() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    fs::create_dir(&ledger.accounts[0]).unwrap();
    let own = small_archive(&ledger.snapshots, 80, None, &[(75, 3000), (80, 900)]);
    let (full, _) = elsewhere(&site);
    let validator = |server: &Server| {
        let mut command = cleaned(Command::new(validator_path()));
        command.args(["--prepare-only", "--format=json", "--retry-for=100ms"]);
        command.args(ledger.arguments());
        command.arg("--archive").arg(server.url("/snapshot.tar.bz2"));
        command
    };
    // At once, or when a part has come.
    for script in [
        Box::new(|_: usize, _: &_| Some(Fault::Close)) as Script,
        Box::new(|_: usize, _: &_| Some(Fault::Cut(100))),
    ] {
        let server = serve(&full, Personality::agave(), script);
        let outcome = run(&mut validator(&server)).assert_code(0);
        assert!(outcome.stderr.contains("left out"), "{}", outcome.stderr);
        assert_eq!(outcome.json()["slot"], 80);
        Expected::of_files(&own, None).assert_whole(&ledger, "of its own archive");
        assert_eq!(archives(&ledger.snapshots), [name(&own)]);
    }
    let server = serve(&full, Personality::agave(), all_is_well());
    assert_eq!(run(&mut validator(&server)).assert_code(0).json()["slot"], 100);
    Expected::of_files(&full, None).assert_prepared(&ledger, 3, "from a server");
}
