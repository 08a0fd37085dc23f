//! `StreamReader`: reads pipes and other streams without random access, such as standard input.

use std::{
    mem::replace,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SendError, sync_channel},
    },
    thread,
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

/// Most spans that are read before they are asked for. The pool bounds their bytes; this bounds
/// their number. A guess.
const SPANS_AHEAD: usize = 64;

/// Reads a pipe, a socket or a terminal to its end, on a thread of its own, so that the writer need
/// not wait for the decoder.
///
/// Closing the pool ends all waiting, so that a silent writer cannot delay a cancellation. A reader
/// that is dropped leaves its thread, which ends within a tenth of a second, or when the pool is
/// closed.
pub struct StreamReader {
    state: State,
    waited: Duration,
}

enum State {
    /// Nothing has been asked for.
    New(Stream),
    /// Another thread reads.
    Ahead { spans: Receiver<Read>, _guard: Guard },
    /// This thread reads, since no other could be started.
    Here(Stream),
    /// The end was reached.
    Ended,
    /// Reading has failed.
    Failed,
}

/// Result of a read: a span, or the end.
type Read = Result<Option<Span>, SourceError>;

/// The stream, and where its bytes go.
struct Stream {
    file: OwnedFd,
    name: PathBuf,
    pool: Pool,
    chunk_bytes: usize,
    /// Bytes read earlier by [`read_head`], returned first.
    head: Vec<u8>,
    offset: u64,
    ended: bool,
    /// The reader was dropped.
    dropped: Arc<AtomicBool>,
}

impl StreamReader {
    /// Creates a reader. `name` stands for the stream in error messages.
    pub fn new(file: OwnedFd, name: impl Into<PathBuf>, pool: Pool) -> Self {
        let stream = Stream {
            file,
            name: name.into(),
            // Spans have the same size as those of files.
            chunk_bytes: default_chunk_bytes(pool.bytes()),
            pool,
            head: Vec::new(),
            offset: 0,
            ended: false,
            dropped: Arc::default(),
        };
        Self { state: State::New(stream), waited: Duration::ZERO }
    }

    /// Puts bytes read by [`read_head`] back in front of the stream.
    #[must_use]
    pub fn with_head(mut self, head: Vec<u8>) -> Self {
        if let State::New(stream) = &mut self.state {
            stream.head = head;
        }
        self
    }
}

impl Source for StreamReader {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        let started = Instant::now();
        self.state = match replace(&mut self.state, State::Failed) {
            State::New(stream) => stream.begin(),
            begun => begun,
        };
        let read = match &mut self.state {
            // A thread that ended without the end of the stream was cancelled.
            State::Ahead { spans, .. } => spans.recv().unwrap_or(Err(SourceError::Cancelled)),
            State::Here(stream) => stream.next(),
            State::Ended => Ok(None),
            State::New(_) | State::Failed => Err(SourceError::Cancelled),
        };
        match read {
            Ok(Some(_)) => {}
            Ok(None) => self.state = State::Ended,
            Err(_) => self.state = State::Failed,
        }
        self.waited += started.elapsed();
        read
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn waited(&self) -> Duration {
        self.waited
    }

    fn traits(&self) -> SourceTraits {
        SourceTraits::default()
    }
}

/// Tells the thread when the reader is dropped.
struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Stream {
    /// Begins to read, on another thread if one can be started.
    fn begin(self) -> State {
        let dropped = Arc::clone(&self.dropped);
        let (give, spans) = sync_channel(SPANS_AHEAD);
        // The stream follows when the thread has started, so that it is not lost with it.
        let (hand_over, taken) = sync_channel::<Self>(1);
        let work = move || {
            let Ok(mut stream) = taken.recv() else { return };
            loop {
                let read = stream.next();
                let goes_on = matches!(read, Ok(Some(_)));
                if give.send(read).is_err() || !goes_on {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("unsnap-pipe".to_owned()).spawn(work);
        if thread.is_err() {
            return State::Here(self);
        }
        match hand_over.send(self) {
            Ok(()) => State::Ahead { spans, _guard: Guard(dropped) },
            Err(SendError(stream)) => State::Here(stream),
        }
    }

    /// Reads the next span.
    fn next(&mut self) -> Read {
        if self.ended {
            return Ok(None);
        }
        let (mut block, _) =
            self.pool.allocate(self.chunk_bytes).map_err(|_| SourceError::Cancelled)?;
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
        if filled == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        self.offset += filled as u64;
        Ok(Some(Span { offset, bytes: block.freeze().slice(..filled) }))
    }

    /// Waits until there are bytes to read or the stream has ended.
    fn wait_readable(&self) -> Result<(), SourceError> {
        loop {
            match readable(&self.file) {
                _ if self.pool.is_closed() || self.dropped.load(Ordering::Acquire) => {
                    return Err(SourceError::Cancelled);
                }
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
