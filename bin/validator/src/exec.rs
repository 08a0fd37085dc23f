//! Replacing this process by the validator.

use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use unsnap_cli::printer::log_line;

/// Executes the validator in this process's place. The validator inherits everything as this process
/// found it: environment, limits, working directory, descriptors (its own are closed on exec), signal
/// mask and ignored signals. The exception is SIGPIPE, which has its default disposition: Rust's
/// runtime changes it before `main` and does not keep the old one. `agave-validator`, also written in
/// Rust, changes it again.
///
/// The calling thread must not be confined. Returns only on failure, with the exit code that a shell
/// would use.
pub fn become_validator(program: &OsStr, arguments: &[OsString]) -> ExitCode {
    let error = Command::new(program).args(arguments).exec();
    log_line(&format!("error: cannot execute {}: {error}", program.display()));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
}
