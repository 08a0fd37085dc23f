//! Options that all programs take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use unsnap_unpack::{FastbootFormat, Verify};

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

/// What to tell, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to tell")]
pub struct OutputArgs {
    /// No progress and no report; given twice, no warnings either
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

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
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
    /// For a `Config`.
    pub fn verify(self) -> Verify {
        match self {
            Self::None => Verify::None,
            Self::Structure => Verify::Structure,
            Self::Accounts => Verify::Accounts,
        }
    }
}

impl FastbootFormatArg {
    /// For a `Config`.
    pub fn format(self) -> FastbootFormat {
        match self {
            Self::Auto | Self::V3 => FastbootFormat::V3,
            Self::V5 => FastbootFormat::V5,
        }
    }
}
