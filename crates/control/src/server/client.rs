//! A connection to the Unix socket.

use std::{os::fd::OwnedFd, sync::atomic::Ordering};

use rustix::{event::epoll::EventFlags, io::Errno};

use super::{
    Answer,
    inbox::Inbox,
    lines::{Lines, Next},
    outbox::Outbox,
};
use crate::{
    Access,
    access::Peer,
    protocol::{
        Answered, Call, Event, EventLine, Level, REQUEST_BYTES_MAX, Refusal, RefusalKind, Reply,
        Request,
    },
};

/// Bytes that wait for a client before it gets no more events, and no more of its requests are read:
/// more than a second of what the service says at its busiest.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// Bytes read of a client in a turn of the loop, so that each has its turn.
const READ_BYTES: usize = 16 << 10;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Stays,
    Ends,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    peer: Peer,
    level: Level,
    lines: Lines,
    outbox: Outbox,
    /// It will say nothing more.
    ended: bool,
    /// Nothing more is heard of it, and it goes when it has been told why.
    refused: bool,
    watches: bool,
    /// Events that did not reach it, and of which it has not been told.
    missed: u64,
}

/// What a client's requests are answered by.
pub struct Asked<'a> {
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

    /// What to wait for on its socket. That it is gone is always told.
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

    /// Does what its socket is ready for.
    pub fn turn(&mut self, ready: EventFlags, asked: &Asked<'_>) -> Fate {
        if ready.contains(EventFlags::ERR) {
            return Fate::Ends;
        }
        if ready.contains(EventFlags::IN) && !self.read() {
            return Fate::Ends;
        }
        let gone = ready.contains(EventFlags::HUP) && !ready.contains(EventFlags::IN);
        loop {
            let more = self.work(asked);
            if gone || self.flush() == Fate::Ends {
                return Fate::Ends;
            }
            if !more || self.outbox.len() >= OUTPUT_BYTES_MAX {
                return Fate::Stays;
            }
        }
    }

    /// Takes an event's line, if it wants it and has room for it.
    pub fn tell(&mut self, line: &[u8]) {
        if !self.watches {
            return;
        }
        // First what it has missed, so that it stands where it was missed.
        let room = |outbox: &Outbox, bytes| outbox.len() + bytes <= OUTPUT_BYTES_MAX;
        if self.missed == 0 && room(&self.outbox, line.len()) {
            self.outbox.push(line);
        } else {
            self.missed += 1;
        }
    }

    /// Counts events that were lost before they came here.
    pub fn miss(&mut self, events: u64) {
        if self.watches {
            self.missed += events;
        }
    }

    /// Sends what can be sent.
    pub fn flush(&mut self) -> Fate {
        loop {
            if self.outbox.flush(&self.socket).is_err() {
                return Fate::Ends;
            }
            if self.missed == 0 || !self.outbox.is_empty() {
                break;
            }
            let events = std::mem::take(&mut self.missed);
            if let Ok(line) = EventLine::now(Event::Missed { events }).to_line() {
                self.outbox.push(&line);
            }
        }
        // Who does not even read why it is refused is not waited for.
        let done = self.ended && !self.watches && self.outbox.is_empty();
        if self.refused || done { Fate::Ends } else { Fate::Stays }
    }

    /// Has other rights from now on.
    pub fn judge(&mut self, access: &Access) {
        match access.of(self.peer) {
            Some(level) => self.level = level,
            None => self.refuse(denied("may not ask anything here any more")),
        }
    }

    /// Says goodbye to `inbox`.
    pub fn leave(self, inbox: &Inbox) {
        if self.watches {
            inbox.watchers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// False if the connection is broken.
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

    /// Answers what has been read, as far as there is room for answers. True if there is more.
    fn work(&mut self, asked: &Asked<'_>) -> bool {
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
                    let result = self.answer(request, asked);
                    self.reply(id, result);
                }
            }
        }
        !self.refused
    }

    fn answer(&mut self, request: Request, asked: &Asked<'_>) -> Result<Answered, Refusal> {
        if request.level() > self.level {
            return Err(denied("may observe, but not operate"));
        }
        if matches!(request, Request::Watch {}) && !self.watches {
            // Before the status is made, so that nothing falls between it and the first event.
            self.watches = true;
            asked.inbox.watchers.fetch_add(1, Ordering::Relaxed);
        }
        asked.answer.answer(request)
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.reply(None, Err(refusal));
        self.refused = true;
    }

    fn reply(&mut self, id: Option<u64>, result: Result<Answered, Refusal>) {
        self.outbox.push(&Reply::new(id, result).to_line());
    }
}

/// What its user is told who lacks a right.
pub fn denied(why: &str) -> Refusal {
    let who = "the section [control] of the service's configuration says who may";
    Refusal::new(RefusalKind::Denied, format!("you {why}")).hint(who)
}
