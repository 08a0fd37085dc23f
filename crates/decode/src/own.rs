//! Engine for the decoder of `unsnap-zstd`: all threads decode the blocks of one frame, or of many
//! small ones.
//!
//! ```text
//!               ┌─▶ parse ─┐
//! blocks ─chunks┼─▶ parse ─┼─ in stream order ─▶ execute ─▶ segments
//!               └─▶ parse ─┘
//! ```
//!
//! The planner cuts the archive into chunks of about a mebibyte and executes them in their order;
//! workers parse them, all at the same time. The number of chunks is fixed. When all are in use, the
//! planner executes the next, or parses one that no worker has taken, and waits only for a chunk that
//! a worker is parsing. So no core idles while there is work, and with one thread the planner does
//! everything.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, Sender, TryRecvError, bounded};
use unsnap_source::SourceError;
use unsnap_zstd::{BLOCK_HEADER_BYTES, BlockHeader, FrameHeader, FrameState, Parser};

use crate::{
    DecodeError, FrameStarts, MemoryPlan, Position,
    chunk::{Chunk, ChunkJob, Ending, Part},
    cursor::{Cursor, Spans},
    execution::Execution,
    output::{Output, died},
};

/// Sender and receiver of chunks that are to be parsed. Workers have clones of the receiver.
pub(crate) type ChunkQueue = (Sender<ChunkJob>, Receiver<ChunkJob>);

/// Returns the queue for a plan. It never fills, since there are no more chunks.
pub(crate) fn chunk_queue(plan: &MemoryPlan) -> ChunkQueue {
    bounded(plan.chunks.max(1))
}

pub(crate) struct Own {
    queue: ChunkQueue,
    /// Chunks not in use.
    free: Vec<Chunk>,
    /// The chunk that is being cut.
    open: Option<Chunk>,
    /// Chunks that are parsed or will be, in stream order.
    pending: VecDeque<Receiver<Chunk>>,
    parser: Parser,
    execution: Execution,
    segment_bytes: usize,
    /// Time spent waiting for workers.
    pub waited: Duration,
}

/// The frame that is being cut.
struct Cut {
    header: FrameHeader,
    at: Position,
    state: FrameState,
    blocks: u64,
}

impl Own {
    /// Creates the engine. Returns `None` if the plan has no memory for it.
    pub fn new(
        plan: &MemoryPlan,
        queue: ChunkQueue,
        frame_starts: Arc<FrameStarts>,
    ) -> Option<Self> {
        let chunk = |_| Chunk::new(plan.chunk_blocks_max);
        (plan.chunks > 0).then(|| Self {
            queue,
            free: (0..plan.chunks).map(chunk).collect(),
            open: None,
            pending: VecDeque::with_capacity(plan.chunks),
            parser: Parser::new(),
            execution: Execution::new(plan.segment_bytes, frame_starts),
            segment_bytes: plan.segment_bytes,
            waited: Duration::ZERO,
        })
    }

    /// Returns whether a frame can be decoded here: its window fits into a segment, beside a block.
    pub fn takes(&self, header: &FrameHeader) -> bool {
        let window = usize::try_from(header.window_bytes).unwrap_or(usize::MAX);
        window.saturating_add(header.block_bytes_max()) <= self.segment_bytes
    }

    /// Cuts the frame at the cursor into chunks. Their bytes are returned now or later, and damage is
    /// reported when it is its turn. `at` is the position of the frame, except for its offset in the
    /// decoded stream, which is not known yet; nor is it in errors of the frame's form, before which
    /// [`settle`](Self::settle) must be called.
    pub fn frame<S: Spans>(
        &mut self,
        cursor: &mut Cursor<S>,
        header: &FrameHeader,
        at: Position,
        output: &mut Output,
        progress: &impl Fn(u64),
    ) -> Result<(), DecodeError> {
        cursor.skip(header.header_bytes as u64)?;
        let mut cut = Cut { header: *header, at, state: FrameState::new(), blocks: 0 };
        loop {
            let offset = cursor.offset();
            let block = cut.block_header(cursor)?;
            let mut chunk = self.chunk_for(&block, &cut, offset, output, progress)?;
            let appended = cut.append(&mut chunk, block, cursor);
            self.open = Some(chunk);
            appended?;
            if block.last {
                break;
            }
        }
        let checksum = header.has_checksum.then(|| cut.take(cursor)).transpose()?;
        let ending = Ending { checksum, offset: cursor.offset() };
        if let Some(part) = self.open.as_mut().and_then(|chunk| chunk.parts.last_mut()) {
            part.ends = Some(ending);
        }
        Ok(())
    }

    /// Returns the chunk for the next block of a frame: the open one, or a new one if that is full.
    fn chunk_for(
        &mut self,
        block: &BlockHeader,
        cut: &Cut,
        offset: u64,
        output: &mut Output,
        progress: &impl Fn(u64),
    ) -> Result<Chunk, DecodeError> {
        let begins = cut.blocks == 0;
        if let Some(mut chunk) = self.open.take() {
            if begins {
                chunk.slot.next_frame(&cut.header);
            }
            if chunk.slot.fits(block) {
                if begins {
                    chunk.parts.push(cut.part(chunk.slot.blocks(), offset));
                }
                return Ok(chunk);
            }
            self.submit(chunk)?;
            progress(offset);
        }
        let mut chunk = self.free_chunk(output)?;
        chunk.slot.begin(&cut.header, &cut.state);
        chunk.parts.clear();
        chunk.parts.push(cut.part(0, offset));
        Ok(chunk)
    }

    fn submit(&mut self, chunk: Chunk) -> Result<(), DecodeError> {
        let (reply, promise) = bounded(1);
        self.queue.0.try_send(ChunkJob { chunk, reply }).map_err(|_| died())?;
        self.pending.push_back(promise);
        Ok(())
    }

    /// Returns a free chunk. Executes all that are parsed before, so that later stages do not wait.
    fn free_chunk(&mut self, output: &mut Output) -> Result<Chunk, DecodeError> {
        loop {
            while let Some(chunk) = self.next_parsed()? {
                self.execute(chunk, output)?;
            }
            if let Some(chunk) = self.free.pop() {
                return Ok(chunk);
            }
            self.await_next(output)?;
        }
    }

    /// Returns the next chunk in stream order, if it is parsed.
    fn next_parsed(&mut self) -> Result<Option<Chunk>, DecodeError> {
        let Some(promise) = self.pending.front() else { return Ok(None) };
        match promise.try_recv() {
            Ok(chunk) => {
                self.pending.pop_front();
                Ok(Some(chunk))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(died()),
        }
    }

    /// Parses a chunk that no worker has taken, or waits for the next in stream order and executes
    /// it.
    fn await_next(&mut self, output: &mut Output) -> Result<(), DecodeError> {
        if let Ok(job) = self.queue.1.try_recv() {
            job.run(&mut self.parser);
            return Ok(());
        }
        let Some(promise) = self.pending.pop_front() else { return Ok(()) };
        let since = Instant::now();
        let parsed = promise.recv();
        self.waited += since.elapsed();
        self.execute(parsed.map_err(|_| died())?, output)
    }

    fn execute(&mut self, chunk: Chunk, output: &mut Output) -> Result<(), DecodeError> {
        let executed = self.execution.chunk(&chunk, output);
        self.free.push(chunk);
        if executed.is_err() {
            // Nothing behind the damage counts.
            while self.queue.1.try_recv().is_ok() {}
            self.pending.clear();
            self.open = None;
        }
        executed
    }

    /// Executes all that has been cut so far. Returns whether there was anything.
    pub fn settle(&mut self, output: &mut Output) -> Result<bool, DecodeError> {
        let open = self.open.take();
        let any = open.is_some() || !self.pending.is_empty();
        if let Some(chunk) = open {
            self.submit(chunk)?;
        }
        while !self.pending.is_empty() {
            match self.next_parsed()? {
                Some(chunk) => self.execute(chunk, output)?,
                None => self.await_next(output)?,
            }
        }
        Ok(any)
    }

    /// Sends the bytes of the open segment, after [`settle`](Self::settle).
    pub fn flush(&mut self, output: &mut Output) -> Result<(), DecodeError> {
        self.execution.finish(output)
    }
}

impl Cut {
    fn part(&self, first: usize, offset: u64) -> Part {
        Part {
            first,
            frame_at: self.at,
            header: self.header,
            begins: self.blocks == 0,
            block: self.blocks,
            offset,
            ends: None,
        }
    }

    fn block_header<S: Spans>(&self, cursor: &mut Cursor<S>) -> Result<BlockHeader, DecodeError> {
        let at = self.position(cursor.offset());
        let bytes = self.take::<_, BLOCK_HEADER_BYTES>(cursor)?;
        BlockHeader::parse(bytes, self.header.block_bytes_max()).map_err(|defect| {
            DecodeError::Corrupt { at, reason: format!("{defect} (block {})", self.blocks) }
        })
    }

    fn append<S: Spans>(
        &mut self,
        chunk: &mut Chunk,
        block: BlockHeader,
        cursor: &mut Cursor<S>,
    ) -> Result<(), DecodeError> {
        let at = self.at;
        chunk.slot.append(block, &mut self.state, |target| match cursor.fill(target) {
            Ok(true) => Ok(()),
            Ok(false) => Err(truncated(Position { compressed_offset: cursor.offset(), ..at })),
            Err(error) => Err(error.into()),
        })?;
        self.blocks += 1;
        Ok(())
    }

    fn take<S: Spans, const N: usize>(
        &self,
        cursor: &mut Cursor<S>,
    ) -> Result<[u8; N], DecodeError> {
        let taken: Result<_, SourceError> =
            cursor.take(N).map(|bytes| bytes.and_then(|bytes| bytes.first_chunk()).copied());
        taken?.ok_or_else(|| truncated(self.position(cursor.offset())))
    }

    fn position(&self, compressed_offset: u64) -> Position {
        Position { compressed_offset, ..self.at }
    }
}

fn truncated(at: Position) -> DecodeError {
    DecodeError::Truncated { at, inside: "a zstd frame" }
}
