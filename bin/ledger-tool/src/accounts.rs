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
};

/// Bytes that are written to standard output in one go. A guess.
const OUT_BYTES: usize = 256 << 10;

pub fn run(args: &AccountsArgs, printer: &Printer) -> anyhow::Result<()> {
    let (archive, query) = (settings::archive(&args.archive), settings::listing(args));
    let options = settings::reading(&args.io)?;
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start_doing("listing", printer, handles.progress.clone());
    let mut out =
        BufWriter::with_capacity(OUT_BYTES, Display::beside(display.as_ref(), io::stdout()));
    let listed = list_accounts(&archive, &query, &mut out, &options, &handles);
    drop(display);
    let listed = listed?;
    if printer.wants_summary() {
        let (listed, records) = (HumanCount(listed.listed), HumanCount(listed.records));
        log_line(&format!("{listed} of {records} records listed"));
    }
    Ok(())
}
