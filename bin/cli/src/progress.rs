//! Progress of long operations: one line on a terminal, a new line every 10 seconds in a log.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget};
use unsnap_pass::Progress;

use crate::{
    printer::{Printer, ProgressStyle, log_line},
    progress_line::{Rate, line},
};

/// Interval between redraws on a terminal.
const REDRAW: Duration = Duration::from_millis(100);

/// Interval between lines in a log.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Interval at which a log takes samples, from which the rate is computed.
const SAMPLE: Duration = Duration::from_millis(500);

/// Shows a run's progress until it is dropped.
pub struct Display {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The line on a terminal.
    bar: Option<ProgressBar>,
}

impl Display {
    /// Starts showing the progress of unpacking, unless the printer hides it.
    pub fn start(printer: &Printer, progress: Progress) -> Option<Self> {
        Self::start_doing("unpacking", printer, progress)
    }

    /// Starts showing the progress of another operation on an archive. `doing` names the operation,
    /// such as "listing".
    pub fn start_doing(doing: &'static str, printer: &Printer, progress: Progress) -> Option<Self> {
        let style = printer.progress()?;
        let bar = (style == ProgressStyle::Line).then(bar);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, drawn) = (Arc::clone(&stop), bar.clone());
        let thread = thread::Builder::new()
            .name("unsnap-progress".to_owned())
            .spawn(move || match drawn {
                Some(bar) => draw(doing, &progress, &bar, &stopped),
                None => log(doing, &progress, &stopped),
            })
            .ok();
        Some(Self { stop, thread, bar })
    }

    /// Returns a stream for data that is written to `out` while progress is shown. If both are on a
    /// terminal, the line is cleared for each write.
    pub fn beside<W: Write>(display: Option<&Self>, out: W) -> Beside<W> {
        let bar = display.and_then(|display| display.bar.clone());
        Beside { bar: bar.filter(|_| io::stdout().is_terminal()), out }
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

/// A stream for data while progress is shown. The caller should buffer it: each write redraws the
/// line.
pub struct Beside<W> {
    bar: Option<ProgressBar>,
    out: W,
}

impl<W: Write> Write for Beside<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.bar {
            // Flushed, so that the line does not appear in the middle of the data.
            Some(bar) => bar.suspend(|| {
                self.out.write(bytes).and_then(|count| self.out.flush().map(|()| count))
            }),
            None => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = indicatif::ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

fn draw(doing: &str, progress: &Progress, bar: &ProgressBar, stop: &AtomicBool) {
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
        thread::park_timeout(SAMPLE);
    }
}
