//! `ledger-tool unpack`

use std::fmt::Write;

use indicatif::{BinaryBytes, HumanCount};
use unsnap_fit::PreflightReport;
use unsnap_pass::Handles;
use unsnap_unpack::{Options, Report, Resumed, Unpacker};

use crate::{
    cli::{ReportFormat, UnpackArgs, VerifyArgs},
    printer::Printer,
    progress::Display,
    settings,
    signals::Signals,
    summary::{limits, seconds},
};

pub fn run(args: &UnpackArgs, printer: &Printer) -> anyhow::Result<()> {
    run_options("unpacking", settings::unpacking(args)?, args.format, printer)
}

/// `ledger-tool verify`: the same without writing anything.
pub fn run_verify(args: &VerifyArgs, printer: &Printer) -> anyhow::Result<()> {
    run_options("verifying", settings::verifying(args)?, args.format, printer)
}

fn run_options(
    doing: &'static str,
    options: Options,
    format: ReportFormat,
    printer: &Printer,
) -> anyhow::Result<()> {
    let unpacker = Unpacker::new(options);
    let signals = Signals::catch()?;
    let Handles { progress, cancel } = unpacker.handles();
    let mut display = None;
    // The other threads are started once this one is confined, and so are confined like it.
    let result = unpacker.run_on_this_thread(|| {
        display = Display::start_doing(doing, printer, progress);
        signals.cancel(cancel).map(drop)
    });
    drop(display);
    let report = result?;
    printer.report(format, &report, summary)
}

/// The report for people.
fn summary(report: &Report) -> String {
    let what = match (report.kind, report.slot) {
        ("unknown", Some(slot)) => format!("snapshot of slot {slot}"),
        (_, None) => "archive".to_owned(),
        (kind, Some(slot)) => format!("{kind} snapshot of slot {slot}"),
    };
    let verb = if report.dry_run { "checked" } else { "unpacked" };
    let mut text = format!(
        "{verb} {what}: {} files, {} from {} of {}, in {}\n",
        HumanCount(report.files),
        BinaryBytes(if report.dry_run { report.bytes_decoded } else { report.bytes_written }),
        BinaryBytes(report.bytes_read),
        report.compression,
        seconds(report.elapsed_ms),
    );
    if !report.dry_run {
        let _ = writeln!(text, "  durable: {} of that were spent syncing", seconds(report.sync_ms));
    }
    let worked_ms = report.elapsed_ms.saturating_sub(report.paused_ms);
    let rate = report.bytes_decoded.saturating_mul(1000) / worked_ms.max(1);
    let _ = writeln!(
        text,
        "  {}/s decoded; limited by: {}; peak memory {}",
        BinaryBytes(rate),
        report.limited_by,
        BinaryBytes(report.peak_rss_bytes)
    );
    text.push_str(&limits(report));
    let yes = |yes| if yes { "yes" } else { "no" };
    let _ = writeln!(
        text,
        "  decoding: {}, {} thread(s), {} frame(s); I/O: {}; direct: read {}, write {}; huge pages: {}; registered buffers: {}",
        report.decode_engine,
        report.decode_threads,
        HumanCount(report.frames),
        report.io_engine,
        yes(report.direct_read),
        yes(report.direct_write),
        report.huge_pages,
        yes(report.registered_buffers),
    );
    if let Some(Resumed { files, bytes, from_byte }) = report.resumed {
        let _ = writeln!(
            text,
            "  resumed: {} files, {} were there; reading began at byte {from_byte}",
            HumanCount(files),
            BinaryBytes(bytes)
        );
    }
    if let Some(bank) = &report.bank {
        let _ = writeln!(text, "  bank: {}, slot {}, epoch {}", bank.hash, bank.slot, bank.epoch);
    }
    if let Some(accounts) = &report.accounts {
        let _ = writeln!(
            text,
            "  verified: {} accounts with {} lamports add up to the hash in the name; {} of {} records are older versions",
            HumanCount(accounts.accounts),
            HumanCount(accounts.capitalization),
            HumanCount(accounts.older_versions),
            HumanCount(accounts.records),
        );
    }
    if let Some(digest) = &report.digest {
        let _ = writeln!(text, "  digest of the archive: {digest}");
    }
    if let Some(preflight) = &report.preflight {
        text.push_str(&space(preflight));
    }
    for fallback in &report.fallbacks {
        let _ = writeln!(text, "  fallback: {fallback}");
    }
    for missing in &report.sandbox.missing {
        let _ = writeln!(text, "  sandbox: {missing}");
    }
    text
}

/// What was needed, and what there was.
fn space(preflight: &PreflightReport) -> String {
    let mut text = String::new();
    if let Some(reason) = &preflight.skipped {
        let _ = writeln!(text, "  space needed: not known beforehand: {reason}");
    }
    let about = if preflight.bytes_exact { "" } else { "about " };
    let basis = match (preflight.tar_bytes, preflight.sampled_since) {
        _ if preflight.bytes_exact => String::new(),
        (Some(bytes), None) if preflight.tar_bytes_exact => {
            format!(" (by the {bytes} bytes of its tar stream)")
        }
        (_, Some(reason)) => format!(" (by an estimate: {reason})"),
        (_, None) => " (by an estimate)".to_owned(),
    };
    for system in &preflight.file_systems {
        if let (Some(needed), Some(available)) = (system.bytes_needed, system.bytes_available) {
            let _ = writeln!(
                text,
                "  space needed on {}: {about}{} of {} that were free{basis}",
                system.destinations.join(" and "),
                BinaryBytes(needed),
                BinaryBytes(available),
            );
        }
    }
    text
}
