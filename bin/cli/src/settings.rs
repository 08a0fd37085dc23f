//! Options of the libraries, from defaults, a file of limits and flags; later ones take precedence.

use std::path::Path;

use serde::Deserialize;
use unsnap_failure::Remedy;
use unsnap_fetch::{Address, FetchError, FetchOptions, Patience, Proxies, Proxy};
use unsnap_pass::{
    Archive, DirectMode, Io, IoEngine, Options, PEERS_MAX, PassError, Peers, RemoteArchive,
    Resources, SandboxMode,
};
use unsnap_settings::LimitsTable;
pub use unsnap_settings::parse_size;

use crate::args::{Decoder, DirectIo, Engine, FetchArgs, IoArgs, OfferedArgs, PeerArgs};

/// An invalid request. Exit code 2.
#[derive(Debug)]
pub struct RequestError(pub String);

impl std::fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for RequestError {}

/// Returns the archive with this name; `-` is standard input, and `http://` or `https://` begin an
/// address. Asks the server where the archive is if the address does not have a snapshot's name.
pub fn archive(name: &Path, fetch: &FetchArgs, is_confined: bool) -> Result<Archive, PassError> {
    match remote(name, fetch, is_confined)? {
        Some(remote) => Ok(Archive::Remote(Box::new(remote.resolved(&|| false)?))),
        None => Ok(local_archive(name)),
    }
}

/// Returns the archive at this address; `None` if it is a path. Asks nobody.
pub fn remote(
    name: &Path,
    fetch: &FetchArgs,
    is_confined: bool,
) -> Result<Option<RemoteArchive>, PassError> {
    let address = name.to_str().filter(|name| Address::is_meant_by(name));
    let Some(address) = address else { return Ok(None) };
    let options = fetching(fetch, is_confined)?;
    let address = Address::parse(address).map_err(FetchError::from)?;
    let expected = fetch.expect_name.clone();
    Ok(Some(RemoteArchive { expected, ..RemoteArchive::new(address, options) }))
}

/// Returns how to fetch.
pub fn fetching(fetch: &FetchArgs, is_confined: bool) -> Result<FetchOptions, PassError> {
    let FetchArgs { header, ca, proxy, connections, retry_for, .. } = fetch;
    let proxies = match proxy.as_deref() {
        Some("none") => Proxies::default(),
        Some(proxy) => Proxies::all(Proxy::parse(proxy).map_err(FetchError::from)?),
        None => {
            Proxies::of_environment(|name| std::env::var(name).ok()).map_err(FetchError::from)?
        }
    };
    Ok(FetchOptions {
        headers: header.clone(),
        authorities: ca.clone(),
        links: usize::from(*connections),
        proxies,
        patience: Patience { give_up: *retry_for, ..Patience::default() },
        confined: is_confined,
    })
}

/// Returns the peers; `None` if there are none. Asks nobody.
pub fn peers(
    args: &PeerArgs,
    fetch: &FetchArgs,
    is_confined: bool,
) -> Result<Option<Peers>, PassError> {
    let PeerArgs { peer, agree } = args;
    if peer.is_empty() {
        return Ok(None);
    }
    if peer.len() > PEERS_MAX {
        return Err(PassError::request(format!("more than {PEERS_MAX} peers")));
    }
    let agree = usize::from(*agree);
    if agree > peer.len() {
        let reason = format!("{agree} of {} peers cannot agree", peer.len());
        return Err(PassError::request(reason));
    }
    Ok(Some(Peers {
        servers: peer.clone(),
        options: fetching(fetch, is_confined)?,
        agree,
        expected: fetch.expect_name.clone(),
    }))
}

/// Returns the archives on servers. Asks nobody.
pub fn offered(
    archives: &OfferedArgs,
    fetch: &FetchArgs,
    is_confined: bool,
) -> Result<Vec<RemoteArchive>, PassError> {
    let each = archives.archive.iter().map(|archive| {
        remote(archive, fetch, is_confined)?.ok_or_else(|| {
            let archive = archive.display();
            PassError::request_with(
                format!("{archive} is not an address"),
                Remedy::advice("put a file into the validator's directory of archives"),
            )
        })
    });
    each.collect()
}

/// Returns the archive with this name; `-` is standard input.
pub fn local_archive(name: &Path) -> Archive {
    match name.as_os_str().as_encoded_bytes() {
        b"-" => Archive::Stdin,
        _ => Archive::File(name.to_owned()),
    }
}

/// Returns the options for reading archives. Reads the file of limits, if one is given.
pub fn reading(io: &IoArgs) -> anyhow::Result<Options> {
    let mut options = Options {
        io: Io {
            direct: match io.use_direct_io {
                DirectIo::Auto => DirectMode::Auto,
                DirectIo::On => DirectMode::On,
                DirectIo::Off => DirectMode::Off,
            },
            engine: match io.io_engine {
                Engine::Auto => IoEngine::Auto,
                Engine::Uring => IoEngine::Uring,
                Engine::Threads => IoEngine::Threads,
            },
            ..Io::default()
        },
        resources: Resources {
            decode_threads: io.decode_threads.map(usize::from),
            decoder: match io.decoder {
                Decoder::Auto => unsnap_pass::Decoder::Auto,
                Decoder::Own => unsnap_pass::Decoder::Own,
                Decoder::Libzstd => unsnap_pass::Decoder::Libzstd,
            },
            memory_budget: io.memory_budget,
            hugetlb: io.hugetlb,
        },
        sandbox: if io.no_sandbox { SandboxMode::Off } else { SandboxMode::Auto },
        ..Options::default()
    };
    if let Some(path) = io.config.as_ref().filter(|path| !path.as_os_str().is_empty()) {
        LimitsFile::read(path)?.limits.apply(&mut options.limits);
    }
    Ok(options)
}

/// A file of limits. `config/ledger-tool.toml` explains every key.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitsFile {
    limits: LimitsTable,
}

impl LimitsFile {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| RequestError(format!("cannot read {}: {error}", path.display())))?;
        let file = toml::from_str(&text).map_err(|error| {
            // The code and the hint follow on the same line.
            let error = error.to_string();
            RequestError(format!("{}: {}", path.display(), error.trim_end()))
        })?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnap_pass::Limits;

    #[test]
    fn the_shipped_configuration_holds_the_defaults() {
        let text = include_str!("../../../config/ledger-tool.toml");
        let file: LimitsFile = toml::from_str(text).unwrap();
        let mut limits = Limits::default();
        let keys = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        assert_eq!(keys.count(), 12, "every key is in the file");
        file.limits.apply(&mut limits);
        assert_eq!(format!("{limits:?}"), format!("{:?}", Limits::default()));
    }

    #[test]
    fn unknown_keys_are_refused() {
        let error = toml::from_str::<LimitsFile>("[limits]\nframe_max = 3").unwrap_err();
        assert!(error.to_string().contains("frames_max"), "{error}");
    }
}
