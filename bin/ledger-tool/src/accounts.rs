//! `ledger-tool accounts`

use std::io::{self, BufWriter};

use anyhow::Context;
use indicatif::HumanCount;
use unsnap_pack::list_accounts;
use unsnap_unpack::{CancelToken, Progress};

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
    let (config, query) = settings::listing(args)?;
    let (progress, cancel) = (Progress::default(), CancelToken::default());
    Signals::catch()?.cancel(cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start_doing("listing", printer, progress.clone());
    let mut out =
        BufWriter::with_capacity(OUT_BYTES, Display::beside(display.as_ref(), io::stdout()));
    let listed = list_accounts(&config, &query, &mut out, &progress, &cancel);
    drop(display);
    let listed = listed?;
    if printer.wants_summary() {
        let (listed, records) = (HumanCount(listed.listed), HumanCount(listed.records));
        log_line(&format!("{listed} of {records} records listed"));
    }
    Ok(())
}
