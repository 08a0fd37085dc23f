//! Target for requests on the control socket.

use std::path::PathBuf;

use serde_json::Value;
use unsnap_control::protocol::{Call, REQUEST_BYTES_MAX, RefusalKind, Request};

/// Takes a line. It is accepted as a request exactly if an independent parser, field by field,
/// accepts it as the same request. A request survives being written on one line and read again. A
/// refusal names the call if it was recognisable.
pub fn control_request(data: &[u8]) {
    if data.len() > REQUEST_BYTES_MAX {
        return;
    }
    let expected = read(data);
    match (Call::parse(data), expected) {
        (Ok(call), Some(expected)) => {
            assert_eq!(call, expected);
            let line = call.to_line().expect("what was read is text");
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
            assert_eq!(Call::parse(&line), Ok(call));
        }
        (Err(malformed), None) => {
            let object = serde_json::from_slice::<Value>(data).ok();
            let id = object.as_ref().and_then(|object| object.get("id")?.as_u64());
            assert_eq!(malformed.id, id);
            let kinds = [RefusalKind::BadRequest, RefusalKind::UnknownRequest];
            assert!(kinds.contains(&malformed.refusal.kind));
            assert!(!malformed.refusal.message.is_empty());
        }
        (found, expected) => panic!("{found:?}, not {expected:?}"),
    }
}

/// The independent parser.
fn read(line: &[u8]) -> Option<Call> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let object = value.as_object()?;
    let id = match object.get("id") {
        None | Some(Value::Null) => None,
        Some(id) => Some(id.as_u64()?),
    };
    let path = |name| Some(PathBuf::from(object.get(name)?.as_str()?));
    let maybe = |name| match object.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => Some(Some(value.as_str()?.to_owned())),
    };
    let (request, fields): (Request, &[&str]) = match object.get("request")?.as_str()? {
        "status" => (Request::Status {}, &[]),
        "pause" => (Request::Pause {}, &[]),
        "resume" => (Request::Resume {}, &[]),
        "reload" => (Request::Reload {}, &[]),
        "watch" => (Request::Watch {}, &[]),
        "metrics" => (Request::Metrics {}, &[]),
        "cancel" => (Request::Cancel { job: object.get("job")?.as_u64()? }, &["job"]),
        "submit" => {
            let target = maybe("target")?;
            let (archive, incremental) =
                (path("archive")?, maybe("incremental")?.map(PathBuf::from));
            let fields = &["target", "archive", "incremental"];
            (Request::Submit { target, archive, incremental }, fields)
        }
        _ => return None,
    };
    let known = |name: &str| ["id", "request"].contains(&name) || fields.contains(&name);
    object.keys().all(|name| known(name)).then_some(Call { id, request })
}
