//! Several servers to choose from.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use unsnap_test_support::{
    Site, cleaned, genuine_full,
    ledger::{Expected, Ledger, incompressible_archive, small_archive, small_pair},
    ledger_tool, run, validator_path,
};
use unsnap_testkit::{
    server::{Fault, Personality, Script, Server},
    tree::read_tree,
};

fn all_is_well() -> Script {
    Box::new(|_, _| None)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn serve(archives: &[&Path], personality: Personality, script: Script) -> Server {
    let files = archives.iter().map(|archive| (name(archive), fs::read(archive).unwrap()));
    Server::start_files(files, personality, script)
}

/// Bytes that a server sends of the first 64 KiB, without which it does not count in a race, however long
/// that takes on a busy machine.
const LITTLE_BYTES: u64 = 1000;

/// Returns the scripts of a server that loses a race, and of one that wins it. The loser, whose request
/// of number `names` is that of the race, sends so little that it cannot win. The winner waits until the
/// loser has been asked; `then` says what goes wrong with its answers.
fn rivals(
    names: usize,
    then: impl Fn(usize) -> Option<Fault> + Send + Sync + 'static,
) -> (Script, Script) {
    let asked = Arc::new(AtomicUsize::new(0));
    let of_winner = Arc::clone(&asked);
    let loses: Script = Box::new(move |number, _| {
        asked.fetch_max(number + 1, Ordering::SeqCst);
        (number == names).then_some(Fault::Drip(LITTLE_BYTES))
    });
    let wins: Script = Box::new(move |number, _| {
        let started = Instant::now();
        let is_patient = || started.elapsed() < Duration::from_mins(1);
        while number == 1 && of_winner.load(Ordering::SeqCst) <= names && is_patient() {
            thread::sleep(Duration::from_millis(1));
        }
        then(number)
    });
    (loses, wins)
}

fn unpack(peers: &[String], output: &Path) -> Command {
    let mut command = ledger_tool();
    command.args(["unpack", "--format", "json", "--output"]).arg(output);
    for peer in peers {
        command.args(["--peer", peer]);
    }
    command
}

fn assert_unpacked(archive: &Path, output: &Path) {
    let site = Site::new();
    let expected = site.place().join("expected");
    let mut local = ledger_tool();
    run(local.arg("unpack").arg(archive).arg("--output").arg(&expected)).assert_code(0);
    assert!(read_tree(output).unwrap() == read_tree(&expected).unwrap());
}

/// Nobody listens there.
fn closed() -> String {
    Server::start("x", vec![1], Personality::agave(), all_is_well()).peer()
}

#[test]
fn the_newest_archive_comes_from_the_fastest_of_those_that_have_it() {
    let site = Site::new();
    let full = genuine_full();
    let older = small_archive(&site.place(), 20, None, &[(15, 500)]);
    for personality in [Personality::agave(), Personality::nginx()] {
        let output = site.place().join("output");
        let old = serve(&[&older], Personality::agave(), all_is_well());
        let (loses, wins) = rivals(1, |_| None);
        let slow = serve(&[&full], Personality::agave(), loses);
        let fast = serve(&[&full], personality, wins);
        let peers = [old.peer(), closed(), slow.peer(), fast.peer()];
        let report = run(&mut unpack(&peers, &output)).assert_code(0).json();
        assert_eq!(report["slot"], 39);
        assert_eq!(report["archive"], fast.url(&format!("/{}", name(&full))), "{report:#}");
        assert_unpacked(&full, &output);
        assert_eq!(old.asked().len(), 1, "only for its name");
        assert_eq!(slow.asked().len(), 2, "and for the race");
        fs::remove_dir_all(output).unwrap();
    }
}

#[test]
fn a_run_begins_anew_when_the_archive_of_a_peer_is_bad() {
    let site = Site::new();
    let full = genuine_full();
    let bytes = fs::read(&full).unwrap();
    let cut = bytes[..bytes.len() - 1000].to_vec();
    let bad = |script| Server::start(&name(&full), cut.clone(), Personality::agave(), script);
    let (loses, wins) = rivals(1, |_| None);
    let good = serve(&[&full], Personality::agave(), loses);
    let (first, output) = (bad(wins), site.place().join("output"));
    let manifest = site.place().join("manifest.jsonl");
    let mut command = unpack(&[first.peer(), good.peer()], &output);
    let outcome = run(command.arg("--manifest").arg(&manifest)).assert_code(0);
    assert!(outcome.stderr.contains("beginning anew with another peer"), "{}", outcome.stderr);
    assert_unpacked(&full, &output);
    let listed = fs::read_to_string(&manifest).unwrap();
    let mut local = ledger_tool();
    local.arg("unpack").arg(&full).args(["--dry-run", "--quiet", "--manifest", "-"]);
    assert!(listed == run(&mut local).assert_code(0).stdout, "one list, of one archive");
    // Both are bad: each was tried once, and nothing stays.
    let place = Site::new();
    let second = bad(all_is_well());
    let mut command = unpack(&[first.peer(), second.peer()], &place.place().join("output"));
    run(&mut command).assert_code(1).assert_error(&["[archive-cut]"]);
    assert_eq!(fs::read_dir(place.place()).unwrap().count(), 1, "only the neighbour");
}

#[test]
fn a_run_begins_anew_when_a_peer_breaks_or_becomes_slow() {
    let site = Site::new();
    // More than a race brings.
    let full =
        incompressible_archive(&site.place(), 100, &[(90, 8 << 20), (95, 8 << 20), (99, 8 << 20)]);
    let gone = |number| match number {
        0 => None,
        1 => Some(Fault::Cut(17 << 20)),
        _ => Some(Fault::Status("404 Not Found")),
    };
    let drips = |number| (number > 0).then_some(Fault::Drip(17 << 20));
    // Of one that drips, the reader may tire before another one is measured.
    for ((loses, wins), reasons) in [
        (rivals(1, gone), &["404 Not Found"][..]),
        (rivals(1, drips), &["takes less time", "bytes came within"]),
    ] {
        let output = site.place().join("output");
        let first = serve(&[&full], Personality::agave(), wins);
        let second = serve(&[&full], Personality::agave(), loses);
        let outcome = run(&mut unpack(&[first.peer(), second.peer()], &output)).assert_code(0);
        assert!(outcome.stderr.contains("beginning anew"), "{}", outcome.stderr);
        let told = &outcome.stderr;
        assert!(reasons.iter().any(|reason| told.contains(reason)), "{told}");
        let archive = outcome.json()["archive"].clone();
        assert_eq!(archive, second.url(&format!("/{}", name(&full))));
        assert_unpacked(&full, &output);
        fs::remove_dir_all(output).unwrap();
    }
}

#[test]
fn peers_must_agree_if_that_is_wanted() {
    let site = Site::new();
    let full = genuine_full();
    let newer = small_archive(&site.place(), 90, None, &[(85, 500)]);
    let [one, two] = [0, 1].map(|_| serve(&[&full], Personality::agave(), all_is_well()));
    let lies = serve(&[&newer], Personality::agave(), all_is_well());
    let by_name = |server: &Server| server.peer().replace("127.0.0.1", "localhost");
    let output = site.place().join("output");
    let mut command = unpack(&[lies.peer(), one.peer(), by_name(&two)], &output);
    let report = run(command.args(["--agree", "2"])).assert_code(0).json();
    assert_eq!(report["slot"], 39, "one host alone names the newer one");
    // The same host twice is one host.
    let place = Site::new();
    let nowhere = place.place().join("output");
    let mut command = unpack(&[one.peer(), two.peer()], &nowhere);
    let outcome = run(command.args(["--agree", "2"])).assert_code(3);
    outcome.assert_error(&["[network]", "no 2 hosts name the same slot and hash"]);
    let mut command = unpack(&[one.peer()], &nowhere);
    run(command.args(["--agree", "2"])).assert_code(2).assert_error(&["cannot agree"]);
    let mut command = unpack(&[closed()], &nowhere);
    run(&mut command).assert_code(3).assert_error(&["[network]", "cannot connect"]);
    let mut command = unpack(&[one.peer()], &nowhere);
    let outcome = run(command.args(["--expect-name", &name(&newer)])).assert_code(3);
    outcome.assert_error(&["none of 1 peers sends a snapshot that is wanted"]);
    for words in [&["--resume"][..], &["archive.tar.zst"], &["--incremental", "x"]] {
        run(unpack(&[one.peer()], &nowhere).args(words)).assert_code(2);
    }
    assert_eq!(fs::read_dir(place.place()).unwrap().count(), 1, "only the neighbour");
}

#[test]
fn a_state_is_made_of_the_newest_pair_of_several_peers() {
    let site = Site::new();
    let directory = site.place().join("elsewhere");
    fs::create_dir(&directory).unwrap();
    let (full, incremental) = small_pair(&directory);
    let bytes = fs::read(&full).unwrap();
    let cut = (name(&full), bytes[..bytes.len() - 100].to_vec());
    // Its full archive is bad, which shows late, and it has no incremental one.
    // The first two questions are for names.
    let (loses, wins) = rivals(2, |_| None);
    let bad = Server::start_files(vec![cut], Personality::agave(), wins);
    let good = serve(&[&full, &incremental], Personality::agave(), loses);
    let ledger = Ledger::new(&site.place(), 2);
    let mut command = ledger_tool();
    command.args(["fastboot", "prepare", "--format", "json"]).args(ledger.arguments());
    command.args(["--peer", &bad.peer(), "--peer", &good.peer()]);
    let report = run(&mut command).assert_code(0).json();
    assert_eq!(report["slot"], 110, "{report:#}");
    for archive in [&full, &incremental] {
        let kept = ledger.snapshots.join(name(archive));
        assert!(fs::read(kept).unwrap() == fs::read(archive).unwrap(), "byte for byte");
    }
    Expected::of_files(&full, Some(&incremental)).assert_prepared(&ledger, 3, "from peers");
    ledger.assert_tidy("from peers");
    // Another start asks for names only.
    let asked = good.asked().len();
    let validator = |peer: &str| {
        let mut command = cleaned(Command::new(validator_path()));
        command.args(["--prepare-only", "--format=json", "--peer", peer]);
        command.args(ledger.arguments());
        command
    };
    assert_eq!(run(&mut validator(&good.peer())).assert_code(0).json()["slot"], 110);
    assert_eq!(good.asked().len(), asked + 2);
    // Without the network a validator starts from what it has.
    let outcome = run(&mut validator(&closed())).assert_code(0);
    assert!(outcome.stderr.contains("left out"), "{}", outcome.stderr);
    assert_eq!(outcome.json()["slot"], 110);
}
