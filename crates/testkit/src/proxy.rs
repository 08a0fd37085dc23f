//! A proxy, as many sites have one: plain addresses are asked of it, and to others it connects.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Longest head that is read.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Interval at which a silent connection looks whether the proxy is to end.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// A running proxy, which ends when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

struct Shared {
    /// The only value of `Proxy-Authorization` that is served.
    authorization: Option<String>,
    heads: Mutex<Vec<String>>,
    ends: AtomicBool,
}

impl Proxy {
    /// Starts a proxy on a free port of this machine. With `authorization`, others are refused.
    pub fn start(authorization: Option<&str>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            authorization: authorization.map(str::to_owned),
            heads: Mutex::default(),
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
                        // Clients and servers that go away are no fault.
                        let _ = shared.serve(socket);
                    });
                }
            });
        });
        Self { address, shared, listening: Some(listening) }
    }

    /// Returns host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Proxy {
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
    /// Serves requests for plain addresses until there is one to connect.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_read_timeout(Some(STOP_CHECK))?;
        while let Some(head) = self.head(&mut client)? {
            self.heads.lock().unwrap_or_else(PoisonError::into_inner).push(head.clone());
            let sent = |line: &str| line.strip_prefix("Proxy-Authorization: ").map(str::to_owned);
            if self.authorization.is_some() && head.lines().find_map(sent) != self.authorization {
                let refused =
                    "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
                client.write_all(refused.as_bytes())?;
                continue;
            }
            let (line, rest) = head.split_once("\r\n").unwrap_or((&head, ""));
            let mut words = line.split(' ');
            let (method, target) = (words.next(), words.next().unwrap_or_default());
            if method == Some("CONNECT") {
                let server = TcpStream::connect(target)?;
                client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
                return self.join(client, server);
            }
            let plain = target.strip_prefix("http://").ok_or(io::ErrorKind::InvalidData)?;
            let (host, path) = plain.split_once('/').ok_or(io::ErrorKind::InvalidData)?;
            let mut server = TcpStream::connect(host)?;
            // One request a connection: the server's answer ends with it.
            write!(server, "GET /{path} HTTP/1.1\r\nConnection: close\r\n{rest}")?;
            server.shutdown(Shutdown::Write)?;
            self.pass(&mut server, &mut client)?;
            return client.shutdown(Shutdown::Both);
        }
        Ok(())
    }

    /// Reads a head; `None` if the client or the proxy has ended.
    fn head(&self, client: &mut TcpStream) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match client.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) if bytes.len() < HEAD_BYTES_MAX => bytes.push(byte[0]),
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
                Err(error) if is_idle(&error) && !self.ends.load(Ordering::Relaxed) => {}
                Err(error) if is_idle(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Passes on what either side sends until one of them ends.
    fn join(&self, mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
        let (mut to_client, mut of_server) = (client.try_clone()?, server.try_clone()?);
        thread::scope(|scope| {
            scope.spawn(move || {
                let _ = self.pass(&mut of_server, &mut to_client);
                let _ = to_client.shutdown(Shutdown::Both);
            });
            let _ = self.pass(&mut client, &mut server);
            server.shutdown(Shutdown::Both)
        })
    }

    fn pass(&self, from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
        from.set_read_timeout(Some(STOP_CHECK))?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => to.write_all(&buffer[..count])?,
                Err(error) if is_idle(&error) && !self.ends.load(Ordering::Relaxed) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_idle(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
