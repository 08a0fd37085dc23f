//! Bytes for a client that it has not read yet.

use std::{io, os::fd::AsFd};

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};

/// An emptied buffer larger than this is given back.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Bytes on their way to a client. Its bound is kept by those who fill it.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Sends what the socket takes. An error means that the client is gone.
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
            // Moved only when more has gone than is left, so each byte once at most on average.
            self.bytes.drain(..std::mem::take(&mut self.sent));
        }
        Ok(())
    }
}
