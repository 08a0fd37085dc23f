//! The program of `on-event`.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::Value;
use unsnap_test_support::daemon::{Daemon, full};

#[test]
fn an_operators_program_is_told_of_what_is_wrong_and_of_nothing_else() {
    let mut daemon = Daemon::new();
    let (hook, told) = (daemon.path("hook"), daemon.path("told"));
    fs::write(&hook, format!("#!/bin/sh\ncat >> '{}'\n", told.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    daemon.configure(&daemon.tree_target("tree", "trees", 1));
    daemon.edit("[service]\n", &format!("[service]\non-event = \"{}\"\n", hook.display()));
    daemon.start();
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    let newer = daemon.make(&full(1_000_100, 2));
    let bytes = fs::read(&newer).unwrap();
    fs::write(&newer, &bytes[..bytes.len() / 2]).unwrap();
    daemon.drop_in(&newer);
    let text = || fs::read_to_string(&told).unwrap_or_default();
    daemon.until("the program is told", |_| text().ends_with('\n'));
    let lines: Vec<Value> =
        text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [event] = &lines[..] else { panic!("{lines:#?}") };
    assert_eq!((&event["event"], &event["outcome"]), (&"job-ended".into(), &"bad-archive".into()));
    assert_eq!(event["job"]["slot"], 1_000_100, "{event:#}");
    assert!(event["unix_ms"].is_u64() && event["message"].is_string(), "{event:#}");
}
