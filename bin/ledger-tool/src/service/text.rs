//! How things stand, in words.

use std::{
    fmt::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use indicatif::{BinaryBytes, HumanCount, HumanDuration};
use unsnap_control::protocol::{
    Event, EventLine, JobProgress, JobState, JobStatus, Outcome, ResultStatus, Status, TargetKind,
    TargetState, TargetStatus,
};
use unsnap_tarstream::printable;

/// The answer to `status`.
pub fn status(status: &Status) -> String {
    let paused = if status.paused { ", paused" } else { "" };
    let limit = status.rate_limit.map(|rate| format!(", limited to {}/s", BinaryBytes(rate)));
    let limit = limit.unwrap_or_default();
    let mut text = format!(
        "unpackd {}, process {}, started {}{limit}{paused}\n",
        clean(&status.version),
        status.pid,
        ago(status.started_unix_ms)
    );
    let archives = &status.archives;
    let newest = match &archives.newest {
        Some(newest) => format!("newest is {}", slot(newest.slot, newest.base_slot)),
        None => "none".to_owned(),
    };
    let directories: Vec<String> =
        archives.directories.iter().map(|path| clean(&path.to_string_lossy())).collect();
    let _ = writeln!(text, "archives: {newest}, in {}", directories.join(" and "));
    let columns = Columns::of(&status.targets);
    for each in &status.targets {
        target(&mut text, each, &columns);
    }
    for bad in &status.bad {
        let (path, reason) = (clean(&bad.path.to_string_lossy()), clean(&bad.reason));
        let _ = writeln!(text, "bad archive, seen {}: {path}: {reason}", ago(bad.seen_unix_ms));
    }
    text
}

/// Widths of what stands in columns.
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
            "  {:width$}  {:>10}  {:>9} files  {}  {}",
            slot(*of, *base_slot),
            BinaryBytes(*bytes).to_string(),
            HumanCount(*files).to_string(),
            clean(&path.to_string_lossy()),
            ago(*finished_unix_ms),
            width = columns.slot
        );
    }
}

/// A job on a line.
fn job(job: &JobStatus) -> String {
    let mut text = format!("{}: {}", job_name(job), job_state(job.state));
    if let Some(ms) = job.retry_in_ms {
        let _ = write!(text, " in {}", HumanDuration(Duration::from_millis(ms)));
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
        let _ = write!(text, "; before: {}", clean(error));
    }
    text
}

/// How a job is spoken of.
pub fn job_name(job: &JobStatus) -> String {
    format!("job {}, {}", job.id, slot(job.slot, job.base_slot))
}

/// How a job stands.
pub fn job_state(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Running => "running",
        JobState::Paused => "paused",
        JobState::Retrying => "to be tried again",
    }
}

/// How far a job is; the same words as those of `unpack`.
pub fn progress(now: &JobProgress) -> String {
    let mut text = match now.bytes_total {
        Some(total) => {
            let percent = percent(now).unwrap_or(0);
            format!("{percent:3}%  {} of {} read", BinaryBytes(now.bytes_read), BinaryBytes(total))
        }
        None => format!("{} read", BinaryBytes(now.bytes_read)),
    };
    let _ = write!(
        text,
        "  {} written  {} files",
        BinaryBytes(now.bytes_written),
        HumanCount(now.files)
    );
    if let Some(rate) = now.rate_bytes_per_s {
        let _ = write!(text, "  {}/s", BinaryBytes(rate));
    }
    if let Some(eta) = now.eta_ms {
        let _ = write!(text, "  ETA {}", HumanDuration(Duration::from_millis(eta)));
    }
    text
}

/// Of 100, what has been read.
pub fn percent(now: &JobProgress) -> Option<u64> {
    Some((now.bytes_read.saturating_mul(100) / now.bytes_total?.max(1)).min(100))
}

/// An event on a line, without its time. `None` for those of later versions.
pub fn event(event: &Event) -> Option<String> {
    Some(match event {
        Event::JobQueued { job } => format!("{}: {} is queued", clean(&job.target), job_name(job)),
        Event::JobStarted { job } => {
            let attempt = match job.attempt {
                0 | 1 => String::new(),
                attempt => format!(" for attempt {attempt}"),
            };
            format!("{}: {} is started{attempt}", clean(&job.target), job_name(job))
        }
        Event::Progress { job, target, phase, progress: now } => {
            let phase = phase.as_deref().map(|phase| format!("{}  ", clean(phase)));
            let phase = phase.unwrap_or_default();
            format!("{}: job {job}: {phase}{}", clean(target), progress(now))
        }
        Event::JobEnded { job, outcome, message, elapsed_ms } => {
            let how = match outcome {
                Outcome::Done => "is done",
                Outcome::Failed => "has failed",
                Outcome::Cancelled => "was cancelled",
                Outcome::Superseded => "is superseded",
                Outcome::BadArchive => "has a bad archive",
            };
            let why = message.as_deref().map(|message| format!(": {}", clean(message)));
            let (target, job) = (clean(&job.target), job_name(job));
            let (s, cs) = (elapsed_ms / 1000, elapsed_ms % 1000 / 10);
            format!("{target}: {job} {how} after {s}.{cs:02} s{}", why.unwrap_or_default())
        }
        Event::Paused => "paused".to_owned(),
        Event::Resumed => "resumed".to_owned(),
        Event::Reloaded => "the configuration was read again".to_owned(),
        Event::ResultsRemoved { target, paths } => {
            let paths: Vec<String> =
                paths.iter().map(|path| clean(&path.to_string_lossy())).collect();
            format!("{}: removed {}", clean(target), paths.join(", "))
        }
        Event::Missed { events } => format!("{events} events were missed"),
        Event::Unknown => return None,
    })
}

/// An event on a line, with its time.
pub fn event_line(line: &EventLine) -> Option<String> {
    // A time that cannot be shown is no reason to show nothing.
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(line.unix_ms)).unwrap_or(UNIX_EPOCH);
    Some(format!("{} {}", humantime::format_rfc3339_seconds(at), event(&line.event)?))
}

/// What a pair of archives is spoken of.
pub fn slot(slot: u64, base_slot: Option<u64>) -> String {
    match base_slot {
        Some(base) => format!("slot {slot} upon {base}"),
        None => format!("slot {slot}"),
    }
}

/// How long ago that was.
pub fn ago(unix_ms: u64) -> String {
    let then = UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms)).unwrap_or(UNIX_EPOCH);
    let passed = SystemTime::now().duration_since(then).unwrap_or_default();
    format!("{} ago", HumanDuration(passed))
}

/// As it can be shown, whatever it holds.
pub fn clean(text: &str) -> String {
    printable(text.as_bytes())
}
