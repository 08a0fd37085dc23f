//! `ledger-tool service`: sends requests to unpackd.

mod answer;
pub mod args;
mod text;
mod view;
mod wait;
mod watch;

use std::path::{Path, PathBuf};

use anyhow::Context;
use unsnap_control::{
    Client,
    protocol::{Answered, Request},
};

use self::{
    answer::{cleaned, confirmation, json},
    args::{AnswerFormat, AskArgs, ServiceAction, SubmitArgs},
};
use crate::printer::{Printer, data};

pub fn run(action: &ServiceAction, printer: &Printer) -> anyhow::Result<()> {
    let request = match action {
        ServiceAction::Status(_) => Request::Status {},
        ServiceAction::Submit(args) => submit_request(args)?,
        ServiceAction::Prepare(args) if args.wait => return wait::run(args, printer),
        ServiceAction::Prepare(args) => Request::Prepare { target: args.target.clone() },
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

fn submit_request(args: &SubmitArgs) -> anyhow::Result<Request> {
    Ok(Request::Submit {
        target: args.target.clone(),
        archive: absolute(&args.archive)?,
        incremental: args.incremental.as_deref().map(absolute).transpose()?,
    })
}

/// Makes a path absolute: the service has a different working directory.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot make {} absolute", path.display()))
}

fn show(ask: &AskArgs, printer: &Printer, answered: &Answered) -> anyhow::Result<()> {
    // Metrics are text for programs, so `--quiet` does not hide them.
    let shown = match (ask.format, answered) {
        (AnswerFormat::Json, answered) => json(answered, true)?,
        (AnswerFormat::JsonLines, answered) => json(answered, false)?,
        (AnswerFormat::Text, Answered::Metrics { text }) => text.clone(),
        (AnswerFormat::Text, _) if !printer.wants_summary() => String::new(),
        (AnswerFormat::Text, Answered::Status(status)) => text::status(status),
        (AnswerFormat::Text, answered) => confirmation(answered),
    };
    data(&shown)?;
    Ok(())
}
