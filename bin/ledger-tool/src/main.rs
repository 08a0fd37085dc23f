#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "front ends read configurations and examine the machine by themselves"
)]
//! `ledger-tool`: unpacks and examines a validator's snapshot archives.
//!
//! The command line ([`cli`]) becomes validated options of the libraries ([`settings`]), which know
//! nothing of clap. Only [`printer`] writes to the terminal.

mod accounts;
mod bench;
mod check_export;
mod cli;
mod create;
mod diff;
mod doctor;
mod export;
mod extract;
mod fastboot;
mod index;
mod inspect;
mod list;
mod lookup;
mod manifest;
mod repack;
mod room;
mod service;
mod settings;
mod shell;
mod summary;
mod unpack;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use unsnap_cli::{
    args::Color,
    exit::{self, Exit},
    flags::Flags,
    log,
    printer::{self, Printer},
    progress, signals,
};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    // Usage errors are printed before the options are known.
    let command = Cli::command().color(Color::typed(std::env::args_os()));
    let matches = command.clone().get_matches();
    let names = Flags::of_call(&command, &matches);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let output_control = cli.command.output_control();
    let printer = Printer::new(&output_control).with_names(names);
    log::start(&output_control);
    let result = match &cli.command {
        Command::Unpack(args) => unpack::run(args, &printer),
        Command::List(args) => list::run(args, &printer),
        Command::Inspect(args) => inspect::run(args, &printer),
        Command::Extract(args) => extract::run(args, &printer),
        Command::Index(args) => index::run(args, &printer),
        Command::Verify(args) => unpack::run_verify(args, &printer),
        Command::Repack(args) => repack::run(args, &printer),
        Command::Create(args) => create::run(args, &printer),
        Command::Diff(args) => diff::run(args, &printer),
        Command::Accounts(args) => accounts::run(args, &printer),
        Command::Export(args) => export::run(args, &printer),
        Command::CheckExport(args) => check_export::run(args, &printer),
        Command::Lookup(args) => lookup::run(args, &printer),
        Command::Bench(args) => bench::run(args, &printer),
        Command::Doctor(args) => doctor::run(args, &printer),
        Command::Fastboot(args) => fastboot::run(&args.action, &printer),
        Command::Service(args) => service::run(&args.action, &printer),
        Command::Completions(args) => shell::completions(args),
        Command::Man(args) => shell::man(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let exit = cli.command.exit(Exit::of(&error));
            if !exit.is_quiet() && !error.is::<exit::Interrupted>() {
                printer.error(&error);
            }
            exit.leave()
        }
    }
}
