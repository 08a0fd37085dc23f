//! Jobs whose decoded size is not known beforehand. Workers decode them all at the same time, and the
//! planner takes the results in stream order, which gives each its offset in the decoded stream.

use std::{collections::VecDeque, sync::Arc};

use crossbeam::channel::{Receiver, TryRecvError, bounded};
use unsnap_arena::{OpenSegment, Segment};

use crate::{
    DecodeError, DecodedSegment, FrameStarts, Position,
    output::{Output, Piece, died},
    work::{Outcome, Unplaced, UnplacedJob, Workers},
};

/// Most jobs at a time. Their segments bound their bytes; this bounds their number.
const PENDING_MAX: usize = 256;

/// Where results go.
pub(crate) trait Sink {
    fn output(&mut self) -> &mut Output;

    /// Sees a segment before it is sent.
    fn passing(&mut self, segment: &Segment) -> Result<(), DecodeError> {
        let _ = segment;
        Ok(())
    }
}

impl Sink for Output {
    fn output(&mut self) -> &mut Output {
        self
    }
}

/// Jobs in flight, in stream order.
pub(crate) struct InOrder {
    workers: Workers,
    pending: VecDeque<Pending>,
    frame_starts: Option<Arc<FrameStarts>>,
}

struct Pending {
    promise: Receiver<Outcome>,
    /// Position at which the job ends.
    end: Position,
    /// Most bytes that it decodes to.
    bytes_max: usize,
}

impl InOrder {
    pub fn new(workers: Workers) -> Self {
        Self { workers, pending: VecDeque::new(), frame_starts: None }
    }

    /// Notes where frames begin.
    pub fn note(self, frame_starts: Arc<FrameStarts>) -> Self {
        Self { frame_starts: Some(frame_starts), ..self }
    }

    /// Returns whether offsets in the decoded stream are not known, because jobs are in flight.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Passes a job to the workers. It decodes to `bytes_max` bytes at most and ends at `end`.
    pub fn submit(
        &mut self,
        what: impl Unplaced + 'static,
        bytes_max: usize,
        end: Position,
        sink: &mut impl Sink,
    ) -> Result<(), DecodeError> {
        while self.pending.len() >= PENDING_MAX || self.is_ready() {
            self.take_next(sink)?;
        }
        // Segments cannot be empty. Jobs without content get one byte of room.
        let segment = self.open(bytes_max.max(1), sink)?;
        let (reply, promise) = bounded(1);
        self.workers.send(UnplacedJob { what: Box::new(what), segment, reply })?;
        self.pending.push_back(Pending { promise, end, bytes_max });
        Ok(())
    }

    /// Takes all results.
    pub fn settle(&mut self, sink: &mut impl Sink) -> Result<(), DecodeError> {
        while self.is_pending() {
            self.take_next(sink)?;
        }
        Ok(())
    }

    /// Opens a segment. Only the planner can return the memory of results that it has not taken, so
    /// it waits for memory only when it has taken all.
    fn open(&mut self, bytes: usize, sink: &mut impl Sink) -> Result<OpenSegment, DecodeError> {
        loop {
            if !self.is_pending() {
                return sink.output().open(bytes);
            }
            let before: usize = self.pending.iter().map(|pending| pending.bytes_max).sum();
            // Where the job will begin if those before it are as large as they can be. Blocks often
            // are, and then nothing needs to be moved.
            let expected = sink.output().raw_offset + before as u64;
            if let Some(open) = sink.output().try_open(expected, bytes) {
                return Ok(open);
            }
            self.take_next(sink)?;
        }
    }

    /// Returns whether the next result is there.
    fn is_ready(&self) -> bool {
        self.pending.front().is_some_and(|pending| !pending.promise.is_empty())
    }

    /// Waits for the next result in stream order and sends it.
    fn take_next(&mut self, sink: &mut impl Sink) -> Result<(), DecodeError> {
        let Some(Pending { promise, end, .. }) = self.pending.pop_front() else { return Ok(()) };
        let outcome = match promise.try_recv() {
            Ok(outcome) => Ok(outcome),
            Err(TryRecvError::Empty) => self.workers.await_reply(&promise),
            Err(TryRecvError::Disconnected) => Err(died()),
        };
        let sent = outcome.and_then(|outcome| self.send(outcome, end, sink));
        if sent.is_err() {
            // Nothing behind the damage counts.
            self.pending.clear();
        }
        sent
    }

    fn send(
        &self,
        outcome: Outcome,
        end: Position,
        sink: &mut impl Sink,
    ) -> Result<(), DecodeError> {
        let Outcome { segment: mut open, at, starts, damage } = outcome;
        let raw_offset = sink.output().raw_offset;
        let placed = |at: Position| Position { raw_offset: raw_offset + at.raw_offset, ..at };
        if let Some(frame_starts) = &self.frame_starts {
            for start in starts {
                frame_starts.note(placed(start));
            }
        }
        let bytes = open.filled() as u64;
        if bytes > 0 {
            open.place(raw_offset);
            let segment = open.seal();
            sink.passing(&segment)?;
            let at = placed(at);
            sink.output().send(Piece::Ready(DecodedSegment { segment, at }))?;
        }
        sink.output().count(bytes, Position { raw_offset, ..end })?;
        match damage {
            None => Ok(()),
            Some((at, reason)) => Err(DecodeError::Corrupt { at: placed(at), reason }),
        }
    }
}
