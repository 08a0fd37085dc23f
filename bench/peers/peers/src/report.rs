//! Tables of results.

use crate::console;
use crate::goals::{Verdict, judge};
use crate::machine::Facts;
use crate::plot::{Bar, Group, plot};
use crate::programs::{bench_directory, root_directory};
use crate::results::{Line, Measured, Run, Session, load};
use crate::scenarios::{Place, SCENARIOS, Scenario};
use crate::statistics::{ByRound, Spread, ratios};
use crate::tables::{replace_between_markers, table};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::PathBuf;

/// Why results may not be written into BENCHMARKS.md.
pub const NOT_PUBLISHED: &str = "results of scaled archives are not published";

const PLOT_TITLE: &str = "Seconds until unpacked and on the disk (less is better)";

/// Options of `report`.
#[derive(Args)]
pub struct ReportOptions {
    /// File of results [default: results/results.jsonl]
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,

    /// Put the tables into BENCHMARKS.md, and draw the plot
    #[arg(long)]
    pub write: bool,
}

/// Prints tables of results, and writes them where they are published.
pub fn report(options: &ReportOptions) -> Result<()> {
    let default = || bench_directory().join("results/results.jsonl");
    let path = options.results.clone().unwrap_or_else(default);
    let lines = load(&path)?;
    let report = Report::new(&lines);
    ensure!(!report.scenarios.is_empty(), "there are no results in {}", path.display());
    let text = report.text();
    console::print(&text);
    if options.write {
        ensure!(!report.is_scaled(), NOT_PUBLISHED);
        let results = bench_directory().join("results");
        let svg = plot(PLOT_TITLE, &report.groups());
        fs::create_dir_all(&results)
            .and_then(|()| fs::write(results.join("peers.svg"), svg))
            .context("cannot write the plot")?;
        publish(&format!("![{PLOT_TITLE}](bench/peers/results/peers.svg)\n\n{text}"))?;
    }
    Ok(())
}

/// Puts text between the markers in BENCHMARKS.md.
fn publish(text: &str) -> Result<()> {
    let (path, old) = benchmarks()?;
    let new = replace_between_markers(&old, text).context("in BENCHMARKS.md")?;
    fs::write(path, new).context("cannot write BENCHMARKS.md")
}

/// Fails if the report could not be published.
pub fn check_markers() -> Result<()> {
    let (_, document) = benchmarks()?;
    replace_between_markers(&document, "").context("in BENCHMARKS.md").map(drop)
}

fn benchmarks() -> Result<(PathBuf, String)> {
    let path = root_directory().join("BENCHMARKS.md");
    let text = fs::read_to_string(&path).context("cannot read BENCHMARKS.md")?;
    Ok((path, text))
}

struct Report<'a> {
    scenarios: Vec<(&'static Scenario, &'a Session, Vec<&'a Run>)>,
}

impl<'a> Report<'a> {
    fn new(lines: &'a [Line]) -> Self {
        let session = |scenario: &Scenario| {
            lines.iter().find_map(|line| match line {
                Line::Session(session) if session.scenario == scenario.id => Some(session),
                _ => None,
            })
        };
        let runs = |scenario: &Scenario| {
            let of_it = lines.iter().filter_map(|line| match line {
                Line::Run(run) if run.scenario == scenario.id => Some(run),
                _ => None,
            });
            of_it.collect()
        };
        let scenarios = SCENARIOS.iter();
        let scenarios =
            scenarios.filter_map(|scenario| Some((scenario, session(scenario)?, runs(scenario))));
        Self { scenarios: scenarios.collect() }
    }

    fn is_scaled(&self) -> bool {
        self.scenarios.iter().any(|(_, session, _)| (session.scale - 1.0).abs() > f64::EPSILON)
    }

    fn text(&self) -> String {
        let mut parts = vec![self.preamble()];
        let mut verdicts = Vec::new();
        for (scenario, session, runs) in &self.scenarios {
            let measured = Measured::new(runs.iter().copied());
            parts.push(section(scenario, session, runs, &measured));
            verdicts.extend(judge(scenario, &measured));
        }
        parts.push(goals(&verdicts));
        let absent: Vec<_> = SCENARIOS
            .iter()
            .filter(|known| self.scenarios.iter().all(|(scenario, ..)| scenario.id != known.id))
            .map(|scenario| format!("`{}`", scenario.id))
            .collect();
        if !absent.is_empty() {
            parts.push(format!("Not measured: {}.\n", absent.join(", ")));
        }
        parts.join("\n")
    }

    /// What is true of all tables: the machine, the tools' versions, how to read the figures.
    fn preamble(&self) -> String {
        let mut text = String::new();
        let mut told: Vec<&Facts> = Vec::new();
        for (_, session, _) in &self.scenarios {
            if told.contains(&&session.facts) {
                continue;
            }
            told.push(&session.facts);
            let of_it = self.scenarios.iter().filter(|(_, other, _)| other.facts == session.facts);
            let ids: Vec<_> = of_it.map(|(scenario, ..)| format!("`{}`", scenario.id)).collect();
            text += &machine(&session.facts, &ids.join(", "));
        }
        text + "\nMedians [least–most] of the rounds. *Durable* is from the start of the process until \
                its output was on the disk (`syncfs`). Ratios are of pairs from the same round. CPU \
                time is that of the process, its children and its kernel threads.\n"
    }

    fn groups(&self) -> Vec<Group> {
        let group = |(scenario, _, runs): &(&'static Scenario, &Session, Vec<&Run>)| {
            let measured = Measured::new(runs.iter().copied());
            let bar = |tool: &String| {
                let spread = Spread::of(measured.time(tool).into_values())?;
                Some(Bar { label: tool.clone(), spread })
            };
            Group {
                title: format!("{}: {}", scenario.id, scenario.title),
                bars: tools(scenario, runs).iter().filter_map(bar).collect(),
            }
        };
        self.scenarios.iter().map(group).collect()
    }
}

/// The tools that ran, in the order of the table of scenarios, others behind.
fn tools(scenario: &Scenario, runs: &[&Run]) -> Vec<String> {
    let mut tools: Vec<String> = Vec::new();
    for run in runs {
        if !tools.contains(&run.tool) {
            tools.push(run.tool.clone());
        }
    }
    let place = |tool: &String| scenario.tools.iter().position(|known| known == tool);
    tools.sort_by_key(|tool| (place(tool).unwrap_or(usize::MAX), tool.clone()));
    tools
}

fn machine(facts: &Facts, scenarios: &str) -> String {
    let versions: Vec<_> =
        facts.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    format!(
        "{}, {} threads, {:.1} GiB of memory, Linux {}, {} on a {}. {} (in {scenarios}).\n",
        facts.cpu,
        facts.cores,
        facts.memory_mib as f64 / 1024.0,
        facts.kernel,
        facts.file_system,
        facts.device,
        versions.join(", "),
    )
}

fn section(scenario: &Scenario, session: &Session, runs: &[&Run], measured: &Measured) -> String {
    let tools = tools(scenario, runs);
    let baseline = scenario.baseline;
    let time = if scenario.place == Place::Nowhere { "s" } else { "durable s" };
    let (ratio, cpu_ratio) = (format!("× {baseline}"), format!("CPU × {baseline}"));
    let header = ["tool", time, &ratio, "CPU s (user + system)", &cpu_ratio, "peak MiB"];
    let row = |tool: &String| {
        let show = |figures: ByRound| shown(Spread::of(figures.into_values()));
        let to_baseline = |of: ByRound, to: ByRound| show(ratios(&of, &to));
        let middle = |figures: ByRound| {
            Spread::of(figures.into_values())
                .map_or("–".into(), |spread| format!("{:.2}", spread.median))
        };
        let peak = Spread::of(measured.peak_mib(tool).into_values());
        vec![
            format!("`{tool}`"),
            show(measured.time(tool)),
            to_baseline(measured.time(tool), measured.time(baseline)),
            format!("{} + {}", middle(measured.user(tool)), middle(measured.system(tool))),
            to_baseline(measured.cpu(tool), measured.cpu(baseline)),
            peak.map_or("–".into(), |peak| format!("{:.0}", peak.max)),
        ]
    };
    let rows: Vec<_> = tools.iter().map(row).collect();
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    let text = format!(
        "### `{}`: {}\n\n{} files, {:.2} GB from {:.2} GB; {} rounds, {}.\n\n{}",
        scenario.id,
        scenario.title,
        session.files,
        gigabytes(session.bytes),
        gigabytes(session.archive_bytes),
        session.rounds,
        session.date,
        table(&header, &rows, true),
    );
    let remarks = remarks(session, runs, measured, &tools);
    if remarks.is_empty() { text } else { format!("{text}\n{}\n", remarks.join(" ")) }
}

/// What must be known to read a table.
fn remarks(session: &Session, runs: &[&Run], measured: &Measured, tools: &[String]) -> Vec<String> {
    let mut remarks = Vec::new();
    if (session.scale - 1.0).abs() > f64::EPSILON {
        remarks.push(format!("**Scaled by {}: figures mean nothing.**", session.scale));
    }
    let busy = runs.iter().filter(|run| !run.disk_idle).count();
    if busy > 0 {
        let all = runs.len();
        remarks.push(format!("Before {busy} of {all} runs the disk did not become idle."));
    }
    if runs.iter().any(|run| !run.cache_right) {
        let remark =
            "Without root: only the archive was dropped from the page cache, not the rest.";
        remarks.push(remark.into());
    }
    for (tool, reason) in &session.left_out {
        remarks.push(format!("`{tool}` was left out: {reason}."));
    }
    for tool in tools {
        let failures: Vec<_> = runs
            .iter()
            .filter(|run| run.tool == *tool)
            .filter_map(|run| run.failure.as_ref())
            .collect();
        if let Some(failure) = failures.first() {
            let count = failures.len();
            remarks.push(format!(
                "`{tool}` **failed** {count} times, which are not counted: {failure}."
            ));
        }
    }
    if measured.words("agave", "registered_buffers").contains(&"false".to_owned()) {
        let remark = "`agave` ran without registered buffers, as a validator does where it may \
                      neither lock 2 GB of memory nor raise that limit (`ulimit -l`).";
        remarks.push(remark.into());
    }
    let engines = measured.words("unsnap", "io_engine").join(" or ");
    let limits = measured.words("unsnap", "limited_by").join(" or ");
    if !engines.is_empty() {
        remarks.push(format!("`unsnap` took the engine {engines} and was limited by {limits}."));
    }
    remarks
}

fn goals(verdicts: &[Verdict]) -> String {
    let word = |met| match met {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "not measured",
    };
    let row = |verdict: &Verdict| {
        vec![verdict.goal.clone(), verdict.reached.clone(), word(verdict.met).to_owned()]
    };
    let rows: Vec<_> = verdicts.iter().map(row).collect();
    format!("### Goals\n\n{}", table(&["goal", "reached", "met"], &rows, false))
}

fn shown(spread: Option<Spread>) -> String {
    spread.map_or("–".into(), |spread| spread.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{run, session};

    #[test]
    fn reports_have_tables_goals_and_what_is_missing() {
        let failed = Run { failure: Some("incomplete".into()), ..run("tar-rs", 0, 9.0) };
        let mut lines = vec![Line::Session(session("one"))];
        let runs = [
            run("agave", 0, 2.0),
            run("unsnap", 0, 1.0),
            run("agave", 1, 4.0),
            run("unsnap", 1, 1.0),
            run("mine", 1, 1.0),
            failed,
        ];
        lines.extend(runs.map(Line::Run));
        let report = Report::new(&lines);
        let text = report.text();
        for expected in [
            "| `unsnap` | 1.00 [1.00–1.00] | 0.38 [0.25–0.50] | 0.50 + 0.25 | 0.38 [0.25–0.50] | 1 |\n| `agave`",
            "| `tar-rs` | – | – | – + – | – | – |\n| `mine`",
            "`bsdtar` was left out: not installed.",
            "`tar-rs` **failed** 1 times, which are not counted: incomplete.",
            "| `one`: time ≤ 0.68 × agave | 0.375 [0.250–0.500] | yes |",
            "| `one`: time ≤ 1.15 × the slower of floor-mixed, floor-decode | – | not measured |",
            "Not measured: `one-tmpfs`,",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
        assert!(!report.is_scaled());
        assert_eq!(report.groups()[0].bars.len(), 3);
    }
}
