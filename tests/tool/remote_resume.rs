//! `--resume` of archives from servers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use unsnap_source::DigestKind;
use unsnap_test_support::{Outcome, Site, assert_holds, expected_tree_of, ledger_tool, run, until};
use unsnap_testkit::{
    server::{Asked, Fault, Personality, Script, Server},
    spec::{ArchiveSpec, Frames},
};

/// Offset from which nothing comes to the run that is killed. The archive has some 11 MB.
const STALLS_AT: u64 = 8 << 20;

fn all_is_well() -> Script {
    Box::new(|_, _| None)
}

/// Nothing comes of what is behind the offset.
fn stalls() -> Script {
    Box::new(|_, asked: &Asked| match asked.range {
        Some((first, _)) if first >= STALLS_AT => Some(Fault::Stall(0)),
        _ => Some(Fault::Stall(STALLS_AT)),
    })
}

fn archive(site: &Site) -> PathBuf {
    let frames = Frames::Sized(400_000);
    site.archive(&ArchiveSpec { total_bytes: 40_000_000, frames, ..ArchiveSpec::default() })
}

fn serve(archive: &Path, personality: Personality, script: Script) -> Server {
    let name = archive.file_name().unwrap().to_str().unwrap();
    Server::start(name, fs::read(archive).unwrap(), personality, script)
}

fn unpack(archive: &str, output: &Path) -> Command {
    let mut command = ledger_tool();
    command.arg("unpack").arg(archive).arg("--output").arg(output);
    command.args(["--checkpoint-every", "1MB", "--format", "json"]);
    command
}

fn newest(server: &Server) -> String {
    server.url("/snapshot.tar.bz2")
}

/// Returns whether a journal ends with a whole checkpoint.
fn has_checkpoint(journal: &Path) -> bool {
    let journal = fs::read(journal).unwrap_or_default();
    let name = b"header_offset";
    journal.ends_with(b"}") && journal.windows(name.len()).any(|window| window == name)
}

/// Kills a run that has recorded a checkpoint.
fn kill(mut command: Command, site: &Site) {
    let journal = site.place().join(".output.unsnap-staging/.unsnap-journal");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a checkpoint is recorded", || has_checkpoint(&journal));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!site.output().exists());
}

/// A run that was killed, and its archive.
fn killed(personality: &Personality, flags: &[&str]) -> (Site, PathBuf) {
    let site = Site::new();
    let archive = archive(&site);
    let server = serve(&archive, personality.clone(), stalls());
    let mut command = unpack(&newest(&server), &site.output());
    command.args(flags);
    kill(command, &site);
    (site, archive)
}

fn assert_resumed(outcome: Outcome, site: &Site, archive: &Path) -> u64 {
    let report = outcome.assert_code(0).json();
    assert_holds(&site.output(), &expected_tree_of(archive), "resumed");
    report["resumed"]["from_byte"].as_u64().unwrap()
}

#[test]
fn with_ranges_only_what_is_missing_is_received() {
    for personality in [Personality::nginx(), Personality::firedancer()] {
        let (site, archive) = killed(&personality, &[]);
        let server = serve(&archive, personality, all_is_well());
        let outcome = run(unpack(&newest(&server), &site.output()).arg("--resume"));
        let from = assert_resumed(outcome, &site, &archive);
        assert!(from > 0);
        // The first requests are for the name and for the first bytes.
        let asked = server.asked();
        let firsts: Vec<u64> = asked.iter().filter_map(|asked| Some(asked.range?.0)).collect();
        let again: Vec<_> =
            firsts.iter().filter(|first| **first > 0 && **first + 4096 <= from).collect();
        assert!(again.is_empty(), "{again:?} before {from}");
        assert_eq!(firsts.iter().filter(|first| **first == 0).count(), 2, "{firsts:?}");
    }
}

#[test]
fn without_ranges_the_prefix_is_skipped_and_must_be_the_same() {
    let personality = Personality::agave();
    let (site, archive) = killed(&personality, &[]);
    // Not a byte of the prefix is decoded, and none may be another one.
    let other: Script = Box::new(|_, _| Some(Fault::OtherByte(70_000)));
    let server = serve(&archive, personality.clone(), other);
    let outcome = run(unpack(&newest(&server), &site.output()).arg("--resume"));
    outcome.assert_code(1).assert_error(&["has changed on the server", "interrupted run"]);
    assert!(!site.output().exists());

    let (site, archive) = killed(&personality, &[]);
    let server = serve(&archive, personality.clone(), all_is_well());
    let outcome = run(unpack(&newest(&server), &site.output()).arg("--resume"));
    assert!(assert_resumed(outcome, &site, &archive) > 0);

    // Without a digest nothing could be compared.
    let (site, archive) = killed(&personality, &["--digest", "none"]);
    let server = serve(&archive, personality, all_is_well());
    let outcome = run(unpack(&newest(&server), &site.output()).arg("--resume"));
    let report = outcome.assert_code(0).json();
    assert!(report["resumed"].is_null());
    assert!(report["fallbacks"].to_string().contains("did not digest"), "{report:#}");
    assert_holds(&site.output(), &expected_tree_of(&archive), "begun again");
}

#[test]
fn another_archive_of_the_same_name_is_refused_and_nothing_is_lost() {
    let (site, archive) = killed(&Personality::nginx(), &[]);
    let other = Personality { etag: Some("\"other\"".to_owned()), ..Personality::nginx() };
    let server = serve(&archive, other, all_is_well());
    let outcome = run(unpack(&newest(&server), &site.output()).arg("--resume"));
    outcome.assert_code(4).assert_error(&["not-resumable", "the archive has changed"]);
    // A file with the same content is the same archive.
    let outcome = run(unpack(archive.to_str().unwrap(), &site.output()).arg("--resume"));
    assert!(assert_resumed(outcome, &site, &archive) > 0);
}

/// Kills a run that keeps its archive, some megabytes after a checkpoint, and resumes it.
fn assert_goes_on(personality: &Personality, flags: &[&str]) -> (Vec<Asked>, u64, u64) {
    let site = Site::new();
    let (archive, tee) = (archive(&site), site.place().join("archives"));
    fs::create_dir(&tee).unwrap();
    let name = archive.file_name().unwrap();
    let part = tee.join(format!(".{}.unsnap-partial", name.to_str().unwrap()));
    let server = serve(&archive, personality.clone(), stalls());
    let mut command = unpack(&newest(&server), &site.output());
    command.arg("--tee").arg(&tee);
    let journal = site.place().join(".output.unsnap-staging/.unsnap-journal");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a checkpoint is recorded, and a part is written", || {
        has_checkpoint(&journal)
            && fs::metadata(&part).is_ok_and(|part| part.len() > STALLS_AT - (2 << 20))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let left = fs::metadata(&part).unwrap().len();

    let server = serve(&archive, personality.clone(), all_is_well());
    let mut command = unpack(&newest(&server), &site.output());
    let outcome = run(command.arg("--resume").arg("--tee").arg(&tee).args(flags)).assert_code(0);
    let reused = outcome.json()["tee"][0]["reused_bytes"].as_u64().unwrap();
    assert_eq!(reused, left - left % 4096, "the machine has not been started again");
    let from = assert_resumed(outcome, &site, &archive);
    assert!(fs::read(tee.join(name)).unwrap() == fs::read(&archive).unwrap());
    assert_eq!(fs::read_dir(&tee).unwrap().count(), 1);
    (server.asked(), reused, from)
}

#[test]
fn what_was_kept_is_not_received_again() {
    for flags in [&[][..], &["--use-direct-io=off", "--io-engine=threads"]] {
        let (asked, reused, from) = assert_goes_on(&Personality::nginx(), flags);
        assert!(0 < from && from < reused);
        let firsts: Vec<u64> = asked.iter().filter_map(|asked| Some(asked.range?.0)).collect();
        // Twice the first bytes, for the name and for the identity.
        let again: Vec<_> = firsts.iter().filter(|first| **first < reused).collect();
        assert_eq!(again, [&0, &0], "{firsts:?} after {reused}");
    }
}

#[test]
fn what_was_kept_holds_a_server_without_ranges() {
    let (asked, reused, from) = assert_goes_on(&Personality::agave(), &[]);
    assert!(0 < from && from < reused);
    assert_eq!(asked.len(), 2, "the name, and everything");
}

#[test]
fn an_expected_digest_covers_what_was_received_before() {
    let (site, archive) = killed(&Personality::nginx(), &["--digest", "blake3"]);
    let mut hasher = DigestKind::Blake3.hasher();
    hasher.update(&fs::read(&archive).unwrap());
    let digest = hasher.digest();
    let server = serve(&archive, Personality::nginx(), all_is_well());
    let mut command = unpack(&newest(&server), &site.output());
    command.args(["--resume", "--expect-digest", &digest.to_string()]);
    assert!(assert_resumed(run(&mut command), &site, &archive) > 0);
}
