//! `ledger-tool service watch`

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
    args::{AnswerFormat, AskArgs},
    json, text,
    view::View,
};
use crate::{
    printer::{Printer, ProgressStyle, data},
    signals::Signals,
};

/// How often a log gets a line of a job that goes on, in milliseconds: as often as one of `unpack` does.
const LOG_EVERY_MS: u64 = 10_000;

pub fn run(ask: &AskArgs, printer: &Printer) -> anyhow::Result<()> {
    let signals = Signals::catch()?;
    let (status, mut watching) = Client::connect(&ask.socket)?.watch()?;
    let end = watching.end().context("cannot watch for signals")?;
    signals.each(move || end.end()).context("cannot watch for signals")?;
    let mut screen = Screen::new(ask, printer, status)?;
    let seen = loop {
        match watching.next_event() {
            Ok(Some(event)) => screen.show(&event)?,
            Ok(None) => break Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => break Err(error),
        }
    };
    drop(screen);
    // Whichever it was that ended it.
    if signals::received() {
        return Err(Interrupted.into());
    }
    Ok(seen?)
}

/// Where events are shown.
enum Screen {
    /// A terminal.
    View(View),
    /// Lines for people; of each job, when its progress was shown last.
    Lines(HashMap<u64, u64>),
    /// Lines for programs.
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

/// Whether an event is to be shown: of progress not all is.
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
