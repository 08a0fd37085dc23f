#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // helpers of tests are not seen to be tests
//! Metrics over HTTP, on a real socket.

mod ground;

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use ground::{Ground, wait_for};
use unsnap_control::{Access, Limits, ScrapeListener};

/// Starts a server that also listens on TCP. Returns it with its address.
fn ground() -> (Ground, SocketAddr) {
    let ground = Ground::new(Access::default(), Limits::default());
    let listener = ScrapeListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_address().unwrap();
    ground.server.set_metrics_listener(Some(listener));
    (ground, address)
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
    stream.write_all(request).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn a_scrape_is_answered_and_ended() {
    let (ground, address) = ground();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
    for _ in 0..100 {
        let response = ask(address, request);
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\nunsnap_paused 0\n# EOF\n"), "{response}");
    }
    let response = ask(address, b"GET /favicon.ico HTTP/1.1\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    // An unread request body does not cost the client its answer.
    let mut request = b"POST /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n".to_vec();
    request.extend(vec![b'a'; 100_000]);
    assert!(ask(address, &request).starts_with("HTTP/1.1 405 "));
    ground.is_well();
}

#[test]
fn in_pieces_is_as_good_as_at_once() {
    let (_ground, address) = ground();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.contains("Content-Length: 22\r\n") && response.ends_with("\r\n\r\n"));
}

#[test]
fn clients_that_do_nothing_are_cut_off_and_then_nothing_wakes_the_loop() {
    let (ground, address) = ground();
    let begin = Instant::now();
    let mut idle: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut idle {
        stream.write_all(b"GET /met").unwrap();
    }
    // Connections above the limit are closed at once; idle ones do not affect other clients.
    let many: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    ground.is_well();
    drop(many);
    for mut stream in idle {
        stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
        let mut response = Vec::new();
        // The connection ends with a reset, if bytes were unread, or cleanly.
        let _ = stream.read_to_end(&mut response);
        assert!(response.is_empty());
    }
    assert!(begin.elapsed() >= Duration::from_secs(9), "they were given their time");
    let heartbeat = ground.server.heartbeat();
    let mut beats = 0;
    wait_for("the loop is idle", || beats == std::mem::replace(&mut beats, heartbeat.beats()));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(heartbeat.beats(), beats, "there is no timer without scrapes");
    assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
}

#[test]
fn the_listener_can_be_taken_away() {
    let (ground, address) = ground();
    assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    ground.server.set_metrics_listener(None);
    wait_for("nobody listens", || match TcpStream::connect(address) {
        Err(_) => true,
        Ok(stream) => {
            let _ = stream.shutdown(Shutdown::Both);
            false
        }
    });
    ground.is_well();
}
