//! Progress of a run, for people: one line on a terminal, a line now and then in a log.

use std::{
    collections::VecDeque,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use indicatif::{BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget};
use unsnap_unpack::{Phase, Progress, Snapshot};

use crate::printer::{Printer, ProgressStyle, log_line};

/// How often the terminal's line is redrawn.
const REDRAW: Duration = Duration::from_millis(100);

/// How often a log gets a line.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Rates are of the last seconds, so that they follow what happens.
const RATE_OVER: Duration = Duration::from_secs(5);

/// Shows a run's progress until it is dropped.
pub struct Display {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Display {
    /// Starts showing `progress`, if the printer wants it shown.
    pub fn start(printer: &Printer, progress: Progress) -> Option<Self> {
        Self::start_doing("unpacking", printer, progress)
    }

    /// The same for what is not unpacking, but goes through an archive like it: `doing` is what.
    pub fn start_doing(doing: &'static str, printer: &Printer, progress: Progress) -> Option<Self> {
        let style = printer.progress()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("unsnap-progress".to_owned())
            .spawn(move || match style {
                ProgressStyle::Line => draw(doing, &progress, &stopped),
                ProgressStyle::Log => log(doing, &progress, &stopped),
            })
            .ok();
        Some(Self { stop, thread })
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn draw(doing: &str, progress: &Progress, stop: &AtomicBool) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = indicatif::ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    let mut rate = Rate::new();
    while !stop.load(Ordering::Relaxed) {
        let now = progress.snapshot();
        rate.add(now);
        bar.set_message(line(doing, &now, &rate));
        thread::park_timeout(REDRAW);
    }
    bar.finish_and_clear();
}

fn log(doing: &str, progress: &Progress, stop: &AtomicBool) {
    let mut rate = Rate::new();
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let now = progress.snapshot();
        rate.add(now);
        if last.elapsed() >= LOG_EVERY {
            last = Instant::now();
            log_line(&line(doing, &now, &rate));
        }
        thread::park_timeout(Duration::from_millis(500));
    }
}

/// Bytes read over the last seconds.
struct Rate {
    started: Instant,
    samples: VecDeque<(Duration, Snapshot)>,
}

impl Rate {
    fn new() -> Self {
        Self { started: Instant::now(), samples: VecDeque::new() }
    }

    fn add(&mut self, snapshot: Snapshot) {
        // A clock that stands still in pauses.
        let now = self.started.elapsed().saturating_sub(Duration::from_millis(snapshot.paused_ms));
        self.samples.push_back((now, snapshot));
        while self.samples.len() > 2
            && self.samples.front().is_some_and(|(then, _)| now.saturating_sub(*then) > RATE_OVER)
        {
            self.samples.pop_front();
        }
    }

    /// Per second: compressed bytes read, and decoded bytes.
    fn per_second(&self) -> Option<(f64, f64)> {
        let ((then, old), (now, new)) = (self.samples.front()?, self.samples.back()?);
        let seconds = now.saturating_sub(*then).as_secs_f64();
        if seconds < 0.05 {
            return None;
        }
        #[allow(clippy::cast_precision_loss)] // for people
        let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / seconds;
        Some((rate(old.bytes_read, new.bytes_read), rate(old.bytes_decoded, new.bytes_decoded)))
    }
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn line(doing: &str, now: &Snapshot, rate: &Rate) -> String {
    let doing = match now.phase {
        Phase::Preparing => {
            return match now.headers_percent {
                Some(percent) => format!("preparing  {percent:3}% of the headers"),
                None => "preparing".to_owned(),
            };
        }
        Phase::Unpacking if now.paused => "paused",
        Phase::Unpacking => doing,
        Phase::Verifying => "verifying accounts",
        Phase::Syncing => "syncing to disk",
        Phase::Publishing => "publishing",
        Phase::CleaningUp => "taking back what was written",
        Phase::Done => "done",
    };
    let read = match now.bytes_total {
        Some(total) => {
            let percent = now.bytes_read.saturating_mul(100) / total.max(1);
            format!("{percent:3}%  {} of {} read", BinaryBytes(now.bytes_read), BinaryBytes(total))
        }
        None => format!("{} read", BinaryBytes(now.bytes_read)),
    };
    let mut line = format!("{doing}  {read}");
    if now.bytes_written > 0 {
        let _ = write!(line, "  {} written", BinaryBytes(now.bytes_written));
    }
    if now.files > 0 {
        let _ = write!(line, "  {} files", HumanCount(now.files));
    }
    if let (Phase::Unpacking, Some((reading, decoding))) = (now.phase, rate.per_second()) {
        let _ = write!(line, "  {}/s", BinaryBytes(decoding as u64));
        if let (Some(total), true) = (now.bytes_total, reading > 0.0) {
            let left = total.saturating_sub(now.bytes_read) as f64 / reading;
            let left = Duration::from_secs_f64(left.min(1e9));
            let _ = write!(line, "  ETA {}", HumanDuration(left));
        }
    }
    line
}
