//! `ledger-tool service watch`.

use std::{
    collections::HashMap,
    io::{self, IsTerminal},
};

use anyhow::Context;
use unsnap_cli::{exit::Interrupted, signals};
use unsnap_control::{
    Client, ClientError,
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

pub fn run(ask: &AskArgs, printer: &Printer) -> anyhow::Result<()> {
    let signals = Signals::catch()?;
    let (status, mut watching) = Client::connect(&ask.socket)?.watch().map_err(cleaned)?;
    let stop = watching.end().context("cannot watch for signals")?;
    signals.at_first(move || stop.end()).context("cannot watch for signals")?;
    let mut screen = Screen::new(ask, printer, status)?;
    let end = loop {
        match watching.next_event() {
            Ok(Some(event)) => screen.show(&event)?,
            Ok(None) => break Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => break Err(error),
        }
    };
    drop(screen);
    // A signal also ends the connection.
    if signals::received() {
        return Err(Interrupted.into());
    }
    Ok(end.map_err(cleaned)?)
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
