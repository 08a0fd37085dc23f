//! The event loop: waits on all sockets with epoll and serves each in turn.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, EventData, EventFlags},
    io::{self, Errno},
    net::{SendFlags, send},
    time::Timespec,
};

use super::{
    acceptor::Acceptor,
    answer::Answer,
    client::{Client, Context, Disposition, denied},
    heartbeat::Heartbeat,
    http::Exchange,
    inbox::{Inbox, Mail, ScrapeUpdate},
    limits::Limits,
};
use crate::{
    Access, Listener, ScrapeListener,
    access::Peer,
    protocol::{Level, Refusal, RefusalKind, Reply},
};

/// Most scrapes at a time. Prometheus makes one, but any user of the machine can connect. A guess.
const SCRAPES_MAX: usize = 16;

/// Most ready sockets handled per call of `epoll_wait`.
const READY_MAX: usize = 64;

/// epoll keys of the permanent sockets. Connections are numbered from [`FIRST`] on, and no number
/// is used twice.
const WAKE: u64 = 0;
const CLIENTS: u64 = 1;
const SCRAPES: u64 = 2;
const FIRST: u64 = 3;

/// State of the server's thread.
pub struct EventLoop {
    epoll: OwnedFd,
    inbox: Arc<Inbox>,
    heartbeat: Heartbeat,
    access: Access,
    limits: Limits,
    answer: Arc<dyn Answer>,
    clients: Acceptor<Listener>,
    scrapes: Option<Acceptor<ScrapeListener>>,
    connections: BTreeMap<u64, Registered>,
    next: u64,
}

/// A connection and the events that epoll waits for on it.
struct Registered {
    connection: Connection,
    interest: EventFlags,
}

enum Connection {
    Client(Client),
    Scrape(Exchange),
}

impl EventLoop {
    pub fn new(
        inbox: Arc<Inbox>,
        heartbeat: Heartbeat,
        listener: Listener,
        access: Access,
        limits: Limits,
        answer: Arc<dyn Answer>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, inbox.wake(), EventData::new_u64(WAKE), EventFlags::IN)?;
        epoll::add(&epoll, &listener, EventData::new_u64(CLIENTS), EventFlags::IN)?;
        let clients = Acceptor::new(listener);
        let (scrapes, connections) = (None, BTreeMap::new());
        Ok(Self {
            epoll,
            inbox,
            heartbeat,
            access,
            limits,
            answer,
            clients,
            scrapes,
            connections,
            next: FIRST,
        })
    }

    /// Serves until the inbox says to stop.
    pub fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::with_capacity(READY_MAX);
        loop {
            let timeout = self.next_deadline().map(until);
            self.heartbeat.sleeps();
            let waited = epoll::wait(&self.epoll, spare_capacity(&mut ready), timeout.as_ref());
            self.heartbeat.works();
            match waited {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            let now = Instant::now();
            for event in ready.drain(..) {
                match event.data.u64() {
                    WAKE => {
                        let mail = self.inbox.take();
                        if mail.stop {
                            return Ok(());
                        }
                        self.read_mail(mail)?;
                    }
                    CLIENTS => self.accept_clients(now)?,
                    SCRAPES => self.accept_scrapes(now)?,
                    key => self.on_ready(key, event.flags),
                }
            }
            self.expire(now)?;
        }
    }

    /// Returns the time to wake up even if nothing happens: `None` unless a scrape is open or a
    /// listener is paused.
    fn next_deadline(&self) -> Option<Instant> {
        let scrapes =
            self.connections.values().filter_map(|registered| match &registered.connection {
                Connection::Client(_) => None,
                Connection::Scrape(scrape) => Some(scrape.deadline()),
            });
        let paused = self.scrapes.as_ref().and_then(|scrapes| scrapes.paused_until);
        scrapes.chain(paused).chain(self.clients.paused_until).min()
    }

    fn read_mail(&mut self, mail: Mail) -> io::Result<()> {
        // Closing the old listener removes it from epoll.
        match mail.scrapes {
            None => {}
            Some(ScrapeUpdate::Stop) => self.scrapes = None,
            Some(ScrapeUpdate::Listen(listener)) => {
                epoll::add(&self.epoll, &listener, EventData::new_u64(SCRAPES), EventFlags::IN)?;
                self.scrapes = Some(Acceptor::new(listener));
            }
        }
        let access = mail.access.inspect(|access| self.access = access.clone());
        self.for_clients(|client| {
            if let Some(access) = &access {
                client.set_access(access);
            }
            mail.events.iter().for_each(|line| client.push_event(line));
            client.count_missed(mail.missed);
            client.flush()
        });
        Ok(())
    }

    /// Serves a connection that is ready.
    fn on_ready(&mut self, key: u64, ready: EventFlags) {
        let context = Context { answer: &*self.answer, inbox: &self.inbox };
        // The connection may have ended in this iteration of the loop.
        let Some(registered) = self.connections.get_mut(&key) else { return };
        let fate = match &mut registered.connection {
            Connection::Client(client) => client.on_ready(ready, &context),
            Connection::Scrape(scrape) => scrape.on_ready(ready, context.answer),
        };
        if fate == Disposition::Close || registered.wait(&self.epoll, key).is_err() {
            self.end(key);
        }
    }

    fn for_clients(&mut self, mut each: impl FnMut(&mut Client) -> Disposition) {
        let mut over = Vec::new();
        for (key, registered) in &mut self.connections {
            let Connection::Client(client) = &mut registered.connection else { continue };
            if each(client) == Disposition::Close || registered.wait(&self.epoll, *key).is_err() {
                over.push(*key);
            }
        }
        for key in over {
            self.end(key);
        }
    }

    fn end(&mut self, key: u64) {
        // Closing a socket removes it from epoll: no other descriptor refers to it.
        if let Some(Registered { connection: Connection::Client(client), .. }) =
            self.connections.remove(&key)
        {
            client.close(&self.inbox);
        }
    }

    fn accept_clients(&mut self, now: Instant) -> io::Result<()> {
        let mut sockets = Vec::new();
        self.clients.accept(now, |socket| sockets.push(socket));
        for socket in sockets {
            let Ok(peer) = Peer::of(&socket) else { continue };
            match self.admit(peer) {
                Ok(level) => self.register(Connection::Client(Client::new(socket, peer, level))),
                Err(refusal) => {
                    let line = Reply::new(None, Err(refusal)).to_line();
                    // A new socket has room for a line. If sending fails, the client is gone.
                    let _ = send(&socket, &line, SendFlags::NOSIGNAL);
                }
            }
        }
        wait_for_connections(&self.epoll, &self.clients, CLIENTS)
    }

    /// Returns the rights of a connecting client, or the refusal if it has none or there is no
    /// room.
    fn admit(&self, peer: Peer) -> Result<Level, Refusal> {
        let level =
            self.access.level_of(peer).ok_or_else(|| denied("have no access to this service"))?;
        let kept = (self.limits.connections_max / 8).max(1);
        let most = match level {
            Level::Operate => self.limits.connections_max,
            Level::Observe => self.limits.connections_max.saturating_sub(kept),
        };
        if self.count(|connection| matches!(connection, Connection::Client(_))) < most {
            return Ok(level);
        }
        let message = format!("the limit of {most} connections is reached");
        Err(Refusal::new(RefusalKind::TooManyConnections, message))
    }

    fn accept_scrapes(&mut self, now: Instant) -> io::Result<()> {
        let Some(scrapes) = &mut self.scrapes else { return Ok(()) };
        let mut sockets = Vec::new();
        scrapes.accept(now, |socket| sockets.push(socket));
        wait_for_connections(&self.epoll, scrapes, SCRAPES)?;
        for socket in sockets {
            if self.count(|connection| matches!(connection, Connection::Scrape(_))) < SCRAPES_MAX {
                self.register(Connection::Scrape(Exchange::new(socket, now)));
            }
        }
        Ok(())
    }

    fn count(&self, which: impl Fn(&Connection) -> bool) -> usize {
        self.connections.values().filter(|registered| which(&registered.connection)).count()
    }

    fn register(&mut self, connection: Connection) {
        let key = self.next;
        self.next += 1;
        let registered = Registered { interest: connection.interest(), connection };
        let data = EventData::new_u64(key);
        match epoll::add(&self.epoll, registered.connection.socket(), data, registered.interest) {
            Ok(()) => _ = self.connections.insert(key, registered),
            Err(error) => tracing::warn!(%error, "cannot add a connection to epoll; closing it"),
        }
    }

    /// Closes scrapes past their deadline and resumes listeners whose pause is over.
    fn expire(&mut self, now: Instant) -> io::Result<()> {
        self.connections.retain(|_, registered| match &registered.connection {
            Connection::Client(_) => true,
            Connection::Scrape(scrape) => scrape.deadline() > now,
        });
        let over = |until: &mut Instant| *until <= now;
        if self.clients.paused_until.take_if(over).is_some() {
            wait_for_connections(&self.epoll, &self.clients, CLIENTS)?;
        }
        if let Some(scrapes) = &mut self.scrapes
            && scrapes.paused_until.take_if(over).is_some()
        {
            wait_for_connections(&self.epoll, scrapes, SCRAPES)?;
        }
        Ok(())
    }
}

/// Makes epoll wait for connections, unless the listener is paused.
fn wait_for_connections<L: AsFd>(
    epoll: &OwnedFd,
    acceptor: &Acceptor<L>,
    key: u64,
) -> io::Result<()> {
    let interest = match acceptor.paused_until {
        None => EventFlags::IN,
        Some(_) => EventFlags::empty(),
    };
    epoll::modify(epoll, &acceptor.listener, EventData::new_u64(key), interest)
}

fn until(deadline: Instant) -> Timespec {
    // One millisecond more, so that the deadline has passed even if the kernel rounds down.
    let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    // Deadlines are seconds away, so this does not fail. If it did, the loop would check at once.
    Timespec::try_from(left).unwrap_or_default()
}

impl Registered {
    /// Updates the events that epoll waits for on the connection.
    fn wait(&mut self, epoll: &OwnedFd, key: u64) -> io::Result<()> {
        let interest = self.connection.interest();
        if interest != self.interest {
            self.interest = interest;
            epoll::modify(epoll, self.connection.socket(), EventData::new_u64(key), interest)?;
        }
        Ok(())
    }
}

impl Connection {
    fn interest(&self) -> EventFlags {
        match self {
            Self::Client(client) => client.interest(),
            Self::Scrape(scrape) => scrape.interest(),
        }
    }

    fn socket(&self) -> &OwnedFd {
        match self {
            Self::Client(client) => client.socket(),
            Self::Scrape(scrape) => scrape.socket(),
        }
    }
}
