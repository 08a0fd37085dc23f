//! Workers: they decode whole frames, or independent lz4 blocks, into segments. They also parse chunks
//! for the own decoder and sum up what the checksum of an lz4 frame covers.

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
    work::{Damage, Job, Outcome, Tools, Unplaced, Workers},
};

/// Consecutive frames to decode into one segment.
pub(crate) struct FrameJob {
    pub frames: Vec<WholeFrame>,
    pub segment: OpenSegment,
    pub reply: Sender<Done>,
}

/// One complete frame.
pub(crate) struct WholeFrame {
    pub at: Position,
    pub compressed: Vec<Slice>,
    /// Its declared size.
    pub content_bytes: Option<u64>,
}

/// Frames of which not all declare their size.
pub(crate) struct UnplacedFrames(pub Vec<WholeFrame>);

/// Starts the workers, who also take `chunks`.
pub(crate) fn spawn_workers(
    count: usize,
    chunks: &Receiver<ChunkJob>,
) -> Result<(Workers, Vec<JoinHandle<ThreadTimes>>), DecodeError> {
    // One waiting job per worker keeps it busy without using more memory than that.
    let (work, inbox) = bounded::<Box<dyn Job>>(count);
    let mut threads = Vec::with_capacity(count);
    for index in 0..count {
        let decoder = BlockDecoder::new().ok_or_else(no_context)?;
        let inbox = Inbox { work: inbox.clone(), chunks: chunks.clone() };
        let thread = thread::Builder::new()
            .name(format!("unsnap-zstd-{index}"))
            .spawn(move || run_worker(decoder, inbox))
            .map_err(|error| no_thread(&error))?;
        threads.push(thread);
    }
    Ok((Workers::new(work), threads))
}

/// What a worker takes.
enum Taken {
    Job(Box<dyn Job>),
    Chunk(ChunkJob),
}

struct Inbox {
    work: Receiver<Box<dyn Job>>,
    chunks: Receiver<ChunkJob>,
}

impl Inbox {
    /// Returns the next work; `None` when there will be no more.
    fn next(&mut self) -> Option<Taken> {
        loop {
            select! {
                recv(self.work) -> work => return work.ok().map(Taken::Job),
                recv(self.chunks) -> job => match job {
                    Ok(job) => return Some(Taken::Chunk(job)),
                    // Frames may still wait.
                    Err(_) => self.chunks = never(),
                },
            }
        }
    }
}

fn run_worker(decoder: BlockDecoder, mut inbox: Inbox) -> ThreadTimes {
    let started = Instant::now();
    let mut times = ThreadTimes::default();
    let mut parser = Parser::new();
    let mut tools = Tools { decoder, gathered: Vec::new() };
    loop {
        let waiting_since = Instant::now();
        let taken = inbox.next();
        times.waited_for_input += waiting_since.elapsed();
        match taken {
            Some(Taken::Job(job)) => job.run(&mut tools),
            Some(Taken::Chunk(job)) => job.run(&mut parser),
            None => break,
        }
    }
    times.total = started.elapsed();
    times
}

impl Job for FrameJob {
    fn run(self: Box<Self>, tools: &mut Tools) {
        let Self { frames, segment, reply } = *self;
        // Nobody listens if the run is being aborted; then the segment just returns to its pool.
        let _ = reply.send(decode_frames(&mut tools.decoder, frames, segment));
    }
}

fn decode_frames(
    decoder: &mut BlockDecoder,
    frames: Vec<WholeFrame>,
    segment: OpenSegment,
) -> Done {
    let at = frames.first().map_or_else(Position::default, |frame| frame.at);
    let begin = segment.raw_offset();
    decoder.open(segment);
    let decoded = frames.into_iter().try_for_each(|frame| decode_frame(decoder, frame, begin));
    let segment = decoder.finish().map_err(|reason| (at, reason));
    let damage = decoded.and(segment.as_ref().map(drop).map_err(Clone::clone)).err();
    Done {
        segment: segment.ok().flatten().map(|segment| DecodedSegment { segment, at }),
        error: damage.map(|(at, reason)| DecodeError::Corrupt { at, reason }),
    }
}

impl Unplaced for UnplacedFrames {
    fn decode(self: Box<Self>, segment: OpenSegment, tools: &mut Tools) -> Option<Outcome> {
        let (Self(frames), decoder) = (*self, &mut tools.decoder);
        let at = frames.first().map_or_else(Position::default, |frame| frame.at);
        let at = Position { raw_offset: 0, ..at };
        let mut starts = Vec::with_capacity(frames.len());
        decoder.open(segment);
        let decoded = frames.into_iter().try_for_each(|frame| {
            starts.push(Position { raw_offset: decoder.filled() as u64, ..frame.at });
            decode_frame(decoder, frame, 0)
        });
        let segment = decoder.release().ok().flatten()?;
        Some(Outcome { segment, at, starts, damage: decoded.err() })
    }
}

/// Decodes a frame to the end of the open segment, which begins at `begin` in the decoded stream.
fn decode_frame(decoder: &mut BlockDecoder, frame: WholeFrame, begin: u64) -> Result<(), Damage> {
    let before = decoder.filled();
    let mut at = Position { raw_offset: begin + before as u64, ..frame.at };
    decoder.begin().map_err(|reason| (at, reason))?;
    let mut cursor = Cursor::new(VecDeque::from(frame.compressed), at.compressed_offset);
    loop {
        at.compressed_offset = cursor.offset();
        at.raw_offset = begin + decoder.filled() as u64;
        let wanted = decoder.wanted();
        if wanted == 0 {
            break;
        }
        let source = match cursor.take(wanted) {
            Ok(Some(source)) => source,
            Ok(None) => return Err((at, "the frame's blocks are inconsistent".to_owned())),
            Err(error) => return Err((at, error.to_string())),
        };
        decoder.feed(source).map_err(|reason| (at, reason))?;
    }
    if !matches!(cursor.peek(1), Ok([])) {
        return Err((at, "the frame's blocks are inconsistent".to_owned()));
    }
    let decoded = (decoder.filled() - before) as u64;
    let mismatch = frame.content_bytes.and_then(|declared| size_mismatch(declared, decoded));
    mismatch.map_or(Ok(()), |reason| Err((at, reason)))
}
