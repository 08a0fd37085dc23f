//! A pass over archives that writes nothing.

use std::{ops::ControlFlow, sync::Arc};

use unsnap_decode::{DecodeSummary, FrameStarts, Position};
use unsnap_source::DigestKind;
use unsnap_tarstream::{Event, Walker};

use crate::{
    Archive, DecodeJob, Decoding, Handles, Input, Memory, OpenArchive, Options, PassError, Phase,
    ReadMark, See, Walk, choose_engine,
};

/// A pass over archives that writes nothing.
pub struct Pass<'a> {
    /// Options for reading.
    pub options: &'a Options,
    /// Progress and cancellation.
    pub handles: &'a Handles,
    /// Number of decoding threads.
    pub threads: usize,
    /// Collects the starts of the first archive's frames.
    pub frame_starts: Arc<FrameStarts>,
    /// Kind of digest of the archives; `None` for no digest.
    pub digest: Option<DigestKind>,
    /// Phase that progress shows.
    pub phase: Phase,
}

impl<'a> Pass<'a> {
    /// Prepares a pass that keeps no frame starts and computes no digest.
    pub fn new(options: &'a Options, handles: &'a Handles, threads: usize) -> Self {
        let (frame_starts, digest, phase) = (Arc::default(), None, Phase::Unpacking);
        Self { options, handles, threads, frame_starts, digest, phase }
    }

    /// Decodes archives one after the other and calls `see` for every event of their walks, with the
    /// index of the archive, the event, its bytes, and the origin of the segment. If `see` breaks, the
    /// next archive follows. An archive that was walked to the end is proven to be whole.
    ///
    /// Returns a summary of the decoding of each archive.
    pub fn over<E: From<PassError>>(
        self,
        named: &[Archive],
        archives: Vec<OpenArchive>,
        mut see: impl FnMut(usize, Event<'_>, &[u8], Position) -> Result<ControlFlow<()>, E>,
    ) -> Result<Vec<DecodeSummary>, E> {
        let Self { options, handles, threads, frame_starts, digest, phase } = self;
        let Handles { progress, cancel } = handles;
        let (engine, _) = choose_engine(&options.io.engine)?;
        let inputs = Input::begin_all(archives, named, cancel)?;
        let memory = Memory::reserve(options, &inputs, threads, false)?;
        let _rouse = cancel.rouse_by(memory.closer());
        let job = DecodeJob {
            named,
            options,
            handles,
            engine: &engine,
            begin: Position::default(),
            frame_starts,
            read: ReadMark::default(),
            digest,
            digest_all: false,
        };
        let mut decoding = Decoding::start(inputs, memory, &job)?;
        progress.enter(phase);
        let names: Vec<String> = named.iter().map(Archive::display_name).collect();
        let streams = decoding.streams.iter_mut().zip(&names).enumerate();
        let walked: Result<(), E> = streams
            .map(|(index, (decoded, archive))| {
                let walker = Walker::new(options.limits.tar);
                let walk = Walk { archive, decoded, walker, skip: 0, progress, cancel };
                walk.run(&mut See(|event: Event<'_>, bytes: &[u8], at| {
                    see(index, event, bytes, at)
                }))
            })
            .collect();
        let (ended, _memory) = decoding.finish();
        walked.map(|()| ended.into_iter().map(|ended| ended.summary).collect())
    }
}
