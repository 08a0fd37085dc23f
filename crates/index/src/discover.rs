//! Discovery of the frames of an archive that has no side-car.

use std::ops::ControlFlow;

use unsnap_decode::{
    FRAME_HEADER_BYTES_MAX, Format, FrameContent, FrameStart, ReadAt, WalkEnd, frame_start,
    walk_frames,
};

use crate::{Encoding, Frame, FrameTable, IndexError, reading::read_into};

/// The source of a frame table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableSource {
    /// A side-car, which was made from the complete archive.
    SideCar,
    /// The seek table at the archive's end.
    SeekTable,
    /// The headers of all frames and blocks, which declare sizes.
    Headers,
}

impl TableSource {
    /// Returns the word used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::SideCar => "side-car",
            Self::SeekTable => "seek table",
            Self::Headers => "headers",
        }
    }
}

/// Bytes at the beginning that identify the format: a tar header.
const HEAD_BYTES: usize = 512;

/// Bytes per read of the walk over headers: see `walk_frames`. A page is touched in any case.
const WALK_READ_BYTES: usize = 4096;

/// Frames whose beginning is checked before a seek table is used. As for side-cars, this takes a
/// few milliseconds on any disk without moving parts.
const SAMPLES: usize = 64;

/// Detects an archive's encoding from its first bytes.
pub fn encoding_of(archive: &dyn ReadAt, archive_bytes: u64) -> Result<Encoding, IndexError> {
    let mut head = [0; HEAD_BYTES];
    let length = usize::try_from(archive_bytes).unwrap_or(usize::MAX).min(HEAD_BYTES);
    read_into(archive, &mut head[..length], 0)?;
    match Format::detect(&head[..length]) {
        Some(Format::Zstd) => Ok(Encoding::Zstd),
        Some(Format::Lz4) => Ok(Encoding::Lz4),
        Some(Format::Tar) => Ok(Encoding::Plain),
        None => Err(IndexError::NoTable("its first bytes match no archive format")),
    }
}

impl FrameTable {
    /// Finds the frames of an archive without decoding it: by its seek table, or, if every frame
    /// declares its size, by a walk over the headers of all blocks. The walk reads one page per
    /// block, one after the other, so it takes long for a large archive that is not cached. It
    /// stops when `go_on`, which is called at each block, returns `false`.
    ///
    /// [`IndexError::NoTable`] means that the archive must be decoded, by a pass that records
    /// frames ([`of_marks`](Self::of_marks)).
    pub fn of_archive(
        archive: &dyn ReadAt,
        archive_bytes: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(Self, TableSource), IndexError> {
        let encoding = encoding_of(archive, archive_bytes)?;
        if encoding == Encoding::Plain {
            return Ok((Self::plain(archive_bytes), TableSource::Headers));
        }
        if encoding == Encoding::Zstd
            && let Some(table) = Self::of_seek_table(archive, archive_bytes)?
        {
            return Ok((table, TableSource::SeekTable));
        }
        let mut table = Self::new(encoding);
        let mut failed = None;
        let end = walk_frames(archive, archive_bytes, WALK_READ_BYTES, go_on, &mut |frame| {
            let raw_bytes = match frame.content {
                FrameContent::Declared(bytes) => Ok(Some(bytes)),
                FrameContent::Skippable => Ok(None),
                FrameContent::Undeclared => {
                    Err(IndexError::NoTable("its frames do not declare their sizes"))
                }
            };
            let pushed = raw_bytes.and_then(|raw_bytes| table.push(frame.bytes, raw_bytes));
            failed = pushed.err();
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match (failed, end) {
            (Some(error), _) => Err(error),
            (None, WalkEnd::Complete) => Ok((table, TableSource::Headers)),
            (None, WalkEnd::Stopped) => Err(IndexError::Cancelled),
            (None, WalkEnd::Damaged { .. }) => Err(IndexError::NoTable("its headers are damaged")),
        }
    }
    /// Checks that zstd frames begin at the offsets in this table and declare the sizes in it, if
    /// any. Checks up to 64 frames, spread evenly, including the first and the last. Returns
    /// [`IndexError::SeekTable`] if one differs.
    ///
    /// This is no proof: unchecked frames may be elsewhere, and two frames may pass for one.
    pub fn check_samples(&self, archive: &dyn ReadAt) -> Result<(), IndexError> {
        let frames = self.frames();
        let Some(last) = frames.len().checked_sub(1) else { return Ok(()) };
        let samples = frames.len().min(SAMPLES);
        let place = |sample: usize| sample * last / (samples - 1).max(1);
        let sampled = || (0..samples).filter_map(|sample| frames.get(place(sample)));
        sampled().for_each(|frame| archive.will_read(frame.offset, HEADER_BYTES_MAX));
        sampled().try_for_each(|frame| check_beginning(archive, frame))
    }
}

const HEADER_BYTES_MAX: u64 = FRAME_HEADER_BYTES_MAX as u64;

fn check_beginning(archive: &dyn ReadAt, frame: &Frame) -> Result<(), IndexError> {
    let mut head = [0; FRAME_HEADER_BYTES_MAX];
    let length = usize::try_from(frame.bytes.min(HEADER_BYTES_MAX)).unwrap_or(0);
    let head = &mut head[..length];
    read_into(archive, head, frame.offset)?;
    let is_it = match frame_start(head) {
        Ok(FrameStart::Frame(header)) => {
            let declared = header.content_bytes;
            !frame.skippable && declared.is_none_or(|bytes| bytes == frame.raw_bytes)
        }
        Ok(FrameStart::Skippable { bytes }) => frame.raw_bytes == 0 && bytes == frame.bytes,
        Ok(FrameStart::Incomplete | FrameStart::Foreign) | Err(_) => false,
    };
    if is_it { Ok(()) } else { Err(IndexError::SeekTable("a frame does not match its entry")) }
}
