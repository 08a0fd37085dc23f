//! Tests of the file reader, run on every engine.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, Read, Write},
    path::{Path, PathBuf},
    sync::{LazyLock, mpsc},
    thread,
    time::Duration,
};

use rustix::io::Errno;
use unsnap_arena::{Arena, ArenaRanges, Pool, Segment};
use unsnap_ring::{Call, DirectMode, EngineKind, FaultPlan, Syscalls, is_cached, probe_uring};
use unsnap_source::{ArchiveFile, SequentialFileReader, Source, SourceError};
use unsnap_testkit::{
    random::Random,
    scratch::{Ext4, ScratchFs, Tmpfs, available},
    skip::skip_unsupported,
};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

fn engines() -> Vec<EngineKind> {
    let mut engines = vec![EngineKind::Threads];
    match probe_uring() {
        Ok(()) => engines.push(EngineKind::Uring),
        Err(refused) => skip_unsupported(format_args!("io_uring: {refused}")),
    }
    engines.extend((0..4).map(faulty));
    engines
}

fn faulty(seed: u64) -> EngineKind {
    EngineKind::Faulty(FaultPlan::new(seed).short(400).interrupt(200))
}

struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    /// Lies below the target directory rather than in /tmp, which may be a tmpfs.
    fn new() -> Self {
        Self { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    fn file(&self, bytes: &[u8]) -> PathBuf {
        write(self.directory.path(), bytes)
    }
}

fn write(directory: &Path, bytes: &[u8]) -> PathBuf {
    let path = directory.join(format!("{}-bytes", bytes.len()));
    fs::write(&path, bytes).unwrap();
    path
}

fn random_bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(len as u64).fill(&mut bytes);
    bytes
}

fn pool(bytes: usize) -> (Pool, ArenaRanges) {
    let mut arena = Arena::builder().bytes(bytes).populate(false).build().unwrap();
    (arena.pool(bytes).unwrap(), arena.ranges())
}

/// Returns the modes that work here. Files written by a test are in the page cache, and `Auto`
/// reads them from there, so `On` is needed as well.
fn direct_modes() -> &'static [DirectMode] {
    static REFUSED: LazyLock<Option<String>> = LazyLock::new(|| {
        let scratch = Scratch::new();
        let path = scratch.file(&[0; PAGE]);
        let strict = Reading { direct: DirectMode::On, ..Reading::new(EngineKind::Threads, PAGE) };
        strict.open(&path).err().map(|refused| refused.to_string())
    });
    match &*REFUSED {
        None => &[DirectMode::Auto, DirectMode::On, DirectMode::Off],
        Some(refused) => {
            // By the file system that the tests are on.
            skip_unsupported(format_args!("direct I/O: {refused}"));
            &[DirectMode::Auto, DirectMode::Off]
        }
    }
}

/// Parameters of a test's reader.
#[derive(Clone, Debug)]
struct Reading {
    engine: EngineKind,
    direct: DirectMode,
    chunk_bytes: usize,
    pool_chunks: usize,
    depth: usize,
    limit: u64,
}

impl Reading {
    fn new(engine: EngineKind, chunk_bytes: usize) -> Self {
        let direct = DirectMode::Auto;
        Self { engine, direct, chunk_bytes, pool_chunks: 4, depth: 3, limit: u64::MAX }
    }

    fn open(&self, path: &Path) -> Result<SequentialFileReader, SourceError> {
        self.open_with(path, &pool(self.chunk_bytes * self.pool_chunks))
    }

    fn open_with(
        &self,
        path: &Path,
        (pool, ranges): &(Pool, ArenaRanges),
    ) -> Result<SequentialFileReader, SourceError> {
        let file = ArchiveFile::open(&self.engine.syscalls(), path, self.direct)?;
        SequentialFileReader::builder(pool.clone())
            .engine(self.engine.clone())
            .chunk_bytes(self.chunk_bytes)
            .depth(self.depth)
            .limit(self.limit)
            .register(ranges.clone())
            .build(file)
    }
}

/// Reads up to the end or an error, and checks that spans are consecutive.
fn drain(source: &mut dyn Source) -> (Vec<u8>, Result<(), SourceError>) {
    let mut bytes = Vec::new();
    loop {
        match source.next_span() {
            Ok(Some(span)) => {
                assert_eq!(span.offset, bytes.len() as u64);
                assert!(!span.bytes.is_empty());
                bytes.extend_from_slice(&span.bytes);
            }
            Ok(None) => return (bytes, Ok(())),
            Err(error) => return (bytes, Err(error)),
        }
    }
}

#[track_caller]
fn assert_reads(reading: &Reading, path: &Path, expected: &[u8]) {
    let mut reader = reading.open(path).unwrap();
    assert_eq!(reader.len(), Some(expected.len() as u64));
    let (bytes, result) = drain(&mut reader);
    result.unwrap();
    assert!(bytes == expected, "{} bytes by {reading:?}", expected.len());
    assert!(reader.next_span().unwrap().is_none(), "the end stays the end");
}

/// Runs `body` and fails if it hangs.
fn watched(body: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let body = thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match finished.recv_timeout(Duration::from_mins(2)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => body.join().unwrap(),
    }
}

#[test]
fn files_of_every_length_come_back() {
    watched(|| {
        let scratch = Scratch::new();
        for chunk in [PAGE, 2 * PAGE, 16 * PAGE, MIB] {
            let mut lengths = vec![chunk - 1, chunk, chunk + 1, 2 * chunk + 777];
            if chunk < MIB {
                lengths.extend([0, 1, 511, 512, 513, 4095, 4096, 4097]);
                lengths.extend([5 * chunk - 1, 5 * chunk, 9 * chunk + 4095]);
            }
            for len in lengths {
                let bytes = random_bytes(len);
                let path = scratch.file(&bytes);
                for engine in engines() {
                    for &direct in direct_modes() {
                        for (pool_chunks, depth) in [(1, 1), (1, 16), (3, 2), (20, 16)] {
                            let reading = Reading::new(engine.clone(), chunk);
                            let reading = Reading { direct, pool_chunks, depth, ..reading };
                            assert_reads(&reading, &path, &bytes);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn never_a_byte_past_the_limit() {
    let scratch = Scratch::new();
    let chunk = 2 * PAGE;
    let bytes = random_bytes(5 * chunk + 100);
    let path = scratch.file(&bytes);
    let len = bytes.len();
    let near = [0, chunk, 3 * chunk, len].into_iter().flat_map(|at| at.saturating_sub(1)..at + 2);
    for limit in near.chain([511, 512, 513, PAGE - 1, PAGE, PAGE + 1, 3 * len]) {
        for engine in engines() {
            for &direct in direct_modes() {
                let reading = Reading::new(engine.clone(), chunk);
                let reading = Reading { direct, limit: limit as u64, ..reading };
                assert_reads(&reading, &path, &bytes[..limit.min(len)]);
            }
        }
    }
}

#[test]
fn it_works_as_a_std_reader() {
    let scratch = Scratch::new();
    let text: Vec<String> = (0..5000).map(|line| format!("line {line}")).collect();
    let text = text.join("\n");
    let path = scratch.file(text.as_bytes());
    for engine in engines() {
        let reading = Reading::new(engine, PAGE);
        let mut whole = String::new();
        reading.open(&path).unwrap().read_to_string(&mut whole).unwrap();
        assert!(whole == text);

        let lines: Vec<String> = reading.open(&path).unwrap().lines().map(Result::unwrap).collect();
        assert!(lines.iter().eq(&text.lines().collect::<Vec<_>>()));

        let mut reader = reading.open(&path).unwrap();
        let mut pieces = Vec::new();
        for size in (0..200).cycle() {
            let mut buffer = vec![0; size];
            let count = reader.read(&mut buffer).unwrap();
            assert!(count <= size);
            if count == 0 && size > 0 {
                break;
            }
            pieces.extend_from_slice(&buffer[..count]);
        }
        assert!(pieces == text.as_bytes());
    }
}

#[test]
fn the_std_readers_error_contains_the_source_error() {
    let scratch = Scratch::new();
    let path = scratch.file(&random_bytes(3 * PAGE));
    let mut reader = Reading::new(EngineKind::Threads, PAGE).open(&path).unwrap();
    truncate(&path, PAGE);
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
    let inner = error.get_ref().unwrap().downcast_ref().unwrap();
    assert!(matches!(inner, SourceError::Shrank { .. }), "{inner}");
}

fn truncate(path: &Path, len: usize) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len as u64).unwrap();
}

#[test]
fn a_shrunken_file_is_reported_with_its_true_end() {
    watched(|| {
        let scratch = Scratch::new();
        let chunk = 2 * PAGE;
        let bytes = random_bytes(8 * chunk + 5);
        for engine in engines() {
            for &direct in direct_modes() {
                for end in [0, 1, 4 * chunk - 1, 4 * chunk, 4 * chunk + 700, 8 * chunk + 4] {
                    let path = scratch.file(&bytes);
                    let reading =
                        Reading { direct, pool_chunks: 20, ..Reading::new(engine.clone(), chunk) };
                    let mut reader = reading.open(&path).unwrap();
                    truncate(&path, end);
                    let (read, result) = drain(&mut reader);
                    assert!(read == bytes[..end - end % chunk], "{end} {reading:?}");
                    for error in [result.unwrap_err(), reader.next_span().unwrap_err()] {
                        let SourceError::Shrank { expected, found, .. } = error else {
                            panic!("{error}")
                        };
                        assert_eq!((expected, found), (bytes.len() as u64, end as u64));
                    }
                }
            }
        }
    });
}

/// Removes a file from the page cache.
fn evict(path: &Path) {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    for _ in 0..1000 {
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let pages = (0..len).step_by(PAGE);
        if !pages.into_iter().any(|at| is_cached(&file, at, 1) == Some(true)) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{} stays in the page cache", path.display());
}

#[test]
fn the_memory_in_front_of_a_span_is_its_own() {
    watched(|| {
        let scratch = Scratch::new();
        let bytes = random_bytes(9 * PAGE + 700);
        let path = scratch.file(&bytes);
        // Not even the pool for two chunks with headroom is a multiple of both.
        for (kind, pool_bytes) in
            engines().into_iter().flat_map(|kind| [(kind.clone(), 6 * PAGE), (kind, 40 * PAGE)])
        {
            let mut arena = Arena::builder().bytes(pool_bytes).populate(false).build().unwrap();
            let pool = arena.pool(pool_bytes).unwrap();
            let file = ArchiveFile::open(&kind.syscalls(), &path, DirectMode::Auto).unwrap();
            let reader = SequentialFileReader::builder(pool.clone()).engine(kind);
            let mut reader = reader.chunk_bytes(2 * PAGE).headroom(true).build(file).unwrap();
            let mut read = Vec::new();
            while let Some(span) = reader.next_span().unwrap() {
                let headroom = reader.headroom().unwrap();
                assert!(reader.headroom().is_none(), "it is returned once");
                let segment = Segment::adopt(span.offset, headroom, span.bytes).unwrap();
                let view = segment.prepend(&[7; PAGE]);
                assert_eq!(view.slice(PAGE, 0..0)[..], [7; PAGE]);
                read.extend_from_slice(view.bytes());
            }
            assert!(read == bytes);
            drop(reader);
            assert!(pool.try_allocate(pool_bytes).is_some(), "memory is still lent");
        }
    });
}

/// The file system has announced direct I/O, and refuses a read all the same.
#[test]
fn a_refused_direct_read_goes_through_the_page_cache() {
    if !direct_modes().contains(&DirectMode::On) {
        return;
    }
    watched(|| {
        let scratch = Scratch::new();
        let bytes = random_bytes(40 * PAGE + 5);
        let path = scratch.file(&bytes);
        for (nth, errno) in [(0, Errno::INVAL), (3, Errno::INVAL), (1, Errno::OPNOTSUPP)] {
            let plan = FaultPlan::new(nth).fail_nth(Call::Read, nth, errno);
            let reading = Reading::new(EngineKind::Faulty(plan.clone()), 4 * PAGE);
            evict(&path);
            let mut reader = reading.open(&path).unwrap();
            let (read, result) = drain(&mut reader);
            result.unwrap();
            assert!(read == bytes && plan.injected().len() == 1, "{nth} {errno}");
            let traits = reader.traits();
            assert!(!traits.direct);
            let [told] = &traits.fallbacks[..] else { panic!("{:?}", traits.fallbacks) };
            assert!(told.starts_with("buffered reads: ") && told.contains(&errno.to_string()));
        }
        // Not where direct I/O is required, and not after another error.
        for (direct, errno) in [(DirectMode::On, Errno::INVAL), (DirectMode::Auto, Errno::IO)] {
            let plan = FaultPlan::new(1).fail_nth(Call::Read, 0, errno);
            let reading = Reading::new(EngineKind::Faulty(plan), 4 * PAGE);
            evict(&path);
            let mut reader = Reading { direct, ..reading }.open(&path).unwrap();
            let error = drain(&mut reader).1.unwrap_err();
            assert!(matches!(error, SourceError::Read { errno: found, .. } if found == errno));
            assert!(reader.traits().fallbacks.is_empty());
        }
    });
}

#[test]
fn a_file_that_grew_is_refused() {
    let scratch = Scratch::new();
    for len in [0, 5, 2 * PAGE, 2 * PAGE + 5] {
        let bytes = random_bytes(len);
        for engine in engines() {
            for &direct in direct_modes() {
                let path = scratch.file(&bytes);
                let reading = Reading { direct, ..Reading::new(engine.clone(), PAGE) };
                let mut whole = reading.open(&path).unwrap();
                let limit = len as u64 / 2;
                let mut part = Reading { limit, ..reading }.open(&path).unwrap();
                File::options().append(true).open(&path).unwrap().write_all(b"more").unwrap();

                let (read, result) = drain(&mut whole);
                assert!(read == bytes);
                let SourceError::Grew { expected, found, .. } = result.unwrap_err() else {
                    panic!("the growth was not reported")
                };
                assert_eq!((expected, found), (len as u64, len as u64 + 4));

                let (read, result) = drain(&mut part);
                result.unwrap();
                assert!(read == bytes[..len / 2], "what lies past the limit does not matter");
            }
        }
    }
}

#[test]
fn only_regular_files_are_opened() {
    let scratch = Scratch::new();
    let reading = Reading::new(EngineKind::Threads, PAGE);
    let errno = |path: &Path| match reading.open(path) {
        Err(SourceError::Open { path: named, errno }) => {
            assert_eq!(named, path);
            errno
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened"),
    };
    assert_eq!(errno(&scratch.directory.path().join("absent")), Errno::NOENT);
    assert_eq!(errno(scratch.directory.path()), Errno::ISDIR);
    assert_eq!(errno(Path::new("/dev/null")), Errno::INVAL);
}

#[test]
fn nothing_is_opened_after_the_opening() {
    let scratch = Scratch::new();
    let bytes = random_bytes(100_000);
    for &direct in direct_modes() {
        let path = scratch.file(&bytes);
        let file = ArchiveFile::open(&Syscalls::default(), &path, direct).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another file under its name").unwrap();
        assert_eq!(file.size(), 100_000);
        assert!(file.read_head(1000).unwrap() == bytes[..1000]);
        assert!(file.read_head(200_000).unwrap() == bytes, "no more than there is");
        let (pool, _) = pool(16 * PAGE);
        let mut reader = SequentialFileReader::builder(pool).build(file).unwrap();
        let (read, result) = drain(&mut reader);
        result.unwrap();
        assert!(read == bytes, "{direct:?}");
    }
}

#[test]
fn an_invalid_chunk_size_is_an_error() {
    let scratch = Scratch::new();
    let path = scratch.file(&random_bytes(10_000));
    let open = |pool_bytes: usize, chunk_bytes: usize| {
        let (pool, _) = pool(pool_bytes);
        let file = ArchiveFile::open(&Syscalls::default(), &path, DirectMode::Auto).unwrap();
        SequentialFileReader::builder(pool).chunk_bytes(chunk_bytes).build(file)
    };
    for chunk_bytes in [0, 1, 4095, 4097, 5000, 20 * PAGE, usize::MAX] {
        match open(16 * PAGE, chunk_bytes) {
            Err(SourceError::Alignment { chunk_bytes: named, pool_bytes }) => {
                assert_eq!((named, pool_bytes), (chunk_bytes, 16 * PAGE));
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("{chunk_bytes} was accepted"),
        }
    }
    assert!(open(16 * PAGE, 16 * PAGE).is_ok());
    let (empty, _) = pool(0);
    let file = ArchiveFile::open(&Syscalls::default(), &path, DirectMode::Auto).unwrap();
    let error = SequentialFileReader::builder(empty).build(file).err().unwrap();
    assert!(matches!(error, SourceError::Alignment { .. }), "{error}");
}

#[test]
fn a_small_pool_gets_small_chunks_by_default() {
    let scratch = Scratch::new();
    let bytes = random_bytes(3 * MIB + 1);
    let path = scratch.file(&bytes);
    for (pool_bytes, span_bytes) in
        [(PAGE, PAGE), (8 * PAGE, PAGE), (17 * PAGE, 2 * PAGE), (8 * MIB, MIB), (20 * MIB, MIB)]
    {
        let (pool, _) = pool(pool_bytes);
        let file = ArchiveFile::open(&Syscalls::default(), &path, DirectMode::Auto).unwrap();
        let mut reader = SequentialFileReader::builder(pool).build(file).unwrap();
        assert_eq!(reader.next_span().unwrap().unwrap().bytes.len(), span_bytes, "{pool_bytes}");
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert!(rest == bytes[span_bytes..]);
    }
}

#[test]
fn refused_direct_io_is_an_error_or_a_fallback() {
    // A regular file on a file system without direct I/O.
    let path = Path::new("/proc/self/status");
    let reading = Reading::new(EngineKind::Threads, PAGE);
    match (Reading { direct: DirectMode::On, ..reading.clone() }).open(path) {
        Err(SourceError::DirectRefused { path: named, reason }) => {
            assert_eq!(named, path);
            assert!(!reason.is_empty());
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("procfs takes direct I/O now?"),
    }
    let traits = reading.open(path).unwrap().traits();
    assert!(!traits.direct);
    assert_eq!(traits.fallbacks.len(), 1, "{:?}", traits.fallbacks);
    let off = Reading { direct: DirectMode::Off, ..reading }.open(path).unwrap().traits();
    assert!(!off.direct && off.fallbacks.is_empty(), "direct I/O was not requested");
}

#[test]
fn cached_chunks_are_read_from_the_page_cache() {
    if !direct_modes().contains(&DirectMode::On) {
        return;
    }
    let scratch = Scratch::new();
    let chunk = 16 * PAGE;
    let bytes = random_bytes(9 * chunk + 5);
    let path = scratch.file(&bytes);
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    let mut from_both = false;
    for evicted in [3..5, 0..1, 8..10] {
        let (start, count) = (evicted.start * chunk, evicted.len() * chunk);
        let len = Some(std::num::NonZeroU64::new(count as u64).unwrap());
        rustix::fs::fadvise(&file, start as u64, len, rustix::fs::Advice::DontNeed).unwrap();
        for engine in engines() {
            // The kernel may have kept or evicted more than requested, so ask it first.
            let cached = (0..bytes.len()).step_by(chunk).filter_map(|at| {
                let wanted = chunk.min(bytes.len() - at) as u64;
                is_cached(&file, at as u64, wanted)?.then_some(wanted)
            });
            let cached: u64 = cached.sum();
            from_both |= (1..bytes.len() as u64).contains(&cached);
            let reading = Reading::new(engine, chunk);
            let mut reader = reading.open(&path).unwrap();
            let (read, result) = drain(&mut reader);
            result.unwrap();
            assert!(read == bytes, "{evicted:?} {reading:?}");
            assert_eq!(reader.traits().cached_bytes, cached, "{evicted:?} {reading:?}");
            assert!(reader.traits().direct);
        }
    }
    if !from_both {
        // By a kernel or file system without cachestat.
        skip_unsupported("here the page cache holds all of a file or nothing");
    }
}

#[test]
fn tmpfs_is_read_directly_or_not() {
    let options = Tmpfs { size_bytes: 16 << 20, inodes: None };
    let Some(memory) = available(ScratchFs::tmpfs(&options)) else { return };
    for len in [0, 513, 3 * PAGE + 511] {
        let bytes = random_bytes(len);
        let path = write(memory.path(), &bytes);
        for engine in engines() {
            let reading = Reading::new(engine, PAGE);
            assert_reads(&reading, &path, &bytes);
            let strict = Reading { direct: DirectMode::On, ..reading };
            match strict.open(&path) {
                // From Linux 6.6 on.
                Ok(reader) => {
                    assert!(reader.traits().direct);
                    assert_reads(&strict, &path, &bytes);
                }
                Err(SourceError::DirectRefused { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn sectors_of_4096_bytes_are_read_directly() {
    let options = Ext4 { size_bytes: 64 << 20, sector_bytes: 4096, ..Ext4::default() };
    let Some(disk) = available(ScratchFs::ext4(&options)) else { return };
    for len in [1, 511, 4095, 4096, 4097, 3 * PAGE + 513, 5 * PAGE] {
        let bytes = random_bytes(len);
        let path = write(disk.path(), &bytes);
        for engine in engines() {
            for (chunk, limit) in [(PAGE, len), (2 * PAGE, len), (PAGE, len / 2), (MIB, len)] {
                let reading = Reading::new(engine.clone(), chunk);
                let reading = Reading { direct: DirectMode::On, limit: limit as u64, ..reading };
                assert!(reading.open(&path).unwrap().traits().direct);
                assert_reads(&reading, &path, &bytes[..limit]);
            }
        }
    }
}

#[test]
fn a_failed_read_is_reported_with_its_offset_after_the_bytes_before_it() {
    watched(|| {
        let scratch = Scratch::new();
        let bytes = random_bytes(9 * PAGE + 17);
        let path = scratch.file(&bytes);
        for seed in 0..6 {
            let (mut step, mut failed_reads) = (0, 0);
            loop {
                let plan = FaultPlan::new(seed).short(300).interrupt(100).fail(step, Errno::IO);
                let reading = Reading::new(EngineKind::Faulty(plan.clone()), 2 * PAGE);
                step += 1;
                let mut reader = match reading.open(&path) {
                    Ok(reader) => reader,
                    Err(SourceError::Open { errno: Errno::IO, .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                let (read, result) = drain(&mut reader);
                assert!(bytes.starts_with(&read));
                match plan.injected().first().map(|injected| injected.call) {
                    Some(Call::Read) => failed_reads += 1,
                    // The check at the end of the file; every other failed call has a fallback.
                    Some(Call::Stat) if result.is_err() => continue,
                    injected => {
                        result.unwrap();
                        assert_eq!(read.len(), bytes.len());
                        if injected.is_none() {
                            break;
                        }
                        continue;
                    }
                }
                for error in [result.unwrap_err(), reader.next_span().unwrap_err()] {
                    let SourceError::Read { offset, errno, path: named } = error else {
                        panic!("{error}")
                    };
                    assert_eq!((offset, errno, &named), (read.len() as u64, Errno::IO, &path));
                }
            }
            assert!(failed_reads >= 5, "at least one read for every chunk");
        }
    });
}

#[test]
fn reading_continues_when_held_spans_are_released() {
    watched(|| {
        let scratch = Scratch::new();
        let bytes = random_bytes(20 * PAGE + 1);
        let path = scratch.file(&bytes);
        for engine in engines() {
            for pool_chunks in [1, 3, 8] {
                let reading = Reading { pool_chunks, ..Reading::new(engine.clone(), PAGE) };
                let mut reader = reading.open(&path).unwrap();
                let (spans, held) = mpsc::channel();
                let holder = thread::spawn(move || {
                    let mut read = Vec::new();
                    loop {
                        // All spans that exist, so that the reader must wait for each of them.
                        let batch: Vec<unsnap_source::Span> =
                            held.iter().take(pool_chunks).collect();
                        if batch.is_empty() {
                            return read;
                        }
                        thread::sleep(Duration::from_millis(1));
                        read.extend(batch.iter().flat_map(|span| span.bytes.to_vec()));
                    }
                });
                while let Some(span) = reader.next_span().unwrap() {
                    spans.send(span).unwrap();
                }
                drop(spans);
                assert!(holder.join().unwrap() == bytes);
            }
        }
    });
}

#[test]
fn waiting_for_memory_ends_when_the_pool_closes() {
    watched(|| {
        let scratch = Scratch::new();
        let path = scratch.file(&random_bytes(20 * PAGE));
        for engine in engines() {
            let memory = pool(2 * PAGE);
            let mut reader = Reading::new(engine, PAGE).open_with(&path, &memory).unwrap();
            let held = [reader.next_span().unwrap().unwrap(), reader.next_span().unwrap().unwrap()];
            let closer = thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                memory.0.close();
            });
            let error = reader.next_span().unwrap_err();
            assert!(matches!(error, SourceError::Cancelled), "{error}");
            closer.join().unwrap();
            drop(held);
        }
    });
}

#[test]
fn memory_returns_even_if_reading_is_aborted() {
    let scratch = Scratch::new();
    let path = scratch.file(&random_bytes(50 * PAGE));
    for engine in engines() {
        for spans in [0, 1, 5] {
            let memory = pool(16 * PAGE);
            let reading = Reading { depth: 16, ..Reading::new(engine.clone(), PAGE) };
            let mut reader = reading.open_with(&path, &memory).unwrap();
            for _ in 0..spans {
                assert!(reader.next_span().unwrap().is_some());
            }
            drop(reader);
            assert!(memory.0.try_allocate(16 * PAGE).is_some(), "{spans} {reading:?}");
        }
    }
}

#[test]
fn traits_name_the_engine() {
    let scratch = Scratch::new();
    let path = scratch.file(&random_bytes(3 * PAGE));
    for engine in engines() {
        let name = engine.name();
        let mut reader = Reading::new(engine, PAGE).open(&path).unwrap();
        reader.next_span().unwrap();
        assert_eq!(reader.traits().engine, Some(name));
        assert!(!reader.is_empty());
    }
}
