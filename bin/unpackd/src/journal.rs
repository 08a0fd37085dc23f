//! Log events as entries of systemd's journal, with their fields: `journalctl
//! UNSNAP_SLOT=350000000`.
//!
//! A layer of our own, since the existing one (tracing-journald) leaves fields out of the message,
//! and `journalctl` shows only the message. The protocol is documented at
//! <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.

use std::{fmt, io, os::unix::net::UnixDatagram};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

const SOCKET: &str = "/run/systemd/journal/socket";

/// Most bytes of a value. An entry must fit into a datagram, which Linux limits to 200 KiB by
/// default (net.core.wmem_default); a path has at most 4 KiB.
const VALUE_BYTES_MAX: usize = 16 << 10;

/// A layer that sends events to the journal.
pub struct Journal {
    socket: UnixDatagram,
}

impl Journal {
    /// Connects to the journal. Fails if there is none.
    pub fn connect() -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(SOCKET)?;
        Ok(Self { socket })
    }
}

impl<S> Layer<S> for Journal
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut entry = Entry::default();
        entry.put("MESSAGE", &fields.text());
        entry.put("PRIORITY", priority(*event.metadata().level()));
        entry.put("SYSLOG_IDENTIFIER", env!("CARGO_BIN_NAME"));
        entry.put("TARGET", event.metadata().target());
        entry.put_all(&fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<Fields>() {
                entry.put_all(fields);
            }
        }
        // A failure to log cannot be logged.
        let _ = self.socket.send(&entry.0);
    }
}

/// Returns the priority of syslog(3).
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        _ => "7",
    }
}

/// Message and fields of an event or a span.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Fields {
    /// Formats the message followed by the fields, like `tracing`'s own text output.
    fn text(&self) -> String {
        let others = self.others.iter().map(|(name, value)| format!(" {name}={value}"));
        others.fold(self.message.clone(), |text, other| text + &other)
    }

    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

/// An entry, encoded in the journal's protocol.
#[derive(Default)]
struct Entry(Vec<u8>);

impl Entry {
    fn put_all(&mut self, fields: &Fields) {
        for (name, value) in &fields.others {
            // The journal accepts names of at most 64 capital letters, digits and underscores.
            let name: String = format!("UNSNAP_{}", name.to_ascii_uppercase())
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
                .take(64)
                .collect();
            self.put(&name, value);
        }
    }

    fn put(&mut self, name: &str, value: &str) {
        let value = &value[..value.floor_char_boundary(VALUE_BYTES_MAX)];
        // The encoding for values that may contain newlines.
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b'\n');
        self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Decodes an entry as the journal does.
    fn fields_of(mut entry: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while !entry.is_empty() {
            let name_bytes = entry.iter().position(|byte| *byte == b'\n').unwrap();
            let (name, rest) = entry.split_at(name_bytes);
            let (length, rest) = rest[1..].split_first_chunk().unwrap();
            let (value, rest) =
                rest.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            fields.insert(text(name), text(value));
            entry = rest.strip_prefix(b"\n").unwrap();
        }
        fields
    }

    fn sent(log: impl FnOnce()) -> BTreeMap<String, String> {
        let (socket, journal) = UnixDatagram::pair().unwrap();
        let subscriber = tracing_subscriber::registry().with(Journal { socket });
        tracing::subscriber::with_default(subscriber, log);
        let mut entry = vec![0; 1 << 20];
        let bytes = journal.recv(&mut entry).unwrap();
        fields_of(&entry[..bytes])
    }

    #[test]
    fn an_event_is_an_entry_with_all_its_fields_and_those_of_its_spans() {
        let entry = sent(|| {
            let _job = tracing::info_span!("job", job = 7, slot = 350_000_000_u64).entered();
            tracing::warn!(archive = "/a\nPRIORITY=0", bytes = 12_u64, "set aside");
        });
        assert_eq!(entry["MESSAGE"], "set aside archive=/a\nPRIORITY=0 bytes=12");
        assert_eq!(entry["PRIORITY"], "4");
        assert_eq!(entry["UNSNAP_ARCHIVE"], "/a\nPRIORITY=0");
        assert_eq!((&*entry["UNSNAP_BYTES"], &*entry["UNSNAP_JOB"]), ("12", "7"));
        assert_eq!(entry["UNSNAP_SLOT"], "350000000");
        assert_eq!(entry["SYSLOG_IDENTIFIER"], "unpackd");
    }

    #[test]
    fn a_value_of_any_length_makes_an_entry_that_can_be_sent() {
        let entry = sent(|| tracing::error!(path = "ä".repeat(1 << 20), "too long"));
        assert_eq!(entry["UNSNAP_PATH"].len(), VALUE_BYTES_MAX);
    }
}
