//! Frame-parallel engine: workers that decode whole frames into segments. They also parse chunks for
//! the own decoder.

use std::{
    collections::VecDeque,
    thread::{self, JoinHandle},
    time::Instant,
};

use crossbeam::{
    channel::{Receiver, Sender, bounded, never},
    select,
};
use unsnap_arena::{OpenSegment, Slice};
use unsnap_zstd::Parser;

use crate::{
    DecodeError, DecodedSegment, Position, ThreadTimes,
    block::BlockDecoder,
    chunk::ChunkJob,
    cursor::Cursor,
    error::{no_context, no_thread},
    frame::size_mismatch,
    output::Done,
};

/// Consecutive frames to decode into one segment.
pub(crate) struct FrameJob {
    pub frames: Vec<WholeFrame>,
    pub segment: OpenSegment,
    pub reply: Sender<Done>,
}

/// One complete frame, with its declared size.
pub(crate) struct WholeFrame {
    pub at: Position,
    pub compressed: Vec<Slice>,
    pub content_bytes: usize,
}

/// Starts the workers, who take frames and `chunks`. They end when the returned sender is dropped.
pub(crate) fn spawn_workers(
    count: usize,
    chunks: &Receiver<ChunkJob>,
) -> Result<(Sender<FrameJob>, Vec<JoinHandle<ThreadTimes>>), DecodeError> {
    // One waiting job per worker keeps it busy without using more memory than that.
    let (jobs, inbox) = bounded(count);
    let mut workers = Vec::with_capacity(count);
    for index in 0..count {
        let decoder = BlockDecoder::new().ok_or_else(no_context)?;
        let inbox = Inbox { frames: inbox.clone(), chunks: chunks.clone() };
        let worker = thread::Builder::new()
            .name(format!("unsnap-zstd-{index}"))
            .spawn(move || run_worker(decoder, inbox))
            .map_err(|error| no_thread(&error))?;
        workers.push(worker);
    }
    Ok((jobs, workers))
}

/// What workers do.
enum Work {
    Frames(FrameJob),
    Chunk(ChunkJob),
}

struct Inbox {
    frames: Receiver<FrameJob>,
    chunks: Receiver<ChunkJob>,
}

impl Inbox {
    /// Returns the next work; `None` when there will be no more.
    fn next(&mut self) -> Option<Work> {
        loop {
            select! {
                recv(self.frames) -> job => return job.ok().map(Work::Frames),
                recv(self.chunks) -> job => match job {
                    Ok(job) => return Some(Work::Chunk(job)),
                    // Frames may still wait.
                    Err(_) => self.chunks = never(),
                },
            }
        }
    }
}

fn run_worker(mut decoder: BlockDecoder, mut inbox: Inbox) -> ThreadTimes {
    let started = Instant::now();
    let mut times = ThreadTimes::default();
    let mut parser = Parser::new();
    loop {
        let waiting_since = Instant::now();
        let work = inbox.next();
        times.waited_for_input += waiting_since.elapsed();
        match work {
            Some(Work::Frames(FrameJob { frames, segment, reply })) => {
                // Nobody listens if the run is being aborted; then the segment just returns to its
                // pool.
                let _ = reply.send(decode_frames(&mut decoder, frames, segment));
            }
            Some(Work::Chunk(job)) => job.run(&mut parser),
            None => break,
        }
    }
    times.total = started.elapsed();
    times
}

fn decode_frames(
    decoder: &mut BlockDecoder,
    frames: Vec<WholeFrame>,
    segment: OpenSegment,
) -> Done {
    let at = frames.first().map_or_else(Position::default, |frame| frame.at);
    decoder.open(segment);
    let mut decoded = Ok(());
    for frame in frames {
        decoded = decode_frame(decoder, frame);
        if decoded.is_err() {
            break;
        }
    }
    let segment = decoder.finish().map_err(|reason| (at, reason));
    let error = decoded.and(segment.as_ref().map(drop).map_err(Clone::clone)).err();
    Done {
        segment: segment.ok().flatten().map(|segment| DecodedSegment { segment, at }),
        error: error.map(|(at, reason)| DecodeError::Corrupt { at, reason }),
    }
}

fn decode_frame(decoder: &mut BlockDecoder, frame: WholeFrame) -> Result<(), (Position, String)> {
    let mut at = frame.at;
    decoder.begin().map_err(|reason| (at, reason))?;
    let mut cursor = Cursor::new(VecDeque::from(frame.compressed), at.compressed_offset);
    let mut decoded = 0;
    loop {
        at.compressed_offset = cursor.offset();
        at.raw_offset = frame.at.raw_offset + decoded;
        let wanted = decoder.wanted();
        if wanted == 0 {
            break;
        }
        let source = match cursor.take(wanted) {
            Ok(Some(source)) => source,
            Ok(None) => return Err((at, "the frame's blocks are inconsistent".to_owned())),
            Err(error) => return Err((at, error.to_string())),
        };
        decoded += decoder.feed(source).map_err(|reason| (at, reason))? as u64;
    }
    if !matches!(cursor.peek(1), Ok([])) {
        return Err((at, "the frame's blocks are inconsistent".to_owned()));
    }
    size_mismatch(frame.content_bytes as u64, decoded).map_or(Ok(()), |reason| Err((at, reason)))
}
