//! `ledger-tool service prepare --wait`.

use std::io;

use anyhow::Context;
use unsnap_cli::{
    exit::{Interrupted, JobFailed},
    signals,
};
use unsnap_control::{
    Client, ClientError,
    protocol::{Answered, Event, JobState, JobStatus, Outcome, PreparingJob, Request, Status},
};

use super::{
    answer::{cleaned, confirmation, json},
    args::{AnswerFormat, PrepareArgs},
    text,
};
use crate::{
    printer::{Printer, data},
    signals::Signals,
};

/// Has the newest archives unpacked, and waits until the first attempt at each job has ended. Fails
/// as soon as one of them fails, although the service tries again.
pub fn run(args: &PrepareArgs, printer: &Printer) -> anyhow::Result<()> {
    let ask = &args.ask;
    let signals = Signals::catch()?;
    // Watched before anything is asked for, so that no end is missed.
    let (_, mut watching) = Client::connect(&ask.socket)?.watch().map_err(cleaned)?;
    let stop = watching.end().context("cannot watch for signals")?;
    signals.at_first(move || stop.end()).context("cannot watch for signals")?;
    let request = Request::Prepare { target: args.target.clone() };
    let answered = Client::connect(&ask.socket)?.call(request).map_err(cleaned)?;
    let Answered::Preparing { jobs } = &answered else {
        return Err(ClientError::Nonsense("this is no answer to prepare".to_owned()).into());
    };
    let mut left: Vec<u64> = jobs.iter().filter_map(|PreparingJob { job, .. }| *job).collect();
    let print = |text: &str, value: &dyn Fn() -> anyhow::Result<String>| match ask.format {
        AnswerFormat::Text if printer.wants_summary() => data(text).map_err(anyhow::Error::from),
        AnswerFormat::Text => Ok(()),
        AnswerFormat::Json | AnswerFormat::JsonLines => Ok(data(&value()?)?),
    };
    print(&confirmation(&answered), &|| json(&answered, false))?;
    while !left.is_empty() {
        let line = match watching.next_event() {
            Ok(Some(line)) => line,
            _ if signals::received() => return Err(Interrupted.into()),
            Ok(None) => {
                return Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into()).into());
            }
            Err(error) => return Err(cleaned(error).into()),
        };
        match &line.event {
            Event::JobEnded { job, outcome, message, exit_code, .. } if left.contains(&job.id) => {
                let told = text::event_line(&line).unwrap_or_default() + "\n";
                print(&told, &|| json(&line, false))?;
                if *outcome != Outcome::Done {
                    return Err(failed(job, *outcome, message.as_deref(), *exit_code).into());
                }
                left.retain(|id| *id != job.id);
            }
            // The end of a job may be among them.
            Event::Missed { .. } => {
                let answered = Client::connect(&ask.socket)?.call(Request::Status {});
                if let Answered::Status(status) = answered.map_err(cleaned)? {
                    left.retain(|id| is_at_work(&status, *id));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_at_work(status: &Status, id: u64) -> bool {
    let jobs = |job: &JobStatus| job.id == id;
    status.targets.iter().any(|target| target.job.iter().chain(&target.queued).any(jobs))
}

fn failed(job: &JobStatus, outcome: Outcome, message: Option<&str>, exit_code: u8) -> JobFailed {
    let why = message.map(|message| format!(": {}", text::clean(message)));
    let next = if job.state == JobState::Retrying { "; the service tries again" } else { "" };
    JobFailed {
        exit_code,
        text: format!(
            "{}: {}: {}{}{next}",
            text::clean(&job.target),
            text::job_name(job),
            text::outcome(outcome),
            why.unwrap_or_default()
        ),
    }
}
