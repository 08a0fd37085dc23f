//! Options of the libraries, from defaults, a file of limits and flags; later ones take precedence.

use std::path::Path;

use serde::Deserialize;
use unsnap_fetch::{Address, FetchError, FetchOptions, Patience, Remote};
use unsnap_layout::ArchiveName;
use unsnap_pass::{
    Archive, DirectMode, Io, IoEngine, Options, RemoteArchive, Resources, SandboxMode,
};
use unsnap_settings::LimitsTable;
pub use unsnap_settings::parse_size;

use crate::args::{Decoder, DirectIo, Engine, FetchArgs, IoArgs};

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
pub fn archive(name: &Path, fetch: &FetchArgs, is_confined: bool) -> Result<Archive, FetchError> {
    let address = name.to_str().filter(|name| Address::is_meant_by(name));
    let Some(address) = address else { return Ok(local_archive(name)) };
    let FetchArgs { header, ca, connections, retry_for } = fetch;
    let mut remote = RemoteArchive {
        address: Address::parse(address)?,
        options: FetchOptions {
            headers: header.clone(),
            authorities: ca.clone(),
            links: usize::from(*connections),
            patience: Patience { give_up: *retry_for, ..Patience::default() },
            confined: is_confined,
        },
    };
    // A validator redirects from a fixed path to its newest archive. What is checked against the name
    // must be the archive of that name, also if there is a newer one a moment later.
    if ArchiveName::parse(remote.address.file_name()).is_err() {
        let RemoteArchive { address, options } = &remote;
        let (address, options) = Remote::resolve(address, options, &|| false)?;
        remote = RemoteArchive { address, options };
    }
    Ok(Archive::Remote(Box::new(remote)))
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
