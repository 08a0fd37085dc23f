//! The only place that writes to the terminal. Standard output is data, standard error is for
//! people.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;
use tracing_subscriber::{EnvFilter, fmt::format::FmtSpan};
use unsnap_control::ClientError;
use unsnap_failure::Remedy;

use crate::{
    args::{Color, OutputArgs, ReportFormat},
    exit::{Exit, failure},
    flags::Flags,
};

/// Decides what is told, and in which colours.
pub struct Printer {
    quiet: u8,
    progress: bool,
    /// On standard error.
    color: bool,
    /// On standard output.
    data_color: bool,
    /// Names for options in hints.
    names: Flags,
}

impl Printer {
    /// As asked for.
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

    /// Names options in hints by the flags that the command has.
    #[must_use]
    pub fn with_names(mut self, names: Flags) -> Self {
        self.names = names;
        self
    }

    /// Whether to show progress, and whether as a line that is redrawn.
    pub fn progress(&self) -> Option<ProgressStyle> {
        let style =
            if io::stderr().is_terminal() { ProgressStyle::Line } else { ProgressStyle::Log };
        self.progress.then_some(style)
    }

    /// A line about what is being done, where progress is wanted.
    pub fn tell(&self, text: &str) {
        if self.progress {
            log_line(text);
        }
    }

    /// Whether a report for people is wanted.
    pub fn wants_summary(&self) -> bool {
        self.quiet == 0
    }

    /// Whether warnings are wanted.
    pub fn wants_warnings(&self) -> bool {
        self.quiet < 2
    }

    /// Prints what came of it on standard output: for programs, or for people unless it is to be quiet.
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

    /// What went wrong, with its causes and its code, and the remedy if there is one.
    pub fn error(&self, error: &anyhow::Error) {
        let code = Exit::code(error).map_or_else(String::new, |code| format!(" [{code}]"));
        log_line(&format!("{}: {}{code}", self.paint("error", "31;1"), message(error)));
        let remedy = match failure(error) {
            Some(failure) => failure.remedy(),
            None => error
                .chain()
                .find_map(|cause| cause.downcast_ref::<io::Error>())
                .and_then(Remedy::of_io_error),
        };
        let asking = error.downcast_ref::<ClientError>().and_then(ClientError::hint);
        let hint = match asking {
            Some(hint) => Some(hint.to_owned()),
            None => remedy.and_then(|remedy| remedy.words(&self.names)),
        };
        if let Some(hint) = hint {
            log_line(&format!("{}: {hint}", self.paint("hint", "36;1")));
        }
    }

    /// A word for standard output, in a colour (of ECMA-48, "31;1" say) if there are colours there.
    pub fn paint_data(&self, word: &str, code: &str) -> String {
        painted(word, code, self.data_color)
    }

    fn paint(&self, word: &str, code: &str) -> String {
        painted(word, code, self.color)
    }
}

fn painted(word: &str, code: &str, color: bool) -> String {
    if color { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() }
}

/// An error and its causes, but for those that it quotes already.
fn message(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |message, cause| {
        if message.contains(&cause) { message } else { format!("{message}: {cause}") }
    })
}

/// Data, for programs or people, on standard output.
pub fn data(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The same for what is told last. That nobody reads it any more changes nothing of what came of it, and
/// so neither of the exit code.
pub fn last(text: &str) -> io::Result<()> {
    match data(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}

/// A line for a log, on standard error.
pub fn log_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressStyle {
    /// One line, redrawn: for a terminal.
    Line,
    /// A line now and then: for a log.
    Log,
}

fn colored(color: Color, stream: &impl IsTerminal) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            !refused && stream.is_terminal()
        }
    }
}

/// Sends the library's log to standard error: warnings, or more with `--verbose`. `RUST_LOG` has
/// the last word.
pub fn start_log(args: &OutputArgs) {
    let OutputArgs { quiet, verbose, color, .. } = *args;
    let level = match (quiet, verbose) {
        (2.., _) => "error",
        (_, 0) => "warn",
        (_, 1) => "info",
        (_, 2) => "debug",
        (_, _) => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colored(color, &io::stderr()))
        .with_span_events(FmtSpan::NONE)
        .with_target(verbose > 1)
        .log_internal_errors(false)
        .init();
}
