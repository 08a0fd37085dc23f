//! Acceptor connections, with a pause when the process is out of descriptors or memory.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::{SocketFlags, accept_with},
};

/// Most connections accepted per iteration of the loop, so that open connections get their turn.
const ACCEPTED_MAX: usize = 64;

/// Pause before accepting again when the process is out of descriptors or the kernel out of memory.
/// Without it the loop would spin, since the connection stays in the backlog.
const PAUSE: Duration = Duration::from_secs(1);

/// A listening socket and its pause.
#[derive(Debug)]
pub struct Acceptor<L> {
    pub listener: L,
    /// End of the pause, if accepting is paused.
    pub paused_until: Option<Instant>,
}

impl<L> Acceptor<L> {
    pub fn new(listener: L) -> Self {
        Self { listener, paused_until: None }
    }
}

impl<L: AsFd> Acceptor<L> {
    /// Accepts waiting connections, at most [`ACCEPTED_MAX`] of them.
    pub fn accept(&mut self, now: Instant, mut take: impl FnMut(OwnedFd)) {
        for _ in 0..ACCEPTED_MAX {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => take(socket),
                Err(Errno::AGAIN) => return,
                // The client is gone already, or its network is unreachable.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections; retrying in a second");
                    self.paused_until = Some(now + PAUSE);
                    return;
                }
            }
        }
    }
}
