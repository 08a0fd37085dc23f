//! Client of the control socket.

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

/// Timeout for a reply. The service answers within milliseconds, a reload included, unless the
/// machine is overloaded.
const REPLY_TIMEOUT: Duration = Duration::from_mins(1);

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed.
    #[error("cannot reach unpackd at {}: {source}", path.display())]
    Unreachable {
        /// Path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The service refused the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The service closed the connection or did not answer in time.
    #[error("lost the connection to unpackd: {0}")]
    Gone(#[source] io::Error),
    /// The reply does not follow the protocol.
    #[error("unexpected reply from unpackd: {0}")]
    Nonsense(String),
    /// The request cannot be encoded: a path is not valid UTF-8, or too long.
    #[error("the request cannot be sent: {0}")]
    Unspeakable(String),
}

impl ClientError {
    /// Returns a suggested remedy.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.hint.as_deref(),
            Self::Unreachable { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => Some(
                    "check that unpackd is running (systemctl status unpackd) and that --socket \
                     names its socket",
                ),
                io::ErrorKind::ConnectionRefused => {
                    Some("unpackd is not running; start it with: systemctl start unpackd")
                }
                io::ErrorKind::PermissionDenied => {
                    Some("only root and members of the socket's group can connect")
                }
                _ => None,
            },
            Self::Gone(_) => Some("its log may say why: journalctl --unit unpackd"),
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
    /// Connects to the service. Each call then times out after a minute.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
            stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
            Ok(stream)
        };
        let stream =
            connect().map_err(|source| ClientError::Unreachable { path: path.into(), source })?;
        Ok(Self { reader: BufReader::new(stream), calls: 0 })
    }

    /// Sends a request and waits for the reply.
    pub fn call(&mut self, request: Request) -> Result<Answered, ClientError> {
        self.calls += 1;
        let call = Call { id: Some(self.calls), request };
        let line = call.to_line().map_err(|error| ClientError::Unspeakable(error.to_string()))?;
        if line.len() > REQUEST_BYTES_MAX {
            return Err(ClientError::Unspeakable("its paths are too long".to_owned()));
        }
        // A refused client finds the reason in the socket although writing to it fails.
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
                Err(ClientError::Nonsense("the id is that of another call".to_owned()))
            }
            ReplyResult::Ok(answered) => Ok(answered),
        }
    }

    /// Returns the status, and the events that follow it.
    pub fn watch(mut self) -> Result<(Status, Watching), ClientError> {
        match self.call(Request::Watch {})? {
            Answered::Status(status) => {
                // Days may pass without an event.
                self.reader.get_ref().set_read_timeout(None).map_err(ClientError::Gone)?;
                Ok((*status, Watching { client: self }))
            }
            _ => Err(ClientError::Nonsense("a watch must begin with a status".to_owned())),
        }
    }

    /// Reads the next line of at most [`REPLY_BYTES_MAX`] bytes; `None` at the end.
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
            Some(_) => Err(ClientError::Nonsense("the line is too long".to_owned())),
        }
    }
}

/// The events of a watching connection.
#[derive(Debug)]
pub struct Watching {
    client: Client,
}

impl Watching {
    /// Waits for the next event. Returns `None` when the service stops or [`WatchEnd`] ends the
    /// watch.
    pub fn next_event(&mut self) -> Result<Option<EventLine>, ClientError> {
        match self.client.line()? {
            None => Ok(None),
            Some(line) => read(&line).map(Some),
        }
    }

    /// Returns a handle that ends the watch from another thread.
    pub fn end(&self) -> io::Result<WatchEnd> {
        self.client.reader.get_ref().try_clone().map(WatchEnd)
    }
}

/// Ends a [`Watching`].
#[derive(Debug)]
pub struct WatchEnd(UnixStream);

impl WatchEnd {
    /// Makes [`Watching::next_event`] return `None` once it has returned the events received so
    /// far.
    pub fn end(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn read<'a, T: serde::Deserialize<'a>>(line: &'a [u8]) -> Result<T, ClientError> {
    serde_json::from_slice(line).map_err(|error| ClientError::Nonsense(error.to_string()))
}
