//! `ledger-tool accounts`

use std::io::{self, BufWriter};

use anyhow::Context;
use indicatif::HumanCount;
use unsnap_lookup::list_accounts;
use unsnap_pass::Handles;

use crate::{
    cli::AccountsArgs,
    printer::{Printer, log_line},
    progress::Display,
    settings,
    signals::Signals,
    summary::count,
};

/// Bytes gathered before they are written to standard output. A guess.
const OUT_BYTES: usize = 256 << 10;

pub fn run(args: &AccountsArgs, printer: &Printer) -> anyhow::Result<()> {
    let (archive, incremental) =
        settings::archives(&args.archive, args.incremental.as_ref(), &args.fetch, &args.io)?;
    let archives = settings::present_pair(archive, incremental)?;
    let query = settings::listing(args)?;
    let options = settings::reading(&args.io)?;
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start_doing("listing", printer, handles.progress.clone());
    let mut out =
        BufWriter::with_capacity(OUT_BYTES, Display::beside(display.as_ref(), io::stdout()));
    let listed = list_accounts(&archives, &query, &mut out, &options, &handles);
    drop(display);
    let listed = listed?;
    if printer.wants_summary() {
        let records = count(listed.listed, "record");
        log_line(&if listed.limited {
            format!("{records} listed, the limit; the rest of the archive is unread and unchecked")
        } else {
            format!("{records} of {} listed", HumanCount(listed.records))
        });
    }
    Ok(())
}
