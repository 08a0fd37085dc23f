//! `ledger-tool create`

use anyhow::Context;
use indicatif::BinaryBytes;
use unsnap_pack::{CreateReport, CreateRequest, create};
use unsnap_pass::Handles;
use unsnap_ring::Syscalls;

use crate::{
    cli::CreateArgs, printer::Printer, progress::Display, repack::written, settings,
    signals::Signals, summary::count,
};

pub fn run(args: &CreateArgs, printer: &Printer) -> anyhow::Result<()> {
    settings::present(&args.directory)?;
    let request = CreateRequest {
        directory: args.directory.clone(),
        accounts: args.accounts.clone(),
        base_slot: args.base_slot,
        output: args.output.clone(),
    };
    let options = settings::packing(&args.frames);
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start_doing("reading files", printer, handles.progress.clone());
    let created = create(&request, &options, &Syscalls::default(), &handles);
    drop(display);
    let report = created?;
    let done = |report: &CreateReport| format!("made {} and durable", report.pack.output);
    printer.report_done(args.format, &report, summary, done)
}

fn summary(report: &CreateReport) -> String {
    format!(
        "made an archive of slot {}: {}, {}, in {}\n",
        report.slot,
        count(report.storages, "storage"),
        BinaryBytes(report.storage_bytes),
        written(&report.pack),
    )
}
