//! `SequentialFileReader`: a file from front to back, several aligned reads ahead.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{fs::Advice, io::Errno};
use unsnap_arena::{ArenaRanges, PAGE_BYTES, Pool, Slice};
use unsnap_ring::{
    Completion, DirectIo, DirectMode, Engine, EngineConfig, EngineKind, IoPriority, Operation,
    Outcome, ReadAt, Syscalls,
};

use crate::{ArchiveFile, Source, SourceError, SourceTraits, Span, file::refused};

/// Bytes a read asks for. Measured by the prototype (shared WRITE-PATH, 2 cores, virtual NVMe,
/// November 2026): 1 MiB is as fast as anything larger, 256 KiB is slower.
const CHUNK_BYTES: usize = 1 << 20;

/// Chunks that fit into the pool at least, unless the caller wants it otherwise: a decoder may hold
/// half of the pool, and a piece of the chunk at either end of that half, while it waits for more.
const CHUNKS_MIN: usize = 8;

/// Reads through the page cache keep a worker each: for the copy, or until the disk has delivered.
const READ_WORKERS: usize = 4;

/// How a [`SequentialFileReader`] is to read.
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
}

impl ReaderBuilder {
    /// Which engine carries out the reads. Default: threads.
    #[must_use]
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = engine;
        self
    }

    /// Bytes of one read, a multiple of 4096 and no more than the pool. Default: 1 MiB, or an
    /// eighth of the pool if that is less.
    #[must_use]
    pub fn chunk_bytes(mut self, chunk_bytes: usize) -> Self {
        self.chunk_bytes = Some(chunk_bytes);
        self
    }

    /// Reads in flight at most. Default: what the device's queue suggests. The pool bounds it in
    /// any case.
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = Some(depth.max(1));
        self
    }

    /// Begin at this byte of the file. Default: its first.
    #[must_use]
    pub fn start(mut self, start: u64) -> Self {
        self.start = start;
        self
    }

    /// Stop after this many bytes although the file goes on. Default: no limit.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// Memory to register with the ring.
    #[must_use]
    pub fn register(mut self, arena: ArenaRanges) -> Self {
        self.register = Some(arena);
        self
    }

    /// How urgent the reads are. Default: as urgent as what the thread does that asks for bytes.
    #[must_use]
    pub fn priority(mut self, priority: Option<IoPriority>) -> Self {
        self.priority = priority;
        self
    }

    /// Makes the reader and its engine. Nothing is opened any more, and nothing is read before the
    /// first span is asked for.
    pub fn build(self, mut file: ArchiveFile) -> Result<SequentialFileReader, SourceError> {
        let pool_bytes = self.pool.bytes();
        let chunk_bytes = self.chunk_bytes.unwrap_or_else(|| default_chunk_bytes(pool_bytes));
        let fits = (PAGE_BYTES..=pool_bytes).contains(&chunk_bytes);
        if !fits || !chunk_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(SourceError::Alignment { chunk_bytes, pool_bytes });
        }
        let direct = usable_direct(&mut file, chunk_bytes)?;
        let ArchiveFile { calls, path, buffered, mode, fallback, size, depth, .. } = file;
        // Only advice: of a file that is read directly nothing is worth reading ahead.
        let advice = if direct.is_some() { Advice::Random } else { Advice::Sequential };
        let _ = rustix::fs::fadvise(&buffered, 0, None, advice);
        let (file, direct, cached) = match direct {
            Some((file, direct)) => {
                (file, Some(direct), (mode == DirectMode::Auto).then_some(buffered))
            }
            None => (buffered, None, None),
        };
        let depth = self.depth.unwrap_or(depth).min(pool_bytes / chunk_bytes).max(1);
        let engine = EngineConfig {
            kind: self.engine,
            capacity: depth,
            workers: READ_WORKERS.min(depth),
            register: self.register,
            attach: None,
            priority: self.priority,
        };
        Ok(SequentialFileReader {
            calls,
            path,
            file: Arc::new(file),
            direct,
            cached: cached.map(Arc::new),
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
            depth,
            submitted: self.start - self.start % PAGE_BYTES as u64,
            handed_out: self.start,
            window: VecDeque::with_capacity(depth),
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
/// It gives exactly the bytes between the start and the size the file had when it was opened (or
/// the limit, if that is less), whatever the alignment of that end; a file that shrank or grew
/// meanwhile is an error. It is also a [`Read`] and a [`BufRead`], to stand in for a plain reader.
///
/// Used by one thread at a time, the one that first asks for bytes (rings bind to a thread).
pub struct SequentialFileReader {
    calls: Syscalls,
    path: PathBuf,
    file: Arc<OwnedFd>,
    direct: Option<DirectIo>,
    /// The same file without direct I/O: for chunks that are in the page cache, where a copy is
    /// faster than a disk and leaves the disk to others. `None` when that is not wanted or cannot
    /// be known.
    cached: Option<Arc<OwnedFd>>,
    cached_bytes: u64,
    fallbacks: Vec<String>,
    size: u64,
    limit: u64,
    end: u64,
    /// Where the first chunk begins, aligned.
    base: u64,
    /// Where the first span begins, within the first chunk.
    start: u64,
    engine: Box<dyn Engine>,
    pool: Pool,
    chunk_bytes: usize,
    depth: usize,
    /// Everything before this offset has been asked for.
    submitted: u64,
    /// Everything before this offset has been handed out.
    handed_out: u64,
    /// Chunks asked for and not yet handed out, in the order of the file.
    window: VecDeque<Chunk>,
    /// Token of the window's first chunk; tokens count chunks from 0.
    first_token: u64,
    done: Vec<Completion>,
    waited: Duration,
    waited_for_memory: Duration,
    /// For `Read` and `BufRead`: the span being consumed.
    current: Option<Slice>,
}

/// What has become of a chunk that was asked for. A failure waits for its turn like bytes do, so
/// that what precedes it is handed out, and stays at the window's front from then on.
enum Chunk {
    Awaited,
    Read(Slice),
    /// The file ended after so many bytes of it.
    Short(usize),
    Failed(Errno),
}

impl SequentialFileReader {
    /// Starts describing a reader whose buffers come from `pool`.
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
        }
    }

    /// Asks for as many chunks as depth and memory allow.
    fn read_ahead(&mut self) -> Result<(), SourceError> {
        let before = self.submitted;
        while self.window.len() < self.depth && self.submitted < self.end {
            let block = match self.pool.try_allocate(self.chunk_bytes) {
                Some(block) => block,
                // Whoever holds the memory will return it; without a read in flight nothing
                // else could wake us.
                None if self.window.is_empty() => {
                    let (block, waited) =
                        self.pool.allocate(self.chunk_bytes).map_err(|_| SourceError::Cancelled)?;
                    self.waited_for_memory += waited;
                    block
                }
                None => break,
            };
            let left = self.end - self.submitted;
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            let token = self.first_token + self.window.len() as u64;
            let (file, direct) = self.best_way(wanted);
            let read = ReadAt::new(file, self.submitted, block, wanted, direct);
            self.engine.submit(token, Operation::Read(read));
            self.window.push_back(Chunk::Awaited);
            self.submitted += wanted as u64;
        }
        if self.submitted > before {
            self.engine.poll(&mut self.done)?;
            self.take_completions();
        }
        Ok(())
    }

    /// How to read the next `wanted` bytes: out of the page cache if all of them are there.
    fn best_way(&mut self, wanted: usize) -> (Arc<OwnedFd>, Option<DirectIo>) {
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
        for Completion { token, result } in self.done.drain(..) {
            let wanted = self.end - self.base - token * self.chunk_bytes as u64;
            let wanted = wanted.min(self.chunk_bytes as u64);
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
    }

    /// The chunk at the window's front, once it has been read; `None` if the window is empty.
    fn next_chunk(&mut self) -> Result<Option<Slice>, SourceError> {
        let waiting_since = Instant::now();
        while let Some(Chunk::Awaited) = self.window.front() {
            self.engine.wait(&mut self.done)?;
            self.take_completions();
        }
        self.waited += waiting_since.elapsed();
        let path = || self.path.clone();
        match self.window.front() {
            None | Some(Chunk::Awaited) => Ok(None),
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

    /// The file must not have grown: an archive that is still being written would look cut.
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
        self.first_token += 1;
        let offset = self.handed_out;
        self.handed_out += bytes.len() as u64;
        Ok(Some(Span { offset, bytes }))
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

/// Bytes of a read for a pool of this size, when nobody says otherwise.
pub(crate) fn default_chunk_bytes(pool_bytes: usize) -> usize {
    let share = pool_bytes / CHUNKS_MIN;
    (share - share % PAGE_BYTES).clamp(PAGE_BYTES, CHUNK_BYTES)
}

/// How a file is read by chunks of this size: directly if it is open for that and the chunks are
/// aligned as it asks.
fn usable_direct(
    file: &mut ArchiveFile,
    chunk_bytes: usize,
) -> Result<Option<(OwnedFd, DirectIo)>, SourceError> {
    let Some((descriptor, direct)) = file.direct.take() else { return Ok(None) };
    if direct.memory_align <= PAGE_BYTES && chunk_bytes.is_multiple_of(direct.offset_align) {
        return Ok(Some((descriptor, direct)));
    }
    let reason = format!(
        "the file system asks for an alignment of {} bytes in memory and {} in the file",
        direct.memory_align, direct.offset_align
    );
    file.fallback = Some(refused(&file.path, file.mode, reason)?);
    Ok(None)
}
