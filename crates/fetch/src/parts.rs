//! Parts of a file on a server, each by a request of its own.

use std::{
    ops::Range,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Address, FetchError, FetchOptions,
    connection::Connection,
    head,
    identity::{Body, Identity},
    patience::Attempts,
    remote::{Answered, answered},
    site::Site,
};

/// Interval at which a pause between two attempts checks for cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(100);

/// Bytes that [`RemoteParts::read_whole`] asks for at first: most small files.
const FIRST_BYTES: u64 = 64 << 10;

/// Bytes that are received at once. A guess.
const STEP_BYTES: usize = 256 << 10;

/// A file on a server, of which parts are read. Nothing is asked before the first part.
pub struct RemoteParts {
    address: Address,
    options: FetchOptions,
    /// The server, once it has answered.
    found: Option<(Site, Identity)>,
    /// A connection that is between two bodies.
    connection: Option<Connection>,
    requests: u64,
    /// Length that the file must have, if that is known.
    expected_bytes: Option<u64>,
}

impl RemoteParts {
    /// Returns the file at an address.
    pub fn new(address: Address, options: FetchOptions) -> Self {
        let (found, connection) = (None, None);
        Self { address, options, found, connection, requests: 0, expected_bytes: None }
    }

    /// Refuses a file of another length ([`FetchError::Protocol`]).
    #[must_use]
    pub fn with_length(mut self, bytes: u64) -> Self {
        self.expected_bytes = Some(bytes);
        self
    }

    /// Returns the number of requests so far, redirects not counted.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Reads a part. Tries again after a break, as long as the options allow. The file must stay the
    /// same from the first part on.
    ///
    /// # Errors
    ///
    /// [`FetchError::Protocol`] if the server answers no ranges, [`FetchError::Status`] if the part is not
    /// within the file.
    pub fn read(
        &mut self,
        range: Range<u64>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, FetchError> {
        let mut read = Vec::new();
        loop {
            let rest = range.start + read.len() as u64..range.end;
            if rest.is_empty() {
                return Ok(read);
            }
            // Servers may send less than was requested.
            read.extend(self.patiently(cancelled, |parts| {
                let (mut connection, body) = parts.ask(&rest, cancelled)?;
                let body_end = body.first + body.bytes;
                let bytes = body_end.min(rest.end) - rest.start;
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                let read = parts.receive(&mut connection, rest.start, bytes, cancelled)?;
                parts.connection = (body.keeps && body_end <= rest.end).then_some(connection);
                Ok(read)
            })?);
        }
    }

    /// Reads all of a file that has at most `most` bytes.
    ///
    /// # Errors
    ///
    /// [`FetchError::Protocol`] if it has more.
    pub fn read_whole(
        &mut self,
        most: u64,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, FetchError> {
        let (mut bytes, total) = self.patiently(cancelled, |parts| {
            let (mut connection, body) = parts.ask(&(0..FIRST_BYTES), cancelled)?;
            let total = body.identity.bytes;
            if total > most {
                let reason = format!("it has {total} bytes, more than {most}");
                return Err(FetchError::Protocol { address: parts.address.clone(), reason });
            }
            let length = usize::try_from(body.bytes).unwrap_or(usize::MAX);
            let read = parts.receive(&mut connection, 0, length, cancelled)?;
            parts.connection = body.keeps.then_some(connection);
            Ok((read, total))
        })?;
        bytes.extend(self.read(bytes.len() as u64..total, cancelled)?);
        Ok(bytes)
    }

    /// Does something until it succeeds, as long as the options allow.
    fn patiently<T>(
        &mut self,
        cancelled: &dyn Fn() -> bool,
        work: impl Fn(&mut Self) -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        let mut attempts = Attempts::default();
        loop {
            let started = Instant::now();
            let error = match work(self) {
                Ok(done) => return Ok(done),
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            self.connection = None;
            // Nothing is tried a second time in front of a wrong address.
            let wait = attempts.failed(&self.options.patience, started.elapsed());
            let Some(wait) = wait.filter(|_| self.found.is_some()) else { return Err(error) };
            tracing::warn!(%error, wait_ms = wait.as_millis(), "trying again");
            let until = Instant::now() + wait;
            while Instant::now() < until {
                if cancelled() {
                    return Err(FetchError::Cancelled);
                }
                thread::sleep(CANCEL_CHECK.min(wait));
            }
        }
    }

    /// Asks for a part. Returns a connection on which it comes next.
    fn ask(
        &mut self,
        range: &Range<u64>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Connection, Body), FetchError> {
        let asked = (range.start, Some(range.end - 1));
        self.requests += 1;
        let Some((site, identity)) = &self.found else {
            let Answered { site, body, connection, .. } =
                answered(&self.address, &self.options, asked, cancelled)?;
            let body = checked(body, &site.address, range)?;
            let found = body.identity.bytes;
            if let Some(expected) = self.expected_bytes.filter(|expected| *expected != found) {
                let reason = format!("it has {found} bytes, and should have {expected}");
                return Err(FetchError::Protocol { address: site.address, reason });
            }
            self.found = Some((site, body.identity.clone()));
            return Ok((connection, body));
        };
        let Site { address, route, tls, headers, patience, .. } = site;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(address, route, tls, patience, cancelled)?,
        };
        let (etag, proxy) = (identity.etag.as_deref(), route.proxy.as_ref());
        let request = head::request(address, asked, etag, headers, proxy);
        let head = connection.ask(&request, patience, cancelled)?;
        let body = Body::of(head, address, asked.0, asked.1)?;
        identity.hold(&body.identity, address)?;
        Ok((connection, checked(body, address, range)?))
    }

    fn receive(
        &self,
        connection: &mut Connection,
        first: u64,
        bytes: usize,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, FetchError> {
        let mut read = Vec::new();
        while read.len() < bytes {
            // Memory for what comes, and not for what a server promises.
            let filled = read.len();
            read.resize((filled + STEP_BYTES).min(bytes), 0);
            let (into, at) = (&mut read[filled..], first + filled as u64);
            let count = connection.receive(into, at, &self.options.patience, cancelled)?;
            read.truncate(filled + count);
        }
        Ok(read)
    }
}

/// Refuses a body that does not begin with the requested part.
fn checked(body: Body, address: &Address, range: &Range<u64>) -> Result<Body, FetchError> {
    if body.first == range.start {
        return Ok(body);
    }
    let reason = "the server does not answer ranges".to_owned();
    Err(FetchError::Protocol { address: address.clone(), reason })
}
