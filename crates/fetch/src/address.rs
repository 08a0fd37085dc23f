//! Addresses of archives.

use std::fmt;

use url::{ParseError, Url};

/// Longest address in bytes. A guess: presigned addresses of object stores have some 1,500.
const ADDRESS_BYTES_MAX: usize = 8192;

/// An `http://` or `https://` address. It is displayed without its query, which may contain
/// credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(Box<Url>);

impl Address {
    /// Returns whether a text, such as an argument, is meant as an address and not as a path.
    pub fn is_meant_by(text: &str) -> bool {
        let begins = |scheme: &str| {
            text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
        };
        begins("http://") || begins("https://")
    }

    /// Parses an address.
    ///
    /// # Errors
    ///
    /// For another scheme, a missing host, or a user name or password, which would appear in lists of
    /// processes.
    pub fn parse(text: &str) -> Result<Self, NotAnAddress> {
        let refused = |reason: &str| NotAnAddress {
            address: text.split(['?', '#']).next().unwrap_or_default().to_owned(),
            reason: reason.to_owned(),
        };
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(refused("it is too long"));
        }
        let url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
        Self::of(url).map_err(|reason| match reason {
            // The text has a password in it.
            Refused::Credentials => NotAnAddress {
                address: "the address".to_owned(),
                reason: "it contains a user name or a password: give them in a header".to_owned(),
            },
            Refused::Other(reason) => refused(reason),
        })
    }

    fn of(mut url: Url) -> Result<Self, Refused> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Other("only http:// and https:// are supported"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(Refused::Other("it names no host"));
        }
        url.set_fragment(None);
        Ok(Self(Box::new(url)))
    }

    /// Returns the address that a redirect leads to, or why it is not followed. It never leads from TLS
    /// to plain text.
    pub fn redirected(&self, location: &str) -> Result<Self, String> {
        if location.len() > ADDRESS_BYTES_MAX {
            return Err("it redirects to an address that is too long".to_owned());
        }
        let next = self.0.join(location).map_err(|error: ParseError| {
            format!("it redirects to something that is no address: {error}")
        })?;
        let next = Self::of(next).map_err(|reason| match reason {
            Refused::Credentials => "it redirects to an address with a password".to_owned(),
            Refused::Other(reason) => {
                format!("it redirects to an address that is refused: {reason}")
            }
        })?;
        if self.is_tls() && !next.is_tls() {
            return Err(format!("it redirects from https to plain http, to {next}"));
        }
        Ok(next)
    }

    /// Returns the address of a file in this directory, with the same query. `path` has plain names.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        // Addresses of these schemes have paths.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/'));
        }
        Self(url)
    }

    /// Returns whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Returns whether credentials for one address may be sent to the other.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        self.0.origin() == other.0.origin()
    }

    /// Returns the address as it is displayed, if nothing of it is hidden.
    pub(crate) fn as_shown(&self) -> Option<&str> {
        self.0.query().is_none().then(|| self.0.as_str())
    }

    /// Returns the host as for a connection: a name, or an IP address without brackets.
    pub fn host(&self) -> &str {
        let host = self.0.host_str().unwrap_or_default();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(80)
    }

    /// Returns the value of the header `Host`.
    pub fn authority(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Returns host and port, also if it is the usual one.
    pub fn authority_with_port(&self) -> String {
        format!("{}:{}", self.0.host_str().unwrap_or_default(), self.port())
    }

    /// Returns path and query, as in the first line of a request.
    pub fn target(&self) -> String {
        match self.0.query() {
            Some(query) => format!("{}?{query}", self.0.path()),
            None => self.0.path().to_owned(),
        }
    }

    /// Returns the name of the file: the last part of the path, which may be empty.
    pub fn file_name(&self) -> &str {
        self.0.path().rsplit('/').next().unwrap_or_default()
    }
}

/// A text that is no usable address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {reason}")]
pub struct NotAnAddress {
    /// The text without its query, or what else can be shown of it.
    pub address: String,
    /// Reason.
    pub reason: String,
}

enum Refused {
    Credentials,
    Other(&'static str),
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", self.0.scheme(), self.authority(), self.0.path())?;
        if self.0.query().is_some() { formatter.write_str("?…") } else { Ok(()) }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_addresses_or_paths() {
        for address in ["http://a", "https://a/b", "HTTPS://A"] {
            assert!(Address::is_meant_by(address), "{address}");
        }
        for path in ["-", "http:/a", "https", "/http://a", "ähttp://", "s3://a"] {
            assert!(!Address::is_meant_by(path), "{path}");
        }
    }

    #[test]
    fn an_address_has_what_a_request_needs() {
        let address = Address::parse("http://[::1]:8899/a/snapshot.tar.bz2?key=secret#x").unwrap();
        assert_eq!((address.host(), address.port()), ("::1", 8899));
        assert_eq!(address.authority(), "[::1]:8899");
        assert_eq!(address.target(), "/a/snapshot.tar.bz2?key=secret");
        assert_eq!(address.file_name(), "snapshot.tar.bz2");
        assert!(!address.is_tls());
        assert_eq!(address.as_shown(), None);
        for text in [address.to_string(), format!("{address:?}")] {
            assert_eq!(text, "http://[::1]:8899/a/snapshot.tar.bz2?…");
        }
        let address = Address::parse("https://Example.org").unwrap();
        assert_eq!((address.host(), address.port(), address.is_tls()), ("example.org", 443, true));
        assert_eq!((address.authority().as_str(), address.file_name()), ("example.org", ""));
        assert_eq!(address.as_shown(), Some(address.to_string().as_str()));
    }

    #[test]
    fn what_is_no_address_is_a_wrong_request() {
        let long = format!("http://a/{}", "x".repeat(ADDRESS_BYTES_MAX));
        for text in ["", "http://", "ftp://a/b", "file:///etc/passwd", "http://a:99999/", &long] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        let error = Address::parse("http://me:secret@a/b").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn a_redirect_never_leaves_tls_nor_http() {
        let from = Address::parse("https://a/snapshot.tar.bz2").unwrap();
        let to = |location: &str| from.redirected(location);
        assert_eq!(to("/snapshot-5-x.tar.zst").unwrap().file_name(), "snapshot-5-x.tar.zst");
        assert_eq!(to("https://b:8902/x").unwrap().port(), 8902);
        for location in ["http://a/x", "file:///x", "https://u:p@b/x", "https://:0:/"] {
            assert!(to(location).is_err(), "{location}");
        }
        let plain = Address::parse("http://a/x").unwrap();
        assert!(plain.redirected("https://b/").is_ok());
        assert!(!plain.is_same_origin(&from));
        assert!(from.is_same_origin(&to("/other").unwrap()));
    }
}
