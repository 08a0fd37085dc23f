//! The server: one thread and one event loop for all connections.

mod acceptor;
mod client;
mod event_loop;
mod http;
mod inbox;
mod lines;
mod outbox;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use event_loop::EventLoop;
pub use inbox::Events;
use inbox::Inbox;

use crate::{
    Access, Listener, ScrapeListener,
    protocol::{Answered, Refusal, Request},
};

/// The service behind the server. Called on the event loop's thread, so it must not block: every
/// client waits meanwhile. The server has checked the client's rights before it calls.
pub trait Answer: Send + Sync {
    /// Carries out a request. `Watch` is answered like `Status`.
    fn answer(&self, request: Request) -> Result<Answered, Refusal>;
}

/// Bounds on the resources of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections to the Unix socket at a time. An eighth of them, at least one, is reserved
    /// for clients that may operate. Default: 64, a guess: many times what people and scripts on
    /// one machine use.
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections_max: 64 }
    }
}

/// A running event loop. Dropping it stops the loop and closes every connection.
#[derive(Debug)]
pub struct Server {
    inbox: Arc<Inbox>,
    heartbeat: Heartbeat,
    thread: Option<JoinHandle<()>>,
}

/// Progress of the event loop, for a watchdog. Reading it does not wake the loop.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    /// Even while the loop sleeps in the kernel, odd while it is working. Only grows.
    beats: Arc<AtomicU64>,
}

impl Heartbeat {
    /// Returns a counter that changes whenever the loop goes to sleep or wakes up.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Acquire)
    }

    /// Returns whether the loop was provably idle when [`beats`](Self::beats) returned this number:
    /// asleep in the kernel, which wakes it when there is something to do.
    pub fn idle_at(beats: u64) -> bool {
        beats.is_multiple_of(2)
    }

    fn sleeps(&self) {
        self.step(0);
    }

    fn works(&self) {
        self.step(1);
    }

    /// Advances to the next number with this remainder modulo 2. Only the loop calls this.
    fn step(&self, remainder: u64) {
        let beats = self.beats.load(Ordering::Relaxed);
        let step = if beats % 2 == remainder { 2 } else { 1 };
        self.beats.store(beats + step, Ordering::Release);
    }
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
