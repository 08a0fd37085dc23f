//! A server, and what every connection to it needs.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use unsnap_source::{DigestKind, Hasher};

use crate::{Address, FetchError, Patience, Proxies, Proxy, head};

/// A server, and what is asked of it.
pub struct Site {
    /// Address, after all redirects.
    pub address: Address,
    /// The way to it.
    pub route: Route,
    /// Trusted certificates.
    pub tls: Arc<ClientConfig>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Waits.
    pub patience: Patience,
    /// First bytes of the archive.
    pub head: Vec<u8>,
}

/// The way to a server.
#[derive(Clone, Debug)]
pub struct Route {
    /// Addresses of its host, or of the proxy's.
    pub hosts: Vec<SocketAddr>,
    /// The proxy.
    pub proxy: Option<Proxy>,
}

impl Route {
    /// Looks up the host of an address, or that of the proxy for it.
    pub fn to(address: &Address, proxies: &Proxies) -> Result<Self, FetchError> {
        let proxy = proxies.of(address).cloned();
        let host = proxy
            .as_ref()
            .map_or_else(|| (address.host(), address.port()), |proxy| (proxy.host(), proxy.port()));
        let found = host.to_socket_addrs().map_err(|error| FetchError::Connect {
            address: address.clone(),
            reason: match &proxy {
                Some(proxy) => format!("the proxy {proxy}: {error}"),
                None => error.to_string(),
            },
        })?;
        Ok(Self { hosts: found.collect(), proxy })
    }

    /// Returns the only port that is connected to.
    pub fn port(&self, address: &Address) -> u16 {
        self.proxy.as_ref().map_or_else(|| address.port(), Proxy::port)
    }
}

impl Site {
    /// Returns a hasher that contains the first bytes.
    pub fn head_hasher(&self) -> Hasher {
        let mut hasher = DigestKind::Xxh3.hasher();
        hasher.update(&self.head);
        hasher
    }
}

/// Parses further headers of requests.
pub fn parse_headers(headers: &[String]) -> Result<Vec<(String, String)>, FetchError> {
    let parse = |text: &String| {
        head::parse_header(text).ok_or_else(|| FetchError::Address {
            // The value may be a secret.
            address: format!("the header {:?}", text.split(':').next().unwrap_or_default()),
            reason: "it is not \"Name: value\", or not one that can be chosen".to_owned(),
        })
    };
    headers.iter().map(parse).collect()
}

/// Returns the certificates that are trusted: those of Mozilla, and those in these files.
pub fn trusted(authorities: &[PathBuf]) -> Result<ClientConfig, FetchError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for path in authorities {
        let refused = |reason: String| FetchError::Address {
            address: path.display().to_string(),
            reason: format!("no certificates: {reason}"),
        };
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))?;
        let mut found = 0;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| refused(error.to_string()))?;
            roots.add(certificate).map_err(|error| refused(error.to_string()))?;
            found += 1;
        }
        if found == 0 {
            return Err(refused("the file contains none".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| FetchError::Address {
        address: "TLS".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
