//! The client's side.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::protocol::{
    Answered, Call, EventLine, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, Refusal, Reply, ReplyResult,
    Request, Status,
};

/// How long to wait for a reply. The service answers within milliseconds, a reload included, unless the
/// machine is at its limits.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why nothing came of a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers at the socket.
    #[error("cannot reach unpackd at {}: {source}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The service does not do it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The service has closed the connection, or does not answer.
    #[error("unpackd has gone: {0}")]
    Gone(#[source] io::Error),
    /// What came is no reply to what was asked.
    #[error("this is not how unpackd answers: {0}")]
    Nonsense(String),
    /// The request cannot be said: a path is not valid UTF-8, or too long.
    #[error("the request cannot be sent: {0}")]
    Unspeakable(String),
}

impl ClientError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.hint.as_deref(),
            Self::Unreachable { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => Some(
                    "is unpackd running (systemctl status unpackd), and is this its socket (--socket)?",
                ),
                io::ErrorKind::ConnectionRefused => {
                    Some("unpackd is not running: systemctl start unpackd")
                }
                io::ErrorKind::PermissionDenied => {
                    Some("only root and members of the socket's group can connect to it")
                }
                _ => None,
            },
            Self::Gone(_) => Some("see what it has to say: journalctl --unit unpackd"),
            Self::Nonsense(_) | Self::Unspeakable(_) => None,
        }
    }
}

/// A connection to the service.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    calls: u64,
}

impl Client {
    /// Connects. Waits no longer than a minute for each reply.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let stream =
            connect().map_err(|source| ClientError::Unreachable { path: path.into(), source })?;
        Ok(Self { reader: BufReader::new(stream), calls: 0 })
    }

    /// Asks, and waits for the reply.
    pub fn call(&mut self, request: Request) -> Result<Answered, ClientError> {
        self.calls += 1;
        let call = Call { id: Some(self.calls), request };
        let line = call.to_line().map_err(|error| ClientError::Unspeakable(error.to_string()))?;
        if line.len() > REQUEST_BYTES_MAX {
            return Err(ClientError::Unspeakable("its paths are too long".to_owned()));
        }
        // Who is refused a connection is told so, and cannot be written to any more.
        let written = self.reader.get_mut().write_all(&line);
        let line = match self.line() {
            Ok(Some(line)) => line,
            Ok(None) => {
                written.map_err(ClientError::Gone)?;
                return Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into()));
            }
            Err(error) => return Err(error),
        };
        let Reply { id, result } = read(&line)?;
        match result {
            ReplyResult::Error(refusal) => Err(refusal.into()),
            ReplyResult::Ok(_) if id != call.id => {
                Err(ClientError::Nonsense("a reply to another call".to_owned()))
            }
            ReplyResult::Ok(answered) => Ok(answered),
        }
    }

    /// How everything stands, and from then on what happens.
    pub fn watch(mut self) -> Result<(Status, Watching), ClientError> {
        match self.call(Request::Watch {})? {
            Answered::Status(status) => {
                // Nothing may happen for days.
                self.reader.get_ref().set_read_timeout(None).map_err(ClientError::Gone)?;
                Ok((*status, Watching { client: self }))
            }
            _ => Err(ClientError::Nonsense("no status to begin with".to_owned())),
        }
    }

    /// The next line; `None` at the end. Lines are at most [`REPLY_BYTES_MAX`] long.
    fn line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        let mut line = Vec::new();
        let most = REPLY_BYTES_MAX as u64;
        let mut reader = self.reader.by_ref().take(most);
        reader.read_until(b'\n', &mut line).map_err(ClientError::Gone)?;
        match line.last() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(line)),
            Some(_) if line.len() < REPLY_BYTES_MAX => {
                Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into()))
            }
            Some(_) => Err(ClientError::Nonsense("a line without end".to_owned())),
        }
    }
}

/// What happens, as it happens.
#[derive(Debug)]
pub struct Watching {
    client: Client,
}

impl Watching {
    /// Waits for the next event; `None` when the service stops, or [`WatchEnd`] ends it.
    pub fn next_event(&mut self) -> Result<Option<EventLine>, ClientError> {
        match self.client.line()? {
            None => Ok(None),
            Some(line) => read(&line).map(Some),
        }
    }

    /// Ends the waiting from another thread.
    pub fn end(&self) -> io::Result<WatchEnd> {
        self.client.reader.get_ref().try_clone().map(WatchEnd)
    }
}

/// Ends a [`Watching`].
#[derive(Debug)]
pub struct WatchEnd(UnixStream);

impl WatchEnd {
    /// Has [`Watching::next_event`] give `None` once it has given what has come.
    pub fn end(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn read<'a, T: serde::Deserialize<'a>>(line: &'a [u8]) -> Result<T, ClientError> {
    serde_json::from_slice(line).map_err(|error| ClientError::Nonsense(error.to_string()))
}
