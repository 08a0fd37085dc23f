//! What can be typed.

use std::path::PathBuf;

use clap::Parser;
use unsnap_service::config::{Override, Sources};

use crate::log::LogFormat;

/// Below systemd's configuration directory, or /etc/unsnap.
const FILE_NAME: &str = "unpackd.toml";

const EXAMPLES: &str = "\
Examples:
  Is the configuration right? (exit code 78 if not)
    unpackd --config /etc/unsnap/unpackd.toml --check-config

  What is in force, with all that the file leaves out:
    unpackd --config /etc/unsnap/unpackd.toml --print-config

  Try it in a terminal, until interrupted:
    unpackd --config /etc/unsnap/unpackd.toml --log-format text \\
      --archives /mnt/snapshots \\
      --state-directory /tmp/unpackd --socket /tmp/unpackd.socket";

/// Keeps the newest snapshot unpacked, ready for a validator
///
/// Watches directories for snapshot archives and unpacks the newest pair, durably, to each configured
/// target. Everything is configured in a file, see config/unpackd.toml; `ledger-tool service` talks to
/// it. Exit codes: 0 stopped as asked, 3 the machine cannot do it, 78 the configuration is wrong.
#[derive(Debug, Parser)]
#[command(name = "unpackd", version, about, max_term_width = 100, after_long_help = EXAMPLES)]
pub struct Cli {
    /// The configuration [default: $CONFIGURATION_DIRECTORY/unpackd.toml, or /etc/unsnap/unpackd.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Say whether the configuration is right, and end
    #[arg(long)]
    pub check_config: bool,

    /// Show the configuration that is in force, all layers merged, and end
    #[arg(long, conflicts_with = "check_config")]
    pub print_config: bool,

    /// Where archives appear [archives.directory]
    #[arg(long, value_name = "DIR")]
    archives: Option<String>,

    /// Between two looks at the directories, such as 60s [archives.rescan]
    #[arg(long, value_name = "DURATION")]
    rescan: Option<String>,

    /// Bytes written to each device in a second [neighbour.rate-limit]
    #[arg(long, value_name = "SIZE")]
    rate_limit: Option<String>,

    /// What is remembered across restarts [service.state-directory]
    #[arg(long, value_name = "DIR")]
    state_directory: Option<String>,

    /// The Unix socket [control.socket]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,

    /// Where the log goes
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,

    /// Log in more detail; given twice, in most
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Cli {
    /// Where the configuration comes from.
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
        // What is not UTF-8 is none of our variables.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let file = self.config.clone().unwrap_or_else(|| {
            let directory = std::env::var_os("CONFIGURATION_DIRECTORY");
            directory.map_or_else(|| PathBuf::from("/etc/unsnap"), PathBuf::from).join(FILE_NAME)
        });
        Sources { file, environment, flags: flags.collect() }
    }
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
                "It was stopped as asked (SIGTERM or SIGINT), or has told what it was asked for.",
            ),
            ("2", "An option makes no sense."),
            (
                "3",
                "The machine cannot do it; another unpackd is at work in the same state directory.",
            ),
            ("78", "The configuration is wrong (EX_CONFIG of sysexits.h)."),
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
