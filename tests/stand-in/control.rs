//! The log, and what others tell it to do.

use std::{
    env,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    process::{self, ExitCode},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Instant,
};

use nix::sys::signal::{SigSet, SigmaskHow};
use serde_json::{Value, json};
use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGUSR1},
    iterator::Signals,
};

use crate::{Failure, running::Validator};

/// Something to react to.
enum Input {
    Command(String),
    Signal(i32),
    /// Nobody gives commands any more.
    Closed,
}

/// The log, the signals from the first moment on, and the socket once it is up.
pub struct Control {
    since: Instant,
    log: Option<File>,
    /// Taken when it is up.
    signals: Option<Signals>,
    socket: Option<UnixStream>,
}

impl Control {
    /// Opens the log and catches signals. They wait until it is up.
    pub fn new() -> io::Result<Self> {
        let open = |path| File::options().create(true).append(true).open(path);
        let log = env::var_os("STAND_IN_LOG").map(open).transpose()?;
        // A signal during the registration would have no effect.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let signals = Some(Signals::new([SIGINT, SIGTERM, SIGUSR1])?);
        before.thread_set_mask()?;
        Ok(Self { since: Instant::now(), log, signals, socket: None })
    }

    /// Appends an event to the log, in one write.
    pub fn log(&mut self, event: &Value) {
        let mut event = event.clone();
        event["pid"] = process::id().into();
        event["ms"] = json!(u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX));
        if let Some(log) = &mut self.log {
            let _ = log.write_all(format!("{event}\n").as_bytes());
        }
    }

    /// Says that it is up, to the log and to whoever gives commands.
    pub fn up(&mut self, event: &Value) -> io::Result<()> {
        self.log(event);
        if let Some(path) = env::var_os("STAND_IN_CONTROL") {
            let mut socket = UnixStream::connect(path)?;
            let mut event = event.clone();
            event["pid"] = process::id().into();
            socket.write_all(format!("{event}\n").as_bytes())?;
            self.socket = Some(socket);
        }
        Ok(())
    }

    /// Does what commands and signals say, until one of them says that it is to end.
    pub fn serve(mut self, validator: &mut Validator) -> Result<ExitCode, Failure> {
        let inputs = self.inputs()?;
        loop {
            // Both threads have gone only if their senders have.
            match inputs.recv().unwrap_or(Input::Closed) {
                Input::Command(command) if command == "abort" => process::abort(),
                Input::Command(command) if command == "exit" => return end(validator),
                Input::Signal(SIGUSR1) => self.log(&json!({"event": "log-reopened"})),
                Input::Signal(_) => return end(validator),
                Input::Command(command) => {
                    let answer = match validator.command(&command) {
                        Ok(answer) => json!({"ok": answer}),
                        Err(error) => json!({"error": error.to_string()}),
                    };
                    self.log(&json!({"event": "command", "command": command, "answer": answer}));
                    if let Some(socket) = &mut self.socket {
                        socket.write_all(format!("{answer}\n").as_bytes())?;
                    }
                }
                // A test that has died leaves nothing running.
                Input::Closed => return Ok(ExitCode::FAILURE),
            }
        }
    }

    fn inputs(&mut self) -> io::Result<Receiver<Input>> {
        let (sender, inputs) = channel();
        if let Some(socket) = &self.socket {
            let (reader, sender) = (BufReader::new(socket.try_clone()?), sender.clone());
            thread::spawn(move || read(reader, &sender));
        }
        if let Some(mut signals) = self.signals.take() {
            thread::spawn(move || {
                signals.forever().try_for_each(|signal| sender.send(Input::Signal(signal)))
            });
        }
        Ok(inputs)
    }
}

fn read(reader: BufReader<UnixStream>, sender: &Sender<Input>) {
    for line in reader.lines() {
        let Ok(line) = line else { break };
        if sender.send(Input::Command(line)).is_err() {
            return;
        }
    }
    let _ = sender.send(Input::Closed);
}

fn end(validator: &mut Validator) -> Result<ExitCode, Failure> {
    validator.exit()?;
    Ok(ExitCode::SUCCESS)
}
