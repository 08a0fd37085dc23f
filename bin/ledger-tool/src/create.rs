//! `ledger-tool create`

use anyhow::Context;
use indicatif::BinaryBytes;
use unsnap_pack::{CreateReport, CreateRequest, create};
use unsnap_pass::Handles;
use unsnap_ring::Syscalls;
use unsnap_unpack::Report;

use crate::{
    cli::CreateArgs,
    printer::Printer,
    progress::Display,
    repack::written,
    settings,
    signals::Signals,
    summary::{count, seconds},
};

pub fn run(args: &CreateArgs, printer: &Printer) -> anyhow::Result<()> {
    settings::present(&args.directory)?;
    let request = CreateRequest {
        directory: args.directory.clone(),
        accounts: args.accounts.clone(),
        base_slot: args.base_slot,
        output: args.output.clone(),
        verify: args.verify.verify(args.verify_memory),
    };
    let options = settings::packing(&args.frames);
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let progress = |doing| Display::start_doing(doing, printer, handles.progress.clone());
    let mut display = progress("reading files");
    let created = create(&request, &options, &Syscalls::default(), &handles, || {
        drop(display.take());
        display = progress("verifying");
    });
    drop(display);
    let report = created?;
    let done = |report: &CreateReport| format!("made {} and durable", report.pack.output);
    printer.report_done(args.format, &report, summary, done)
}

fn summary(report: &CreateReport) -> String {
    let verified = match &report.verification {
        None => "not verified".to_owned(),
        Some(Report { accounts: None, elapsed_ms, .. }) => format!(
            "verified in {}: the bank file and the structure of all storages, but not that none is \
             missing",
            seconds(*elapsed_ms)
        ),
        Some(Report { accounts: Some(_), elapsed_ms, .. }) => format!(
            "verified in {}: the accounts add up to the hash in the name",
            seconds(*elapsed_ms)
        ),
    };
    format!(
        "made an archive of slot {}: {}, {}, in {}\n  {verified}\n",
        report.slot,
        count(report.storages, "storage"),
        BinaryBytes(report.storage_bytes),
        written(&report.pack),
    )
}
