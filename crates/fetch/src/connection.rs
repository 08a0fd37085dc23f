//! A connection to a server.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use crate::{
    Address, FetchError, Patience, Proxy,
    head::{HEAD_BYTES_MAX, Head, connect_request},
    patience::{Rate, Slow},
    site::Route,
};

/// Interval at which a silent connection checks for cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(100);

/// Bytes that are received at once while the head is not yet complete. What they contain of the body
/// is copied.
const HEAD_STEP: usize = 4096;

/// A connection that may be in the middle of a body.
pub struct Connection {
    stream: Stream,
    address: Address,
    /// Bytes of the body that came with the head.
    early: Vec<u8>,
    rate: Rate,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Connection {
    /// Connects to one of the addresses, the one after the other.
    pub fn open(
        address: &Address,
        route: &Route,
        tls: &Arc<ClientConfig>,
        patience: &Patience,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, FetchError> {
        let failed = |reason: String| FetchError::Connect { address: address.clone(), reason };
        let by = route.proxy.as_ref().map(|proxy| format!("by the proxy {proxy}: "));
        let by = by.unwrap_or_default();
        let mut last = format!("{by}the name has no addresses");
        for host in &route.hosts {
            if cancelled() {
                return Err(FetchError::Cancelled);
            }
            let socket = match TcpStream::connect_timeout(host, patience.connect) {
                Ok(socket) => socket,
                Err(error) => {
                    last = format!("{by}{host}: {error}");
                    continue;
                }
            };
            let set_up = socket
                .set_read_timeout(Some(CANCEL_CHECK))
                .and_then(|()| socket.set_write_timeout(Some(patience.head)))
                .and_then(|()| socket.set_nodelay(true));
            set_up.map_err(|error| failed(error.to_string()))?;
            let socket = match &route.proxy {
                Some(proxy) if address.is_tls() => {
                    Self::through(socket, address, proxy, patience, cancelled)?
                }
                _ => socket,
            };
            let stream = if address.is_tls() {
                let name = ServerName::try_from(address.host().to_owned())
                    .map_err(|error| failed(error.to_string()))?;
                let session = ClientConnection::new(Arc::clone(tls), name)
                    .map_err(|error| failed(error.to_string()))?;
                Stream::Tls(Box::new(StreamOwned::new(session, socket)))
            } else {
                Stream::Plain(socket)
            };
            return Ok(Self::new(stream, address));
        }
        Err(failed(last))
    }

    fn new(stream: Stream, address: &Address) -> Self {
        Self { stream, address: address.clone(), early: Vec::new(), rate: Rate::default() }
    }

    /// Asks a proxy to connect to the server. What is sent from then on goes there.
    fn through(
        socket: TcpStream,
        address: &Address,
        proxy: &Proxy,
        patience: &Patience,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<TcpStream, FetchError> {
        let mut asking = Self::new(Stream::Plain(socket), address);
        let head = asking.ask(&connect_request(address, proxy), patience, cancelled)?;
        if !(200..300).contains(&head.status) {
            return Err(FetchError::Proxy {
                address: address.clone(),
                proxy: proxy.to_string(),
                status: head.status_line,
            });
        }
        match asking.stream {
            Stream::Plain(socket) if asking.early.is_empty() => Ok(socket),
            // In TLS the client speaks first.
            _ => Err(FetchError::Protocol {
                address: address.clone(),
                reason: format!("the proxy {proxy} sent something before it was asked"),
            }),
        }
    }

    /// Sends a request, and returns the head of its answer.
    pub fn ask(
        &mut self,
        request: &str,
        patience: &Patience,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Head, FetchError> {
        let address = self.address.clone();
        let failed = |reason: String| FetchError::Connect { address: address.clone(), reason };
        let started = Instant::now();
        self.send(request.as_bytes(), patience, cancelled)?;
        let mut bytes = std::mem::take(&mut self.early);
        loop {
            if let Some((head, length)) = Head::parse(&bytes, &address)? {
                // The server is not asked to wait for a body, so this is rare, and then several.
                if (100..200).contains(&head.status) {
                    bytes.drain(..length);
                    continue;
                }
                bytes.drain(..length);
                self.early = bytes;
                return Ok(head);
            }
            let filled = bytes.len();
            bytes.resize((filled + HEAD_STEP).min(HEAD_BYTES_MAX), 0);
            let count = loop {
                if cancelled() {
                    return Err(FetchError::Cancelled);
                }
                if started.elapsed() > patience.head {
                    let limit = patience.head.as_secs();
                    return Err(failed(format!("no complete answer within {limit} s")));
                }
                match self.stream.read(&mut bytes[filled..]) {
                    Ok(count) => break count,
                    Err(error) if is_idle(&error) => {}
                    Err(error) => return Err(failed(error.to_string())),
                }
            };
            if count == 0 {
                return Err(failed(
                    "the server closed the connection before its answer".to_owned(),
                ));
            }
            bytes.truncate(filled + count);
        }
    }

    fn send(
        &mut self,
        bytes: &[u8],
        patience: &Patience,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), FetchError> {
        let started = Instant::now();
        let mut rest = bytes;
        let sent = loop {
            if cancelled() {
                return Err(FetchError::Cancelled);
            }
            if rest.is_empty() {
                match self.stream.flush() {
                    Err(error) if is_idle(&error) && started.elapsed() <= patience.head => continue,
                    result => break result,
                }
            }
            match self.stream.write(rest) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                // The handshake waits for the server.
                Err(error) if is_idle(&error) && started.elapsed() <= patience.head => {}
                Err(error) => break Err(error),
            }
        };
        sent.map_err(|error| FetchError::Connect {
            address: self.address.clone(),
            reason: error.to_string(),
        })
    }

    /// Takes back the last bytes that were received of a body, which are received again.
    pub fn give_back(&mut self, mut bytes: Vec<u8>) {
        bytes.append(&mut self.early);
        self.early = bytes;
    }

    /// Receives bytes of a body, as many as there are, at least one. `offset` is their place in the
    /// archive, for messages.
    pub fn receive(
        &mut self,
        into: &mut [u8],
        offset: u64,
        patience: &Patience,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<usize, FetchError> {
        if !self.early.is_empty() {
            let count = self.early.len().min(into.len());
            into[..count].copy_from_slice(&self.early[..count]);
            self.early.drain(..count);
            return Ok(count);
        }
        let broken =
            |reason: String| FetchError::Broken { address: self.address.clone(), offset, reason };
        let started = Instant::now();
        loop {
            if cancelled() {
                return Err(FetchError::Cancelled);
            }
            match self.stream.read(into) {
                Ok(0) => return Err(broken("the server closed the connection".to_owned())),
                Ok(count) => {
                    let slow = self.rate.count(patience, started.elapsed(), count);
                    return match slow {
                        None => Ok(count),
                        Some(Slow { waited, bytes }) => Err(FetchError::Slow {
                            address: self.address.clone(),
                            offset,
                            bytes,
                            seconds: waited.as_secs(),
                        }),
                    };
                }
                Err(error) if is_idle(&error) => {
                    if started.elapsed() > patience.silence {
                        let limit = patience.silence.as_secs();
                        return Err(broken(format!("no byte within {limit} s")));
                    }
                }
                Err(error) => return Err(broken(error.to_string())),
            }
        }
    }
}

impl Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

fn is_idle(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
