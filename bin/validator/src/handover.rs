//! Becoming the validator.

use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use unsnap_cli::printer::log_line;

/// Executes the validator in this process's place. Everything is as this process has found it:
/// environment, limits, directory, descriptors (its own are closed on exec), the signal mask,
/// signals that are ignored. Only SIGPIPE has its default, whatever it was: Rust's runtime sets it
/// before `main` without telling what it was before, and `agave-validator`, of Rust too, does so
/// again.
///
/// To be called by a thread that has not been confined. Returns only if that fails, and with what a
/// shell would.
pub fn become_validator(program: &OsStr, arguments: &[OsString]) -> ExitCode {
    let error = Command::new(program).args(arguments).exec();
    log_line(&format!("error: cannot execute {}: {error}", program.display()));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
}
