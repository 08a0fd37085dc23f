#![forbid(unsafe_code)]
//! One pass over an archive: opened, confined, decoded, walked, for whichever listener.
//!
//! ```text
//! Archive ─▶ Opened ─▶ (confine) ─▶ Input ─▶ Memory ─▶ Decoding ─▶ Walk ─▶ Listener
//!            every name            first     one        threads     tar
//!            looked up             bytes     reservation            events
//! ```
//!
//! [`Pass::over`] is all of that in one call, for operations that only read. The crate `unpack` uses
//! the same parts and puts its creators behind the walk.
//!
//! * [`Options`]: the options that every operation shares.
//! * [`Handles`]: to watch a run and to stop it.
//! * [`PassError`]: why reading, decoding or walking failed.
//! * [`ordered`]: work for several threads, whose results come back in order.
//!
//! It leaves to others: what is done with the entries.

mod archive;
mod bank;
mod decoding;
mod error;
mod indexes;
mod memory;
mod neighbour;
mod open;
mod options;
pub mod ordered;
mod pass;
mod progress;
mod sandbox;
mod seek_table;
mod tap;
mod walk;

use std::thread;

pub use archive::Archive;
pub use bank::{BankCheck, ProvenBank};
pub use decoding::{DecodeJob, DecodedArchive, Decoding, ReadMark, choose_engine};
pub use error::PassError;
pub use indexes::Anywhere;
pub use memory::{Input, Memory, StreamMemory};
pub use neighbour::{CpuSet, LimitsReport, Niceness, NotACpuSet, NotANiceness};
pub use open::{OpenArchive, Opened};
pub use options::{
    Compromised, IndexUse, Io, IoEngine, LayoutKind, Limits, Neighbour, Options, Resources, Tuning,
};
pub use pass::Pass;
pub use progress::{CancelToken, Handles, Phase, Progress, RouseGuard, Snapshot, millis};
pub use sandbox::{Need, SandboxMode, SandboxReport, survey_sandbox};
pub use seek_table::{SeekTableFound, hold_to_seek_table, length_by_seek_table, seek_table};
pub use tap::{Passing, Tap, show};
pub use unsnap_ring::{DirectMode, FaultPlan, IoPriority, NotAnIoPriority, Pace};
pub use walk::{Listener, See, Walk};

/// Does work on a thread of its own, which may confine itself without confining the caller.
pub fn on_a_thread_of_its_own<T: Send, E: From<PassError> + Send>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("unsnap-walk".to_owned());
        let thread = thread.spawn_scoped(scope, work).map_err(PassError::thread)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
