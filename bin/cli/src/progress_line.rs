//! One line of progress: operation, percentage, amounts, rate and remaining time.

use std::{
    collections::VecDeque,
    fmt::Write,
    time::{Duration, Instant},
};

use unsnap_pass::{Phase, Snapshot};

use crate::units::{count, duration, number, size};

/// Period over which rates are computed, so that they follow changes.
const RATE_OVER: Duration = Duration::from_secs(5);

/// Shortest period, in seconds, over which a rate is meaningful.
const RATE_OVER_MIN: f64 = 0.05;

/// Samples of the last seconds.
pub struct Rate {
    started: Instant,
    samples: VecDeque<(Duration, Snapshot)>,
}

impl Rate {
    pub fn new() -> Self {
        Self { started: Instant::now(), samples: VecDeque::new() }
    }

    pub fn add(&mut self, snapshot: Snapshot) {
        // This clock stands still during pauses.
        let now = self.started.elapsed().saturating_sub(Duration::from_millis(snapshot.paused_ms));
        self.add_at(now, snapshot);
    }

    fn add_at(&mut self, now: Duration, snapshot: Snapshot) {
        // Phases count different things, or start counting again.
        if self.samples.back().is_some_and(|(_, last)| last.phase != snapshot.phase) {
            self.samples.clear();
        }
        self.samples.push_back((now, snapshot));
        while self.samples.len() > 2
            && self.samples.front().is_some_and(|(then, _)| now.saturating_sub(*then) > RATE_OVER)
        {
            self.samples.pop_front();
        }
    }

    /// Returns the increase of a counter per second; `None` if the period is too short.
    #[allow(clippy::cast_precision_loss)] // for people
    fn per_second(&self, of: impl Fn(&Snapshot) -> u64) -> Option<f64> {
        let ((then, old), (now, new)) = (self.samples.front()?, self.samples.back()?);
        let seconds = now.saturating_sub(*then).as_secs_f64();
        let more = of(new).saturating_sub(of(old)) as f64;
        (seconds >= RATE_OVER_MIN).then_some(more / seconds)
    }
}

/// Returns the line. `doing` names the operation on the archive.
pub fn line(doing: &str, now: &Snapshot, rate: &Rate) -> String {
    match now.phase {
        Phase::Preparing => match now.headers_percent {
            Some(percent) => format!("preparing  {percent:3}% of the headers"),
            None => "preparing".to_owned(),
        },
        Phase::CheckingIndex => moving("checking the index", "read", now, rate),
        Phase::Unpacking if now.paused => moving("paused", "read", now, rate),
        Phase::Unpacking => moving(doing, "read", now, rate),
        Phase::Writing => moving(doing, "written", now, rate),
        Phase::Verifying => moved("verifying accounts", "read", now),
        Phase::Syncing => moved("syncing", "read", now),
        Phase::Publishing => moved("publishing", "read", now),
        Phase::CleaningUp => moved("cleaning up", "read", now),
        Phase::LookingAtFiles => files("checking files", now, rate),
        Phase::Linking => files("linking files", now, rate),
        Phase::Removing => files("removing old files", now, rate),
        Phase::Done => moved("done", "read", now),
    }
}

/// Returns the amounts. `how` is "read" or "written", the counter that the percentage is based on.
fn moved(doing: &str, how: &str, now: &Snapshot) -> String {
    let mut line = match now.bytes_total {
        Some(total) => {
            let percent = percent(now.bytes_read, total);
            let (read, total) = (size(now.bytes_read), size(total));
            format!("{doing}  {percent:3}%  {read} of {total} {how}")
        }
        None => format!("{doing}  {} {how}", size(now.bytes_read)),
    };
    if now.bytes_written > 0 {
        let _ = write!(line, "  {} written", size(now.bytes_written));
    }
    if now.files > 0 {
        let _ = write!(line, "  {}", count(now.files, "file"));
    }
    line
}

/// Returns the amounts with rate and remaining time.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // for people
fn moving(doing: &str, how: &str, now: &Snapshot, rate: &Rate) -> String {
    let mut line = moved(doing, how, now);
    if let Some(decoding) = rate.per_second(|now| now.bytes_decoded) {
        let _ = write!(line, "  {}/s", size(decoding as u64));
        let speed = rate.per_second(|now| now.bytes_read);
        let left = now.bytes_total.map(|total| total.saturating_sub(now.bytes_read));
        line.push_str(&eta(left, speed));
    }
    line
}

/// Returns the number of handled files with rate and remaining time.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // for people
fn files(doing: &str, now: &Snapshot, rate: &Rate) -> String {
    let (done, total) = (now.files_handled, now.files_to_handle);
    let percent = percent(done, total);
    let mut line = format!("{doing}  {percent:3}%  {} of {}", number(done), count(total, "file"));
    if let Some(speed) = rate.per_second(|now| now.files_handled) {
        let _ = write!(line, "  {}/s", number(speed as u64));
        line.push_str(&eta(Some(total.saturating_sub(done)), Some(speed)));
    }
    line
}

fn percent(done: u64, total: u64) -> u64 {
    done.saturating_mul(100) / total.max(1)
}

/// Returns the remaining time; empty if the remaining amount or the rate is unknown.
#[allow(clippy::cast_precision_loss)] // for people
fn eta(left: Option<u64>, per_second: Option<f64>) -> String {
    match (left, per_second) {
        (Some(0), _) => "  ETA 0 seconds".to_owned(),
        (Some(left), Some(speed)) if speed > 0.0 => {
            let seconds = (left as f64 / speed).min(1e9);
            format!("  ETA {}", duration(Duration::from_secs_f64(seconds)))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use unsnap_pass::Progress;

    use super::*;

    fn shown(phase: Phase, change: impl Fn(&mut Snapshot, u64)) -> String {
        let mut rate = Rate::new();
        let mut now = Progress::default().snapshot();
        for second in 0..3 {
            now.phase = phase;
            change(&mut now, second);
            rate.add_at(Duration::from_secs(second), now);
        }
        line("repacking", &now, &rate)
    }

    #[test]
    fn rate_and_time_left_follow_the_counter_of_the_phase() {
        let read = |now: &mut Snapshot, second: u64| {
            now.bytes_total = Some(10 << 20);
            now.bytes_read = second << 20;
            now.bytes_decoded = second << 22;
        };
        let expected = "20%  2.00 MiB of 10.00 MiB read  4.00 MiB/s  ETA 8 seconds";
        assert_eq!(shown(Phase::Unpacking, read), format!("repacking   {expected}"));
        assert_eq!(shown(Phase::CheckingIndex, read), format!("checking the index   {expected}"));
        let written = "repacking   20%  2.00 MiB of 10.00 MiB written  4.00 MiB/s  ETA 8 seconds";
        assert_eq!(shown(Phase::Writing, read), written);
        let expected = "syncing   20%  2.00 MiB of 10.00 MiB read";
        assert_eq!(shown(Phase::Syncing, read), expected);

        let removed = |now: &mut Snapshot, second: u64| {
            now.files_handled = second * 1000;
            now.files_to_handle = 4000;
        };
        let expected = "removing old files   50%  2,000 of 4,000 files  1,000/s  ETA 2 seconds";
        assert_eq!(shown(Phase::Removing, removed), expected);
    }

    #[test]
    fn a_new_phase_starts_counting_again() {
        let mut rate = Rate::new();
        let mut now = Progress::default().snapshot();
        for (second, phase) in
            [(0, Phase::CheckingIndex), (1, Phase::CheckingIndex), (2, Phase::Unpacking)]
        {
            now.phase = phase;
            now.bytes_decoded = 1000 * (2 - second);
            rate.add_at(Duration::from_secs(second), now);
        }
        assert_eq!(rate.per_second(|now| now.bytes_decoded), None);
    }
}
