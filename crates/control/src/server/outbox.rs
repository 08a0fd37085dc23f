//! The send queue of a connection.

use std::{io, os::fd::AsFd};

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};

/// Capacity in bytes that an emptied buffer keeps; the rest is freed.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Bytes queued for a client. The callers that fill it enforce its bound.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Returns the number of queued bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Sends as many bytes as the socket takes. An error means that the client is gone.
    pub fn flush(&mut self, socket: impl AsFd) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            match send(&socket, &self.bytes[self.sent..], SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.is_empty() {
            self.sent = 0;
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES_MAX);
        } else if self.sent > self.bytes.len() / 2 {
            // Moved only when more was sent than is left: each byte moves at most once on average.
            self.bytes.drain(..std::mem::take(&mut self.sent));
        }
        Ok(())
    }
}
