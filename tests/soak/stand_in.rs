//! The stand-in does at its start, while it runs and at its end what Agave 4.2 is known to do.

use std::{fs, process::ExitStatus};

use rustix::process::Signal;
use serde_json::json;
use unsnap_test_support::{
    genuine_pairs,
    ledger::{look, names},
    machine::{Machine, storages},
};
use unsnap_testkit::series::{FULL_EVERY, STEP, Snapshot};

use crate::{
    machine,
    process::{Came, How, Running, Starting},
};

const FULL: u64 = FULL_EVERY;
const INCREMENTAL: u64 = FULL_EVERY + STEP;

/// A validator without unsnap, with a full and an incremental archive.
struct Site {
    machine: Machine,
    starts: u32,
}

impl Site {
    /// In one of the two shapes of directories.
    fn new(shape: u32) -> Self {
        let mut machine = machine(None, shape);
        machine.add_archive(Snapshot::at(FULL).unwrap());
        machine.add_archive(Snapshot::at(INCREMENTAL).unwrap());
        Self { machine, starts: 0 }
    }

    fn start(&mut self, further: &[&'static str]) -> Came {
        let how = How { plain: true, further: further.to_vec(), ..How::default() };
        self.starts += 1;
        Starting::new(&self.machine, &how, self.starts).wait()
    }

    /// Starts it. What was predicted must come true.
    #[track_caller]
    fn up(&mut self, source: &str, slot: u64) -> Running {
        let alone = self.machine.alone(&[]);
        assert!(alone.up, "{alone:?}");
        assert_eq!((&*alone.source, alone.slot), (source, slot));
        let Came::Up(mut running) = self.start(&[]) else { panic!("not up") };
        assert_eq!((&*running.source, running.slot), (source, slot));
        assert_eq!(running.ask("check").unwrap(), json!({"lost": []}));
        running
    }

    /// Starts it, which fails, as predicted.
    #[track_caller]
    fn fails(&mut self, further: &[&'static str]) -> ExitStatus {
        assert!(!self.machine.alone(further).up);
        let Came::Ended(status) = self.start(further) else { panic!("it is up") };
        status
    }

    fn state_directories(&self) -> Vec<String> {
        names(&self.machine.ledger.states())
    }
}

#[test]
fn it_unpacks_archives_and_loads_the_state_that_it_has_written() {
    for shape in [0, 1] {
        let mut site = Site::new(shape);
        let running = site.up("archives", INCREMENTAL);
        assert!(site.state_directories().is_empty(), "unpacking leaves no state");
        assert!(running.end_by("exit").success());
        // A reader that shares nothing with it finds a whole state, and nothing else.
        let ledger = site.machine.ledger.clone();
        let found = look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap();
        assert_eq!((found.slot, found.storages.len()), (INCREMENTAL + 1, 16));
        let running = site.up("state", INCREMENTAL + 1);
        assert!(running.end(Signal::TERM).success(), "SIGTERM is an exit");
        site.up("state", INCREMENTAL + 2);
        assert!(site.machine.lost_files().is_empty());
    }
}

#[test]
fn it_loads_genuine_archives() {
    let mut machine = machine(None, 0);
    let [(full, incremental), _] = genuine_pairs();
    for archive in [full, incremental] {
        machine.ledger.add(&archive);
    }
    machine.archives.clear();
    Site { machine, starts: 0 }.up("archives", 47);
}

#[test]
fn a_second_one_on_the_ledger_is_refused() {
    let mut site = Site::new(0);
    let mut first = site.up("archives", INCREMENTAL);
    let Came::Ended(second) = site.start(&[]) else { panic!("both are up") };
    assert_eq!(second.code(), Some(1));
    assert_eq!(first.ask("check").unwrap(), json!({"lost": []}));
}

#[test]
fn a_state_that_is_not_whole_kills_it_at_every_start() {
    for (flipped, why) in [(false, "missing"), (true, "do not add up")] {
        let mut site = Site::new(1);
        site.up("archives", INCREMENTAL).end_by("exit");
        let ledger = site.machine.ledger.clone();
        let storage = storages(&ledger).remove(3);
        if flipped {
            let mut bytes = fs::read(&storage).unwrap();
            // In the key of the first account.
            bytes[20] ^= 1;
            fs::write(&storage, bytes).unwrap();
        } else {
            fs::remove_file(&storage).unwrap();
        }
        fs::write(ledger.run(0).join("7.7"), "listed nowhere").unwrap();
        fs::write(ledger.run(0).join("other"), "no storage").unwrap();
        assert!(site.machine.alone(&[]).reason.contains(why));
        for _ in 0..2 {
            assert_eq!(site.fails(&[]).code(), Some(101));
            assert!(ledger.mark(INCREMENTAL + 1).exists(), "the state stays");
            assert!(!ledger.run(0).join("7.7").exists() && ledger.run(0).join("other").exists());
        }
        // Told to use archives, it clears everything away.
        let always = ["--use-snapshot-archives-at-startup", "always"];
        let Came::Up(running) = site.start(&always) else { panic!("not up") };
        assert_eq!(running.source, "archives");
        assert!(site.state_directories().is_empty());
        assert!(!ledger.run(0).join("other").exists());
    }
}

#[test]
fn of_states_only_the_highest_complete_one_counts_and_only_if_it_is_marked() {
    let mut site = Site::new(0);
    site.up("archives", INCREMENTAL).end_by("exit");
    let states = site.machine.ledger.states();
    let incomplete = states.join((INCREMENTAL + 7).to_string());
    fs::create_dir(&incomplete).unwrap();
    fs::write(incomplete.join("version"), "1.2.0").unwrap();
    site.up("state", INCREMENTAL + 1).end(Signal::KILL);
    assert!(!incomplete.exists());
    // One as a running validator writes it has no mark, and hides the one below.
    fs::create_dir(&incomplete).unwrap();
    for (name, text) in
        [("version", "1.2.0"), ("status_cache", "x"), (&(INCREMENTAL + 7).to_string(), "x")]
    {
        fs::write(incomplete.join(name), text).unwrap();
    }
    site.up("archives", INCREMENTAL).end(Signal::KILL);
    let never = ["--use-snapshot-archives-at-startup", "never"];
    assert_eq!(site.fails(&never).code(), Some(1), "there is no state");
}

#[test]
fn an_accounts_path_that_lacks_a_directory_loses_everything() {
    let mut site = Site::new(1);
    site.up("archives", INCREMENTAL).end_by("exit");
    let accounts = site.machine.ledger.accounts[0].clone();
    fs::write(accounts.join("precious"), "x").unwrap();
    fs::remove_dir(accounts.join("snapshot")).unwrap();
    assert_eq!(site.fails(&[]).code(), Some(101));
    assert_eq!(names(&accounts), ["run", "snapshot"]);
}

#[test]
fn a_cut_archive_is_chosen_all_the_same_and_kills_it() {
    let mut site = Site::new(0);
    let path = site.machine.good(false).remove(0);
    site.machine.cut(&path, 1000);
    for _ in 0..2 {
        assert_eq!(site.fails(&[]).code(), Some(101));
    }
    fs::remove_file(path).unwrap();
    site.up("archives", FULL);
}

#[test]
fn writing_archives_it_keeps_the_newest_and_replaces_the_state_it_started_from() {
    let mut site = Site::new(1);
    let mut running = site.up("archives", INCREMENTAL);
    for _ in 0..5 {
        running.ask("incremental").unwrap();
    }
    let slot = INCREMENTAL + 5 * STEP;
    assert_eq!(site.state_directories(), [slot.to_string()]);
    assert!(!site.machine.ledger.mark(slot).exists());
    let archives = |site: &Site| {
        let mut names = names(&site.machine.ledger.snapshots);
        names.extend(self::names(site.machine.incremental_archives()));
        names.retain(|name| name.ends_with(".tar.zst"));
        names
    };
    assert_eq!(archives(&site).len(), 1 + 4);
    for _ in 0..2 {
        running.ask("full").unwrap();
        running.ask("incremental").unwrap();
    }
    // Of an older full archive's incremental ones the newest stays.
    assert_eq!(archives(&site).len(), 2 + 2);
    assert!(site.machine.alone(&[]).up);
    assert_eq!(running.ask("check").unwrap(), json!({"lost": []}));
    running.end(Signal::KILL);
    site.up("archives", 3 * FULL_EVERY + STEP);
}

#[test]
fn after_shrinking_and_deleting_only_its_own_state_is_whole() {
    for verb in ["shrink 5", "delete 5"] {
        let mut site = Site::new(0);
        site.up("archives", INCREMENTAL).end_by("exit");
        let mut running = site.up("state", INCREMENTAL + 1);
        running.ask(verb).unwrap();
        assert_eq!(running.ask("check").unwrap(), json!({"lost": []}));
        let running = if verb == "shrink 5" {
            running.end(Signal::KILL);
            assert_eq!(site.fails(&[]).code(), Some(101), "the old file is gone");
            continue;
        } else {
            running
        };
        assert!(running.end_by("exit").success());
        site.up("state", INCREMENTAL + 2);
    }
}

#[test]
fn a_storage_that_was_damaged_meanwhile_is_told() {
    let mut site = Site::new(0);
    let mut running = site.up("archives", INCREMENTAL);
    let ledger = site.machine.ledger.clone();
    let storage = storages(&ledger).remove(0);
    let bytes = fs::read(&storage).unwrap();
    fs::write(&storage, &bytes[..bytes.len() - 1]).unwrap();
    let told = running.ask("check").unwrap();
    assert_eq!(told["lost"][0], storage.canonicalize().unwrap().to_str().unwrap());
    assert!(running.ask("nonsense").unwrap_err().contains("no command"));
    running.signal(Signal::USR1);
    let log = || fs::read_to_string(site.machine.path("events")).unwrap();
    unsnap_test_support::until("it has reopened its log", || log().contains("log-reopened"));
    assert_eq!(running.end_by("abort").code(), None);
}
