//! Taking connections from a listening socket, and what to do when the machine has none to give.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::{SocketFlags, accept_with},
};

/// Connections taken in a turn of the loop, so that those that are there have their turn.
const ACCEPTED_MAX: usize = 64;

/// How long to leave a listener alone when the process is out of descriptors, or the kernel out of
/// memory: without a pause the loop would spin, since the connection stays in the queue.
const PAUSE: Duration = Duration::from_secs(1);

/// A listening socket.
#[derive(Debug)]
pub struct Accepting<L> {
    pub listener: L,
    /// It is left alone until then.
    pub paused_until: Option<Instant>,
}

impl<L> Accepting<L> {
    pub fn new(listener: L) -> Self {
        Self { listener, paused_until: None }
    }
}

impl<L: AsFd> Accepting<L> {
    /// Takes the connections that wait, not too many.
    pub fn accept(&mut self, now: Instant, mut take: impl FnMut(OwnedFd)) {
        for _ in 0..ACCEPTED_MAX {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => take(socket),
                Err(Errno::AGAIN) => return,
                // The client is gone already, or the network of that one is not there.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections; trying again in a second");
                    self.paused_until = Some(now + PAUSE);
                    return;
                }
            }
        }
    }
}
