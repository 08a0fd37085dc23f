//! The command line of unpackd.

use std::path::PathBuf;

use clap::Parser;
use unsnap_cli::validator::{Processes, Unit};
use unsnap_service::config::{Override, Places, Sources, ValidatorPlaces};

use crate::log::LogFormat;

/// Name of the configuration file in systemd's configuration directory or /etc/unsnap.
const FILE_NAME: &str = "unpackd.toml";

const EXAMPLES: &str = "\
Examples:
  Check the configuration (exit code 78 if it is invalid):
    unpackd --config /etc/unsnap/unpackd.toml --check-config

  Show all settings, including the defaults that the file leaves out:
    unpackd --config /etc/unsnap/unpackd.toml --print-config

  Run in a terminal until interrupted:
    unpackd --config /etc/unsnap/unpackd.toml --log-format text \\
      --archives /mnt/snapshots \\
      --state-directory /tmp/unpackd --socket /tmp/unpackd.socket";

/// Keep the newest snapshot unpacked, ready for a validator
///
/// Watches directories for snapshot archives and unpacks the newest pair, durably, to each
/// configured target. The file unpackd.toml holds all settings and explains them; `ledger-tool
/// service` controls the running service. Exit codes: 0 stopped on request; 2 invalid command line;
/// 3 error of the system; 78 invalid configuration.
#[derive(Debug, Parser)]
#[command(name = "unpackd", version, about, max_term_width = 100, after_long_help = EXAMPLES)]
pub struct Cli {
    /// Configuration file [default: $CONFIGURATION_DIRECTORY/unpackd.toml or
    /// /etc/unsnap/unpackd.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the configuration, and whether its directories and processors exist, and exit
    #[arg(long)]
    pub check_config: bool,

    /// Print the merged configuration (defaults, file, environment and flags) and exit
    #[arg(long, conflicts_with = "check_config")]
    pub print_config: bool,

    /// Directory to watch for archives [archives.directory]
    #[arg(long, value_name = "DIR")]
    archives: Option<String>,

    /// Interval between scans of the directories, such as 60s [archives.rescan]
    #[arg(long, value_name = "DURATION")]
    rescan: Option<String>,

    /// Most bytes written to each device per second [neighbour.rate-limit]
    #[arg(long, value_name = "SIZE")]
    rate_limit: Option<String>,

    /// Directory for state that survives restarts [service.state-directory]
    #[arg(long, value_name = "DIR")]
    state_directory: Option<String>,

    /// Unix socket for clients [control.socket]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,

    /// Destination of the log
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,

    /// Log more (-v: debug, -vv: trace)
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Cli {
    /// Returns the sources of the configuration.
    pub fn sources(&self) -> Sources {
        let flags = [
            ("archives", "directory", &self.archives),
            ("archives", "rescan", &self.rescan),
            ("neighbour", "rate-limit", &self.rate_limit),
            ("service", "state-directory", &self.state_directory),
            ("control", "socket", &self.socket),
        ];
        let flags = flags.into_iter().filter_map(|(section, key, value)| {
            Some(Override { section, key, value: value.clone()? })
        });
        // None of our variables is other than UTF-8.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let file = self.config.clone().unwrap_or_else(|| {
            let directory = std::env::var_os("CONFIGURATION_DIRECTORY");
            let directory = directory.filter(|directory| !directory.is_empty());
            directory.map_or_else(|| PathBuf::from("/etc/unsnap"), PathBuf::from).join(FILE_NAME)
        });
        let validator = Some(validator_places as ValidatorPlaces);
        Sources { file, environment, flags: flags.collect(), validator }
    }
}

/// Returns the directories on a validator's own command line.
fn validator_places(validator: &str) -> Result<Places, String> {
    let line = match validator.split_once(':') {
        Some(("unit", name)) => Unit::ask(name).and_then(|unit| unit.validator()),
        Some(("pid", number)) => {
            let process = number.parse();
            let process = process.map_err(|_| format!("validator: {number} is no process id"))?;
            Processes::now().and_then(|processes| processes.validator(process))
        }
        _ => {
            return Err(format!(
                "validator must be \"unit:<name>\" or \"pid:<number>\", not \"{validator}\""
            ));
        }
    };
    line.map(|line| line.places()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory;
    use unsnap_cli::{generated, manual::Manual};

    use super::*;

    const MANUAL: Manual = Manual {
        program: "unpackd",
        section: "8",
        exit_status: &[
            (
                "0",
                "It was stopped by SIGTERM or SIGINT, or has printed or checked the configuration.",
            ),
            ("2", "Invalid command line."),
            (
                "3",
                "Error of the system; or another unpackd uses the same state directory or socket.",
            ),
            ("78", "Invalid configuration (EX_CONFIG of sysexits.h)."),
        ],
        see_also: &["ledger-tool-service(1)", "unsnap-validator(1)", "systemd.service(5)"],
    };

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_checked_in_is_what_is_generated() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        generated::hold(&deploy, &Cli::command(), &MANUAL).unwrap();
    }
}
