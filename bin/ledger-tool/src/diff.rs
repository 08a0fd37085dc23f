//! `ledger-tool diff`

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use indicatif::HumanCount;
use unsnap_lookup::{Counts, DiffReport, Difference, diff};
use unsnap_pass::{Archive, Handles};

use crate::{
    cli::{DiffArgs, DiffFormat, ReportFormat},
    exit::{Differ, OutputFailed},
    printer::Printer,
    progress::Display,
    settings,
    signals::Signals,
};

pub fn run(args: &DiffArgs, printer: &Printer) -> anyhow::Result<()> {
    let ([before, after], how) = settings::comparing(args)?;
    if let [one] = before.as_slice()
        && let [other] = after.as_slice()
        && let Some(base) = incremental_and_base(one, other)
    {
        printer.warning(&format!(
            "one archive is incremental, and the other is its full one: accounts that have not \
             changed since slot {base} appear as added or removed; to see the changes, give the \
             full archive twice and --after-incremental"
        ));
    }
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
    out.flush().map_err(OutputFailed::new)?;
    drop(out);
    match args.format {
        DiffFormat::Text => printer.report(ReportFormat::Text, &report, summary)?,
        DiffFormat::Json => printer.report(ReportFormat::Json, &report, summary)?,
        // Every difference has been printed.
        DiffFormat::JsonLines => {}
    }
    let is_same = report.storages.is_same() && report.accounts.is_same();
    if args.exit_code && !is_same { Err(Differ.into()) } else { Ok(()) }
}

/// Returns the slot of the full snapshot, if one archive is incremental and builds on the other.
fn incremental_and_base(one: &Archive, other: &Archive) -> Option<u64> {
    let (one, other) = (one.snapshot_name()?, other.snapshot_name()?);
    let base = one.base_slot().xor(other.base_slot())?;
    (one.slot() == base || other.slot() == base).then_some(base)
}

fn summary(report: &DiffReport) -> String {
    let side = |archive: &str, incremental: &Option<String>, slot: Option<u64>| {
        let upon = incremental.as_ref().map(|name| format!(" with {name}")).unwrap_or_default();
        let slot = slot.map_or_else(String::new, |slot| format!(" (slot {slot})"));
        format!("{archive}{upon}{slot}")
    };
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
        "{} compared with {}\n{}{}",
        side(&report.after, &report.after_incremental, report.after_slot),
        side(&report.before, &report.before_incremental, report.before_slot),
        counts("storages", &report.storages),
        counts("accounts", &report.accounts),
    )
}
