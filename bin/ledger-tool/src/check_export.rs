//! `ledger-tool check-export`

use std::{fmt::Write, num::NonZeroUsize};

use anyhow::Context;
use indicatif::BinaryBytes;
use unsnap_export::{CheckQuery, CheckReport, check};
use unsnap_pass::{Archives, Handles};

use crate::{
    cli::CheckExportArgs,
    printer::Printer,
    progress::Display,
    settings,
    signals::Signals,
    summary::{count, seconds},
};

pub fn run(args: &CheckExportArgs, printer: &Printer) -> anyhow::Result<()> {
    let (query, archives) = (query(args), archives(args)?);
    let options = settings::reading(&args.io)?;
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start_doing("comparing", printer, handles.progress.clone());
    let checked = check(&query, archives.as_ref(), &options, &handles);
    drop(display);
    printer.report(args.report, &checked?, summary)
}

fn query(args: &CheckExportArgs) -> CheckQuery {
    let default = CheckQuery::new(&args.directory);
    let threads = args.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    CheckQuery {
        newest_memory_bytes: settings::memory(args.memory),
        threads: threads.unwrap_or(default.threads),
        ..default
    }
}

/// Returns the archives to compare with.
fn archives(args: &CheckExportArgs) -> anyhow::Result<Option<Archives>> {
    let Some(archive) = &args.archive else { return Ok(None) };
    let (archive, incremental) =
        settings::archives(archive, args.incremental.as_ref(), &args.fetch, &args.io)?;
    Ok(Some(settings::present_pair(archive, incremental)?))
}

/// The report for people.
fn summary(report: &CheckReport) -> String {
    let mut text = format!(
        "{} is complete: {} in {}, {}, read in {}\n",
        report.directory,
        count(report.rows, "row"),
        count(report.files, "file"),
        BinaryBytes(report.bytes),
        seconds(report.elapsed_ms),
    );
    for table in &report.manifest.tables {
        let _ = writeln!(text, "  {}: {}; {}", table.name, count(table.rows, "row"), table.digest);
    }
    if let Some(hash) = &report.accounts_hash {
        let _ = writeln!(text, "  the accounts have the hash in the archive's name: {hash}");
    }
    if let Some(lamports) = report.capitalization {
        let _ = writeln!(text, "  the lamports are the bank's capitalization: {lamports}");
    }
    if !report.compared_with.is_empty() {
        let _ = writeln!(text, "  the rows are those of {}", report.compared_with.join(" and "));
    }
    text
}
