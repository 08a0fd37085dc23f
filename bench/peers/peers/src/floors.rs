//! Floors: what the machine takes for parts of the job alone.
//!
//! An unpacker reads, decodes and writes. Each floor does less than that, by the cheapest means
//! known, so that a time can be told from what it cannot be better than.

use crate::manifest::sizes;
use crate::tar_rs::READ_BYTES;
use anyhow::{Context, Result, anyhow};
use clap::Subcommand;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use zstd::stream::read::Decoder;

/// Unit of direct I/O: lengths, offsets and addresses are multiples of it.
const BLOCK_BYTES: usize = 4096;

/// Most bytes written at once into one of many files.
const PIECE_BYTES: usize = 4 << 20;

/// Bytes written at once into a single file.
const CHUNK_BYTES: usize = 1 << 20;

/// Files smaller than this are written through the page cache.
const DIRECT_FILE_BYTES_MIN: u64 = 32 << 10;

/// Reads of the archive under way.
const READ_DEPTH: usize = 8;

/// Writes under way into a preallocated file.
const PREALLOCATED_DEPTH: usize = 16;

/// A floor to measure.
#[derive(Subcommand)]
pub enum Floor {
    /// Decode an archive into nothing, by the zstd crate's streaming reader
    Decode {
        /// The archive
        archive: PathBuf,
    },
    /// Write files of the sizes in the archive, while another thread reads the archive
    Mixed {
        /// The archive
        archive: PathBuf,
        /// Its manifest
        manifest: PathBuf,
        /// Directory to write into
        output: PathBuf,
        /// Threads that write [default: what is fastest for files of that size]
        #[arg(long)]
        threads: Option<usize>,
    },
    /// Write files of the sizes in the archive
    WriteFiles {
        /// Manifest of the archive
        manifest: PathBuf,
        /// Directory to write into
        output: PathBuf,
        /// Threads that write [default: what is fastest for files of that size]
        #[arg(long)]
        threads: Option<usize>,
    },
    /// Write one file that grows
    WriteGrowing {
        /// Its length in the end
        bytes: u64,
        /// Directory to write into
        output: PathBuf,
    },
    /// Write one file whose blocks are allocated first
    WritePrealloc {
        /// Its length
        bytes: u64,
        /// Directory to write into
        output: PathBuf,
    },
}

impl Floor {
    /// Does it. Nothing is synced: that is left to whoever measures, for all tools alike.
    pub fn run(&self) -> Result<()> {
        match self {
            Self::Decode { archive } => decode(archive),
            Self::Mixed { archive, manifest, output, threads } => thread::scope(|scope| {
                let reader = scope.spawn(|| read_directly(archive));
                let sizes = sizes(manifest)?;
                write_files(&sizes, output, threads.unwrap_or_else(|| writers(&sizes)))?;
                joined(reader)
            }),
            Self::WriteFiles { manifest, output, threads } => {
                let sizes = sizes(manifest)?;
                write_files(&sizes, output, threads.unwrap_or_else(|| writers(&sizes)))
            }
            Self::WriteGrowing { bytes, output } => write_growing(*bytes, &output.join("growing")),
            Self::WritePrealloc { bytes, output } => {
                write_preallocated(*bytes, &output.join("preallocated"))
            }
        }
    }
}

fn decode(archive: &Path) -> Result<()> {
    let file = File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
    let mut decoder = Decoder::with_buffer(BufReader::with_capacity(READ_BYTES, file))?;
    let mut buffer = vec![0; CHUNK_BYTES];
    while decoder.read(&mut buffer)? > 0 {}
    Ok(())
}

fn read_directly(archive: &Path) -> Result<()> {
    let file = direct(OpenOptions::new().read(true), archive)?;
    let length = file.metadata()?.len();
    let next = AtomicU64::new(0);
    in_threads(READ_DEPTH, || {
        let mut memory = Aligned::new(CHUNK_BYTES);
        loop {
            let offset = next.fetch_add(CHUNK_BYTES as u64, Ordering::Relaxed);
            if offset >= length {
                return Ok(());
            }
            file.read_at(memory.bytes_mut(), offset)?;
        }
    })
}

/// Threads that write files of these sizes fastest: a direct write keeps its thread until the device
/// is done, and small files only make threads wait for the directory.
fn writers(sizes: &[u64]) -> usize {
    let mean = sizes.iter().sum::<u64>() / (sizes.len() as u64).max(1);
    if mean < DIRECT_FILE_BYTES_MIN { 2 } else { 8 }
}

fn write_files(sizes: &[u64], output: &Path, threads: usize) -> Result<()> {
    let (memory, next) = (Aligned::random(PIECE_BYTES), AtomicUsize::new(0));
    let data = memory.bytes();
    in_threads(threads, || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(size) = sizes.get(index) else { return Ok(()) };
            let path = output.join(index.to_string());
            write_file(&path, *size, data)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    })
}

fn write_file(path: &Path, size: u64, data: &[u8]) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let direct = size >= DIRECT_FILE_BYTES_MIN;
    if direct {
        options.custom_flags(direct_flag()?);
    }
    let file = options.open(path)?;
    let mut offset = 0;
    while offset < size {
        let piece = usize::try_from(size - offset).unwrap_or(usize::MAX).min(data.len());
        let written = if direct { piece.next_multiple_of(BLOCK_BYTES) } else { piece };
        file.write_all_at(&data[..written], offset)?;
        offset += written as u64;
    }
    if offset > size {
        file.set_len(size)?;
    }
    Ok(())
}

fn write_growing(bytes: u64, path: &Path) -> Result<()> {
    let memory = Aligned::random(CHUNK_BYTES);
    let file = direct(OpenOptions::new().write(true).create_new(true), path)?;
    for offset in (0..bytes).step_by(CHUNK_BYTES) {
        file.write_all_at(memory.bytes(), offset)?;
    }
    Ok(file.set_len(bytes)?)
}

fn write_preallocated(bytes: u64, path: &Path) -> Result<()> {
    let memory = Aligned::random(CHUNK_BYTES);
    let data = memory.bytes();
    let file = direct(OpenOptions::new().write(true).create_new(true), path)?;
    let chunk = CHUNK_BYTES as u64;
    fallocate(&file, FallocateFlags::empty(), 0, bytes.next_multiple_of(chunk))?;
    let next = AtomicU64::new(0);
    in_threads(PREALLOCATED_DEPTH, || {
        loop {
            let offset = next.fetch_add(chunk, Ordering::Relaxed);
            if offset >= bytes {
                return Ok(());
            }
            file.write_all_at(data, offset)?;
        }
    })?;
    Ok(file.set_len(bytes)?)
}

/// Does the same in so many threads; the first error counts.
fn in_threads(threads: usize, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        started.into_iter().try_for_each(joined)
    })
}

fn joined(thread: thread::ScopedJoinHandle<Result<()>>) -> Result<()> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}

fn direct(options: &mut OpenOptions, path: &Path) -> Result<File> {
    options
        .custom_flags(direct_flag()?)
        .open(path)
        .with_context(|| format!("cannot open {} for direct I/O", path.display()))
}

fn direct_flag() -> Result<i32> {
    Ok(OFlags::DIRECT.bits().try_into()?)
}

/// Memory that direct I/O accepts, found within a larger allocation.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let memory = vec![0; length + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self { memory, start, length }
    }

    /// Filled by a generator, because a device may have a short cut for zeros.
    fn random(length: usize) -> Self {
        let mut aligned = Self::new(length);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for word in aligned.bytes_mut().chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        aligned
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn memory_is_aligned_and_not_zero() {
        let memory = Aligned::random(2 * BLOCK_BYTES);
        assert_eq!(memory.bytes().as_ptr().align_offset(BLOCK_BYTES), 0);
        assert_eq!(memory.bytes().len(), 2 * BLOCK_BYTES);
        assert!(memory.bytes().iter().any(|byte| *byte != 0));
    }

    #[test]
    fn files_have_their_exact_sizes() {
        // Not in a temporary directory, which may be one that refuses direct I/O.
        let program = std::env::current_exe().unwrap();
        let directory = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let sizes = [0, 5, 32 << 10, 100_001, (9 << 20) + 1];
        write_files(&sizes, directory.path(), 2).unwrap();
        for (index, size) in sizes.iter().enumerate() {
            let file = directory.path().join(index.to_string());
            assert_eq!(fs::metadata(file).unwrap().len(), *size);
        }
        let one = directory.path().join("one");
        write_growing(3_000_001, &one).unwrap();
        assert_eq!(fs::metadata(&one).unwrap().len(), 3_000_001);
        let other = directory.path().join("other");
        write_preallocated(3_000_001, &other).unwrap();
        assert_eq!(fs::read(&one).unwrap(), fs::read(&other).unwrap());
        read_directly(&one).unwrap();
    }
}
