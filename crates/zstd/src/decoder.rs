//! The decoder of whole streams: all threads, one schedule.

use std::{
    io::{Read, Write},
    sync::PoisonError,
    thread::panicking,
};

use crate::{
    Error, Parser,
    input::{Chunk, Input},
    output::Output,
    schedule::{Schedule, Step},
    slot::{BlockDefect, Slot},
    sync::{Condvar, Mutex, MutexGuard, spawn_scoped, thread},
};

/// Most threads. More cannot be fed by the one that executes.
const THREADS_MAX: usize = 64;
/// Slots for each thread, so that all have something to do while one chunk takes long. As many as in
/// a prototype; fewer were not tried. A slot takes 0.5 to 0.7 MB for archives, and at most 5 MB.
const SLOTS_PER_THREAD: usize = 4;
/// Largest window by default, as in libzstd.
const WINDOW_BYTES_MAX: u64 = 128 << 20;

/// Decodes streams of zstd frames with several threads, also a single frame.
///
/// ```
/// use unsnap_zstd::Decoder;
///
/// // A frame with one raw block.
/// let frame = b"\x28\xb5\x2f\xfd\x20\x05\x29\x00\x00hello";
/// let mut decoded = Vec::new();
/// let summary = Decoder::new(2).decode(&frame[..], &mut decoded)?;
/// assert_eq!((decoded.as_slice(), summary.frames), (&b"hello"[..], 1));
/// # Ok::<_, unsnap_zstd::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    threads: usize,
    window_bytes_max: u64,
    chunk_blocks_max: usize,
}

/// What was decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Frames decoded.
    pub frames: u64,
    /// Frames skipped.
    pub skippable_frames: u64,
    /// Bytes read.
    pub compressed_bytes: u64,
    /// Bytes written.
    pub raw_bytes: u64,
}

impl Decoder {
    /// Creates a decoder with this number of threads. With one, it starts none.
    pub fn new(threads: usize) -> Self {
        Self {
            threads: threads.clamp(1, THREADS_MAX),
            window_bytes_max: WINDOW_BYTES_MAX,
            chunk_blocks_max: usize::MAX,
        }
    }

    /// Sets the largest window in bytes. Twice as much memory is used for the largest window that
    /// occurs. Default: 128 MiB. At most 2 GiB, which is `zstd --long=31`.
    #[must_use]
    pub fn window_bytes_max(mut self, bytes: u64) -> Self {
        self.window_bytes_max = bytes.min(1 << 31);
        self
    }

    /// Sets the most blocks that a thread decodes at a time. For tests: with few, tables and offsets
    /// are carried from chunk to chunk all the time.
    #[doc(hidden)]
    #[must_use]
    pub fn chunk_blocks_max(mut self, blocks: usize) -> Self {
        self.chunk_blocks_max = blocks;
        self
    }

    /// Decodes all frames of `reader` into `writer`. What is decoded in front of an error is
    /// written.
    pub fn decode<R, W>(&self, reader: R, writer: W) -> Result<Summary, Error>
    where
        R: Read + Send,
        W: Write + Send,
    {
        let slots = if self.threads == 1 { 1 } else { SLOTS_PER_THREAD * self.threads };
        let slots = (0..slots).map(|_| Slot::for_blocks(self.chunk_blocks_max)).collect();
        let input = Input::new(reader, self.window_bytes_max);
        let shared = Shared {
            state: Mutex::new(State {
                schedule: Schedule::new(input, Output::new(writer), slots),
                waiting: 0,
                failed: None,
            }),
            moved: Condvar::new(),
        };
        thread::scope(|scope| {
            for index in 1..self.threads {
                if !spawn_scoped(scope, format!("zstd-{index}"), || shared.work()) {
                    shared.fail(Error::Thread);
                    break;
                }
            }
            shared.work();
        });
        shared.finish()
    }
}

/// A chunk that was read.
struct Job {
    slot: Slot,
    /// What is in the slot, or why nothing is.
    chunk: Result<Chunk, Error>,
    parsed: Result<(), BlockDefect>,
}

type Steps<R, W> = Schedule<Input<R>, Output<W>, Slot, Job, Job>;

struct State<R, W> {
    schedule: Steps<R, W>,
    /// Threads that wait for a step.
    waiting: usize,
    failed: Option<Error>,
}

struct Shared<R, W> {
    state: Mutex<State<R, W>>,
    moved: Condvar,
}

impl<R: Read, W: Write> Shared<R, W> {
    /// Takes steps until none is left.
    fn work(&self) {
        let _alarm = Alarm(self);
        let mut parser = Parser::new();
        let mut state = self.lock();
        loop {
            match state.schedule.next() {
                Step::Wait => {
                    state.waiting += 1;
                    state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting -= 1;
                    continue;
                }
                Step::Stop => break,
                Step::Read(mut input, mut slot) => {
                    drop(state);
                    let next = input.next(&mut slot);
                    state = self.lock();
                    match next.transpose() {
                        Some(chunk) => {
                            state.schedule.was_read(input, Job { slot, chunk, parsed: Ok(()) });
                        }
                        None => state.schedule.ended(input),
                    }
                }
                Step::Parse(number, mut job) => {
                    drop(state);
                    if job.chunk.is_ok() {
                        job.parsed = parser.parse(&mut job.slot);
                    }
                    state = self.lock();
                    state.schedule.was_parsed(number, job);
                }
                Step::Execute(mut output, job) => {
                    drop(state);
                    let Job { slot, chunk, parsed } = job;
                    let executed = match chunk {
                        Ok(chunk) => output.execute(&chunk, &slot, parsed),
                        Err(error) => Err(error.at_raw_offset(output.raw_bytes)),
                    };
                    state = self.lock();
                    state.schedule.was_executed(output, slot);
                    if let Err(error) = executed {
                        state.failed.get_or_insert(error);
                        state.schedule.stop();
                    }
                }
            }
            if state.waiting > 0 {
                self.moved.notify_all();
            }
        }
        drop(state);
        self.moved.notify_all();
    }

    /// Returns the result, when no thread works any more.
    fn finish(self) -> Result<Summary, Error> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (Some(input), Some(mut output)) = state.schedule.take() else {
            return Err(Error::Thread);
        };
        let flushed = output.flush();
        if let Some(error) = state.failed {
            return Err(error);
        }
        flushed?;
        Ok(Summary {
            frames: input.passed.frames,
            skippable_frames: input.passed.skippable_frames,
            compressed_bytes: input.passed.bytes,
            raw_bytes: output.raw_bytes,
        })
    }
}

impl<R, W> Shared<R, W> {
    fn lock(&self) -> MutexGuard<'_, State<R, W>> {
        // No code panics while holding the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failed.get_or_insert(error);
        state.schedule.stop();
        drop(state);
        self.moved.notify_all();
    }
}

/// Stops all threads if one panics, which the scope then passes on.
struct Alarm<'a, R, W>(&'a Shared<R, W>);

impl<R, W> Drop for Alarm<'_, R, W> {
    fn drop(&mut self) {
        if panicking() {
            self.0.fail(Error::Thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::sync::try_orders;

    /// A frame of blocks of one byte each, as long as their number tells, and its content.
    fn frame(blocks: u8) -> (Vec<u8>, Vec<u8>) {
        // A window of 1 KiB and no declared size.
        let mut frame = b"\x28\xb5\x2f\xfd\x00\x00".to_vec();
        let mut raw = Vec::new();
        for number in 1..=blocks {
            let (last, kind) = (u32::from(number == blocks), 1);
            let header = last | kind << 1 | u32::from(number) << 3;
            frame.extend_from_slice(&header.to_le_bytes()[..3]);
            frame.push(number);
            raw.resize(raw.len() + usize::from(number), number);
        }
        (frame, raw)
    }

    fn decode(threads: usize, input: &[u8], output: impl Write + Send) -> Result<Summary, Error> {
        Decoder::new(threads).window_bytes_max(1 << 10).chunk_blocks_max(1).decode(input, output)
    }

    #[test]
    fn all_orders_of_threads_return_the_content() {
        for threads in [2, 3] {
            try_orders(move || {
                let (frame, raw) = frame(9);
                let mut decoded = Vec::new();
                decode(threads, &frame, &mut decoded).unwrap();
                assert_eq!(decoded, raw);
            });
        }
    }

    #[test]
    fn all_orders_of_threads_end_at_damage() {
        try_orders(|| {
            let (mut frame, raw) = frame(9);
            frame.truncate(frame.len() - 6);
            let mut decoded = Vec::new();
            let error = decode(3, &frame, &mut decoded).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. }), "{error}");
            assert_eq!(decoded, raw[..decoded.len()]);
        });
    }

    /// A writer that fails after some bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Some(room) = self.0.checked_sub(bytes.len()) else {
                return Err(io::ErrorKind::StorageFull.into());
            };
            self.0 = room;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_orders_of_threads_end_when_the_writer_fails() {
        try_orders(|| {
            let error = decode(3, &frame(9).0, Full(20)).unwrap_err();
            assert!(matches!(error, Error::Write(_)), "{error}");
        });
    }
}
