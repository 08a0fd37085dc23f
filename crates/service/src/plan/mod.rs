//! Planning: jobs, retry timers, cadence and the decision about the next action. This module does no I/O,
//! and the caller passes the current time.

mod backoff;
mod cadence;
mod decide;
mod job;

pub use backoff::{Backoff, RetryTimer};
pub use cadence::{Cadence, DAY_S, Hold, Usage, Window};
pub use decide::{Action, View, decide, held};
pub use job::{Job, same_archives};
