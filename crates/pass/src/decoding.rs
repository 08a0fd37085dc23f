//! Decoding of archives to segments, on separate threads.

use std::sync::{Arc, Mutex, PoisonError};

use unsnap_decode::{DecodeSummary, Decoded, FrameStarts, Position, ThreadTimes};
use unsnap_fetch::{HeldRange, Holding, Remote};
use unsnap_ring::{EngineKind, probe_uring};
use unsnap_source::{
    ArchiveFile, Chained, Digest, DigestKind, Digesting, Hasher, Pausing, SequentialFileReader,
    Showing, Skipping, Source, Span, StreamReader, Through,
};

use crate::{Archive, Handles, Input, IoEngine, Memory, Options, PassError, memory::StreamMemory};

/// Chooses the engine for reading and creating. With [`IoEngine::Auto`], also returns a message if
/// the kernel refuses io_uring.
///
/// # Errors
///
/// [`PassError::Uring`] if io_uring is required and refused.
pub fn choose_engine(wanted: &IoEngine) -> Result<(EngineKind, Option<String>), PassError> {
    Ok(match (wanted, probe_uring()) {
        (IoEngine::Threads, _) => (EngineKind::Threads, None),
        (IoEngine::Faulty(plan), _) => (EngineKind::Faulty(plan.clone()), None),
        (IoEngine::Auto | IoEngine::Uring, Ok(())) => (EngineKind::Uring, None),
        (IoEngine::Uring, Err(refused)) => return Err(refused.into()),
        (IoEngine::Auto, Err(refused)) => {
            (EngineKind::Threads, Some(format!("plain threads: {refused}")))
        }
    })
}

/// Length and digest of the part of an archive that has been read.
#[derive(Clone, Debug, Default)]
pub struct ReadMark(Arc<Mutex<Option<(u64, Digest)>>>);

impl ReadMark {
    fn set(&self, bytes: u64, digest: Digest) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((bytes, digest));
    }

    /// Returns the number of bytes read since decoding began, and their digest; `None` if none were
    /// digested yet.
    pub fn get(&self) -> Option<(u64, Digest)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parameters of decoding. `begin`, `frame_starts` and `read` concern the first archive.
pub struct DecodeJob<'a> {
    /// Archives as the caller named them.
    pub named: &'a [Archive],
    /// Options for reading.
    pub options: &'a Options,
    /// Progress and cancellation.
    pub handles: &'a Handles,
    /// Engine for reads.
    pub engine: &'a EngineKind,
    /// Position at which decoding begins.
    pub begin: Position,
    /// Collects the starts of frames.
    pub frame_starts: Arc<FrameStarts>,
    /// Receives the length and digest of the part that has been read.
    pub read: ReadMark,
    /// Kind of digest of the archives; `None` for no digest.
    pub digest: Option<DigestKind>,
    /// Whether the digest includes the bytes before `begin`.
    pub digest_all: bool,
    /// Ranges of the first archive that interrupted runs had read. A server that has to send them
    /// again must send the same bytes.
    pub held: Vec<HeldRange>,
    /// What keeps each archive; missing for archives that are not kept.
    pub keepers: Mutex<Vec<Option<Keeper>>>,
}

/// Keeps the bytes of an archive on a server.
pub struct Keeper {
    /// Receives the bytes as they are read.
    pub listener: SpanListener,
    /// The first bytes of the archive, which an interrupted run has kept, and their number. They need not
    /// be received again.
    pub part: Option<(ArchiveFile, u64)>,
}

/// Receives the spans of an archive, in the order of its bytes.
pub type SpanListener = Box<dyn FnMut(&Span) + Send>;

/// Archives that are being decoded, and their memory. Dropping it ends the threads.
pub struct Decoding {
    /// Decoded stream of each archive. Dropped before the memory.
    pub streams: Vec<Decoded>,
    /// Memory of all streams.
    pub memory: Memory,
}

/// Result of decoding an archive.
pub struct DecodedArchive {
    /// Sizes and counts.
    pub summary: DecodeSummary,
    /// Time that the walk waited for segments.
    pub waited: std::time::Duration,
    /// Time spent by the decoding threads.
    pub threads: Vec<ThreadTimes>,
}

impl Decoding {
    /// Starts reading and decoding.
    pub fn start(
        inputs: Vec<Input>,
        memory: Memory,
        job: &DecodeJob<'_>,
    ) -> Result<Self, PassError> {
        let begins = std::iter::once(job.begin).chain(std::iter::repeat(Position::default()));
        let inputs = inputs.into_iter().zip(begins).enumerate();
        let streams = inputs
            .map(|(index, (input, begin))| job.decode(index, input, begin, &memory))
            .collect::<Result<_, _>>()?;
        Ok(Self { streams, memory })
    }

    /// Closes the memory, waits for the threads, and returns the result for each archive. Also
    /// returns the memory, since files in flight may still refer to it.
    pub fn finish(self) -> (Vec<DecodedArchive>, Memory) {
        let Self { streams, memory } = self;
        memory.close();
        let ended = streams.into_iter().map(|decoded| DecodedArchive {
            summary: decoded.summary().cloned().unwrap_or_default(),
            waited: decoded.waited(),
            threads: decoded.join(),
        });
        (ended.collect(), memory)
    }
}

impl DecodeJob<'_> {
    /// Starts decoding the archive with this index.
    fn decode(
        &self,
        index: usize,
        input: Input,
        begin: Position,
        memory: &Memory,
    ) -> Result<Decoded, PassError> {
        let (archive, stream) = (&self.named[index], &memory.streams[index]);
        let hasher = self.hasher(&input, begin)?;
        let keeper = self.keeper(index);
        let is_remote = matches!(input, Input::Remote(_));
        let source = match input {
            Input::Remote(remote) => self.receive(remote, memory, stream, begin, keeper)?,
            input => self.source(archive, memory, stream, input, begin)?,
        };
        let mut source = self.paused_by_pace(source, stream);
        // What a server had to send again is digested with the whole archive only.
        let skips_early = is_remote && !self.digest_all;
        if skips_early {
            source = Box::new(Through::new(source, Skipping::new(begin.compressed_offset)));
        }
        let progress = &self.handles.progress;
        progress.expect_bytes(source.len().unwrap_or(0));
        // Only the first archive can be resumed, so only its progress is noted.
        let (frame_starts, read) = match index {
            0 => (Arc::clone(&self.frame_starts), self.read.clone()),
            _ => Default::default(),
        };
        if let Some(hasher) = hasher {
            let mark = move |bytes, digest| read.set(bytes, digest);
            source = Box::new(Through::new(source, Digesting::new(hasher, mark)));
        }
        if is_remote && !skips_early {
            source = Box::new(Through::new(source, Skipping::new(begin.compressed_offset)));
        }
        unsnap_decode::start(unsnap_decode::Job {
            source,
            segments: stream.segments.clone(),
            plan: stream.plan.clone(),
            limits: self.options.limits.decode.clone(),
            threads: stream.threads,
            progress: progress.read_counter(index),
            begin,
            frame_starts,
        })
        .map_err(|error| PassError::decode(&archive.display_name(), error))
    }

    fn keeper(&self, archive: usize) -> Option<Keeper> {
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.get_mut(archive).and_then(Option::take)
    }

    /// Returns the hasher for an archive. For a digest of the whole archive it has already hashed
    /// the bytes before `begin`.
    fn hasher(&self, input: &Input, begin: Position) -> Result<Option<Hasher>, PassError> {
        let Some(mut hasher) = self.digest.map(DigestKind::hasher) else { return Ok(None) };
        match input {
            Input::File { file, .. } if self.digest_all => {
                let read = file.digest_range(&mut hasher, 0, begin.compressed_offset);
                read.map_err(PassError::source)?;
            }
            _ => {}
        }
        Ok(Some(hasher))
    }

    /// Starts receiving an archive, from the byte at which decoding begins or before.
    fn receive(
        &self,
        remote: Remote,
        memory: &Memory,
        stream: &StreamMemory,
        begin: Position,
        keeper: Option<Keeper>,
    ) -> Result<Box<dyn Source>, PassError> {
        let (at, total, address) =
            (begin.compressed_offset, remote.bytes(), remote.address().clone());
        let (listener, part) = keeper.map(|Keeper { listener, part }| (listener, part)).unzip();
        let part = part.flatten();
        let kept = part.as_ref().map_or(0, |(_, bytes)| *bytes);
        let mut held = if at > 0 { self.held.clone() } else { Vec::new() };
        let pool = stream.read.clone();
        let remote = remote.with_headroom(stream.plan.is_plain);
        let source: Box<dyn Source> = if remote.has_ranges() {
            // The first byte that anything is to read, and the first that is to be received.
            let (first, sent) = match (self.digest_all, listener.is_some()) {
                (true, _) => (0, kept),
                (false, true) => (at.min(kept), kept),
                (false, false) => (at, at),
            };
            if sent > 0 {
                held.clear();
            }
            let receive = move || -> Box<dyn Source> {
                let reader = Box::new(remote.read_from(pool, sent));
                let reader = Box::new(Through::new(reader, Skipping::new(sent)));
                Box::new(Through::new(reader, Holding::new(address, &held)))
            };
            match part {
                Some((file, bytes)) if first < sent => {
                    let file = self.read_file(file, memory, stream, first, bytes)?;
                    Box::new(Chained::new(file, receive, Some(total)))
                }
                _ => receive(),
            }
        } else {
            // Everything comes again, and must be the same.
            if let Some((file, bytes)) = part {
                let mut hasher = DigestKind::Xxh3.hasher();
                file.digest_range(&mut hasher, 0, bytes).map_err(PassError::source)?;
                held.push(HeldRange { from: 0, to: bytes, digest: hasher.digest() });
            }
            Box::new(Through::new(Box::new(remote.read(pool)), Holding::new(address, &held)))
        };
        Ok(match listener {
            Some(listener) => Box::new(Through::new(source, Showing::new(listener))),
            None => source,
        })
    }

    /// Starts reading an archive that is no server's.
    fn source(
        &self,
        archive: &Archive,
        memory: &Memory,
        stream: &StreamMemory,
        input: Input,
        begin: Position,
    ) -> Result<Box<dyn Source>, PassError> {
        let pool = stream.read.clone();
        let file = match input {
            Input::Stream { file, head } => {
                let name = archive.display_name();
                return Ok(Box::new(StreamReader::new(file, name.as_str(), pool).with_head(head)));
            }
            Input::Remote(remote) => return Ok(Box::new(remote.read(pool))),
            Input::File { file, .. } => file,
        };
        self.read_file(file, memory, stream, begin.compressed_offset, u64::MAX)
    }

    /// Starts reading a file, from one offset to another.
    fn read_file(
        &self,
        file: ArchiveFile,
        memory: &Memory,
        stream: &StreamMemory,
        from: u64,
        to: u64,
    ) -> Result<Box<dyn Source>, PassError> {
        let (pool, tuning) = (stream.read.clone(), &self.options.tuning);
        let mut reader = SequentialFileReader::builder(pool)
            .engine(self.engine.clone())
            .priority(self.options.neighbour.io_priority)
            .headroom(stream.plan.is_plain)
            .start(from)
            .limit(to);
        if let Some(ranges) = memory.to_register() {
            reader = reader.register(ranges);
        }
        if let Some(chunk_bytes) = tuning.decode.chunk_bytes {
            reader = reader.chunk_bytes(chunk_bytes);
        }
        if let Some(depth) = tuning.depth {
            reader = reader.depth(depth);
        }
        Ok(Box::new(reader.build(file).map_err(PassError::source)?))
    }

    /// Makes a source stop while the run is paused.
    fn paused_by_pace(&self, source: Box<dyn Source>, stream: &StreamMemory) -> Box<dyn Source> {
        match &self.options.neighbour.pace {
            Some(pace) => {
                let pausing = Pausing::new(pace.clone(), stream.read.clone());
                Box::new(Through::new(source, pausing))
            }
            None => source,
        }
    }
}
