//! The command line of this program.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, ValueEnum};
use unsnap_cli::{
    args::{
        Color, FetchArgs, IoArgs, NeighbourArgs, OfferedArgs, OutputArgs, PeerArgs, RemovalArgs,
        ReportFormat, StateArgs,
    },
    validator::SourceArgs,
};
use unsnap_fastboot::AttemptRules;

/// Prepare a state that a validator starts from, then become the validator
///
/// Unpacks the newest full snapshot archive and the newest incremental one based on it into a state
/// that agave-validator (4.2 or later, unmodified) loads without unpacking. Then executes
/// agave-validator in its own place. If preparation fails, removes the unpacked files and executes
/// agave-validator as if it had been started alone.
///
/// Put this program in front of the command line that starts the validator. It reads the directories
/// from the validator's own flags. For a script, give them in front of it: its arguments are not
/// known.
#[allow(clippy::struct_excessive_bools)] // switches, not states
#[derive(Debug, Parser)]
#[command(name = "validator", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub state: StateArgs,

    #[command(flatten)]
    pub offered: OfferedArgs,

    /// Prepare a state even if one as new as the archives exists
    #[arg(long)]
    pub replace: bool,

    /// Do not keep a second hard link to each storage
    ///
    /// The links restore storages that a validator has removed; without them, the state must be
    /// prepared again. They take no space until the validator removes storages of the state. Those
    /// storages then stay on the disk until the next state is prepared.
    #[arg(long)]
    pub no_shadow: bool,

    /// Use an existing or ready state that is at most so many slots older than the newest archives
    ///
    /// It saves the time of unpacking, and costs the time in which the validator replays these slots.
    /// The validator is told to ignore the archives (--use-snapshot-archives-at-startup never). Has no
    /// effect if the validator's own arguments say when-newest, or are not known.
    #[arg(long, value_name = "SLOTS", default_value_t = 0)]
    pub max_behind: u64,

    /// Read the state's storages into the page cache while the validator starts
    ///
    /// A validator reads all of them when it starts, and waits for the disk. A process in the background
    /// reads ahead of it, and ends with it. With auto: only a state that lay ready, no more than half of
    /// the memory that is available, and nothing more once other processes have taken half of it.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub leave_cached: LeaveCached,

    /// Time limit for preparation (90s, 10m, 1h30m); after it, the validator unpacks the archives
    ///
    /// If another unsnap is preparing a state, it is waited for within this time, at most 30 minutes.
    #[arg(long, value_name = "DURATION", value_parser = unsnap_settings::parse_duration)]
    pub deadline: Option<Duration>,

    /// Prepare a state, and do not start the validator: exit code 0 if there is a state
    #[arg(long)]
    pub prepare_only: bool,

    /// Format of the report of --prepare-only on standard output
    #[arg(long, value_enum, default_value = "text", requires = "prepare_only")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub places: PlacesArgs,

    #[command(flatten)]
    pub peers: PeerArgs,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub neighbour: NeighbourArgs,

    #[command(flatten)]
    pub removal: RemovalArgs,

    #[command(flatten)]
    pub attempts: AttemptsArgs,

    #[command(flatten)]
    pub reports: ReportsArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,

    /// Command line of the validator: program and arguments
    #[arg(
        help_heading = "The validator",
        trailing_var_arg = true,
        value_name = "AGAVE-VALIDATOR",
        required_unless_present = "prepare_only"
    )]
    pub command: Vec<OsString>,
}

/// When storages are read into the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LeaveCached {
    /// If the state lay ready, as far as there is memory to spare.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// The validator's directories, for command lines that are not the validator's own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Directories of the validator (its own flags)")]
pub struct PlacesArgs {
    #[command(flatten)]
    pub source: SourceArgs,

    /// Ledger [default: as in the validator's arguments]
    #[arg(long, short, value_name = "DIR")]
    pub ledger: Option<PathBuf>,

    /// Archives and states [default: as in the validator's arguments]
    #[arg(long, value_name = "DIR")]
    pub snapshots: Option<PathBuf>,

    /// Full archives [default: as in the validator's arguments, or --snapshots]
    #[arg(long, value_name = "DIR")]
    pub full_snapshot_archive_path: Option<PathBuf>,

    /// Incremental archives [default: as in the validator's arguments, or --snapshots]
    #[arg(long, value_name = "DIR")]
    pub incremental_snapshot_archive_path: Option<PathBuf>,

    /// Accounts paths [default: as in the validator's arguments]
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub accounts: Vec<PathBuf>,
}

/// Starts that fail, so that they do not recur for ever.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Repeated failures")]
pub struct AttemptsArgs {
    /// Number of validators that may end early with a state before it is withdrawn, and number of
    /// preparations in a row that may be killed before none is begun; 0 for no limit
    ///
    /// A withdrawn state is followed by one of the next best pair of archives, then by none: the
    /// validator unpacks the archives. --replace forgets all failures.
    #[arg(long, value_name = "N", default_value_t = AttemptRules::default().attempts)]
    pub attempts: u32,

    /// Time within which a validator that is started again has ended early [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = unsnap_settings::parse_duration)]
    pub crash_window: Option<Duration>,
}

impl AttemptsArgs {
    /// Returns the rules.
    pub fn rules(&self) -> AttemptRules {
        let default = AttemptRules::default();
        AttemptRules {
            attempts: self.attempts,
            window: self.crash_window.unwrap_or(default.window),
        }
    }
}

/// Reports of each start for other programs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reports of each start")]
pub struct ReportsArgs {
    /// Write metrics of this start to a file for node_exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,

    /// Execute a program with a report of this start as JSON on its standard input
    ///
    /// The validator is started when the program ends, after at most 10 seconds; then the program is
    /// killed. Its failure has no effect.
    #[arg(long, value_name = "PROGRAM")]
    pub on_event: Option<PathBuf>,
}

/// Name of the program that Cargo builds. Other projects use it too.
pub const BUILT_AS: &str = "validator";

/// Name under which the Debian package installs it.
pub const INSTALLED_AS: &str = "unsnap-validator";

impl Cli {
    /// Parses a command line. Help texts use the name under which the program was started.
    pub fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        let called = words.first().and_then(|path| Path::new(path).file_name());
        let name = if called == Some(OsStr::new(INSTALLED_AS)) { INSTALLED_AS } else { BUILT_AS };
        let mut command = command(name).color(Color::typed(words.iter().cloned()));
        let matches = command.try_get_matches_from_mut(words.iter().cloned())?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Returns the command line, with help texts that use this name for the program.
pub fn command(name: &'static str) -> Command {
    Cli::command()
        .name(name)
        .override_usage(format!(
            "{name} [OPTIONS] [--] <AGAVE-VALIDATOR> [ARGS]...\n       \
             {name} [OPTIONS] --prepare-only [AGAVE-VALIDATOR] [ARGS]..."
        ))
        .after_long_help(format!("{EXIT_CODES}\n\n{}", examples(name)))
}

const EXIT_CODES: &str = "\
Exit codes, if it does not become the validator: 1 bad archives; 2 usage; 3 environment (disk full, \
I/O error, a limit, the deadline); 4 a validator or another unsnap is using the ledger; 126 the \
validator cannot be executed; 127 it is not found; 130 interrupted, 143 terminated.";

fn examples(name: &str) -> String {
    format!(
        "\
Examples:
  In front of the command line of a validator:
    {name} agave-validator --identity id.json \\
      --ledger /mnt/ledger --accounts /mnt/accounts ...

  In front of a script that ends with `exec agave-validator ...`:
    {name} --ledger /mnt/ledger --snapshots /mnt/ledger \\
      --accounts /mnt/accounts -- /home/sol/bin/validator.sh

  Give up after ten minutes:
    {name} --deadline 10m agave-validator --ledger /mnt/ledger ...

  Only prepare, and print the result as JSON:
    {name} --prepare-only --format json \\
      --ledger /mnt/ledger --accounts /mnt/accounts

  Only prepare, in the directories of a unit's validator:
    {name} --prepare-only --from-unit sol.service"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use unsnap_cli::{exit::EXIT_STATUS, generated, manual::Manual};

    use super::*;

    const MANUAL: Manual = Manual {
        program: INSTALLED_AS,
        section: "1",
        exit_status: &[
            EXIT_STATUS[0],
            EXIT_STATUS[1],
            EXIT_STATUS[2],
            EXIT_STATUS[3],
            ("4", "A validator or another unsnap is using the ledger."),
            ("126", "The validator cannot be executed."),
            ("127", "The validator was not found."),
            EXIT_STATUS[6],
            EXIT_STATUS[7],
        ],
        see_also: &["ledger-tool(1)", "unpackd(8)"],
    };

    #[test]
    fn the_command_line_is_consistent() {
        command(BUILT_AS).debug_assert();
    }

    #[test]
    fn checked_in_files_are_up_to_date() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        generated::hold(&deploy, &command(INSTALLED_AS), &MANUAL).unwrap();
    }

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').map(OsString::from)
    }

    #[test]
    fn the_first_word_that_is_no_flag_begins_the_validators_command_line() {
        for (line, command) in [
            (
                "validator agave-validator --ledger x -l y --format z",
                "agave-validator --ledger x -l y --format z",
            ),
            ("validator --ledger x -- agave-validator run --help", "agave-validator run --help"),
            ("validator -- agave-validator", "agave-validator"),
            ("validator -q --accounts a,b --accounts c a -- b -- --replace", "a -- b -- --replace"),
            ("validator -- a -- b", "a -- b"),
            ("validator --use-direct-io agave-validator -V", "agave-validator -V"),
        ] {
            let cli = Cli::try_parse_from(words(line)).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(cli.command, words(command).collect::<Vec<_>>(), "{line}");
            assert!(!cli.replace);
        }
        let odd = OsString::from_vec(b"--odd=\xff\xfe".to_vec());
        let line = words("validator agave").chain([odd.clone(), OsString::new()]);
        let cli = Cli::try_parse_from(line).unwrap();
        assert_eq!(cli.command, ["agave".into(), odd, OsString::new()]);
    }

    #[test]
    fn invalid_command_lines_are_refused() {
        for line in [
            "validator",
            "validator --ledger x",
            "validator --typo agave-validator",
            "validator --format json agave",
            "validator --deadline soon agave",
        ] {
            assert!(Cli::try_parse_from(words(line)).is_err(), "{line}");
        }
        assert!(Cli::try_parse_from(words("validator --prepare-only --format json")).is_ok());
    }
}
