//! What unsnap is meant to reach, and whether it does.

use crate::results::Measured;
use crate::scenarios::{Place, Scenario};
use crate::statistics::{ByRound, Spread, combine, ratios};
use std::fmt;

/// The tool whose goals these are.
const SUBJECT: &str = "unsnap";

/// Greatest CPU time on any archive, as a share of that of agave.
const CPU_SHARE: f64 = 0.38;

/// Greatest peak of resident memory on any archive.
const PEAK_MIB: f64 = 512.0;

/// How much slower than the faster engine the slower may be.
const ENGINES_APART: f64 = 1.2;

/// A goal of one scenario.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// The durable time is at most this many times that of another.
    Time(f64, Against),
    /// The decoding rate is at least this many times that of another.
    Rate(f64, &'static str),
    /// The peak of resident memory is at most this many MiB.
    Peak(f64),
}

/// What a time is compared with.
#[derive(Clone, Copy, Debug)]
pub enum Against {
    /// One tool.
    Tool(&'static str),
    /// The slowest of these in each round; all of them must have run.
    Slowest(&'static [&'static str]),
    /// The fastest of those that ran, in each round.
    Fastest(&'static [&'static str]),
}

/// A goal and what was reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The goal in words.
    pub goal: String,
    /// What was reached, in words.
    pub reached: String,
    /// Whether that is enough; `None` if it could not be computed.
    pub met: Option<bool>,
}

/// All goals of a scenario, judged by what was measured.
pub fn judge(scenario: &Scenario, measured: &Measured) -> Vec<Verdict> {
    let mut verdicts: Vec<_> = scenario.goals.iter().map(|goal| goal.judge(measured)).collect();
    let cpu_of_agave = measured.cpu("agave");
    // In memory it is the kernel's copying that takes most of the time, for both alike.
    if scenario.place == Place::Disk && !cpu_of_agave.is_empty() {
        let figure = Spread::of(ratios(&measured.cpu(SUBJECT), &cpu_of_agave).into_values());
        verdicts.push(at_most(format!("CPU ≤ {CPU_SHARE:.2} × agave's"), CPU_SHARE, figure));
    }
    verdicts.push(Goal::Peak(PEAK_MIB).judge(measured));
    verdicts.extend(judge_engines(measured));
    for verdict in &mut verdicts {
        verdict.goal = format!("`{}`: {}", scenario.id, verdict.goal);
    }
    verdicts
}

impl Goal {
    fn judge(self, measured: &Measured) -> Verdict {
        match self {
            Self::Time(limit, against) => {
                let figure = against.times(measured).and_then(|times| {
                    Spread::of(ratios(&measured.time(SUBJECT), &times).into_values())
                });
                at_most(format!("time ≤ {limit:.2} × {against}"), limit, figure)
            }
            // The same bytes are decoded: the ratio of rates is the inverse ratio of times.
            Self::Rate(limit, other) => {
                let inverse = ratios(&measured.time(other), &measured.time(SUBJECT));
                let figure = Spread::of(inverse.into_values());
                let met = figure.map(|figure| figure.median >= limit);
                verdict(format!("rate ≥ {limit:.2} × that of {other}"), figure, met)
            }
            Self::Peak(limit) => {
                let peak = Spread::of(measured.peak_mib(SUBJECT).into_values());
                Verdict {
                    goal: format!("peak ≤ {limit:.0} MiB"),
                    reached: peak.map_or("–".into(), |peak| format!("{:.0} MiB", peak.max)),
                    met: peak.map(|peak| peak.max <= limit),
                }
            }
        }
    }
}

impl Against {
    fn times(self, measured: &Measured) -> Option<ByRound> {
        let all = |tools: &[&str]| -> Vec<ByRound> {
            tools.iter().map(|tool| measured.time(tool)).collect()
        };
        match self {
            Self::Tool(tool) => Some(measured.time(tool)),
            Self::Slowest(tools) => {
                let times = all(tools);
                Some(combine(&times.iter().collect::<Vec<_>>(), f64::max))
            }
            Self::Fastest(tools) => {
                let times = all(tools);
                let ran: Vec<_> = times.iter().filter(|times| !times.is_empty()).collect();
                (!ran.is_empty()).then(|| combine(&ran, f64::min))
            }
        }
    }
}

impl fmt::Display for Against {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Tool(tool) => formatter.write_str(tool),
            Self::Slowest(tools) => write!(formatter, "the slower of {}", tools.join(", ")),
            Self::Fastest(tools) => write!(formatter, "the fastest of {}", tools.join(", ")),
        }
    }
}

/// The engines are close to each other, and the default takes the faster one.
fn judge_engines(measured: &Measured) -> Vec<Verdict> {
    let (uring, threads) = (measured.time("unsnap-uring"), measured.time("unsnap-threads"));
    let spread = |times: &ByRound| Spread::of(times.values().copied());
    let (Some(uring_spread), Some(threads_spread)) = (spread(&uring), spread(&threads)) else {
        return Vec::new();
    };
    let uring_is_faster = uring_spread.median <= threads_spread.median;
    let (slower, faster, fastest, name) = if uring_is_faster {
        (&threads, &uring, uring_spread, "uring")
    } else {
        (&uring, &threads, threads_spread, "threads")
    };
    let apart = Spread::of(ratios(slower, faster).into_values());
    let default = spread(&measured.time(SUBJECT));
    vec![
        at_most(
            format!("the slower engine ≤ {ENGINES_APART:.2} × the faster"),
            ENGINES_APART,
            apart,
        ),
        Verdict {
            goal: "the default's spread reaches the faster engine's median".into(),
            reached: default.map_or("–".into(), |default| {
                format!("{default} s; {name} {:.2} s", fastest.median)
            }),
            met: default.map(|default| default.min <= fastest.median),
        },
    ]
}

fn at_most(goal: String, limit: f64, figure: Option<Spread>) -> Verdict {
    verdict(goal, figure, figure.map(|figure| figure.median <= limit))
}

fn verdict(goal: String, figure: Option<Spread>, met: Option<bool>) -> Verdict {
    // One more decimal than the limits have, so that a near miss is seen to be one.
    let reached = figure.map_or("–".into(), |figure| format!("{figure:.3}"));
    Verdict { goal, reached, met }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{measured, run};

    #[test]
    fn times_are_judged_by_the_median_of_pairs() {
        let runs = [
            run("unsnap", 0, 1.0),
            run("agave", 0, 2.0),
            run("unsnap", 1, 6.0),
            run("agave", 1, 10.0),
        ];
        let measured = measured(&runs);
        let verdict = Goal::Time(0.56, Against::Tool("agave")).judge(&measured);
        assert_eq!(verdict.goal, "time ≤ 0.56 × agave");
        assert_eq!(verdict.reached, "0.550 [0.500–0.600]");
        assert_eq!(verdict.met, Some(true));
        assert_eq!(Goal::Time(0.54, Against::Tool("agave")).judge(&measured).met, Some(false));
        assert_eq!(Goal::Rate(1.8, "agave").judge(&measured).met, Some(true));
        assert_eq!(Goal::Rate(1.9, "agave").judge(&measured).met, Some(false));
    }

    #[test]
    fn what_did_not_run_is_not_judged() {
        let runs = [run("unsnap", 0, 1.0), run("tar-rs", 0, 4.0)];
        let measured = measured(&runs);
        let met = |against| Goal::Time(0.5, against).judge(&measured).met;
        assert_eq!(met(Against::Tool("agave")), None);
        assert_eq!(met(Against::Slowest(&["agave", "tar-rs"])), None);
        assert_eq!(met(Against::Fastest(&["bsdtar", "tar-rs"])), Some(true));
        assert_eq!(met(Against::Fastest(&["bsdtar"])), None);
    }

    #[test]
    fn engines_are_compared_whichever_is_faster() {
        let runs =
            [run("unsnap", 0, 2.1), run("unsnap-uring", 0, 2.0), run("unsnap-threads", 0, 2.6)];
        let verdicts = judge_engines(&measured(&runs));
        assert_eq!(verdicts[0].met, Some(false));
        assert_eq!(verdicts[1].met, Some(false));
        assert_eq!(judge_engines(&measured(&runs[..2])), Vec::new());
    }
}
