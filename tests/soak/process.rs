//! A start of the validator, and the validator that has come up.

use std::{
    fs::{self, File},
    os::unix::net::UnixListener,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use serde_json::Value;
use unsnap_test_support::{cleaned, machine::Machine, stand_in::Connection, validator_path, wait};

/// No start takes this long; one that does hangs. In seconds.
const HANG_SECONDS: i64 = 120;

/// Starts of which sockets and standard errors are kept. More than are made at once.
const KEPT: u32 = 8;

/// A process that is to become a validator. Killed when dropped.
#[derive(Debug)]
pub struct Starting {
    child: Option<Child>,
    ended: OwnedFd,
    listener: UnixListener,
}

/// A validator that is up. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    connection: Connection,
    /// What it has said when it came up.
    pub source: String,
    pub slot: u64,
}

/// The end of a start.
#[derive(Debug)]
pub enum Came {
    Up(Running),
    Ended(ExitStatus),
}

/// Everything about a start that may differ.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Flags of the front end.
    pub own: Vec<String>,
    /// Further arguments of the validator.
    pub further: Vec<&'static str>,
    /// The validator panics when it has loaded.
    pub fails: bool,
    /// Without the front end.
    pub plain: bool,
}

impl Starting {
    /// Starts the front end around the validator, or the validator alone.
    pub fn new(machine: &Machine, how: &How, number: u32) -> Self {
        let control = |number| machine.path(&format!("control-{number}"));
        if let Some(old) = number.checked_sub(KEPT) {
            let _ = fs::remove_file(control(old));
            let _ = fs::remove_file(errors(machine, old));
        }
        let socket = control(number);
        let listener = UnixListener::bind(&socket).unwrap();
        let mut command = if how.plain {
            Command::new(machine.program())
        } else {
            let mut command = Command::new(validator_path());
            command.args(&how.own).arg("--").arg(machine.program());
            command
        };
        command.args(machine.arguments()).args(&how.further);
        let mut command = cleaned(command);
        command.env("STAND_IN_CONTROL", &socket).env("STAND_IN_LOG", machine.path("events"));
        if how.fails {
            command.env("STAND_IN_FAIL", "1");
        }
        let errors = File::create(errors(machine, number)).unwrap();
        let child = command.stdout(Stdio::null()).stderr(errors).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        Self { child: Some(child), ended, listener }
    }

    /// Waits until the validator is up, or the process has ended.
    #[track_caller]
    pub fn wait(mut self) -> Came {
        assert!(self.is_over(HANG_SECONDS, 0), "the start hangs");
        self.listener.set_nonblocking(true).unwrap();
        // One that has come up may have ended since.
        let Ok((socket, _)) = self.listener.accept() else {
            return Came::Ended(wait(&mut self.child.take().unwrap()));
        };
        let (connection, child) = (Connection::new(socket), self.child.take());
        let pid = child.as_ref().map(|child| child.id().into());
        assert_eq!(Some(connection.pid), pid, "another one has come up");
        let (source, slot) = (connection.source.clone(), connection.slot);
        Came::Up(Running { child, connection, source, slot })
    }

    /// Waits for so long at most. Returns whether it is up or has ended.
    pub fn is_over(&self, seconds: i64, nanoseconds: i64) -> bool {
        let mut files =
            [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        poll(&mut files, Some(&time)).unwrap() > 0
    }

    /// Returns whether the front end catches a signal by now.
    pub fn catches(&self, signal: Signal) -> bool {
        let pid = self.child.as_ref().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        caught.is_some_and(|set| set >> (signal.as_raw() - 1) & 1 == 1)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send(self.child.as_ref().unwrap(), signal);
    }

    /// Sends a signal that ends it, and waits for that.
    #[track_caller]
    pub fn end(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        wait(&mut self.child.take().unwrap())
    }
}

impl Running {
    /// Sends a command, and returns its `ok` or its `error`.
    #[track_caller]
    pub fn ask(&mut self, command: &str) -> Result<Value, String> {
        self.connection.ask(command)
    }

    /// Tells it to end in this way, and waits for that.
    #[track_caller]
    pub fn end_by(mut self, command: &str) -> ExitStatus {
        self.connection.tell(command);
        wait(&mut self.child.take().unwrap())
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send(self.child.as_ref().unwrap(), signal);
    }

    /// Sends a signal that ends it, and waits for that.
    #[track_caller]
    pub fn end(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        wait(&mut self.child.take().unwrap())
    }
}

/// Returns the file with a start's standard error.
pub fn errors(machine: &Machine, number: u32) -> PathBuf {
    machine.path(&format!("stderr-{number}"))
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn kill(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}
