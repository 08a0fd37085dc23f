//! What other threads have for the event loop.

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

/// Bytes of events that wait for the loop. It takes them in well under a millisecond unless it is
/// stuck; then no more than this piles up.
const EVENT_BYTES_MAX: usize = 256 << 10;

/// Filled by any thread, emptied by the loop, which an eventfd wakes.
#[derive(Debug)]
pub struct Inbox {
    wake: OwnedFd,
    /// Connections that want events.
    pub watchers: AtomicUsize,
    inner: Mutex<Mail>,
}

/// What has come since the loop looked last.
#[derive(Debug, Default)]
pub struct Mail {
    /// Whole lines.
    pub events: VecDeque<Arc<[u8]>>,
    event_bytes: usize,
    /// Events for which there was no room.
    pub missed: u64,
    pub access: Option<Access>,
    pub metrics_listener: Option<Option<ScrapeListener>>,
    pub stop: bool,
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
        self.post(|mail| mail.metrics_listener = Some(listener));
    }

    pub fn stop(&self) {
        self.post(|mail| mail.stop = true);
    }

    /// What the loop waits for.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Everything that has come.
    pub fn take(&self) -> Mail {
        // Before the mail is taken, so that none is overlooked.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        std::mem::take(&mut *self.mail())
    }

    fn post(&self, put: impl FnOnce(&mut Mail)) {
        put(&mut self.mail());
        // Fails only if it is full, and then the loop is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where to tell what happens. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events {
    inbox: Arc<Inbox>,
}

impl Events {
    pub(super) fn new(inbox: Arc<Inbox>) -> Self {
        Self { inbox }
    }

    /// Whether anybody wants to know. Progress need not be looked at while nobody does.
    pub fn watched(&self) -> bool {
        self.inbox.watchers.load(Ordering::Relaxed) > 0
    }

    /// Tells everybody who watches. Never blocks: where the loop or a client is too slow, events are
    /// dropped, and the client is told how many.
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
