//! The judge is put to the test: publishers that are wrong in the usual ways must be caught, and
//! the right one must not. Without this, a law that is never broken would prove nothing.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{fsync, syncfs};
use unsnap_test_support::disk::{KINDS, can_lose_power};
use unsnap_testkit::tree::{Node, Tree};

use crate::{
    law::{Found, Shape},
    stage::{Stage, Subject},
};

/// What a publisher does to be durable before it reports success. All write, then rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publisher {
    /// Sync everything, rename, sync the directory that holds the new name.
    Right,
    /// Forgets the directory that holds the new name: the rename is lost.
    NoSyncOfTheParent,
    /// Syncs files and directories before the rename one by one, and again forgets the parent.
    NoSyncOfTheParentButOfEachFile,
    /// Syncs the name alone: contents are lost.
    NoSyncOfTheFiles,
    /// Trusts in luck.
    NoSync,
}

/// Longest time between the first write and the power cut that proves anything: journals are
/// committed now and then without being asked (XFS: every 30 s).
const LUCK_AFTER: Duration = Duration::from_secs(10);

/// The power fails at the moment at which success is reported.
fn published_and_cut(publisher: Publisher, stage: &mut Stage<'_>) -> Result<Found, String> {
    // A machine that was asleep in between must not turn luck into a failure of this test.
    for _ in 0..5 {
        stage.set(Shape::Absent);
        let since = Instant::now();
        publish(publisher, stage);
        stage.cut_power();
        let in_time = since.elapsed() < LUCK_AFTER;
        stage.remount();
        if in_time {
            return stage.judge(true);
        }
    }
    panic!("this machine is too slow for anything");
}

fn publish(publisher: Publisher, stage: &Stage<'_>) {
    let staging = stage.staged().0;
    fs::create_dir(&staging).unwrap();
    write(&stage.subject.expected, &staging, publisher);
    let sync_all = [Publisher::Right, Publisher::NoSyncOfTheParent].contains(&publisher);
    if sync_all {
        syncfs(File::open(&staging).unwrap()).unwrap();
    }
    fs::rename(&staging, stage.output()).unwrap();
    if [Publisher::Right, Publisher::NoSyncOfTheFiles].contains(&publisher) {
        fsync(File::open(stage.disk.path()).unwrap()).unwrap();
    }
}

fn write(tree: &Tree, staging: &Path, publisher: Publisher) {
    let each = publisher == Publisher::NoSyncOfTheParentButOfEachFile;
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(staging, 0o755);
    for (name, node) in tree {
        let path = staging.join(name);
        match node {
            Node::File { mode: bits, bytes } => {
                fs::write(&path, bytes).unwrap();
                mode(&path, *bits);
            }
            Node::Dir { mode: bits } => {
                fs::create_dir(&path).unwrap();
                mode(&path, *bits);
            }
            Node::Symlink { .. } | Node::Other => panic!("{name} is no part of a snapshot"),
        }
    }
    if each {
        for name in tree.keys() {
            fsync(File::open(staging.join(name)).unwrap()).unwrap();
        }
        fsync(File::open(staging).unwrap()).unwrap();
    }
}

#[test]
fn wrong_publishers_are_caught() {
    if !can_lose_power() {
        return;
    }
    let subject = Subject::new();
    for kind in KINDS {
        let Some(mut stage) = Stage::new(&subject, kind) else { return };
        let right = published_and_cut(Publisher::Right, &mut stage);
        assert_eq!(right, Ok(Found::Complete), "{kind:?}");
        for wrong in [
            Publisher::NoSyncOfTheParent,
            Publisher::NoSyncOfTheParentButOfEachFile,
            Publisher::NoSyncOfTheFiles,
            Publisher::NoSync,
        ] {
            let verdict = published_and_cut(wrong, &mut stage);
            assert!(verdict.is_err(), "{kind:?}: {wrong:?} was not caught: {verdict:?}");
        }
    }
}

/// Does harm to a published destination.
type Spoil<'a> = &'a dyn Fn(&Path);

/// A file that lacks its last byte, one that has another mode, one too many: none is overlooked.
#[test]
fn every_difference_is_seen() {
    if !can_lose_power() {
        return;
    }
    let subject = Subject::new();
    let Some(mut stage) = Stage::new(&subject, KINDS[0]) else { return };
    let spoils: [(&str, Spoil<'_>); 5] = [
        ("intact", &|_| {}),
        ("a byte less", &|output| {
            let file = File::options().write(true).open(output.join("accounts/905.1")).unwrap();
            file.set_len(599_999).unwrap();
        }),
        ("a block of zeros", &|output| {
            let file = File::options().write(true).open(output.join("accounts/905.1")).unwrap();
            file.write_all_at(&[0; 4096], 4096).unwrap();
        }),
        ("a file less", &|output| fs::remove_file(output.join("version")).unwrap()),
        ("a file more", &|output| fs::write(output.join("accounts/1.1"), "").unwrap()),
    ];
    for (what, spoil) in spoils {
        stage.set(Shape::Absent);
        publish(Publisher::Right, &stage);
        spoil(&stage.output());
        for reported in [false, true] {
            let verdict = stage.judge(reported);
            assert_eq!(verdict.is_ok(), what == "intact", "{what}: {verdict:?}");
        }
    }
    // Nothing is there: right, unless success was reported.
    stage.set(Shape::Empty);
    assert_eq!(stage.judge(false), Ok(Found::Untouched));
    assert!(stage.judge(true).is_err());
}
