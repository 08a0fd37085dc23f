//! Preparing a state for a start of the validator, and the record of it.

use std::{
    ffi::OsString,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context;
use unsnap_cli::{
    progress::Display,
    settings::{self, RequestError},
    signals::{self, Signals},
    validator::ArchiveUse,
};
use unsnap_failure::{Failure as _, Family};
use unsnap_fastboot::{
    AttemptRules, FastbootError, LedgerLock, Offered, Outcome, Pair, Places, Request, StartCounts,
};
use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;

use crate::{
    cli::{Cli, LeaveCached, ReportsArgs},
    memory::{Learned, Memory, Plan, announce_start},
    places,
    prepare::{
        End, Failure, Preparation, Wanted, newest_slot, prepare_guarded, repair_older_state,
    },
    record::{Given, Record, now},
    reporter::{Reporter, note_waiting},
    target::Target,
    wait::{Deadline, SystemClock, Wait},
    warm,
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

impl Ready {
    /// Returns whether the state was there before this start, in its place or beside.
    pub fn lay_ready(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Adopted { .. } | Outcome::Ready { .. }))
    }
}

/// Prepares a state, and records the start of the validator unless nothing but preparing is asked
/// for. On return signals have their old dispositions, and other threads do nothing that must be
/// awaited.
pub fn prepare(cli: &Cli, target: Option<&Target<'_>>, reporter: &Reporter) -> Attempt {
    let since = Instant::now();
    let deadline = Deadline::from_now(cli.deadline);
    let cancel = CancelToken::default();
    let begun = request(cli, target).and_then(|request| {
        let watch = Signals::catch()?.cancel(cancel.clone());
        Ok((request, watch.context("cannot watch for signals")?))
    });
    let (mut request, watch) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            if !cli.prepare_only {
                let places = places::likely(&cli.places, target);
                record_refusal(places.as_ref(), Some(&cli.reports), &error, since.elapsed());
            }
            return Attempt::Done(Err(error));
        }
    };
    // The newest archives now; later ones do not make a state useless that is being prepared.
    let newest = newest_slot(&request.places).unwrap_or(0);
    let takes_older = cli.prepare_only || target.is_some_and(takes_older);
    if !takes_older && request.max_behind > 0 {
        reporter.warning(
            "--max-behind has no effect: this validator cannot be told to ignore newer archives",
        );
        request.max_behind = 0;
    }
    let oldest = newest.saturating_sub(request.max_behind);
    let say = |error: &FastbootError| reporter.waiting(error, deadline.wait_max());
    until_ledger_is_free(&request.places, oldest, deadline, &cancel, say);
    let (mut memory, plan, mut learned) = recall(cli, target, &request, reporter);
    request.suspects = memory.as_ref().map(Memory::accused).unwrap_or_default();
    let takes_states = target.and_then(Target::archive_use) == Some(ArchiveUse::Never);
    let older_by = match &plan {
        Plan::Older { behind, .. } => *behind,
        Plan::AsRequested | Plan::Checked | Plan::Nothing(_) => 0,
    };
    let mark = memory.as_ref().map(Memory::mark);
    let preparation = |request: Request, wanted: Option<Wanted>| {
        let wanted = wanted.unwrap_or(match target.and_then(Target::archive_use) {
            Some(ArchiveUse::Never) => Wanted::Any,
            _ => Wanted::Newest,
        });
        let oldest = request.pair.as_ref().map_or(oldest, Pair::slot);
        let mark = mark.clone();
        Preparation { request, wanted, takes_older, oldest, deadline, mark }
    };
    let end = match plan {
        Plan::Nothing(reason) => End::Done(Err(Failure::Pointless(reason))),
        Plan::Older { pair, .. } => {
            request.pair = Some(*pair);
            let end = run(cli, preparation(request.clone(), None), &cancel, reporter);
            request.pair = None;
            match end {
                // The validator is left with the newer ones.
                End::Done(Err(Failure::Failed(error))) if error.family() == Family::BadArchive => {
                    let check = preparation(request.clone(), Some(Wanted::GoodArchives));
                    check_archives(cli, check, &cancel, reporter, memory.as_mut())
                }
                end => end,
            }
        }
        Plan::Checked => {
            let check = preparation(request.clone(), Some(Wanted::GoodArchives));
            check_archives(cli, check, &cancel, reporter, memory.as_mut())
        }
        Plan::AsRequested => run(cli, preparation(request.clone(), None), &cancel, reporter),
    };
    let result = match end {
        End::Done(Ok(outcome)) => {
            let behind = older_by.saturating_add(behind(&outcome));
            reporter.state_is_ready(&outcome, behind, since.elapsed());
            Ok(Ready { slot: slot(&outcome), behind, outcome: Some(outcome) })
        }
        End::Tidying(slot) => {
            reporter.old_files_remain(slot);
            let behind = older_by.max(newest.saturating_sub(slot));
            Ok(Ready { slot, behind, outcome: None })
        }
        End::Done(Err(failure)) => {
            if let Some(memory) = &mut memory {
                restore_withdrawn(&request, &failure, takes_states, memory, &mut learned, reporter);
            }
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
        record(cli, &request, memory, &result, &learned, takes_states, since.elapsed());
    }
    Attempt::Done(result)
}

/// Gives a withdrawn state back to a validator that does not start without one.
fn restore_withdrawn(
    request: &Request,
    failure: &Failure,
    takes_states: bool,
    memory: &mut Memory,
    learned: &mut Learned,
    reporter: &Reporter,
) {
    let why = match failure {
        _ if takes_states => "this validator takes nothing but states",
        Failure::Failed(error) if error.is_full_disk() => {
            "there is no room for the validator to unpack archives"
        }
        _ => return,
    };
    if let Some(slot) = memory.restore(&request.places, learned) {
        reporter.warning(&format!(
            "the state of slot {slot} is served again after all: {why}, and no other state could be made"
        ));
    }
}

/// Waits while another unsnap holds the ledger's lock, such as unpackd for the renames of an
/// adoption: a validator that finds it held ends. From now on no other unsnap takes it, because the start
/// is remembered ([`LedgerLock::take_beside`]).
pub fn wait_for_others(cli: &Cli, target: &Target<'_>) {
    let Ok(places) = places::places(&cli.places, Some(target)) else { return };
    announce_start(&places);
    if let Err(error) = LedgerLock::wait_for_ours(&places.ledger, OTHERS_WITHIN) {
        tracing::warn!(%error, "the validator may find the ledger locked");
    }
}

/// Has the state read into the page cache while the validator starts.
///
/// A state that was unpacked just now only if it is asked for: a measured start took longer then
/// (BENCHMARKS.md, "From the archive to the bank").
pub fn read_ahead(cli: &Cli, target: &Target<'_>, reporter: &Reporter, lay_ready: bool) {
    if cli.leave_cached == LeaveCached::Auto && !lay_ready {
        return;
    }
    if let Ok(places) = places::places(&cli.places, Some(target))
        && let Err(error) = warm::start(cli.leave_cached, &places, reporter.is_quiet())
    {
        tracing::warn!(%error, "storages are not read ahead of the validator");
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
    let takes_older = target.is_some_and(takes_older);
    let takes_states = target.and_then(Target::archive_use) == Some(ArchiveUse::Never);
    let (plan, learned) = memory.plan(request, !cli.prepare_only, takes_older, takes_states);
    for warning in learned.warnings(rules) {
        reporter.warning(&warning);
    }
    (Some(memory), plan, learned)
}

/// Waits until no other unsnap is at work on the ledger: what is remembered of earlier starts must be
/// judged, and a state may have to be withdrawn. What goes wrong is seen again by the preparation.
fn until_ledger_is_free(
    places: &Places,
    oldest: u64,
    deadline: Deadline,
    cancel: &CancelToken,
    say: impl FnOnce(&FastbootError),
) {
    let is_over = || cancel.is_cancelled() || deadline.passed().is_some();
    let look = |_| LedgerLock::refuse_ours(&Syscalls::default(), &places.ledger);
    let free = Wait { places, oldest }.for_others(&mut SystemClock::default(), is_over, say, look);
    if let Err(vain) = free {
        tracing::debug!(?vain, "the ledger is not free");
    }
}

/// Returns whether a validator can be told to use a state that is older than the archives.
fn takes_older(target: &Target<'_>) -> bool {
    target.takes_archive_use() || target.archive_use() == Some(ArchiveUse::Never)
}

/// Checks the archives that the validator is to unpack. Remembers that if they are good.
fn check_archives(
    cli: &Cli,
    check: Preparation,
    cancel: &CancelToken,
    reporter: &Reporter,
    memory: Option<&mut Memory>,
) -> End {
    let end = run(cli, check, cancel, reporter);
    if let (End::Done(Err(Failure::Failed(error))), Some(memory)) = (&end, memory)
        && error.family() == Family::Request
    {
        memory.checked();
    }
    end
}

fn run(cli: &Cli, preparation: Preparation, cancel: &CancelToken, reporter: &Reporter) -> End {
    let (progress, request) = (Progress::default(), &preparation.request);
    match &request.pair {
        Some(pair) => reporter.older_archives(pair),
        None => reporter.newest_archives(&request.places),
    }
    let (wait_max, is_quiet) = (preparation.deadline.wait_max(), reporter.is_quiet());
    let say = move |error: &FastbootError| {
        if !is_quiet {
            note_waiting(error, wait_max);
        }
    };
    let _display = Display::start(reporter.printer(), progress.clone());
    // The report of --prepare-only needs the outcome.
    let may_leave = || !cli.prepare_only || signals::received();
    prepare_guarded(preparation, Box::new(say), &progress, cancel, may_leave)
}

/// Records a start of which an option of this program is wrong, if the validator's own command line
/// names its directories. Where reports of it go is not known.
pub fn record_mistake(error: &clap::Error, command: &[OsString]) {
    let Some(target) = Target::of(command).filter(Target::loads_ledger) else { return };
    let places = target.line().map(|line| line.places());
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let reason = line.strip_prefix("error: ").unwrap_or(line).to_owned();
    record_refusal(places.as_ref(), None, &RequestError(reason).into(), Duration::ZERO);
}

/// Records a start whose options or directories are wrong, as far as the directories are known and
/// this process may write there.
fn record_refusal(
    places: Option<&Places>,
    reports: Option<&ReportsArgs>,
    error: &anyhow::Error,
    duration: Duration,
) {
    let ledger = places.map_or(Path::new(""), |places| &*places.ledger);
    let record = Record::new(ledger, &Given::Nothing(error), &Learned::default(), now(), duration);
    let memory = places
        .and_then(|places| Memory::open(places, AttemptRules::default(), now()).zip(Some(places)));
    let mut starts = StartCounts::default();
    if let Some((mut memory, places)) = memory {
        record.count(memory.starts());
        starts = *memory.starts();
        memory.write();
        record.leave(&places.snapshots);
    }
    if let Some(reports) = reports {
        report(reports, &record, &starts);
    }
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
    let mut starts = StartCounts::default();
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
    report(&cli.reports, &record, &starts);
}

fn report(reports: &ReportsArgs, record: &Record, starts: &StartCounts) {
    if let Some(path) = &reports.textfile {
        record.leave_metrics(path, starts);
    }
    if let Some(program) = &reports.on_event {
        record.report_to(program);
    }
}

/// Returns the number of slots by which a state is older than the archives that it was taken for.
fn behind(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Prepared(_) => 0,
        Outcome::Adopted { behind, .. } | Outcome::Ready { behind, .. } => *behind,
    }
}

fn slot(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Prepared(prepared) => prepared.slot,
        Outcome::Adopted { slot, .. } | Outcome::Ready { slot, .. } => *slot,
    }
}

fn request(cli: &Cli, target: Option<&Target<'_>>) -> anyhow::Result<Request> {
    let mut pass = settings::reading(&cli.io)?;
    pass.neighbour = cli.neighbour.limits();
    let (places, cluster) = places::places_and_cluster(&cli.places, target)?;
    Ok(Request {
        cluster,
        verify: cli.state.verify(),
        preflight: cli.state.preflight.mode(),
        min_free: cli.state.preflight.min_free.unwrap_or_default(),
        pass,
        format: cli.state.fastboot_format.format(),
        shadow: !cli.no_shadow,
        offered: Offered {
            archives: settings::offered(&cli.offered, &cli.fetch, !cli.io.no_sandbox)?,
            peers: settings::peers(&cli.peers, &cli.fetch, !cli.io.no_sandbox)?,
            is_optional: true,
        },
        replace: cli.replace,
        max_behind: cli.max_behind,
        defer: true,
        removal_files_per_second: cli.removal.removal_files_per_second,
        ..Request::new(places)
    })
}
