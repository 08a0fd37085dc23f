//! The last words of a process that is ended while its threads may be stuck.

use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longest wait for a reader of standard error that does not read, before the process ends. A guess:
/// no user notices it.
const READER_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Writes lines to standard error before the process ends, whatever its other threads do. Takes no
/// lock, since a thread that writes to a stuck terminal holds it. Errors are ignored.
pub fn last_words(text: &str) {
    let stderr = io::stderr();
    // A line of progress may be there, or the terminal's ^C.
    let text = if stderr.is_terminal() { format!("\n{text}") } else { text.to_owned() };
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    if poll(&mut ready, Some(&READER_WAIT)).is_ok_and(|ready| ready > 0) {
        let _ = rustix::io::write(stderr.as_fd(), text.as_bytes());
    }
}
