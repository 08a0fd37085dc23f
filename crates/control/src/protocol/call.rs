//! Requests of clients.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Refusal, RefusalKind};

/// A request of a client. [`level`](Self::level) gives the right it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
// Variants without fields have braces because serde overlooks unknown fields of those without.
pub enum Request {
    /// Returns the status of the service.
    Status {},
    /// Queues a job for these archives, whatever the service would choose by itself.
    Submit {
        /// Name of the target; every target if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        /// Absolute path of the full archive: the service does not know the client's directory.
        archive: PathBuf,
        /// Absolute path of the incremental archive that builds on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        incremental: Option<PathBuf>,
    },
    /// Unpacks the newest archives now, whatever the cadence says.
    Prepare {
        /// Name of the target; every target if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// Removes a job from the queue, or stops it.
    Cancel {
        /// Number of the job.
        job: u64,
    },
    /// Starts no more jobs and suspends the running ones.
    Pause {},
    /// Ends a pause.
    Resume {},
    /// Reads the configuration again. If it is invalid, the request is refused and the old one
    /// stays in force.
    Reload {},
    /// Returns the status, followed by events as they happen.
    Watch {},
    /// Returns all metrics as OpenMetrics text.
    Metrics {},
}

/// Right of a client. `Operate` includes `Observe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Requests that change nothing.
    Observe,
    /// All requests.
    Operate,
}

/// All values of `request`.
const REQUESTS: [&str; 9] =
    ["status", "submit", "prepare", "cancel", "pause", "resume", "reload", "watch", "metrics"];

impl Request {
    /// Returns the right that the request needs.
    pub fn level(&self) -> Level {
        match self {
            Self::Status {} | Self::Watch {} | Self::Metrics {} => Level::Observe,
            Self::Submit { .. }
            | Self::Prepare { .. }
            | Self::Cancel { .. }
            | Self::Pause {}
            | Self::Resume {}
            | Self::Reload {} => Level::Operate,
        }
    }
}

/// A request with its id, as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number chosen by the client, repeated in the reply.
    pub id: Option<u64>,
    /// The request.
    pub request: Request,
}

/// The error for a line that is not a valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line's `id`, if it could be read.
    pub id: Option<u64>,
    /// The reason.
    pub refusal: Refusal,
}

impl Call {
    /// Parses a line, with or without its newline.
    pub fn parse(line: &[u8]) -> Result<Self, Malformed> {
        let malformed = |id, kind, message| Malformed { id, refusal: Refusal::new(kind, message) };
        let bad = |id, message| malformed(id, RefusalKind::BadRequest, message);
        let mut object: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|error| bad(None, format!("the request is not a JSON object: {error}")))?;
        let id = match object.remove("id") {
            None | Some(Value::Null) => None,
            Some(id) => Some(id.as_u64().ok_or_else(|| {
                bad(None, "\"id\" is not a whole number from 0 to 2^64 - 1".to_owned())
            })?),
        };
        match object.get("request").map(Value::as_str) {
            Some(Some(name)) if REQUESTS.contains(&name) => {}
            Some(Some(name)) => {
                // Quoted as JSON and cut short, since the name may be anything.
                let name: String = name.chars().take(40).collect();
                let message = format!("unknown request {}", Value::String(name));
                return Err(malformed(id, RefusalKind::UnknownRequest, message)
                    .with_hint(format!("known requests: {}", REQUESTS.join(", "))));
            }
            Some(None) | None => {
                return Err(bad(id, "\"request\" is missing or not a string".to_owned()));
            }
        }
        let request = Request::deserialize(Value::Object(object))
            .map_err(|error| bad(id, error.to_string()))?;
        Ok(Self { id, request })
    }

    /// Formats the request as a line, with its newline. Fails only for a path that is not valid
    /// UTF-8.
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
            proptest::option::of(text).prop_map(|target| Request::Prepare { target }),
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
            ("", None, RefusalKind::BadRequest, "not a JSON object"),
            ("[]", None, RefusalKind::BadRequest, "not a JSON object"),
            ("{\"request\":\"status\"", None, RefusalKind::BadRequest, "not a JSON object"),
            ("{\"request\":\"status\"} {}", None, RefusalKind::BadRequest, "trailing"),
            ("\u{0}", None, RefusalKind::BadRequest, "not a JSON object"),
            (r#"{"id":1}"#, Some(1), RefusalKind::BadRequest, "missing"),
            (r#"{"id":-1,"request":"status"}"#, None, RefusalKind::BadRequest, "whole number"),
            (r#"{"id":2,"request":7}"#, Some(2), RefusalKind::BadRequest, "not a string"),
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
