//! Preparing a state for a start of the validator, and the record of it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use unsnap_cli::{
    progress::Display,
    settings,
    signals::{self, Signals},
    validator::ArchiveUse,
};
use unsnap_failure::{Failure as _, Family};
use unsnap_fastboot::{LedgerLock, Outcome, Request};
use unsnap_pass::{CancelToken, Progress};

use crate::{
    cli::Cli,
    memory::{Learned, Memory, Plan},
    places,
    prepare::{End, Failure, Wanted, prepare_guarded, repair_older_state},
    record::{Given, Record},
    reporter::Reporter,
    target::Target,
};

/// Longest wait for another unsnap that holds the ledger's lock. A guess: renames take milliseconds,
/// and seconds on a disk that is busy.
const OTHERS_WITHIN: Duration = Duration::from_secs(10);

/// Result of a preparation.
pub enum Attempt {
    /// A state is ready, or none is.
    Done(anyhow::Result<Ready>),
    /// A signal arrived.
    Interrupted,
}

/// A state that is ready for the validator.
pub struct Ready {
    /// How it became ready. `None` if the time was up before that was known; never with
    /// `--prepare-only`.
    pub outcome: Option<Outcome>,
    /// Slot of the state.
    slot: u64,
    /// Number of slots by which it is older than the newest archives. If it is not 0, the validator
    /// must be told to ignore archives.
    pub behind: u64,
}

/// Prepares a state, and records the start of the validator unless nothing but preparing is asked
/// for. On return signals have their old dispositions, and other threads do nothing that must be
/// awaited.
pub fn prepare(cli: &Cli, target: Option<&Target<'_>>, reporter: &Reporter) -> Attempt {
    let since = Instant::now();
    let cancel = CancelToken::default();
    let begun = request(cli, target).and_then(|request| {
        let watch = Signals::catch()?.cancel(cancel.clone());
        Ok((request, watch.context("cannot watch for signals")?))
    });
    let (mut request, watch) = match begun {
        Ok(begun) => begun,
        Err(error) => return Attempt::Done(Err(error)),
    };
    let (mut memory, plan, learned) = recall(cli, target, &request, reporter);
    request.suspects = memory.as_ref().map(Memory::accused).unwrap_or_default();
    let older_by = match &plan {
        Plan::Older { behind, .. } => *behind,
        Plan::AsRequested | Plan::Checked | Plan::Nothing(_) => 0,
    };
    let end = match plan {
        Plan::Nothing(reason) => End::Done(Err(Failure::Pointless(reason))),
        Plan::Older { pair, .. } => {
            request.pair = Some(*pair);
            let end = run(cli, target, &request, &cancel, reporter, None);
            request.pair = None;
            match end {
                // The validator is left with the newer ones.
                End::Done(Err(Failure::Failed(error))) if error.family() == Family::BadArchive => {
                    check_archives(cli, target, &request, &cancel, reporter, memory.as_mut())
                }
                end => end,
            }
        }
        Plan::Checked => check_archives(cli, target, &request, &cancel, reporter, memory.as_mut()),
        Plan::AsRequested => run(cli, target, &request, &cancel, reporter, None),
    };
    let result = match end {
        End::Done(Ok(outcome)) => {
            reporter.state_is_ready(&outcome, since.elapsed());
            Ok(Ready { slot: slot(&outcome), behind: older_by, outcome: Some(outcome) })
        }
        End::Tidying(slot) => {
            reporter.old_files_remain(slot);
            Ok(Ready { slot, behind: older_by, outcome: None })
        }
        End::Done(Err(failure)) => {
            repair_older_state(&request, &failure);
            Err(Failure::into_error(failure))
        }
    };
    if let Some(memory) = &mut memory {
        memory.end();
    }
    if watch.end() {
        reporter.note("interrupted: the validator is not started");
        return Attempt::Interrupted;
    }
    if !cli.prepare_only {
        let takes_any =
            target.is_some_and(|target| target.archive_use() == Some(ArchiveUse::Never));
        record(cli, &request, memory, &result, &learned, takes_any, since.elapsed());
    }
    Attempt::Done(result)
}

/// Waits while another unsnap holds the ledger's lock, such as unpackd for the renames of an
/// adoption: a validator that finds it held ends.
pub fn wait_for_others(cli: &Cli, target: &Target<'_>) {
    if let Ok(places) = places::places(&cli.places, Some(target))
        && let Err(error) = LedgerLock::wait_for_ours(&places.ledger, OTHERS_WITHIN)
    {
        tracing::warn!(%error, "the validator may find the ledger locked");
    }
}

/// Recalls earlier starts, and decides what is prepared.
fn recall(
    cli: &Cli,
    target: Option<&Target<'_>>,
    request: &Request,
    reporter: &Reporter,
) -> (Option<Memory>, Plan, Learned) {
    let rules = cli.attempts.rules();
    let Some(mut memory) = Memory::open(&request.places, rules, now()) else {
        return (None, Plan::AsRequested, Learned::default());
    };
    let takes_older = target.is_some_and(|target| {
        target.takes_archive_use() || target.archive_use() == Some(ArchiveUse::Never)
    });
    let (plan, learned) = memory.plan(request, !cli.prepare_only, takes_older);
    for warning in learned.warnings(rules) {
        reporter.warning(&warning);
    }
    (Some(memory), plan, learned)
}

/// Checks the archives that the validator is to unpack. Remembers that if they are good.
fn check_archives(
    cli: &Cli,
    target: Option<&Target<'_>>,
    request: &Request,
    cancel: &CancelToken,
    reporter: &Reporter,
    memory: Option<&mut Memory>,
) -> End {
    let end = run(cli, target, request, cancel, reporter, Some(Wanted::GoodArchives));
    if let (End::Done(Err(Failure::Failed(error))), Some(memory)) = (&end, memory)
        && error.family() == Family::Request
    {
        memory.checked();
    }
    end
}

fn run(
    cli: &Cli,
    target: Option<&Target<'_>>,
    request: &Request,
    cancel: &CancelToken,
    reporter: &Reporter,
    wanted: Option<Wanted>,
) -> End {
    let progress = Progress::default();
    match &request.pair {
        Some(pair) => reporter.older_archives(pair),
        None => reporter.newest_archives(&request.places),
    }
    let wanted = wanted.unwrap_or_else(|| match target.and_then(Target::archive_use) {
        Some(ArchiveUse::Never) => Wanted::Any,
        _ => Wanted::Newest,
    });
    let _display = Display::start(reporter.printer(), progress.clone());
    // The report of --prepare-only needs the outcome.
    let may_leave = || !cli.prepare_only || signals::received();
    prepare_guarded(request, wanted, cli.deadline, &progress, cancel, may_leave)
}

/// Remembers a start, and tells of it. Nothing that fails here keeps the validator from starting.
fn record(
    cli: &Cli,
    request: &Request,
    memory: Option<Memory>,
    result: &anyhow::Result<Ready>,
    learned: &Learned,
    takes_any: bool,
    duration: Duration,
) {
    let given = match result {
        Ok(Ready { outcome: Some(outcome), behind, .. }) => Given::State(outcome, *behind),
        Ok(Ready { slot, behind, .. }) => Given::Slot(*slot, *behind),
        Err(error) => Given::Nothing(error),
    };
    let record = Record::new(&request.places.ledger, &given, learned, now(), duration);
    let mut starts = unsnap_fastboot::StartCounts::default();
    // Without a memory, a validator is running: its files are left alone.
    if let Some(mut memory) = memory {
        record.count(memory.starts());
        starts = *memory.starts();
        match result {
            Ok(ready) => memory.serve(ready.slot, now()),
            Err(_) => memory.give_up(&request.places, takes_any, now()),
        }
        record.leave(&request.places.snapshots);
    }
    if let Some(path) = &cli.reports.textfile {
        record.leave_metrics(path, &starts);
    }
    if let Some(program) = &cli.reports.on_event {
        record.report_to(program);
    }
}

fn slot(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Prepared(prepared) => prepared.slot,
        Outcome::Adopted { slot, .. } | Outcome::Ready { slot, .. } => *slot,
    }
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn request(cli: &Cli, target: Option<&Target<'_>>) -> anyhow::Result<Request> {
    let mut pass = settings::reading(&cli.io)?;
    pass.neighbour = cli.neighbour.limits();
    Ok(Request {
        places: places::places(&cli.places, target)?,
        verify: cli.state.verify(),
        preflight: cli.state.preflight.mode(),
        min_free: cli.state.preflight.min_free.unwrap_or_default(),
        pass,
        files: None,
        format: cli.state.fastboot_format.format(),
        shadow: !cli.no_shadow,
        replace: cli.replace,
        pair: None,
        known_bad: Vec::new(),
        suspects: Vec::new(),
        max_behind: 0,
        removal_files_per_second: cli.removal.removal_files_per_second,
    })
}
