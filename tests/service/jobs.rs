//! Archives become results.

use std::fs;

use rustix::process::Signal;
use serde_json::json;
use unsnap_test_support::daemon::{Daemon, SLOW, full, incremental};

#[test]
fn an_archive_that_is_dropped_in_becomes_a_tree() {
    let mut daemon = Daemon::new();
    daemon.start();
    let archive = daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree("trees", "1000000", &archive);

    // One that is only closed after writing, and an incremental one upon it.
    let upon = daemon.make(&incremental(1_000_000, 1_000_100, 2));
    fs::copy(&upon, daemon.path("archives").join(upon.file_name().unwrap())).unwrap();
    daemon.until_settled("tree", 1_000_100);
    daemon.assert_tree("trees", "1000000-1000100", &upon);

    // A newer one, in `remote`: the old pair is not kept.
    let newer = daemon.make(&full(1_000_200, 3));
    fs::create_dir(daemon.path("archives/remote")).unwrap();
    fs::copy(&newer, daemon.path("archives/remote").join(newer.file_name().unwrap())).unwrap();
    daemon.until_settled("tree", 1_000_200);
    daemon.assert_tree("trees", "1000200", &newer);
    daemon.until("old trees are gone", |daemon| daemon.names("trees") == ["1000200"]);
    assert!(daemon.end(Signal::TERM).success());
}

#[test]
fn several_pairs_are_kept_and_targets_do_not_mind_each_other() {
    let mut daemon = Daemon::new();
    fs::create_dir(daemon.path("others")).unwrap();
    let both = [daemon.tree_target("tree", "trees", 2), daemon.tree_target("other", "others", 1)];
    daemon.configure(&both.concat());
    daemon.start();
    for (slot, seed) in [(1_000_000, 1), (1_000_100, 2), (1_000_200, 3)] {
        daemon.drop_in(&daemon.make(&full(slot, seed)));
        daemon.until_settled("tree", slot);
        daemon.until_settled("other", slot);
    }
    daemon.until("the newest stay", |daemon| {
        daemon.names("trees") == ["1000100", "1000200"] && daemon.names("others") == ["1000200"]
    });
}

#[test]
fn a_bad_archive_is_remembered_and_the_next_best_served() {
    let mut daemon = Daemon::new();
    daemon.start();
    let good = daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    // Its end is missing.
    let whole = fs::read(daemon.make(&full(1_000_100, 2))).unwrap();
    let name = full(1_000_100, 2).name();
    fs::write(daemon.path("cut"), &whole[..whole.len() / 2]).unwrap();
    let bad = daemon.path("archives").join(&name);
    fs::rename(daemon.path("cut"), &bad).unwrap();
    daemon.until("it is known to be bad", |daemon| {
        daemon.status()["bad"][0]["path"] == bad.to_str().unwrap()
    });
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree("trees", "1000000", &good);

    // Also after a restart it is not tried again.
    assert!(daemon.end(Signal::TERM).success());
    daemon.start();
    daemon.until_settled("tree", 1_000_000);
    let tried = |daemon: &Daemon| daemon.log().matches("bad archive; skipping").count();
    assert_eq!(tried(&daemon), 1, "{}", daemon.log());
    let refused = daemon.ask(&json!({"request": "submit", "archive": bad})).unwrap_err();
    assert_eq!(refused["kind"], "bad-archive");

    // Another file of that name is another archive.
    fs::write(daemon.path("whole"), &whole).unwrap();
    fs::rename(daemon.path("whole"), &bad).unwrap();
    daemon.until_settled("tree", 1_000_100);
    assert_eq!(tried(&daemon), 1);
    daemon.until("it is no longer known to be bad", |daemon| {
        daemon.status()["bad"].as_array().unwrap().is_empty()
    });
}

#[test]
fn an_archive_that_is_still_being_written_is_tried_when_it_is_complete() {
    let mut daemon = Daemon::new();
    let whole = fs::read(daemon.make(&full(1_000_000, 1))).unwrap();
    let path = daemon.path("archives").join(full(1_000_000, 1).name());
    // Found at the start, with half of it there and its writer waiting for the rest.
    let mut file = fs::File::create(&path).unwrap();
    std::io::Write::write_all(&mut file, &whole[..whole.len() / 2]).unwrap();
    daemon.start();
    daemon.until("half of it is tried, and bad", |daemon| daemon.status()["bad"][0].is_object());
    std::io::Write::write_all(&mut file, &whole[whole.len() / 2..]).unwrap();
    drop(file);
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree("trees", "1000000", &path);
}

#[test]
fn newer_archives_supersede_a_running_job() {
    let mut daemon = Daemon::new();
    daemon.configure(&[daemon.tree_target("tree", "trees", 1), SLOW.to_owned()].concat());
    daemon.start();
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until("it runs", |daemon| daemon.target("tree")["job"]["slot"] == 1_000_000);
    let newer = daemon.drop_in(&daemon.make(&full(1_000_100, 2)));
    daemon.until("the newer runs", |daemon| daemon.target("tree")["job"]["slot"] == 1_000_100);
    // In the middle of it the limit is lifted.
    daemon.configure(&daemon.tree_target("tree", "trees", 1));
    daemon.signal(Signal::HUP);
    daemon.until_settled("tree", 1_000_100);
    daemon.assert_tree("trees", "1000100", &newer);
    daemon.until("nothing else is left", |daemon| daemon.names("trees") == ["1000100"]);
}

#[test]
fn killed_in_the_middle_it_goes_on_at_the_next_start() {
    let mut daemon = Daemon::new();
    daemon.configure(&[daemon.tree_target("tree", "trees", 1), SLOW.to_owned()].concat());
    daemon.start();
    let archive = daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until("something is staged", |daemon| {
        daemon.path("trees/.1000000.unsnap-staging/accounts").is_dir()
    });
    daemon.end(Signal::KILL);
    // What another job had left is of no use to this one.
    fs::create_dir(daemon.path("trees/.999999.unsnap-staging")).unwrap();
    daemon.configure(&daemon.tree_target("tree", "trees", 1));
    daemon.start();
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree("trees", "1000000", &archive);
    daemon.until("leftovers are gone", |daemon| daemon.names("trees") == ["1000000"]);
}

#[test]
fn stopped_in_the_middle_it_leaves_what_can_be_gone_on_with() {
    let mut daemon = Daemon::new();
    daemon.configure(&[daemon.tree_target("tree", "trees", 1), SLOW.to_owned()].concat());
    daemon.start();
    let archive = daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until("it runs", |daemon| daemon.target("tree")["job"]["slot"] == 1_000_000);
    assert!(daemon.end(Signal::TERM).success());
    assert!(!daemon.path("trees/1000000").exists());
    daemon.configure(&daemon.tree_target("tree", "trees", 1));
    daemon.start();
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree("trees", "1000000", &archive);
}

#[test]
fn an_archive_that_is_removed_while_it_is_unpacked_harms_nobody() {
    let mut daemon = Daemon::new();
    daemon.configure(&[daemon.tree_target("tree", "trees", 1), SLOW.to_owned()].concat());
    daemon.start();
    let source = daemon.make(&full(1_000_000, 1));
    let archive = daemon.drop_in(&source);
    daemon
        .until("it runs", |daemon| daemon.path("trees/.1000000.unsnap-staging/accounts").is_dir());
    fs::remove_file(&archive).unwrap();
    daemon.configure(&daemon.tree_target("tree", "trees", 1));
    daemon.signal(Signal::HUP);
    // It was open.
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree("trees", "1000000", &source);
}

#[test]
fn what_the_machine_cannot_do_is_tried_again() {
    let mut daemon = Daemon::new();
    // No directory, for the time being: the same for root and everybody.
    fs::remove_dir(daemon.path("trees")).unwrap();
    fs::write(daemon.path("trees"), "a file").unwrap();
    daemon.start();
    let archive = daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until("it fails, and is tried again", |daemon| {
        let target = daemon.target("tree");
        let attempt = target["queued"][0]["attempt"].as_u64();
        attempt.is_some_and(|attempt| attempt > 2) && target["state"] == "failing"
    });
    fs::remove_file(daemon.path("trees")).unwrap();
    fs::create_dir(daemon.path("trees")).unwrap();
    daemon.until_settled("tree", 1_000_000);
    daemon.assert_tree("trees", "1000000", &archive);
}
