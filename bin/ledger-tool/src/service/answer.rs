//! Answers of the service: as JSON, and without control characters.

use anyhow::Context;
use serde::Serialize;
use unsnap_control::{ClientError, protocol::Refusal};

use super::text::clean;

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
