//! The listening sockets of the service.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{
            fs::FileTypeExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, chmod},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with},
};

/// Most connections that the kernel queues until they are accepted: the value that std uses.
const BACKLOG: i32 = 128;

/// A listening Unix socket. If [`bind`](Self::bind) created it, dropping removes its file.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    /// Path of the socket, if it is ours to remove.
    path: Option<PathBuf>,
}

impl Listener {
    /// Creates a socket and listens on it. `mode` decides who can connect;
    /// [`Access`](crate::Access) decides who may ask for what.
    ///
    /// Replaces an existing socket if no process listens on it. Returns an error if one does, or if
    /// the path is not a socket.
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        remove_stale(path)?;
        // The mode is set before any client can connect, whatever the umask.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let listener = Self { socket: socket.into(), path: Some(path.to_owned()) };
        chmod(path, Mode::from_raw_mode(mode))?;
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// Takes the socket passed by systemd, if there is one: the first of `LISTEN_FDS`. Must be
    /// called once, before any other thread starts.
    pub fn from_environment() -> io::Result<Option<Self>> {
        match listenfd::ListenFd::from_env().take_unix_listener(0)? {
            None => Ok(None),
            Some(socket) => Self::given(socket).map(Some),
        }
    }

    /// Takes a socket whose creator will remove it.
    pub fn given(socket: UnixListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: None })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// A listening TCP socket for scrapes of metrics. It accepts only loopback addresses, since clients
/// are not authenticated and nothing is encrypted.
#[derive(Debug)]
pub struct ScrapeListener {
    socket: TcpListener,
}

impl ScrapeListener {
    /// Parses an address from the configuration, such as `127.0.0.1:9110` or `[::1]:9110`. Returns
    /// the reason if it is not a loopback address with a port.
    pub fn address(text: &str) -> Result<SocketAddr, String> {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(address),
            Ok(address) => Err(format!(
                "{} is not a loopback address; metrics are served on loopback addresses only",
                address.ip()
            )),
            Err(_) => {
                Err(format!("\"{text}\" is not an IP address with a port, such as 127.0.0.1:9110"))
            }
        }
    }

    /// Listens on an address. Port 0 selects any free port.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let message = format!("{} is not a loopback address", address.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    /// Returns the address it listens on.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

impl AsFd for ScrapeListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(there) if !there.file_type().is_socket() => {
            let message = format!("{} exists and is not a socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => {
            let message = format!("another process listens on {}", path.display());
            Err(io::Error::new(io::ErrorKind::AddrInUse, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_or_a_file_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        // A socket without a listener: std does not remove it.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::bind(&path, 0o660).unwrap();
        UnixStream::connect(&path).unwrap();
        let error = Listener::bind(&path, 0o660).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        UnixStream::connect(&path).expect("the live one is still there");
        drop(listener);
        assert!(!path.exists(), "it is removed by whoever made it");

        fs::write(&path, "precious").unwrap();
        let error = Listener::bind(&path, 0o660).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn the_mode_is_what_was_asked_for() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        for mode in [0o660, 0o600, 0o666] {
            let path = scratch.path().join(format!("{mode:o}"));
            let _listener = Listener::bind(&path, mode).unwrap();
            let found = fs::symlink_metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o7777, mode);
        }
    }

    #[test]
    fn metrics_are_served_on_loopback_addresses_only() {
        for good in ["127.0.0.1:9110", "[::1]:9110", "127.1.2.3:0"] {
            ScrapeListener::address(good).unwrap();
        }
        for bad in ["0.0.0.0:9110", "[::]:9110", "192.168.0.1:9110", "[2001:db8::1]:1"] {
            let reason = ScrapeListener::address(bad).unwrap_err();
            assert!(reason.contains("loopback"), "{reason}");
            assert!(ScrapeListener::bind(bad.parse().unwrap()).is_err());
        }
        for bad in ["", "9110", "localhost:9110", "127.0.0.1"] {
            let reason = ScrapeListener::address(bad).unwrap_err();
            assert!(reason.contains("such as"), "{reason}");
        }
    }
}
