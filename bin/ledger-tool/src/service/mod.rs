//! `ledger-tool service`: speaks to unpackd.

pub mod args;
mod text;
mod view;
mod watch;

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use unsnap_control::{
    Client, ClientError,
    protocol::{Answered, Refusal, Request, SubmittedJob},
};

use self::args::{AnswerFormat, AskArgs, ServiceAction, SubmitArgs};
use crate::printer::{Printer, data};

pub fn run(action: &ServiceAction, printer: &Printer) -> anyhow::Result<()> {
    let request = match action {
        ServiceAction::Status(_) => Request::Status {},
        ServiceAction::Submit(args) => submission(args)?,
        ServiceAction::Cancel(args) => Request::Cancel { job: args.job },
        ServiceAction::Pause(_) => Request::Pause {},
        ServiceAction::Resume(_) => Request::Resume {},
        ServiceAction::Reload(_) => Request::Reload {},
        ServiceAction::Watch(ask) => return watch::run(ask, printer),
        ServiceAction::Metrics(_) => Request::Metrics {},
    };
    let ask = action.ask();
    let answered = Client::connect(&ask.socket)?.call(request).map_err(cleaned)?;
    show(ask, printer, &answered)
}

fn submission(args: &SubmitArgs) -> anyhow::Result<Request> {
    Ok(Request::Submit {
        target: args.target.clone(),
        archive: absolute(&args.archive)?,
        incremental: args.incremental.as_deref().map(absolute).transpose()?,
    })
}

/// The service has another working directory.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot make {} absolute", path.display()))
}

fn show(ask: &AskArgs, printer: &Printer, answered: &Answered) -> anyhow::Result<()> {
    // Metrics are text for programs already, unless JSON is asked for.
    let shown = match (ask.format, answered) {
        (AnswerFormat::Json, answered) => json(answered, true)?,
        (AnswerFormat::JsonLines, answered) => json(answered, false)?,
        (AnswerFormat::Text, Answered::Metrics { text }) => text.clone(),
        (AnswerFormat::Text, _) if !printer.wants_summary() => String::new(),
        (AnswerFormat::Text, Answered::Status(status)) => text::status(status),
        (AnswerFormat::Text, answered) => told(answered),
    };
    data(&shown)?;
    Ok(())
}

/// What was done, in words.
fn told(answered: &Answered) -> String {
    match answered {
        Answered::Status(_) | Answered::Metrics { .. } => String::new(),
        Answered::Submitted { jobs } => jobs.iter().fold(String::new(), |text, job| {
            let SubmittedJob { id, target } = job;
            text + &format!("job {id} for {}\n", text::clean(target))
        }),
        Answered::Cancelled { job, was } => {
            format!("job {job} is cancelled; it was {}\n", text::job_state(*was))
        }
        Answered::Paused { was_paused: false } => "paused\n".to_owned(),
        Answered::Paused { was_paused: true } => "it was paused already\n".to_owned(),
        Answered::Resumed { was_paused: true } => "resumed\n".to_owned(),
        Answered::Resumed { was_paused: false } => "it was not paused\n".to_owned(),
        Answered::Reloaded { needs_restart } if needs_restart.is_empty() => "reloaded\n".to_owned(),
        Answered::Reloaded { needs_restart } => {
            let keys = text::clean(&needs_restart.join(", "));
            format!("reloaded, but this takes effect only after a restart: {keys}\n")
        }
    }
}

/// An error whose words, which may quote anything, can be shown.
fn cleaned(error: ClientError) -> ClientError {
    match error {
        ClientError::Refused(Refusal { kind, message, hint }) => {
            let hint = hint.map(|hint| text::clean(&hint));
            Refusal { kind, message: text::clean(&message), hint }.into()
        }
        ClientError::Nonsense(message) => ClientError::Nonsense(text::clean(&message)),
        other => other,
    }
}

/// JSON with the end of a line.
fn json(value: &impl Serialize, pretty: bool) -> anyhow::Result<String> {
    let write = if pretty { serde_json::to_string_pretty } else { serde_json::to_string };
    Ok(write(value).context("cannot write JSON")? + "\n")
}
