//! How the service stands, in one line for `systemctl status`.

use std::time::Duration;

use indicatif::{BinaryBytes, HumanDuration};
use unsnap_control::protocol::{JobProgress, JobState, JobStatus, Status, TargetStatus};

/// The state of all targets.
pub fn words(status: &Status) -> String {
    let targets: Vec<String> = status
        .targets
        .iter()
        .map(|target| format!("{}: {}", target.name, of_target(target)))
        .collect();
    let paused = if status.paused { "paused; " } else { "" };
    format!("{paused}{}", targets.join("; "))
}

fn of_target(target: &TargetStatus) -> String {
    if let Some(job) = &target.job {
        return of_job(job);
    }
    match (&target.detail, target.results.first()) {
        (Some(detail), _) => detail.clone(),
        (None, Some(result)) => format!("{} is ready", result.slot),
        (None, None) => "waiting for an archive".to_owned(),
    }
}

fn of_job(job: &JobStatus) -> String {
    let JobStatus { slot, .. } = job;
    match job.state {
        JobState::Queued => format!("{slot} is next"),
        JobState::Paused => format!("{slot} is paused{}", share(job)),
        JobState::Running => {
            let phase = job.phase.as_deref().unwrap_or("unpacking");
            format!("{phase} {slot}{}{}", share(job), pace(job))
        }
        JobState::Retrying => {
            let after = Duration::from_millis(job.retry_in_ms.unwrap_or(0));
            let why = job.last_error.as_deref().unwrap_or("unknown reason");
            format!("{slot} is tried again in {}: {why}", HumanDuration(after))
        }
    }
}

/// How much of the archives has been read.
fn share(job: &JobStatus) -> String {
    match job.progress {
        Some(JobProgress { bytes_total: Some(total), bytes_read, .. }) if total > 0 => {
            let percent = u128::from(bytes_read.min(total)) * 100 / u128::from(total);
            format!(", {percent}% of {}", BinaryBytes(total))
        }
        _ => String::new(),
    }
}

fn pace(job: &JobStatus) -> String {
    let Some(progress) = job.progress else { return String::new() };
    let rate = progress
        .rate_bytes_per_s
        .map(|rate| format!(", {}/s", BinaryBytes(rate)))
        .unwrap_or_default();
    let left = progress
        .eta_ms
        .map(|left| format!(", {} left", HumanDuration(Duration::from_millis(left))))
        .unwrap_or_default();
    rate + &left
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(target: serde_json::Value) -> Status {
        let mut target = target;
        let defaults = json!({
            "name": "tree", "kind": "tree", "state": "idle", "detail": null, "results": [],
            "job": null, "queued": [],
        });
        for (key, value) in defaults.as_object().unwrap() {
            target.as_object_mut().unwrap().entry(key).or_insert(value.clone());
        }
        serde_json::from_value(json!({
            "version": "1", "pid": 1, "started_unix_ms": 0, "paused": false,
            "archives": { "directories": [], "newest": null, "rescan_ms": 60000 },
            "targets": [target], "bad": [],
        }))
        .unwrap()
    }

    fn job(state: &str) -> serde_json::Value {
        json!({
            "id": 1, "target": "tree", "slot": 350, "base_slot": null, "archives": [],
            "origin": "found", "state": state, "phase": null, "attempt": 1, "retry_in_ms": 30000,
            "started_unix_ms": null, "last_error": "disk full",
            "progress": {
                "bytes_total": 4_u64 << 30, "bytes_read": 1_u64 << 30, "bytes_written": 0, "files": 0,
                "rate_bytes_per_s": 1_u64 << 30, "eta_ms": 180_000,
            },
        })
    }

    #[test]
    fn every_state_has_its_words() {
        let of = |target| words(&status(target));
        assert_eq!(of(json!({})), "tree: waiting for an archive");
        let result = json!({
            "slot": 350, "base_slot": null, "path": "/a/350", "finished_unix_ms": 0, "bytes": 1,
            "files": 1,
        });
        assert_eq!(of(json!({ "results": [result] })), "tree: 350 is ready");
        assert_eq!(
            of(json!({ "job": job("running") })),
            "tree: unpacking 350, 25% of 4.00 GiB, 1.00 GiB/s, 3 minutes left"
        );
        assert_eq!(of(json!({ "job": job("paused") })), "tree: 350 is paused, 25% of 4.00 GiB");
        assert_eq!(
            of(json!({ "job": job("retrying") })),
            "tree: 350 is tried again in 30 seconds: disk full"
        );
        assert_eq!(of(json!({ "job": job("queued") })), "tree: 350 is next");
        assert_eq!(
            of(json!({ "detail": "the validator is running" })),
            "tree: the validator is running"
        );
        let mut paused = status(json!({}));
        paused.paused = true;
        assert_eq!(words(&paused), "paused; tree: waiting for an archive");
    }
}
