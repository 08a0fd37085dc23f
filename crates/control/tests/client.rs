#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // helpers of tests are not seen to be tests
//! The client against services that do not follow the protocol.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    thread,
};

use tempfile::TempDir;
use unsnap_control::{
    Client, ClientError,
    protocol::{Answered, REPLY_BYTES_MAX, Request},
};

/// Reaction of a fake service to the first line on a connection.
type Service = fn(&mut UnixStream, &str);

fn calling(service: Service) -> (TempDir, Client) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        service(&mut stream, &line);
    });
    let client = Client::connect(&path).unwrap();
    (scratch, client)
}

fn said(service: Service) -> ClientError {
    let (_scratch, mut client) = calling(service);
    client.call(Request::Status {}).unwrap_err()
}

#[test]
fn what_is_no_answer_is_an_error() {
    let nonsense: [Service; 5] = [
        |stream, _| stream.write_all(b"hello\n").unwrap(),
        |stream, _| stream.write_all(b"{}\n").unwrap(),
        |stream, _| stream.write_all(b"{\"id\":1,\"ok\":{\"answer\":\"status\"}}\n").unwrap(),
        |stream, _| {
            stream
                .write_all(b"{\"id\":2,\"ok\":{\"answer\":\"paused\",\"was_paused\":true}}\n")
                .unwrap();
        },
        |stream, _| _ = stream.write_all(&vec![b' '; REPLY_BYTES_MAX + 1]),
    ];
    for service in nonsense {
        let error = said(service);
        assert!(matches!(error, ClientError::Nonsense(_)), "{error:?}");
    }
    let gone: [Service; 2] =
        [|_, _| {}, |stream, _| stream.write_all(b"{\"id\":1,\"ok\"").unwrap()];
    for service in gone {
        let error = said(service);
        assert!(matches!(error, ClientError::Gone(_)) && error.hint().is_some(), "{error:?}");
    }
}

#[test]
fn what_a_later_version_says_is_put_up_with() {
    let (_scratch, mut client) = calling(|stream, line| {
        assert_eq!(line, "{\"id\":1,\"request\":\"pause\"}\n");
        stream
            .write_all(
                b"{\"id\":1,\"ok\":{\"answer\":\"paused\",\"was_paused\":true,\"by\":\"x\"},\
                \"more\":[]}\n",
            )
            .unwrap();
    });
    let answered = client.call(Request::Pause {}).unwrap();
    assert_eq!(answered, Answered::Paused { was_paused: true });
    let error = said(|stream, _| {
        stream
            .write_all(
                b"{\"error\":{\"kind\":\"too-tired\",\"message\":\"no\",\"hint\":\"sleep\"}}\n",
            )
            .unwrap();
    });
    assert_eq!((error.to_string().as_str(), error.hint()), ("no", Some("sleep")));
}

#[test]
fn a_request_that_is_too_long_is_not_sent() {
    let (_scratch, mut client) = calling(|_, line| assert_eq!(line, ""));
    let archive = "/a".repeat(40_000).into();
    let error =
        client.call(Request::Submit { target: None, archive, incremental: None }).unwrap_err();
    assert!(matches!(error, ClientError::Unspeakable(_)), "{error:?}");
}
