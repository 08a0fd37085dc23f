//! Writing of spans from the memory where they are, with direct I/O where possible.

use std::{os::fd::OwnedFd, sync::Arc};

use rustix::io::Errno;
use unsnap_ring::{DirectIo, DirectMode, DirectSupport, Syscalls};

/// Alignment for direct I/O if the kernel does not report it: a page.
const ALIGN_UNTOLD: usize = 4096;

/// Writes an archive's bytes in their order.
pub struct Writer {
    calls: Syscalls,
    file: Arc<OwnedFd>,
    written: u64,
    /// Alignment of memory, offsets and lengths; `None` through the page cache.
    direct: Option<usize>,
}

impl Writer {
    /// Creates a writer of a file that holds `written` bytes. Probes whether it supports direct I/O, unless `mode` forbids
    /// that. Without direct I/O the bytes go through the page cache.
    pub fn new(calls: &Syscalls, file: &Arc<OwnedFd>, written: u64, mode: DirectMode) -> Self {
        let align = match (mode, calls.direct_support(&**file)) {
            (DirectMode::Off, _) | (_, DirectSupport::No) => None,
            (_, DirectSupport::Yes(DirectIo { offset_align, memory_align })) => {
                Some(offset_align.max(memory_align))
            }
            (_, DirectSupport::Unknown) => Some(ALIGN_UNTOLD),
        };
        // Spans begin at pages.
        let align = align.filter(|align| *align <= ALIGN_UNTOLD);
        let direct = align.filter(|_| calls.set_direct(&**file, true).is_ok());
        Self { calls: calls.clone(), file: Arc::clone(file), written, direct }
    }

    /// Returns the number of bytes written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends bytes. Those that direct I/O does not accept, such as the end of the archive, go through
    /// the page cache, and so do all after them.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while let Some(align) = self.direct {
            let accepted = bytes.len() - bytes.len() % align;
            let is_aligned = bytes.as_ptr().addr().is_multiple_of(align)
                && self.written.is_multiple_of(align as u64);
            if !is_aligned || accepted == 0 {
                if bytes.is_empty() {
                    return Ok(());
                }
                self.calls.set_direct(&*self.file, false)?;
                self.direct = None;
                break;
            }
            match self.write(&bytes[..accepted], align) {
                Ok(count) => bytes = &bytes[count..],
                // Some file systems accept the flag but refuse the writes.
                Err(Errno::INVAL) => {
                    self.calls.set_direct(&*self.file, false)?;
                    self.direct = None;
                }
                Err(errno) => return Err(errno),
            }
        }
        while !bytes.is_empty() {
            let count = self.write(bytes, 1)?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], align: usize) -> Result<usize, Errno> {
        let written = self.calls.write_at(&*self.file, bytes, self.written, align)?;
        // The rest begins at a sector again, even if the disk had room for part of one.
        let written = written - written % align;
        if written == 0 {
            return Err(Errno::NOSPC);
        }
        self.written += written as u64;
        Ok(written)
    }
}
