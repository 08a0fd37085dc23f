#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests examine files by themselves"))]
//! `validator`: prepares a state that a validator starts from, then becomes the validator.
//!
//! The command line ([`cli`]) and the validator's own arguments ([`mod@args`]) become a request to the
//! crate fastboot ([`places`], [`mod@prepare`]). Whether that succeeds or fails, the validator is
//! executed ([`exec`]). So no error may end the process before: errors are reported ([`reporter`]),
//! panics caught.

mod args;
mod cli;
mod exec;
mod places;
mod prepare;
mod reporter;

use std::{
    env,
    ffi::OsString,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::Instant,
};

use anyhow::Context;
use clap::CommandFactory;
use unsnap_cli::{
    exit::Exit,
    flags::Flags,
    log,
    printer::{Printer, log_line},
    progress::Display,
    settings,
    signals::{Signals, die_of_received},
};
use unsnap_fastboot::{Outcome, Request};
use unsnap_pass::{CancelToken, Progress};

use crate::{
    args::{ArchiveUse, Purpose, ValidatorArgs},
    cli::Cli,
    exec::become_validator,
    prepare::{Failure, Wanted, prepare_guarded, repair_older_state},
    reporter::Reporter,
};

fn main() -> ExitCode {
    let cli = match Cli::of_this_process() {
        Ok(cli) => cli,
        Err(error) => return usage_error(&error),
    };
    log::start(&cli.output_control);
    let reporter = Reporter::new(
        Printer::new(&cli.output_control).with_names(Flags::of(&Cli::command(), false)),
    );
    if cli.prepare_only {
        return prepare_only(&cli, &reporter);
    }
    let Some((program, arguments)) = cli.command.split_first() else {
        // Clap requires a command here.
        return ExitCode::from(2);
    };
    let validator = ValidatorArgs::parse(arguments);
    // Even a panic that must not happen, for instance while an error is printed, starts the
    // validator.
    let end = catch_unwind(AssertUnwindSafe(|| before_validator(&cli, &validator, &reporter)));
    match end.unwrap_or(End::Failed) {
        End::Ready => become_validator(program, &validator.with_when_newest(arguments)),
        End::Failed => {
            reporter.note(WITHOUT_UNSNAP);
            become_validator(program, arguments)
        }
        End::NotNeeded => become_validator(program, arguments),
        End::Interrupted => die_of_received(),
    }
}

/// The message after a failure.
const WITHOUT_UNSNAP: &str = "starting the validator as if it had been started alone";

/// Result of the work before the validator is executed.
enum End {
    /// A state is ready.
    Ready,
    /// Preparation failed; the error has been printed.
    Failed,
    /// There was nothing to prepare.
    NotNeeded,
    /// A signal arrived: the validator must not be started.
    Interrupted,
}

fn before_validator(cli: &Cli, validator: &ValidatorArgs, reporter: &Reporter) -> End {
    if validator.purpose != Purpose::Start {
        return End::NotNeeded;
    }
    if validator.archive_use == Some(ArchiveUse::Always) {
        reporter
            .note("preparing nothing: the validator's flags tell it to use the archives always");
        return End::NotNeeded;
    }
    match prepare(cli, validator, reporter) {
        Attempt::Done(Ok(_)) => End::Ready,
        Attempt::Done(Err(error)) => {
            reporter.error(&error);
            End::Failed
        }
        Attempt::Interrupted => End::Interrupted,
    }
}

fn prepare_only(cli: &Cli, reporter: &Reporter) -> ExitCode {
    let validator = ValidatorArgs::parse(cli.command.get(1..).unwrap_or_default());
    let result = match prepare(cli, &validator, reporter) {
        Attempt::Done(result) => result,
        Attempt::Interrupted => return die_of_received(),
    };
    // The reporter has printed the text already.
    let report = |outcome| reporter.printer().report(cli.format, &outcome, |_| String::new());
    match result.and_then(report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let exit = Exit::of(&error);
            if exit != Exit::BrokenPipe {
                reporter.error(&error);
            }
            exit.leave()
        }
    }
}

/// Result of a preparation.
enum Attempt {
    Done(anyhow::Result<Outcome>),
    /// A signal arrived.
    Interrupted,
}

/// Prepares a state. On return the calling thread is the only one of the process, and signals have
/// their old dispositions.
fn prepare(cli: &Cli, validator: &ValidatorArgs, reporter: &Reporter) -> Attempt {
    let (progress, cancel) = (Progress::default(), CancelToken::default());
    let begun = request(cli, validator, reporter).and_then(|request| {
        let watch = Signals::catch()?.cancel(cancel.clone());
        Ok((request, watch.context("cannot watch for signals")?))
    });
    let (request, watch) = match begun {
        Ok(begun) => begun,
        Err(error) => return Attempt::Done(Err(error)),
    };
    reporter.newest_archives(&request.places);
    let wanted = match validator.archive_use {
        Some(ArchiveUse::Never) => Wanted::Any,
        _ => Wanted::Newest,
    };
    let since = Instant::now();
    let display = Display::start(reporter.printer(), progress.clone());
    let prepared = prepare_guarded(&request, wanted, cli.deadline, &progress, &cancel);
    drop(display);
    match &prepared {
        Ok(outcome) => reporter.state_is_ready(outcome, since.elapsed()),
        Err(failure) => repair_older_state(&request, failure),
    }
    if watch.end() {
        reporter.note("interrupted: the validator is not started");
        return Attempt::Interrupted;
    }
    Attempt::Done(prepared.map_err(Failure::into_error))
}

fn request(cli: &Cli, validator: &ValidatorArgs, reporter: &Reporter) -> anyhow::Result<Request> {
    let (places, differing) = places::places(&cli.places, validator);
    for flag in differing {
        reporter.warning(&format!(
            "{flag} differs between unsnap and the validator: unsnap uses its own"
        ));
    }
    let mut pass = settings::reading(&cli.io)?;
    pass.neighbour = cli.neighbour.limits();
    Ok(Request {
        places,
        verify: cli.state.verify(),
        preflight: cli.state.preflight.mode(),
        min_free: cli.state.preflight.min_free.unwrap_or_default(),
        pass,
        files: None,
        format: cli.state.fastboot_format.format(),
        shadow: !cli.no_shadow,
        replace: cli.replace,
        pair: None,
        known_bad: Vec::new(),
        removal_files_per_second: cli.removal.removal_files_per_second,
    })
}

/// Reports invalid options of this program. The validator is started all the same if `--` marks the
/// beginning of its command line.
fn usage_error(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let words: Vec<OsString> = env::args_os().collect();
    let command = words.iter().position(|word| word == "--").map(|at| &words[at + 1..]);
    match command.and_then(<[OsString]>::split_first) {
        Some((program, arguments)) if error.use_stderr() => {
            log_line(&format!("unsnap: {WITHOUT_UNSNAP}"));
            become_validator(program, arguments)
        }
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}
