//! Jobs keep to what is configured for the sake of others.

use std::{fs, process::Command};

use rustix::process::{Signal, getpriority_process};
use unsnap_test_support::{
    daemon::{Daemon, full},
    has_tool, ledger_tool, run,
};

/// What follows a word at the beginning of a line.
fn line<'t>(text: &'t str, word: &str) -> &'t str {
    text.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_default().trim()
}

/// Number, name, niceness and processors of each thread.
fn threads(daemon: &Daemon) -> Vec<(String, String, String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let thread = |task: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
        let (status, stat) = (read("status")?, read("stat")?);
        let (_, fields) = stat.rsplit_once(')')?;
        // The 19th field, of which two are in front of the parenthesis.
        let nice = fields.split_whitespace().nth(16)?.to_owned();
        let number = task.file_name().to_str()?.to_owned();
        let name = line(&status, "Name:").to_owned();
        Some((number, name, nice, line(&status, "Cpus_allowed_list:").to_owned()))
    };
    tasks.filter_map(|task| thread(task.ok()?)).collect()
}

fn told(daemon: &Daemon) -> String {
    let mut tool = ledger_tool();
    tool.args(["service", "status", "--socket"]).arg(daemon.path("socket"));
    run(&mut tool).assert_code(0).stdout
}

#[test]
fn threads_of_a_job_have_the_priorities_and_processors_and_its_rate_is_told() {
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    // The smallest set there is.
    let first = line(&allowed, "Cpus_allowed_list:").split(['-', ',']).next().unwrap();
    let mut daemon = Daemon::new();
    let tree = daemon.tree_target("tree", "trees", 1);
    let given = format!(
        "[neighbour]\nrate-limit = \"5kB\"\nnice = 7\nio-class = \"idle\"\ncpus = \"{first}\"\n"
    );
    daemon.configure(&[&*tree, &given].concat());
    daemon.start();
    assert_eq!(daemon.status()["rate_limit"], 5000);
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    let mut seen = Vec::new();
    daemon.until("it creates files", |daemon| {
        seen = threads(daemon);
        seen.iter().any(|(_, name, ..)| name.starts_with("unsnap-create"))
    });
    let text = told(&daemon);
    assert!(text.lines().next().unwrap().ends_with(", limited to 4.88 KiB/s"), "{text}");
    let of_the_job = || seen.iter().filter(|(_, name, ..)| name.starts_with("unsnap-"));
    assert!(of_the_job().count() >= 3, "{seen:?}");
    for (_, name, nice, cpus) in of_the_job() {
        assert_eq!((nice.as_str(), cpus.as_str()), ("7", first), "{name}");
    }
    // The service's own threads answer at once: they are as nice as it was started.
    let own = getpriority_process(None).unwrap();
    for (_, name, nice, cpus) in seen.iter().filter(|(_, name, ..)| name.starts_with("unpackd")) {
        assert_eq!(nice, &own.to_string(), "{name}");
        assert_eq!(cpus, line(&allowed, "Cpus_allowed_list:"), "{name}");
    }
    if has_tool("ionice", "--version") {
        let (number, ..) =
            of_the_job().find(|(_, name, ..)| name.starts_with("unsnap-create")).unwrap();
        // Nothing is told of a thread that has ended since.
        let told = run(Command::new("ionice").args(["-p", number]));
        assert!(!told.status.success() || told.stdout.trim() == "idle", "{told:?}");
    }

    assert!(daemon.ask(&serde_json::json!({"request": "pause"})).is_ok());
    daemon.until("it rests", |daemon| daemon.target("tree")["job"]["state"] == "paused");
    let text = told(&daemon);
    assert!(text.lines().next().unwrap().ends_with(", limited to 4.88 KiB/s, paused"), "{text}");
    assert!(text.contains(": paused, unpacking"), "{text}");
    assert!(daemon.ask(&serde_json::json!({"request": "resume"})).is_ok());

    daemon.configure(&tree);
    daemon.signal(Signal::HUP);
    daemon.until_settled("tree", 1_000_000);
    assert_eq!(daemon.status()["rate_limit"], serde_json::Value::Null);
    assert!(!told(&daemon).contains("limited"));
}
