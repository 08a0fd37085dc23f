#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "its socket, textfile and procfs are not the data path"
)]
//! How the service (`unpackd`) is spoken to, from both sides.
//!
//! * [`protocol`]: what is said on its Unix socket: requests, replies, events, a JSON object a line.
//! * [`Server`]: one thread and one event loop for all connections, which may be hostile. What it
//!   does not know itself it asks an [`Answer`]; who may ask for what is in [`Access`]; what happens
//!   goes out to watchers through [`Events`].
//! * [`Listener`]: the socket, inherited from systemd or made here.
//! * [`metrics`]: its numbers, as Prometheus reads them.
//! * [`Client`]: the other side.

mod access;
mod client;
mod listener;
pub mod metrics;
pub mod protocol;
mod server;

pub use access::{Access, AccessError};
pub use client::{Client, ClientError, WatchEnd, Watching};
pub use listener::{Listener, ScrapeListener};
pub use server::{Answer, Events, Heartbeat, Limits, Server};
