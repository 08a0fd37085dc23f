//! A pass over archives that writes nothing.

use std::{ops::ControlFlow, sync::Arc};

use unsnap_decode::{DecodeSummary, FrameStarts, Position};
use unsnap_source::DigestKind;
use unsnap_tarstream::{Event, Walker};

use crate::{
    Archive, DecodeJob, Decoding, Handles, Input, Keeper, Memory, OpenArchive, Options, PassError,
    Phase, ReadMark, See, Walk, choose_engine,
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
    /// Sees the bytes of the first archive, if that is on a server.
    pub keeper: Option<Keeper>,
    /// Phase that progress shows.
    pub phase: Phase,
}

impl<'a> Pass<'a> {
    /// Prepares a pass that keeps no frame starts and computes no digest.
    pub fn new(options: &'a Options, handles: &'a Handles, threads: usize) -> Self {
        let (frame_starts, digest, phase) = (Arc::default(), None, Phase::Unpacking);
        Self { options, handles, threads, frame_starts, digest, keeper: None, phase }
    }

    /// Decodes archives one after the other and calls `see` for every event of their walks, with
    /// the index of the archive, the event, its bytes, and the origin of the segment. If `see`
    /// breaks, the next archive follows. An archive that was walked to the end is proven to be
    /// whole.
    ///
    /// Returns a summary of the decoding of each archive.
    pub fn over<E: From<PassError>>(
        self,
        named: &[Archive],
        archives: Vec<OpenArchive>,
        mut see: impl FnMut(usize, Event<'_>, &[u8], Position) -> Result<ControlFlow<()>, E>,
    ) -> Result<Vec<DecodeSummary>, E> {
        let Self { options, handles, threads, frame_starts, digest, keeper, phase } = self;
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
            held: Vec::new(),
            keepers: vec![keeper].into(),
        };
        let mut decoding = Decoding::start(inputs, memory, &job)?;
        progress.enter(phase);
        let names: Vec<String> = named.iter().map(Archive::display_name).collect();
        let mut streams = decoding.streams.iter_mut().zip(&names).enumerate();
        let walked: Result<(), E> = streams.try_for_each(|(index, (decoded, archive))| {
            let walker = Walker::new(options.limits.tar);
            let walk = Walk { archive, decoded, walker, skip: 0, progress, cancel };
            walk.run(&mut See(|event: Event<'_>, bytes: &[u8], at| see(index, event, bytes, at)))
        });
        let (ended, _memory) = decoding.finish();
        walked.map(|()| ended.into_iter().map(|ended| ended.summary).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;
    use unsnap_testkit::{
        compress::{zstd_frames, zstd_one_frame},
        tar::{account_path, snapshot_head},
    };

    use super::*;
    use crate::{Opened, Resources};

    fn tar() -> Vec<u8> {
        snapshot_head(100, &[1; 900], &[2; 5000])
            .account(&account_path(90, 1), &vec![3; 700_000])
            .account(&account_path(91, 2), &[])
            .finish()
    }

    fn archives(contents: &[Vec<u8>]) -> (TempDir, Vec<Archive>) {
        let directory = tempfile::tempdir().unwrap();
        let write = |(index, content): (usize, &Vec<u8>)| {
            let path = directory.path().join(format!("archive-{index}"));
            fs::write(&path, content).unwrap();
            Archive::File(path)
        };
        let archives = contents.iter().enumerate().map(write).collect();
        (directory, archives)
    }

    /// A member: its archive, its path, its size, and the payload seen of it.
    type Seen = (usize, String, u64, Vec<u8>);

    /// Passes over archives up to each archive's first member of this path. Returns the members
    /// seen.
    fn pass(
        contents: &[Vec<u8>],
        until: &str,
        handles: &Handles,
    ) -> Result<(Vec<DecodeSummary>, Vec<Seen>), PassError> {
        let (_directory, named) = archives(contents);
        let resources = Resources { decode_threads: Some(2), ..Resources::default() };
        let options = Options { resources, ..Options::default() };
        let opened = Opened::open(&named, &options)?;
        let mut members: Vec<Seen> = Vec::new();
        let summaries = Pass::new(&options, handles, opened.threads).over(
            &named,
            opened.archives,
            |archive, event, bytes, _| {
                match event {
                    Event::Member(member) => {
                        let path = String::from_utf8(member.path.to_vec()).unwrap();
                        if path == until {
                            return Ok(ControlFlow::Break(()));
                        }
                        members.push((archive, path, member.size, Vec::new()));
                    }
                    Event::Payload { last } => {
                        let (.., size, payload) = members.last_mut().unwrap();
                        payload.extend_from_slice(bytes);
                        assert_eq!(last, payload.len() as u64 == *size);
                    }
                    Event::Skipped | Event::End => {}
                }
                Ok::<_, PassError>(ControlFlow::Continue(()))
            },
        )?;
        Ok((summaries, members))
    }

    #[test]
    fn every_member_is_seen_with_its_payload_whatever_the_compression() {
        let tar = tar();
        let handles = Handles::default();
        let one_frame = zstd_one_frame(&tar, 1, None, true, false);
        for archive in [tar.clone(), one_frame, zstd_frames(&tar, 100_000, 1)] {
            let (summaries, members) = pass(&[archive], "", &handles).unwrap();
            assert_eq!(summaries.len(), 1);
            assert_eq!(summaries[0].bytes_decoded, tar.len() as u64);
            let files = members.iter().filter(|(.., size, _)| *size > 0);
            let contents: Vec<&[u8]> = files.map(|(.., payload)| &payload[..]).collect();
            let large = vec![3; 700_000];
            let expected: [&[u8]; 4] = [b"1.2.0", &[2; 5000], &[1; 900], &large];
            for content in expected {
                assert!(contents.contains(&content), "{} bytes are missing", content.len());
            }
            let (_, last, size, _) = members.last().unwrap();
            assert_eq!((last.as_str(), *size), (account_path(91, 2).as_str(), 0));
        }
        let progress = handles.progress.snapshot();
        assert_eq!(progress.phase, Phase::Unpacking);
        assert!(progress.bytes_decoded >= tar.len() as u64);
    }

    #[test]
    fn after_a_break_the_next_archive_follows() {
        let tar = tar();
        let until = account_path(90, 1);
        let (summaries, members) =
            pass(&[tar.clone(), zstd_frames(&tar, 100_000, 1)], &until, &Handles::default())
                .unwrap();
        assert_eq!(summaries.len(), 2);
        let of = |archive: usize| {
            let members = members.iter().filter(move |(index, ..)| *index == archive);
            members.map(|(_, path, ..)| path.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(0), of(1));
        assert!(!of(0).is_empty() && !of(0).contains(&account_path(91, 2)));
    }

    #[test]
    fn bad_archives_and_cancellation_end_it() {
        let tar = tar();
        let cut = pass(&[tar[..tar.len() - 1024].to_vec()], "", &Handles::default());
        assert!(matches!(cut, Err(PassError::Tar { .. })), "{cut:?}");
        let frame = zstd_one_frame(&tar, 1, None, true, false);
        let cut = pass(&[frame[..frame.len() - 1].to_vec()], "", &Handles::default());
        assert!(matches!(cut, Err(PassError::Decode { .. })), "{cut:?}");
        let mut damaged = tar.clone();
        damaged[156] ^= 1;
        let damaged = zstd_one_frame(&damaged, 1, None, true, false);
        let damaged = pass(&[damaged], "", &Handles::default());
        assert!(matches!(damaged, Err(PassError::Tar { .. })), "{damaged:?}");
        let handles = Handles::default();
        handles.cancel.cancel();
        let cancelled = pass(&[tar], "", &handles);
        assert!(matches!(cancelled, Err(PassError::Cancelled)), "{cancelled:?}");
    }
}
