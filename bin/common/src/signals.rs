//! Signals: the first asks the run to stop, the second ends the process at once.

use std::{
    fs, io,
    process::ExitCode,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::Context;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ},
    flag,
    iterator::{self, Handle},
    low_level::emulate_default_handler,
};
use unsnap_pass::CancelToken;

/// The signal that stopped the run; 0 for none.
static RECEIVED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// SIGINT, SIGTERM and SIGHUP, which no longer end the process.
pub struct Signals {
    caught: iterator::Signals,
    again: Arc<AtomicBool>,
}

impl Signals {
    /// From here on the first of them is kept for [`cancel`](Self::cancel). The second ends the
    /// process: somebody is impatient; what is staged stays behind, and the next run removes it.
    /// Whoever started the process with one of them ignored (`nohup`) wants it ignored.
    pub fn catch() -> anyhow::Result<Self> {
        let ignored = ignored();
        let numbers = [SIGINT, SIGTERM, SIGHUP];
        let numbers = numbers.into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
        let again = Arc::new(AtomicBool::new(false));
        let register = || {
            for number in numbers.clone() {
                let value = usize::try_from(number).unwrap_or(0);
                // In this order: the first one is not yet the second.
                flag::register_conditional_default(number, Arc::clone(&again))?;
                flag::register_usize(number, Arc::clone(&RECEIVED), value)?;
                flag::register(number, Arc::clone(&again))?;
            }
            // A limit of file sizes is an error of the write that meets it, and not the end.
            flag::register(SIGXFSZ, Arc::default())?;
            iterator::Signals::new(numbers)
        };
        let caught = register().context("cannot watch for signals")?;
        Ok(Self { caught, again })
    }

    /// Has a thread cancel the run when one of them comes, or at once if one has come.
    pub fn cancel(self, token: CancelToken) -> io::Result<Watch> {
        self.each(move || token.cancel())
    }

    /// Has a thread do this when one of them comes, or at once if one has come.
    pub fn each(mut self, mut act: impl FnMut() + Send + 'static) -> io::Result<Watch> {
        let (handle, again) = (self.caught.handle(), self.again);
        let watch = move || self.caught.forever().for_each(|_| act());
        let thread = thread::Builder::new().name("unsnap-signals".to_owned()).spawn(watch)?;
        Ok(Watch { handle, again, thread })
    }
}

/// What cancels the run when a signal comes. Goes on when it is dropped.
pub struct Watch {
    handle: Handle,
    again: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Gives the signals back: each that comes from here on ends the process at once, as it would
    /// have before. Says whether one came until now; then [`die_of_received`] is what is left to do.
    pub fn end(self) -> bool {
        let received = self.again.swap(true, Ordering::SeqCst);
        self.handle.close();
        // Where the other thread was to take one, it has by then.
        let _ = self.thread.join();
        received || RECEIVED.load(Ordering::SeqCst) != 0
    }
}

/// Whether one has come.
pub fn received() -> bool {
    RECEIVED.load(Ordering::SeqCst) != 0
}

/// Signals that this process ignores, as a set of bits, the first for the signal 1.
fn ignored() -> u64 {
    fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok())
        .unwrap_or(0)
}

/// Ends the process by the signal it received, so that a shell sees 128 + its number.
pub fn die_of_received() -> ExitCode {
    let signal = match i32::try_from(RECEIVED.load(Ordering::SeqCst)) {
        Err(_) | Ok(0) => SIGINT,
        Ok(signal) => signal,
    };
    let _ = emulate_default_handler(signal);
    // Only if the signal is blocked or the process is a container's first.
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(130))
}
