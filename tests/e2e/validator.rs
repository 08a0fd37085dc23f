//! Whatever becomes of preparing, the validator starts.

mod command_line;
mod fake;
mod inherited;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::{
        fs::{MetadataExt, chown},
        process::ExitStatusExt,
    },
    process::Stdio,
};

use fake::{Ledger, STARTED, archive, assert_state_of, files, without_readers};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};
use unsnap_test_support::{available, finish, is_ignored, is_root, skip, until};
use unsnap_testkit::{
    scratch::{ScratchFs, Tmpfs},
    spec::{ArchiveSpec, FileSizes},
    tree::read_tree,
};

const FULL: &str = "snapshot-39-qRmx";
const INCREMENTAL: &str = "incremental-snapshot-39-47";

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
        // What a validator would make, too.
        after.retain(|name, _| !["accounts", "snapshots", "ledger.lock"].contains(&name.as_str()));
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
    let staging = ledger.path().join("accounts/.run.unsnap-staging");
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
    let own = ["--ledger".to_owned(), disk.path().join("ledger").display().to_string()];
    let outcome = ledger.start(&[&own[0], &own[1]], &[]);
    ledger.assert_as_it_is(&outcome, &[], "Read-only file system");
    assert!(outcome.stderr.contains("--ledger differs"), "{outcome:#?}");
    let outcome = ledger.start(&["--prepare-only", &own[0], &own[1]], &[]);
    assert_eq!((outcome.status.code(), ledger.was_started()), (Some(3), false), "{outcome:#?}");
}

#[test]
fn accounts_may_be_in_several_places_elsewhere() {
    let options = Tmpfs { size_bytes: 64 << 20, inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let (one, other) = (disk.path().join("a"), disk.path().join("b"));
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
            let staging = ledger.path().join("accounts/.run.unsnap-staging");
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
