//! `ledger-tool export`

use std::{fmt::Write, fs::File, io, os::fd::AsFd};

use anyhow::Context;
use indicatif::{BinaryBytes, HumanCount};
use unsnap_export::{ExportError, ExportReport, StreamReport, export, stream};
use unsnap_pass::Handles;

use crate::{
    cli::{ExportArgs, TableFormat},
    exit::OutputFailed,
    printer::{Printer, log_line},
    progress::Display,
    settings,
    signals::Signals,
    summary::{count, seconds},
};

pub fn run(args: &ExportArgs, printer: &Printer) -> anyhow::Result<()> {
    let (archive, incremental) =
        settings::archives(&args.archive, args.incremental.as_ref(), &args.fetch, &args.io)?;
    let archives = settings::present_pair(archive, incremental)?;
    let query = settings::exporting(args)?;
    let options = settings::reading(&args.io)?;
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start_doing("exporting", printer, handles.progress.clone());
    if args.format == TableFormat::Arrow {
        // Not through the standard library's buffer, which divides writes at line ends.
        let out = io::stdout().as_fd().try_clone_to_owned().map_err(OutputFailed::new)?;
        let out = Display::beside(display.as_ref(), File::from(out));
        let streamed = stream(&archives, &query, out, &options, &handles);
        drop(display);
        let report = match streamed {
            Err(ExportError::Output(error)) => return Err(OutputFailed::new(error).into()),
            other => other?,
        };
        if printer.wants_summary() {
            log_line(&streamed_summary(&report));
        }
        return Ok(());
    }
    let exported = export(&archives, &query, &options, &handles);
    drop(display);
    let report = exported?;
    let done = |report: &ExportReport| format!("exported to {} and durable", report.output);
    printer.report_done(args.report, &report, summary, done)
}

/// The last line about a stream.
fn streamed_summary(report: &StreamReport) -> String {
    format!(
        "{} of {} in {}, {}{}",
        count(report.rows, "row"),
        count(report.records, "record"),
        seconds(report.elapsed_ms),
        BinaryBytes(report.bytes_written),
        match report.not_decoded {
            0 => String::new(),
            several => format!("; {} of no known layout", count(several, "record")),
        },
    )
}

/// The report for people.
fn summary(report: &ExportReport) -> String {
    let ExportReport { rows, records, bytes_written, bytes_decoded, elapsed_ms, .. } = *report;
    let mut text = format!(
        "exported {} of {} in {}\n  {}\n",
        count(rows, "record"),
        HumanCount(records),
        seconds(elapsed_ms),
        report.output,
    );
    for table in &report.manifest.tables {
        let _ = writeln!(
            text,
            "  {}: {} in {}, {}; {}",
            table.name,
            count(table.rows, "row"),
            count(table.files.len() as u64, "file"),
            BinaryBytes(table.files.iter().map(|file| file.bytes).sum()),
            table.digest,
        );
        if table.not_decoded > 0 {
            let _ = writeln!(
                text,
                "    {} of its programs of no known layout",
                count(table.not_decoded, "record")
            );
        }
    }
    let per_second = |bytes: u64| {
        let per_second = u128::from(bytes) * 1000 / u128::from(elapsed_ms.max(1));
        BinaryBytes(u64::try_from(per_second).unwrap_or(u64::MAX))
    };
    let _ = write!(
        text,
        "  {}/s of the tar stream, {}/s written{}; making rows took {} and encoding {} of all \
         threads together{}",
        per_second(bytes_decoded),
        per_second(bytes_written),
        if report.direct_write { " by direct I/O" } else { "" },
        seconds(report.gathering_ms),
        seconds(report.encoding_ms),
        if report.checked { "; read back and found equal" } else { "" },
    );
    text
}
