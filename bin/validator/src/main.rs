#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! `validator`: prepares what a validator starts from, then becomes the validator.
//!
//! What was typed ([`cli`]), and what the validator's own arguments say ([`mod@line`]), becomes a request
//! to the crate fastboot ([`places`], [`preparing`]); whatever comes of it, the validator is executed
//! ([`handover`]). So nothing on the way there may end the process: errors are told, panics caught.

mod cli;
mod handover;
mod line;
mod places;
mod preparing;
mod telling;

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
    printer::{Printer, log_line, start_log},
    progress::Display,
    settings,
    signals::{Signals, die_of_received},
};
use unsnap_fastboot::{Outcome, Request};
use unsnap_pass::{CancelToken, Progress};

use crate::{
    cli::Cli,
    handover::become_validator,
    line::{AtStartup, Purpose, Said},
    preparing::{Failure, Wanted, look_after, prepare_guarded},
    telling::Teller,
};

fn main() -> ExitCode {
    let cli = match Cli::of_this_process() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    start_log(&cli.output_control);
    let teller = Teller::new(
        Printer::new(&cli.output_control).with_names(Flags::of(&Cli::command(), false)),
    );
    if cli.prepare_only {
        return prepare_only(&cli, &teller);
    }
    let Some((program, arguments)) = cli.command.split_first() else {
        // Clap has seen to that.
        return ExitCode::from(2);
    };
    let said = Said::by(arguments);
    // The last net: what must not happen, in telling of errors say, still starts the validator.
    let end = catch_unwind(AssertUnwindSafe(|| before_validator(&cli, &said, &teller)));
    match end.unwrap_or(End::Failed) {
        End::Ready => become_validator(program, &said.with_when_newest(arguments)),
        End::Failed => {
            teller.note("the validator is started as if unsnap had not been there");
            become_validator(program, arguments)
        }
        End::NotWanted => become_validator(program, arguments),
        End::Signal => die_of_received(),
    }
}

/// What came of everything that is done before the validator.
enum End {
    /// There is a state.
    Ready,
    /// Something went wrong, and has been told.
    Failed,
    /// There was nothing to do.
    NotWanted,
    /// The operator wants an end.
    Signal,
}

fn before_validator(cli: &Cli, said: &Said, teller: &Teller) -> End {
    if said.purpose != Purpose::Start {
        return End::NotWanted;
    }
    if said.at_startup == Some(AtStartup::Archives) {
        teller.note("nothing is prepared: the validator is told to take the archives always");
        return End::NotWanted;
    }
    match prepare(cli, said, teller) {
        Attempt::Done(Ok(_)) => End::Ready,
        Attempt::Done(Err(error)) => {
            teller.error(&error);
            End::Failed
        }
        Attempt::Signal => End::Signal,
    }
}

fn prepare_only(cli: &Cli, teller: &Teller) -> ExitCode {
    let said = Said::by(cli.command.get(1..).unwrap_or_default());
    let result = match prepare(cli, &said, teller) {
        Attempt::Done(result) => result,
        Attempt::Signal => return die_of_received(),
    };
    // For people it has been told already.
    let report = |outcome| teller.printer().report(cli.format, &outcome, |_| String::new());
    match result.and_then(report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let exit = Exit::of(&error);
            if exit != Exit::BrokenPipe {
                teller.error(&error);
            }
            exit.leave()
        }
    }
}

/// How preparing ended.
enum Attempt {
    Done(anyhow::Result<Outcome>),
    /// A signal came.
    Signal,
}

/// Prepares a state. All of this process's threads but the calling one have ended afterwards, and
/// signals do what they did before.
fn prepare(cli: &Cli, said: &Said, teller: &Teller) -> Attempt {
    let (progress, cancel) = (Progress::default(), CancelToken::default());
    let begun = request(cli, said, teller).and_then(|request| {
        let watch = Signals::catch()?.cancel(cancel.clone());
        Ok((request, watch.context("cannot watch for signals")?))
    });
    let (request, watch) = match begun {
        Ok(begun) => begun,
        Err(error) => return Attempt::Done(Err(error)),
    };
    teller.begins(&request.places);
    let wanted = match said.at_startup {
        Some(AtStartup::State) => Wanted::Any,
        _ => Wanted::Newest,
    };
    let since = Instant::now();
    let display = Display::start(teller.printer(), progress.clone());
    let prepared = prepare_guarded(&request, wanted, cli.deadline, &progress, &cancel);
    drop(display);
    match &prepared {
        Ok(outcome) => teller.is_ready(outcome, since.elapsed()),
        Err(failure) => look_after(&request, failure),
    }
    if watch.end() {
        teller.note("interrupted: the validator is not started");
        return Attempt::Signal;
    }
    Attempt::Done(prepared.map_err(Failure::into_error))
}

fn request(cli: &Cli, said: &Said, teller: &Teller) -> anyhow::Result<Request> {
    let (places, differing) = places::places(&cli.places, said);
    for flag in differing {
        teller.warning(&format!(
            "{flag} is not the same for unsnap as for the validator: unsnap's own is used"
        ));
    }
    let mut pass = settings::reading(&cli.io)?;
    pass.neighbour = cli.neighbour.limits();
    Ok(Request {
        places,
        verify: cli.state.verify(),
        preflight: cli.state.preflight.mode(),
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

/// What cannot be understood of our own options is no reason not to start a validator, as long as it
/// is clear where its command line begins.
fn refused(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let words: Vec<OsString> = env::args_os().collect();
    let command = words.iter().position(|word| word == "--").map(|at| &words[at + 1..]);
    match command.and_then(<[OsString]>::split_first) {
        Some((program, arguments)) if error.use_stderr() => {
            log_line("unsnap: the validator is started as if unsnap had not been there");
            become_validator(program, arguments)
        }
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}
