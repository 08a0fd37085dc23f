//! `SequentialFileReader`: reads a file from front to back, several aligned reads ahead.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{fs::Advice, io::Errno};
use unsnap_arena::{ArenaRanges, Block, CARRY_BYTES_MAX, PAGE_BYTES, Pool, Slice};
use unsnap_ring::{
    Completion, DirectIo, DirectMode, Engine, EngineConfig, EngineKind, IoPriority, OpError,
    Operation, Outcome, ReadAt, Syscalls,
};

use crate::{ArchiveFile, Source, SourceError, SourceTraits, Span, file::refused};

/// Bytes of one read. Measured with a prototype (2 cores, virtual NVMe, November 2026): 1 MiB is as
/// fast as any larger size, 256 KiB is slower.
const CHUNK_BYTES: usize = 1 << 20;

/// Minimum number of chunks in the pool, unless the caller chooses the chunk size. While it waits
/// for more bytes, a decoder may hold half of the pool and, at both ends of that half, parts of two
/// more chunks.
const CHUNKS_MIN: usize = 8;

/// Number of workers. A read through the page cache occupies a worker while it copies or until the
/// disk has delivered.
const READ_WORKERS: usize = 4;

/// Builder for a [`SequentialFileReader`].
#[derive(Clone, Debug)]
pub struct ReaderBuilder {
    pool: Pool,
    engine: EngineKind,
    chunk_bytes: Option<usize>,
    depth: Option<usize>,
    start: u64,
    limit: u64,
    register: Option<ArenaRanges>,
    priority: Option<IoPriority>,
    headroom_bytes: usize,
}

impl ReaderBuilder {
    /// Sets the engine that executes the reads. Default: threads.
    #[must_use]
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = engine;
        self
    }

    /// Sets the size of one read in bytes, a multiple of 4096 and at most the size of the pool.
    /// Default: 1 MiB, or an eighth of the pool if that is less.
    #[must_use]
    pub fn chunk_bytes(mut self, chunk_bytes: usize) -> Self {
        self.chunk_bytes = Some(chunk_bytes);
        self
    }

    /// Sets the maximum number of reads in flight. Default: a depth that suits the device's queue.
    /// The size of the pool bounds it in any case.
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = Some(depth.max(1));
        self
    }

    /// Sets the offset at which reading begins. Default: 0.
    #[must_use]
    pub fn start(mut self, start: u64) -> Self {
        self.start = start;
        self
    }

    /// Sets the offset at which reading ends although the file continues. Default: no limit.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the memory to register with the ring.
    #[must_use]
    pub fn register(mut self, arena: ArenaRanges) -> Self {
        self.register = Some(arena);
        self
    }

    /// Sets the I/O priority of the reads. Default: the priority of the thread that reads.
    #[must_use]
    pub fn priority(mut self, priority: Option<IoPriority>) -> Self {
        self.priority = priority;
        self
    }

    /// Reserves the memory in front of every chunk, so that spans can be passed on as segments:
    /// [`Source::headroom`]. Default: no.
    #[must_use]
    pub fn headroom(mut self, headroom: bool) -> Self {
        self.headroom_bytes = if headroom { CARRY_BYTES_MAX } else { 0 };
        self
    }

    /// Creates the reader and its engine. It opens no files, and reads nothing before the first
    /// span is requested.
    pub fn build(self, mut file: ArchiveFile) -> Result<SequentialFileReader, SourceError> {
        let pool_bytes = self.pool.bytes();
        let chunk_bytes = self.chunk_bytes.unwrap_or_else(|| default_chunk_bytes(pool_bytes));
        let headroom_bytes = self.headroom_bytes;
        let fits = (PAGE_BYTES..=pool_bytes.saturating_sub(headroom_bytes)).contains(&chunk_bytes);
        if !fits || !chunk_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(SourceError::Alignment { chunk_bytes, pool_bytes });
        }
        let direct = usable_direct(&mut file, chunk_bytes)?;
        let ArchiveFile { calls, path, buffered, mode, fallback, size, depth, device, .. } = file;
        // Only advice. The kernel need not read ahead in a file that is read directly.
        let advice = if direct.is_some() { Advice::Random } else { Advice::Sequential };
        let _ = rustix::fs::fadvise(&buffered, 0, None, advice);
        let (file, direct, other) = match direct {
            Some((file, direct)) => {
                (file, Some(direct), (mode == DirectMode::Auto).then(|| Arc::new(buffered)))
            }
            None => (buffered, None, None),
        };
        let depth =
            self.depth.unwrap_or(depth).min(pool_bytes / (headroom_bytes + chunk_bytes)).max(1);
        let engine = EngineConfig {
            kind: self.engine,
            capacity: depth,
            workers: READ_WORKERS.min(depth),
            register: self.register,
            attach: None,
            priority: self.priority,
            device,
        };
        Ok(SequentialFileReader {
            calls,
            path,
            file: Arc::new(file),
            direct,
            cached: other.clone(),
            instead: other,
            cached_bytes: 0,
            fallbacks: fallback.into_iter().collect(),
            size,
            limit: self.limit,
            end: size.min(self.limit),
            base: self.start - self.start % PAGE_BYTES as u64,
            start: self.start,
            engine: engine.open()?,
            pool: self.pool,
            chunk_bytes,
            headroom_bytes,
            headroom: None,
            depth,
            submitted: self.start - self.start % PAGE_BYTES as u64,
            handed_out: self.start,
            window: VecDeque::with_capacity(depth),
            headrooms: VecDeque::with_capacity(depth),
            first_token: 0,
            done: Vec::with_capacity(depth),
            waited: Duration::ZERO,
            waited_for_memory: Duration::ZERO,
            current: None,
        })
    }
}

/// Reads a regular file from front to back, keeping several aligned reads in flight.
///
/// It returns exactly the bytes between the start and the size that the file had when it was
/// opened, or the limit if that is less, whatever the alignment of the end. A file that shrank or
/// grew meanwhile is an error. The reader also implements [`Read`] and [`BufRead`], to replace an
/// ordinary reader.
///
/// Only the thread that first asks for bytes may use it, since rings bind to a thread.
pub struct SequentialFileReader {
    calls: Syscalls,
    path: PathBuf,
    file: Arc<OwnedFd>,
    direct: Option<DirectIo>,
    /// The same file without direct I/O, for chunks in the page cache: a copy is faster than the
    /// disk and leaves the disk to others. `None` if not wanted or if the kernel does not report
    /// which chunks are cached.
    cached: Option<Arc<OwnedFd>>,
    /// The same file without direct I/O, for all reads once the file system has refused a direct
    /// one. `None` if direct I/O is required or not used.
    instead: Option<Arc<OwnedFd>>,
    cached_bytes: u64,
    fallbacks: Vec<String>,
    size: u64,
    limit: u64,
    end: u64,
    /// Aligned offset of the first chunk.
    base: u64,
    /// Offset of the first span, which lies within the first chunk.
    start: u64,
    engine: Box<dyn Engine>,
    pool: Pool,
    chunk_bytes: usize,
    headroom_bytes: usize,
    /// Headroom of the span returned last.
    headroom: Option<Block>,
    depth: usize,
    /// Offset up to which reads have been submitted.
    submitted: u64,
    /// Offset up to which bytes have been returned.
    handed_out: u64,
    /// Chunks submitted and not yet returned, in the order of the file.
    window: VecDeque<Chunk>,
    /// Their headrooms, `None` without any.
    headrooms: VecDeque<Option<Block>>,
    /// Token of the first chunk in the window. Tokens number chunks from 0.
    first_token: u64,
    done: Vec<Completion>,
    waited: Duration,
    waited_for_memory: Duration,
    /// Span being consumed through `Read` or `BufRead`.
    current: Option<Slice>,
}

/// State of a submitted chunk. A failure waits for its turn like bytes do, so that all bytes before
/// it are returned first; from then on it stays at the front of the window.
enum Chunk {
    /// In flight, directly or not.
    Awaited {
        direct: bool,
    },
    Read(Slice),
    /// The file ended after this many bytes of the chunk.
    Short(usize),
    Failed(Errno),
}

impl SequentialFileReader {
    /// Returns a builder for a reader whose buffers come from `pool`.
    pub fn builder(pool: Pool) -> ReaderBuilder {
        ReaderBuilder {
            pool,
            engine: EngineKind::Threads,
            chunk_bytes: None,
            depth: None,
            start: 0,
            limit: u64::MAX,
            register: None,
            priority: None,
            headroom_bytes: 0,
        }
    }

    /// Submits as many reads as depth and memory allow.
    fn read_ahead(&mut self) -> Result<(), SourceError> {
        let before = self.submitted;
        while self.window.len() < self.depth && self.submitted < self.end {
            let bytes = self.headroom_bytes + self.chunk_bytes;
            let mut block = match self.pool.try_allocate(bytes) {
                Some(block) => block,
                // The holders of the memory will return it. Without a read in flight nothing else
                // could wake this thread.
                None if self.window.is_empty() => {
                    let (block, waited) =
                        self.pool.allocate(bytes).map_err(|_| SourceError::Cancelled)?;
                    self.waited_for_memory += waited;
                    block
                }
                None => break,
            };
            let split = (self.headroom_bytes > 0).then(|| block.split_to(self.headroom_bytes));
            self.headrooms.push_back(split);
            let left = self.end - self.submitted;
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            let token = self.first_token + self.window.len() as u64;
            let (file, direct) = self.choose_file(wanted);
            let read = ReadAt::new(file, self.submitted, block, wanted, direct);
            self.engine.submit(token, Operation::Read(read));
            self.window.push_back(Chunk::Awaited { direct: direct.is_some() });
            self.submitted += wanted as u64;
        }
        if self.submitted > before {
            self.engine.poll(&mut self.done)?;
            self.take_completions();
        }
        Ok(())
    }

    /// Chooses the descriptor for the next `wanted` bytes: that for the page cache if all of them
    /// are cached.
    fn choose_file(&mut self, wanted: usize) -> (Arc<OwnedFd>, Option<DirectIo>) {
        if let Some(cached) = &self.cached {
            match self.calls.is_cached(cached, self.submitted, wanted as u64) {
                Some(true) => {
                    self.cached_bytes += wanted as u64;
                    return (Arc::clone(cached), None);
                }
                Some(false) => {}
                None => self.cached = None,
            }
        }
        (Arc::clone(&self.file), self.direct)
    }

    fn take_completions(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        for Completion { token, result } in done.drain(..) {
            let wanted = self.end - self.base - token * self.chunk_bytes as u64;
            let wanted = wanted.min(self.chunk_bytes as u64);
            if let Err(OpError { errno, .. }) = result
                && self.is_read_instead(token, wanted, errno)
            {
                continue;
            }
            let chunk = match result {
                Ok(Outcome::Read { filled, .. }) if (filled as u64) < wanted => {
                    Chunk::Short(filled)
                }
                Ok(Outcome::Read { block, filled }) => Chunk::Read(block.freeze().slice(..filled)),
                Ok(_) => Chunk::Failed(Errno::INVAL),
                Err(error) => Chunk::Failed(error.errno),
            };
            let place = token.checked_sub(self.first_token).and_then(|at| usize::try_from(at).ok());
            if let Some(place) = place.and_then(|place| self.window.get_mut(place)) {
                *place = chunk;
            }
        }
        self.done = done;
    }

    /// Reads a chunk again, through the page cache, if a direct read of it was refused. An alignment
    /// that the kernel reports, or that every file system is said to accept, may not be what the
    /// file system wants, and only a read shows that.
    fn is_read_instead(&mut self, token: u64, wanted: u64, errno: Errno) -> bool {
        let place = token.checked_sub(self.first_token).and_then(|at| usize::try_from(at).ok());
        let Some(Chunk::Awaited { direct: direct @ true }) =
            place.and_then(|place| self.window.get_mut(place))
        else {
            return false;
        };
        let (Some(instead), Errno::INVAL | Errno::OPNOTSUPP) = (&self.instead, errno) else {
            return false;
        };
        let bytes = self.headroom_bytes + self.chunk_bytes;
        let Some(headroom) = place.and_then(|place| self.headrooms.get_mut(place)) else {
            return false;
        };
        // With it the refused read has returned as much as is now allocated.
        *headroom = None;
        let Some(mut block) = self.pool.try_allocate(bytes) else { return false };
        if self.headroom_bytes > 0 {
            *headroom = Some(block.split_to(self.headroom_bytes));
        }
        *direct = false;
        if self.direct.take().is_some() {
            let reason = format!("the file system refuses direct reads ({errno})");
            self.fallbacks.push(format!("buffered reads: {reason}"));
            self.file = Arc::clone(instead);
            self.cached = None;
        }
        let offset = self.base + token * self.chunk_bytes as u64;
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(block.len());
        let read = ReadAt::new(Arc::clone(instead), offset, block, wanted, None);
        self.engine.submit(token, Operation::Read(read));
        true
    }

    /// Waits for the chunk at the front of the window and returns it; `None` if the window is
    /// empty.
    fn next_chunk(&mut self) -> Result<Option<Slice>, SourceError> {
        let waiting_since = Instant::now();
        while let Some(Chunk::Awaited { .. }) = self.window.front() {
            self.engine.wait(&mut self.done)?;
            self.take_completions();
        }
        self.waited += waiting_since.elapsed();
        let path = || self.path.clone();
        match self.window.front() {
            None | Some(Chunk::Awaited { .. }) => Ok(None),
            Some(Chunk::Read(bytes)) => Ok(Some(bytes.clone())),
            Some(&Chunk::Failed(errno)) => {
                Err(SourceError::Read { path: path(), offset: self.handed_out, errno })
            }
            Some(&Chunk::Short(filled)) => Err(SourceError::Shrank {
                path: path(),
                expected: self.size,
                found: self.handed_out + filled as u64,
            }),
        }
    }

    /// Checks that the file has not grown: an archive that is still being written would look
    /// truncated.
    fn check_end(&self) -> Result<(), SourceError> {
        let stat = self
            .calls
            .fstat(&self.file)
            .map_err(|errno| SourceError::Open { path: self.path.clone(), errno })?;
        let found = u64::try_from(stat.st_size).unwrap_or(0);
        if self.end < self.limit && found > self.size {
            let (path, expected) = (self.path.clone(), self.size);
            return Err(SourceError::Grew { path, expected, found });
        }
        Ok(())
    }
}

impl Source for SequentialFileReader {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        self.read_ahead()?;
        let Some(mut bytes) = self.next_chunk()? else {
            self.check_end()?;
            return Ok(None);
        };
        if self.first_token == 0 {
            let skip = usize::try_from(self.start - self.base).unwrap_or(usize::MAX);
            bytes = bytes.slice(skip.min(bytes.len())..);
        }
        self.window.pop_front();
        self.headroom = self.headrooms.pop_front().flatten();
        self.first_token += 1;
        let offset = self.handed_out;
        self.handed_out += bytes.len() as u64;
        Ok(Some(Span { offset, bytes }))
    }

    fn headroom(&mut self) -> Option<Block> {
        self.headroom.take()
    }

    fn len(&self) -> Option<u64> {
        Some(self.end)
    }

    fn waited(&self) -> Duration {
        self.waited
    }

    fn waited_for_memory(&self) -> Duration {
        self.waited_for_memory
    }

    fn traits(&self) -> SourceTraits {
        SourceTraits {
            direct: self.direct.is_some(),
            registered_buffers: self.engine.registered_buffers(),
            ring_restricted: self.engine.ring_restricted(),
            engine: Some(self.engine.kind().name()),
            cached_bytes: self.cached_bytes,
            digest: None,
            workers: self.engine.workers(),
            fallbacks: self.fallbacks.clone(),
        }
    }
}

impl BufRead for SequentialFileReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.current.as_ref().is_none_or(|current| current.is_empty()) {
            self.current = None;
            let span = self.next_span().map_err(io::Error::other)?;
            self.current = span.map(|span| span.bytes);
        }
        Ok(self.current.as_deref().unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        if let Some(current) = &mut self.current {
            *current = current.slice(count..);
        }
    }
}

impl Read for SequentialFileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

/// Returns the default size of a read in bytes for a pool of this size: at most 1 MiB, and small enough
/// that a decoder that holds half of the pool can wait for more.
pub fn default_chunk_bytes(pool_bytes: usize) -> usize {
    let share = pool_bytes / CHUNKS_MIN;
    (share - share % PAGE_BYTES).clamp(PAGE_BYTES, CHUNK_BYTES)
}

/// Returns the descriptor for direct reads if the file has one and chunks of this size meet its
/// alignment.
fn usable_direct(
    file: &mut ArchiveFile,
    chunk_bytes: usize,
) -> Result<Option<(OwnedFd, DirectIo)>, SourceError> {
    let Some((descriptor, direct)) = file.direct.take() else { return Ok(None) };
    if direct.memory_align <= PAGE_BYTES && chunk_bytes.is_multiple_of(direct.offset_align) {
        return Ok(Some((descriptor, direct)));
    }
    let reason = format!(
        "the file system requires an alignment of {} bytes in memory and {} in the file",
        direct.memory_align, direct.offset_align
    );
    file.fallback = Some(refused(&file.path, file.mode, reason)?);
    Ok(None)
}
