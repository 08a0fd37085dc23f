//! Lines of the libraries' log on standard error, in the style of errors:
//!
//! ```text
//! warning: cannot write the journal: Input/output error (os error 5)
//! info: opened an archive (path=/mnt/snapshot-39.tar.zst)
//! ```
//!
//! An event's error is appended to its message, its other fields follow in parentheses. With `-vv`, a
//! line also names the time and the module.

use std::{
    fmt::{self, Write},
    io,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

use crate::{
    args::OutputArgs,
    printer::{Label, colored},
};

/// Sends the libraries' log to standard error: warnings, or more with `--verbose`. `RUST_LOG`
/// overrides both.
pub fn start(args: &OutputArgs) {
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
        .log_internal_errors(false)
        .event_format(Lines { color: colored(color, &io::stderr()), detailed: verbose > 1 })
        .init();
}

/// Formats events as lines.
struct Lines {
    color: bool,
    /// Whether lines name time and module.
    detailed: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut parts = Parts::default();
        event.record(&mut parts);
        let label = match *event.metadata().level() {
            Level::ERROR => Label::Error,
            Level::WARN => Label::Warning,
            Level::INFO => Label::Info,
            Level::DEBUG => Label::Debug,
            Level::TRACE => Label::Trace,
        };
        if self.detailed {
            SystemTime.format_time(&mut writer)?;
            writer.write_char(' ')?;
        }
        write!(writer, "{}: ", label.paint(self.color))?;
        if self.detailed {
            write!(writer, "{}: ", event.metadata().target())?;
        }
        writeln!(writer, "{}", parts.text())
    }
}

/// The parts of an event.
#[derive(Default)]
struct Parts {
    message: String,
    /// The error that the event reports.
    error: Option<String>,
    /// Other fields, as `name=value`.
    fields: Vec<String>,
}

impl Parts {
    fn text(&self) -> String {
        let mut text = self.message.clone();
        if let Some(error) = &self.error {
            let colon = if text.is_empty() { "" } else { ": " };
            let _ = write!(text, "{colon}{error}");
        }
        if !self.fields.is_empty() {
            let _ = write!(text, " ({})", self.fields.join(", "));
        }
        printable(&text)
    }
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" | "errno" => self.error = Some(format!("{value:?}")),
            name => self.fields.push(format!("{name}={value:?}")),
        }
    }
}

/// Escapes control characters: names in archives may hold any.
fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut text, character| {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Memory {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn logged(lines: Lines, log: impl FnOnce()) -> String {
        let memory = Memory::default();
        let subscriber =
            tracing_subscriber::fmt().with_writer(memory.clone()).event_format(lines).finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = memory.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn events_look_like_errors() {
        let plain = || Lines { color: false, detailed: false };
        let error = io::Error::other("no space");
        let line = logged(plain(), || tracing::warn!(%error, path = %"/a", "cannot write"));
        assert_eq!(line, "warning: cannot write: no space (path=/a)\n");
        let line = logged(plain(), || tracing::info!(bytes = 5, name = "x", "opened"));
        assert_eq!(line, "info: opened (bytes=5, name=x)\n");
        let line = logged(Lines { color: true, detailed: false }, || tracing::warn!("odd"));
        assert_eq!(line, "\x1b[33;1mwarning\x1b[0m: odd\n");
        let line = logged(Lines { color: false, detailed: true }, || tracing::error!("bad"));
        assert!(line.ends_with("Z error: unsnap_cli::log::tests: bad\n"), "{line}");
    }

    #[test]
    fn control_characters_are_escaped() {
        let lines = Lines { color: false, detailed: false };
        let line = logged(lines, || tracing::warn!(name = %"\x1b[2J\n", "odd name"));
        assert_eq!(line, "warning: odd name (name=\\u{1b}[2J\\n)\n");
    }
}
