#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! One pass over an archive, which opens, confines, decodes and walks it for a listener.
//!
//! ```text
//! Archive ─▶ Opened ─▶ (confine) ─▶ Input ─▶ Memory ─▶ Decoding ─▶ Walk ─▶ Listener
//!            all paths             first     one        threads     tar
//!            looked up             bytes     reservation            events
//! ```
//!
//! [`Pass::over`] does all of that in one call, for operations that only read. The crate `unpack`
//! uses the same parts and puts its creators behind the walk.
//!
//! * [`Options`] are the options that all operations share.
//! * [`Handles`] watch a run and stop it.
//! * [`PassError`] is the error of reading, decoding and walking.
//! * [`ordered`] distributes work over several threads and returns the results in order.
//!
//! Other crates decide how to use the entries.

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
mod peers;
mod progress;
mod sandbox;
mod seek_table;
mod start;
mod tap;
mod unfinished;
mod walk;

use std::thread;

pub use archive::{Archive, Archives, OpenArchive, RemoteArchive};
pub use bank::{BankCheck, ProvenBank};
pub use decoding::{
    DecodeJob, DecodedArchive, Decoding, Keeper, ReadMark, SpanListener, choose_engine,
};
pub use error::PassError;
pub use indexes::Anywhere;
pub use memory::{Input, Memory, StreamMemory};
pub use neighbour::{CpuSet, LimitsReport, Neighbour, Niceness, NotACpuSet, NotANiceness};
pub use open::Opened;
pub use options::{
    Compromised, IndexUse, Io, IoEngine, LayoutKind, Limits, Options, Resources, Tuning,
};
pub use pass::Pass;
pub use peers::{PEERS_MAX, PeerAnswer, Peers, StateName, agreement, state_name};
pub use progress::{CancelToken, Handles, Phase, Progress, RouseGuard, Snapshot, millis};
pub use sandbox::{Need, SandboxMode, SandboxReport, survey_sandbox};
pub use seek_table::{SeekTableFound, length_by_seek_table, reconcile_with_seek_table, seek_table};
pub use start::Start;
pub use tap::{Passing, Tap, show};
pub use unfinished::{Unfinished, UnfinishedPath};
pub use unsnap_decode::Decoder;
pub use unsnap_fetch::{HeldRange, Look, Newest, Peer, Probe, Remote, Survey};
pub use unsnap_ring::{DirectMode, FaultPlan, IoPriority, NotAnIoPriority, Pace};
pub use walk::{Listener, See, Span, Walk};

/// Runs `work` on a new thread, which may confine itself without confining the caller. Passes on a
/// panic of the thread.
pub fn on_a_thread_of_its_own<T: Send, E: From<PassError> + Send>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("unsnap-walk".to_owned());
        let thread = thread.spawn_scoped(scope, work).map_err(PassError::thread)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
