//! The command line that this process becomes.

use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use unsnap_cli::{
    printer::log_line,
    validator::{ArchiveUse, Line, Purpose, ValidatorArgs, validator_in},
};

/// A command line to execute.
pub struct Target<'a> {
    words: &'a [OsString],
    validator: Option<Validator>,
}

/// The part of a command line that is `agave-validator`'s.
struct Validator {
    /// Index of the first argument.
    arguments_at: usize,
    arguments: ValidatorArgs,
}

impl<'a> Target<'a> {
    /// Examines a command line; `None` if it has no words.
    pub fn of(words: &'a [OsString]) -> Option<Self> {
        words.first()?;
        let validator = validator_in(words).map(|at| Validator {
            arguments_at: at + 1,
            arguments: ValidatorArgs::parse(&words[at + 1..]),
        });
        Some(Self { words, validator })
    }

    /// Returns the program, as it was typed.
    pub fn program(&self) -> &OsStr {
        &self.words[0]
    }

    /// Returns the validator's part; `None` if the program is not `agave-validator`, so that nothing
    /// is known about its arguments.
    pub fn line(&self) -> Option<Line> {
        let arguments = self.validator.as_ref()?.arguments.clone();
        Some(Line { source: "the validator's command line".to_owned(), arguments, directory: None })
    }

    /// Returns whether the command loads a ledger. A command that is not `agave-validator` does.
    pub fn loads_ledger(&self) -> bool {
        self.validator.as_ref().is_none_or(|it| it.arguments.purpose == Purpose::Start)
    }

    /// Returns what the validator is told about states, if it is told.
    pub fn archive_use(&self) -> Option<ArchiveUse> {
        self.validator.as_ref()?.arguments.archive_use
    }

    /// Returns whether the validator can be told to ignore archives: not if it is told otherwise, or
    /// if its flags are not known.
    pub fn takes_archive_use(&self) -> bool {
        self.validator.as_ref().is_some_and(|it| it.arguments.archive_use.is_none())
    }

    /// Executes the command in this process's place. A validator is told how to use states, unless
    /// its arguments say so. Another program's arguments are passed on unchanged.
    ///
    /// The command inherits everything as this process found it: environment, limits, working
    /// directory, descriptors (its own are closed on exec), signal mask and ignored signals. The
    /// exception is SIGPIPE, which has its default disposition: Rust's runtime changes it before
    /// `main` and does not keep the old one. `agave-validator`, also written in Rust, changes it
    /// again.
    ///
    /// The calling thread must not be confined; other threads end. Returns only on failure, with the
    /// exit code that a shell would use.
    pub fn execute(&self, archive_use: Option<ArchiveUse>) -> ExitCode {
        match (&self.validator, archive_use) {
            (Some(Validator { arguments_at, arguments }), Some(archive_use)) => {
                let (before, behind) = self.words.split_at(*arguments_at);
                let words = [before, &arguments.with_archive_use(behind, archive_use)].concat();
                execute(&words)
            }
            _ => execute(self.words),
        }
    }
}

/// Executes a command line, which is not empty, in this process's place.
pub fn execute(words: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = words.split_first() else { return ExitCode::from(2) };
    let error = Command::new(program).args(arguments).exec();
    log_line(&format!("error: cannot execute {}: {error}", program.display()));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
}
