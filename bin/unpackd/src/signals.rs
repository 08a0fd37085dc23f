//! SIGTERM and SIGINT end the service in good order, SIGHUP has it read its configuration again.

use std::{io, thread};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use unsnap_service::Handle;

/// From here on none of them ends the process.
pub fn catch() -> io::Result<Signals> {
    Signals::new([SIGHUP, SIGINT, SIGTERM])
}

/// Has a thread tell the supervisor, which sleeps unless a signal comes.
pub fn tell(mut signals: Signals, handle: Handle) -> io::Result<()> {
    let tell = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                handle.reload();
            } else {
                handle.stop();
            }
        }
    };
    thread::Builder::new().name("unpackd-signals".to_owned()).spawn(tell).map(drop)
}
