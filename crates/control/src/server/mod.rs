//! The server: one thread and one event loop for all connections.

mod acceptor;
mod answer;
mod client;
mod event_loop;
mod heartbeat;
mod http;
mod inbox;
mod limits;
mod lines;
mod outbox;
mod page;

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
};

pub use answer::Answer;
use event_loop::EventLoop;
pub use heartbeat::Heartbeat;
pub use inbox::Events;
use inbox::Inbox;
pub use limits::Limits;

use crate::{Access, Listener, ScrapeListener};

/// A running event loop. Dropping it stops the loop and closes every connection.
#[derive(Debug)]
pub struct Server {
    inbox: Arc<Inbox>,
    heartbeat: Heartbeat,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the event loop on a thread of its own. `limits` are fixed; `access` can be changed
    /// later by [`set_access`](Self::set_access).
    pub fn start(
        listener: Listener,
        access: Access,
        limits: Limits,
        answer: Arc<dyn Answer>,
    ) -> io::Result<Self> {
        let inbox = Arc::new(Inbox::new()?);
        let heartbeat = Heartbeat::default();
        let event_loop = EventLoop::new(
            Arc::clone(&inbox),
            heartbeat.clone(),
            listener,
            access,
            limits,
            answer,
        )?;
        // The loop fails only by a defect of its own. The heartbeat then stays at "working", which
        // the watchdog notices.
        let run = || {
            if let Err(error) = event_loop.run() {
                tracing::error!(%error, "the control server failed: clients are no longer served");
            }
        };
        let thread = thread::Builder::new().name("unpackd-control".to_owned()).spawn(run)?;
        Ok(Self { inbox, heartbeat, thread: Some(thread) })
    }

    /// Returns the publisher of events.
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.inbox))
    }

    /// Returns the loop's heartbeat, for a watchdog.
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat.clone()
    }

    /// Replaces the access rights, also for open connections. Clients that may no longer observe
    /// are disconnected.
    pub fn set_access(&self, access: Access) {
        self.inbox.set_access(access);
    }

    /// Replaces the listener that serves metrics over HTTP; `None` ends it. Open connections are
    /// not cut off.
    pub fn set_metrics_listener(&self, listener: Option<ScrapeListener>) {
        self.inbox.set_metrics_listener(listener);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.inbox.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
