//! Signals: the first asks the run to stop, the second ends the process at once.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicI32, Ordering},
    thread,
};

use anyhow::Context;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};
use unsnap_unpack::CancelToken;

/// The signal that stopped the run; 0 for none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// From here on SIGINT, SIGTERM and SIGHUP cancel the run.
pub fn cancel_on_signals(token: CancelToken) -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for signals")?;
    thread::Builder::new()
        .name("unsnap-signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                let first =
                    RECEIVED.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
                if first.is_err() {
                    // Impatient: what is staged stays behind, and the next run removes it.
                    let _ = emulate_default_handler(signal);
                }
                token.cancel();
            }
        })
        .context("cannot watch for signals")?;
    Ok(())
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
