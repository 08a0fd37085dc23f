//! Writing of a file from its beginning to its end, with direct I/O where possible.
//!
//! Bytes that go through the page cache are copied by a processor that could compress instead: this
//! takes a twelfth of the processor time of a whole `repack` at level 1.

use std::{os::fd::OwnedFd, sync::Arc};

use rustix::io::Errno;
use unsnap_arena::{Arena, ArenaError, Block};
use unsnap_ring::{DirectIo, DirectMode, DirectSupport, Syscalls};

/// Size of the buffer for direct I/O, written one buffer at a time. It keeps the disk busy most of
/// the time, like the buffers of the archive's reader. A guess.
const BUFFER_BYTES: usize = 4 << 20;

/// Alignment for direct I/O if the kernel does not report it: a page.
const ALIGN_UNTOLD: usize = 4096;

/// Writes to a file that is empty at first.
pub struct FileWriter {
    calls: Syscalls,
    file: Arc<OwnedFd>,
    /// Bytes written to the file.
    written: u64,
    direct: Option<Direct>,
}

/// State of direct I/O.
struct Direct {
    /// Alignment of offsets and lengths.
    align: usize,
    /// Bytes to write next.
    buffer: Block,
    filled: usize,
    /// Whether a direct write has succeeded. Until then, the file system may refuse direct I/O.
    tried: bool,
    /// Whether the run must fail without direct I/O.
    demanded: bool,
}

impl FileWriter {
    /// Creates a writer. Probes whether `file` supports direct I/O, unless `mode` forbids it.
    pub fn new(calls: &Syscalls, file: &Arc<OwnedFd>, mode: DirectMode) -> Result<Self, Errno> {
        let demanded = mode == DirectMode::On;
        let align = match (mode, calls.direct_support(&**file)) {
            (DirectMode::Off, _) => None,
            (_, DirectSupport::Yes(DirectIo { offset_align, memory_align })) => {
                Some(offset_align.max(memory_align))
            }
            (_, DirectSupport::Unknown) => Some(ALIGN_UNTOLD),
            (_, DirectSupport::No) if demanded => return Err(Errno::INVAL),
            (_, DirectSupport::No) => None,
        };
        // No known disk has sectors larger than the buffer's pages.
        let align = align.filter(|align| *align <= ALIGN_UNTOLD);
        let set = align.map(|align| calls.set_direct(&**file, true).map(|()| align));
        let direct = match set {
            Some(Ok(align)) => {
                let buffer = buffer().map_err(|_| Errno::NOMEM)?;
                Some(Direct { align, buffer, filled: 0, tried: false, demanded })
            }
            Some(Err(errno)) if demanded => return Err(errno),
            _ => None,
        };
        Ok(Self { calls: calls.clone(), file: Arc::clone(file), written: 0, direct })
    }

    /// Returns whether direct I/O is used.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Bytes written to the file.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends bytes.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while let Some(direct) = &mut self.direct {
            let taken = bytes.len().min(direct.buffer.len() - direct.filled);
            let (gathered, rest) = bytes.split_at(taken);
            direct.buffer[direct.filled..][..taken].copy_from_slice(gathered);
            direct.filled += taken;
            bytes = rest;
            if direct.filled < direct.buffer.len() {
                return Ok(());
            }
            self.flush()?;
        }
        self.write_all(bytes, 1)
    }

    /// Writes buffered bytes. Returns the file's size in bytes.
    pub fn finish(&mut self) -> Result<u64, Errno> {
        self.flush()?;
        Ok(self.written)
    }

    /// Writes buffered bytes, padded with zeros to a multiple of the sector size. The padding is
    /// then truncated.
    fn flush(&mut self) -> Result<(), Errno> {
        let Some(mut direct) = self.direct.take() else { return Ok(()) };
        let filled = std::mem::take(&mut direct.filled);
        let (begin, end) = (self.written, self.written + filled as u64);
        let padded = filled.next_multiple_of(direct.align);
        direct.buffer[filled..padded].fill(0);
        match self.write_all(&direct.buffer[..padded], direct.align) {
            // Some file systems accept the flag but refuse the writes.
            Err(Errno::INVAL) if !direct.tried && !direct.demanded => {
                self.calls.set_direct(&*self.file, false)?;
                // Part of the buffer may have been written. Write all of it again.
                self.written = begin;
                return self.write_all(&direct.buffer[..filled], 1);
            }
            written => written?,
        }
        if self.written > end {
            self.calls.ftruncate(&*self.file, end)?;
            self.written = end;
        }
        direct.tried = true;
        self.direct = Some(direct);
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8], align: usize) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let written = self.calls.write_at(&*self.file, bytes, self.written, align)?;
            // The rest begins at a sector again, even if the disk had room for part of one.
            let written = written - written % align;
            if written == 0 {
                return Err(Errno::NOSPC);
            }
            bytes = &bytes[written..];
            self.written += written as u64;
        }
        Ok(())
    }
}

fn buffer() -> Result<Block, ArenaError> {
    let mut arena = Arena::builder().bytes(BUFFER_BYTES).populate(false).build()?;
    let pool = arena.pool(BUFFER_BYTES)?;
    // A new pool is free as a whole.
    pool.try_allocate(BUFFER_BYTES).ok_or(ArenaError::Exhausted { asked: BUFFER_BYTES, left: 0 })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rustix::fs::OFlags;
    use unsnap_ring::{Call, FaultPlan, Short};

    use super::*;

    /// Lengths of successive writes.
    const PIECES: [usize; 7] =
        [0, 2, 4095, BUFFER_BYTES - 4096, BUFFER_BYTES, 3 * BUFFER_BYTES + 7, 513];

    /// Writes pieces. Returns the file's content and whether direct I/O was used to the end.
    fn write(
        calls: &Syscalls,
        mode: DirectMode,
        pieces: &[usize],
    ) -> Result<(Vec<u8>, bool), Errno> {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        let file: Arc<OwnedFd> = Arc::new(File::create(scratch.path()).unwrap().into());
        let mut writer = FileWriter::new(calls, &file, mode)?;
        let mut at = 0;
        for len in pieces {
            writer.write(&(at..at + len).map(byte).collect::<Vec<_>>())?;
            at += len;
        }
        let direct = writer.is_direct();
        assert_eq!(rustix::fs::fcntl_getfl(&*file).unwrap().contains(OFlags::DIRECT), direct);
        assert_eq!(writer.finish()?, at as u64);
        Ok((fs::read(scratch.path()).unwrap(), direct))
    }

    fn byte(at: usize) -> u8 {
        u8::try_from(at * 7 % 251).unwrap()
    }

    fn assert_whole(content: &[u8], pieces: &[usize]) {
        assert_eq!(content.len(), pieces.iter().sum::<usize>());
        assert!(content.iter().enumerate().all(|(at, found)| *found == byte(at)));
    }

    #[test]
    fn files_of_any_length_are_whole() {
        let calls = Syscalls::default();
        for mode in [DirectMode::Auto, DirectMode::Off] {
            for count in 0..=PIECES.len() {
                let pieces = &PIECES[..count];
                let (content, direct) = write(&calls, mode, pieces).unwrap();
                assert_whole(&content, pieces);
                assert!(mode == DirectMode::Auto || !direct);
            }
        }
    }

    #[test]
    fn short_writes_are_continued() {
        for mode in [DirectMode::Auto, DirectMode::Off] {
            for (transfer, short) in
                (0..3).flat_map(|nth| [Short::OneByte, Short::Half].map(|short| (nth, short)))
            {
                let calls = Syscalls::with_faults(FaultPlan::new(1).cut(transfer, short));
                let (content, _) = write(&calls, mode, &PIECES).unwrap();
                assert_whole(&content, &PIECES);
            }
        }
        let calls = Syscalls::with_faults(FaultPlan::new(1).cut(1, Short::Nothing));
        assert_eq!(write(&calls, DirectMode::Off, &PIECES).unwrap_err(), Errno::NOSPC);
    }

    #[test]
    fn refused_direct_io_falls_back_to_the_page_cache() {
        let refused =
            |call| Syscalls::with_faults(FaultPlan::new(1).fail_nth(call, 0, Errno::INVAL));
        for call in [Call::OpenDirect, Call::Write] {
            let (content, direct) =
                write(&refused(call), DirectMode::Auto, &PIECES).unwrap_or_default();
            // Without direct I/O, the error is a real one.
            if call == Call::Write && content.is_empty() {
                continue;
            }
            assert_whole(&content, &PIECES);
            assert!(!direct);
        }
        assert_eq!(
            write(&refused(Call::OpenDirect), DirectMode::On, &PIECES).unwrap_err(),
            Errno::INVAL
        );
    }

    #[test]
    fn a_direct_write_refused_half_way_is_repeated_whole() {
        let plan = FaultPlan::new(1).cut(0, Short::Half).fail_nth(Call::Write, 1, Errno::INVAL);
        match write(&Syscalls::with_faults(plan), DirectMode::Auto, &PIECES[5..]) {
            Ok((content, direct)) => {
                assert_whole(&content, &PIECES[5..]);
                assert!(!direct);
            }
            // Without direct I/O, the error is a real one.
            Err(errno) => assert_eq!(errno, Errno::INVAL),
        }
    }

    #[test]
    fn a_later_error_is_returned() {
        for mode in [DirectMode::Auto, DirectMode::Off] {
            let plan = FaultPlan::new(1).fail_nth(Call::Write, 2, Errno::INVAL);
            assert_eq!(
                write(&Syscalls::with_faults(plan), mode, &PIECES).unwrap_err(),
                Errno::INVAL
            );
        }
    }
}
