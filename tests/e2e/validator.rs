//! Whatever becomes of preparing, the validator starts.

mod cached;
mod cluster;
mod command_line;
mod early_ends;
mod fake;
mod inherited;
mod waiting;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::ExitStatusExt,
    },
    process::{Command, Stdio},
};

use fake::{Ledger, STARTED, archive, assert_state_of, files, without_readers};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};
use unsnap_test_support::{
    available, cleaned, finish, is_ignored, is_root, skip, until, validator_path,
};
use unsnap_testkit::{
    scratch::{ScratchFs, Tmpfs},
    spec::{ArchiveSpec, FileSizes},
    tree::read_tree,
};

const FULL: &str = "snapshot-39-qRmx";
const INCREMENTAL: &str = "incremental-snapshot-39-47";

/// The report of the last start.
const LAST_START: &str = ".unsnap-last-start.json";

#[test]
fn the_newest_pair_is_ready_when_the_validator_starts() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let outcome = ledger.start(&[], &["--identity", "id.json"]);
    ledger.assert_ready(&outcome, 47);
    assert!(outcome.stderr.contains("unpacked 48 storages in"), "{outcome:#?}");
    let given = ["--ledger".into(), ledger.path().into_os_string(), "--identity".into()];
    assert_eq!(ledger.arguments()[..3], given);
    assert_state_of(&ledger, 47, &[archive(FULL), archive(INCREMENTAL)]);
}

#[test]
fn a_full_archive_alone_will_do() {
    let ledger = Ledger::with(&[FULL]);
    let outcome = ledger.start(&["--verify", "accounts"], &["--no-voting", "run", "--cuda"]);
    assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
    assert_state_of(&ledger, 39, &[archive(FULL)]);
    let words: Vec<_> = ledger.arguments().into_iter().skip(2).collect();
    let flag = "--use-snapshot-archives-at-startup";
    assert_eq!(words, ["--no-voting", flag, "when-newest", "run", "--cuda"]);
}

#[test]
fn without_archives_that_go_together_the_validator_is_left_to_itself() {
    for (archives, told) in [
        (&[][..], "there is no full snapshot archive"),
        (&[INCREMENTAL], "there is no full snapshot archive"),
    ] {
        let ledger = Ledger::with(archives);
        let before = files(&ledger.path());
        let outcome = ledger.start(&[], &["--no-voting"]);
        ledger.assert_as_it_is(&outcome, &["--no-voting"], told);
        assert!(outcome.stderr.contains("as if it had been started alone"), "{outcome:#?}");
        let mut after = files(&ledger.path());
        // What a validator would make, too, a lock, and what is remembered of starts.
        let made = ["accounts", "snapshots", "ledger.lock", ".unsnap-ledger.lock"];
        let remembered = [".unsnap-attempts", ".unsnap-last-start.json"];
        after.retain(|name, _| !made.iter().chain(&remembered).any(|made| name == made));
        assert_eq!(after, before);
        let outcome = ledger.start(&["--prepare-only"], &[]);
        assert_eq!((outcome.status.code(), ledger.was_started()), (Some(3), false), "{outcome:#?}");
    }
    // One upon another full archive counts for nothing.
    let ledger = Ledger::with(&["snapshot-11-5Mj3", INCREMENTAL]);
    let outcome = ledger.start(&[], &[]);
    ledger.assert_ready(&outcome, 11);
    assert_state_of(&ledger, 11, &[archive("snapshot-11-5Mj3")]);
}

#[test]
fn an_archive_that_proves_bad_gives_way_to_the_next_best() {
    for (bad, slot, good) in [
        (INCREMENTAL, 39, &[FULL][..]),
        (FULL, 14, &["snapshot-11-5Mj3", "incremental-snapshot-11-14"]),
    ] {
        let ledger =
            Ledger::with(&[FULL, INCREMENTAL, "snapshot-11-5Mj3", "incremental-snapshot-11-14"]);
        let name = archive(bad).file_name().unwrap().to_owned();
        let path = ledger.path().join(&name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() * 9 / 10]).unwrap();
        let outcome = ledger.start(&[], &[]);
        ledger.assert_ready(&outcome, slot);
        let good: Vec<_> = good.iter().map(|part| archive(part)).collect();
        assert_state_of(&ledger, slot, &good);
        let mut aside = name;
        aside.push(".unsnap-bad");
        assert!(ledger.path().join(&aside).exists() && !path.exists());
        assert!(outcome.stderr.contains(aside.to_str().unwrap()), "{outcome:#?}");
    }
}

#[test]
fn where_all_archives_are_bad_nothing_is_renamed_and_nothing_is_left() {
    let ledger = Ledger::with(&[FULL]);
    let path = ledger.path().join(archive(FULL).file_name().unwrap());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() * 9 / 10]).unwrap();
    let outcome = ledger.start(&[], &[]);
    ledger.assert_as_it_is(&outcome, &[], "the archive is incomplete");
    assert!(path.exists());
    assert!(ledger.storages().is_empty());
    let outcome = ledger.start(&["--prepare-only"], &[]);
    assert_eq!((outcome.status.code(), ledger.was_started()), (Some(1), false), "{outcome:#?}");
}

#[test]
fn what_is_in_the_way_is_cleared() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let run = ledger.run_directory();
    fs::create_dir_all(run.join("directory/deeper")).unwrap();
    fs::create_dir_all(run.join("7.7")).unwrap();
    for name in ["README", "47.0", "99.1", "directory/file"] {
        fs::write(run.join(name), "not of this state").unwrap();
    }
    fs::create_dir_all(ledger.state(46)).unwrap();
    fs::write(ledger.state(46).join("fastboot_version"), "3.0.0").unwrap();
    fs::write(ledger.path().join("accounts/mine"), "not a validator's").unwrap();
    let outcome = ledger.start(&[], &[]);
    ledger.assert_ready(&outcome, 47);
    assert_state_of(&ledger, 47, &[archive(FULL), archive(INCREMENTAL)]);
    assert!(!ledger.state(46).exists());
    assert!(ledger.path().join("accounts/mine").exists());
    let accounts: Vec<_> = fs::read_dir(ledger.path().join("accounts")).unwrap().collect();
    assert_eq!(accounts.len(), 4, "run, snapshot, unsnap-shadow, mine: {accounts:?}");
}

#[test]
fn others_at_work_are_left_alone() {
    // A validator, or another of this program.
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let outcome = ledger.start(&[], &[]);
    ledger.assert_ready(&outcome, 47);
    let withdrawn = ledger.state(47).join("fastboot_version");
    fs::remove_file(withdrawn).unwrap();
    let lock = File::open(ledger.path().join("ledger.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let before = read_tree(&ledger.path()).unwrap();
    let outcome = ledger.start(&["--replace"], &[]);
    ledger.assert_as_it_is(&outcome, &[], "a validator is running on");
    assert!(read_tree(&ledger.path()).unwrap() == before);
    let outcome = ledger.start(&["--prepare-only"], &[]);
    assert_eq!((outcome.status.code(), ledger.was_started()), (Some(4), false), "{outcome:#?}");
    drop(lock);

    // Somebody who unpacks to the same place, without a ledger.
    let staging = ledger.path().join("accounts/.unsnap-staged-run");
    fs::create_dir(&staging).unwrap();
    let lock = File::open(&staging).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let outcome = ledger.start(&[], &[]);
    ledger.assert_as_it_is(&outcome, &[], "another process is unpacking to");
    let outcome = ledger.start(&["--prepare-only"], &[]);
    assert_eq!((outcome.status.code(), ledger.was_started()), (Some(4), false), "{outcome:#?}");
    drop(lock);
    let outcome = ledger.start(&[], &[]);
    ledger.assert_ready(&outcome, 47);
}

#[test]
fn a_state_that_is_ready_is_not_made_again() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let outcome = ledger.start(&[], &[]);
    ledger.assert_ready(&outcome, 47);
    let inodes = || -> BTreeMap<_, _> {
        let entries = fs::read_dir(ledger.run_directory()).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().ino())).collect()
    };
    let before = inodes();
    let outcome = ledger.start(&[], &[]);
    ledger.assert_ready(&outcome, 47);
    assert!(outcome.stderr.contains("it existed already"), "{outcome:#?}");
    assert_eq!(inodes(), before);

    // Storages dropped, as by a validator that has ended in a hurry: the same files again.
    for name in before.keys() {
        fs::remove_file(ledger.run_directory().join(name)).unwrap();
    }
    let outcome = ledger.start(&[], &[]);
    ledger.assert_ready(&outcome, 47);
    assert!(outcome.stderr.contains("restored 48 storages"), "{outcome:#?}");
    assert_eq!(inodes(), before);

    // The shadow is gone too: made anew.
    for name in before.keys().take(3) {
        fs::remove_file(ledger.run_directory().join(name)).unwrap();
    }
    fs::remove_dir_all(ledger.path().join("accounts/unsnap-shadow")).unwrap();
    let outcome = ledger.start(&[], &[]);
    ledger.assert_ready(&outcome, 47);
    assert!(outcome.stderr.contains("unpacked 48 storages in"), "{outcome:#?}");
    assert_state_of(&ledger, 47, &[archive(FULL), archive(INCREMENTAL)]);
}

#[test]
fn a_file_system_that_cannot_be_written_is_no_reason_not_to_start() {
    let options = Tmpfs { size_bytes: 64 << 20, inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
    let ledger = Ledger::empty();
    fs::create_dir(disk.path().join("ledger")).unwrap();
    fs::copy(archive(FULL), disk.path().join("ledger").join(archive(FULL).file_name().unwrap()))
        .unwrap();
    disk.remount("ro").unwrap();
    let on_disk = |own: &[&str]| {
        let mut command = ledger.command_with(own, &disk.path().join("ledger"), &[]);
        ledger.run(&mut command)
    };
    let outcome = on_disk(&[]);
    assert_eq!(
        (outcome.status.code(), ledger.was_started()),
        (Some(STARTED), true),
        "{outcome:#?}"
    );
    assert!(outcome.stderr.contains("Read-only file system"), "{outcome:#?}");
    assert_eq!(
        ledger.arguments(),
        ["--ledger".into(), disk.path().join("ledger").into_os_string()]
    );
    let outcome = on_disk(&["--prepare-only"]);
    assert_eq!((outcome.status.code(), ledger.was_started()), (Some(3), false), "{outcome:#?}");
}

#[test]
fn accounts_may_be_in_several_places_elsewhere() {
    let options = Tmpfs { size_bytes: 64 << 20, inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let (one, other) = (disk.path().join("a"), disk.path().join("b"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&other).unwrap();
    let list = format!("{},{}", one.display(), other.display());
    let outcome = ledger.start(&[], &["--accounts", &list]);
    ledger.assert_ready(&outcome, 47);
    let (one, other) = (files(&one.join("run")), files(&other.join("run")));
    assert_eq!(one.len() + other.len(), 48);
    assert!(!one.is_empty() && !other.is_empty());
    // Both by a second look.
    let outcome = ledger.start(&[], &[&format!("--accounts={list}")]);
    ledger.assert_ready(&outcome, 47);
    assert!(outcome.stderr.contains("it existed already"), "{outcome:#?}");
}

#[test]
fn what_is_not_of_this_user_is_left_alone() {
    if !is_root() {
        skip("a ledger of another user needs root");
        return;
    }
    let ledger = Ledger::with(&[FULL]);
    chown(ledger.path(), Some(65534), None).unwrap();
    let outcome = ledger.start(&[], &[]);
    ledger.assert_as_it_is(&outcome, &[], "belongs to user 65534, but this process runs as user 0");
    let outcome = ledger.start(&["--prepare-only"], &[]);
    assert_eq!(outcome.status.code(), Some(2), "{outcome:#?}");
}

#[test]
fn a_deadline_that_is_over_starts_the_validator() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let outcome = ledger.start(&["--deadline", "0s"], &[]);
    ledger.assert_as_it_is(&outcome, &[], "within the deadline");
    let outcome = ledger.start(&["--deadline", "0s", "--prepare-only"], &[]);
    assert_eq!((outcome.status.code(), ledger.was_started()), (Some(3), false), "{outcome:#?}");
    let outcome = ledger.start(&["--deadline", "1h"], &[]);
    ledger.assert_ready(&outcome, 47);
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let ledger = Ledger::with(&[FULL]);
    let outcome = ledger.run(ledger.command(&[], &[]).env("UNSNAP_CONFIG", ""));
    ledger.assert_ready(&outcome, 39);
    let nowhere = ledger.run(ledger.command(&["--replace"], &[]).env("UNSNAP_CONFIG", "/nowhere"));
    assert!(nowhere.stderr.contains("cannot read /nowhere"), "{nowhere:#?}");
    assert_eq!(nowhere.status.code(), Some(STARTED), "{nowhere:#?}");
}

#[test]
fn a_signal_ends_it_without_a_validator_and_without_a_trace() {
    let spec = ArchiveSpec {
        total_bytes: 250_000_000,
        file_sizes: FileSizes::Fixed(100_000),
        ..ArchiveSpec::default()
    };
    // It may be ready before the signal comes. That proves nothing.
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        if is_ignored(signal) {
            continue;
        }
        let caught = (0..20).any(|_| {
            let ledger = Ledger::empty();
            let made = ledger.site.archive(&spec);
            fs::rename(&made, ledger.path().join(spec.name())).unwrap();
            let mut command = ledger.command(&["--verify", "none"], &[]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let staging = ledger.path().join("accounts/.unsnap-staged-run");
            until("a storage is staged, or all are", || {
                ledger.was_started()
                    || fs::read_dir(&staging).is_ok_and(|staged| staged.count() > 0)
            });
            let _ = kill_process(Pid::from_child(&child), signal);
            let outcome = finish(child);
            if ledger.was_started() || ledger.is_marked() {
                return false;
            }
            assert_eq!(outcome.status.signal(), Some(signal.as_raw()), "{outcome:#?}");
            assert!(outcome.stderr.contains("the validator is not started"), "{outcome:#?}");
            assert!(ledger.storages().is_empty() && !staging.exists());
            true
        });
        assert!(caught, "{signal:?} has always come too late");
    }
}

#[test]
fn signals_that_rotate_a_validators_logs_do_not_end_it() {
    let spec = ArchiveSpec {
        total_bytes: 100_000_000,
        file_sizes: FileSizes::Fixed(100_000),
        ..ArchiveSpec::default()
    };
    for signal in [Signal::USR1, Signal::USR2] {
        if is_ignored(signal) {
            continue;
        }
        // It may be ready before the signal comes. That proves nothing.
        let came_in_time = (0..20).any(|_| {
            let ledger = Ledger::empty();
            let made = ledger.site.archive(&spec);
            fs::rename(&made, ledger.path().join(spec.name())).unwrap();
            let mut command = ledger.command(&["--verify", "none", "--rate-limit", "50MB"], &[]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let staging = ledger.path().join("accounts/.unsnap-staged-run");
            until("a storage is staged, or all are", || {
                ledger.was_started()
                    || fs::read_dir(&staging).is_ok_and(|staged| staged.count() > 0)
            });
            let _ = kill_process(Pid::from_child(&child), signal);
            let in_time = !ledger.is_marked();
            let outcome = finish(child);
            if in_time {
                ledger.assert_ready(&outcome, spec.slot);
            }
            in_time
        });
        assert!(came_in_time, "{signal:?} has always come too late");
    }
}

#[test]
fn directories_that_do_not_exist_leave_everything_as_it_was() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let outcome = ledger.start(&["--prepare-only"], &[]);
    assert_eq!(outcome.status.code(), Some(0), "{outcome:#?}");
    // But that it was started is remembered and told.
    let tree = || {
        let mut tree = read_tree(&ledger.path()).unwrap();
        let told = [".unsnap-attempts", ".unsnap-ledger.lock", LAST_START];
        tree.retain(|name, _| !told.contains(&name.as_str()));
        tree
    };
    let before = tree();
    let missing = ledger.site.path("acounts");
    for flag in [
        "--accounts",
        "--snapshots",
        "--full-snapshot-archive-path",
        "--incremental-snapshot-archive-path",
    ] {
        let wrong = [flag, missing.to_str().unwrap()];
        let told = format!("{} ({flag}", missing.display());
        let mut own = cleaned(Command::new(validator_path()));
        own.args(["--prepare-only", "--replace", "--ledger"]).arg(ledger.path()).args(wrong);
        let outcome = ledger.run(&mut own).assert_code(2);
        assert!(outcome.stderr.contains(&told), "{outcome:#?}");
        let outcome = ledger.start(&["--prepare-only"], &wrong).assert_code(2);
        assert!(outcome.stderr.contains(&told), "{outcome:#?}");
        // The validator starts as without unsnap, with the state that it has.
        let outcome = ledger.start(&["--replace"], &wrong);
        assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
        assert_eq!(ledger.arguments()[2..], wrong);
        assert!(!missing.exists(), "{flag}");
        assert!(tree() == before, "{flag}");
    }
}

#[test]
fn archives_that_a_validator_is_left_with_are_checked_to_the_end_and_bad_ones_set_aside() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let name = archive(INCREMENTAL).file_name().unwrap().to_owned();
    let path = ledger.path().join(&name);
    // This validator cannot be told to ignore newer archives.
    let start = || {
        ledger.start(&["--attempts", "2"], &["--use-snapshot-archives-at-startup", "when-newest"])
    };
    for _ in 0..2 {
        assert_eq!(start().status.code(), Some(STARTED));
    }
    // Same size and time, so it is still the same archive to who looks at it only.
    let mut bytes = fs::read(&path).unwrap();
    let times = fs::metadata(&path).unwrap();
    let middle = bytes.len() * 9 / 10;
    bytes[middle..].fill(0);
    fs::write(&path, bytes).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(times.modified().unwrap()).unwrap();
    drop(file);
    let outcome = start();
    assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
    assert!(outcome.stderr.contains("withdrew the state of slot 47"), "{outcome:#?}");
    let mut aside = name;
    aside.push(".unsnap-bad");
    assert!(ledger.path().join(&aside).exists() && !path.exists(), "{outcome:#?}");
}

#[test]
fn a_validator_is_not_started_while_another_unsnap_holds_its_ledger() {
    let ledger = Ledger::with(&[FULL]);
    // As unpackd does for the renames of an adoption.
    let lock = unsnap_fastboot::LedgerLock::take(&ledger.path()).unwrap();
    let mut command = ledger.command(&["--deadline", "0s"], &[]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let record = ledger.path().join(LAST_START);
    until("it has prepared nothing", || record.exists());
    assert!(!ledger.was_started());
    drop(lock);
    finish(child);
    assert!(ledger.was_started());
}

#[test]
fn preparations_that_are_killed_in_a_row_end_in_a_start_without_one() {
    let spec = ArchiveSpec {
        total_bytes: 100_000_000,
        file_sizes: FileSizes::Fixed(100_000),
        ..ArchiveSpec::default()
    };
    let ledger = Ledger::empty();
    let made = ledger.site.archive(&spec);
    fs::rename(&made, ledger.path().join(spec.name())).unwrap();
    let own = ["--attempts", "2", "--verify", "none"];
    let staging = ledger.path().join("accounts/.unsnap-staged-run");
    for _ in 0..2 {
        let mut command = ledger.command(&[&own[..], &["--rate-limit", "1MB"]].concat(), &[]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("a storage is staged", || {
            fs::read_dir(&staging).is_ok_and(|staged| staged.count() > 0)
        });
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        finish(child);
        assert!(!ledger.was_started());
        fs::remove_dir_all(&staging).unwrap();
    }
    let outcome = ledger.start(&own, &[]);
    ledger.assert_as_it_is(&outcome, &[], "2 preparations ended by SIGKILL");
    let outcome = ledger.start(&[&own[..], &["--replace"]].concat(), &[]);
    ledger.assert_ready(&outcome, spec.slot);
}

#[test]
fn each_start_is_reported() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let (hook, got) = (ledger.site.path("hook"), ledger.site.path("got"));
    let metrics = ledger.site.path("unsnap.prom");
    fs::write(&hook, format!("#!/bin/sh\ncat > {}\n", got.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let (hook, metrics) = (hook.to_str().unwrap(), metrics.to_str().unwrap());
    let start = |result: &str, slot: Option<u64>| {
        ledger.start(&["--on-event", hook, "--textfile", metrics], &[]).assert_code(STARTED);
        let text = fs::read_to_string(ledger.path().join(LAST_START)).unwrap();
        assert_eq!(fs::read_to_string(&got).unwrap(), text);
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&told["result"], told["slot"].as_u64()), (&result.into(), slot), "{text}");
        fs::read_to_string(metrics).unwrap()
    };
    start("unpacked", Some(47));
    start("ready", Some(47));
    fs::remove_dir_all(ledger.path().join("snapshots")).unwrap();
    for name in fs::read_dir(ledger.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if name.extension().is_some_and(|extension| extension == "zst") {
            fs::remove_file(name).unwrap();
        }
    }
    let metrics = start("given-up", None);
    for result in ["unpacked", "ready", "given-up"] {
        let line = format!("unsnap_starts_total{{result=\"{result}\"}} 1\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn nobody_has_to_listen() {
    for archives in [&[FULL][..], &[]] {
        let ledger = Ledger::with(archives);
        let mut command = ledger.command(&["-vvv"], &[]);
        without_readers(&mut command);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let outcome = finish(child);
        assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
        assert_eq!(ledger.is_marked(), !archives.is_empty());
    }
}
