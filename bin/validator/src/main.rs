#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests examine files by themselves"))]
//! `validator`: prepares a state that a validator starts from, then becomes the validator.
//!
//! The words of the command line are judged first ([`intent`]). This program's own options ([`cli`])
//! and the validator's command line ([`target`]) become a request to the crate fastboot ([`start`],
//! [`places`], [`mod@prepare`], [`wait`]), unless earlier starts advise against it ([`memory`]). Whether that
//! succeeds or fails, the validator is executed, and the start recorded ([`record`]). So no error may
//! end the process before: errors are reported ([`reporter`]), panics caught. While the validator
//! starts, another process reads the state ahead of it ([`warm`]).

mod cli;
mod intent;
mod memory;
mod places;
mod prepare;
mod record;
mod reporter;
mod start;
mod target;
mod wait;
mod warm;

use std::{
    env,
    ffi::OsString,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

use clap::CommandFactory;
use unsnap_cli::{
    exit::Exit,
    flags::Flags,
    log,
    printer::{Printer, log_line},
    signals::{die_of_received, disregard_log_rotation},
    validator::ArchiveUse,
};

use crate::{
    cli::Cli,
    intent::Intent,
    reporter::Reporter,
    start::{Attempt, Ready, prepare, read_ahead, record_mistake, wait_for_others},
    target::{Target, execute},
};

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().collect();
    if let Some(code) = warm::carry_out(&words) {
        return code;
    }
    let rotation = disregard_log_rotation();
    let cli = match Intent::of(&words) {
        Intent::Run(cli) => cli,
        Intent::Stop(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
        Intent::StartPlainly { error, command } => {
            let _ = error.print();
            log_line(&format!("unsnap: {WITHOUT_UNSNAP}"));
            // A panic in there is printed, and keeps nothing from starting.
            let _ = catch_unwind(AssertUnwindSafe(|| record_mistake(&error, &command)));
            return execute(&command);
        }
    };
    log::start(&cli.output_control);
    if let Err(error) = rotation {
        tracing::warn!(%error, "SIGUSR1 and SIGUSR2 cannot be ignored");
    }
    let reporter = Reporter::new(
        Printer::new(&cli.output_control).with_names(Flags::of(&Cli::command(), false)),
    );
    let target = Target::of(&cli.command);
    if cli.prepare_only {
        return prepare_only(&cli, target.as_ref(), &reporter);
    }
    let Some(target) = target else {
        // Clap requires a command here.
        return ExitCode::from(2);
    };
    // Even a panic that must not happen, for instance while an error is printed, starts the
    // validator.
    let start = catch_unwind(AssertUnwindSafe(|| {
        let start = before_validator(&cli, &target, &reporter);
        if target.loads_ledger() && !matches!(start, Start::Interrupted) {
            wait_for_others(&cli, &target);
        }
        if let Start::Ready { lay_ready, .. } = start {
            read_ahead(&cli, &target, &reporter, lay_ready);
        }
        start
    }));
    match start.unwrap_or(Start::Plain) {
        Start::Ready { archive_use, .. } => target.execute(Some(archive_use)),
        Start::Plain => {
            reporter.note(WITHOUT_UNSNAP);
            target.execute(None)
        }
        Start::AsTyped => target.execute(None),
        Start::Interrupted => die_of_received(),
    }
}

/// The message after a failure.
const WITHOUT_UNSNAP: &str = "starting the validator as if it had been started alone";

/// How the validator is started.
enum Start {
    /// From a state that is ready.
    Ready {
        /// The use of archives.
        archive_use: ArchiveUse,
        /// Whether the state was there before, and not unpacked just now.
        lay_ready: bool,
    },
    /// As if alone: preparation failed, and the error has been printed.
    Plain,
    /// As if alone: there was nothing to prepare.
    AsTyped,
    /// Not at all: a signal arrived.
    Interrupted,
}

fn before_validator(cli: &Cli, target: &Target<'_>, reporter: &Reporter) -> Start {
    if !target.loads_ledger() {
        return Start::AsTyped;
    }
    if target.archive_use() == Some(ArchiveUse::Always) {
        reporter
            .note("preparing nothing: the validator's flags tell it to use the archives always");
        return Start::AsTyped;
    }
    match prepare(cli, Some(target), reporter) {
        Attempt::Done(Ok(ready)) => Start::Ready {
            archive_use: match ready.behind {
                0 => ArchiveUse::WhenNewest,
                // It would unpack the newer archives.
                _ => ArchiveUse::Never,
            },
            lay_ready: ready.lay_ready(),
        },
        Attempt::Done(Err(error)) => {
            reporter.error(&error);
            Start::Plain
        }
        Attempt::Interrupted => Start::Interrupted,
    }
}

fn prepare_only(cli: &Cli, target: Option<&Target<'_>>, reporter: &Reporter) -> ExitCode {
    let result = match prepare(cli, target, reporter) {
        Attempt::Done(result) => result,
        Attempt::Interrupted => return die_of_received(),
    };
    // The reporter has printed the text already.
    let report = |ready: Ready| match ready.outcome {
        Some(outcome) => reporter.printer().report(cli.format, &outcome, |_| String::new()),
        None => Ok(()),
    };
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
