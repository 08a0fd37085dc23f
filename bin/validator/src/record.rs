//! The record of a start, for operators and their machines: a result file, a metric, a hook.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use unsnap_cli::{exit::Exit, hook};
use unsnap_fastboot::{Outcome, StartCounts, write_durably};
use unsnap_ring::Syscalls;

use crate::memory::Learned;

/// Name of the result file, in the snapshots directory.
pub const LAST_START: &str = ".unsnap-last-start.json";

/// Version of the record.
const VERSION: u32 = 1;

/// How the validator was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartResult {
    /// A state prepared beside was adopted.
    Adopted,
    /// Archives were unpacked.
    Unpacked,
    /// A state existed.
    Ready,
    /// The validator is started without a state of unsnap's.
    GivenUp,
}

/// The record of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    version: u32,
    event: &'static str,
    /// Seconds since 1970.
    time: u64,
    ledger: PathBuf,
    result: StartResult,
    /// Milliseconds from the beginning of this program until the validator is started.
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u64>,
    /// Number of slots by which the state is older than the newest archives.
    behind: u64,
    /// The error's stable word, if nothing was prepared.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    killed_preparations: u32,
    /// Number of validators that have ended early with the state that was served last.
    failed_starts: u32,
    /// Slots of states that were withdrawn because validators had ended early with them.
    withdrawn: Vec<u64>,
}

/// The state that a validator starts from, or the error.
pub enum Given<'a> {
    /// The state of this outcome, and the number of slots by which it is behind the archives.
    State(&'a Outcome, u64),
    /// The state of this slot, and the same number. How the state was made was not known when the
    /// time was up.
    Slot(u64, u64),
    /// None.
    Nothing(&'a anyhow::Error),
}

impl Record {
    /// Returns the record of a start that took `duration`.
    pub fn new(
        ledger: &Path,
        given: &Given<'_>,
        learned: &Learned,
        time: u64,
        duration: Duration,
    ) -> Self {
        let (result, slot, behind) = match given {
            Given::State(outcome, behind) => {
                let (result, slot) = match outcome {
                    Outcome::Prepared(prepared) => (StartResult::Unpacked, prepared.slot),
                    Outcome::Adopted { slot, .. } => (StartResult::Adopted, *slot),
                    Outcome::Ready { slot, .. } => (StartResult::Ready, *slot),
                };
                (result, Some(slot), *behind)
            }
            Given::Slot(slot, behind) => (StartResult::Ready, Some(*slot), *behind),
            Given::Nothing(_) => (StartResult::GivenUp, None, 0),
        };
        let error = match given {
            Given::Nothing(error) => Some(error),
            _ => None,
        };
        Self {
            version: VERSION,
            event: "start",
            time,
            ledger: ledger.to_owned(),
            result,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            slot,
            behind,
            code: error.and_then(|error| Exit::code(error)),
            reason: error.map(|error| format!("{error:#}")),
            killed_preparations: learned.killed,
            failed_starts: learned.failed.as_ref().map_or(0, |failed| failed.times),
            withdrawn: learned.withdrawn.clone(),
        }
    }

    /// Adds this start to the numbers of starts.
    pub fn count(&self, starts: &mut StartCounts) {
        let counter = match self.result {
            StartResult::Adopted => &mut starts.adopted,
            StartResult::Unpacked => &mut starts.unpacked,
            StartResult::Ready => &mut starts.ready,
            StartResult::GivenUp => &mut starts.given_up,
        };
        *counter += 1;
    }

    /// Returns the record as one line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Writes the result file. Errors are only logged.
    pub fn leave(&self, snapshots: &Path) {
        write(&snapshots.join(LAST_START), &self.json());
    }

    /// Writes the metrics for `node_exporter`'s textfile collector. Errors are only logged.
    pub fn leave_metrics(&self, path: &Path, starts: &StartCounts) {
        write(path, &self.metrics(starts));
    }

    fn metrics(&self, starts: &StartCounts) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(&str, String)]| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let by_result = [
            ("{result=\"adopted\"}", starts.adopted),
            ("{result=\"unpacked\"}", starts.unpacked),
            ("{result=\"ready\"}", starts.ready),
            ("{result=\"given-up\"}", starts.given_up),
        ]
        .map(|(labels, value)| (labels, value.to_string()));
        family(
            "unsnap_starts_total",
            "counter",
            "Starts of the validator through unsnap, by result.",
            &by_result,
        );
        let withdrawn = [("", starts.withdrawn.to_string())];
        family(
            "unsnap_start_states_withdrawn_total",
            "counter",
            "States withdrawn because validators ended early with them.",
            &withdrawn,
        );
        let time = [("", self.time.to_string())];
        family(
            "unsnap_start_timestamp_seconds",
            "gauge",
            "Time of the last start, in seconds since 1970.",
            &time,
        );
        let duration = format!("{}.{:03}", self.duration_ms / 1000, self.duration_ms % 1000);
        family(
            "unsnap_start_duration_seconds",
            "gauge",
            "Time from the beginning of the last start until the validator was executed.",
            &[("", duration)],
        );
        let given_up = u64::from(self.result == StartResult::GivenUp);
        family(
            "unsnap_start_given_up",
            "gauge",
            "Whether the last start was without a state of unsnap's.",
            &[("", given_up.to_string())],
        );
        if let Some(slot) = self.slot {
            family(
                "unsnap_start_slot",
                "gauge",
                "Slot of the state of the last start.",
                &[("", slot.to_string())],
            );
            family(
                "unsnap_start_behind_slots",
                "gauge",
                "Slots by which that state was older than the newest archives.",
                &[("", self.behind.to_string())],
            );
        }
        text
    }

    /// Executes a program with the record on its standard input, for at most 10 seconds. Errors are
    /// only logged.
    pub fn report_to(&self, program: &Path) {
        hook::tell(program, &self.json());
    }
}

/// Returns the seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn write(path: &Path, text: &str) {
    if let Err(error) = write_durably(&Syscalls::default(), path, text.as_bytes()) {
        tracing::warn!(%error, "the record of this start cannot be written");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use unsnap_fastboot::{Failed, Repaired, StateName};

    use super::*;

    fn ready() -> Outcome {
        let state = Repaired::WasWhole { slot: 7 };
        Outcome::Ready { slot: 7, state, set_aside: Vec::new(), behind: 0 }
    }

    fn record(given: &Given<'_>, learned: &Learned) -> Record {
        Record::new(Path::new("/l"), given, learned, 1000, Duration::from_millis(1234))
    }

    #[test]
    fn a_start_is_told_as_json() {
        let outcome = ready();
        let told = record(&Given::State(&outcome, 5), &Learned::default());
        assert_eq!(
            told.json(),
            "{\"version\":1,\"event\":\"start\",\"time\":1000,\"ledger\":\"/l\",\
             \"result\":\"ready\",\"duration_ms\":1234,\"slot\":7,\"behind\":5,\
             \"killed_preparations\":0,\"failed_starts\":0,\"withdrawn\":[]}\n"
        );
        let state = StateName { slot: 7, hash: None };
        let learned = Learned {
            killed: 1,
            failed: Some(Failed { state, times: 2, too_often: true }),
            withdrawn: vec![7],
            kept: None,
        };
        let error = unsnap_fastboot::FastbootError::CANCELLED.into();
        let told: serde_json::Value =
            serde_json::from_str(&record(&Given::Nothing(&error), &learned).json()).unwrap();
        assert_eq!((&told["result"], &told["code"]), (&"given-up".into(), &"cancelled".into()));
        assert_eq!((&told["slot"], &told["failed_starts"]), (&serde_json::Value::Null, &2.into()));
        assert_eq!(told["withdrawn"], serde_json::json!([7]));
    }

    #[test]
    fn a_start_is_left_as_metrics() {
        let scratch = tempfile::tempdir().unwrap();
        let (outcome, path) = (ready(), scratch.path().join("unsnap.prom"));
        let told = record(&Given::State(&outcome, 5), &Learned::default());
        let mut starts = StartCounts { adopted: 2, ..StartCounts::default() };
        told.count(&mut starts);
        told.leave_metrics(&path, &starts);
        let text = fs::read_to_string(&path).unwrap();
        for line in [
            "unsnap_starts_total{result=\"adopted\"} 2",
            "unsnap_starts_total{result=\"ready\"} 1",
            "unsnap_start_timestamp_seconds 1000",
            "unsnap_start_duration_seconds 1.234",
            "unsnap_start_given_up 0",
            "unsnap_start_slot 7",
            "unsnap_start_behind_slots 5",
        ] {
            assert!(text.lines().any(|written| written == line), "no {line} in {text}");
        }
        let error = unsnap_fastboot::FastbootError::CANCELLED.into();
        record(&Given::Nothing(&error), &Learned::default()).leave_metrics(&path, &starts);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("unsnap_start_given_up 1") && !text.contains("start_slot"), "{text}");
    }

    #[test]
    fn a_program_gets_the_record_and_its_failure_is_none_of_the_start() {
        let scratch = tempfile::tempdir().unwrap();
        let hook = scratch.path().join("hook");
        let out = scratch.path().join("out");
        fs::write(&hook, format!("#!/bin/sh\ncat > {}\nexit 1\n", out.display())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&hook, mode).unwrap();
        let outcome = ready();
        let told = record(&Given::State(&outcome, 0), &Learned::default());
        told.report_to(&hook);
        assert_eq!(fs::read_to_string(&out).unwrap(), told.json());
        told.report_to(Path::new("/no/such/program"));
    }
}
