//! What was measured, as lines of JSON that a report can be made of at any time.

use crate::machine::Facts;
use crate::statistics::ByRound;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A line of a results file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Line {
    /// A scenario's rounds began.
    Session(Session),
    /// A tool ran once.
    Run(Run),
}

/// What all runs of a scenario share.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Session {
    /// Id of the scenario.
    pub scenario: String,
    /// Day on which it was measured.
    pub date: String,
    /// Factor to the sizes in the table of archives; 1 unless for a smoke test.
    pub scale: f64,
    /// Rounds that were asked for.
    pub rounds: u32,
    /// Files in the archive.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// Size of the archive.
    pub archive_bytes: u64,
    /// Tools that were not measured, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// The machine and the versions of the tools.
    pub facts: Facts,
}

/// One run of one tool.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Run {
    /// Id of the scenario.
    pub scenario: String,
    /// Id of the tool.
    pub tool: String,
    /// Round, from 0.
    pub round: u32,
    /// From the start of the process to its end.
    pub wall_seconds: f64,
    /// From then until its output was on the disk.
    pub sync_seconds: f64,
    /// CPU time in user mode, of the process and those it waited for.
    pub user_seconds: f64,
    /// CPU time in the kernel, likewise.
    pub system_seconds: f64,
    /// Most memory resident in one process.
    pub peak_bytes: u64,
    /// Whether the disk had come to rest before.
    pub disk_idle: bool,
    /// Whether the page cache was as it should be: dropped, or with the archive in it.
    pub cache_right: bool,
    /// Why the figures must not be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Parts of what unsnap or agave-runner says about its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_report: Option<serde_json::Value>,
}

/// The runs of one scenario, by tool.
pub struct Measured<'a> {
    runs: Vec<&'a Run>,
}

impl<'a> Measured<'a> {
    /// The runs that did not fail.
    pub fn new(runs: impl IntoIterator<Item = &'a Run>) -> Self {
        Self { runs: runs.into_iter().filter(|run| run.failure.is_none()).collect() }
    }

    /// Seconds until the output was on the disk.
    pub fn time(&self, tool: &str) -> ByRound {
        self.figure(tool, |run| run.wall_seconds + run.sync_seconds)
    }

    /// Seconds of CPU in user mode.
    pub fn user(&self, tool: &str) -> ByRound {
        self.figure(tool, |run| run.user_seconds)
    }

    /// Seconds of CPU in the kernel.
    pub fn system(&self, tool: &str) -> ByRound {
        self.figure(tool, |run| run.system_seconds)
    }

    /// Seconds of CPU.
    pub fn cpu(&self, tool: &str) -> ByRound {
        self.figure(tool, |run| run.user_seconds + run.system_seconds)
    }

    /// Peaks of resident memory.
    pub fn peak_mib(&self, tool: &str) -> ByRound {
        self.figure(tool, |run| run.peak_bytes as f64 / f64::from(1 << 20))
    }

    /// Values of a field of a tool's own report, without duplicates.
    pub fn words(&self, tool: &str, field: &str) -> Vec<String> {
        let mut words: Vec<String> = self
            .runs
            .iter()
            .filter(|run| run.tool == tool)
            .filter_map(|run| run.own_report.as_ref()?.get(field))
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        words.sort();
        words.dedup();
        words
    }

    fn figure(&self, tool: &str, figure: impl Fn(&Run) -> f64) -> ByRound {
        let runs = self.runs.iter().filter(|run| run.tool == tool);
        runs.map(|run| (run.round, figure(run))).collect()
    }
}

/// All lines of a results file; none if there is no such file.
pub fn load(path: &Path) -> Result<Vec<Line>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        other => other.with_context(|| format!("cannot read {}", path.display()))?,
    };
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("line {} of {}", index + 1, path.display()))
        })
        .collect()
}

/// A results file that is being added to.
pub struct Writer {
    file: File,
    path: PathBuf,
}

impl Writer {
    /// Begins a scenario: results of it from earlier are replaced, others stay.
    pub fn begin(path: &Path, session: Session) -> Result<Self> {
        let failed = || format!("cannot write {}", path.display());
        let mut lines = load(path)?;
        lines.retain(|line| match line {
            Line::Session(Session { scenario, .. }) | Line::Run(Run { scenario, .. }) => {
                *scenario != session.scenario
            }
        });
        lines.push(Line::Session(session));
        let text = lines.iter().try_fold(String::new(), |text, line| {
            anyhow::Ok(text + &serde_json::to_string(line)? + "\n")
        })?;
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(failed)?;
        }
        fs::write(path, text).with_context(failed)?;
        let file = OpenOptions::new().append(true).open(path).with_context(failed)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Adds a run.
    pub fn add(&mut self, run: Run) -> Result<()> {
        let line = serde_json::to_string(&Line::Run(run))? + "\n";
        let failed = || format!("cannot write {}", self.path.display());
        self.file.write_all(line.as_bytes()).with_context(failed)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A run that took `seconds`.
    pub fn run(tool: &str, round: u32, seconds: f64) -> Run {
        Run {
            scenario: "one".into(),
            tool: tool.into(),
            round,
            wall_seconds: seconds,
            sync_seconds: 0.0,
            user_seconds: seconds / 2.0,
            system_seconds: seconds / 4.0,
            peak_bytes: 1 << 20,
            disk_idle: true,
            cache_right: true,
            failure: None,
            own_report: None,
        }
    }

    /// These runs, as measured.
    pub fn measured(runs: &[Run]) -> Measured<'_> {
        Measured::new(runs)
    }

    /// A session of a scenario.
    pub fn session(scenario: &str) -> Session {
        Session {
            scenario: scenario.into(),
            date: "2026-01-02".into(),
            scale: 1.0,
            rounds: 2,
            files: 3,
            bytes: 4_000_000_000,
            archive_bytes: 1_000_000_000,
            left_out: vec![("bsdtar".into(), "not installed".into())],
            facts: Facts::default(),
        }
    }

    #[test]
    fn failed_runs_have_no_figures() {
        let failed = Run { failure: Some("incomplete".into()), ..run("agave", 1, 1.0) };
        let runs = [run("agave", 0, 2.0), failed];
        assert_eq!(measured(&runs).time("agave"), ByRound::from([(0, 2.0)]));
        assert_eq!(measured(&runs).cpu("agave"), ByRound::from([(0, 1.5)]));
        assert_eq!(measured(&runs).time("unsnap"), ByRound::new());
    }

    #[test]
    fn a_scenario_replaces_its_own_results_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/results.jsonl");
        assert!(load(&path).unwrap().is_empty());
        for scenario in ["one", "frames", "one"] {
            let mut writer = Writer::begin(&path, session(scenario)).unwrap();
            writer.add(Run { scenario: scenario.into(), ..run("unsnap", 0, 1.0) }).unwrap();
        }
        let scenarios: Vec<String> = load(&path)
            .unwrap()
            .into_iter()
            .map(|line| match line {
                Line::Session(session) => session.scenario,
                Line::Run(run) => format!("{} run", run.scenario),
            })
            .collect();
        assert_eq!(scenarios, ["frames", "frames run", "one", "one run"]);
    }
}
