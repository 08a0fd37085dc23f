//! Servers that redirect to their newest archives, such as validators' RPC ports.

use std::{fmt, str::FromStr};

use crate::{Address, NotAnAddress};

/// A server that redirects to its newest archives. Without a scheme, plain HTTP is spoken to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer(Address);

/// Where a peer redirects to its newest archive of a kind. The names are historical.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Newest {
    /// The newest full archive.
    Full,
    /// The newest incremental archive upon it.
    Incremental,
}

impl Peer {
    /// Returns the host, without its port.
    pub fn host(&self) -> &str {
        self.0.host()
    }

    /// Returns the address of the newest archive of a kind.
    pub fn newest(&self, kind: Newest) -> Address {
        let path = match kind {
            Newest::Full => "/snapshot.tar.bz2",
            Newest::Incremental => "/incremental-snapshot.tar.bz2",
        };
        // A path leads to no other server, and is none that is refused.
        self.0.redirected(path).unwrap_or_else(|_| self.0.clone())
    }
}

impl FromStr for Peer {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let refused = |reason: &str| NotAnAddress {
            address: text.split(['?', '#', '@']).next().unwrap_or_default().to_owned(),
            reason: reason.to_owned(),
        };
        if Address::is_meant_by(text) {
            let address = Address::parse(text)?;
            if address.target() != "/" {
                return Err(refused("a peer is HOST:PORT, without a path"));
            }
            return Ok(Self(address));
        }
        // Port 80 is no validator's: who leaves the port out has forgotten it.
        let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(1..))) || text.contains(['/', '?', '#', '@', '\\']) {
            return Err(refused("a peer is HOST:PORT"));
        }
        Address::parse(&format!("http://{text}/")).map(Self)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_tls() {
            write!(formatter, "https://{}", self.0.authority())
        } else {
            formatter.write_str(&self.0.authority_with_port())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_host_and_a_port() {
        for (text, newest, shown) in [
            ("10.0.0.1:8899", "http://10.0.0.1:8899/snapshot.tar.bz2", "10.0.0.1:8899"),
            ("[::1]:8899", "http://[::1]:8899/snapshot.tar.bz2", "[::1]:8899"),
            ("rpc.example.org:80", "http://rpc.example.org/snapshot.tar.bz2", "rpc.example.org:80"),
            ("https://a.example", "https://a.example/snapshot.tar.bz2", "https://a.example"),
            ("http://a:1/", "http://a:1/snapshot.tar.bz2", "a:1"),
        ] {
            let peer: Peer = text.parse().unwrap();
            assert_eq!(peer.newest(Newest::Full).to_string(), newest);
            assert_eq!(peer.to_string(), shown);
            assert_eq!(shown.parse::<Peer>().unwrap(), peer);
        }
        let peer: Peer = "a:1".parse().unwrap();
        assert_eq!(peer.host(), "a");
        let newest = peer.newest(Newest::Incremental).to_string();
        assert_eq!(newest, "http://a:1/incremental-snapshot.tar.bz2");
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "",
            "a",
            ":1",
            "a:",
            "a:0",
            "a:99999",
            "a:1/x",
            "u:p@a:1",
            "http://u:p@a:1",
            "http://a:1/snapshot.tar.bz2",
            "ftp://a:1",
            "::1",
        ] {
            let error = text.parse::<Peer>().unwrap_err().to_string();
            assert!(!error.contains("p@"), "{error}");
        }
    }
}
