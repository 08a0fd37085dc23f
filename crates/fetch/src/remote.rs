//! An archive on a server, opened.

use std::{
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use unsnap_arena::{CARRY_BYTES_MAX, PAGE_BYTES, Pool};

use crate::{
    Address, FetchError, Patience, Proxies, RemoteReader,
    connection::Connection,
    domain, head,
    identity::{Body, Identity},
    link::{Link, Shared, Transfer},
    site::{Route, Site, parse_headers, trusted},
    window::Window,
};

/// First bytes, which are received when an archive is opened. They decide how memory is divided.
pub(crate) const HEAD_BYTES: u64 = 64 << 10;

/// Their range.
pub(crate) const HEAD: (u64, Option<u64>) = (0, Some(HEAD_BYTES - 1));

/// Most redirects that are followed. Firedancer follows 4.
const REDIRECTS_MAX: usize = 5;

/// Most links. A guess: a server may take more for an attack.
const LINKS_MAX: usize = 32;

/// How to fetch an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchOptions {
    /// Further headers of each request, as `Name: value`. They are sent to the first address's host
    /// and port only.
    pub headers: Vec<String>,
    /// Files of further trusted certificates (PEM).
    pub authorities: Vec<PathBuf>,
    /// Number of links, if the server answers ranges; between 1 and 32.
    pub links: usize,
    /// Proxies.
    pub proxies: Proxies,
    /// Waits.
    pub patience: Patience,
    /// Whether links confine themselves.
    pub confined: bool,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            headers: Vec::new(),
            authorities: Vec::new(),
            // A guess: object stores give each connection some 100 MB/s.
            links: 8,
            proxies: Proxies::default(),
            patience: Patience::default(),
            confined: true,
        }
    }
}

/// An archive on a server, whose first bytes have been received.
pub struct Remote {
    pub(crate) site: Arc<Site>,
    pub(crate) identity: Identity,
    has_ranges: bool,
    headroom_bytes: usize,
    pub(crate) shared: Arc<Shared>,
    /// Bytes behind the first ones that have been received already.
    early: Vec<u8>,
}

impl Remote {
    /// Opens an archive: follows redirects, receives its first bytes, and starts the links, which wait
    /// for a reader. `cancelled` is asked about ten times a second, but not while the host's name is
    /// looked up or a connection is made.
    ///
    /// # Errors
    ///
    /// Nothing is tried a second time: somebody may be waiting in front of a wrong address.
    pub fn open(
        address: &Address,
        options: &FetchOptions,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, FetchError> {
        let Answered { mut site, body, mut connection, .. } =
            answered(address, options, HEAD, cancelled)?;
        let head_bytes = usize::try_from(body.bytes.min(HEAD_BYTES)).unwrap_or_default();
        site.head.resize(head_bytes, 0);
        let mut filled = 0;
        while filled < head_bytes {
            let into = &mut site.head[filled..];
            filled += connection.receive(into, filled as u64, &site.patience, cancelled)?;
        }
        let has_ranges = body.is_part();
        let keeps = !has_ranges || body.keeps;
        let connection = keeps.then_some(connection);
        let begun =
            Begun { site, identity: body.identity, has_ranges, early: Vec::new(), connection };
        Self::go_on(begun, options)
    }

    /// Goes on with an archive whose first bytes have been received.
    pub(crate) fn go_on(begun: Begun, options: &FetchOptions) -> Result<Self, FetchError> {
        let Begun { mut site, identity, has_ranges, early, connection } = begun;
        // A race has less patience, or more.
        site.patience = options.patience;
        let shared = Arc::default();
        let site = Arc::new(site);
        let remote = Self { site, identity, has_ranges, headroom_bytes: 0, shared, early };
        remote.start_links(options, connection)?;
        Ok(remote)
    }

    fn start_links(
        &self,
        options: &FetchOptions,
        mut connection: Option<Connection>,
    ) -> Result<(), FetchError> {
        if self.identity.bytes == (self.site.head.len() + self.early.len()) as u64 {
            return Ok(());
        }
        let count = if self.has_ranges { options.links.clamp(1, LINKS_MAX) } else { 1 };
        for _ in 0..count {
            let link = Link {
                site: Arc::clone(&self.site),
                identity: self.identity.clone(),
                shared: Arc::clone(&self.shared),
                connection: connection.take(),
            };
            let (has_ranges, confined) = (self.has_ranges, options.confined);
            let mut passed = self.site.head_hasher();
            if !has_ranges {
                passed.update(&self.early);
            }
            let run = move || {
                if confined {
                    domain::confine(&[link.site.route.port(&link.site.address)]);
                }
                if has_ranges { link.receive_runs() } else { link.receive_all(passed) }
            };
            let started = thread::Builder::new().name("unsnap-fetch".to_owned()).spawn(run);
            started.map_err(|error| FetchError::Thread { reason: error.to_string() })?;
        }
        Ok(())
    }

    /// Returns the address, after all redirects.
    pub fn address(&self) -> &Address {
        &self.site.address
    }

    /// Returns the length of the archive in bytes.
    pub fn bytes(&self) -> u64 {
        self.identity.bytes
    }

    /// Returns what must stay the same while the archive is fetched, also by a later run.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns whether the server answers ranges, so that several links receive the archive.
    pub fn has_ranges(&self) -> bool {
        self.has_ranges
    }

    /// Returns the first bytes of the archive: 64 KiB, or all.
    pub fn head(&self) -> &[u8] {
        &self.site.head
    }

    /// Reserves memory in front of each span but the first one, for whoever passes it on: see
    /// [`Source::headroom`](unsnap_source::Source::headroom). Default: no.
    #[must_use]
    pub fn with_headroom(mut self, headroom: bool) -> Self {
        self.headroom_bytes = if headroom { CARRY_BYTES_MAX } else { 0 };
        self
    }

    /// Returns a reader, which receives into blocks of `pool`.
    pub fn read(self, pool: Pool) -> RemoteReader {
        self.read_from(pool, 0)
    }

    /// Returns a reader of the bytes from `at` on. It may begin before: at the page that holds the byte,
    /// or with the first byte of the archive if the server answers no ranges.
    pub fn read_from(mut self, pool: Pool, at: u64) -> RemoteReader {
        let chunk_bytes = unsnap_source::default_chunk_bytes(pool.bytes());
        let head_bytes = self.site.head.len() as u64;
        let total = self.identity.bytes;
        let at = at.min(total);
        let is_behind = self.has_ranges && at > head_bytes + self.early.len() as u64;
        let early = if is_behind { Vec::new() } else { std::mem::take(&mut self.early) };
        let begin =
            if is_behind { at - at % PAGE_BYTES as u64 } else { head_bytes + early.len() as u64 };
        let (window, run) = if self.has_ranges {
            let chunk = chunk_bytes as u64;
            // What the decoder leaves while it waits: it may hold half of the pool, parts of two more
            // chunks, and the first bytes.
            let block = chunk + self.headroom_bytes as u64;
            let chunks = (pool.bytes() as u64 / 2 / block).saturating_sub(3).max(1);
            (chunks * chunk, (chunks / 2).clamp(1, RUN_CHUNKS_MAX) * chunk)
        } else {
            (total, total)
        };
        let transfer = Transfer {
            window: Window::new(begin, total, window, run),
            pool,
            chunk_bytes,
            headroom_bytes: self.headroom_bytes,
        };
        self.shared.lock().has_reader = true;
        let (shared, site) = (Arc::clone(&self.shared), Arc::clone(&self.site));
        RemoteReader::new(shared, site, transfer, (total, early), is_behind)
    }
}

/// Most chunks in one request: 4 MiB at most. Object stores advise 8 to 16 MB, but the window must
/// hold several.
const RUN_CHUNKS_MAX: u64 = 4;

impl Drop for Remote {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // Otherwise the reader ends it.
        if !state.has_reader {
            state.is_over = true;
        }
        drop(state);
        self.shared.tell();
    }
}

/// An archive whose first bytes have been received.
pub(crate) struct Begun {
    /// The server; the first bytes are among what is known of it.
    pub site: Site,
    pub identity: Identity,
    pub has_ranges: bool,
    /// Bytes behind the first ones: whole pages, or the rest of the archive.
    pub early: Vec<u8>,
    /// A connection: for ranges, or within the body behind these bytes.
    pub connection: Option<Connection>,
}

/// A server that sends the archive, and a connection on which its first bytes come next.
pub(crate) struct Answered {
    pub site: Site,
    pub body: Body,
    pub connection: Connection,
    /// Number of redirects that were followed.
    pub redirects: usize,
    /// Time for the connection.
    pub connecting: Duration,
    /// Time from the request to the head of its answer.
    pub answering: Duration,
}

/// Asks for a range of an archive. Follows redirects.
pub(crate) fn answered(
    address: &Address,
    options: &FetchOptions,
    range: (u64, Option<u64>),
    cancelled: &dyn Fn() -> bool,
) -> Result<Answered, FetchError> {
    let headers = parse_headers(&options.headers)?;
    let tls = Arc::new(trusted(&options.authorities)?);
    let patience = options.patience;
    let mut at = address.clone();
    for redirects in 0..=REDIRECTS_MAX {
        let route = Route::to(&at, &options.proxies)?;
        let started = Instant::now();
        let mut connection = Connection::open(&at, &route, &tls, &patience, cancelled)?;
        let headers = if at.is_same_origin(address) { headers.clone() } else { Vec::new() };
        let request = head::request(&at, range, None, &headers, route.proxy.as_ref());
        let (connecting, started) = (started.elapsed(), Instant::now());
        let answer = connection.ask(&request, &patience, cancelled)?;
        let answering = started.elapsed();
        if let (301 | 302 | 303 | 307 | 308, Some(location)) = (answer.status, &answer.location) {
            at = at
                .redirected(location)
                .map_err(|reason| FetchError::Protocol { address: at.clone(), reason })?;
            continue;
        }
        let body = Body::of(answer, &at, range.0, range.1)?;
        let site = Site { address: at, route, tls, headers, patience, head: Vec::new() };
        return Ok(Answered { site, body, connection, redirects, connecting, answering });
    }
    let reason = format!("there are more than {REDIRECTS_MAX} redirects");
    Err(FetchError::Protocol { address: address.clone(), reason })
}
