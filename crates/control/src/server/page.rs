//! The status page: what `status` says, as HTML for a person with a browser. It has no scripts, no
//! outside resources and no forms, and reloads itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytesize::ByteSize;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::protocol::{
    BadArchive, DiskStatus, Event, EventLine, JobProgress, JobStatus, Kept, KeptStatus, Status,
    TargetState, TargetStatus,
};

pub const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// Headers that keep a browser from loading, running, storing or embedding anything.
pub const HEADERS: &str = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
                           frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n\
                           Cache-Control: no-store\r\n";

/// Interval at which the browser reloads the page. A guess.
const RELOAD_SECONDS: u32 = 5;

/// Most bad archives on the page; `ledger-tool service status` lists all. A guess.
const BAD_MAX: usize = 10;

const STYLE: &str = "
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em;
  color: #222; background: #fff }
h1 { font-size: 1.4em; margin-bottom: 0 } h2 { font-size: 1.1em; margin: 1.6em 0 .3em }
p { margin: .3em 0 } .quiet { color: #666 } .bad { color: #a00 } .good { color: #070 }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25em .8em .25em 0; border-bottom: 1px solid #ddd;
  vertical-align: top; overflow-wrap: anywhere } th { font-weight: 600 }
progress { width: 100%; height: 1em } td.number, td.time { white-space: nowrap } td.time { width: 8em }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 }
  th, td { border-color: #444 } .quiet { color: #999 } .bad { color: #f88 } .good { color: #8d8 } }
";

/// Returns the current time: milliseconds since 1970.
pub fn now_unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Renders the page at this time.
pub fn render(status: &Status, now_unix_ms: u64) -> String {
    let newest = status.archives.newest.as_ref();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(RELOAD_SECONDS);
                meta name="viewport" content="width=device-width";
                title { "unpackd" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "unpackd " (status.version) }
                p.quiet {
                    "process " (status.pid) ", started " (ago(status.started_unix_ms, now_unix_ms))
                    @if let Some(rate) = status.rate_limit { ", writes at most " (size(rate)) "/s to each device" }
                }
                @if status.paused { p.bad #paused { "paused: no job runs until " code { "ledger-tool service resume" } } }
                h2 { "Archives" }
                @match newest {
                    Some(newest) => p #newest {
                        "newest slot " b { (newest.slot) }
                        @if let Some(base) = newest.base_slot { ", upon the full archive of slot " (base) }
                    },
                    None => p.bad #newest { "no usable archive" },
                }
                p.quiet {
                    "searched: "
                    @for (index, directory) in status.archives.directories.iter().enumerate() {
                        @if index > 0 { ", " }
                        code { (directory.display()) }
                    }
                }
                @for target in &status.targets {
                    (self::target(target, newest.map(|pair| pair.slot), now_unix_ms))
                }
                (disks(&status.disks))
                (bad(&status.bad, now_unix_ms))
                (recent(&status.recent, now_unix_ms))
            }
        }
    }
    .into_string()
}

fn target(target: &TargetStatus, newest: Option<u64>, now: u64) -> Markup {
    let (state, class) = match target.state {
        TargetState::Idle => ("idle", "good"),
        TargetState::Working => ("working", "good"),
        TargetState::Waiting => ("waiting", "quiet"),
        TargetState::Failing => ("failing", "bad"),
    };
    html! {
        section id=(format!("target-{}", target.name)) {
            h2 { "Target " (target.name) " " span class=(class) { (state) } }
            @if let Some(detail) = &target.detail { p { (detail) } }
            @if let Some(job) = &target.job { (self::job(job)) }
            @if !target.queued.is_empty() { p.quiet { (target.queued.len()) " more queued" } }
            @if target.results.is_empty() { p { "nothing is ready yet" } } @else {
                table {
                    tr { th { "slot" } th { "behind" } th { "ready since" } th { "size" } th { "directory" } }
                    @for result in &target.results {
                        tr {
                            td.number { (result.slot) }
                            td.number { (behind(result.slot, newest)) }
                            td.number { (ago(result.finished_unix_ms, now)) }
                            td.number { @if result.bytes > 0 { (size(result.bytes)) } @else { "unknown" } }
                            td { code { (result.path.display()) } }
                        }
                    }
                }
            }
        }
    }
}

fn job(job: &JobStatus) -> Markup {
    let JobProgress { bytes_total, bytes_read, bytes_written, rate_bytes_per_s, eta_ms, .. } =
        job.progress.unwrap_or_default();
    html! {
        p.job {
            "job " (job.id) ": slot " (job.slot)
            @if let Some(phase) = &job.phase { ", " (phase) }
            @if job.attempt > 1 { ", attempt " (job.attempt) }
            ": " (size(bytes_written)) " written"
            @if let Some(rate) = rate_bytes_per_s { " at " (size(rate)) "/s" }
            @if let Some(eta) = eta_ms { ", " (span(eta)) " left" }
        }
        @if let Some(total) = bytes_total { progress max=(total) value=(bytes_read.min(total)) {} }
        @if let Some(error) = &job.last_error { p.bad { "the attempt before failed: " (error) } }
    }
}

fn disks(disks: &[DiskStatus]) -> Markup {
    html! {
        @if !disks.is_empty() {
            h2 { "Disks" }
            table {
                tr { th { "directory" } th { "targets" } th { "available" } th { "size" } th { "kept there" } }
                @for disk in disks {
                    tr {
                        td { code { (disk.path.display()) } }
                        td { (disk.targets.join(", ")) }
                        td.number { (size(disk.bytes_available)) }
                        td.number { (size(disk.bytes)) }
                        td { (kept(&disk.kept)) }
                    }
                }
            }
        }
    }
}

/// Lists what targets keep on a disk: that is what an operator can remove, or wait for.
fn kept(kept: &[KeptStatus]) -> Markup {
    let what = |what: Kept| match what {
        Kept::Ready => "ready state",
        Kept::Next => "its successor, as far as it is made",
        Kept::Shadow => "removed storages, by the shadow",
        Kept::Leftovers => "old files to be removed",
        Kept::Trees => "trees",
    };
    html! {
        @for (index, each) in kept.iter().enumerate() {
            @if index > 0 { br; }
            (each.target) ": " (what(each.what)) ", " (size(each.bytes))
        }
        @if kept.is_empty() { span.quiet { "nothing" } }
    }
}

fn bad(bad: &[BadArchive], now: u64) -> Markup {
    html! {
        @if !bad.is_empty() {
            h2.bad { "Bad archives" }
            table {
                @for archive in bad.iter().rev().take(BAD_MAX) {
                    tr {
                        td.time { (ago(archive.seen_unix_ms, now)) }
                        td { (reason(archive)) }
                    }
                }
            }
            @if bad.len() > BAD_MAX { p.quiet { "and " (bad.len() - BAD_MAX) " more" } }
        }
    }
}

fn recent(events: &[EventLine], now: u64) -> Markup {
    html! {
        @if !events.is_empty() {
            h2 { "Last events" }
            table #events {
                @for line in events.iter().rev() {
                    tr { td.time { (ago(line.unix_ms, now)) } td { (words(&line.event)) } }
                }
            }
        }
    }
}

/// Returns why an archive is bad, with its path.
fn reason(archive: &BadArchive) -> String {
    let path = archive.path.display().to_string();
    // Most errors name the archive themselves.
    if archive.reason.contains(&path) {
        archive.reason.clone()
    } else {
        format!("{path}: {}", archive.reason)
    }
}

/// Returns an event in words.
fn words(event: &Event) -> String {
    let about = |job: &JobStatus| format!("job {} of {}, slot {}", job.id, job.target, job.slot);
    match event {
        Event::JobQueued { job } => format!("{}: queued", about(job)),
        Event::JobStarted { job } => format!("{}: started", about(job)),
        Event::Adopted { target, slot, .. } => {
            format!("{target}: slot {slot} moved to where the validator looks")
        }
        Event::StateGivenUp { target, message, .. } | Event::SpaceShort { target, message, .. } => {
            format!("{target}: {message}")
        }
        Event::JobEnded { job, outcome, message, elapsed_ms, .. } => {
            let outcome = serde_json::to_value(outcome).unwrap_or_default();
            let outcome = outcome.as_str().unwrap_or("ended").to_owned();
            let message = message.as_ref().map_or_else(String::new, |text| format!(": {text}"));
            format!("{}: {outcome} after {}{message}", about(job), span(*elapsed_ms))
        }
        Event::Progress { job, target, .. } => format!("job {job} of {target}: progress"),
        Event::Paused => "paused".to_owned(),
        Event::Resumed => "resumed".to_owned(),
        Event::Reloaded => "configuration reloaded".to_owned(),
        Event::ResultsRemoved { target, paths } => {
            format!("{target}: {} old results removed", paths.len())
        }
        Event::Missed { events } => format!("{events} events missed"),
        Event::Unknown => "unknown event".to_owned(),
    }
}

fn behind(slot: u64, newest: Option<u64>) -> String {
    match newest.map(|newest| newest.saturating_sub(slot)) {
        None => "unknown".to_owned(),
        Some(0) => "up to date".to_owned(),
        Some(1) => "1 slot".to_owned(),
        Some(slots) => format!("{slots} slots"),
    }
}

fn size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

fn ago(unix_ms: u64, now: u64) -> String {
    format!("{} ago", span(now.saturating_sub(unix_ms)))
}

/// Formats milliseconds in whole seconds, from an hour on in whole minutes.
fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let seconds = if seconds < 3600 { seconds } else { seconds / 60 * 60 };
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests;
