//! `SequentialFileReader`: a file from front to back, several aligned reads ahead.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Advice, FileType, OFlags},
    io::Errno,
};
use unsnap_arena::{ArenaRanges, PAGE_BYTES, Pool, Slice};
use unsnap_ring::{
    Completion, DirectIo, DirectMode, DirectSupport, Engine, EngineConfig, EngineKind, Operation,
    Outcome, ReadAt, Syscalls, queue_depth,
};

use crate::{Source, SourceError, SourceTraits, Span};

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
    direct: DirectMode,
    chunk_bytes: Option<usize>,
    depth: Option<usize>,
    limit: u64,
    register: Option<ArenaRanges>,
}

impl ReaderBuilder {
    /// Which engine carries out the reads. Default: threads.
    #[must_use]
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = engine;
        self
    }

    /// Whether to bypass the page cache. Default: auto, which reads from there what is there.
    #[must_use]
    pub fn direct(mut self, direct: DirectMode) -> Self {
        self.direct = direct;
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

    /// Opens a regular file. Nothing is read before the first span is asked for.
    pub fn open(self, path: &Path) -> Result<SequentialFileReader, SourceError> {
        let pool_bytes = self.pool.bytes();
        let chunk_bytes = self.chunk_bytes.unwrap_or_else(|| default_chunk_bytes(pool_bytes));
        let fits = (PAGE_BYTES..=pool_bytes).contains(&chunk_bytes);
        if !fits || !chunk_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(SourceError::Alignment { chunk_bytes, pool_bytes });
        }
        let calls = self.engine.syscalls();
        let opened = open_file(&calls, path, self.direct, chunk_bytes)?;
        let depth = self.depth.unwrap_or_else(|| queue_depth(opened.device));
        let depth = depth.min(pool_bytes / chunk_bytes).max(1);
        let engine = EngineConfig {
            kind: self.engine,
            capacity: depth,
            workers: READ_WORKERS.min(depth),
            register: self.register,
            attach: None,
        };
        Ok(SequentialFileReader {
            calls,
            path: path.to_owned(),
            file: Arc::new(opened.file),
            direct: opened.direct,
            cached: opened.cached.map(Arc::new),
            cached_bytes: 0,
            fallbacks: opened.fallbacks,
            size: opened.size,
            limit: self.limit,
            end: opened.size.min(self.limit),
            engine: engine.open()?,
            pool: self.pool,
            chunk_bytes,
            depth,
            submitted: 0,
            handed_out: 0,
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
            direct: DirectMode::Auto,
            chunk_bytes: None,
            depth: None,
            limit: u64::MAX,
            register: None,
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
            let wanted = (self.end - token * self.chunk_bytes as u64).min(self.chunk_bytes as u64);
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
        let Some(bytes) = self.next_chunk()? else {
            self.check_end()?;
            return Ok(None);
        };
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
            engine: Some(self.engine.kind().name()),
            cached_bytes: self.cached_bytes,
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

struct Opened {
    file: OwnedFd,
    size: u64,
    device: u64,
    direct: Option<DirectIo>,
    cached: Option<OwnedFd>,
    fallbacks: Vec<String>,
}

fn open_file(
    calls: &Syscalls,
    path: &Path,
    mode: DirectMode,
    chunk_bytes: usize,
) -> Result<Opened, SourceError> {
    let open_error = |errno| SourceError::Open { path: path.to_owned(), errno };
    let file = open_noatime(calls, path, OFlags::RDONLY).map_err(open_error)?;
    let stat = calls.fstat(&file).map_err(open_error)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(open_error(Errno::ISDIR)),
        _ => return Err(open_error(Errno::INVAL)),
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let device = stat.st_dev;
    let mut fallbacks = Vec::new();
    if mode != DirectMode::Off {
        match open_direct(calls, path, &file, chunk_bytes) {
            Ok((direct_file, direct)) => {
                // No read-ahead beyond what is there: the rest is read directly.
                let cached = (mode == DirectMode::Auto).then_some(file).inspect(|file| {
                    let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
                });
                let (file, direct) = (direct_file, Some(direct));
                return Ok(Opened { file, size, device, direct, cached, fallbacks });
            }
            Err(reason) if mode == DirectMode::On => {
                return Err(SourceError::DirectRefused { path: path.to_owned(), reason });
            }
            Err(reason) => fallbacks.push(format!("buffered reads: {reason}")),
        }
    }
    // Only advice: a kernel that ignores it reads ahead less.
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::Sequential);
    Ok(Opened { file, size, device, direct: None, cached: None, fallbacks })
}

/// The file opened again for direct I/O, or the reason why it cannot be.
fn open_direct(
    calls: &Syscalls,
    path: &Path,
    buffered: &OwnedFd,
    chunk_bytes: usize,
) -> Result<(OwnedFd, DirectIo), String> {
    let direct = match calls.direct_support(buffered) {
        DirectSupport::Yes(direct) => direct,
        DirectSupport::No => return Err("the file system knows no direct I/O".to_owned()),
        // The alignment that every file system with direct I/O takes.
        DirectSupport::Unknown => DirectIo { offset_align: PAGE_BYTES, memory_align: PAGE_BYTES },
    };
    if direct.memory_align > PAGE_BYTES || !chunk_bytes.is_multiple_of(direct.offset_align) {
        return Err(format!(
            "the file system asks for an alignment of {} bytes in memory and {} in the file",
            direct.memory_align, direct.offset_align
        ));
    }
    let refused = |errno: Errno| format!("the file system refuses it ({errno})");
    let file = open_noatime(calls, path, OFlags::RDONLY | OFlags::DIRECT).map_err(refused)?;
    let reopened = calls.fstat(&file).map_err(refused)?;
    let opened = calls.fstat(buffered).map_err(refused)?;
    if (reopened.st_dev, reopened.st_ino) != (opened.st_dev, opened.st_ino) {
        return Err("the file was replaced while it was opened".to_owned());
    }
    Ok((file, direct))
}

/// Without updating the access time, which only the file's owner may ask for.
fn open_noatime(calls: &Syscalls, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    match calls.open(path, flags | OFlags::NOATIME) {
        Err(Errno::PERM) => calls.open(path, flags),
        result => result,
    }
}
