//! Sockets that are handed over, and two services that want the same.

use std::{
    fs,
    os::{fd::OwnedFd, unix::net::UnixListener},
    process::{Command, Stdio},
};

use rustix::process::Signal;
use serde_json::json;
use unsnap_test_support::{
    cleaned,
    daemon::{Daemon, full},
    finish, run, unpackd_path,
};

#[test]
fn a_socket_that_systemd_hands_over_is_used_and_left_there() {
    let mut daemon = Daemon::new();
    // The configured one is not to be made.
    daemon.edit(
        &format!("socket = \"{}\"", daemon.path("socket").display()),
        &format!("socket = \"{}\"", daemon.path("unused").display()),
    );
    let socket = UnixListener::bind(daemon.path("socket")).unwrap();
    // As systemd does it: the first one is descriptor 3, and the variables name the process.
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"", "sh"])
        .arg(unpackd_path())
        .arg("--config")
        .arg(daemon.path("unpackd.toml"))
        .stdin(Stdio::from(OwnedFd::from(socket)));
    daemon.start_by(command);
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    assert!(daemon.end(Signal::TERM).success());
    assert!(daemon.path("socket").exists(), "it is systemd's");
    assert!(!daemon.path("unused").exists());
}

#[test]
fn two_services_do_not_share_the_directories_of_a_target() {
    let mut daemon = Daemon::new();
    daemon.start();
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    // An instance that was copied and not adapted, but for its state directory and its socket.
    let mut second = Daemon::new();
    let text = fs::read_to_string(daemon.path("unpackd.toml")).unwrap();
    let own = |name: &str| second.path(name).display().to_string();
    let others = |name: &str| daemon.path(name).display().to_string();
    let text =
        ["state", "socket"].iter().fold(text, |text, name| text.replace(&others(name), &own(name)));
    fs::write(second.path("unpackd.toml"), text).unwrap();
    second.start();
    // The first one runs, although it does nothing.
    daemon.ask(&json!({"request": "pause"})).unwrap();
    daemon.drop_in(&daemon.make(&full(1_000_100, 1)));
    let state = daemon.path("state").display().to_string();
    second.until("it keeps away, and says why", |second| {
        let told = second.target("tree").to_string();
        told.contains("another unsnap is at work on") && told.contains(&state)
    });
    assert_eq!(daemon.names("trees"), ["1000000"]);
    daemon.end(Signal::KILL);
    second.until_settled("tree", 1_000_100);
}

#[test]
fn the_second_of_two_services_is_refused_and_the_first_goes_on() {
    let mut daemon = Daemon::new();
    daemon.start();
    let told = run(&mut daemon.command()).assert_code(3);
    let state = daemon.path("state").display().to_string();
    let is_taken = " [locked]\nhint: stop the other one, or give this one ";
    told.assert_error(&[&format!("another unpackd uses {state}{is_taken}")]);
    // One with another state directory, but the same socket.
    let mut other = daemon.command();
    other.arg("--state-directory").arg(daemon.path("other"));
    let told = run(&mut other).assert_code(3);
    let socket = daemon.path("socket").display().to_string();
    told.assert_error(&[&format!("another process listens on {socket}{is_taken}")]);

    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    // Killed, it leaves a socket; and nothing that would keep the next one out.
    daemon.end(Signal::KILL);
    assert!(daemon.path("socket").exists());
    daemon.start();
    daemon.until_settled("tree", 1_000_000);
}

#[test]
fn of_many_that_start_at_once_one_stays() {
    let mut daemon = Daemon::new();
    // A stale socket, which all of them find.
    drop(UnixListener::bind(daemon.path("socket")).unwrap());
    let many: Vec<_> =
        (0..6).map(|_| daemon.command().stderr(Stdio::piped()).spawn().unwrap()).collect();
    daemon.until("one answers", |daemon| {
        daemon.ask(&serde_json::json!({"request": "status"})).is_ok()
    });
    let pid = daemon.status()["pid"].as_u64().unwrap();
    let mut left = None;
    for child in many {
        if u64::from(child.id()) == pid {
            left = Some(child);
        } else {
            let told = finish(child).assert_code(3);
            assert!(told.stderr.contains("another unpackd uses"), "{told:?}");
        }
    }
    // Nobody has taken its socket away.
    assert_eq!(daemon.status()["pid"], pid);
    daemon.adopt(left.expect("one of these answers"));
    assert!(daemon.end(Signal::TERM).success());
    assert!(!daemon.path("socket").exists());
}

#[test]
fn empty_variables_are_as_good_as_none() {
    let daemon = Daemon::new();
    daemon.edit(&format!("state-directory = \"{}\"", daemon.path("state").display()), "");
    let mut command = daemon.command();
    for variable in ["UNSNAP_CONFIG", "STATE_DIRECTORY", "RUNTIME_DIRECTORY"] {
        command.env(variable, "");
    }
    let printed = run(command.arg("--print-config")).assert_code(0).stdout;
    assert!(printed.contains("state-directory = \"/var/lib/unpackd\""), "{printed}");

    // Not the file in the working directory.
    let mut command = cleaned(Command::new(unpackd_path()));
    command.env("CONFIGURATION_DIRECTORY", "").current_dir(daemon.path(""));
    let printed = run(command.arg("--print-config"));
    let archives = daemon.path("archives").display().to_string();
    assert!(!printed.stdout.contains(&archives), "{printed:#?}");
}
