//! Checking settings and converting them to typed values.

use std::{
    collections::HashSet,
    net::SocketAddr,
    num::NonZeroU64,
    path::{Path, PathBuf},
};

use unsnap_fastboot::{Places, SearchDirs};
use unsnap_pass::{
    Decoder, DirectMode, IndexUse, Io, IoEngine, IoPriority, Neighbour, Niceness, Options,
    Resources, SandboxMode,
};
use unsnap_settings::Reserve;
use unsnap_state::Format;
use unsnap_unpack::Verify;

use super::{
    error::ConfigError,
    places::check_overlaps,
    settings::{Kind, Settings, Target as TargetSettings},
    targets::{Target, TargetKind},
};
use crate::plan::{Cadence, Window};

/// Most targets. A guess: each has a thread.
const TARGETS_MAX: usize = 16;

/// Most bytes of a target's name, which is a label of metrics and part of a thread's name.
const NAME_BYTES_MAX: usize = 32;

/// Most results kept per target. A guess.
const KEEP_MAX: u32 = 1000;

/// Most queued jobs per target.
const QUEUE_MAX: u16 = 256;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// All keys. Paths left to the environment are filled in.
    pub settings: Settings,
    /// Directories searched for archives.
    pub archives: SearchDirs,
    /// Targets.
    pub targets: Vec<Target>,
}

/// How archives are checked and unpacked.
#[derive(Clone, Debug)]
pub struct Unpacking {
    /// What is checked of their content.
    pub verify: Verify,
    /// Free space to leave to other processes.
    pub min_free: Reserve,
    /// How they are read.
    pub pass: Options,
}

impl Config {
    /// Checks the settings. `directory` returns the directory that systemd created, given the name
    /// of its environment variable.
    pub(super) fn check(
        mut settings: Settings,
        directory: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let fill = |path: &mut PathBuf, variable, otherwise: &str, below: &str| {
            if path.as_os_str().is_empty() {
                let directory = directory(variable).unwrap_or_else(|| PathBuf::from(otherwise));
                *path = if below.is_empty() { directory } else { directory.join(below) };
            }
        };
        fill(&mut settings.service.state_directory, "STATE_DIRECTORY", "/var/lib/unpackd", "");
        fill(&mut settings.control.socket, "RUNTIME_DIRECTORY", "/run/unpackd", "control.sock");
        let archives = &mut settings.archives;
        require("directory of [archives]", &archives.directory)?;
        if archives.incremental_directory.as_os_str().is_empty() {
            archives.incremental_directory.clone_from(&archives.directory);
        }
        let archives = SearchDirs {
            full: archives.directory.clone(),
            incremental: archives.incremental_directory.clone(),
        };
        for (name, path) in [
            ("incremental-directory of [archives]", &archives.incremental),
            ("state-directory of [service]", &settings.service.state_directory),
            ("socket of [control]", &settings.control.socket),
        ] {
            require(name, path)?;
        }
        if !settings.service.on_event.as_os_str().is_empty() {
            require("on-event of [service]", &settings.service.on_event)?;
        }
        check_numbers(&settings)?;
        let targets: Vec<Target> = settings
            .target
            .iter()
            .map(|target| check_target(target, &archives))
            .collect::<Result<_, _>>()?;
        check_targets(&targets)?;
        check_overlaps(&targets, &archives)?;
        let config = Self { settings, archives, targets };
        config.unpacking()?;
        config.cadence()?;
        Ok(config)
    }

    /// Returns how archives are checked and unpacked.
    pub fn unpacking(&self) -> Result<Unpacking, ConfigError> {
        let unpack = &self.settings.unpack;
        let verify = match &*unpack.verify {
            "none" => Verify::None,
            "structure" => Verify::Structure,
            "accounts" => Verify::Accounts { memory_bytes: None },
            other => return one_of("verify", other, "none, structure or accounts"),
        };
        let direct = match &*unpack.direct_io {
            "auto" => DirectMode::Auto,
            "on" => DirectMode::On,
            "off" => DirectMode::Off,
            other => return one_of("direct-io", other, "auto, on or off"),
        };
        let engine = match &*unpack.io_engine {
            "auto" => IoEngine::Auto,
            "uring" => IoEngine::Uring,
            "threads" => IoEngine::Threads,
            other => return one_of("io-engine", other, "auto, uring or threads"),
        };
        let decoder = match &*unpack.decoder {
            "auto" => Decoder::Auto,
            "own" => Decoder::Own,
            "libzstd" => Decoder::Libzstd,
            other => return one_of("decoder", other, "auto, own or libzstd"),
        };
        let mut pass = Options {
            io: Io { direct, engine, index: IndexUse::Auto },
            resources: Resources {
                decode_threads: (unpack.decode_threads > 0).then(|| unpack.decode_threads.into()),
                decoder,
                memory_budget: (unpack.memory_budget.0 > 0).then_some(unpack.memory_budget.0),
                hugetlb: false,
            },
            neighbour: self.neighbour()?,
            sandbox: if unpack.sandbox { SandboxMode::Auto } else { SandboxMode::Off },
            ..Options::default()
        };
        self.settings.limits.apply(&mut pass.limits);
        Ok(Unpacking { verify, min_free: self.settings.neighbour.min_free, pass })
    }

    /// Returns when jobs start that nobody asked for.
    pub fn cadence(&self) -> Result<Cadence, ConfigError> {
        let settings = &self.settings.cadence;
        let windows = Window::parse_all(&settings.windows);
        Ok(Cadence {
            min_slots: settings.min_slots,
            windows: windows.map_err(|error| ConfigError(format!("windows: {error}")))?,
            bytes_per_day: settings.bytes_per_day.0,
        })
    }

    fn neighbour(&self) -> Result<Neighbour, ConfigError> {
        let settings = &self.settings.neighbour;
        let io_priority = match &*settings.io_class {
            "none" => None,
            "idle" => Some(IoPriority::IDLE),
            "best-effort" => IoPriority::best_effort(settings.io_level),
            other => return one_of("io-class", other, "none, idle or best-effort"),
        };
        let nice = (settings.nice > 0).then(|| Niceness::try_from(i32::from(settings.nice)));
        let nice = nice.transpose().map_err(|error| ConfigError(format!("nice: {error}")))?;
        let cpus = Some(&settings.cpus).filter(|cpus| !cpus.is_empty());
        let cpus =
            cpus.map(|cpus| cpus.parse().map_err(|error| ConfigError(format!("cpus: {error}"))));
        Ok(Neighbour { pace: None, io_priority, nice, cpus: cpus.transpose()? })
    }

    /// Returns the limit on the bytes written to each device per second.
    pub fn rate_limit(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.settings.neighbour.rate_limit.0)
    }

    /// Formats all keys as a configuration file.
    pub fn print(&self) -> String {
        toml::to_string(&self.settings).unwrap_or_default()
    }
}

fn one_of<T>(key: &str, found: &str, wanted: &str) -> Result<T, ConfigError> {
    Err(ConfigError(format!("{key} must be {wanted}, not \"{found}\"")))
}

fn require(name: &str, path: &Path) -> Result<(), ConfigError> {
    if path.as_os_str().is_empty() {
        return Err(ConfigError(format!("{name} is missing")));
    }
    if path.is_absolute() {
        return Ok(());
    }
    // A path relative to the service's working directory would be a trap.
    Err(ConfigError(format!("{name} must be an absolute path, not \"{}\"", path.display())))
}

fn check_numbers(settings: &Settings) -> Result<(), ConfigError> {
    let refuse = |reason: &str| Err(ConfigError(reason.to_owned()));
    let second = super::Span::seconds(1).0;
    let neighbour = &settings.neighbour;
    if settings.archives.rescan.0 < second {
        return refuse("rescan of [archives] must be at least 1s");
    }
    if settings.retry.first.0.is_zero() || settings.retry.first.0 > settings.retry.most.0 {
        return refuse("first of [retry] must be more than 0 and not more than most");
    }
    if settings.service.queue == 0 || settings.service.queue > QUEUE_MAX {
        return refuse("queue of [service] must be 1 to 256");
    }
    if settings.service.stuck_after.0 < second {
        return refuse("stuck-after of [service] must be at least 1s");
    }
    if settings.control.connections_max == 0 {
        return refuse("connections-max of [control] must be at least 1");
    }
    if settings.metrics.textfile_every.0 < second {
        return refuse("textfile-every of [metrics] must be at least 1s");
    }
    if settings.unpack.decode_threads > 256 {
        return refuse("decode-threads of [unpack] must be at most 256");
    }
    if neighbour.io_level > 7 || neighbour.nice > 19 {
        return refuse("in [neighbour], io-level must be 0 to 7 and nice 0 to 19");
    }
    let listen = &settings.metrics.listen;
    if !listen.is_empty() {
        let address: Result<SocketAddr, _> = listen.parse();
        if !address.is_ok_and(|address| address.ip().is_loopback()) {
            return one_of("listen", listen, "a loopback address and port, such as 127.0.0.1:9184");
        }
    }
    Ok(())
}

fn check_target(target: &TargetSettings, archives: &SearchDirs) -> Result<Target, ConfigError> {
    let TargetSettings { name, .. } = target;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(plain) {
        return Err(ConfigError(format!(
            "the name of a [[target]] must have 1 to {NAME_BYTES_MAX} letters, digits, dashes or \
             underscores, not \"{name}\""
        )));
    }
    let refuse =
        |reason: &str| Err(ConfigError(format!("[[target]] {name}: {}", reason.trim_end())));
    if target.keep == 0 || target.keep > KEEP_MAX {
        return refuse(&format!("keep must be 1 to {KEEP_MAX}"));
    }
    let kind = match target.kind {
        Kind::Tree => {
            require(&format!("[[target]] {name}: directory"), &target.directory)?;
            if target.ledger != PathBuf::new() || !target.accounts.is_empty() {
                return refuse("ledger and accounts require kind = \"fastboot\"");
            }
            TargetKind::Tree { directory: target.directory.clone() }
        }
        Kind::Fastboot => {
            require(&format!("[[target]] {name}: ledger"), &target.ledger)?;
            if target.directory != PathBuf::new() {
                return refuse("directory requires kind = \"tree\"");
            }
            if target.keep != 1 {
                return refuse("a validator has only one state, so keep must be 1");
            }
            let mut places = Places::new(&target.ledger);
            if target.snapshots != PathBuf::new() {
                places.snapshots.clone_from(&target.snapshots);
            }
            places.full_archives.clone_from(&archives.full);
            places.incremental_archives.clone_from(&archives.incremental);
            if !target.accounts.is_empty() {
                places.accounts.clone_from(&target.accounts);
            }
            for path in places.accounts.iter().chain([&places.snapshots]) {
                require(&format!("[[target]] {name}: every path"), path)?;
            }
            let format = match &*target.format {
                "auto" | "3" => Format::V3,
                "5" => Format::V5,
                _ => return refuse("format must be auto, 3 or 5"),
            };
            TargetKind::Fastboot {
                places,
                format,
                shadow: target.shadow,
                beside: target.beside,
                max_behind: target.max_behind.most(),
            }
        }
    };
    Ok(Target { name: name.clone(), kind, keep: target.keep as usize })
}

fn check_targets(targets: &[Target]) -> Result<(), ConfigError> {
    if targets.is_empty() {
        return Err(ConfigError("no [[target]] is configured".to_owned()));
    }
    if targets.len() > TARGETS_MAX {
        return Err(ConfigError(format!("more than {TARGETS_MAX} targets are configured")));
    }
    let mut names = HashSet::new();
    match targets.iter().find(|target| !names.insert(&target.name)) {
        Some(target) => Err(ConfigError(format!("two targets have the name {}", target.name))),
        None => Ok(()),
    }
}
