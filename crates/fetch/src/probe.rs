//! What a server can do, found by asking it for little.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use crate::{
    Address, FetchError, FetchOptions, Identity, Remote,
    connection::Connection,
    head,
    identity::Body,
    remote::{Answered, HEAD, HEAD_BYTES, answered},
    site::Site,
};

/// Bytes that are received at once. A guess.
const STEP_BYTES: usize = 256 << 10;

/// What a server was found to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The archive's own address.
    pub address: Address,
    /// Number of redirects that led there.
    pub redirects: usize,
    /// What must stay the same while the archive is fetched.
    pub identity: Identity,
    /// Whether the server answers ranges.
    pub has_ranges: bool,
    /// Time for a connection, without TLS's own round trips.
    pub connected_in: Duration,
    /// Time from a request to the head of its answer. With TLS, its handshake counts.
    pub answered_in: Duration,
    /// The same for the last byte of the archive, if the server answers ranges.
    pub end_answered_in: Option<Duration>,
    /// Bytes that were received over one connection.
    pub received: u64,
    /// Time that they took.
    pub received_in: Duration,
}

impl Remote {
    /// Asks a server for an archive's first bytes, its last one, and then for as many as it sends over
    /// one connection within `time`, at most `bytes`. All of them are thrown away.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open): nothing is tried a second time.
    pub fn probe(
        address: &Address,
        options: &FetchOptions,
        (time, bytes): (Duration, u64),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Probe, FetchError> {
        let Answered { site, body, mut connection, redirects, connecting, answering } =
            answered(address, options, HEAD, cancelled)?;
        let total = body.identity.bytes;
        let has_ranges = body.is_part();
        let mut probe = Probe {
            address: site.address.clone(),
            redirects,
            identity: body.identity.clone(),
            has_ranges,
            connected_in: connecting,
            answered_in: answering,
            end_answered_in: None,
            received: 0,
            received_in: Duration::ZERO,
        };
        let head_bytes = body.bytes.min(HEAD_BYTES);
        receive(&site, &mut connection, head_bytes, Duration::MAX, cancelled)?;
        let end = total.min(head_bytes.saturating_add(bytes));
        if has_ranges {
            let mut other = connect(&site, cancelled)?;
            probe.end_answered_in =
                Some(ask(&site, &body.identity, &mut other, total - 1..total, cancelled)?);
            if end > head_bytes {
                if !body.keeps {
                    connection = connect(&site, cancelled)?;
                }
                ask(&site, &body.identity, &mut connection, head_bytes..end, cancelled)?;
            }
        }
        let started = Instant::now();
        probe.received = receive(&site, &mut connection, end - head_bytes, time, cancelled)?;
        probe.received_in = started.elapsed();
        Ok(probe)
    }
}

/// Connects to a server.
pub(crate) fn connect(site: &Site, cancelled: &dyn Fn() -> bool) -> Result<Connection, FetchError> {
    Connection::open(&site.address, &site.route, &site.tls, &site.patience, cancelled)
}

/// Asks for a range of the archive that was there before. Returns the time to the head of the answer.
pub(crate) fn ask(
    site: &Site,
    identity: &Identity,
    connection: &mut Connection,
    Range { start: first, end }: Range<u64>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Duration, FetchError> {
    let Site { address, headers, route, patience, .. } = site;
    let range = (first, Some(end - 1));
    let etag = identity.etag.as_deref();
    let request = head::request(address, range, etag, headers, route.proxy.as_ref());
    let started = Instant::now();
    let head = connection.ask(&request, patience, cancelled)?;
    let took = started.elapsed();
    let body = Body::of(head, address, first, range.1)?;
    identity.hold(&body.identity, address)?;
    if body.first == first && body.bytes == end - first {
        return Ok(took);
    }
    let reason = "the server does not answer ranges any more".to_owned();
    Err(FetchError::Protocol { address: address.clone(), reason })
}

/// Receives and throws away at most so many bytes, for at most this time. Returns their number.
pub(crate) fn receive(
    site: &Site,
    connection: &mut Connection,
    bytes: u64,
    time: Duration,
    cancelled: &dyn Fn() -> bool,
) -> Result<u64, FetchError> {
    let mut scratch = vec![0; STEP_BYTES];
    let (started, mut received) = (Instant::now(), 0);
    while received < bytes && started.elapsed() < time {
        let left = usize::try_from(bytes - received).unwrap_or(usize::MAX);
        let into = &mut scratch[..left.min(STEP_BYTES)];
        received += connection.receive(into, received, &site.patience, cancelled)? as u64;
    }
    Ok(received)
}
