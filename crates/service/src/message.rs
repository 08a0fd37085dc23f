//! Messages to the supervisor.

use crate::{space::Done, watch::Change, worker::WorkerReport};

/// A message to the supervisor.
#[derive(Debug)]
pub enum Message {
    /// A directory changed.
    Change(Change),
    /// A worker finished an order.
    WorkerReport(WorkerReport),
    /// The housekeeper has looked after the targets.
    Housekeeping(Vec<Done>),
    /// The shared state changed.
    Wake,
    /// Requests a reload of the configuration.
    Reload,
    /// Requests the end of the service.
    Stop,
}
