//! `ledger-tool doctor`: checks whether unsnap can be fast and safe on this machine, and names causes
//! and remedies if not.
//!
//! Probing the machine ([`probe`]), the facts ([`facts`]) and judging them ([`verdicts`]) are separate,
//! so that every verdict can be tested on machines without the fault.

mod args;
mod check;
mod facts;
mod probe;
mod server;
mod text;
mod verdicts;

use std::path::PathBuf;

use serde::Serialize;

pub use args::{DoctorArgs, EXAMPLES};
use check::{Check, Verdict};
use facts::Facts;
pub use probe::file_system_of;

use crate::{
    exit::{MachineUnfit, ProgramFailure},
    printer::Printer,
};

/// The report as JSON. Keys are stable; new ones may be added.
#[derive(Serialize)]
struct Diagnosis<'a> {
    /// The worst verdict.
    verdict: Verdict,
    checks: &'a [Check],
    facts: &'a Facts,
}

pub fn run(args: &DoctorArgs, printer: &Printer) -> anyhow::Result<()> {
    if let Some(url) = &args.url {
        return server::run(url, args, printer);
    }
    let here = [PathBuf::from(".")];
    let paths = if args.paths.is_empty() { &here[..] } else { &args.paths };
    let facts = probe::facts(paths).map_err(ProgramFailure::new)?;
    let checks = verdicts::judge(&facts);
    let verdict = checks.iter().map(|check| check.verdict).max().unwrap_or_default();
    let diagnosis = Diagnosis { verdict, checks: &checks, facts: &facts };
    printer.report(args.format, &diagnosis, |_| text::text(&checks, printer))?;
    if verdict.is_bad() { Err(MachineUnfit.into()) } else { Ok(()) }
}
