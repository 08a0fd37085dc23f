//! Signals: SIGTERM and SIGINT stop the service cleanly, SIGHUP reloads its configuration.

use std::{io, thread};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use unsnap_cli::signals::undisturbed;
use unsnap_service::Handle;

/// Catches the signals. From then on none of them kills the process.
pub fn catch() -> io::Result<Signals> {
    undisturbed(|| Signals::new([SIGHUP, SIGINT, SIGTERM]))
}

/// Starts a thread that forwards signals to the supervisor and sleeps in between.
pub fn forward(mut signals: Signals, handle: Handle) -> io::Result<()> {
    let forward = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                handle.reload();
            } else {
                handle.stop();
            }
        }
    };
    thread::Builder::new().name("unpackd-signals".to_owned()).spawn(forward).map(drop)
}
