#![forbid(unsafe_code)]
//! `unpackd`: the service that keeps the newest snapshot unpacked.

mod cli;
mod failure;
mod journal;
mod log;
mod notify;
mod signals;

use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use unsnap_cli::{
    args::OutputArgs,
    exit::Exit,
    flags::Flags,
    hook,
    printer::{Printer, data},
};
use unsnap_control::Listener;
use unsnap_service::{
    StateDirectory, Stopped, Supervisor,
    config::{Config, Sources},
};

use crate::{cli::Cli, failure::StartError};

/// Exit code of an invalid configuration: `EX_CONFIG` of sysexits.h. The unit does not restart
/// after it.
const EXIT_CONFIG: u8 = 78;

/// Exit code of an error of the environment.
const EXIT_ENVIRONMENT: u8 = 3;

/// Mode of the socket. Every user may connect; the server checks rights by the peer's credentials.
const SOCKET_MODE: u32 = 0o666;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let sources = cli.sources();
    let names = Flags::of(&Cli::command(), false);
    let printer = Printer::new(&OutputArgs::default()).with_names(names);
    let config = match unsnap_service::load(&sources) {
        Ok(config) => config,
        Err(error) => {
            let file = sources.file.clone();
            printer.error(&StartError::Config { file, error }.wrap());
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    if cli.check_config {
        let lacks = config.lacks();
        let is_whole = lacks.is_empty();
        for lack in lacks {
            printer.error(&StartError::Lack { file: sources.file.clone(), lack }.wrap());
        }
        return if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CONFIG) };
    }
    if cli.print_config {
        let error = data(&config.print()).map_err(anyhow::Error::from).err();
        return error.map_or(ExitCode::SUCCESS, |error| Exit::of(&error).leave());
    }
    log::start(cli.log_format, cli.verbose);
    match serve(config, sources) {
        Ok(Stopped::Clean) => ExitCode::SUCCESS,
        Ok(Stopped::Unfinished) => {
            tracing::warn!("a job did not end within stop-within; the next start resumes it");
            ExitCode::SUCCESS
        }
        Err(error) => {
            printer.error(&error);
            ExitCode::from(EXIT_ENVIRONMENT)
        }
    }
}

fn serve(config: Config, sources: Sources) -> anyhow::Result<Stopped> {
    for lack in config.lacks() {
        tracing::warn!("{lack}; the service goes on, because a disk may be mounted later");
    }
    let signals = signals::catch().context("cannot watch for signals")?;
    // Taken first: a process without the lock must not touch the other one's socket.
    let directory = &config.settings.service.state_directory;
    let directory = StateDirectory::take(directory)
        .map_err(StartError::cannot("use the state directory", directory))?;
    let socket = &config.settings.control.socket;
    let given = Listener::from_environment().context("cannot use systemd's socket")?;
    let listener = given.map_or_else(|| Listener::bind(socket, SOCKET_MODE), Ok);
    let listener = listener.map_err(StartError::cannot("listen on", socket))?;
    let notify = Box::new(notify::Systemd::from_environment());
    let supervisor = Supervisor::new(config, sources, directory, listener, notify, hook::tell)
        .context("cannot start")?;
    signals::forward(signals, supervisor.handle()).context("cannot watch for signals")?;
    Ok(supervisor.run())
}
