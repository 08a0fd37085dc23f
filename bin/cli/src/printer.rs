//! The only module that writes to the terminal, apart from the last words of a process. Data goes to
//! standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;
use unsnap_control::ClientError;
use unsnap_failure::Remedy;

use crate::{
    args::{Color, OutputArgs, ReportFormat},
    exit::{Exit, OutputFailed, failure, output_error},
    flags::Flags,
};

/// Decides which messages are printed, and whether they are coloured.
pub struct Printer {
    quiet: u8,
    progress: bool,
    /// Whether standard error is coloured.
    color: bool,
    /// Whether standard output is coloured.
    data_color: bool,
    /// Names for options in hints.
    names: Flags,
}

impl Printer {
    /// Creates a printer that follows the output options.
    pub fn new(args: &OutputArgs) -> Self {
        let OutputArgs { quiet, no_progress, color, .. } = *args;
        Self {
            quiet,
            progress: quiet == 0 && !no_progress,
            color: colored(color, &io::stderr()),
            data_color: colored(color, &io::stdout()),
            names: Flags::default(),
        }
    }

    /// Names options in hints by these flags.
    #[must_use]
    pub fn with_names(mut self, names: Flags) -> Self {
        self.names = names;
        self
    }

    /// Returns how to show progress; `None` if it is hidden.
    pub fn progress(&self) -> Option<ProgressStyle> {
        let style =
            if io::stderr().is_terminal() { ProgressStyle::Line } else { ProgressStyle::Log };
        self.progress.then_some(style)
    }

    /// Prints a line about the current step, unless progress is hidden.
    pub fn step(&self, text: &str) {
        if self.progress {
            log_line(text);
        }
    }

    /// Returns whether to print reports for people.
    pub fn wants_summary(&self) -> bool {
        self.quiet == 0
    }

    /// Prints a warning, unless warnings are hidden.
    pub fn warning(&self, text: &str) {
        if self.quiet < 2 {
            log_line(&format!("{}: {text}", Label::Warning.paint(self.color)));
        }
    }

    /// Prints a report on standard output. A report in text is not printed if it is not wanted.
    pub fn report<T: Serialize>(
        &self,
        format: ReportFormat,
        report: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        match format {
            ReportFormat::Json => {
                let json = serde_json::to_string_pretty(report).context("cannot write JSON")?;
                last(&format!("{json}\n"))?;
            }
            ReportFormat::Text if self.wants_summary() => last(&text(report))?,
            ReportFormat::Text => {}
        }
        Ok(())
    }

    /// Prints the report of a finished operation like [`report`](Self::report). If standard output
    /// does not take it, the error says that the operation was `done`, such as "unpacked to /mnt/x
    /// and durable".
    pub fn report_done<T: Serialize>(
        &self,
        format: ReportFormat,
        report: &T,
        text: impl FnOnce(&T) -> String,
        done: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        self.report(format, report, text).map_err(|error| match error.downcast::<OutputFailed>() {
            Ok(failed) => failed.after(done(report)).into(),
            Err(error) => error,
        })
    }

    /// Prints an error with its causes and its code, and a hint if a remedy is known.
    pub fn error(&self, error: &anyhow::Error) {
        let code = Exit::code(error).map_or_else(String::new, |code| format!(" [{code}]"));
        log_line(&format!("{}: {}{code}", Label::Error.paint(self.color), message(error)));
        let remedy = match failure(error) {
            _ if output_error(error).is_some() => None,
            Some(failure) => failure.remedy(),
            None => error
                .chain()
                .find_map(|cause| cause.downcast_ref::<io::Error>())
                .and_then(Remedy::of_io_error),
        };
        let of_service = error.downcast_ref::<ClientError>().and_then(ClientError::hint);
        let hint = match of_service.map(str::to_owned).or_else(|| OutputFailed::hint(error)) {
            Some(hint) => Some(hint),
            None => remedy.and_then(|remedy| remedy.words(&self.names)),
        };
        if let Some(hint) = hint {
            log_line(&format!("{}: {hint}", Label::Hint.paint(self.color)));
        }
    }

    /// Returns a word for standard output, in a colour of ECMA-48, such as "31;1", if standard output
    /// is coloured.
    pub fn paint_data(&self, word: &str, code: &str) -> String {
        painted(word, code, self.data_color)
    }
}

/// First word of a line on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Error,
    Warning,
    Hint,
    Info,
    Debug,
    Trace,
}

impl Label {
    /// Returns the word, coloured on demand. The colours are those of compilers.
    pub(crate) fn paint(self, color: bool) -> String {
        let (word, code) = match self {
            Self::Error => ("error", "31;1"),
            Self::Warning => ("warning", "33;1"),
            Self::Hint => ("hint", "36;1"),
            Self::Info => ("info", "32"),
            Self::Debug => ("debug", "34"),
            Self::Trace => ("trace", "35"),
        };
        painted(word, code, color)
    }
}

fn painted(word: &str, code: &str, color: bool) -> String {
    if color { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() }
}

/// Returns an error and its causes, without causes that it quotes.
fn message(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |message, cause| {
        if message.contains(&cause) { message } else { format!("{message}: {cause}") }
    })
}

/// Writes to standard output, and flushes it.
pub fn data(text: &str) -> Result<(), OutputFailed> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(OutputFailed::new)
}

/// Writes the last output of a command to standard output. A closed standard output is no error: the
/// work is done, and the exit code says so.
pub fn last(text: &str) -> Result<(), OutputFailed> {
    match data(text) {
        Err(failed) if failed.error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a line to standard error. Errors are ignored.
pub fn log_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressStyle {
    /// One line that is redrawn, on a terminal.
    Line,
    /// A new line every few seconds, in a log.
    Log,
}

/// Returns whether a stream is coloured.
pub(crate) fn colored(color: Color, stream: &impl IsTerminal) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            !refused && stream.is_terminal()
        }
    }
}
