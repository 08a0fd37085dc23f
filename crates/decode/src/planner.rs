//! The planner: reads the archive from front to back and passes each frame to an engine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crossbeam::channel::Sender;
use unsnap_arena::Pool;
use unsnap_source::Source;
use unsnap_zstd::{FRAME_HEADER_BYTES_MAX, FrameHeader, FrameStart, frame_start};

use crate::{
    DecodeError, DecodeSummary, Decoded, Format, FrameStarts, Limits, MemoryPlan, Position,
    ThreadTimes,
    batch::Batch,
    cursor::Cursor,
    error::{hex, no_thread},
    format::HEAD_BYTES,
    lz4::Lz4,
    output::{self, Output, Piece},
    own::{ChunkQueue, Own, chunk_queue},
    parallel::{WholeFrame, spawn_workers},
    plain,
    stream::{Streamed, Streaming},
    undeclared::Undeclared,
    work::Workers,
};

/// An archive to decode, and the resources to use.
pub struct Job {
    /// Source of the archive's bytes.
    pub source: Box<dyn Source>,
    /// Memory for segments, of `plan.segments_bytes` bytes.
    pub segments: Pool,
    /// Division of the memory.
    pub plan: MemoryPlan,
    /// Limits on the archive.
    pub limits: Limits,
    /// Number of decoding threads. With one, everything is streamed.
    pub threads: usize,
    /// Receives the number of compressed bytes passed so far.
    pub progress: Arc<AtomicU64>,
    /// Position at which the source begins: the default for the archive's beginning, otherwise the
    /// start of one of its zstd frames.
    pub begin: Position,
    /// Receives the starts of frames.
    pub frame_starts: Arc<FrameStarts>,
}

/// Starts decoding on new threads.
pub fn start(job: Job) -> Result<Decoded, DecodeError> {
    let (pieces, receiver) = output::queue();
    let chunks = chunk_queue(&job.plan);
    let (workers, worker_threads) = match job.threads {
        0 | 1 => (None, Vec::new()),
        count => spawn_workers(count, &chunks.1).map(|(all, threads)| (Some(all), threads))?,
    };
    let planner = thread::Builder::new()
        .name("unsnap-decode".to_owned())
        .spawn(move || run(job, workers, chunks, pieces))
        .map_err(|error| no_thread(&error))?;
    let threads = std::iter::once(planner).chain(worker_threads).collect();
    Ok(Decoded::new(receiver, threads))
}

fn run(
    job: Job,
    workers: Option<Workers>,
    chunks: ChunkQueue,
    pieces: Sender<Piece>,
) -> ThreadTimes {
    let started = Instant::now();
    let own = Own::new(&job.plan, chunks, Arc::clone(&job.frame_starts));
    let undeclared = |workers| Undeclared::new(&job.plan, workers, Arc::clone(&job.frame_starts));
    let mut planner = Planner {
        cursor: Cursor::new(job.source, job.begin.compressed_offset),
        output: Output::new(job.segments, pieces, job.limits.clone(), job.begin.raw_offset),
        batch: Batch::new(&job.plan, workers.clone()),
        undeclared: workers.clone().filter(|_| own.is_none() && !job.plan.is_kept).map(undeclared),
        own,
        workers,
        plan: job.plan,
        limits: job.limits,
        progress: job.progress,
        frame_starts: job.frame_starts,
        engine: Engine::Parallel,
        summary: DecodeSummary {
            frames: job.begin.frame,
            frames_before: job.begin.frame,
            ..DecodeSummary::default()
        },
    };
    let end = match planner.decode() {
        Ok(()) => Piece::End(planner.finish()),
        Err(error) => Piece::Failed(error),
    };
    // Nobody listens if the run is being aborted.
    let _ = planner.output.send(end);
    ThreadTimes {
        total: started.elapsed(),
        waited_for_reads: planner.cursor.source().waited(),
        waited_for_input: Duration::ZERO,
        waited_for_workers: planner.workers.map_or(Duration::ZERO, |workers| workers.waited())
            + planner.own.map_or(Duration::ZERO, |own| own.waited),
        waited_for_output: planner.output.waited + planner.cursor.source().waited_for_memory(),
    }
}

struct Planner {
    cursor: Cursor<Box<dyn Source>>,
    output: Output,
    /// `None` with one thread.
    workers: Option<Workers>,
    batch: Batch,
    /// `None` without workers, or with the own decoder.
    undeclared: Option<Undeclared>,
    /// `None` if libzstd decodes everything.
    own: Option<Own>,
    plan: MemoryPlan,
    limits: Limits,
    progress: Arc<AtomicU64>,
    frame_starts: Arc<FrameStarts>,
    /// Engine of the previous frame, which may have bytes that it has not sent.
    engine: Engine,
    summary: DecodeSummary,
}

/// Engine of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Parallel,
    Undeclared,
    Streaming,
    Own,
}

impl Planner {
    fn decode(&mut self) -> Result<(), DecodeError> {
        let head = self.cursor.peek(HEAD_BYTES)?;
        if head.is_empty() {
            return Err(DecodeError::Empty);
        }
        let progress = Arc::clone(&self.progress);
        let progress = move |offset| progress.store(offset, Ordering::Relaxed);
        let segment_bytes = self.plan.segment_bytes;
        self.summary.format = Format::detect(head);
        match self.summary.format {
            None => Err(DecodeError::UnknownFormat { found: hex(head) }),
            Some(Format::Zstd) => self.zstd(&progress),
            Some(Format::Lz4) => {
                let lz4 = Lz4 {
                    plan: &self.plan,
                    workers: self.workers.as_ref(),
                    limits: &self.limits,
                    starts: &self.frame_starts,
                };
                let found = lz4.decode(&mut self.cursor, &mut self.output, &progress)?;
                self.summary.frames = found.frames;
                self.summary.shared_frames = found.shared;
                self.summary.skippable_frames = found.skippable_frames;
                Ok(())
            }
            Some(Format::Tar) => {
                plain::pass(&mut self.cursor, segment_bytes, &mut self.output, &progress)
            }
        }
    }

    fn finish(&mut self) -> DecodeSummary {
        DecodeSummary {
            bytes_read: self.cursor.offset(),
            bytes_decoded: self.output.raw_offset,
            source: self.cursor.source().traits(),
            ..std::mem::take(&mut self.summary)
        }
    }

    /// Decodes all zstd frames up to the true end of the archive.
    fn zstd(&mut self, progress: &impl Fn(u64)) -> Result<(), DecodeError> {
        let mut streaming = Streaming::new(self.plan.clone())?;
        let result = self.zstd_frames(&mut streaming, progress);
        // Also after an error: all bytes before the damage are returned, so that the walk can
        // report how far the archive was good.
        let settled = self.settle();
        self.batch.dispatch(&mut self.output)?;
        streaming.flush(&mut self.output)?;
        if let Some(own) = &mut self.own {
            own.flush(&mut self.output)?;
        }
        let unknown = settled?;
        let raw_offset = self.output.raw_offset;
        result.map_err(|error| if unknown { error.at_raw_offset(raw_offset) } else { error })
    }

    fn zstd_frames(
        &mut self,
        streaming: &mut Streaming,
        progress: &impl Fn(u64),
    ) -> Result<(), DecodeError> {
        loop {
            let at = self.position();
            self.limits
                .check_frames(at.frame)
                .map_err(|exceeded| DecodeError::limit(at, exceeded))?;
            let head = self.cursor.peek(FRAME_HEADER_BYTES_MAX)?;
            if head.is_empty() {
                return Ok(());
            }
            let start = frame_start(head)
                .map_err(|defect| DecodeError::Corrupt { at, reason: defect.to_string() })?;
            let header = match start {
                FrameStart::Frame(header) => header,
                FrameStart::Skippable { bytes } => {
                    self.skip(bytes)?;
                    progress(self.cursor.offset());
                    continue;
                }
                FrameStart::Foreign => {
                    return Err(DecodeError::TrailingBytes { at, found: hex(head) });
                }
                FrameStart::Incomplete => {
                    let compressed_offset = at.compressed_offset + head.len() as u64;
                    let at = Position { compressed_offset, ..at };
                    return Err(DecodeError::Truncated { at, inside: "a frame header" });
                }
            };
            self.check(&header, at)?;
            self.frame(&header, streaming, progress)?;
            self.summary.frames += 1;
            progress(self.cursor.offset());
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<(), DecodeError> {
        // Firedancer's archives have a skippable frame behind every file: waiting for the frames in
        // front of each would make their decoding serial.
        if self.frame_starts.are_complete() {
            self.settle()?;
        }
        self.frame_starts.mark(self.position(), true);
        if !self.cursor.skip(bytes)? {
            let at = self.position();
            return Err(DecodeError::Truncated { at, inside: "a skippable frame" });
        }
        self.summary.skippable_frames += 1;
        Ok(())
    }

    /// Passes the frame at the cursor to an engine.
    fn frame(
        &mut self,
        header: &FrameHeader,
        streaming: &mut Streaming,
        progress: &impl Fn(u64),
    ) -> Result<(), DecodeError> {
        let undeclared = self.undeclared.as_ref();
        let continues = self.engine == Engine::Undeclared
            && undeclared.is_some_and(|undeclared| undeclared.continues(header));
        let content_bytes = self.batch.takes(header, self.engine == Engine::Parallel);
        if let Some(content_bytes) = content_bytes.filter(|_| !continues)
            && let Some(compressed) =
                self.batch.record(&mut self.cursor, header, &mut self.output)?
        {
            self.change_engine(Engine::Parallel, streaming)?;
            let bytes: usize = compressed.iter().map(|slice| slice.len()).sum();
            let end = self.cursor.offset();
            let at = Position { compressed_offset: end - bytes as u64, ..self.position() };
            self.frame_starts.note(at);
            let frame = WholeFrame { at, compressed, content_bytes: header.content_bytes };
            self.batch.add(frame, content_bytes, end, &mut self.output)?;
            self.summary.parallel_frames += 1;
            return Ok(());
        }
        let at = self.position();
        if self.own.as_ref().is_some_and(|own| own.takes(header)) {
            self.change_engine(Engine::Own, streaming)?;
            if let Some(own) = &mut self.own {
                own.frame(&mut self.cursor, header, at, &mut self.output, progress)?;
            }
            self.summary.own_frames += 1;
            return Ok(());
        }
        // The first frame may be all of the archive. To find out where it ends would delay the first
        // byte until the read buffer is full, which takes long from a slow pipe.
        let may_be_small = continues || (header.content_bytes.is_none() && at.frame > 0);
        if self.undeclared.is_some() && may_be_small {
            // Nothing else may hold parts of the read buffer.
            self.change_engine(Engine::Undeclared, streaming)?;
            if let Some(undeclared) = &mut self.undeclared
                && undeclared.frame(&mut self.cursor, header, at, &mut self.output)?
            {
                self.summary.parallel_frames += 1;
                return Ok(());
            }
        }
        self.change_engine(Engine::Streaming, streaming)?;
        self.frame_starts.note(self.position());
        let (cursor, output) = (&mut self.cursor, &mut self.output);
        let streamed = streaming.frame(cursor, header, at.frame, output, progress)?;
        self.summary.copied_frames += u64::from(streamed == Streamed::Copied);
        Ok(())
    }

    /// Makes another engine send all that it has.
    fn change_engine(
        &mut self,
        engine: Engine,
        streaming: &mut Streaming,
    ) -> Result<(), DecodeError> {
        if engine == self.engine {
            return Ok(());
        }
        match self.engine {
            Engine::Parallel => self.batch.dispatch(&mut self.output)?,
            Engine::Streaming => streaming.flush(&mut self.output)?,
            Engine::Undeclared => {
                self.settle()?;
            }
            Engine::Own => {
                self.settle()?;
                if let Some(own) = &mut self.own {
                    own.flush(&mut self.output)?;
                }
            }
        }
        self.engine = engine;
        Ok(())
    }

    /// Completes what engines have begun whose decoded size is not known before. Returns whether there
    /// was anything, so that offsets in the decoded stream were unknown.
    fn settle(&mut self) -> Result<bool, DecodeError> {
        if let Some(undeclared) = &mut self.undeclared
            && undeclared.is_pending()
        {
            undeclared.settle(&mut self.output)?;
            return Ok(true);
        }
        self.own.as_mut().map_or(Ok(false), |own| own.settle(&mut self.output))
    }

    fn position(&self) -> Position {
        Position {
            compressed_offset: self.cursor.offset(),
            frame: self.summary.frames + self.summary.skippable_frames,
            raw_offset: self.output.raw_offset + self.batch.content_bytes(),
        }
    }

    fn check(&self, header: &FrameHeader, at: Position) -> Result<(), DecodeError> {
        if header.dictionary != 0 {
            return Err(DecodeError::Unsupported { at, feature: "a zstd dictionary" });
        }
        self.limits
            .check_window(header.window_bytes)
            .map_err(|exceeded| DecodeError::limit(at, exceeded))
    }
}
