#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "its socket, textfile and procfs are not the data path"
)]
//! The control interface of the service (`unpackd`): protocol, server, client and metrics.
//!
//! * [`protocol`]: requests, replies and events on the Unix socket, one JSON object per line.
//! * [`Server`]: one thread and one event loop for all connections, which may be hostile. It passes
//!   requests to an [`Answer`], checks rights against [`Access`], and sends the events published
//!   through [`Events`] to watching clients.
//! * [`Listener`]: the socket, inherited from systemd or created here.
//! * [`metrics`]: the service's metrics in the formats that Prometheus reads.
//! * [`Client`]: a connection to the server.

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
