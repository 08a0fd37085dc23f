//! The protocol of the control socket: one JSON object per line, in both directions.
//!
//! A client writes calls ([`Call`]), such as `{"id":7,"request":"cancel","job":3}`, and reads one
//! reply ([`Reply`]) for each, in the order of its calls:
//! `{"id":7,"ok":{"answer":"cancelled","job":3}}` or
//! `{"id":7,"error":{"kind":"no-such-job","message":"…"}}`. After a `watch`, events ([`EventLine`])
//! follow as well until the client disconnects.
//!
//! The service is strict with requests: it refuses unknown requests and unknown fields. Clients
//! must tolerate later versions of the service: unknown fields are ignored, and unknown events and
//! kinds of refusal map to a variant of their own.

mod call;
mod event;
mod job;
mod path;
mod reply;
mod status;

pub use call::{Call, Level, Malformed, Request};
pub use event::{Event, EventLine, Outcome};
pub use job::{JobProgress, JobState, JobStatus, Origin};
pub use reply::{Answered, PreparingJob, Refusal, RefusalKind, Reply, ReplyResult, SubmittedJob};
pub use status::{
    ArchivesStatus, BadArchive, DiskStatus, Kept, KeptStatus, PairName, RECENT_EVENTS_MAX,
    ResultStatus, Status, TargetKind, TargetState, TargetStatus,
};

/// Default path of the service's socket.
pub const SOCKET: &str = "/run/unpackd/control.sock";

/// Most bytes of a request's line, without its newline. The longest sensible request names two
/// paths of 4096 bytes (`PATH_MAX`), which JSON escapes make at most six times as long.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a line that the service sends. A status with all 1000 bad archives and 64 targets
/// stays below 1 MiB; the margin is a guess.
pub const REPLY_BYTES_MAX: usize = 4 << 20;
