//! A connection to the Unix socket.

use std::{os::fd::OwnedFd, sync::atomic::Ordering};

use rustix::{event::epoll::EventFlags, io::Errno};

use super::{
    answer::Answer,
    inbox::Inbox,
    lines::{Lines, Next},
    outbox::Outbox,
};
use crate::{
    Access,
    access::Peer,
    protocol::{
        Answered, Call, Event, EventLine, Level, PreparingJob, REQUEST_BYTES_MAX, Refusal,
        RefusalKind, Reply, Request,
    },
};

/// Bytes queued for a client above which it gets no more events and no more of its requests are
/// read: more than a second of the output of the service at its busiest.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// Most bytes read from a client per iteration of the loop, so that no client starves the others.
const READ_BYTES: usize = 16 << 10;

/// Whether a connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    Keep,
    Close,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    peer: Peer,
    level: Level,
    lines: Lines,
    outbox: Outbox,
    /// The client has shut down its sending side.
    ended: bool,
    /// The client was refused: nothing more is read, and the connection closes after the reason.
    refused: bool,
    watches: bool,
    /// Events that were dropped for this client and are not yet reported to it.
    missed: u64,
}

/// The parts of the server that answering a request needs.
pub struct Context<'a> {
    pub answer: &'a dyn Answer,
    pub inbox: &'a Inbox,
}

impl Client {
    pub fn new(socket: OwnedFd, peer: Peer, level: Level) -> Self {
        Self {
            socket,
            peer,
            level,
            lines: Lines::default(),
            outbox: Outbox::default(),
            ended: false,
            refused: false,
            watches: false,
            missed: 0,
        }
    }

    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Returns the events to wait for on the socket. epoll always reports errors and hang-ups.
    pub fn interest(&self) -> EventFlags {
        let mut interest = EventFlags::empty();
        if !self.ended && !self.refused && self.outbox.len() < OUTPUT_BYTES_MAX {
            interest |= EventFlags::IN;
        }
        if !self.outbox.is_empty() {
            interest |= EventFlags::OUT;
        }
        interest
    }

    /// Reads, answers and sends, as far as the socket is ready.
    pub fn on_ready(&mut self, ready: EventFlags, context: &Context<'_>) -> Disposition {
        if ready.contains(EventFlags::ERR) {
            return Disposition::Close;
        }
        if ready.contains(EventFlags::IN) && !self.read() {
            return Disposition::Close;
        }
        let gone = ready.contains(EventFlags::HUP) && !ready.contains(EventFlags::IN);
        loop {
            let more = self.answer_requests(context);
            if gone || self.flush() == Disposition::Close {
                return Disposition::Close;
            }
            if !more || self.outbox.len() >= OUTPUT_BYTES_MAX {
                return Disposition::Keep;
            }
        }
    }

    /// Queues an event's line if the client watches. Counts it as missed if the queue is full.
    pub fn push_event(&mut self, line: &[u8]) {
        if !self.watches {
            return;
        }
        // The report of missed events comes first, so that it stands where they are missing.
        let room = |outbox: &Outbox, bytes| outbox.len() + bytes <= OUTPUT_BYTES_MAX;
        if self.missed == 0 && room(&self.outbox, line.len()) {
            self.outbox.push(line);
        } else {
            self.missed += 1;
        }
    }

    /// Counts events that were dropped before they reached this client.
    pub fn count_missed(&mut self, events: u64) {
        if self.watches {
            self.missed += events;
        }
    }

    /// Sends as much of the queue as the socket takes.
    pub fn flush(&mut self) -> Disposition {
        loop {
            if self.outbox.flush(&self.socket).is_err() {
                return Disposition::Close;
            }
            if self.missed == 0 || !self.outbox.is_empty() {
                break;
            }
            let events = std::mem::take(&mut self.missed);
            if let Ok(line) = EventLine::now(Event::Missed { events }).to_line() {
                self.outbox.push(&line);
            }
        }
        // A refused client gets one attempt to send it the reason; nothing waits for it to read.
        let done = self.ended && !self.watches && self.outbox.is_empty();
        if self.refused || done { Disposition::Close } else { Disposition::Keep }
    }

    /// Replaces the client's rights. Refuses it if it has none left.
    pub fn set_access(&mut self, access: &Access) {
        match access.level_of(self.peer) {
            Some(level) => self.level = level,
            None => self.refuse(denied("no longer have access to this service")),
        }
    }

    /// Closes the connection and unregisters the client as a watcher.
    pub fn close(self, inbox: &Inbox) {
        if self.watches {
            inbox.watchers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Reads what has arrived. Returns false if the connection is broken.
    fn read(&mut self) -> bool {
        let mut bytes = [0; READ_BYTES];
        match rustix::io::read(&self.socket, &mut bytes) {
            Ok(0) => self.ended = true,
            Ok(length) => self.lines.push(&bytes[..length]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return false,
        }
        true
    }

    /// Answers the requests read so far while there is room for replies. Returns true if more
    /// remain.
    fn answer_requests(&mut self, context: &Context<'_>) -> bool {
        while !self.refused && self.outbox.len() < OUTPUT_BYTES_MAX {
            let call = match self.lines.next() {
                Next::Line(line) => Call::parse(line),
                Next::TooLong => {
                    let message = format!("a request is at most {REQUEST_BYTES_MAX} bytes long");
                    self.refuse(Refusal::new(RefusalKind::TooLarge, message));
                    return false;
                }
                Next::Incomplete if self.ended => match self.lines.rest() {
                    Some(line) => Call::parse(&line),
                    None => return false,
                },
                Next::Incomplete => return false,
            };
            match call {
                Err(malformed) => self.reply(malformed.id, Err(malformed.refusal)),
                Ok(Call { id, request }) => {
                    let result = self.answer(request, context);
                    self.reply(id, result);
                }
            }
        }
        !self.refused
    }

    fn answer(&mut self, request: Request, context: &Context<'_>) -> Result<Answered, Refusal> {
        if request.level() > self.level {
            return Err(denied("may observe, but not operate"));
        }
        if matches!(request, Request::Watch {}) && !self.watches {
            // Registered before the status is taken, so that no event is lost in between.
            self.watches = true;
            context.inbox.watchers.fetch_add(1, Ordering::Relaxed);
        }
        let result = context.answer.answer(request);
        if let Ok(answered) = &result {
            log_operation(answered, self.peer);
        }
        result
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.reply(None, Err(refusal));
        self.refused = true;
    }

    fn reply(&mut self, id: Option<u64>, result: Result<Answered, Refusal>) {
        self.outbox.push(&Reply::new(id, result).to_line());
    }
}

/// Returns the refusal for a user who lacks a right. `why` completes the sentence "you …".
pub fn denied(why: &str) -> Refusal {
    let hint = "the section [control] of unpackd's configuration grants access to users and groups";
    Refusal::new(RefusalKind::Denied, format!("you {why}")).hint(hint)
}

/// Logs who changed what. Requests that only observe are not logged.
fn log_operation(answered: &Answered, peer: Peer) {
    let Peer { uid, pid, .. } = peer;
    match answered {
        Answered::Submitted { jobs } => {
            for job in jobs {
                tracing::info!(
                    uid,
                    pid,
                    job = job.id,
                    target = job.target,
                    "a client submitted a job"
                );
            }
        }
        Answered::Preparing { jobs } => {
            for PreparingJob { target, slot, job } in jobs {
                tracing::info!(uid, pid, job, target, slot, "a client wants the newest state now");
            }
        }
        Answered::Cancelled { job, was, ending } => {
            tracing::info!(uid, pid, job, ?was, ending, "a client cancelled a job");
        }
        Answered::Paused { was_paused: false } => {
            tracing::info!(
                uid,
                pid,
                "a client paused the service; running jobs rest until it resumes"
            );
        }
        Answered::Resumed { was_paused: true } => {
            tracing::info!(uid, pid, "a client resumed the service");
        }
        Answered::Paused { was_paused: true } => {
            tracing::info!(uid, pid, "a client asked to pause the service; it was paused already");
        }
        Answered::Resumed { was_paused: false } => {
            tracing::info!(uid, pid, "a client asked to resume the service; it was not paused");
        }
        Answered::Reloaded { .. } => {
            tracing::info!(
                uid,
                pid,
                "a client asked for a reload; the new configuration is accepted"
            );
        }
        Answered::Status(_) | Answered::Metrics { .. } => {}
    }
}
