//! `ledger-tool repack`

use std::fmt::Write;

use anyhow::Context;
use indicatif::BinaryBytes;
use unsnap_pack::{PackOptions, PackReport, RepackReport, repack};
use unsnap_pass::Handles;
use unsnap_ring::Syscalls;

use crate::{
    cli::RepackArgs,
    printer::Printer,
    progress::Display,
    settings,
    signals::Signals,
    summary::{count, seconds},
};

pub fn run(args: &RepackArgs, printer: &Printer) -> anyhow::Result<()> {
    let read = settings::repacking(args)?;
    let direct_io = read.pass.io.direct;
    let options = PackOptions { direct_io, ..settings::packing(&args.frames) };
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start_doing("repacking", printer, handles.progress.clone());
    let repacked = repack(&read, &args.output, &options, &Syscalls::default(), &handles);
    drop(display);
    let report = repacked?;
    let done = |report: &RepackReport| format!("repacked to {} and durable", report.pack.output);
    printer.report_done(args.format, &report, summary, done)
}

/// The report for people.
fn summary(RepackReport { pack, raw_digest, archive }: &RepackReport) -> String {
    let mut text = format!(
        "repacked {} of {}, {}, into {}\n",
        count(archive.frames, "frame"),
        archive.compression,
        BinaryBytes(archive.bytes_read),
        written(pack),
    );
    if pack.limited_by == "input" {
        let _ = writeln!(text, "  the input was limited by: {}", archive.limited_by);
    }
    let _ = writeln!(text, "  digest of the tar stream, in both: {raw_digest}");
    if let Some(digest) = &archive.digest {
        let _ = writeln!(text, "  digest of the old archive: {digest}");
    }
    for fallback in &archive.fallbacks {
        let _ = writeln!(text, "  fallback: {fallback}");
    }
    text
}

/// Describes a new archive in several lines.
pub fn written(pack: &PackReport) -> String {
    let mut text = format!(
        "{}, {}, in {}\n  {}\n",
        count(pack.frames, "frame"),
        BinaryBytes(pack.bytes_written),
        seconds(pack.elapsed_ms),
        pack.output,
    );
    let _ = writeln!(
        text,
        "  {}/s of the tar stream, by {} at level {}; limited by: {}",
        BinaryBytes(pack.raw_bytes_per_second),
        count(pack.threads as u64, "thread"),
        pack.level,
        pack.limited_by,
    );
    let _ = write!(
        text,
        "  compressing took {} of all threads together, decoding again and comparing {}; \
         durable: {} were spent syncing{}",
        seconds(pack.compressing_ms),
        seconds(pack.proving_ms),
        seconds(pack.sync_ms),
        if pack.direct_write { ", written by direct I/O" } else { "" },
    );
    text
}
