//! Programs of operators that are told of events: those of `--on-event` and of unpackd's `on-event`.

use std::{path::Path, process::Command, time::Duration};

use crate::child::feed_within;

/// Longest time for a program. Stated in the help of `--on-event` and in `unpackd.toml`.
const HOOK_WITHIN: Duration = Duration::from_secs(10);

/// Executes a program with a text on its standard input, for at most 10 seconds. It inherits the
/// environment; its standard output is discarded. Errors are only logged.
pub fn tell(program: &Path, text: &str) {
    let ended = feed_within(&mut Command::new(program), text, HOOK_WITHIN);
    let program = program.display();
    match ended {
        Ok(status) if status.success() => {}
        Ok(status) => tracing::warn!(%program, %status, "the program of on-event has failed"),
        Err(error) => tracing::warn!(%program, %error, "the program of on-event has failed"),
    }
}
