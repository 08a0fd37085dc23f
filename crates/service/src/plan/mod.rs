//! Planning: jobs, retry timers and the decision about the next action. This module does no I/O,
//! and the caller passes the current time.

mod backoff;
mod decide;
mod job;

pub use backoff::{Backoff, RetryTimer};
pub use decide::{Action, View, decide};
pub use job::{Job, same_archives};
