//! Signals: the first asks the run to stop, the second ends the process at once.

use std::{
    io,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    thread,
};

use anyhow::Context;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag, iterator,
    low_level::emulate_default_handler,
};
use unsnap_unpack::CancelToken;

/// The signal that stopped the run; 0 for none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// SIGINT, SIGTERM and SIGHUP, which no longer end the process.
pub struct Signals {
    caught: iterator::Signals,
}

impl Signals {
    /// From here on the first of them is kept for [`cancel`](Self::cancel). The second ends the
    /// process: somebody is impatient; what is staged stays behind, and the next run removes it.
    pub fn catch() -> anyhow::Result<Self> {
        let numbers = [SIGINT, SIGTERM, SIGHUP];
        let again = Arc::new(AtomicBool::new(false));
        let register = || {
            for number in numbers {
                // In this order: the first one is not yet the second.
                flag::register_conditional_default(number, Arc::clone(&again))?;
                flag::register(number, Arc::clone(&again))?;
            }
            iterator::Signals::new(numbers)
        };
        let caught = register().context("cannot watch for signals")?;
        Ok(Self { caught })
    }

    /// Has a thread cancel the run when one of them comes, or at once if one has come.
    pub fn cancel(mut self, token: CancelToken) -> io::Result<()> {
        let watch = move || {
            for signal in self.caught.forever() {
                let _ = RECEIVED.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
                token.cancel();
            }
        };
        thread::Builder::new().name("unsnap-signals".to_owned()).spawn(watch).map(drop)
    }
}

/// Ends the process by the signal it received, so that a shell sees 128 + its number.
pub fn die_of_received() -> ExitCode {
    let signal = match RECEIVED.load(Ordering::SeqCst) {
        0 => SIGINT,
        signal => signal,
    };
    let _ = emulate_default_handler(signal);
    // Only if the signal is blocked or the process is a container's first.
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(130))
}
