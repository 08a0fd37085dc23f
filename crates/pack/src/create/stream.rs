//! Tar stream of a directory, cut into frames.

use std::{ops::ControlFlow, os::fd::OwnedFd, path::Path};

use rustix::{fs::OFlags, io::Errno};
use unsnap_arena::{Block, Pool};
use unsnap_layout::Role;
use unsnap_pass::Progress;
use unsnap_ring::Syscalls;
use unsnap_verify::StorageScanner;

use super::{
    content::{Entry, FileIdentity},
    header::{BLOCK_BYTES, header},
};
use crate::{PackError, frames::RawFrame};

/// Most bytes of a single read. A guess.
const READ_BYTES: usize = 1 << 20;

/// End marker of a tar: two blocks of zeros.
const END: [u8; 2 * BLOCK_BYTES] = [0; 2 * BLOCK_BYTES];

/// Fills frames, each in a memory block of its own. A frame ends before the first entry that does
/// not fit. Larger entries begin a frame and continue in further ones.
pub struct Stream<'a> {
    pool: &'a Pool,
    frame_bytes: usize,
    take: &'a (dyn Fn(RawFrame) -> ControlFlow<()> + Sync),
    /// The current frame, and its filled bytes.
    frame: Option<(Block, usize)>,
    raw_offset: u64,
}

impl<'a> Stream<'a> {
    pub fn new(
        pool: &'a Pool,
        frame_bytes: usize,
        take: &'a (dyn Fn(RawFrame) -> ControlFlow<()> + Sync),
    ) -> Self {
        Self { pool, frame_bytes, take, frame: None, raw_offset: 0 }
    }

    /// Adds an entry. Its file must be unchanged before and after it is read.
    pub fn entry(
        &mut self,
        calls: &Syscalls,
        entry: &Entry,
        progress: &Progress,
    ) -> Result<(), PackError> {
        let padding = entry.size.next_multiple_of(BLOCK_BYTES as u64) - entry.size;
        let bytes = BLOCK_BYTES as u64 + entry.size + padding;
        let filled = self.frame.as_ref().map_or(0, |frame| frame.1);
        if filled as u64 + bytes > self.frame_bytes as u64 {
            self.end_frame()?;
        }
        self.bytes(header(entry)?.as_bytes())?;
        if let Some((path, identity)) = &entry.file {
            self.content(calls, entry, (path, identity), progress)?;
        }
        // The padding is less than a block.
        self.bytes(&END[..usize::try_from(padding).unwrap_or(0)])
    }

    /// Adds the end marker and ends the last frame.
    pub fn finish(mut self) -> Result<(), PackError> {
        self.bytes(&END)?;
        self.end_frame()
    }

    fn content(
        &mut self,
        calls: &Syscalls,
        entry: &Entry,
        (path, identity): (&Path, &FileIdentity),
        progress: &Progress,
    ) -> Result<(), PackError> {
        let failed = |step| move |errno| PackError::File { step, path: path.to_owned(), errno };
        let changed = |what| PackError::Changed { path: path.to_owned(), what };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match calls.open(path, flags) {
            Err(Errno::NOENT) => return Err(changed("the file is gone")),
            file => file.map_err(failed("open"))?,
        };
        let look = |file: &OwnedFd| calls.fstat(file).map_err(failed("examine"));
        if FileIdentity::of(&look(&file)?) != *identity {
            return Err(changed("the file was replaced or written to"));
        }
        let bad = |error: &dyn std::fmt::Display| PackError::BadDirectory {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let mut scanner = match entry.role {
            Some(Role::Storage { slot, id }) => {
                let scanner = StorageScanner::new(slot, id.into(), entry.size);
                Some(scanner.map_err(|error| bad(&error))?)
            }
            _ => None,
        };
        let mut left = entry.size;
        while left > 0 {
            let room = self.room()?;
            let wanted = room.len().min(READ_BYTES);
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(wanted);
            let read = calls.read(&file, &mut room[..wanted]).map_err(failed("read"))?;
            if read == 0 {
                return Err(changed("the file became shorter"));
            }
            if let Some(scanner) = &mut scanner {
                scanner.feed(&room[..read], &mut ()).map_err(|error| bad(&error))?;
            }
            self.filled(read);
            progress.count_read(read as u64);
            left -= read as u64;
        }
        if let Some(scanner) = scanner {
            scanner.finish().map_err(|error| bad(&error))?;
        }
        if FileIdentity::of(&look(&file)?) != *identity {
            return Err(changed("the file was written to"));
        }
        Ok(())
    }

    fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), PackError> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let count = room.len().min(bytes.len());
            let (now, later) = bytes.split_at(count);
            room[..count].copy_from_slice(now);
            self.filled(count);
            bytes = later;
        }
        Ok(())
    }

    /// Returns the free part of the current frame, at least one byte.
    fn room(&mut self) -> Result<&mut [u8], PackError> {
        if self.frame.as_ref().is_some_and(|frame| frame.1 == self.frame_bytes) {
            self.end_frame()?;
        }
        let (frame, filled) = match &mut self.frame {
            Some(frame) => frame,
            none => {
                let (block, _) =
                    self.pool.allocate(self.frame_bytes).map_err(|_| PackError::CANCELLED)?;
                none.insert((block, 0))
            }
        };
        Ok(&mut frame[*filled..self.frame_bytes])
    }

    fn filled(&mut self, bytes: usize) {
        if let Some((_, filled)) = &mut self.frame {
            *filled += bytes;
        }
    }

    fn end_frame(&mut self) -> Result<(), PackError> {
        let Some((mut block, bytes)) = self.frame.take() else { return Ok(()) };
        block.truncate(bytes);
        let raw_offset = self.raw_offset;
        self.raw_offset += bytes as u64;
        stopped((self.take)(RawFrame { raw_offset, pieces: vec![block.freeze()], bytes }))
    }
}

/// Turns a break into an error. The consumer of frames reports the actual reason.
fn stopped(flow: ControlFlow<()>) -> Result<(), PackError> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(PackError::CANCELLED),
    }
}
