//! The service's side: one thread, one event loop, for all connections.

mod accepting;
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

/// What knows the answers. Called on the event loop's thread, so it must not block: while it
/// thinks, everybody waits. Rights have been checked.
pub trait Answer: Send + Sync {
    /// Does what is asked for. `Watch` is answered like `Status`.
    fn answer(&self, request: Request) -> Result<Answered, Refusal>;
}

/// Bounds on what clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections to the Unix socket at a time. An eighth of them, at least one, is kept for those
    /// who may operate. Default: 64, a guess: many times what people and scripts on one machine take.
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections_max: 64 }
    }
}

/// The event loop. Dropped, it is stopped and every connection closed.
#[derive(Debug)]
pub struct Server {
    inbox: Arc<Inbox>,
    heartbeat: Heartbeat,
    thread: Option<JoinHandle<()>>,
}

/// Whether the event loop moves, for a watchdog. Costs no wake-up.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    /// Even while the loop sleeps in the kernel, odd while it is at work. Never goes back.
    beats: Arc<AtomicU64>,
}

impl Heartbeat {
    /// A number that has changed at the next call if the loop has moved.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Acquire)
    }

    /// Whether the loop was provably idle when [`beats`](Self::beats) gave this number: asleep in
    /// the kernel, which wakes it when there is something to do.
    pub fn idle_at(beats: u64) -> bool {
        beats.is_multiple_of(2)
    }

    fn sleeps(&self) {
        self.step(0);
    }

    fn works(&self) {
        self.step(1);
    }

    /// To the next number that leaves `remainder` when it is halved. Only the loop calls this.
    fn step(&self, remainder: u64) {
        let beats = self.beats.load(Ordering::Relaxed);
        let step = if beats % 2 == remainder { 2 } else { 1 };
        self.beats.store(beats + step, Ordering::Release);
    }
}

impl Server {
    /// Starts to serve. `limits` stay as they are; access can be changed later.
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
        // The loop fails only by a fault of its own. It leaves the heartbeat at work: a watchdog sees it.
        let run = || {
            if let Err(error) = event_loop.run() {
                tracing::error!(%error, "the control socket is no longer served");
            }
        };
        let thread = thread::Builder::new().name("unpackd-control".to_owned()).spawn(run)?;
        Ok(Self { inbox, heartbeat, thread: Some(thread) })
    }

    /// Where to tell what happens.
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.inbox))
    }

    /// For a watchdog.
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat.clone()
    }

    /// Has other people ask from now on, also on connections that are there. Who may not even observe
    /// any more is disconnected.
    pub fn set_access(&self, access: Access) {
        self.inbox.set_access(access);
    }

    /// Serves metrics by HTTP on this address as well, or no longer. Connections that are there end
    /// as they would.
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
