//! Generation of the archive from the tar stream: content is generated and compressed in parallel,
//! and written in order.

use crate::compress::{ZstdEncoder, lz4_frame, lz4_frame_info, must, zstd_frame_count};
use crate::firedancer::{FRAME_BYTES_MAX, filler, groups, push_header};
use crate::image::{Scratch, StorageEntry, TarImage};
use crate::ordered::ordered;
use crate::spec::ArchiveSpec;
use lz4_flex::frame::FrameEncoder;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

/// Smallest output of a job, except the last: large enough to be worth its overhead, small enough
/// to bound memory. 1, 4 and 16 MiB were equally fast (two cores, November 2026).
pub const PIECE_BYTES: u64 = 4 << 20;

/// Generates an archive from a tar stream. Each method writes one kind and returns the number of
/// frames that hold data.
pub struct Maker<'a> {
    spec: &'a ArchiveSpec,
    image: &'a TarImage,
    threads: NonZeroUsize,
}

impl<'a> Maker<'a> {
    pub fn new(spec: &'a ArchiveSpec, image: &'a TarImage) -> Self {
        Self { spec, image, threads: spec.thread_count() }
    }

    pub fn uncompressed(&self, output: &mut impl Write) -> io::Result<u64> {
        self.pieces(|piece| output.write_all(piece))?;
        Ok(0)
    }

    /// Writes one zstd frame. Our threads generate content, libzstd's threads compress it.
    pub fn zstd_one(&self, output: &mut impl Write) -> io::Result<u64> {
        let mut frame = OneFrame::new(self.spec, self.threads);
        self.pieces(|piece| frame.push(piece, output))?;
        frame.finish(output)?;
        Ok(1)
    }

    pub fn zstd_sized(&self, frame_bytes: u64, output: &mut impl Write) -> io::Result<u64> {
        self.sized(frame_bytes, output, |encoder, raw| encoder.sized(raw).to_vec())
    }

    /// Writes one lz4 frame, compressed by the calling thread alone because the blocks are linked.
    pub fn lz4_one(&self, output: &mut impl Write) -> io::Result<u64> {
        let mut encoder = FrameEncoder::with_frame_info(lz4_frame_info(), output);
        self.pieces(|piece| encoder.write_all(piece))?;
        encoder.finish()?;
        Ok(1)
    }

    pub fn lz4_sized(&self, frame_bytes: u64, output: &mut impl Write) -> io::Result<u64> {
        self.sized(frame_bytes, output, |_, raw| lz4_frame(raw))
    }

    /// Writes Firedancer's groups. Only the writer knows where a group ends in the file, so it adds
    /// the filler.
    pub fn zstd_firedancer<W: Write>(&self, output: &mut Counter<W>) -> io::Result<u64> {
        let mut worker = self.worker();
        let head = groups(self.image.head(), &mut worker.encoder);
        output.write_all(&head)?;
        let mut frames = zstd_frame_count(&head);

        let parts: Vec<GroupPart> = self.image.entries().iter().flat_map(group_parts).collect();
        let jobs = batches(parts.iter().map(|part| part.raw.end - part.raw.start));
        let compress = |worker: &mut Worker, job: u64| {
            let parts = &parts[jobs[crate::length(job)].clone()];
            let compressed = parts.iter().map(|part| (part, self.group_part(worker, part)));
            compressed.collect::<Vec<_>>()
        };
        ordered(
            self.threads,
            jobs.len() as u64,
            || self.worker(),
            compress,
            |parts| {
                parts.iter().try_for_each(|(part, compressed)| {
                    frames += 1 + u64::from(part.header.is_some());
                    output.write_all(compressed)?;
                    output.write_all(&if part.ends_group {
                        filler(output.bytes)
                    } else {
                        Vec::new()
                    })
                })
            },
        )?;

        let accounts_end = self.image.entries().last().map_or(0, |entry| entry.blocks().end);
        output.write_all(self.frame_of(&mut worker, accounts_end..self.image.length()))?;
        Ok(frames + 1)
    }

    /// Passes the tar stream to `consume` piece by piece. Buffers are reused: fresh ones would cost
    /// a page fault for every 4 KiB.
    fn pieces(&self, mut consume: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let spare: Mutex<Vec<Vec<u8>>> = Mutex::default();
        let spare = || spare.lock().unwrap_or_else(PoisonError::into_inner);
        let make = |scratch: &mut Scratch, job: u64| {
            let start = job * PIECE_BYTES;
            let length = PIECE_BYTES.min(self.image.length() - start);
            let mut piece = spare().pop().unwrap_or_default();
            piece.resize(crate::length(length), 0);
            self.image.fill(start, &mut piece, scratch);
            piece
        };
        let jobs = self.image.length().div_ceil(PIECE_BYTES);
        ordered(self.threads, jobs, Scratch::default, make, |piece| {
            consume(&piece)?;
            spare().push(piece);
            Ok(())
        })
    }

    /// Cuts the tar stream into frames of `frame_bytes`, compressed by `compress`.
    fn sized(
        &self,
        frame_bytes: u64,
        output: &mut impl Write,
        compress: impl Fn(&mut ZstdEncoder, &[u8]) -> Vec<u8> + Sync,
    ) -> io::Result<u64> {
        let job_bytes = PIECE_BYTES.div_ceil(frame_bytes) * frame_bytes;
        let make = |worker: &mut Worker, job: u64| {
            let start = job * job_bytes;
            self.fill(worker, start..(start + job_bytes).min(self.image.length()));
            let frames = worker.raw.chunks(crate::length(frame_bytes));
            frames.map(|frame| compress(&mut worker.encoder, frame)).collect::<Vec<_>>()
        };
        let jobs = self.image.length().div_ceil(job_bytes);
        ordered(
            self.threads,
            jobs,
            || self.worker(),
            make,
            |frames| frames.iter().try_for_each(|frame| output.write_all(frame)),
        )?;
        Ok(self.image.length().div_ceil(frame_bytes))
    }

    fn group_part(&self, worker: &mut Worker, part: &GroupPart) -> Vec<u8> {
        let mut compressed = Vec::new();
        if let Some(entry) = part.header {
            push_header(&mut compressed, &entry.header());
        }
        compressed.extend_from_slice(self.frame_of(worker, part.raw.clone()));
        compressed
    }

    /// Returns a part of the tar stream as a frame without content size.
    fn frame_of<'w>(&self, worker: &'w mut Worker, range: Range<u64>) -> &'w [u8] {
        self.fill(worker, range);
        worker.encoder.unsized_frame(&worker.raw)
    }

    fn fill(&self, worker: &mut Worker, range: Range<u64>) {
        worker.raw.resize(crate::length(range.end - range.start), 0);
        self.image.fill(range.start, &mut worker.raw, &mut worker.scratch);
    }

    fn worker(&self) -> Worker {
        Worker {
            raw: Vec::new(),
            scratch: Scratch::default(),
            encoder: ZstdEncoder::new(self.spec.level, self.spec.checksum, None),
        }
    }
}

/// State that a thread keeps from job to job.
struct Worker {
    raw: Vec<u8>,
    scratch: Scratch,
    encoder: ZstdEncoder,
}

/// One compressed frame of a Firedancer group, preceded by the header's frame if it is the first.
struct GroupPart<'a> {
    header: Option<&'a StorageEntry>,
    raw: Range<u64>,
    ends_group: bool,
}

fn group_parts(entry: &StorageEntry) -> impl Iterator<Item = GroupPart<'_>> {
    let blocks = entry.blocks();
    cut(blocks.clone(), FRAME_BYTES_MAX as u64).map(move |raw| GroupPart {
        header: (raw.start == blocks.start).then_some(entry),
        ends_group: raw.end == blocks.end,
        raw,
    })
}

/// One zstd frame, compressed by libzstd's own threads.
///
/// libzstd cuts the input into jobs of a fixed length, so its output does not depend on the number
/// of threads. Long jobs with access to a full window of earlier data come close to the output of a
/// single thread: only repeat offsets start afresh in every job.
struct OneFrame {
    context: CCtx<'static>,
    buffer: Vec<u8>,
}

impl OneFrame {
    /// 2 MiB, the default at level 1, was as fast. Longer jobs come closer to a single one.
    const JOB_BYTES: u32 = 4 << 20;
    /// The end of the logarithmic scale: a job may refer to a whole window before it.
    const OVERLAP_FULL: u32 = 9;

    fn new(spec: &ArchiveSpec, threads: NonZeroUsize) -> Self {
        let mut context = CCtx::create();
        // libzstd accepts at most 256 workers. Zero workers would select another algorithm.
        let workers = u32::try_from(threads.get().min(256)).unwrap_or(256);
        for parameter in [
            CParameter::CompressionLevel(spec.level),
            CParameter::ChecksumFlag(spec.checksum),
            CParameter::NbWorkers(workers),
            CParameter::JobSize(Self::JOB_BYTES),
            CParameter::OverlapSizeLog(Self::OVERLAP_FULL),
        ] {
            must(context.set_parameter(parameter));
        }
        Self { context, buffer: Vec::with_capacity(CCtx::out_size()) }
    }

    fn push(&mut self, raw: &[u8], output: &mut impl Write) -> io::Result<()> {
        self.run(raw, ZSTD_EndDirective::ZSTD_e_continue, output)
    }

    fn finish(&mut self, output: &mut impl Write) -> io::Result<()> {
        self.run(&[], ZSTD_EndDirective::ZSTD_e_end, output)
    }

    fn run(
        &mut self,
        raw: &[u8],
        end: ZSTD_EndDirective,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let mut input = InBuffer::around(raw);
        loop {
            self.buffer.clear();
            let mut buffer = OutBuffer::around(&mut self.buffer);
            let pending = must(self.context.compress_stream2(&mut buffer, &mut input, end));
            output.write_all(&self.buffer)?;
            let flushed = end == ZSTD_EndDirective::ZSTD_e_continue || pending == 0;
            if input.pos() == raw.len() && flushed {
                return Ok(());
            }
        }
    }
}

/// A writer that counts its bytes.
pub struct Counter<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Counter<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, bytes: 0 }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<W: Write> Write for Counter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Groups neighbouring sizes until each group reaches [`PIECE_BYTES`].
pub fn batches(sizes: impl Iterator<Item = u64>) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut batch_bytes = PIECE_BYTES;
    for (index, size) in sizes.enumerate() {
        match batches.last_mut() {
            Some(batch) if batch_bytes < PIECE_BYTES => batch.end = index + 1,
            _ => {
                batches.push(index..index + 1);
                batch_bytes = 0;
            }
        }
        batch_bytes += size;
    }
    batches
}

/// Cuts a range into pieces of `bytes`, the last one shorter.
pub fn cut(range: Range<u64>, bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = range;
    (0..(end - start).div_ceil(bytes)).map(move |piece| {
        let start = start + piece * bytes;
        start..(start + bytes).min(end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_everything_once_and_in_order() {
        let sizes = [1, PIECE_BYTES - 1, PIECE_BYTES, 5, 3 * PIECE_BYTES, 2, 2];
        assert_eq!(batches(sizes.into_iter()), [0..2, 2..3, 3..5, 5..7]);
        assert_eq!(batches(std::iter::empty()), []);
    }

    #[test]
    fn cuts_cover_the_range() {
        assert_eq!(cut(10..35, 10).collect::<Vec<_>>(), [10..20, 20..30, 30..35]);
        assert_eq!(cut(10..30, 10).count(), 2);
        assert_eq!(cut(10..10, 10).count(), 0);
    }
}
