//! `ledger-tool repack`

use std::fmt::Write;

use anyhow::Context;
use indicatif::{BinaryBytes, HumanCount};
use unsnap_pack::{PackOptions, PackReport, RepackReport, repack};
use unsnap_pass::Handles;
use unsnap_ring::Syscalls;

use crate::{cli::RepackArgs, printer::Printer, progress::Display, settings, signals::Signals};

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
    printer.report(args.format, &report, summary)
}

/// The report for people.
fn summary(RepackReport { pack, raw_digest, archive }: &RepackReport) -> String {
    let mut text = format!(
        "repacked {} frame(s) of {}, {}, into {}\n",
        HumanCount(archive.frames),
        archive.compression,
        BinaryBytes(archive.bytes_read),
        written(pack),
    );
    if pack.limited_by == "input" {
        let _ = writeln!(text, "  the input was limited by: {}", archive.limited_by);
    }
    let _ = writeln!(text, "  digest of the tar stream, in both: {raw_digest}");
    if let Some(digest) = &archive.digest {
        let _ = writeln!(text, "  digest of the archive that was read: {digest}");
    }
    for fallback in &archive.fallbacks {
        let _ = writeln!(text, "  fallback: {fallback}");
    }
    text
}

/// What was written, over several lines.
pub fn written(pack: &PackReport) -> String {
    let seconds = |ms: u64| format!("{}.{:02} s", ms / 1000, ms % 1000 / 10);
    let mut text = format!(
        "{} frames, {}, in {}\n  {}\n",
        HumanCount(pack.frames),
        BinaryBytes(pack.bytes_written),
        seconds(pack.elapsed_ms),
        pack.output,
    );
    let _ = writeln!(
        text,
        "  {}/s of the tar stream, by {} thread(s) at level {}; limited by: {}",
        BinaryBytes(pack.raw_bytes_per_second),
        pack.threads,
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
        if pack.direct_write { ", written past the page cache" } else { "" },
    );
    text
}
