//! Assembler: splits payloads into writes.

use std::{ops::Range, time::Duration};

use unsnap_arena::{CARRY_BYTES_MAX, SegmentView};
use unsnap_ring::{Bucket, NewFile, Pace, RelativePath};

use crate::{
    CreateError, CreatorPool, Destination, FILE_BLOCK_BYTES, Written,
    feeder::Feeder,
    request::{Command, FileId, Request},
};

/// Size in bytes from which files count as large: written directly where that works, by a creator
/// with more workers. Smaller files are written through the page cache even if direct I/O works,
/// because a direct write makes its file wait for the device: files of 8 KiB took two to three
/// times as long. Measured on 6 GB in 8,278 files of mainnet-like sizes (2 cores, ext4 on a virtual
/// NVMe disk, November 2026): 32 KiB took 1.1 times as long and twice the CPU time; 256 and 512 KiB
/// took as long as 128 KiB.
const DIRECT_BYTES_MIN: u64 = 128 << 10;

/// Largest write in bytes. A larger payload becomes several writes, which can run in parallel.
/// Measured as above: all sizes from 1 MiB up are equally fast.
const WRITE_BYTES_MAX: usize = 4 << 20;

/// A file to create.
#[derive(Clone, Copy, Debug)]
pub struct NewMember<'m> {
    /// Index of the destination.
    pub destination: usize,
    /// Path relative to the destination.
    pub path: &'m str,
    /// Exact size in bytes.
    pub size: u64,
}

/// Turns members and their payload ranges, in stream order, into commands for the creators.
///
/// For each segment, call [`take_carry`](Self::take_carry) and put the carry in front of the
/// segment, then call [`begin`](Self::begin) and [`payload`](Self::payload) as the walk finds
/// members and payloads, then [`end_segment`](Self::end_segment).
pub struct Assembler {
    destinations: Vec<Destination>,
    creators: Feeder,
    keep_open: bool,
    pace: Pace,
    direct_bytes_min: u64,
    current: Option<Current>,
    carry: Carry,
}

/// The file whose payload is being received.
struct Current {
    new: Option<NewFile>,
    id: FileId,
    destination: usize,
    size: u64,
    /// Bytes sent to the creators.
    written: u64,
    /// Bytes of the payload in the carry, in front of `range`.
    carried: usize,
    /// Part of the payload in this segment so far.
    range: Range<usize>,
}

impl Current {
    fn request(&self, command: Command) -> Request {
        Request { destination: self.destination, file: self.id, command }
    }
}

/// End of a segment that did not fill a file block.
struct Carry {
    bytes: [u8; CARRY_BYTES_MAX],
    len: usize,
}

impl Assembler {
    /// Creates an assembler. Files smaller than `direct_bytes_min` are written through the page
    /// cache; `None` selects the default.
    pub fn new(
        destinations: Vec<Destination>,
        creators: &CreatorPool,
        direct_bytes_min: Option<u64>,
    ) -> Self {
        Self {
            destinations,
            creators: creators.feeder(),
            keep_open: creators.keeps_files_open(),
            pace: creators.pace().clone(),
            direct_bytes_min: direct_bytes_min.unwrap_or(DIRECT_BYTES_MIN),
            current: None,
            carry: Carry { bytes: [0; CARRY_BYTES_MAX], len: 0 },
        }
    }

    /// Creates a directory at once.
    pub fn directory(&mut self, destination: usize, path: &str) -> Result<(), CreateError> {
        self.destinations[destination].make_directory(path)
    }

    /// Begins a file and returns its number. A file without payload needs no further calls.
    pub fn begin(
        &mut self,
        member: NewMember<'_>,
        view: &SegmentView,
    ) -> Result<FileId, CreateError> {
        debug_assert!(self.current.is_none(), "the previous file must be complete");
        let destination = &mut self.destinations[member.destination];
        if let Some((parent, _)) = member.path.rsplit_once('/') {
            destination.make_directory(parent)?;
        }
        let (mode, force_mode) = destination.file_mode();
        let large = member.size >= self.direct_bytes_min;
        let new = NewFile {
            directory: destination.handle(),
            path: RelativePath::new(member.path)?,
            mode,
            force_mode,
            direct: destination.direct().filter(|_| large),
            keep_open: self.keep_open,
        };
        let id = self.creators.next_file();
        if member.size == 0 {
            let data = view.slice(0, 0..0);
            let command = Command::Whole { new, data };
            self.creators
                .send(Request { destination: member.destination, file: id, command }, large)?;
            return Ok(id);
        }
        self.current = Some(Current {
            new: Some(new),
            id,
            destination: member.destination,
            size: member.size,
            written: 0,
            carried: 0,
            range: 0..0,
        });
        Ok(id)
    }

    /// Adds the next bytes of the file, which are `range` of the segment. `last` marks the end of
    /// the file.
    pub fn payload(
        &mut self,
        view: &SegmentView,
        range: Range<usize>,
        last: bool,
    ) -> Result<(), CreateError> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.range.is_empty() {
            current.range = range;
        } else {
            debug_assert_eq!(current.range.end, range.start, "a payload has no gaps");
            current.range.end = range.end;
        }
        if last { self.finish_file(view) } else { Ok(()) }
    }

    /// Sends the segment's part of an unfinished file to the creators, and keeps the rest as carry.
    pub fn end_segment(&mut self, view: &SegmentView) -> Result<(), CreateError> {
        if let Some(mut current) = self.current.take() {
            let available = current.carried + current.range.len();
            let direct = self.is_direct(&current);
            let count = if direct { available - available % FILE_BLOCK_BYTES } else { available };
            let rest = available - count;
            if count > 0 {
                // Whole blocks from the carry on. The rest becomes the next segment's carry.
                self.write(&mut current, view, count)?;
            }
            let end = current.range.end;
            self.carry.bytes[..rest].copy_from_slice(&view.slice(rest, end..end));
            self.carry.len = rest;
            current.carried = rest;
            current.range = 0..0;
            self.current = Some(current);
        }
        self.creators.flush()
    }

    /// Gives up the current file, if there is one. It stays incomplete, and no other file may
    /// follow.
    pub fn abandon(&mut self) {
        self.current = None;
    }

    /// Waits until every file so far is complete. May only be called between two files.
    pub fn settle(&mut self) -> Result<(), CreateError> {
        debug_assert!(self.current.is_none(), "the previous file must be complete");
        self.creators.settle()
    }

    /// Takes the bytes that must precede the next segment. They are fewer than one file block.
    pub fn take_carry(&mut self) -> &[u8] {
        let len = std::mem::take(&mut self.carry.len);
        &self.carry.bytes[..len]
    }

    /// Returns the amount of data sent so far for each destination, by all assemblers that share
    /// the creators.
    pub fn written(&self) -> Vec<Written> {
        self.creators.written()
    }

    /// Returns the bytes sent but not yet written to the device of a destination, by all assemblers
    /// that share the creators.
    pub fn in_flight_to_device_of(&self, destination: usize) -> u64 {
        let device = self.destinations[destination].device();
        let on_it = |index: &usize| self.destinations[*index].device() == device;
        let indices = (0..self.destinations.len()).filter(on_it);
        indices.map(|index| self.creators.written_to(index).in_flight_bytes).sum()
    }

    /// Sends all queued commands. Returns the destinations and the time spent waiting for the
    /// creators to accept commands. The caller must still wait for the creators.
    pub fn finish(mut self) -> Result<(Vec<Destination>, Duration), CreateError> {
        debug_assert!(self.current.is_none(), "the last file must be complete");
        self.creators.flush()?;
        Ok((self.destinations, self.creators.waited()))
    }

    fn is_direct(&self, current: &Current) -> bool {
        self.is_large(current) && self.destinations[current.destination].direct().is_some()
    }

    /// Returns whether the file goes to the creator for large files, which has more workers. Where
    /// direct I/O is refused, that creator writes through the page cache.
    fn is_large(&self, current: &Current) -> bool {
        current.size >= self.direct_bytes_min
    }

    /// Returns the largest write in bytes, which a rate limit reduces to keep the flow smooth.
    fn write_bytes_max(&self) -> usize {
        Bucket::piece_bytes(&self.pace).map_or(WRITE_BYTES_MAX, |most| most.min(WRITE_BYTES_MAX))
    }

    fn finish_file(&mut self, view: &SegmentView) -> Result<(), CreateError> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let available = current.carried + current.range.len();
        let large = self.is_large(&current);
        if let Some(new) = current.new.take_if(|_| available <= self.write_bytes_max()) {
            let data = slice(view, &current, available);
            return self.creators.send(current.request(Command::Whole { new, data }), large);
        }
        // Direct writes are of whole blocks.
        let rest = if self.is_direct(&current) { available % FILE_BLOCK_BYTES } else { 0 };
        let tail = slice(view, &current, available).slice(available - rest..available);
        if available > rest {
            self.write(&mut current, view, available - rest)?;
        }
        let tail = (rest > 0).then_some((current.written, tail));
        self.creators.send(current.request(Command::End { tail }), large)
    }

    /// Sends the next `count` bytes, from the carry on, in pieces.
    fn write(
        &mut self,
        current: &mut Current,
        view: &SegmentView,
        count: usize,
    ) -> Result<(), CreateError> {
        let large = self.is_large(current);
        if let Some(new) = current.new.take() {
            self.creators.send(current.request(Command::Begin { new }), large)?;
        }
        let data = slice(view, current, count);
        let most = self.write_bytes_max();
        for start in (0..count).step_by(most) {
            let part = data.slice(start..count.min(start + most));
            let offset = current.written + start as u64;
            self.creators.send(current.request(Command::Part { offset, data: part }), large)?;
        }
        current.written += count as u64;
        Ok(())
    }
}

/// Returns `count` bytes from the carry on.
fn slice(view: &SegmentView, current: &Current, count: usize) -> unsnap_arena::Slice {
    let start = current.range.start;
    view.slice(current.carried, start..start + count - current.carried)
}
