//! `ledger-tool lookup`

use std::{fmt::Write, num::NonZeroUsize, thread};

use anyhow::Context;
use indicatif::BinaryBytes;
use unsnap_cli::settings::remote;
use unsnap_export::{LookupQuery, LookupReport, Place, lookup};
use unsnap_pass::{Handles, Options};

use crate::{
    cli::LookupArgs,
    printer::Printer,
    progress::Display,
    settings,
    signals::Signals,
    summary::{count, seconds},
};

pub fn run(args: &LookupArgs, printer: &Printer) -> anyhow::Result<()> {
    let query = query(args)?;
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start_doing("searching", printer, handles.progress.clone());
    let found = lookup(&query, &Options::default(), &handles);
    drop(display);
    printer.report(args.format, &found?, summary)
}

fn query(args: &LookupArgs) -> anyhow::Result<LookupQuery> {
    let (place, threads) = if let Some(remote) = remote(&args.directory, &args.fetch, false)? {
        let connections = NonZeroUsize::new(args.fetch.connections.into());
        (Place::Server(Box::new((remote.address, remote.options))), connections)
    } else {
        let cores = thread::available_parallelism().ok();
        (Place::Directory(args.directory.clone()), cores)
    };
    Ok(LookupQuery {
        place,
        keys: args.pubkeys.iter().map(|pubkey| pubkey.0).collect(),
        tables: args.table.iter().map(|table| settings::table_kind(*table)).collect(),
        with_data: args.with_data,
        gap_bytes: args.gap,
        threads: threads.unwrap_or(NonZeroUsize::MIN),
    })
}

/// The rows and the report for people.
fn summary(report: &LookupReport) -> String {
    let mut text = String::new();
    for row in &report.rows {
        let _ = writeln!(text, "{}", row.table);
        for (name, value) in &row.values {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "  {name}: {value}");
        }
    }
    for missing in &report.missing {
        let _ = writeln!(text, "{missing} is not there");
    }
    let _ = writeln!(
        text,
        "{} in {} of {} row groups; {} read by {} in {}",
        count(report.rows.len() as u64, "row"),
        report.row_groups_read,
        report.row_groups,
        BinaryBytes(report.bytes_read),
        count(report.requests, "request"),
        seconds(report.elapsed_ms),
    );
    text
}
