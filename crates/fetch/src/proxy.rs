//! Proxies, and for which addresses they are used.

use std::{fmt, net::IpAddr};

use base64::{Engine, engine::general_purpose::STANDARD};
use url::Url;

use crate::{Address, NotAnAddress};

/// Port of a proxy that names none, as of curl.
const DEFAULT_PORT: u16 = 1080;

/// A proxy that is spoken to in plain HTTP. Plain addresses are asked of it, and to others it connects
/// (`CONNECT`). It is displayed without its user and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    /// Value of the header `Proxy-Authorization`.
    authorization: Option<String>,
}

/// Which proxies are used for which addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    plain: Option<Proxy>,
    tls: Option<Proxy>,
    except: Vec<Exception>,
}

/// Hosts that are connected to without a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    All,
    /// A name, and all names below it; perhaps only at one port.
    Name(String, Option<u16>),
    /// An IP address; perhaps only at one port.
    Ip(IpAddr, Option<u16>),
    /// IP addresses that begin with these bits.
    Network(IpAddr, u32),
}

impl Proxy {
    /// Parses the address of a proxy: `http://[USER:PASSWORD@]HOST[:PORT]`, where `http://` may be
    /// missing.
    ///
    /// # Errors
    ///
    /// For other schemes. The error does not show the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, NotAnAddress> {
        let refused = |reason: &str| NotAnAddress {
            address: "the proxy's address".to_owned(),
            reason: reason.to_owned(),
        };
        let text = text.trim();
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&whole).map_err(|error| refused(&error.to_string()))?;
        if url.scheme() != "http" {
            return Err(refused("only proxies at http:// are supported"));
        }
        let host = url.host_str().unwrap_or_default();
        if host.is_empty() {
            return Err(refused("it names no host"));
        }
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        // Of a URL, the default port cannot be told from none. Who means 80 has written it.
        let port = url.port().unwrap_or(if names_port_80(&whole) { 80 } else { DEFAULT_PORT });
        let password = url.password().unwrap_or_default();
        let authorization = (!url.username().is_empty() || !password.is_empty()).then(|| {
            let [user, password] = [url.username(), password].map(decoded);
            let both = [&user[..], b":", &password[..]].concat();
            format!("Basic {}", STANDARD.encode(both))
        });
        Ok(Self { host: host.to_owned(), port, authorization })
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the header line that lets the proxy serve us; empty if it serves everybody.
    pub(crate) fn header_line(&self) -> String {
        let line = |value| format!("Proxy-Authorization: {value}\r\n");
        self.authorization.as_ref().map(line).unwrap_or_default()
    }
}

fn names_port_80(url: &str) -> bool {
    let authority = url.split("://").nth(1).unwrap_or_default();
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().is_some_and(|host| host.ends_with(":80"))
}

/// Decodes what a URL has encoded by `%`.
fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes
}

impl Proxies {
    /// Returns one proxy for all addresses.
    pub fn all(proxy: Proxy) -> Self {
        Self { plain: Some(proxy.clone()), tls: Some(proxy), except: Vec::new() }
    }

    /// Returns the proxies that variables of the environment name, by the rules of curl: `http_proxy`,
    /// `https_proxy`, `all_proxy` and `no_proxy`; in upper case all but the first, which a web server
    /// would set from a header of a request.
    ///
    /// # Errors
    ///
    /// For a proxy that is not supported.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, NotAnAddress> {
        let first = |names: &[&str]| {
            names.iter().find_map(|name| variable(name).filter(|value| !value.trim().is_empty()))
        };
        let proxy = |names: &[&str]| first(names).map(|text| Proxy::parse(&text)).transpose();
        let except = first(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
        Ok(Self {
            plain: proxy(&["http_proxy", "all_proxy", "ALL_PROXY"])?,
            tls: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
            except: except.split([',', ' ']).filter_map(Exception::parse).collect(),
        })
    }

    /// Returns the proxy for an address; `None` if it is connected to directly.
    pub(crate) fn of(&self, address: &Address) -> Option<&Proxy> {
        let (host, port) = (address.host().to_ascii_lowercase(), address.port());
        if self.except.iter().any(|exception| exception.holds(&host, port)) {
            return None;
        }
        if address.is_tls() { self.tls.as_ref() } else { self.plain.as_ref() }
    }
}

impl Exception {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text == "*" {
            return Some(Self::All);
        }
        if let Some((network, bits)) = text.split_once('/') {
            return Some(Self::Network(network.parse().ok()?, bits.parse().ok()?));
        }
        let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if let Ok(ip) = bare(&text).parse() {
            return Some(Self::Ip(ip, None));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (&*text, None),
        };
        if let Ok(ip) = bare(host).parse() {
            return Some(Self::Ip(ip, port));
        }
        let name = host.trim_start_matches("*.").trim_start_matches('.').trim_end_matches('.');
        (!name.is_empty()).then(|| Self::Name(name.to_owned(), port))
    }

    fn holds(&self, host: &str, port: u16) -> bool {
        let ip = || host.parse::<IpAddr>().ok();
        let is_at = |only: &Option<u16>| only.is_none_or(|only| only == port);
        match self {
            Self::All => true,
            Self::Name(name, only) => {
                let host = host.trim_end_matches('.');
                let above = host.strip_suffix(name.as_str());
                is_at(only) && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
            Self::Ip(known, only) => is_at(only) && ip() == Some(*known),
            Self::Network(network, bits) => match (network, ip()) {
                (IpAddr::V4(network), Some(IpAddr::V4(ip))) => {
                    let differ = u32::from(*network) ^ u32::from(ip);
                    differ.leading_zeros() >= *bits
                }
                (IpAddr::V6(network), Some(IpAddr::V6(ip))) => {
                    let differ = u128::from(*network) ^ u128::from(ip);
                    differ.leading_zeros() >= *bits
                }
                _ => false,
            },
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            write!(formatter, "[{host}]:{port}")
        } else {
            write!(formatter, "{host}:{port}")
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)], address: &str) -> Option<String> {
        let get = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxies = Proxies::of_environment(get).unwrap();
        proxies.of(&Address::parse(address).unwrap()).map(Proxy::to_string)
    }

    #[test]
    fn variables_name_the_proxy_of_each_kind_of_address() {
        let both = [("http_proxy", "http://a:1"), ("https_proxy", "b:2/")];
        assert_eq!(of(&both, "http://x/").as_deref(), Some("a:1"));
        assert_eq!(of(&both, "https://x/").as_deref(), Some("b:2"));
        // A web server sets it from a header of a request.
        assert_eq!(of(&[("HTTP_PROXY", "a:1")], "http://x/"), None);
        assert_eq!(of(&[("HTTPS_PROXY", "a")], "https://x/").as_deref(), Some("a:1080"));
        let all = [("ALL_PROXY", "http://a:80"), ("http_proxy", " ")];
        assert_eq!(of(&all, "http://x/").as_deref(), Some("a:80"));
        assert_eq!(of(&[], "http://x/"), None);
    }

    #[test]
    fn hosts_may_be_left_out() {
        for (except, host, direct) in [
            ("*", "http://x/", true),
            ("b.c", "http://b.c/", true),
            ("b.c", "http://a.B.c./", true),
            (".b.c", "http://b.c/", true),
            ("*.b.c,x", "http://a.b.c/", true),
            ("b.c", "http://ab.c/", false),
            ("c:81", "http://c:81/", true),
            ("c:81", "http://c:82/", false),
            ("10.0.0.0/8 , x", "http://10.1.2.3/", true),
            ("10.0.0.0/8", "http://11.1.2.3/", false),
            ("0.0.0.0/0", "http://11.1.2.3/", true),
            ("10.0.0.0/99", "http://10.0.0.0/", false),
            ("10.1.2.3", "http://10.1.2.3:9/", true),
            ("10.1.2.3:8", "http://10.1.2.3:9/", false),
            ("::1", "http://[::1]/", true),
            ("[::1]:9", "http://[::1]:9/", true),
            ("fe80::/10", "http://[fe81::1]/", true),
            (",,/,:,x:y,1/z", "http://x/", false),
        ] {
            let variables = [("all_proxy", "p"), ("no_proxy", except)];
            assert_eq!(of(&variables, host).is_none(), direct, "{except} {host}");
        }
    }

    #[test]
    fn passwords_are_sent_and_never_shown() {
        let proxy = Proxy::parse("http://us%65r:p%40ss:w%zz@[::1]:3128").unwrap();
        let shown = format!("{proxy} {proxy:?} {:?}", Proxies::all(proxy.clone()));
        assert!(!shown.contains("ss:w") && shown.starts_with("[::1]:3128 "), "{shown}");
        let line = proxy.header_line();
        let sent = line.strip_prefix("Proxy-Authorization: Basic ").unwrap().trim();
        assert_eq!(STANDARD.decode(sent).unwrap(), b"user:p@ss:w%zz");
        assert_eq!(Proxy::parse("a").unwrap().header_line(), "");
        for text in ["", "https://u:secret@a", "socks5://secret@a", "http://u:secret@:1", "http://"]
        {
            let error = Proxy::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
