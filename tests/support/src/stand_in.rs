//! A stand-in validator that is up, as whoever gives it commands sees it.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
};

use serde_json::Value;

/// The connection of a stand-in that has come up. It ends when this is dropped.
#[derive(Debug)]
pub struct Connection {
    socket: BufReader<UnixStream>,
    /// What it has come up from: `state`, `archives` or `genesis`.
    pub source: String,
    /// The slot of that.
    pub slot: u64,
    /// Its process, by the number that it knows itself.
    pub pid: u64,
}

impl Connection {
    /// Reads what it says first, when it has connected.
    #[track_caller]
    pub fn new(socket: UnixStream) -> Self {
        socket.set_nonblocking(false).unwrap();
        let mut socket = BufReader::new(socket);
        let mut line = String::new();
        socket.read_line(&mut line).unwrap();
        let told: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("it said {line:?}"));
        let number = |key: &str| told[key].as_u64().unwrap();
        let source = told["source"].as_str().unwrap().to_owned();
        Self { socket, source, slot: number("slot"), pid: number("pid") }
    }

    /// Sends a command, and returns its `ok` or its `error`.
    #[track_caller]
    pub fn ask(&mut self, command: &str) -> Result<Value, String> {
        self.tell(command);
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        let mut answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{command}: {line:?}"));
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["ok"].take()),
        }
    }

    /// Sends a command that it does not answer.
    #[track_caller]
    pub fn tell(&mut self, command: &str) {
        self.socket.get_mut().write_all(format!("{command}\n").as_bytes()).unwrap();
    }
}
