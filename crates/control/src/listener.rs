//! The socket that clients connect to.

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

/// Connections that the kernel keeps until they are accepted. What std uses for listeners of its own.
const BACKLOG: i32 = 128;

/// A listening Unix socket. One that was made here is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
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

/// A listening TCP socket for scrapes of metrics, on a loopback address: who asks there is not known,
/// and nothing is encrypted.
#[derive(Debug)]
pub struct ScrapeListener {
    socket: TcpListener,
}

impl ScrapeListener {
    /// Reads an address as a configuration has it: `127.0.0.1:9110` or `[::1]:9110`. Any other than a
    /// loopback address is refused, with the reason.
    pub fn address(text: &str) -> Result<SocketAddr, String> {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(address),
            Ok(address) => Err(format!(
                "{} is no loopback address, and metrics are served on no other",
                address.ip()
            )),
            Err(_) => Err(format!("\"{text}\" is no address with a port, such as 127.0.0.1:9110")),
        }
    }

    /// Listens. Port 0 is any that is free.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let message = format!("{} is no loopback address", address.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    /// Where it listens.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_or_a_file_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        // One that nobody listens on any more: std does not remove it.
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
