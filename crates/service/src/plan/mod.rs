//! What is to be done, as values: jobs, their clocks, and the decision. No I/O, and times come from
//! outside.

mod clock;
mod decide;
mod job;

pub use clock::{Backoff, Clock};
pub use decide::{Action, View, decide};
pub use job::{Job, same_archives};
