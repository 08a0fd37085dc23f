//! The live view on a terminal: one or two lines for each target.

use std::collections::HashMap;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use unsnap_control::protocol::{
    Event, EventLine, JobProgress, JobState, JobStatus, Outcome, ResultStatus, Status, TargetState,
    TargetStatus,
};

use super::text;

/// A running job: a bar, and its progress below.
const WORKING: &str = "{prefix}  [{bar:40}] {percent:>3}%\n  {msg}";

/// A target without a running job.
const RESTING: &str = "{prefix}  {msg}";

/// All targets. Other events scroll by above them.
pub struct View {
    bars: MultiProgress,
    /// Targets by name. The bars are in the order of the configuration.
    targets: HashMap<String, Target>,
    /// Width of the longest name.
    width: usize,
}

struct Target {
    bar: ProgressBar,
    /// The job that the bar shows.
    job: Option<JobStatus>,
}

impl View {
    pub fn new(status: Status) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let names = status.targets.iter().map(|target| text::clean(&target.name).chars().count());
        let width = names.max().unwrap_or(0);
        let mut view = Self { bars, targets: HashMap::new(), width };
        if status.paused {
            view.print("paused");
        }
        for target in status.targets {
            let name = target.name.clone();
            let rest = at_rest(&target);
            let shown = view.target(&name);
            shown.rest(&rest);
            if let Some(job) = target.job {
                let (phase, progress) = (job.phase.clone(), job.progress);
                shown.job = Some(job);
                if let Some(progress) = progress {
                    shown.work(phase.as_deref(), &progress);
                }
            }
        }
        view
    }

    pub fn show(&mut self, line: &EventLine) {
        match &line.event {
            Event::Progress { job, target, phase, progress } => {
                let target = self.target(target);
                if target.job.as_ref().is_some_and(|shown| shown.id != *job) {
                    target.job = None;
                }
                target.work(phase.as_deref(), progress);
                return;
            }
            Event::JobStarted { job } => {
                let target = self.target(&job.target);
                target.rest(&format!("{}: started", text::job_name(job)));
                target.job = Some(job.clone());
            }
            Event::JobEnded { job, outcome, .. } => {
                let target = self.target(&job.target);
                target.job = None;
                target.rest(&after(job, *outcome));
            }
            _ => {}
        }
        if let Some(line) = text::event_line(line) {
            self.print(&line);
        }
    }

    /// Prints a line above the bars.
    fn print(&self, line: &str) {
        // Ignored: if the terminal is gone, a signal ends the process.
        let _ = self.bars.println(line);
    }

    /// Returns a target. A target of a newer configuration than the status is added at the end.
    fn target(&mut self, name: &str) -> &mut Target {
        let (bars, width) = (&self.bars, self.width);
        self.targets.entry(name.to_owned()).or_insert_with(|| {
            let bar = bars.add(ProgressBar::new(100));
            bar.set_prefix(format!("{:width$}", text::clean(name)));
            Target { bar, job: None }
        })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.bars.clear();
    }
}

impl Target {
    fn rest(&self, words: &str) {
        self.style(RESTING);
        self.bar.set_message(words.to_owned());
        self.bar.tick();
    }

    fn work(&self, phase: Option<&str>, progress: &JobProgress) {
        self.style(WORKING);
        let job = self.job.as_ref().map(|job| format!("{}: ", text::job_name(job)));
        let phase = phase.map(|phase| format!("{}  ", text::clean(phase)));
        let (job, phase) = (job.unwrap_or_default(), phase.unwrap_or_default());
        self.bar.set_message(format!("{job}{phase}{}", text::progress(progress).trim_start()));
        self.bar.set_position(text::percent(progress).unwrap_or(0));
    }

    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
    }
}

fn at_rest(target: &TargetStatus) -> String {
    let detail = target.detail.as_deref().map(|detail| format!(": {}", text::clean(detail)));
    let detail = detail.unwrap_or_default();
    match (target.state, target.results.first()) {
        (TargetState::Idle, None) => "no result yet".to_owned(),
        (TargetState::Idle, Some(ResultStatus { slot, base_slot, finished_unix_ms, .. })) => {
            format!("{}, {}", text::slot(*slot, *base_slot), text::ago(*finished_unix_ms))
        }
        (TargetState::Working, _) => "working".to_owned(),
        (TargetState::Waiting, _) => format!("waiting{detail}"),
        (TargetState::Failing, _) => format!("failing{detail}"),
    }
}

fn after(job: &JobStatus, outcome: Outcome) -> String {
    let name = text::job_name(job);
    match outcome {
        Outcome::Done => format!("{} is ready", text::slot(job.slot, job.base_slot)),
        _ if job.state == JobState::Retrying => format!("{name}: retrying"),
        outcome => format!("{name}: {}", text::outcome(outcome)),
    }
}
