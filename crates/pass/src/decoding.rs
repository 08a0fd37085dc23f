//! Decoding: from archives to segments, on threads of its own.

use std::sync::{Arc, Mutex, PoisonError};

use unsnap_decode::{DecodeSummary, Decoded, FrameStarts, Position, ThreadTimes};
use unsnap_ring::{EngineKind, probe_uring};
use unsnap_source::{
    Digest, DigestKind, Digesting, Hasher, Pausing, SequentialFileReader, Source, StreamReader,
};

use crate::{Archive, Handles, Input, IoEngine, Memory, Options, PassError, memory::StreamMemory};

/// Chooses the engine for reading and creating. If the wanted one is refused, says so in words.
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

/// How much of an archive has been read, and the digest of that.
#[derive(Clone, Debug, Default)]
pub struct ReadMark(Arc<Mutex<Option<(u64, Digest)>>>);

impl ReadMark {
    fn set(&self, bytes: u64, digest: Digest) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((bytes, digest));
    }

    /// Returns the bytes read since decoding began, and their digest.
    pub fn get(&self) -> Option<(u64, Digest)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What decoding starts with. The parts of the first archive say where to begin and what to note.
pub struct DecodeJob<'a> {
    /// The archives.
    pub named: &'a [Archive],
    /// How they are read.
    pub options: &'a Options,
    /// To count what is read.
    pub handles: &'a Handles,
    /// What carries out reads.
    pub engine: &'a EngineKind,
    /// Where decoding of the first archive begins.
    pub begin: Position,
    /// Takes the starts of the first archive's frames.
    pub frame_starts: Arc<FrameStarts>,
    /// Takes how much of the first archive has been read.
    pub read: ReadMark,
    /// How the archives are digested.
    pub digest: Option<DigestKind>,
    /// Whether the digest includes the bytes in front of `begin`.
    pub digest_all: bool,
}

/// Archives that are being decoded, and the memory for it. Dropped, its threads end.
pub struct Decoding {
    /// The decoded stream of each archive. Dropped before the memory.
    pub streams: Vec<Decoded>,
    /// The memory.
    pub memory: Memory,
}

/// The end of an archive's decoding.
pub struct DecodedArchive {
    /// What was read and decoded.
    pub summary: DecodeSummary,
    /// How long the walk waited for segments.
    pub waited: std::time::Duration,
    /// Where the time of its threads went.
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

    /// Closes the memory, waits for the threads, and returns what became of each archive with the
    /// memory, which files under way may still refer to.
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
    /// `index`: which of the archives.
    fn decode(
        &self,
        index: usize,
        input: Input,
        begin: Position,
        memory: &Memory,
    ) -> Result<Decoded, PassError> {
        let (archive, stream) = (&self.named[index], &memory.streams[index]);
        let hasher = self.hasher(&input, begin)?;
        let source = self.source(archive, memory, stream, input, begin)?;
        let mut source = self.paused_by_pace(source, stream);
        let progress = &self.handles.progress;
        progress.expect_bytes(source.len().unwrap_or(0));
        // Only the first archive can be resumed, so only its progress is noted.
        let (frame_starts, read) = match index {
            0 => (Arc::clone(&self.frame_starts), self.read.clone()),
            _ => Default::default(),
        };
        if let Some(hasher) = hasher {
            let mark = move |bytes, digest| read.set(bytes, digest);
            source = Box::new(Digesting::new(source, hasher, mark));
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

    fn source(
        &self,
        archive: &Archive,
        memory: &Memory,
        stream: &StreamMemory,
        input: Input,
        begin: Position,
    ) -> Result<Box<dyn Source>, PassError> {
        let pool = stream.read.clone();
        let tuning = &self.options.tuning;
        let file = match input {
            Input::Stream { file, head } => {
                let name = archive.display_name();
                return Ok(Box::new(StreamReader::new(file, name.as_str(), pool).with_head(head)));
            }
            Input::File { file, .. } => file,
        };
        let mut reader = SequentialFileReader::builder(pool)
            .engine(self.engine.clone())
            .priority(self.options.neighbour.io_priority)
            .start(begin.compressed_offset);
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

    /// Makes a source stand still while the run is paused.
    fn paused_by_pace(&self, source: Box<dyn Source>, stream: &StreamMemory) -> Box<dyn Source> {
        match &self.options.neighbour.pace {
            Some(pace) => Box::new(Pausing::new(source, pace.clone(), stream.read.clone())),
            None => source,
        }
    }
}
