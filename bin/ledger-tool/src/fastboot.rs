//! `ledger-tool fastboot`

mod plan;

use std::fmt::Write;

use anyhow::Context;
use indicatif::{BinaryBytes, HumanCount};
use unsnap_fastboot::{
    Condition, Outcome, Prepared, Repaired, SetAside, StateSurvey, StrayFiles, Survey, dry_run,
    prepare, prepare_beside, repair, withdraw, withdraw_beside,
};
use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;
use unsnap_unpack::Resumed;

use crate::{
    cli::{FastbootAction, LookAfterArgs, PrepareArgs},
    exit::StateDamaged,
    printer::Printer,
    progress::Display,
    settings,
    signals::Signals,
    summary::{count, limits, seconds},
};

pub fn run(action: &FastbootAction, printer: &Printer) -> anyhow::Result<()> {
    match action {
        FastbootAction::Prepare(args) => prepare_state(args, printer),
        FastbootAction::Status(args) => status(args, printer),
        FastbootAction::Repair(args) => {
            let places = settings::places(&args.places)?;
            let progress = Progress::default();
            let display = Display::start(printer, progress.clone());
            let repaired = repair(&Syscalls::default(), &places, &progress);
            drop(display);
            let repaired = repaired?;
            let told = |repaired: &Repaired| format!("{}\n", what_was_done(repaired));
            let done = |_: &Repaired| what_was_done(&repaired);
            printer.report_done(args.format, &repaired, told, done)
        }
        FastbootAction::Withdraw(args) => {
            let (calls, look_after) = (Syscalls::default(), &args.look_after);
            let places = settings::places(&look_after.places)?;
            let take_back = if args.beside { withdraw_beside } else { withdraw };
            let progress = Progress::default();
            let display = Display::start(printer, progress.clone());
            let slots = take_back(&calls, &places, &progress);
            drop(display);
            let slots = slots?;
            let text = |slots: &Vec<u64>| match slots.as_slice() {
                [] => "there was no state\n".to_owned(),
                slots => slots.iter().fold(String::new(), |text, slot| {
                    text + &format!("the state of slot {slot} is withdrawn\n")
                }),
            };
            let done = |slots: &Vec<u64>| text(slots).trim_end().replace('\n', ", ");
            printer.report_done(look_after.format, &slots, text, done)
        }
    }
}

fn prepare_state(args: &PrepareArgs, printer: &Printer) -> anyhow::Result<()> {
    let request = settings::preparing(args)?;
    let (progress, cancel) = (Progress::default(), CancelToken::default());
    Signals::catch()?.cancel(cancel.clone()).context("cannot watch for signals")?;
    let display = Display::start(printer, progress.clone());
    if args.dry_run {
        let told = dry_run(&request, args.beside, &Syscalls::default(), &progress, &cancel);
        drop(display);
        return printer.report(args.format, &told?, plan::text);
    }
    let how = if args.beside { prepare_beside } else { prepare };
    let prepared = how(&request, &Syscalls::default(), &progress, &cancel);
    drop(display);
    let outcome = prepared?;
    let done = |outcome: &Outcome| format!("the state of slot {} is ready", slot(outcome));
    printer.report_done(args.format, &outcome, summary, done)
}

fn slot(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Prepared(prepared) => prepared.slot,
        Outcome::Adopted { slot, .. } | Outcome::Ready { slot, .. } => *slot,
    }
}

fn status(args: &LookAfterArgs, printer: &Printer) -> anyhow::Result<()> {
    let places = settings::places(&args.places)?;
    let progress = Progress::default();
    let display = Display::start(printer, progress.clone());
    let survey = Survey::of(&Syscalls::default(), &places, &progress);
    drop(display);
    let survey = survey?;
    printer.report(args.format, &survey, |survey| {
        let mut text: String = survey.states.iter().map(condition).collect();
        match &survey.ready {
            None if survey.states.is_empty() => {
                text.push_str("no state: a validator unpacks its archives\n");
            }
            Some(_) if survey.states.is_empty() => text.push_str(
                "no state in place: a validator unpacks its archives, unless the one ready beside is \
                 adopted first (ledger-tool fastboot prepare)\n",
            ),
            _ => {}
        }
        if let Some(state) = &survey.ready {
            let _ = write!(text, "ready beside: {}", condition(state));
        }
        text.extend(survey.stray_files.as_ref().map(stray_files));
        text
    })?;
    match survey.newest().map(|state| &state.condition) {
        Some(Condition::Damaged { repairable, .. }) => {
            Err(StateDamaged { repairable: *repairable }.into())
        }
        _ => Ok(()),
    }
}

fn stray_files(StrayFiles { files, bytes, some }: &StrayFiles) -> String {
    let more = if some.len() as u64 == *files { "" } else { ", ..." };
    format!(
        "warning: {} that no state lists among the storages, {}: {}{more}\n  \
         a running validator writes such files; a starting one removes those named like storages\n",
        count(*files, "file"),
        BinaryBytes(*bytes),
        some.join(", "),
    )
}

fn condition(state: &StateSurvey) -> String {
    let how = match &state.condition {
        Condition::Whole { storages } => {
            format!("whole, {}", count(*storages, "storage"))
        }
        Condition::Damaged { lost, storages, repairable } => format!(
            "damaged: {} of {} lost{}",
            HumanCount(*lost),
            count(*storages, "storage"),
            if *repairable { ", can be repaired" } else { ", cannot be repaired" }
        ),
        Condition::NotLoadable { reason } => format!("not loadable: {reason}"),
        Condition::Unknown { reason } => format!("loadable, not checked: {reason}"),
    };
    let by = if state.prepared { "" } else { ", not prepared by unsnap" };
    format!("slot {}: {how}{by} ({})\n", state.slot, state.directory.display())
}

fn what_was_done(repaired: &Repaired) -> String {
    match repaired {
        Repaired::NoState => "there is no state that a validator would load".to_owned(),
        Repaired::WasWhole { slot } => format!("the state of slot {slot} is whole"),
        Repaired::Relinked { slot, storages } => {
            let storages = count(*storages, "storage");
            format!("the state of slot {slot} is whole again: {storages} linked back")
        }
        Repaired::Withdrawn { slot } => format!(
            "the state of slot {slot} cannot be made whole, and is withdrawn: a validator unpacks its archives"
        ),
        Repaired::LeftAlone { slot, reason } => {
            format!("the state of slot {slot} is left alone: {reason}")
        }
    }
}

fn summary(outcome: &Outcome) -> String {
    let (mut text, set_aside) = match outcome {
        Outcome::Ready { state, set_aside, .. } => {
            (format!("nothing to prepare: {}\n", what_was_done(state)), set_aside)
        }
        Outcome::Adopted { slot, directory, storages, elapsed_ms, set_aside, .. } => {
            let text = format!(
                "adopted the state of slot {slot} that was ready beside: {}, in {}\n  durable in {}\n",
                count(*storages, "storage"),
                seconds(*elapsed_ms),
                directory.display()
            );
            (text, set_aside)
        }
        Outcome::Prepared(prepared) => (prepared_summary(prepared), &prepared.set_aside),
    };
    for SetAside { path, now, reason } in set_aside {
        let _ =
            writeln!(text, "  set aside: {} is now {}: {reason}", path.display(), now.display());
    }
    text
}

fn prepared_summary(Prepared { slot, directory, report, .. }: &Prepared) -> String {
    let mut text = format!(
        "prepared the state of slot {slot}: {}, {} from {}, in {}\n",
        count(report.files, "file"),
        BinaryBytes(report.bytes_written),
        BinaryBytes(report.bytes_read),
        seconds(report.elapsed_ms),
    );
    let kind = if report.reused.is_some() { "incremental" } else { "full" };
    let _ = writeln!(text, "  {kind}: {}", report.archive);
    if let Some(incremental) = &report.incremental {
        let _ = writeln!(text, "  incremental: {}", incremental.archive);
    }
    if let Some(Resumed { files, bytes, .. }) = report.resumed {
        let _ =
            writeln!(text, "  resumed: kept {}, {}", count(files, "storage"), BinaryBytes(bytes));
    }
    if let Some(reused) = &report.reused {
        let _ = writeln!(text, "  linked from the earlier state: {}", plan::linked(reused));
    }
    if let Some(bank) = &report.bank {
        let _ = writeln!(text, "  bank: {}, epoch {}", bank.hash, bank.epoch);
    }
    for path in &report.accounts_paths {
        let (files, bytes) = (count(path.files, "storage"), BinaryBytes(path.bytes));
        let _ = writeln!(text, "  {}: {files}, {bytes}", path.path);
    }
    let _ = writeln!(
        text,
        "  durable in {}: {} of the time was spent syncing; limited by: {}",
        directory.display(),
        seconds(report.sync_ms),
        report.limited_by
    );
    text.push_str(&limits(report));
    for fallback in &report.fallbacks {
        let _ = writeln!(text, "  fallback: {fallback}");
    }
    text
}
