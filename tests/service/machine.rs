//! What file systems, and queues of the kernel, do to the service.

use std::{fs, os::unix::fs::symlink};

use rustix::process::Signal;
use unsnap_test_support::{
    available,
    daemon::{Daemon, full},
    skip_unsupported,
};
use unsnap_testkit::scratch::{Ext4, ScratchFs, Tmpfs};

const SMALL: Tmpfs = Tmpfs { size_bytes: 64 << 20, inodes: None };

#[test]
fn a_directory_that_is_replaced_is_found_and_watched_again() {
    let mut daemon = Daemon::new();
    daemon.start();
    fs::rename(daemon.path("archives"), daemon.path("old")).unwrap();
    daemon.until("it is missed", |daemon| daemon.target("tree")["state"] == "failing");
    fs::create_dir(daemon.path("archives")).unwrap();
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    // From here on without rescans: only by inotify can it know.
    daemon.edit("rescan = \"2s\"", "rescan = \"1h\"");
    daemon.signal(Signal::HUP);
    daemon.until("rescans end", |daemon| daemon.status()["archives"]["rescan_ms"] == 3_600_000);
    daemon.drop_in(&daemon.make(&full(1_000_100, 2)));
    daemon.until_settled("tree", 1_000_100);
}

#[test]
fn a_file_system_that_is_unmounted_is_found_when_it_is_mounted_again() {
    let Some(first) = available(ScratchFs::tmpfs(&SMALL)) else { return };
    let Some(second) = available(ScratchFs::tmpfs(&SMALL)) else { return };
    let mut daemon = Daemon::new();
    fs::remove_dir(daemon.path("archives")).unwrap();
    symlink(first.path(), daemon.path("archives")).unwrap();
    daemon.start();
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    drop(first);
    daemon.until("it is missed", |daemon| daemon.target("tree")["state"] == "failing");
    // Of the result there is still what there was.
    assert_eq!(daemon.target("tree")["results"][0]["slot"], 1_000_000);
    fs::remove_file(daemon.path("archives")).unwrap();
    symlink(second.path(), daemon.path("archives")).unwrap();
    daemon.drop_in(&daemon.make(&full(1_000_100, 2)));
    daemon.until_settled("tree", 1_000_100);
    assert!(daemon.end(Signal::TERM).success());
}

#[test]
fn a_queue_of_events_that_overflows_loses_no_archive() {
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let most: u64 = most.trim().parse().unwrap();
    if most > 200_000 {
        // A setting of the whole machine, which tests leave alone.
        return skip_unsupported(format_args!("a queue of {most} events is too long to be filled"));
    }
    let mut daemon = Daemon::new();
    daemon.edit("rescan = \"2s\"", "rescan = \"1h\"");
    daemon.start();
    let newest = daemon.make(&full(1_000_000, 1));
    daemon.signal(Signal::STOP);
    // Three events each: made, closed, removed.
    let other = daemon.path("archives/other");
    for _ in 0..=most / 3 + 100 {
        fs::write(&other, "").unwrap();
        fs::remove_file(&other).unwrap();
    }
    // There is no room for this one.
    let archive = daemon.drop_in(&newest);
    daemon.signal(Signal::CONT);
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree("trees", "1000000", &archive);
}

#[test]
fn a_file_system_that_has_become_read_only_is_told_and_waited_for() {
    let Some(disk) = available(ScratchFs::ext4(&Ext4::default())) else { return };
    let mut daemon = Daemon::new();
    let trees = disk.path().join("trees");
    fs::create_dir(&trees).unwrap();
    daemon.configure(&daemon.tree_target("tree", trees.to_str().unwrap(), 1));
    daemon.start();
    disk.remount("ro").unwrap();
    let archive = daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until("it is told", |daemon| {
        let target = daemon.target("tree");
        target["state"] == "failing"
            && target["detail"].as_str().is_some_and(|detail| detail.contains("Read-only"))
    });
    assert!(daemon.status()["bad"].as_array().unwrap().is_empty(), "no archive is to blame");
    disk.remount("rw").unwrap();
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree(trees.to_str().unwrap(), "1000000", &archive);
    // Before its file system is unmounted.
    assert!(daemon.end(Signal::TERM).success());
}

#[test]
fn without_room_for_what_is_remembered_it_works_and_says_so() {
    let Some(disk) = available(ScratchFs::ext4(&Ext4::default())) else { return };
    let mut daemon = Daemon::new();
    let state = disk.path().join("state");
    fs::create_dir(&state).unwrap();
    daemon.edit(daemon.path("state").to_str().unwrap(), state.to_str().unwrap());
    disk.remount("ro").unwrap();
    daemon.start();
    let archive = daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree("trees", "1000000", &archive);
    assert!(daemon.log().contains("cannot save unpackd.json; retrying"), "{}", daemon.log());
    assert!(daemon.end(Signal::TERM).success());
}
