//! `ledger-tool diff`

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use indicatif::HumanCount;
use unsnap_lookup::{Counts, DiffReport, Difference, diff};
use unsnap_pass::Handles;

use crate::{
    cli::{DiffArgs, DiffFormat, ReportFormat},
    exit::Differ,
    printer::Printer,
    progress::Display,
    settings,
    signals::Signals,
};

pub fn run(args: &DiffArgs, printer: &Printer) -> anyhow::Result<()> {
    let ([before, after], how) = settings::comparing(args)?;
    let options = settings::reading(&args.io)?;
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start_doing("comparing", printer, handles.progress.clone());
    let mut out = BufWriter::new(Display::beside(display.as_ref(), io::stdout().lock()));
    let see = |difference: &Difference| {
        if args.format == DiffFormat::JsonLines {
            serde_json::to_writer(&mut out, difference).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    };
    let compared = diff(&before, &after, how, &options, &handles, see);
    drop(display);
    let report = compared?;
    out.flush()?;
    drop(out);
    match args.format {
        DiffFormat::Text => printer.report(ReportFormat::Text, &report, summary)?,
        DiffFormat::Json => printer.report(ReportFormat::Json, &report, summary)?,
        // Everything has been told.
        DiffFormat::JsonLines => {}
    }
    let is_same = report.storages.is_same() && report.accounts.is_same();
    if args.exit_code && !is_same { Err(Differ.into()) } else { Ok(()) }
}

fn summary(report: &DiffReport) -> String {
    let slot = |slot: Option<u64>| slot.map_or_else(String::new, |slot| format!(" (slot {slot})"));
    let counts = |what, counts: &Counts| {
        format!(
            "  {what}: {} added, {} removed, {} changed, {} the same\n",
            HumanCount(counts.added),
            HumanCount(counts.removed),
            HumanCount(counts.changed),
            HumanCount(counts.unchanged),
        )
    };
    format!(
        "{}{} compared with {}{}\n{}{}",
        report.after,
        slot(report.after_slot),
        report.before,
        slot(report.before_slot),
        counts("storages", &report.storages),
        counts("accounts", &report.accounts),
    )
}
