//! Options that all programs take.

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, ValueEnum};
use unsnap_fastboot::REMOVAL_FILES_PER_SECOND;
use unsnap_pass::{CpuSet, IoPriority, Neighbour, Niceness, Pace};
use unsnap_state::Format;
use unsnap_unpack::{PreflightMode, Verify};

/// How to read, decode and write.
#[derive(Debug, Args)]
#[command(next_help_heading = "How to do it")]
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

    /// What carries out reads and writes
    #[arg(long, value_enum, value_name = "ENGINE", default_value = "auto")]
    pub io_engine: Engine,

    /// Threads that decode [default: as many as there are cores, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub decode_threads: Option<u16>,

    /// Memory for reading ahead and for decoded data, such as 512MiB
    /// [default: 128 MiB and 64 MiB for each decoding thread]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub memory_budget: Option<u64>,

    /// Use reserved huge pages (vm.nr_hugepages) if there are enough, before transparent ones
    #[arg(long)]
    pub hugetlb: bool,

    /// Do not confine the process before it looks at the archive
    ///
    /// Without this flag the process gives up, once archive and destinations are open, the rights
    /// to open, create or run anything else and to connect by TCP, as far as the kernel can take
    /// them (Landlock), so that an archive that deceives the unpacker gains nothing. The report
    /// says what could not be had. Only of use where that gets in the way of something.
    #[arg(long)]
    pub no_sandbox: bool,

    /// Limits on what an archive may claim, from a file like config/ledger-tool.toml
    #[arg(long, value_name = "FILE", env = "UNSNAP_CONFIG")]
    pub config: Option<PathBuf>,
}

/// How much of the machine to leave to others.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to leave to others")]
pub struct NeighbourArgs {
    /// Bytes written to each destination device in a second at most, such as 100MB; 0 for no limit
    ///
    /// How fast the archive is read follows from it, but for what fits into memory.
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub rate_limit: Option<u64>,

    /// How urgent reads and writes are: idle (only when nobody else wants the disk), best-effort or
    /// best-effort:N, with N from 0 (most urgent) to 7
    ///
    /// To be seen where the disk's scheduler is bfq or mq-deadline, and not with none.
    #[arg(long, value_name = "CLASS")]
    pub io_class: Option<IoPriority>,

    /// Niceness of all threads, from 0 to 19, or less with the privilege to
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub nice: Option<i32>,

    /// Processors to run on, such as 0-3,8
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
}

impl NeighbourArgs {
    /// Returns these limits, with a handle of their own for the rate.
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

/// Files of older states that are removed in a second while a new one is unpacked.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to leave to others")]
pub struct RemovalArgs {
    /// Files of older states removed in a second while the new one is unpacked
    #[arg(long, value_name = "N", default_value_t = REMOVAL_FILES_PER_SECOND)]
    pub removal_files_per_second: NonZeroU32,
}

/// How it is found out whether it fits.
#[derive(Debug, Args)]
pub struct PreflightArgs {
    /// How it is found out, before anything is written, whether it fits
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    pub preflight: Preflight,

    /// With --preflight auto: how long the headers of all frames may be walked, such as 30s
    /// [default: 1 s and 50 ms for each GB, more where an estimate leaves a doubt]
    #[arg(long, value_name = "DURATION", value_parser = unsnap_settings::parse_duration)]
    pub preflight_time: Option<Duration>,

    /// Unpack even if it does not seem to fit, and go on until a disk is full
    #[arg(long, conflicts_with_all = ["preflight", "preflight_time"])]
    pub no_preflight: bool,
}

impl PreflightArgs {
    /// Returns how the check is made.
    pub fn mode(&self) -> PreflightMode {
        match self.preflight {
            _ if self.no_preflight => PreflightMode::Off,
            Preflight::Off => PreflightMode::Off,
            Preflight::Auto => PreflightMode::Within(self.preflight_time),
            Preflight::Exact => PreflightMode::Exact,
        }
    }
}

/// What a state that a validator starts from is made like.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// What is checked of the archives' content while it passes by
    #[arg(long, value_enum, value_name = "WHAT", default_value = "structure")]
    pub verify: VerifyArg,

    /// With --verify accounts: memory for what is remembered of accounts, 16 bytes for each record;
    /// what is more goes to a file without a name beside the files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub verify_memory: Option<u64>,

    /// Form of the list of storages; auto is 3, which Agave 4.2 to 4.5 read
    #[arg(long, value_enum, value_name = "VERSION", default_value = "auto")]
    pub fastboot_format: FastbootFormatArg,

    /// How it is found out whether it fits.
    #[command(flatten)]
    pub preflight: PreflightArgs,
}

impl StateArgs {
    /// Returns what is checked of the archives.
    pub fn verify(&self) -> Verify {
        self.verify.verify(self.verify_memory)
    }
}

/// What to tell, and how.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "What to tell")]
pub struct OutputArgs {
    /// No progress, and no report in text (what is asked for in another format is printed); given
    /// twice, no warnings either
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub quiet: u8,

    /// Log what is done; given twice, in detail
    #[arg(long, short, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,

    /// No progress
    #[arg(long)]
    pub no_progress: bool,

    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
}

/// What is checked of a snapshot's content.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum VerifyArg {
    /// Nothing beyond the archive itself
    None,
    /// That the bank file is the one of the archive's name, and every storage a row of accounts
    Structure,
    /// The same, and that all accounts add up to the hash in the archive's name
    Accounts,
}

/// Whether to bypass the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirectIo {
    /// Where possible, except for parts of the archive that are in the page cache already
    Auto,
    /// Always where it is a gain, or fail
    On,
    /// Never
    Off,
}

/// What carries out reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// io_uring where the kernel has it, and plain threads for small files
    Auto,
    /// io_uring, or fail
    Uring,
    /// Plain threads
    Threads,
}

/// How it is found out whether it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preflight {
    /// By the headers of all frames that declare their sizes; by an estimate where they do not, or where that would take too long
    Auto,
    /// By the headers of all frames that declare their sizes, however long that takes
    Exact,
    /// Not at all, as with --no-preflight
    Off,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Whether there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Whatever standard error is
    Always,
    /// None
    Never,
}

/// Form of a state's list of storages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FastbootFormatArg {
    /// What most releases read
    Auto,
    /// 3.0.0: Agave 4.2 to 4.5
    #[value(name = "3")]
    V3,
    /// 5.0.0: Agave 4.5 and later
    #[value(name = "5")]
    V5,
}

impl VerifyArg {
    /// Returns what is checked. `memory_bytes`: for accounts.
    pub fn verify(self, memory_bytes: Option<u64>) -> Verify {
        match self {
            Self::None => Verify::None,
            Self::Structure => Verify::Structure,
            Self::Accounts => Verify::Accounts { memory_bytes },
        }
    }
}

impl FastbootFormatArg {
    /// Returns the form of the list.
    pub fn format(self) -> Format {
        match self {
            Self::Auto | Self::V3 => Format::V3,
            Self::V5 => Format::V5,
        }
    }
}
