//! The log: entries of the journal, or lines on standard error.

use std::io;

use clap::ValueEnum;
use rustix::fs::fstat;
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::journal::Journal;

/// Where what happens is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// The journal if it reads standard error, else text
    Auto,
    /// Entries with fields, in the journal
    Journal,
    /// Lines on standard error
    Text,
}

/// Starts the log: what is worth knowing, with `--verbose` more. `RUST_LOG` has the last word.
pub fn start(format: LogFormat, verbose: u8) {
    let level = match verbose {
        0 => "info",
        1 => "debug",
        2.. => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let journal = match format {
        LogFormat::Auto if !is_journal() => None,
        LogFormat::Auto | LogFormat::Journal => Some(Journal::connect()),
        LogFormat::Text => None,
    };
    let (journal, failed) = match journal.transpose() {
        Ok(journal) => (journal, None),
        Err(error) => (None, Some(error)),
    };
    // The journal has times of its own, and standard error may be read by it.
    let text = journal.is_none().then(|| {
        let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
        let lines = lines.with_target(verbose > 1).log_internal_errors(false);
        if is_journal() { lines.without_time().boxed() } else { lines.boxed() }
    });
    tracing_subscriber::registry().with(filter).with(journal).with(text).init();
    if let Some(error) = failed {
        tracing::warn!(%error, "the journal cannot be reached: the log is on standard error");
    }
}

/// Whether systemd has connected standard error with the journal: `$JOURNAL_STREAM` names the device
/// and the inode of the connection (systemd.exec(5)).
fn is_journal() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    fstat(io::stderr()).is_ok_and(|found| stream == format!("{}:{}", found.st_dev, found.st_ino))
}
