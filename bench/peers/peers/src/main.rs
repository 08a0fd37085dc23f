//! `peers`: measures unsnap side by side with other unpackers, and makes tables of it.

mod console;
mod disk;
mod floors;
mod goals;
mod inputs;
mod machine;
mod manifest;
mod measure;
mod options;
mod plot;
mod programs;
mod report;
mod results;
mod run;
mod scenarios;
mod size;
mod statistics;
mod tables;
mod tar_rs;
mod tools;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure unsnap side by side with other unpackers
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build, make archives, run everything interleaved, and print the tables
    Run {
        #[command(flatten)]
        options: options::RunOptions,
        /// Put the tables into BENCHMARKS.md, and draw the plot
        #[arg(long)]
        write: bool,
    },
    /// Print the tables of what was measured earlier
    Report(report::ReportOptions),
    /// Unpack an archive by the tar and zstd crates: one of the peers
    TarRs {
        /// The archive
        archive: PathBuf,
        /// An existing directory
        output: PathBuf,
    },
    /// Do a part of the job alone, to know what it takes
    #[command(subcommand)]
    Floor(floors::Floor),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Run { options, write } => {
            if write {
                // Now, and not only after an hour of measuring.
                ensure!(!options.is_scaled(), report::NOT_PUBLISHED);
                report::check_markers()?;
            }
            let results = run::run(&options)?;
            report::report(&report::ReportOptions { results: Some(results), write })
        }
        Command::Report(options) => report::report(&options),
        Command::TarRs { archive, output } => tar_rs::unpack(&archive, &output),
        Command::Floor(floor) => floor.run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn options_are_consistent() {
        Cli::command().debug_assert();
    }
}
