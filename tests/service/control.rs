//! What clients ask, pause, cancel, submit, reload.

use std::{fs, process::Command};

use rustix::process::Signal;
use serde_json::json;
use unsnap_test_support::{
    cleaned,
    daemon::{Daemon, SLOW, full},
    run, unpackd_path,
};

#[test]
fn a_bad_configuration_is_refused_before_and_while_it_runs() {
    let mut daemon = Daemon::new();
    let good = daemon.tree_target("tree", "trees", 1);
    daemon.configure(&format!("{good}\nkeeep = 3\n"));
    let told = run(&mut daemon.command()).assert_code(78);
    let file = daemon.path("unpackd.toml").display().to_string();
    told.assert_error(&[
        "unknown key keeep in [target]; did you mean keep? [request]\nhint: correct ",
        &format!("hint: correct {file}, then check it: unpackd --check-config"),
    ]);
    run(daemon.command().arg("--check-config")).assert_code(78);
    let absent = daemon.path("absent.toml");
    let told = run(cleaned(Command::new(unpackd_path())).arg("--config").arg(absent));
    told.assert_code(78).assert_error(&["[request]\nhint: name the configuration by --config"]);
    daemon.configure(&good);
    run(daemon.command().arg("--check-config")).assert_code(0);
    let printed = run(daemon.command().arg("--print-config")).assert_code(0).stdout;
    assert!(printed.contains("rescan = \"2s\""), "{printed}");

    daemon.start();
    daemon.configure(&format!("{good}\nkeeep = 3\n"));
    let refused = daemon.ask(&json!({"request": "reload"})).unwrap_err();
    assert_eq!(refused["kind"], "bad-config");
    daemon.signal(Signal::HUP);
    daemon.until("it is refused", |daemon| {
        daemon.log().contains("the new configuration is refused; the old one stays in force")
    });
    // The old one is in force.
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);

    fs::create_dir(daemon.path("others")).unwrap();
    daemon.configure(&[good, daemon.tree_target("other", "others", 1)].concat());
    assert!(daemon.ask(&json!({"request": "reload"})).is_ok());
    daemon.until("there are two targets", |daemon| {
        daemon.status()["targets"].as_array().unwrap().len() == 2
    });
    daemon.until_settled("other", 1_000_000);
    daemon.configure(&daemon.tree_target("other", "others", 1));
    assert!(daemon.ask(&json!({"request": "reload"})).is_ok());
    daemon.until("there is one again", |daemon| {
        let status = daemon.status();
        let targets = status["targets"].as_array().unwrap();
        targets.len() == 1 && targets[0]["name"] == "other"
    });
}

#[test]
fn jobs_are_submitted_cancelled_paused_and_resumed() {
    let mut daemon = Daemon::new();
    daemon.configure(&[daemon.tree_target("tree", "trees", 9), SLOW.to_owned()].concat());
    daemon.start();
    let one = daemon.make(&full(1_000_000, 1));
    let submit = |archive: &std::path::Path| json!({"request": "submit", "archive": archive});
    let submitted = daemon.ask(&submit(&one)).unwrap();
    let job = submitted["jobs"][0]["id"].as_u64().unwrap();
    daemon.until("it runs", |daemon| daemon.target("tree")["job"]["id"] == job);
    daemon.ask(&json!({"request": "pause"})).unwrap();
    daemon.until("it rests", |daemon| daemon.target("tree")["job"]["state"] == "paused");
    let cancelled = daemon.ask(&json!({"request": "cancel", "job": job})).unwrap();
    assert_eq!((&cancelled["was"], &cancelled["ending"]), (&"running".into(), &true.into()));
    // The journal says who did it.
    let who = format!("uid={} pid={}", rustix::process::getuid().as_raw(), std::process::id());
    for what in ["submitted a job", "paused the service", "cancelled a job"] {
        let log = daemon.log();
        let line = log.lines().find(|line| line.contains(&format!("a client {what}")));
        assert!(line.is_some_and(|line| line.contains(&who)), "{what} by {who}: {log}");
    }
    daemon.until("it is gone", |daemon| daemon.target("tree")["job"].is_null());
    assert_eq!(
        daemon.ask(&json!({"request": "cancel", "job": job})).unwrap_err()["kind"],
        "no-such-job"
    );

    // Paused, nothing is started, also after a restart.
    daemon.configure(&daemon.tree_target("tree", "trees", 9));
    assert!(daemon.end(Signal::TERM).success());
    daemon.start();
    assert_eq!(daemon.status()["paused"], true);
    daemon.ask(&submit(&one)).unwrap();
    let two = daemon.make(&full(1_000_100, 2));
    daemon.ask(&submit(&two)).unwrap();
    assert_eq!(daemon.target("tree")["queued"].as_array().unwrap().len(), 2);
    daemon.until("they wait", |daemon| daemon.target("tree")["state"] == "waiting");
    daemon.ask(&json!({"request": "resume"})).unwrap();
    daemon.until_settled("tree", 1_000_100);
    daemon.assert_tree("trees", "1000000", &one);
    daemon.assert_tree("trees", "1000100", &two);

    let metrics = daemon.ask(&json!({"request": "metrics"})).unwrap();
    let text = metrics["text"].as_str().unwrap();
    assert!(text.contains("outcome=\"done\"") && text.contains("target=\"tree\""), "{text}");

    for (request, kind) in [
        (json!({"request": "submit", "archive": "relative"}), "bad-archive"),
        (json!({"request": "submit", "archive": daemon.path("stock/none")}), "bad-archive"),
        (json!({"request": "submit", "archive": one, "target": "none"}), "no-such-target"),
        (json!({"request": "submit", "archive": one, "incremental": two}), "bad-archive"),
        (json!({"request": "cancel", "job": 0}), "no-such-job"),
    ] {
        assert_eq!(daemon.ask(&request).unwrap_err()["kind"], kind, "{request}");
    }
}

#[test]
fn what_this_machine_lacks_is_told_by_the_check_and_logged_at_the_start() {
    let mut daemon = Daemon::new();
    daemon.configure(
        &[daemon.tree_target("tree", "none", 1), "[neighbour]\ncpus = \"0-500\"\n".to_owned()]
            .concat(),
    );
    let told = run(daemon.command().arg("--check-config")).assert_code(78).stderr;
    assert!(told.contains("[[target]] tree: directory: "), "{told}");
    assert!(told.contains("cpus: this machine has the processors 0"), "{told}");
    assert_eq!(told.matches(" [request]\nhint: make it, ").count(), 2, "{told}");
    daemon.start();
    assert!(daemon.log().contains("[[target]] tree: directory: "), "{}", daemon.log());
}

#[test]
fn a_submitted_archive_stays_unpacked_until_something_newer_comes() {
    let mut daemon = Daemon::new();
    daemon.start();
    daemon.drop_in(&daemon.make(&full(1_000_100, 1)));
    daemon.until_settled("tree", 1_000_100);
    // Outside of the watched directory, and older than what is there.
    let older = daemon.make(&full(1_000_000, 2));
    let submitted = daemon.ask(&json!({"request": "submit", "archive": older})).unwrap();
    assert_eq!(submitted["jobs"][0]["newer"], 1_000_100);
    daemon.until("it is there", |daemon| daemon.path("trees/1000000/version").is_file());
    daemon.until("it is idle", |daemon| daemon.target("tree")["state"] == "idle");
    assert_eq!(daemon.names("trees"), ["1000000", "1000100"]);
    daemon.assert_tree("trees", "1000000", &older);

    // Another archive of that slot is another result.
    let other = daemon.make(&full(1_000_000, 3));
    assert_ne!(other, older);
    daemon.ask(&json!({"request": "submit", "archive": other})).unwrap();
    daemon.until("it has been replaced", |daemon| {
        daemon.log().contains("another archive of the same slot; replacing it")
            && daemon.target("tree")["state"] == "idle"
    });
    daemon.assert_tree("trees", "1000000", &other);

    daemon.drop_in(&daemon.make(&full(1_000_200, 4)));
    daemon.until_settled("tree", 1_000_200);
    daemon.until("the older ones are gone", |daemon| daemon.names("trees") == ["1000200"]);
}
