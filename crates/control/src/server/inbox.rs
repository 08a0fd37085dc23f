//! The queue through which other threads reach the event loop.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::event::{EventfdFlags, eventfd};

use crate::{
    Access, ScrapeListener,
    protocol::{Event, EventLine},
};

/// Most bytes of events queued for the loop. It takes them in well under a millisecond; this bounds
/// the queue if it is stuck.
const EVENT_BYTES_MAX: usize = 256 << 10;

/// A queue that any thread fills and the loop empties. An eventfd wakes the loop.
#[derive(Debug)]
pub struct Inbox {
    wake: OwnedFd,
    /// Number of connections that watch events.
    pub watchers: AtomicUsize,
    inner: Mutex<Mail>,
}

/// Contents of the inbox since the loop last took them.
#[derive(Debug, Default)]
pub struct Mail {
    /// Complete lines.
    pub events: VecDeque<Arc<[u8]>>,
    event_bytes: usize,
    /// Number of events dropped for lack of room.
    pub missed: u64,
    pub access: Option<Access>,
    pub scrapes: Option<ScrapeUpdate>,
    pub stop: bool,
}

/// A change of the listener for scrapes.
#[derive(Debug)]
pub enum ScrapeUpdate {
    Listen(ScrapeListener),
    Stop,
}

impl Inbox {
    pub fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { wake, watchers: AtomicUsize::new(0), inner: Mutex::default() })
    }

    pub fn set_access(&self, access: Access) {
        self.post(|mail| mail.access = Some(access));
    }

    pub fn set_metrics_listener(&self, listener: Option<ScrapeListener>) {
        let scrapes = listener.map_or(ScrapeUpdate::Stop, ScrapeUpdate::Listen);
        self.post(|mail| mail.scrapes = Some(scrapes));
    }

    pub fn stop(&self) {
        self.post(|mail| mail.stop = true);
    }

    /// Returns the eventfd that becomes readable when something arrives.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes everything that has arrived.
    pub fn take(&self) -> Mail {
        // The eventfd is cleared before the mail is taken, so that no message is missed.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        std::mem::take(&mut *self.mail())
    }

    fn post(&self, put: impl FnOnce(&mut Mail)) {
        put(&mut self.mail());
        // Fails only if the counter is full, and then the loop is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Publisher of events to all watching clients. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events {
    inbox: Arc<Inbox>,
}

impl Events {
    pub(super) fn new(inbox: Arc<Inbox>) -> Self {
        Self { inbox }
    }

    /// Returns whether any client watches. While none does, progress need not be sampled.
    pub fn watched(&self) -> bool {
        self.inbox.watchers.load(Ordering::Relaxed) > 0
    }

    /// Sends an event to every watching client. Never blocks: if the loop or a client is too slow,
    /// events are dropped and the client receives their number.
    pub fn publish(&self, event: &Event) {
        if !self.watched() {
            return;
        }
        let Ok(line) = EventLine::now(event.clone()).to_line() else { return };
        self.inbox.post(|mail| {
            if mail.event_bytes + line.len() > EVENT_BYTES_MAX {
                mail.missed += 1;
            } else {
                mail.event_bytes += line.len();
                mail.events.push_back(line.into());
            }
        });
    }
}
