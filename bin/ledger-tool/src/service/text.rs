//! Status, jobs and events as text.

use std::{
    fmt::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use unsnap_cli::units::{count, duration, seconds, size};
use unsnap_control::protocol::{
    DiskStatus, Event, EventLine, JobProgress, JobState, JobStatus, Kept, KeptStatus, Outcome,
    ResultStatus, Status, TargetKind, TargetState, TargetStatus,
};
use unsnap_tarstream::printable;

/// Returns the answer to `status`.
pub fn status(status: &Status) -> String {
    let paused = if status.paused { ", paused" } else { "" };
    let limit = status.rate_limit.map(|rate| format!(", limited to {}/s", size(rate)));
    let limit = limit.unwrap_or_default();
    let mut text = format!(
        "unpackd {}, pid {}, started {}{limit}{paused}\n",
        clean(&status.version),
        status.pid,
        ago(status.started_unix_ms)
    );
    let archives = &status.archives;
    let newest = match &archives.newest {
        Some(newest) => format!("newest {}", slot(newest.slot, newest.base_slot)),
        None => "none".to_owned(),
    };
    let directories: Vec<String> =
        archives.directories.iter().map(|path| clean(&path.to_string_lossy())).collect();
    let _ = writeln!(text, "archives: {newest}, in {}", directories.join(" and "));
    let columns = Columns::of(&status.targets);
    for each in &status.targets {
        target(&mut text, each, &columns);
    }
    for each in &status.disks {
        let _ = writeln!(text, "{}", disk(each));
    }
    for bad in &status.bad {
        let (path, reason) = (clean(&bad.path.to_string_lossy()), clean(&bad.reason));
        // Most reasons begin with the path.
        let reason = reason.strip_prefix(&format!("{path}: ")).unwrap_or(&reason);
        let _ = writeln!(text, "bad archive: {path}: {reason} (found {})", ago(bad.seen_unix_ms));
    }
    text
}

/// Widths of columns.
struct Columns {
    name: usize,
    slot: usize,
}

impl Columns {
    fn of(targets: &[TargetStatus]) -> Self {
        let names = targets.iter().map(|target| clean(&target.name).chars().count());
        let slots = targets.iter().flat_map(|target| {
            let results = target.results.iter().map(|result| slot(result.slot, result.base_slot));
            results.map(|slot| slot.len())
        });
        Self { name: names.max().unwrap_or(0), slot: slots.max().unwrap_or(0) }
    }
}

fn target(text: &mut String, target: &TargetStatus, columns: &Columns) {
    let kind = match target.kind {
        TargetKind::Fastboot => "fastboot",
        TargetKind::Tree => "tree",
    };
    let state = match target.state {
        TargetState::Idle => "idle",
        TargetState::Working => "working",
        TargetState::Waiting => "waiting",
        TargetState::Failing => "failing",
    };
    let detail = target.detail.as_deref().map(|detail| format!(": {}", clean(detail)));
    let name = clean(&target.name);
    let _ = writeln!(
        text,
        "{name:width$}  {kind:8}  {state}{}",
        detail.unwrap_or_default(),
        width = columns.name
    );
    for each in target.job.iter().chain(&target.queued) {
        let _ = writeln!(text, "  {}", job(each));
    }
    for ResultStatus { slot: of, base_slot, path, finished_unix_ms, bytes, files } in
        &target.results
    {
        let _ = writeln!(
            text,
            "  {:width$}  {:>10}  {:>15}  {}  {}",
            slot(*of, *base_slot),
            size(*bytes),
            count(*files, "file"),
            clean(&path.to_string_lossy()),
            ago(*finished_unix_ms),
            width = columns.slot
        );
    }
}

/// Returns a file system, and what is kept on it, on a line.
fn disk(disk: &DiskStatus) -> String {
    let DiskStatus { path, targets: _, bytes, bytes_available, kept } = disk;
    let path = clean(&path.to_string_lossy());
    let mut text = format!("disk of {path}: {} of {} free", size(*bytes_available), size(*bytes));
    for (number, KeptStatus { target, what, bytes }) in kept.iter().enumerate() {
        let begin = if number == 0 { "; kept:" } else { "," };
        let _ =
            write!(text, "{begin} {} of {} ({})", size(*bytes), clean(target), kept_name(*what));
    }
    text
}

fn kept_name(what: Kept) -> &'static str {
    match what {
        Kept::Ready => "ready state",
        Kept::Next => "next state",
        Kept::Shadow => "shadow",
        Kept::Leftovers => "to be removed",
        Kept::Trees => "trees",
    }
}

/// Returns a job on a line.
fn job(job: &JobStatus) -> String {
    let mut text = format!("{}: {}", job_name(job), job_state(job.state));
    if let Some(ms) = job.retry_in_ms {
        let _ = write!(text, " in {}", duration(Duration::from_millis(ms)));
    }
    if job.attempt > 1 {
        let _ = write!(text, ", attempt {}", job.attempt);
    }
    if let Some(phase) = &job.phase {
        let _ = write!(text, ", {}", clean(phase));
    }
    if let Some(now) = &job.progress {
        let _ = write!(text, "  {}", progress(now));
    }
    if let Some(error) = &job.last_error {
        let _ = write!(text, "; last error: {}", clean(error));
    }
    text
}

/// Returns a job's number and slot.
pub fn job_name(job: &JobStatus) -> String {
    format!("job {}, {}", job.id, slot(job.slot, job.base_slot))
}

/// Returns the state of a job.
pub fn job_state(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Running => "running",
        JobState::Paused => "paused",
        JobState::Retrying => "retrying",
        JobState::Ended => "ended",
    }
}

/// Returns the progress of a job, in the words of `unpack`.
pub fn progress(now: &JobProgress) -> String {
    let mut text = match now.bytes_total {
        Some(total) => {
            let percent = percent(now).unwrap_or(0);
            format!("{percent:3}%  {} of {} read", size(now.bytes_read), size(total))
        }
        None => format!("{} read", size(now.bytes_read)),
    };
    let (written, files) = (size(now.bytes_written), count(now.files, "file"));
    let _ = write!(text, "  {written} written  {files}");
    if let Some(rate) = now.rate_bytes_per_s {
        let _ = write!(text, "  {}/s", size(rate));
    }
    // When everything has been read, the rest of the job has no estimate.
    if let Some(eta) = now.eta_ms.filter(|_| percent(now) != Some(100)) {
        let _ = write!(text, "  ETA {}", duration(Duration::from_millis(eta)));
    }
    text
}

/// Returns the percentage of the archive that has been read.
pub fn percent(now: &JobProgress) -> Option<u64> {
    Some((now.bytes_read.saturating_mul(100) / now.bytes_total?.max(1)).min(100))
}

/// Returns an event on a line, without its time; `None` for events of later versions.
pub fn event(event: &Event) -> Option<String> {
    Some(match event {
        Event::JobQueued { job } => format!("{}: {}: queued", clean(&job.target), job_name(job)),
        Event::JobStarted { job } => {
            let attempt = match job.attempt {
                0 | 1 => String::new(),
                attempt => format!(", attempt {attempt}"),
            };
            format!("{}: {}: started{attempt}", clean(&job.target), job_name(job))
        }
        Event::Progress { job, target, phase, progress: now } => {
            let phase = phase.as_deref().map(|phase| format!("{}  ", clean(phase)));
            let phase = phase.unwrap_or_default();
            format!("{}: job {job}: {phase}{}", clean(target), progress(now))
        }
        Event::Adopted { target, slot, path } => {
            let path = clean(&path.to_string_lossy());
            format!("{}: slot {slot} was adopted, it is now {path}", clean(target))
        }
        Event::JobEnded { job, outcome, message, elapsed_ms, .. } => {
            let why = message.as_deref().map(|message| format!(": {}", clean(message)));
            let (target, job) = (clean(&job.target), job_name(job));
            let (how, took) = (self::outcome(*outcome), seconds(*elapsed_ms));
            format!("{target}: {job}: {how} after {took}{}", why.unwrap_or_default())
        }
        Event::StateGivenUp { target, message, .. } | Event::SpaceShort { target, message, .. } => {
            format!("{}: {}", clean(target), clean(message))
        }
        Event::Paused => "paused".to_owned(),
        Event::Resumed => "resumed".to_owned(),
        Event::Reloaded => "reloaded the configuration".to_owned(),
        Event::ResultsRemoved { target, paths } => {
            let paths: Vec<String> =
                paths.iter().map(|path| clean(&path.to_string_lossy())).collect();
            format!("{}: removed {}", clean(target), paths.join(", "))
        }
        Event::Missed { events } => format!("missed {}", count(*events, "event")),
        Event::Unknown => return None,
    })
}

/// Returns the result of a job.
pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Superseded => "superseded by a newer archive",
        Outcome::BadArchive => "bad archive",
    }
}

/// Returns an event on a line, with its time.
pub fn event_line(line: &EventLine) -> Option<String> {
    // A time out of range must not hide the event.
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(line.unix_ms)).unwrap_or(UNIX_EPOCH);
    Some(format!("{} {}", humantime::format_rfc3339_seconds(at), event(&line.event)?))
}

/// Returns the slot of an archive, or the slots of a pair.
pub fn slot(slot: u64, base_slot: Option<u64>) -> String {
    match base_slot {
        Some(base) => format!("slot {slot} (base {base})"),
        None => format!("slot {slot}"),
    }
}

/// Returns the time since a moment.
pub fn ago(unix_ms: u64) -> String {
    let then = UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms)).unwrap_or(UNIX_EPOCH);
    let passed = SystemTime::now().duration_since(then).unwrap_or_default();
    format!("{} ago", duration(passed))
}

/// Returns text with control characters escaped.
pub fn clean(text: &str) -> String {
    printable(text.as_bytes())
}
