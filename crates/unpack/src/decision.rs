//! Decision whether the last checkpoint of an interrupted run can be used.

use unsnap_commit::{Checkpoint, ReadRange, Run};
use unsnap_source::{Digest, DigestKind};

/// Size of a tar block, at whose multiples members begin.
const BLOCK_BYTES: u64 = 512;

/// Decision about an interrupted run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Its files can be used, if they are those of the journal.
    Resume,
    /// Its files are useless, for this reason.
    StartOver(&'static str),
    /// Its files belong to another run, for this reason, and are left alone.
    Refuse(&'static str),
}

/// An interrupted run and the run that is to resume it.
pub(crate) struct Interrupted<'a> {
    /// The interrupted run.
    pub before: &'a Run,
    /// The resuming run.
    pub now: &'a Run,
    /// Last checkpoint of the interrupted run.
    pub reached: &'a Checkpoint,
    /// Whether all runs so far read the same archive file as this one.
    pub is_same_file: bool,
    /// Kind of the archive's expected digest.
    pub expected: Option<DigestKind>,
}

impl Interrupted<'_> {
    /// Decides. `has_same_content` compares another archive file with the digests in the journal, which
    /// takes time, so it is called only if necessary.
    pub fn decide<E>(
        &self,
        has_same_content: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Decision, E> {
        let Self { before, now, reached, is_same_file, expected } = *self;
        if before != now {
            return Ok(Decision::Refuse("it used another layout or other destinations"));
        }
        if !is_same_file {
            if !has_same_content()? {
                let reason = "it unpacked another archive, or the archive has changed";
                return Ok(Decision::Refuse(reason));
            }
            // The digest of the whole must cover the bytes that the interrupted run read.
            if expected.is_some() && reached.read.iter().any(|range| kind(range) != expected) {
                return Ok(Decision::StartOver(
                    "the archive is another file, and the interrupted run did not compute the kind \
                     of digest that is expected",
                ));
            }
        }
        if reached.restart.raw_offset > reached.header_offset
            || !reached.header_offset.is_multiple_of(BLOCK_BYTES)
        {
            return Ok(Decision::StartOver("the journal is damaged: its offsets are inconsistent"));
        }
        Ok(Decision::Resume)
    }
}

fn kind(range: &ReadRange) -> Option<DigestKind> {
    range.digest.parse().ok().map(|digest: Digest| digest.kind())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use unsnap_commit::{ArchiveFile, ArchiveId, Restart};

    use super::*;

    fn run(layout: &str) -> Run {
        Run::new(layout, vec![1, 2])
    }

    /// A checkpoint of a run that digested the archive by XXH3.
    fn checkpoint(raw_offset: u64, header_offset: u64) -> Checkpoint {
        let digest = DigestKind::Xxh3.hasher().digest().to_string();
        Checkpoint {
            archive: ArchiveId::File(ArchiveFile::new(&rustix::fs::stat("/").unwrap())),
            members: Vec::new(),
            header_offset,
            entries: 3,
            restart: Restart { compressed_offset: 10, frame: 1, raw_offset },
            read: vec![ReadRange { from: 0, to: 10, digest }],
        }
    }

    fn decide(
        before: &Run,
        reached: &Checkpoint,
        is_same_file: bool,
        same_content: Option<bool>,
        expected: Option<DigestKind>,
    ) -> Decision {
        let now = run("snapshot");
        let interrupted = Interrupted { before, now: &now, reached, is_same_file, expected };
        let compare = || Ok::<_, Infallible>(same_content.expect("contents are not compared"));
        interrupted.decide(compare).unwrap()
    }

    #[test]
    fn the_same_archive_is_resumed_without_reading_it() {
        let reached = checkpoint(512, 1024);
        for expected in [None, Some(DigestKind::Xxh3), Some(DigestKind::Blake3)] {
            let decision = decide(&run("snapshot"), &reached, true, None, expected);
            assert_eq!(decision, Decision::Resume);
        }
    }

    #[test]
    fn another_file_is_resumed_if_its_content_is_known_to_be_the_same() {
        let reached = checkpoint(512, 1024);
        let other = |same, expected| decide(&run("snapshot"), &reached, false, same, expected);
        assert_eq!(other(Some(true), None), Decision::Resume);
        assert!(matches!(other(Some(false), None), Decision::Refuse(_)));
        // The digest of the whole covers bytes that only the interrupted run read.
        assert_eq!(other(Some(true), Some(DigestKind::Xxh3)), Decision::Resume);
        let blake3 = other(Some(true), Some(DigestKind::Blake3));
        assert!(matches!(blake3, Decision::StartOver(_)));
    }

    #[test]
    fn another_run_is_refused_and_its_files_are_left_alone() {
        let reached = checkpoint(512, 1024);
        for before in [run("any"), Run::new("snapshot", vec![1, 3]), Run::new("snapshot", vec![1])]
        {
            let decision = decide(&before, &reached, true, None, None);
            assert!(matches!(decision, Decision::Refuse(_)), "{before:?}");
        }
    }

    #[test]
    fn inconsistent_offsets_mean_starting_over() {
        for (raw_offset, header_offset) in [(1025, 1024), (0, 1000)] {
            let reached = checkpoint(raw_offset, header_offset);
            let decision = decide(&run("snapshot"), &reached, true, None, None);
            assert!(matches!(decision, Decision::StartOver(_)), "{raw_offset} {header_offset}");
        }
    }
}
