//! The socket that clients connect to.

use std::{
    fs, io,
    os::unix::{
        fs::FileTypeExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, chmod},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with},
};

/// Connections that the kernel keeps until they are accepted. What std uses for listeners of its own.
const BACKLOG: i32 = 128;

/// A listening Unix socket. One that was made here is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: UnixListener,
    /// Where it is, if it is ours to remove.
    path: Option<PathBuf>,
}

impl Listener {
    /// Makes a socket. Whoever may write to it by `mode` can connect; what it may ask for is another
    /// matter ([`Access`](crate::Access)).
    ///
    /// A socket that is there already is removed if nobody answers on it. If somebody does, or if it
    /// is no socket, that is an error.
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        remove_stale(path)?;
        // The mode is set before anybody can connect, whatever the umask.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let listener = Self { socket: socket.into(), path: Some(path.to_owned()) };
        chmod(path, Mode::from_raw_mode(mode))?;
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// Takes the socket that systemd has made, if the process was started with one: the first of
    /// `LISTEN_FDS`. To be called once, before there are other threads.
    pub fn from_environment() -> io::Result<Option<Self>> {
        match listenfd::ListenFd::from_env().take_unix_listener(0)? {
            None => Ok(None),
            Some(socket) => Self::given(socket).map(Some),
        }
    }

    /// Takes a socket that somebody else has made, and will remove.
    pub fn given(socket: UnixListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: None })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(there) if !there.file_type().is_socket() => {
            let message = format!("{} is there, and is no socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => {
            let message = format!("somebody listens on {} already", path.display());
            Err(io::Error::new(io::ErrorKind::AddrInUse, message))
        }
    }
}
