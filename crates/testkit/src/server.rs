//! A web server that sends a file, or several, as well or as badly as a test wants.

use std::{
    fmt::Write as _,
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Longest request that is read.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Interval at which a stalling connection looks whether the server is to end.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// Pause between the bytes of a drip.
const DRIP: Duration = Duration::from_millis(5);

/// What a server is like.
#[derive(Clone, Debug)]
pub struct Personality {
    /// Whether it answers ranges.
    pub ranges: bool,
    /// Its strong tag.
    pub etag: Option<String>,
    /// Status of the redirect from `/snapshot.tar.bz2`.
    pub redirect: u16,
    /// Closes each connection after one answer.
    pub closes: bool,
}

impl Personality {
    /// Agave's RPC port: no ranges, no tag.
    pub const fn agave() -> Self {
        Self { ranges: false, etag: None, redirect: 303, closes: false }
    }

    /// Firedancer's snapshot server: ranges, no tag.
    pub const fn firedancer() -> Self {
        Self { ranges: true, etag: None, redirect: 302, closes: false }
    }

    /// nginx, or an object store: ranges, and a tag.
    pub fn nginx() -> Self {
        Self { ranges: true, etag: Some("\"5f-1a\"".to_owned()), redirect: 302, closes: false }
    }
}

/// What goes wrong with an answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection is closed after so many bytes of the body.
    Cut(u64),
    /// The connection stays open and silent after so many bytes of the body.
    Stall(u64),
    /// No answer, but the end of the connection.
    Close,
    /// These bytes instead of an answer, and the end of the connection.
    Raw(Vec<u8>),
    /// This status, without a body.
    Status(&'static str),
    /// The tag is another one.
    OtherTag,
    /// The whole file, although a range was requested.
    Whole,
    /// The bytes of the body from this offset in the file on are others.
    OtherBytesFrom(u64),
    /// After so many bytes of the body each further one comes alone, a few milliseconds later.
    Drip(u64),
    /// The byte at this offset in the file is another one.
    OtherByte(u64),
    /// This many bytes less than was requested, as a complete answer.
    Short(u64),
    /// These headers in addition.
    Headers(&'static str),
}

/// A request for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// First line.
    pub line: String,
    /// First and last byte of the requested range.
    pub range: Option<(u64, Option<u64>)>,
    /// All headers, in lower case.
    pub headers: String,
}

/// Decides what goes wrong with the request of this number, counted from 0.
pub type Script = Box<dyn Fn(usize, &Asked) -> Option<Fault> + Send + Sync>;

/// A running server, which ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

struct Shared {
    /// Names and contents. The first two are what the fixed paths redirect to.
    files: Vec<(String, Vec<u8>)>,
    personality: Personality,
    script: Script,
    wrap: Wrap,
    asked: Mutex<Vec<Asked>>,
    ends: AtomicBool,
}

/// A connection, perhaps an encrypted one.
pub trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

/// Makes an encrypted connection of a plain one.
pub type Wrap = Box<dyn Fn(TcpStream) -> io::Result<Box<dyn Connection>> + Send + Sync>;

impl Server {
    /// Starts a server on a free port of this machine, which sends `file` as `/<name>`.
    pub fn start(name: &str, file: Vec<u8>, personality: Personality, script: Script) -> Self {
        Self::start_wrapped(name, file, personality, script, Box::new(|plain| Ok(Box::new(plain))))
    }

    /// Starts a server of files. `/snapshot.tar.bz2` redirects to the first of them, and
    /// `/incremental-snapshot.tar.bz2` to the second.
    pub fn start_files(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
        personality: Personality,
        script: Script,
    ) -> Self {
        let files = files.into_iter().collect();
        Self::start_any(files, personality, script, Box::new(|plain| Ok(Box::new(plain))))
    }

    /// Starts a server whose connections are wrapped.
    pub fn start_wrapped(
        name: &str,
        file: Vec<u8>,
        personality: Personality,
        script: Script,
        wrap: Wrap,
    ) -> Self {
        Self::start_any(vec![(name.to_owned(), file)], personality, script, wrap)
    }

    fn start_any(
        files: Vec<(String, Vec<u8>)>,
        personality: Personality,
        script: Script,
        wrap: Wrap,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            files,
            personality,
            script,
            wrap,
            asked: Mutex::default(),
            ends: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let listening = thread::spawn(move || {
            thread::scope(|scope| {
                for socket in listener.incoming().map_while(Result::ok) {
                    if of_thread.ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let shared = &of_thread;
                    scope.spawn(move || {
                        // Clients that go away are no fault.
                        let _ = shared.serve(socket);
                    });
                }
            });
        });
        Self { address, shared, listening: Some(listening) }
    }

    /// Returns the address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the server as a peer, `HOST:PORT`.
    pub fn peer(&self) -> String {
        self.address.to_string()
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the requests for the file so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

impl Shared {
    fn serve(&self, socket: TcpStream) -> io::Result<()> {
        socket.set_read_timeout(Some(STOP_CHECK))?;
        let ending = socket.try_clone()?;
        let mut connection = (self.wrap)(socket)?;
        while let Some(asked) = self.request(&mut *connection)? {
            if !self.answer(&mut *connection, &asked)? {
                break;
            }
        }
        connection.flush()?;
        ending.shutdown(Shutdown::Both)
    }

    /// Reads a request; `None` if the client or the server has ended.
    fn request(&self, connection: &mut dyn Connection) -> io::Result<Option<Asked>> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match connection.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) if bytes.len() < REQUEST_BYTES_MAX => bytes.push(byte[0]),
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
                Err(error) if is_idle(&error) => {
                    if self.ends.load(Ordering::Relaxed) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (line, headers) = text.split_once("\r\n").unwrap_or((&text, ""));
        let headers = headers.to_ascii_lowercase();
        let range = headers.lines().find_map(|line| line.strip_prefix("range: bytes="));
        let range = range.and_then(|range| {
            let (first, last) = range.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()))
        });
        Ok(Some(Asked { line: line.to_owned(), range, headers }))
    }

    /// Answers. Returns whether the connection goes on.
    fn answer(&self, connection: &mut dyn Connection, asked: &Asked) -> io::Result<bool> {
        let path = asked.line.split(' ').nth(1).unwrap_or_default();
        let newest = match path {
            "/snapshot.tar.bz2" => self.files.first(),
            "/incremental-snapshot.tar.bz2" => self.files.get(1),
            _ => None,
        };
        if let Some((name, _)) = newest {
            let status = self.personality.redirect;
            write!(
                connection,
                "HTTP/1.1 {status} Moved\r\nLocation: /{name}\r\nContent-Length: 0\r\n\r\n"
            )?;
            return Ok(true);
        }
        let file = self.files.iter().find(|(name, _)| path.strip_prefix('/') == Some(name));
        let Some((_, file)) = file else {
            write!(connection, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
            return Ok(true);
        };
        let number = {
            let mut all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(asked.clone());
            all.len() - 1
        };
        self.send(connection, file, asked, (self.script)(number, asked))
    }

    fn send(
        &self,
        connection: &mut dyn Connection,
        file: &[u8],
        asked: &Asked,
        fault: Option<Fault>,
    ) -> io::Result<bool> {
        let total = file.len() as u64;
        let ranges = self.personality.ranges && !matches!(fault, Some(Fault::Whole));
        let (first, mut end, status) = match asked.range.filter(|_| ranges) {
            None => (0, total, "200 OK"),
            Some((first, last)) => {
                (first, last.map_or(total, |last| last + 1).min(total), "206 Partial Content")
            }
        };
        let mut etag = self.personality.etag.clone();
        let (mut cut, mut stall, mut drip, mut further) = (u64::MAX, u64::MAX, u64::MAX, "");
        let (mut others_from, mut others_to) = (u64::MAX, u64::MAX);
        match fault {
            Some(Fault::Close) => return Ok(false),
            Some(Fault::Raw(bytes)) => {
                connection.write_all(&bytes)?;
                return Ok(false);
            }
            Some(Fault::Status(status)) => {
                write!(connection, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")?;
                return Ok(true);
            }
            Some(Fault::Cut(bytes)) => cut = bytes,
            Some(Fault::Stall(bytes)) => stall = bytes,
            Some(Fault::Drip(bytes)) => drip = bytes,
            Some(Fault::OtherTag) => etag = Some("\"other\"".to_owned()),
            Some(Fault::OtherBytesFrom(offset)) => others_from = offset,
            Some(Fault::OtherByte(offset)) => (others_from, others_to) = (offset, offset + 1),
            Some(Fault::Short(bytes)) => end = end.saturating_sub(bytes).max(first + 1),
            Some(Fault::Headers(headers)) => further = headers,
            Some(Fault::Whole) | None => {}
        }
        let mut head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", end - first);
        if status.starts_with("206") {
            let _ = write!(head, "Content-Range: bytes {first}-{}/{total}\r\n", end - 1);
        }
        if let Some(etag) = etag {
            let _ = write!(head, "ETag: {etag}\r\n");
        }
        if self.personality.closes {
            head += "Connection: close\r\n";
        }
        connection.write_all(format!("{head}{further}\r\n").as_bytes())?;
        let index = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let mut body = file[index(first)..index(end)].to_vec();
        for (offset, byte) in (first..).zip(&mut body) {
            *byte ^= u8::from((others_from..others_to).contains(&offset));
        }
        if let Some(at) = usize::try_from(drip).ok().filter(|at| *at < body.len()) {
            connection.write_all(&body[..at])?;
            for byte in &body[at..] {
                connection.write_all(&[*byte])?;
                connection.flush()?;
                thread::sleep(DRIP);
                if self.ends.load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let sent = usize::try_from(cut.min(stall)).unwrap_or(usize::MAX).min(body.len());
        connection.write_all(&body[..sent])?;
        connection.flush()?;
        while stall < u64::MAX && !self.ends.load(Ordering::Relaxed) {
            // The client hangs up, or the test ends.
            let mut byte = [0];
            match connection.read(&mut byte) {
                Err(error) if is_idle(&error) => {}
                _ => return Ok(false),
            }
        }
        Ok(sent == body.len() && !self.personality.closes)
    }
}

fn is_idle(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
