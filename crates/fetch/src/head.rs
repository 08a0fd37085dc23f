//! Heads of requests and answers.

use std::fmt::Write;

use crate::{Address, FetchError, Proxy};

/// Longest head of an answer in bytes. Browsers accept between 64 and 256 KiB.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Most header lines of an answer. A guess.
const HEADERS_MAX: usize = 128;

/// Returns a request for the bytes from `first` on, up to and including `last`. Of a proxy, plain
/// addresses are asked whole; to others it has connected.
pub fn request(
    address: &Address,
    (first, last): (u64, Option<u64>),
    if_match: Option<&str>,
    headers: &[(String, String)],
    proxy: Option<&Proxy>,
) -> String {
    let (host, proxy) = (address.authority(), proxy.filter(|_| !address.is_tls()));
    let (whole, line) = match proxy {
        Some(proxy) => (format!("http://{host}"), proxy.header_line()),
        None => Default::default(),
    };
    let mut text = format!(
        "GET {whole}{} HTTP/1.1\r\nHost: {host}\r\n{line}User-Agent: unsnap/{}\r\nAccept: */*\r\n\
         Accept-Encoding: identity\r\nRange: bytes={first}-",
        address.target(),
        env!("CARGO_PKG_VERSION"),
    );
    if let Some(last) = last {
        let _ = write!(text, "{last}");
    }
    if let Some(etag) = if_match {
        let _ = write!(text, "\r\nIf-Match: {etag}");
    }
    for (name, value) in headers {
        let _ = write!(text, "\r\n{name}: {value}");
    }
    text.push_str("\r\n\r\n");
    text
}

/// Returns a request to a proxy to connect to a server.
pub fn connect_request(address: &Address, proxy: &Proxy) -> String {
    let host = address.authority_with_port();
    format!(
        "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{}User-Agent: unsnap/{}\r\n\r\n",
        proxy.header_line(),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Returns a header of the form `Name: value`, if it can be sent.
pub fn parse_header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let value = value.trim();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_token);
    let is_value = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    // What these say is decided here.
    let is_ours = [
        "host",
        "range",
        "if-match",
        "accept-encoding",
        "connection",
        "content-length",
        "proxy-authorization",
    ]
    .iter()
    .any(|ours| name.eq_ignore_ascii_case(ours));
    (is_name && is_value && !is_ours).then(|| (name.to_owned(), value.to_owned()))
}

/// The head of an answer, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Status code and reason, for people.
    pub status_line: String,
    /// `Content-Length`
    pub content_bytes: Option<u64>,
    /// `Content-Range`
    pub range: Option<ContentRange>,
    /// `ETag`, if it is a strong one.
    pub etag: Option<String>,
    /// `Last-Modified`
    pub last_modified: Option<String>,
    /// `Location`
    pub location: Option<String>,
    /// Why the body cannot be received as it is, such as `Transfer-Encoding`.
    pub encoded: Option<String>,
    /// The server closes the connection after the body.
    pub closes: bool,
}

/// The part of the archive that a body consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte.
    pub last: u64,
    /// Length of the archive.
    pub total: u64,
}

impl Head {
    /// Parses the head at the beginning of `bytes`. Returns its length as well; `None` if it goes on
    /// behind them.
    pub fn parse(bytes: &[u8], address: &Address) -> Result<Option<(Self, usize)>, FetchError> {
        let refused = |reason: String| FetchError::Protocol { address: address.clone(), reason };
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response
            .parse(bytes)
            .map_err(|error| refused(format!("the answer is not HTTP: {error}")))?;
        let length = match parsed {
            httparse::Status::Complete(length) if length <= HEAD_BYTES_MAX => length,
            httparse::Status::Partial if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
            _ => {
                return Err(refused(format!(
                    "the head of the answer is longer than {HEAD_BYTES_MAX} bytes"
                )));
            }
        };
        let status = response.code.unwrap_or_default();
        let reason: String =
            response.reason.unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
        let mut head = Self {
            status,
            status_line: format!("{status} {reason}").trim_end().to_owned(),
            closes: response.version == Some(0),
            ..Self::default()
        };
        for header in response.headers.iter() {
            let value = || str::from_utf8(header.value).unwrap_or_default().trim().to_owned();
            let name = header.name.to_ascii_lowercase();
            match &*name {
                "content-length" => {
                    let bytes = value().parse().map_err(|_| {
                        refused(format!("Content-Length is no length: {:?}", value()))
                    })?;
                    if head.content_bytes.is_some_and(|known| known != bytes) {
                        return Err(refused("there are two different lengths".to_owned()));
                    }
                    head.content_bytes = Some(bytes);
                }
                "content-range" => {
                    head.range = ContentRange::parse(&value());
                    if head.range.is_none() && status == 206 {
                        return Err(refused(format!("Content-Range is unusable: {:?}", value())));
                    }
                }
                "etag" => head.etag = Some(value()).filter(|etag| is_strong(etag)),
                "last-modified" => head.last_modified = Some(value()),
                "location" => head.location = Some(value()),
                "transfer-encoding" => {
                    head.encoded = Some(format!("Transfer-Encoding: {}", value()));
                }
                "content-encoding" if !value().eq_ignore_ascii_case("identity") => {
                    head.encoded = Some(format!("Content-Encoding: {}", value()));
                }
                "connection" => head.closes |= value().eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        Ok(Some((head, length)))
    }
}

impl ContentRange {
    fn parse(value: &str) -> Option<Self> {
        let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let range = Self {
            first: first.trim().parse().ok()?,
            last: last.trim().parse().ok()?,
            total: total.trim().parse().ok()?,
        };
        (range.first <= range.last && range.last < range.total).then_some(range)
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// Returns whether two objects with this tag have the same bytes, and whether it can be sent back.
fn is_strong(etag: &str) -> bool {
    let inner = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"'));
    inner.is_some_and(|inner| {
        inner.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'"')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address::parse("http://a:1/x?y").unwrap()
    }

    fn parse(text: &str) -> Result<Option<(Head, usize)>, FetchError> {
        Head::parse(text.as_bytes(), &address())
    }

    #[test]
    fn a_request_asks_for_a_range_of_the_very_object() {
        let headers = [("Authorization".to_owned(), "Bearer x".to_owned())];
        let text = request(&address(), (5, Some(9)), Some("\"e\""), &headers, None);
        assert!(text.starts_with("GET /x?y HTTP/1.1\r\nHost: a:1\r\n"), "{text}");
        assert!(
            text.contains("\r\nRange: bytes=5-9\r\nIf-Match: \"e\"\r\nAuthorization: Bearer x\r\n")
        );
        assert!(text.ends_with("\r\n\r\n"));
        let all = request(&address(), (0, None), None, &[], None);
        assert!(all.contains("Range: bytes=0-\r\n\r\n"), "{all}");
    }

    #[test]
    fn a_proxy_is_asked_for_plain_addresses_only() {
        let proxy = Proxy::parse("http://me:x@p:3").unwrap();
        let text = request(&address(), (0, None), None, &[], Some(&proxy));
        let begins =
            "GET http://a:1/x?y HTTP/1.1\r\nHost: a:1\r\nProxy-Authorization: Basic bWU6eA==\r\n";
        assert!(text.starts_with(begins), "{text}");
        // What a server would see of the connection's inside is none of the proxy's business.
        let inside = Address::parse("https://[::1]/x").unwrap();
        let text = request(&inside, (0, None), None, &[], Some(&proxy));
        assert!(text.starts_with("GET /x HTTP/1.1\r\n") && !text.contains("Proxy"), "{text}");
        let text = connect_request(&inside, &proxy);
        assert!(
            text.starts_with("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-"),
            "{text}"
        );
    }

    #[test]
    fn headers_cannot_be_smuggled_in() {
        assert_eq!(parse_header("X-Key:  a b "), Some(("X-Key".to_owned(), "a b".to_owned())));
        for text in ["", "x", ": x", "a b: c", "a: b\r\nc: d", "Range: bytes=0-", "HOST: a", "a: ä"]
        {
            assert_eq!(parse_header(text), None, "{text}");
        }
    }

    #[test]
    fn what_matters_is_found_in_a_head() {
        let text = "HTTP/1.1 206 Partial Content\r\ncontent-length: 5\r\n\
                    Content-Range: bytes 5-9/100\r\nETag: \"abc\"\r\nLast-Modified: then\r\n\
                    Content-Encoding: identity\r\nConnection: Close\r\n\r\nbody";
        let (head, length) = parse(text).unwrap().unwrap();
        assert_eq!(&text[length..], "body");
        assert_eq!((head.status, head.content_bytes), (206, Some(5)));
        assert_eq!(head.range, Some(ContentRange { first: 5, last: 9, total: 100 }));
        assert_eq!(head.range.unwrap().bytes(), 5);
        assert_eq!(head.etag.as_deref(), Some("\"abc\""));
        assert_eq!(head.last_modified.as_deref(), Some("then"));
        assert_eq!((head.encoded, head.closes), (None, true));
        assert_eq!(head.status_line, "206 Partial Content");
        // A weak tag says that the meaning is the same.
        let (head, _) =
            parse("HTTP/1.0 303 See\r\nETag: W/\"a\"\r\nLocation: /b\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.etag, head.location.as_deref(), head.closes), (None, Some("/b"), true));
        for end in 0..length {
            assert_eq!(parse(&text[..end]).unwrap(), None, "{end}");
        }
    }

    #[test]
    fn unusable_heads_are_refused() {
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 206 OK\r\nContent-Range: bytes 5-4/10\r\n\r\n",
            "HTTP/1.1 206 OK\r\nContent-Range: bytes 5-10/10\r\n\r\n",
            "HTTP/1.1 206 OK\r\nContent-Range: bytes 5-6/*\r\n\r\n",
            &endless,
            &many,
        ] {
            assert!(parse(text).is_err(), "{}", &text[..60.min(text.len())]);
        }
        for encoded in ["Transfer-Encoding: chunked", "Content-Encoding: gzip"] {
            let head = parse(&format!("HTTP/1.1 200 OK\r\n{encoded}\r\n\r\n")).unwrap().unwrap().0;
            assert_eq!(head.encoded.as_deref(), Some(encoded));
        }
    }
}
