//! Signals: the first stops the run, the second ends the process at once.

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

/// Number of the signal that stopped the run; 0 for none.
static RECEIVED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// SIGINT, SIGTERM and SIGHUP, caught.
pub struct Signals {
    caught: iterator::Signals,
    again: Arc<AtomicBool>,
}

impl Signals {
    /// Catches these signals. The first one is kept for [`cancel`](Self::cancel). The second one
    /// ends the process at once, because the user is impatient: staged files stay behind, and the
    /// next run removes them. A signal that was ignored when the process started (`nohup`) stays
    /// ignored.
    pub fn catch() -> anyhow::Result<Self> {
        let ignored = ignored();
        let numbers = [SIGINT, SIGTERM, SIGHUP];
        let numbers = numbers.into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
        let again = Arc::new(AtomicBool::new(false));
        let register = || {
            for number in numbers.clone() {
                let value = usize::try_from(number).unwrap_or(0);
                // The order matters: the first signal must not count as the second.
                flag::register_conditional_default(number, Arc::clone(&again))?;
                flag::register_usize(number, Arc::clone(&RECEIVED), value)?;
                flag::register(number, Arc::clone(&again))?;
            }
            // A write beyond the limit of file sizes then fails, instead of ending the process.
            flag::register(SIGXFSZ, Arc::default())?;
            iterator::Signals::new(numbers)
        };
        let caught = register().context("cannot watch for signals")?;
        Ok(Self { caught, again })
    }

    /// Starts a thread that cancels the run at the first signal, or at once if one has arrived.
    pub fn cancel(self, token: CancelToken) -> io::Result<Watch> {
        self.each(move || token.cancel())
    }

    /// Starts a thread that calls `act` at each signal, or at once if one has arrived.
    pub fn each(mut self, mut act: impl FnMut() + Send + 'static) -> io::Result<Watch> {
        let (handle, again) = (self.caught.handle(), self.again);
        let watch = move || self.caught.forever().for_each(|_| act());
        let thread = thread::Builder::new().name("unsnap-signals".to_owned()).spawn(watch)?;
        Ok(Watch { handle, again, thread })
    }
}

/// The thread that waits for signals. It keeps running when this is dropped.
pub struct Watch {
    handle: Handle,
    again: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Restores the signals: from now on each ends the process at once, as before
    /// [`Signals::catch`]. Returns whether one has arrived; the caller then calls
    /// [`die_of_received`].
    pub fn end(self) -> bool {
        let received = self.again.swap(true, Ordering::SeqCst);
        self.handle.close();
        // If a signal was pending, the thread has handled it by now.
        let _ = self.thread.join();
        received || RECEIVED.load(Ordering::SeqCst) != 0
    }
}

/// Returns whether a signal has arrived.
pub fn received() -> bool {
    RECEIVED.load(Ordering::SeqCst) != 0
}

/// Returns the signals that this process ignores, as a set of bits; bit 0 is signal 1.
fn ignored() -> u64 {
    fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok())
        .unwrap_or(0)
}

/// Ends the process by the signal that it received, so that a shell sees 128 plus its number.
pub fn die_of_received() -> ExitCode {
    let signal = match i32::try_from(RECEIVED.load(Ordering::SeqCst)) {
        Err(_) | Ok(0) => SIGINT,
        Ok(signal) => signal,
    };
    let _ = emulate_default_handler(signal);
    // Reached only if the signal is blocked, or the process is the first of a container.
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(130))
}
