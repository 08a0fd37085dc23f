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

use crate::{Address, FetchError, Patience, head};

/// A server, and what is asked of it.
pub struct Site {
    /// Address, after all redirects.
    pub address: Address,
    /// Its host's addresses.
    pub hosts: Vec<SocketAddr>,
    /// Trusted certificates.
    pub tls: Arc<ClientConfig>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Waits.
    pub patience: Patience,
    /// First bytes of the archive.
    pub head: Vec<u8>,
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

/// Returns the addresses of the host.
pub fn look_up(address: &Address) -> Result<Vec<SocketAddr>, FetchError> {
    let found = (address.host(), address.port()).to_socket_addrs();
    let found: Vec<SocketAddr> = found
        .map_err(|error| FetchError::Connect {
            address: address.clone(),
            reason: error.to_string(),
        })?
        .collect();
    Ok(found)
}
