//! `StreamReader`: reads pipes and other streams without random access, such as standard input.

use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use unsnap_arena::Pool;

use crate::{Source, SourceError, SourceTraits, Span, reader::default_chunk_bytes};

/// Interval at which the reader of a silent stream checks for cancellation.
const CANCEL_CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Reads a pipe, a socket or a terminal to its end.
///
/// Closing the pool ends a wait for bytes, so that a silent writer cannot delay a cancellation.
pub struct StreamReader {
    file: OwnedFd,
    name: PathBuf,
    pool: Pool,
    chunk_bytes: usize,
    /// Bytes read earlier by [`read_head`], returned first.
    head: Vec<u8>,
    offset: u64,
    ended: bool,
    waited: Duration,
    waited_for_memory: Duration,
}

impl StreamReader {
    /// Creates a reader. `name` stands for the stream in error messages.
    pub fn new(file: OwnedFd, name: impl Into<PathBuf>, pool: Pool) -> Self {
        // Spans have the same size as those of files.
        let chunk_bytes = default_chunk_bytes(pool.bytes());
        let name = name.into();
        Self {
            file,
            name,
            pool,
            chunk_bytes,
            head: Vec::new(),
            offset: 0,
            ended: false,
            waited: Duration::ZERO,
            waited_for_memory: Duration::ZERO,
        }
    }

    /// Puts bytes read by [`read_head`] back in front of the stream.
    #[must_use]
    pub fn with_head(mut self, head: Vec<u8>) -> Self {
        self.head = head;
        self
    }

    /// Waits until there are bytes to read or the stream has ended.
    fn wait_readable(&self) -> Result<(), SourceError> {
        loop {
            match readable(&self.file) {
                _ if self.pool.is_closed() => return Err(SourceError::Cancelled),
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(errno) => return Err(self.error(errno)),
            }
        }
    }

    fn error(&self, errno: Errno) -> SourceError {
        SourceError::Read { path: self.name.clone(), offset: self.offset, errno }
    }
}

impl Source for StreamReader {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        if self.ended {
            return Ok(None);
        }
        let (mut block, waited) =
            self.pool.allocate(self.chunk_bytes).map_err(|_| SourceError::Cancelled)?;
        self.waited_for_memory += waited;
        let started = Instant::now();
        let mut filled = self.head.len().min(self.chunk_bytes);
        block[..filled].copy_from_slice(&self.head[..filled]);
        self.head.drain(..filled);
        while filled < self.chunk_bytes {
            self.wait_readable()?;
            match rustix::io::read(&self.file, &mut block[filled..self.chunk_bytes]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => filled += count,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(self.error(errno)),
            }
        }
        self.waited += started.elapsed();
        if filled == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        self.offset += filled as u64;
        Ok(Some(Span { offset, bytes: block.freeze().slice(..filled) }))
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn waited(&self) -> Duration {
        self.waited
    }

    fn waited_for_memory(&self) -> Duration {
        self.waited_for_memory
    }

    fn traits(&self) -> SourceTraits {
        SourceTraits::default()
    }
}

/// Reads the first `count` bytes of a stream, fewer if it ends earlier, before there is a pool for
/// the rest. Fails with [`SourceError::Cancelled`] when `cancelled` returns true.
pub fn read_head(
    file: &OwnedFd,
    name: impl Into<PathBuf>,
    count: usize,
    cancelled: impl Fn() -> bool,
) -> Result<Vec<u8>, SourceError> {
    let name = name.into();
    let mut head = vec![0; count];
    let mut filled = 0;
    while filled < count {
        let read = match readable(file) {
            _ if cancelled() => return Err(SourceError::Cancelled),
            Ok(false) => continue,
            Ok(true) => rustix::io::read(file, &mut head[filled..]),
            Err(errno) => Err(errno),
        };
        match read {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => {
                return Err(SourceError::Read { path: name, offset: filled as u64, errno });
            }
        }
    }
    head.truncate(filled);
    Ok(head)
}

/// Waits up to 100 ms for bytes or the end of the stream. Returns whether there are any.
fn readable(file: &OwnedFd) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(file, PollFlags::IN)];
    match poll(&mut fds, Some(&CANCEL_CHECK)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
