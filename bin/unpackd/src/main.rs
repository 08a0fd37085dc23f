#![forbid(unsafe_code)]
//! `unpackd`: the service that keeps the newest snapshot unpacked.

mod cli;
mod journal;
mod log;
#[allow(dead_code)] // until there is a supervisor
mod notify;
#[allow(dead_code)]
mod words;

use std::process::ExitCode;

use clap::Parser;
use unsnap_cli::printer::{data, log_line};

use crate::cli::Cli;

/// `EX_CONFIG` of sysexits.h: systemd can be told not to restart after it.
const EXIT_CONFIG: u8 = 78;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let sources = cli.sources();
    let config = match sources.load() {
        Ok(config) => config,
        Err(error) => {
            log_line(&format!("error: {error}"));
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    if cli.check_config || cli.print_config {
        let text = if cli.print_config { config.print() } else { String::new() };
        return data(&text).map_or(ExitCode::from(3), |()| ExitCode::SUCCESS);
    }
    log::start(cli.log_format, cli.verbose);
    ExitCode::SUCCESS
}
