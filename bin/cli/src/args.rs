//! Options that all programs share.

use std::{
    ffi::OsString,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use clap::{
    Args, ColorChoice, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser},
};
use unsnap_fastboot::REMOVAL_FILES_PER_SECOND;
use unsnap_layout::ArchiveName;
use unsnap_pass::{CpuSet, IoPriority, Neighbour, Niceness, Pace, Peer};
use unsnap_state::Format;
use unsnap_unpack::{PreflightMode, Reserve, Verify};

/// Options for reading, decoding and writing.
#[derive(Debug, Args)]
#[command(next_help_heading = "I/O options")]
pub struct IoArgs {
    /// Bypass the page cache when reading the archive and writing large files
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        default_missing_value = "on",
        num_args = 0..=1,
        require_equals = true
    )]
    pub use_direct_io: DirectIo,

    /// I/O engine for reads and writes
    #[arg(long, value_enum, value_name = "ENGINE", default_value = "auto")]
    pub io_engine: Engine,

    /// Number of decoding threads [default: number of cores, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub decode_threads: Option<u16>,

    /// Decoder of zstd archives; `auto` means libzstd until the own decoder is proven
    #[arg(long, value_enum, value_name = "DECODER", default_value = "auto")]
    pub decoder: Decoder,

    /// Memory for read-ahead and decoded data, such as 512MiB
    /// [default: 128 MiB plus 64 MiB for each decoding thread]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub memory_budget: Option<u64>,

    /// Prefer reserved huge pages (vm.nr_hugepages) to transparent ones, if there are enough
    #[arg(long)]
    pub hugetlb: bool,

    /// Do not confine the process before it reads the archive
    ///
    /// By default, once the archive and the destinations are open, the process gives up the rights
    /// to open, create or execute anything else and to connect by TCP, as far as the kernel
    /// supports it (Landlock). An archive that exploits a bug in the unpacker then gains nothing.
    /// The report names the restrictions that the kernel does not support. Use this flag only if
    /// the sandbox interferes with something.
    #[arg(long)]
    pub no_sandbox: bool,

    /// File with limits on archives, like config/ledger-tool.toml; "" for none
    #[arg(
        long,
        value_name = "FILE",
        env = "UNSNAP_CONFIG",
        // An empty variable must not be an error: it may keep a validator from starting.
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub config: Option<PathBuf>,
}

/// Limits on the use of the machine, for the sake of other processes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resource limits")]
pub struct NeighbourArgs {
    /// Maximum write rate for each destination device, in bytes per second, such as 100MB; 0 for no
    /// limit
    ///
    /// It also limits the rate at which the archive is read, apart from data buffered in memory.
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub rate_limit: Option<u64>,

    /// I/O priority: idle (only when no other process uses the disk), best-effort, or best-effort:N
    /// with N from 0 (highest) to 7
    ///
    /// Effective with the disk schedulers bfq and mq-deadline; "none" ignores it.
    #[arg(long, value_name = "CLASS")]
    pub io_class: Option<IoPriority>,

    /// Niceness of all threads, from 0 to 19; negative values down to -20 need a privilege
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub nice: Option<i32>,

    /// Processors to run on, such as 0-3,8
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
}

impl NeighbourArgs {
    /// Returns these limits. A rate limit gets its own handle.
    pub fn limits(&self) -> Neighbour {
        let pace = self.rate_limit.and_then(NonZeroU64::new).map(|rate| {
            let pace = Pace::new();
            pace.set_rate(Some(rate));
            pace
        });
        let nice = self.nice.and_then(|nice| Niceness::try_from(nice).ok());
        Neighbour { pace, io_priority: self.io_class, nice, cpus: self.cpus }
    }
}

/// Limit on the removal of older states while a new one is unpacked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resource limits")]
pub struct RemovalArgs {
    /// Maximum number of files of older states to remove per second while the new one is unpacked
    #[arg(long, value_name = "N", default_value_t = REMOVAL_FILES_PER_SECOND)]
    pub removal_files_per_second: NonZeroU32,
}

/// Options of the preflight, which checks that the archives fit.
#[derive(Debug, Args)]
pub struct PreflightArgs {
    /// How to check that the archives fit, before anything is written
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    pub preflight: Preflight,

    /// With --preflight auto: time limit for reading all frame headers, such as 30s
    /// [default: 2 s plus 1 s for each GB]
    #[arg(long, value_name = "DURATION", value_parser = unsnap_settings::parse_duration)]
    pub preflight_time: Option<Duration>,

    /// Skip the check, and unpack until a disk is full, or until less is free than --min-free says
    #[arg(long, conflicts_with_all = ["preflight", "preflight_time"])]
    pub no_preflight: bool,

    /// Free space to leave to other programs on every file system that is written to: a size, a
    /// percentage, or both, of which the larger counts, such as 10GiB,2%; 0 for none
    ///
    /// The run is refused if it would leave less, and ends when less is free, whoever took the
    /// space. "auto" is 10GiB,2%, but at most 10% of the file system: the default beside a validator
    /// (prepare --beside). Otherwise the default is 0.
    #[arg(long, value_name = "SPACE")]
    pub min_free: Option<Reserve>,
}

impl PreflightArgs {
    /// Returns the kind of check.
    pub fn mode(&self) -> PreflightMode {
        match self.preflight {
            _ if self.no_preflight => PreflightMode::Off,
            Preflight::Off => PreflightMode::Off,
            Preflight::Auto => PreflightMode::Within(self.preflight_time),
            Preflight::Exact => PreflightMode::Exact,
        }
    }
}

/// Options for preparing a state that a validator starts from.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// Checks on the archives' content during unpacking
    #[arg(long, value_enum, value_name = "WHAT", default_value = "structure")]
    pub verify: VerifyArg,

    /// With --verify accounts: memory for the list of accounts, 16 bytes for each record; the rest
    /// goes to an unnamed file in the destination [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub verify_memory: Option<u64>,

    /// Format of the list of storages; auto is 3, which Agave 4.2 to 4.5 read
    #[arg(long, value_enum, value_name = "VERSION", default_value = "auto")]
    pub fastboot_format: FastbootFormatArg,

    /// The preflight.
    #[command(flatten)]
    pub preflight: PreflightArgs,
}

impl StateArgs {
    /// Returns the checks on the archives' content.
    pub fn verify(&self) -> Verify {
        self.verify.verify(self.verify_memory)
    }
}

/// Archives on servers that count beside those in a validator's directories.
#[derive(Clone, Debug, Default, Args)]
pub struct OfferedArgs {
    /// Address of an archive that counts as if it were in the validator's directories; may be repeated
    ///
    /// It is received while it is unpacked, and kept in the directory of its kind, because a validator
    /// starts from a state only if it has the archives. Of an archive that is there already nothing is
    /// received.
    #[arg(long, value_name = "URL")]
    pub archive: Vec<PathBuf>,
}

/// Servers that redirect to their newest archives.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Network options")]
pub struct PeerArgs {
    /// Server that redirects to its newest archives, such as a validator's RPC port; may be repeated
    ///
    /// All peers are asked for the name of their newest archive. Those that have the newest send its
    /// beginning at the same time, and the fastest goes on. If it fails or becomes slow, the run begins
    /// anew with the next one: two nodes' archives of one name differ in their bytes.
    #[arg(long, value_name = "HOST:PORT")]
    pub peer: Vec<Peer>,

    /// Number of hosts among the peers that must name the same slot and hash
    #[arg(
        long,
        value_name = "K",
        requires = "peer",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=64)
    )]
    pub agree: u8,
}

/// Options for archives at http:// and https:// addresses.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Network options")]
pub struct FetchArgs {
    /// Header of each request, such as "Authorization: Bearer TOKEN"; may be repeated
    ///
    /// It is not sent to another host, nor to another port, when the server redirects. Other users of
    /// this machine can see it in the list of processes.
    #[arg(long, value_name = "HEADER")]
    pub header: Vec<String>,

    /// File of further trusted certificates (PEM); may be repeated
    #[arg(long, value_name = "FILE")]
    pub ca: Vec<PathBuf>,

    /// Proxy (http://HOST:PORT), or "none" [default: by http_proxy, https_proxy, all_proxy and no_proxy]
    ///
    /// A proxy that wants a user and a password is better named in these variables: other users of this
    /// machine can see arguments.
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,

    /// Number of connections, if the server answers ranges; Agave's own server does not
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        value_parser = clap::value_parser!(u8).range(1..=32)
    )]
    pub connections: u8,

    /// Longest time without a byte, after which nothing is tried again
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = unsnap_settings::parse_duration)]
    pub retry_for: Duration,

    /// Name that the archive must have, after all redirects; may be repeated
    ///
    /// Any other archive is refused before its content is received (exit code 1).
    #[arg(long, value_name = "NAME")]
    pub expect_name: Vec<ArchiveName>,
}

/// Options for progress, reports, logs and colours.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output options")]
pub struct OutputArgs {
    /// Hide progress and text reports, but print reports in other formats; twice: hide warnings too
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub quiet: u8,

    /// Log each step; twice: log details
    #[arg(long, short, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,

    /// Hide progress
    #[arg(long)]
    pub no_progress: bool,

    /// When to use colours
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
}

/// Checks on a snapshot's content.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum VerifyArg {
    /// No checks beyond the archive format
    None,
    /// The bank file matches the archive's name, and every storage is a sequence of accounts
    Structure,
    /// The same, and all accounts add up to the hash in the archive's name
    Accounts,
}

/// Whether to bypass the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirectIo {
    /// Where possible, except for parts of the archive that are already in the page cache
    Auto,
    /// Wherever it helps; fail if it is not possible
    On,
    /// Never
    Off,
}

/// Engine for reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// io_uring if the kernel supports it, plain threads for small files
    Auto,
    /// io_uring; fail if the kernel does not support it
    Uring,
    /// Plain threads
    Threads,
}

/// Decoder of zstd archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Decoder {
    /// libzstd, until there is evidence enough for the own decoder
    Auto,
    /// The own decoder, which decodes one frame with all threads; libzstd for frames that it cannot
    /// decode or that one thread decodes as a whole
    Own,
    /// libzstd, the zstd project's library
    Libzstd,
}

/// Kind of preflight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preflight {
    /// Estimate from samples; if they leave a doubt, add up the sizes declared in all frame headers
    Auto,
    /// Add up the sizes declared in all frame headers, however long that takes
    Exact,
    /// No check, same as --no-preflight
    Off,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Returns the last value of `--color` among words of a command line, up to `--`, for messages
    /// about a command line that clap refuses. Unknown values and a missing flag are `Auto`.
    pub fn typed(words: impl IntoIterator<Item = OsString>) -> ColorChoice {
        let mut words = words.into_iter().take_while(|word| word != "--");
        let mut choice = ColorChoice::Auto;
        while let Some(word) = words.next() {
            let value = match word.to_str() {
                Some("--color") => words.next(),
                Some(word) => word.strip_prefix("--color=").map(OsString::from),
                None => None,
            };
            let Some(value) = value else { continue };
            choice = match value.to_str().and_then(|value| Self::from_str(value, false).ok()) {
                Some(Self::Always) => ColorChoice::Always,
                Some(Self::Never) => ColorChoice::Never,
                Some(Self::Auto) | None => ColorChoice::Auto,
            };
        }
        choice
    }
}

/// Format of a state's list of storages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FastbootFormatArg {
    /// The format that most releases read
    Auto,
    /// 3.0.0: Agave 4.2 to 4.5
    #[value(name = "3")]
    V3,
    /// 5.0.0: Agave 4.5 and later
    #[value(name = "5")]
    V5,
}

impl VerifyArg {
    /// Returns the checks. `memory_bytes` applies to accounts.
    pub fn verify(self, memory_bytes: Option<u64>) -> Verify {
        match self {
            Self::None => Verify::None,
            Self::Structure => Verify::Structure,
            Self::Accounts => Verify::Accounts { memory_bytes },
        }
    }
}

impl FastbootFormatArg {
    /// Returns the format of the list.
    pub fn format(self) -> Format {
        match self {
            Self::Auto | Self::V3 => Format::V3,
            Self::V5 => Format::V5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colour_of_usage_errors_is_known_before_clap_parses() {
        for (line, expected) in [
            ("", ColorChoice::Auto),
            ("unpack --typo --color never", ColorChoice::Never),
            ("--color=always x", ColorChoice::Always),
            ("--color=always --color never", ColorChoice::Never),
            ("--color odd", ColorChoice::Auto),
            ("--color", ColorChoice::Auto),
            ("-- --color never", ColorChoice::Auto),
        ] {
            let words = line.split(' ').map(OsString::from);
            assert_eq!(Color::typed(words), expected, "{line}");
        }
    }
}
