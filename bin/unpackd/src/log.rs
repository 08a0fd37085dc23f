//! The log: entries of the journal, or lines on standard error.

use std::io;

use clap::ValueEnum;
use rustix::fs::fstat;
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::journal::Journal;

/// Destination of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// The journal if standard error is connected to it, else text
    Auto,
    /// Entries with fields in systemd's journal
    Journal,
    /// Lines of text on standard error
    Text,
}

/// Starts logging at level info, debug or trace by `verbose`. `RUST_LOG` overrides the level.
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
    // The journal adds times of its own, also to lines that it reads from standard error.
    let text = journal.is_none().then(|| {
        let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
        let lines = lines.with_target(verbose > 1).log_internal_errors(false);
        if is_journal() { lines.without_time().boxed() } else { lines.boxed() }
    });
    tracing_subscriber::registry().with(filter).with(journal).with(text).init();
    if let Some(error) = failed {
        tracing::warn!(%error, "cannot reach the journal; logging to standard error");
    }
}

/// Returns whether systemd has connected standard error to the journal: `$JOURNAL_STREAM` holds the
/// device and inode numbers of the connection (systemd.exec(5)).
fn is_journal() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    fstat(io::stderr()).is_ok_and(|found| stream == format!("{}:{}", found.st_dev, found.st_ino))
}
