//! What is said on the socket: a JSON object a line, both ways.
//!
//! A client writes a [`Call`], `{"id":7,"request":"cancel","job":3}`, and reads a [`Reply`] for each, in the
//! order of its calls: `{"id":7,"ok":{"answer":"cancelled","job":3}}` or
//! `{"id":7,"error":{"kind":"no-such-job","message":"…"}}`. After a `watch` come lines of events as well
//! ([`EventLine`]), until the client goes.
//!
//! Who sends requests must know exactly what it asks for: unknown requests and unknown fields of a request
//! are refused. Who reads must put up with what a later version says: unknown fields are passed over,
//! and unknown events and kinds of refusal have a place.

mod call;
mod event;
mod path;
mod reply;
mod status;

pub use call::{Call, Level, Malformed, Request};
pub use event::{Event, EventLine, Outcome};
pub use reply::{Answered, Refusal, RefusalKind, Reply, ReplyResult, SubmittedJob};
pub use status::{
    ArchivesStatus, BadArchive, JobProgress, JobState, JobStatus, Origin, PairName, ResultStatus,
    Status, TargetKind, TargetState, TargetStatus,
};

/// Where the service listens unless it is configured otherwise.
pub const SOCKET: &str = "/run/unpackd/control.sock";

/// Bytes of a request's line, without its end. The longest sensible request names two paths of 4096
/// bytes (`PATH_MAX`), of which JSON makes at most six times as much.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Bytes of a line that the service sends. A status with all 1000 bad archives and 64 targets stays
/// below 1 MiB; a guess beyond that.
pub const REPLY_BYTES_MAX: usize = 4 << 20;
