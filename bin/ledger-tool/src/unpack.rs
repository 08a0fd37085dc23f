//! `ledger-tool unpack`

use std::{fmt::Write, path::Path};

use anyhow::Context;
use indicatif::{BinaryBytes, HumanCount};
use unsnap_cli::settings::{RequestError, peers};
use unsnap_fit::PreflightReport;
use unsnap_pass::{Archive, Handles, Newest, Peers};
use unsnap_unpack::{AccountsReport, Options, Report, Resumed, TeeReport, Unpacker};

use crate::{
    cli::{UnpackArgs, VerifyArgs},
    exit::OutputFailed,
    manifest::Manifest,
    printer::{Printer, log_line},
    progress::Display,
    room, settings,
    signals::Signals,
    summary::{count, limits, seconds},
};

pub fn run(args: &UnpackArgs, printer: &Printer) -> anyhow::Result<()> {
    let manifest = Manifest::of(args)?;
    let peers = peers(&args.peers, &args.fetch, !args.io.no_sandbox)?;
    let (report, room) = match (&args.archive, peers) {
        (Some(archive), _) => {
            let archives =
                settings::archives(archive, args.incremental.as_ref(), &args.fetch, &args.io)?;
            settings::all_present(std::iter::once(&archives.0).chain(&archives.1))?;
            let options = settings::unpacking(args, archives, manifest.path())?;
            let room = room(args, &options)?;
            (run_options("unpacking", options, printer)?, room)
        }
        (None, Some(peers)) => from_peers(args, &peers, &manifest, printer)?,
        (None, None) => return Err(RequestError("no archive".to_owned()).into()),
    };
    let mut report = report;
    report.preflight = report.preflight.or(room);
    let done = || match &args.output {
        Some(output) if !args.dry_run => format!("unpacked to {} and durable", output.display()),
        _ => "the archive is whole".to_owned(),
    };
    if !manifest.takes_output() {
        return printer.report_done(args.format, &report, summary, |_| done());
    }
    if printer.wants_summary() {
        log_line(summary(&report).trim_end());
    }
    let lost = |failed: OutputFailed| OutputFailed { lost: "manifest", ..failed.after(done()) };
    Ok(manifest.print().map_err(lost)?)
}

/// With --dry-run, checks that the output could be used.
fn room(args: &UnpackArgs, options: &Options) -> anyhow::Result<Option<PreflightReport>> {
    let Some(output) = args.output.as_ref().filter(|_| args.dry_run) else { return Ok(None) };
    let paths = std::iter::once(output).chain(&args.accounts);
    let paths: Vec<&Path> = paths.map(AsRef::as_ref).collect();
    Ok(Some(room::check(options, &paths, &Handles::default())?))
}

/// Unpacks the newest full archive of some peers: from the fastest one, and after a failure anew from
/// the next one. This thread is not confined, since it connects to the next one; the run is.
fn from_peers(
    args: &UnpackArgs,
    peers: &Peers,
    manifest: &Manifest,
    printer: &Printer,
) -> anyhow::Result<(Report, Option<PreflightReport>)> {
    let handles = Handles::default();
    let _signals = Signals::catch()?.cancel(handles.cancel.clone())?;
    let cancelled = || handles.cancel.is_cancelled();
    let newest = peers.archives(&[Newest::Full], &cancelled)?.into_iter().next();
    let mut archive = newest.context("no peer sends a full archive")?;
    let display = Display::start_doing("unpacking", printer, handles.progress.clone());
    loop {
        let raced = archive.raced(&cancelled)?;
        let named = (Archive::Remote(Box::new(raced.clone())), None);
        let options = settings::unpacking(args, named, manifest.path())?;
        let room = room(args, &options)?;
        let error = match Unpacker::new(options).with_handles(handles.clone()).run() {
            Ok(report) => {
                drop(display);
                return Ok((report, room));
            }
            Err(error) => error,
        };
        let Some(next) = raced.after(&error) else { return Err(error.into()) };
        archive = next;
    }
}

/// `ledger-tool verify`: the same without writing anything.
pub fn run_verify(args: &VerifyArgs, printer: &Printer) -> anyhow::Result<()> {
    let report = run_options("verifying", settings::verifying(args)?, printer)?;
    let done = |report: &Report| match report.incremental {
        Some(_) => "the archives passed all checks".to_owned(),
        None => "the archive passed all checks".to_owned(),
    };
    printer.report_done(args.format, &report, summary, done)
}

fn run_options(doing: &'static str, options: Options, printer: &Printer) -> anyhow::Result<Report> {
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
    Ok(result?)
}

/// The report for people.
fn summary(report: &Report) -> String {
    let verb = if report.dry_run { "checked" } else { "unpacked" };
    let mut text = format!(
        "{verb} {}: {}, {} decoded from {} of {}, in {}\n",
        snapshots(report),
        count(report.files, "file"),
        BinaryBytes(report.bytes_decoded),
        BinaryBytes(report.bytes_read),
        compression(report),
        seconds(report.elapsed_ms),
    );
    if !report.dry_run {
        let _ = writeln!(
            text,
            "  durable: {} written; {} of the time was spent syncing",
            BinaryBytes(report.bytes_written),
            seconds(report.sync_ms)
        );
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
        "  decoding: {} ({}), {}, {}; I/O: {}; direct: read {}, write {}; huge pages: {}; registered buffers: {}",
        report.decode_engine,
        report.decoder,
        count(report.decode_threads as u64, "thread"),
        count(report.frames, "frame"),
        report.io_engine,
        yes(report.direct_read),
        yes(report.direct_write),
        report.huge_pages,
        yes(report.registered_buffers),
    );
    if let Some(Resumed { files, bytes, from_byte }) = report.resumed {
        let _ = writeln!(
            text,
            "  resumed: kept {}, {}; reading began at byte {from_byte}",
            count(files, "file"),
            BinaryBytes(bytes)
        );
    }
    if let Some(bank) = &report.bank {
        let _ = writeln!(text, "  bank: {}, slot {}, epoch {}", bank.hash, bank.slot, bank.epoch);
    }
    if let Some(accounts) = &report.accounts {
        text.push_str(&verified(accounts));
    }
    digests(report, &mut text);
    for TeeReport { path, bytes, .. } in report.tee.iter().filter(|tee| tee.kept) {
        let _ = writeln!(text, "  kept: {path}, {}", BinaryBytes(*bytes));
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

/// Names the snapshot, or the two of a pair.
fn snapshots(report: &Report) -> String {
    let first = match (report.kind, report.slot) {
        ("unknown", Some(slot)) => format!("snapshot of slot {slot}"),
        (_, None) => "archive".to_owned(),
        (kind, Some(slot)) => format!("{kind} snapshot of slot {slot}"),
    };
    match report.incremental.as_ref().and_then(|incremental| incremental.slot) {
        Some(slot) => format!("{first} with incremental snapshot of slot {slot}"),
        None => first,
    }
}

fn compression(report: &Report) -> String {
    match &report.incremental {
        Some(other) if other.compression != report.compression => {
            format!("{} and {}", report.compression, other.compression)
        }
        _ => report.compression.to_owned(),
    }
}

fn digests(report: &Report, text: &mut String) {
    let mut line = |which: &str, digest: &Option<String>| {
        if let Some(digest) = digest {
            let _ = writeln!(text, "  digest of the {which}: {digest}");
        }
    };
    match &report.incremental {
        None => line("archive", &report.digest),
        Some(incremental) => {
            line("full archive", &report.digest);
            line("incremental archive", &incremental.digest);
        }
    }
}

/// Says what adds up, with every term of the sum.
fn verified(report: &AccountsReport) -> String {
    let AccountsReport { accounts, capitalization, records, .. } = *report;
    format!(
        "  verified: {} with {} add up to the hash in the name and to the bank's capitalization\n  \
         records: {} = {} + {} (no lamports) + {}\n",
        count(accounts, "account"),
        count(capitalization, "lamport"),
        HumanCount(records),
        count(accounts, "account"),
        count(report.closed_accounts, "closed account"),
        count(report.older_versions, "older version"),
    )
}

/// Compares the space that is needed with what was free.
fn space(preflight: &PreflightReport) -> String {
    let mut text = String::new();
    if let Some(reason) = &preflight.skipped {
        let _ = writeln!(text, "  space needed: unknown: {reason}");
    }
    let about = if preflight.bytes_exact { "" } else { "about " };
    let basis = match (preflight.tar_bytes, preflight.sampled_since) {
        _ if preflight.bytes_exact => String::new(),
        (Some(bytes), None) if preflight.tar_bytes_exact => {
            format!(" (estimated from the {bytes} bytes of its tar stream)")
        }
        (_, Some(reason)) => format!(" (estimated: {reason})"),
        (_, None) => " (estimated)".to_owned(),
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
