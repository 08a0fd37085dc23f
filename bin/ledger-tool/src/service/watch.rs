//! `ledger-tool service watch`.

use std::{
    collections::HashMap,
    io::{self, IsTerminal},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::Context;
use unsnap_cli::{exit::Interrupted, signals};
use unsnap_control::{
    Client, ClientError, Watching,
    protocol::{Answered, Event, EventLine, Status},
};

use super::{
    answer::{cleaned, json},
    args::{AnswerFormat, AskArgs},
    text,
    view::View,
};
use crate::{
    printer::{Printer, ProgressStyle, data},
    signals::Signals,
};

/// Interval between lines about the progress of a job in a log, in milliseconds: the same as for
/// `unpack`.
const LOG_EVERY_MS: u64 = 10_000;

/// Time between two attempts to reach a service that has gone. A guess.
const RECONNECT_EVERY: Duration = Duration::from_millis(500);

/// Shows events until a signal arrives. A service that stops or restarts is waited for.
pub fn run(ask: &AskArgs, printer: &Printer) -> anyhow::Result<()> {
    let signals = Signals::catch()?;
    let (status, mut watching) = Client::connect(&ask.socket)?.watch().map_err(cleaned)?;
    let stop = Arc::new(Mutex::new(watching.end().context("cannot watch for signals")?));
    let at_signal = Arc::clone(&stop);
    let end = move || at_signal.lock().unwrap_or_else(PoisonError::into_inner).end();
    signals.at_first(end).context("cannot watch for signals")?;
    let mut screen = Screen::new(ask, printer, status)?;
    loop {
        let end = follow(&mut watching, &mut screen)?;
        // A signal also ends the connection.
        if signals::received() {
            return Err(Interrupted.into());
        }
        if let Some(error) = end.filter(|error| !is_gone(error)) {
            return Err(cleaned(error).into());
        }
        printer.warning("lost the connection to unpackd; waiting until it answers again");
        drop(screen);
        let (status, again) = reconnect(&ask.socket)?;
        *stop.lock().unwrap_or_else(PoisonError::into_inner) =
            again.end().context("cannot watch for signals")?;
        if signals::received() {
            // It came before the new connection could be ended by it.
            return Err(Interrupted.into());
        }
        watching = again;
        screen = Screen::new(ask, printer, status)?;
    }
}

/// Shows events until the connection ends. Returns its error, if it did not just end.
fn follow(watching: &mut Watching, screen: &mut Screen) -> anyhow::Result<Option<ClientError>> {
    loop {
        match watching.next_event() {
            Ok(Some(event)) => screen.show(&event)?,
            Ok(None) => return Ok(None),
            Err(error) => return Ok(Some(error)),
        }
    }
}

/// Returns whether the service may come back.
fn is_gone(error: &ClientError) -> bool {
    matches!(error, ClientError::Gone(_) | ClientError::Unreachable { .. })
}

/// Connects again as soon as the service answers.
fn reconnect(socket: &Path) -> anyhow::Result<(Status, Watching)> {
    loop {
        if signals::received() {
            return Err(Interrupted.into());
        }
        match Client::connect(socket).and_then(Client::watch) {
            Ok(watching) => return Ok(watching),
            Err(error) if is_gone(&error) => thread::sleep(RECONNECT_EVERY),
            Err(error) => return Err(cleaned(error).into()),
        }
    }
}

/// Output of events.
enum Screen {
    /// The live view on a terminal.
    View(View),
    /// Lines of text. Holds the time of each job's last line of progress.
    Lines(HashMap<u64, u64>),
    /// Lines of JSON.
    Json,
}

impl Screen {
    fn new(ask: &AskArgs, printer: &Printer, status: Status) -> anyhow::Result<Self> {
        if ask.format != AnswerFormat::Text {
            data(&json(&Answered::Status(Box::new(status)), false)?)?;
            return Ok(Self::Json);
        }
        let terminal = io::stdout().is_terminal();
        if terminal && printer.progress() == Some(ProgressStyle::Line) {
            return Ok(Self::View(View::new(status)));
        }
        data(&text::status(&status))?;
        Ok(Self::Lines(HashMap::new()))
    }

    fn show(&mut self, line: &EventLine) -> anyhow::Result<()> {
        match self {
            Self::View(view) => view.show(line),
            Self::Lines(shown) => {
                if due(shown, line)
                    && let Some(line) = text::event_line(line)
                {
                    data(&(line + "\n"))?;
                }
            }
            Self::Json => data(&json(line, false)?)?,
        }
        Ok(())
    }
}

/// Returns whether to print an event. Progress is printed at intervals only.
fn due(shown: &mut HashMap<u64, u64>, line: &EventLine) -> bool {
    match &line.event {
        Event::Progress { job, .. } => {
            let last = shown.get(job).copied();
            let due = last.is_none_or(|last| line.unix_ms >= last.saturating_add(LOG_EVERY_MS));
            if due {
                shown.insert(*job, line.unix_ms);
            }
            due
        }
        Event::JobEnded { job, .. } => {
            shown.remove(&job.id);
            true
        }
        _ => true,
    }
}
