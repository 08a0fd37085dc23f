//! `ledger-tool create`

use anyhow::Context;
use indicatif::{BinaryBytes, HumanCount};
use unsnap_pack::{CreateReport, CreateRequest, create};
use unsnap_pass::Handles;
use unsnap_ring::Syscalls;

use crate::{
    cli::CreateArgs, printer::Printer, progress::Display, repack::written, settings,
    signals::Signals,
};

pub fn run(args: &CreateArgs, printer: &Printer) -> anyhow::Result<()> {
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
    printer.report(args.format, &report, summary)
}

fn summary(report: &CreateReport) -> String {
    format!(
        "made an archive of slot {}: {} storages, {}, in {}\n",
        report.slot,
        HumanCount(report.storages),
        BinaryBytes(report.storage_bytes),
        written(&report.pack),
    )
}
