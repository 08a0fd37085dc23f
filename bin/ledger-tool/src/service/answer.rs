//! Answers of the service: as JSON, as text, and without control characters.

use anyhow::Context;
use serde::Serialize;
use unsnap_control::{
    ClientError,
    protocol::{Answered, PreparingJob, Refusal, SubmittedJob},
};

use super::text::{clean, job_state};

/// Escapes control characters in an error, whose message may quote anything.
pub fn cleaned(error: ClientError) -> ClientError {
    match error {
        ClientError::Refused(Refusal { kind, message, hint }) => {
            let hint = hint.map(|hint| clean(&hint));
            Refusal { kind, message: clean(&message), hint }.into()
        }
        ClientError::Nonsense(message) => ClientError::Nonsense(clean(&message)),
        other => other,
    }
}

/// Returns JSON with a newline at the end.
pub fn json(value: &impl Serialize, pretty: bool) -> anyhow::Result<String> {
    let write = if pretty { serde_json::to_string_pretty } else { serde_json::to_string };
    Ok(write(value).context("cannot write JSON")? + "\n")
}

/// Returns the confirmation of a request that changes something.
pub fn confirmation(answered: &Answered) -> String {
    match answered {
        Answered::Status(_) | Answered::Metrics { .. } => String::new(),
        Answered::Submitted { jobs } => jobs.iter().fold(String::new(), |text, job| {
            let SubmittedJob { id, target, newer } = job;
            let queued = format!("queued job {id} for {}\n", clean(target));
            let warning = newer.map_or_else(String::new, |newer| {
                format!(
                    "warning: the archive is older than the newest result, of slot {newer}; its \
                     own result stays until something newer than it is published\n"
                )
            });
            text + &queued + &warning
        }),
        Answered::Preparing { jobs } => jobs.iter().fold(String::new(), |text, job| {
            let PreparingJob { target, slot, job } = job;
            let target = clean(target);
            text + &match job {
                Some(job) => format!("{target}: job {job} unpacks slot {slot}\n"),
                None => format!("{target}: slot {slot} is there, nothing to do\n"),
            }
        }),
        Answered::Cancelled { job, was, ending } => {
            let was = job_state(*was);
            if *ending {
                format!("job {job}, which was {was}, is ending; `watch` shows its end\n")
            } else {
                format!("cancelled job {job}, which was {was}\n")
            }
        }
        Answered::Paused { was_paused: false } => "paused\n".to_owned(),
        Answered::Paused { was_paused: true } => "already paused\n".to_owned(),
        Answered::Resumed { was_paused: true } => "resumed\n".to_owned(),
        Answered::Resumed { was_paused: false } => "not paused: nothing to resume\n".to_owned(),
        Answered::Reloaded { needs_restart } if needs_restart.is_empty() => "reloaded\n".to_owned(),
        Answered::Reloaded { needs_restart } => {
            let keys = clean(&needs_restart.join(", "));
            format!("reloaded; these keys take effect after a restart: {keys}\n")
        }
    }
}
