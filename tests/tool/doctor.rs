//! `ledger-tool doctor`.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;
use unsnap_test_support::{
    Outcome, Site, available, cleaned, genuine_full, has_tool, has_uring, is_root, ledger_tool,
    ledger_tool_path, run, skip,
};
use unsnap_testkit::{
    scratch::{ScratchFs, Tmpfs},
    server::{Fault, Personality, Script, Server},
    tree::read_tree,
};

const VERDICTS: [&str; 4] = ["ok", "note", "warning", "problem"];

/// The diagnosis, whose exit code is what its verdict says.
fn diagnosis(command: &mut Command) -> Value {
    let outcome = run(command);
    let diagnosis = outcome.json();
    let bad = ["warning", "problem"].contains(&diagnosis["verdict"].as_str().unwrap());
    outcome.assert_code(if bad { 3 } else { 0 });
    diagnosis
}

fn doctor(paths: &[&Path]) -> Value {
    diagnosis(ledger_tool().arg("doctor").args(paths).args(["--format", "json"]))
}

/// The check of this name; there is one.
fn check<'a>(diagnosis: &'a Value, id: &str) -> &'a Value {
    let checks = diagnosis["checks"].as_array().unwrap();
    let mut found = checks.iter().filter(|check| check["id"] == id);
    match (found.next(), found.next()) {
        (Some(check), None) => check,
        _ => panic!("not one {id} in {diagnosis:#}"),
    }
}

fn rank(check: &Value) -> usize {
    let verdict = check["verdict"].as_str().unwrap();
    VERDICTS.iter().position(|known| *known == verdict).unwrap()
}

#[test]
fn every_check_says_what_was_found_and_what_to_do() {
    let site = Site::new();
    let before = site.state();
    let diagnosis = doctor(&[&site.place()]);
    site.assert_untouched(&before, "doctor");
    let checks = diagnosis["checks"].as_array().unwrap();
    let worst = checks.iter().max_by_key(|check| rank(check)).unwrap();
    assert_eq!(diagnosis["verdict"], worst["verdict"]);
    for check in checks {
        assert!(check["found"].as_str().is_some_and(|found| !found.is_empty()), "{check:#}");
        assert!(rank(check) == 0 || check["consequence"].is_string(), "{check:#}");
        assert!(rank(check) < 2 || check["remedy"].is_string(), "{check:#}");
    }
    let of_path = ["file system", "mount options", "writable", "direct I/O", "space", "inodes"];
    for id in of_path {
        assert_eq!(check(&diagnosis, id)["path"], site.place().to_str().unwrap());
    }
    let of_machine = ["kernel", "io_uring", "landlock", "seccomp", "locked memory", "open files"];
    for id in of_machine.into_iter().chain(["cgroup memory", "processors", "memory", "fs.nr_open"])
    {
        assert_eq!(check(&diagnosis, id)["path"], Value::Null);
    }
    assert_eq!(check(&diagnosis, "writable")["verdict"], "ok");

    // The facts are those of the kernel.
    let facts = &diagnosis["facts"];
    assert_eq!(facts["uring"]["refused"].is_null(), has_uring());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(facts["kernel"]["release"], release.trim());
    let statvfs = rustix::fs::statvfs(site.place()).unwrap();
    let total = statvfs.f_blocks * statvfs.f_frsize;
    assert_eq!(facts["places"][0]["total_bytes"], total);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert_eq!(facts["limits"]["open_files"].as_u64(), limit);
}

#[test]
fn people_are_told_the_same() {
    let site = Site::new();
    let tell =
        |flags: &[&str]| run(ledger_tool().current_dir(site.place()).arg("doctor").args(flags));
    // Without a path, where one is.
    let plain = tell(&["--color", "never"]);
    assert!(plain.stdout.starts_with("machine and process\n  "), "{plain:#?}");
    assert!(plain.stdout.contains("\n.\n  "), "{plain:#?}");
    assert!(plain.stdout.contains("  kernel                  Linux "), "{plain:#?}");
    assert!(!plain.stdout.contains('\x1b'), "{plain:#?}");
    let last = plain.stdout.lines().last().unwrap();
    assert!(last.contains(" warning") && last.contains(" note"), "{plain:#?}");
    assert_eq!(plain.status.code() == Some(3), plain.stderr.starts_with("error: "), "{plain:#?}");

    // No terminal, no colours, unless they are asked for.
    assert!(!tell(&[]).stdout.contains('\x1b'));
    assert!(tell(&["--color", "always"]).stdout.contains("\x1b["));
    assert_eq!(tell(&["--quiet"]).stdout, "");
}

#[test]
fn a_refused_ring_has_its_verdict() {
    if !has_tool("strace", "--version") {
        return;
    }
    for (errno, reason) in [("EPERM", "seccomp"), ("ENOSYS", "without it"), ("ENOMEM", "locked")] {
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=io_uring_setup", "-e"])
            .arg(format!("inject=io_uring_setup:error={errno}"))
            .arg(ledger_tool_path())
            .args(["doctor", "--format", "json"]);
        let diagnosis = diagnosis(&mut cleaned(strace));
        let check = check(&diagnosis, "io_uring");
        assert_eq!(check["verdict"], "warning", "{errno}: {check:#}");
        assert!(check["consequence"].as_str().unwrap().contains(reason), "{errno}: {check:#}");
        assert!(check["remedy"].is_string(), "{errno}: {check:#}");
    }
}

#[test]
fn low_limits_have_their_verdicts() {
    if !has_tool("prlimit", "--version") {
        return;
    }
    let with = |limits: &[&str]| {
        let mut prlimit = Command::new("prlimit");
        prlimit.args(limits).arg(ledger_tool_path()).args(["doctor", "--format", "json"]);
        diagnosis(&mut cleaned(prlimit))
    };
    let low = with(&["--nofile=100:100", "--fsize=1000000:1000000"]);
    assert_eq!(check(&low, "open files")["verdict"], "warning");
    assert_eq!(check(&low, "file size")["verdict"], "problem");
    assert_eq!(low["verdict"], "problem");
    let fewer = with(&["--nofile=40:40"]);
    assert_eq!(check(&fewer, "open files")["verdict"], "problem");
    assert_eq!(check(&fewer, "file size")["verdict"], "ok");
}

/// The limit of locked memory holds for those who are not root, who also cannot write everywhere.
#[test]
fn another_user_is_told_of_other_limits() {
    let tools = ["setpriv", "prlimit"];
    if !is_root() {
        return skip("running as another user needs root");
    }
    if !tools.iter().all(|tool| has_tool(tool, "--version")) {
        return;
    }
    // Where anybody may look; the build directory may be private.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let tool = directory.path().join("ledger-tool");
    fs::copy(ledger_tool_path(), &tool).unwrap();
    let mut command = Command::new("prlimit");
    command
        .args(["--memlock=8388608:8388608", "setpriv", "--reuid=65534", "--regid=65534"])
        .args(["--clear-groups", "--inh-caps=-all"])
        .arg(&tool)
        .arg("doctor")
        .arg(directory.path())
        .args(["--format", "json"]);
    let diagnosis = diagnosis(&mut cleaned(command));
    let memory = check(&diagnosis, "locked memory");
    let expected = if has_uring() { "warning" } else { "note" };
    assert_eq!(memory["verdict"], expected, "{memory:#}");
    assert!(memory["remedy"].as_str().unwrap().contains("LimitMEMLOCK="), "{memory:#}");
    assert_eq!(check(&diagnosis, "writable")["verdict"], "problem");
    assert_eq!(diagnosis["facts"]["limits"]["locked_bytes"], 8 << 20);
}

#[test]
fn a_file_system_in_memory_is_warned_of() {
    let tmpfs = Tmpfs { size_bytes: 16 << 20, inodes: Some(100) };
    let Some(memory) = available(ScratchFs::tmpfs(&tmpfs)) else { return };
    let site = Site::new();
    let before = read_tree(memory.path()).unwrap();
    let diagnosis = doctor(&[memory.path(), &site.place(), &site.path("")]);
    assert_eq!(read_tree(memory.path()).unwrap(), before);
    let of = |id: &str, path: &Path| {
        let checks = diagnosis["checks"].as_array().unwrap().iter();
        let mut found = checks.filter(|check| check["id"] == id);
        found.find(|check| check["path"] == path.to_str().unwrap()).unwrap().clone()
    };
    assert_eq!(of("file system", memory.path())["verdict"], "warning");
    assert_eq!(of("space", memory.path())["verdict"], "note");
    assert_eq!(of("inodes", memory.path())["verdict"], "note");
    // Two of the three share a file system.
    let together = check(&diagnosis, "file systems");
    assert_eq!(together["verdict"], "note", "{together:#}");
    assert!(together["found"].as_str().unwrap().contains(" and "), "{together:#}");
}

#[test]
fn an_archive_is_examined_without_touching_it() {
    let archive = genuine_full();
    let diagnosis = doctor(&[&archive]);
    let checks = diagnosis["checks"].as_array().unwrap().iter();
    let of_path: Vec<&str> = checks
        .filter(|check| check["path"] == archive.to_str().unwrap())
        .map(|check| check["id"].as_str().unwrap())
        .collect();
    assert!(of_path.contains(&"file system") && of_path.contains(&"direct I/O"), "{of_path:?}");
    assert!(!of_path.contains(&"writable") && !of_path.contains(&"space"), "{of_path:?}");
}

#[test]
fn bad_input_is_refused() {
    let site = Site::new();
    let absent = site.path("absent");
    let refused = |path: &Path| -> Outcome {
        let outcome = run(ledger_tool().arg("doctor").arg(path)).assert_code(2);
        assert_eq!(outcome.stdout, "");
        outcome.assert_error(&["cannot examine", path.to_str().unwrap(), " [request]\nhint: "])
    };
    refused(&absent).assert_error(&["No such file", "hint: check the spelling of the path"]);
    let device = refused(Path::new("/dev/null"));
    device.assert_error(&["neither a directory nor a file", "hint: name a directory"]);
    run(ledger_tool().args(["doctor", "--format", "xml"])).assert_code(2);
    // Whoever reads has had enough: that is no error.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = ledger_tool().arg("doctor").stdout(writer).stderr(Stdio::null()).status();
    assert_eq!(status.unwrap().code(), Some(0));
}

#[test]
fn a_server_is_told_what_it_can_do() {
    let archive = genuine_full();
    let name = archive.file_name().unwrap().to_str().unwrap();
    let bytes = fs::read(&archive).unwrap();
    let all_is_well = || -> Script { Box::new(|_, _| None) };
    for (personality, verdict) in [(Personality::nginx(), "ok"), (Personality::agave(), "note")] {
        let server = Server::start(name, bytes.clone(), personality.clone(), all_is_well());
        let mut command = ledger_tool();
        command.args(["doctor", "--format=json", "--url"]).arg(server.url("/snapshot.tar.bz2"));
        let told = run(&mut command).assert_code(0).json();
        let found = told["checks"].as_array().unwrap();
        let ranges = found.iter().find(|check| check["id"] == "ranges").unwrap();
        assert_eq!(ranges["verdict"], verdict, "{told:#}");
        assert_eq!(told["server"]["archive_bytes"], bytes.len(), "{told:#}");
        assert_eq!(told["server"]["ranges"], personality.ranges, "{told:#}");
        assert_eq!(told["server"]["redirects"], 1, "{told:#}");
    }
    // A server that lets bytes drip, and one that has nothing.
    let script: Script = Box::new(|_, _| Some(Fault::Drip(70_000)));
    let slow = Server::start(name, bytes, Personality::agave(), script);
    let mut command = ledger_tool();
    let outcome = run(command.args(["doctor", "--url"]).arg(slow.url("/snapshot.tar.bz2")));
    let text = outcome.assert_code(3).stdout;
    assert!(text.contains("warning  rate") && text.contains("another peer"), "{text}");
    let mut command = ledger_tool();
    let outcome = run(command.args(["doctor", "--url"]).arg(slow.url("/other")));
    outcome.assert_code(3).assert_error(&["[network]", "404"]);
    let mut command = ledger_tool();
    run(command.args(["doctor", "--url"]).arg(&archive)).assert_code(2);
}
