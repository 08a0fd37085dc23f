//! Running each stage alone, for comparison with the pipeline.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use rustix::fs::{OFlags, syncfs};
use unsnap_arena::Arena;
use unsnap_pass::{CancelToken, PassError, Progress};
use unsnap_ring::{DirectMode, EngineKind, Syscalls, probe_uring};
use unsnap_source::{ArchiveFile, SequentialFileReader, Source};

use super::error::cannot;

/// Memory for read-ahead. More made no difference in measurements.
const READ_BYTES: usize = 64 << 20;

/// Number of writing threads, the same as in a run with one device.
const WRITERS: usize = 8;

/// Size of a write: a segment of the pipeline.
const PIECE_BYTES: usize = 4 << 20;

/// Alignment that suffices for direct writes on any disk.
const ALIGNMENT: usize = 4096;

/// Minimum size of files that are written with direct I/O, the same as in the pipeline.
const DIRECT_BYTES_MIN: u64 = 128 << 10;

/// Reads the first bytes of the archive as a run does, and discards them.
pub fn read(
    archive: &Path,
    bytes: u64,
    progress: &Progress,
    cancel: &CancelToken,
) -> anyhow::Result<Duration> {
    let mut arena = Arena::builder().bytes(READ_BYTES).build().context("no memory")?;
    let pool = arena.pool(READ_BYTES).context("no memory")?;
    let engine = if probe_uring().is_ok() { EngineKind::Uring } else { EngineKind::Threads };
    let started = Instant::now();
    let file = ArchiveFile::open(&Syscalls::default(), archive, DirectMode::Auto)?;
    let mut reader = SequentialFileReader::builder(pool).engine(engine).limit(bytes).build(file)?;
    while let Some(span) = reader.next_span()? {
        progress.count_read(span.bytes.len() as u64);
        check(cancel)?;
    }
    Ok(started.elapsed())
}

/// Writes files of these sizes into a directory, and waits until they are durable.
pub fn write(
    directory: &Path,
    sizes: &[u64],
    progress: &Progress,
    cancel: &CancelToken,
) -> anyhow::Result<Duration> {
    let handles = (progress, cancel);
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let written: io::Result<()> = thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|seed| {
                scope.spawn({
                    let next = &next;
                    move || write_some(directory, sizes, next, seed, handles)
                })
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, io::Result<()>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().try_for_each(join)
    });
    check(cancel)?;
    written.map_err(cannot("write to", directory))?;
    let opened = File::open(directory).map_err(cannot("open", directory))?;
    syncfs(opened).map_err(io::Error::from).map_err(cannot("sync", directory))?;
    Ok(started.elapsed())
}

/// Counts progress, and says when to stop.
type Handles<'a> = (&'a Progress, &'a CancelToken);

/// Writes one file after the other, until no size is left or the run is cancelled.
fn write_some(
    directory: &Path,
    sizes: &[u64],
    next: &AtomicUsize,
    seed: usize,
    handles: Handles<'_>,
) -> io::Result<()> {
    let mut memory = vec![0; PIECE_BYTES + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let piece = &mut memory[start..start + PIECE_BYTES];
    fill(piece, seed as u64);
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(size) = sizes.get(index) else { return Ok(()) };
        write_one(&directory.join(index.to_string()), *size, piece, handles)?;
        if handles.1.is_cancelled() {
            return Ok(());
        }
    }
}

fn write_one(
    path: &Path,
    size: u64,
    piece: &[u8],
    (progress, cancel): Handles<'_>,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let direct = size >= DIRECT_BYTES_MIN;
    let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    let (file, direct) = match direct.then(|| options.clone().custom_flags(flags).open(path)) {
        Some(Ok(file)) => (file, true),
        // The file system refuses direct I/O; it may have created the file all the same.
        Some(Err(_)) => {
            (OpenOptions::new().write(true).create(true).truncate(true).open(path)?, false)
        }
        None => (options.open(path)?, false),
    };
    let mut offset = 0;
    while offset < size && !cancel.is_cancelled() {
        let left = usize::try_from(size - offset).unwrap_or(usize::MAX).min(piece.len());
        let wanted = if direct { left.next_multiple_of(ALIGNMENT) } else { left };
        file.write_all_at(&piece[..wanted], offset)?;
        progress.count_read(left as u64);
        offset += left as u64;
    }
    if direct { file.set_len(size) } else { Ok(()) }
}

/// Fills memory with bytes that no disk or file system can compress: xorshift (Marsaglia 2003).
fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for word in bytes.as_chunks_mut::<8>().0 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *word = state.to_le_bytes();
    }
}

/// Returns an error if the run has been cancelled.
pub fn check(cancel: &CancelToken) -> Result<(), PassError> {
    if cancel.is_cancelled() { Err(PassError::Cancelled) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_have_their_sizes() {
        let directory = tempfile::tempdir().unwrap();
        let progress = Progress::default();
        let sizes = [0, 1, 4096, 131_071, 131_072, 131_073, (4 << 20) + 5, 9 << 20];
        write(directory.path(), &sizes, &progress, &CancelToken::default()).unwrap();
        let written = progress.snapshot().bytes_read;
        assert_eq!(written, sizes.iter().sum::<u64>());
        for (index, size) in sizes.iter().enumerate() {
            let bytes = fs::read(directory.path().join(index.to_string())).unwrap();
            assert_eq!(bytes.len() as u64, *size);
            assert!(bytes.len() < 100 || bytes.iter().any(|byte| *byte != bytes[0]));
        }
        let file = directory.path().join("7");
        read(&file, u64::MAX, &progress, &CancelToken::default()).unwrap();
        assert_eq!(progress.snapshot().bytes_read, written + (9 << 20));
    }

    #[test]
    fn a_cancelled_write_stops() {
        let directory = tempfile::tempdir().unwrap();
        let cancel = CancelToken::default();
        cancel.cancel();
        let error =
            write(directory.path(), &[1 << 30; 100], &Progress::default(), &cancel).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(PassError::Cancelled)), "{error}");
    }
}
