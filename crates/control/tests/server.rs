#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers of tests are not seen to be tests
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]
//! The server as a client sees it.

mod ground;

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::PathBuf,
    process::Command,
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use ground::{Ground, Raw, progress, wait_for};
use unsnap_control::{
    Access, Client, ClientError, Limits,
    protocol::{Answered, Event, RefusalKind, Request},
};
use unsnap_testkit::skip::skip;

fn ground() -> Ground {
    Ground::new(Access::default(), Limits::default())
}

#[test]
fn requests_are_answered_in_order_with_their_ids() {
    let ground = ground();
    let mut client = ground.connect();
    client.say(
        "{\"id\":9,\"request\":\"status\"}\n\n{\"request\":\"pause\"}\nx\n\
         {\"id\":7,\"request\":\"cancel\",\"job\":3}\n{\"id\":8,\"request\":\"st",
    );
    let first = client.hear().unwrap();
    assert_eq!((&first["id"], &first["ok"]["paused"]), (&9.into(), &false.into()));
    let second = client.hear().unwrap();
    assert_eq!((&second["id"], &second["ok"]["answer"]), (&().into(), &"paused".into()));
    assert_eq!(client.refused(), "bad-request");
    let fourth = client.hear().unwrap();
    assert_eq!((&fourth["id"], &fourth["error"]["kind"]), (&7.into(), &"no-such-job".into()));
    // The rest of the last one, and its end by the end of what is sent.
    client.say("atus\"}");
    let rest = String::from_utf8(client.drain()).unwrap();
    assert!(rest.starts_with("{\"id\":8,\"ok\":{\"answer\":\"status\""), "{rest}");
    assert_eq!(rest.lines().count(), 1);
}

#[test]
fn watchers_see_what_happens_between_the_status_and_their_end() {
    let ground = ground();
    let events = ground.server.events();
    assert!(!events.watched());
    events.publish(&Event::Paused);
    let client = Client::connect(&ground.socket).unwrap();
    let (status, mut watching) = client.watch().unwrap();
    assert!(!status.paused && events.watched());
    for event in [Event::Paused, progress(3), Event::Resumed] {
        events.publish(&event);
        assert_eq!(watching.next_event().unwrap().unwrap().event, event);
    }
    let end = watching.end().unwrap();
    let waiting = thread::spawn(move || watching.next_event());
    end.end();
    assert_eq!(waiting.join().unwrap().unwrap(), None);
    drop(end);
    wait_for("the watcher is forgotten", || !events.watched());
}

#[test]
fn who_has_sent_everything_may_still_watch() {
    let ground = ground();
    let mut client = ground.connect();
    client.say("{\"request\":\"watch\"}\n");
    client.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    client.hear().unwrap();
    ground.server.events().publish(&Event::Reloaded);
    assert_eq!(client.hear().unwrap()["event"], "reloaded");
    drop(client);
    wait_for("the watcher is forgotten", || !ground.server.events().watched());
}

#[test]
fn when_the_server_ends_everybody_is_told_and_the_socket_is_gone() {
    let ground = ground();
    let mut idle = ground.connect();
    idle.say("{\"request\":\"watch\"}\n");
    idle.hear().unwrap();
    let (socket, server) = (ground.socket.clone(), ground.server);
    drop(server);
    assert!(idle.hear().is_none());
    assert!(!socket.exists());
    let error = Client::connect(&socket).unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }) && error.hint().is_some());
}

#[test]
fn one_connection_too_many_is_told_so() {
    let ground = Ground::new(Access::default(), Limits { connections_max: 3 });
    let mut clients: Vec<Raw> = (0..3).map(|_| ground.connect()).collect();
    for client in &mut clients {
        client.say("{\"request\":\"pause\"}\n");
        client.hear().unwrap();
    }
    let mut client = Client::connect(&ground.socket).unwrap();
    let error = client.call(Request::Status {}).unwrap_err();
    let ClientError::Refused(refusal) = error else { panic!("{error}") };
    assert_eq!(refusal.kind, RefusalKind::TooManyConnections);
    drop(clients.pop());
    wait_for("the place is free", || {
        Client::connect(&ground.socket).unwrap().call(Request::Status {}).is_ok()
    });
}

#[test]
fn the_loop_sleeps_while_there_is_nothing_to_do() {
    let ground = ground();
    let heartbeat = ground.server.heartbeat();
    let mut clients: Vec<Raw> = (0..10).map(|_| ground.connect()).collect();
    for client in &mut clients {
        client.say("{\"request\":\"watch\"}\n{\"half");
        client.hear().unwrap();
    }
    let mut beats = 0;
    wait_for("the loop is idle", || {
        let before = std::mem::replace(&mut beats, heartbeat.beats());
        before == beats && unsnap_control::Heartbeat::idle_at(beats)
    });
    thread::sleep(Duration::from_secs(3));
    assert_eq!(heartbeat.beats(), beats, "ten idle clients wake nobody");
    ground.is_well();
    assert_ne!(heartbeat.beats(), beats);
}

/// The part of the test below that runs as another user: this program, started once more.
#[test]
fn as_a_stranger() {
    let Some(socket) = std::env::var_os("UNSNAP_TEST_SOCKET") else { return };
    let mut client = Client::connect(&PathBuf::from(socket)).unwrap();
    for request in [Request::Status {}, Request::Pause {}] {
        let said = match client.call(request) {
            Ok(Answered::Status(_)) => "status".to_owned(),
            Ok(answered) => format!("{answered:?}"),
            Err(ClientError::Refused(refusal)) => format!("{}: {refusal}", refusal.kind),
            Err(error) => error.to_string(),
        };
        println!("said {said}");
    }
}

#[test]
fn users_have_the_rights_of_the_lists_and_lose_them_at_once() {
    const STRANGER: u32 = 65_533;
    if !rustix::process::geteuid().is_root() {
        skip("only root can connect as another user");
        return;
    }
    let ground = ground();
    // A copy that the stranger can execute: the build directory may be private.
    fs::set_permissions(ground.scratch(), Permissions::from_mode(0o755)).unwrap();
    let program = ground.scratch().join("stranger");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let ask = |gid: u32| -> Vec<String> {
        let output = Command::new(&program)
            .args(["as_a_stranger", "--exact", "--nocapture"])
            .env("UNSNAP_TEST_SOCKET", &ground.socket)
            .current_dir("/")
            .uid(STRANGER)
            .gid(gid)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // The harness prints the test's name in front of what it says first.
        text.lines().filter_map(|line| Some(line.split_once("said ")?.1.to_owned())).collect()
    };
    let number = |id: u32| [id.to_string()];
    let denied = "denied: you have no access to this service";
    assert_eq!(ask(STRANGER)[0], denied);
    let access = Access::default().observing(&number(STRANGER), &[]).unwrap();
    ground.server.set_access(access);
    let observing = ["status", "denied: you may observe, but not operate"];
    assert_eq!(ask(STRANGER), observing);
    let access = Access::default().operating(&[], &number(4_000_000)).unwrap();
    ground.server.set_access(access);
    assert_eq!(ask(STRANGER)[0], denied);
    assert!(!ground.answers.paused.load(Ordering::Relaxed));
    assert_eq!(ask(4_000_000), ["status", "Paused { was_paused: false }"]);
}
