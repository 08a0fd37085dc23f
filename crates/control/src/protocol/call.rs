//! Requests.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Refusal, RefusalKind};

/// What a client may ask for. Rights: [`level`](Self::level).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
// Variants without fields have braces because serde overlooks unknown fields of those without.
pub enum Request {
    /// How everything stands.
    Status {},
    /// Unpack these archives, whatever the service would choose by itself.
    Submit {
        /// For this target; without one, for every target.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        /// The full archive. An absolute path: the service does not know the client's directory.
        archive: PathBuf,
        /// The incremental archive upon it. An absolute path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        incremental: Option<PathBuf>,
    },
    /// Take a job out of the queue, or stop it.
    Cancel {
        /// Its number.
        job: u64,
    },
    /// Start nothing, and let running jobs rest.
    Pause {},
    /// Go on.
    Resume {},
    /// Read the configuration again. A bad one is refused, and the old one stays.
    Reload {},
    /// How everything stands, and then what happens.
    Watch {},
    /// All metrics, as the text that Prometheus reads.
    Metrics {},
}

/// What somebody may ask for. `Operate` includes `Observe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What changes nothing.
    Observe,
    /// Everything.
    Operate,
}

/// All values of `request`.
const REQUESTS: [&str; 8] =
    ["status", "submit", "cancel", "pause", "resume", "reload", "watch", "metrics"];

impl Request {
    /// The right that it takes.
    pub fn level(&self) -> Level {
        match self {
            Self::Status {} | Self::Watch {} | Self::Metrics {} => Level::Observe,
            Self::Submit { .. }
            | Self::Cancel { .. }
            | Self::Pause {}
            | Self::Resume {}
            | Self::Reload {} => Level::Operate,
        }
    }
}

/// A request's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Comes back with the reply, for the client's own use.
    pub id: Option<u64>,
    /// What is asked for.
    pub request: Request,
}

/// A line that is no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Its `id`, if that much could be read.
    pub id: Option<u64>,
    /// What is wrong with it.
    pub refusal: Refusal,
}

impl Call {
    /// Reads a line, with or without its end.
    pub fn parse(line: &[u8]) -> Result<Self, Malformed> {
        let malformed = |id, kind, message| Malformed { id, refusal: Refusal::new(kind, message) };
        let bad = |id, message| malformed(id, RefusalKind::BadRequest, message);
        let mut object: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|error| bad(None, format!("this is no JSON object: {error}")))?;
        let id = match object.remove("id") {
            None | Some(Value::Null) => None,
            Some(id) => Some(id.as_u64().ok_or_else(|| {
                bad(None, "\"id\" is no whole number from 0 to 2^64 - 1".to_owned())
            })?),
        };
        match object.get("request").map(Value::as_str) {
            Some(Some(name)) if REQUESTS.contains(&name) => {}
            Some(Some(name)) => {
                // As JSON quotes it, and not at length: it may be anything.
                let name: String = name.chars().take(40).collect();
                let message = format!("there is no request {}", Value::String(name));
                return Err(malformed(id, RefusalKind::UnknownRequest, message)
                    .with_hint(format!("requests are {}", REQUESTS.join(", "))));
            }
            Some(None) | None => {
                return Err(bad(id, "\"request\" is missing, or no text".to_owned()));
            }
        }
        let request = Request::deserialize(Value::Object(object))
            .map_err(|error| bad(id, error.to_string()))?;
        Ok(Self { id, request })
    }

    /// The line that says it, with its end. Fails only for a path that is not valid UTF-8.
    pub fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<u64>,
            #[serde(flatten)]
            request: &'a Request,
        }
        let mut line = serde_json::to_vec(&Line { id: self.id, request: &self.request })?;
        line.push(b'\n');
        Ok(line)
    }
}

impl Malformed {
    fn with_hint(mut self, hint: String) -> Self {
        self.refusal.hint = Some(hint);
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requests() -> impl Strategy<Value = Request> {
        let text = "[a-z/.\u{e9}\"\\\\ -]{0,20}";
        prop_oneof![
            Just(Request::Status {}),
            Just(Request::Pause {}),
            Just(Request::Resume {}),
            Just(Request::Reload {}),
            Just(Request::Watch {}),
            Just(Request::Metrics {}),
            any::<u64>().prop_map(|job| Request::Cancel { job }),
            (proptest::option::of(text), text, proptest::option::of(text)).prop_map(
                |(target, archive, incremental)| Request::Submit {
                    target,
                    archive: archive.into(),
                    incremental: incremental.map(PathBuf::from),
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn every_request_is_read_as_it_was_written(
            id in proptest::option::of(any::<u64>()),
            request in requests(),
        ) {
            let call = Call { id, request };
            let line = call.to_line().unwrap();
            prop_assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
            prop_assert_eq!(Call::parse(&line), Ok(call));
        }
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_id_and_a_reason() {
        let cases: [(&str, Option<u64>, RefusalKind, &str); 13] = [
            ("", None, RefusalKind::BadRequest, "no JSON object"),
            ("[]", None, RefusalKind::BadRequest, "no JSON object"),
            ("{\"request\":\"status\"", None, RefusalKind::BadRequest, "no JSON object"),
            ("{\"request\":\"status\"} {}", None, RefusalKind::BadRequest, "trailing"),
            ("\u{0}", None, RefusalKind::BadRequest, "no JSON object"),
            (r#"{"id":1}"#, Some(1), RefusalKind::BadRequest, "missing"),
            (r#"{"id":-1,"request":"status"}"#, None, RefusalKind::BadRequest, "whole number"),
            (r#"{"id":2,"request":7}"#, Some(2), RefusalKind::BadRequest, "no text"),
            (r#"{"id":3,"request":"stauts"}"#, Some(3), RefusalKind::UnknownRequest, "stauts"),
            (r#"{"id":4,"request":"status","a":1}"#, Some(4), RefusalKind::BadRequest, "`a`"),
            (r#"{"id":5,"request":"cancel"}"#, Some(5), RefusalKind::BadRequest, "`job`"),
            (r#"{"id":6,"request":"cancel","job":"1"}"#, Some(6), RefusalKind::BadRequest, "u64"),
            (r#"{"request":"submit","archive":null}"#, None, RefusalKind::BadRequest, "string"),
        ];
        for (line, id, kind, said) in cases {
            let malformed = Call::parse(line.as_bytes()).unwrap_err();
            assert_eq!((malformed.id, malformed.refusal.kind), (id, kind), "{line}");
            assert!(malformed.refusal.message.contains(said), "{line}: {}", malformed.refusal);
        }
    }

    #[test]
    fn every_named_request_exists() {
        for name in REQUESTS {
            let line = format!(r#"{{"request":"{name}","job":1,"archive":"/a"}}"#);
            let refusal = Call::parse(line.as_bytes()).unwrap_err().refusal;
            assert!(refusal.message.contains("unknown field"), "{name}: {refusal}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_harm() {
        let line = vec![b'['; REQUEST_BYTES];
        assert!(Call::parse(&line).is_err());
        let mut line = br#"{"request":"status","a":"#.to_vec();
        line.extend(vec![b'['; REQUEST_BYTES]);
        assert!(Call::parse(&line).is_err());
    }

    const REQUEST_BYTES: usize = super::super::REQUEST_BYTES_MAX;
}
