//! Alignment that files require for direct I/O.

use rustix::fs::{Statx, StatxFlags};

/// Alignment that a file requires for direct I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectIo {
    /// Offsets and lengths must be multiples of this many bytes.
    pub offset_align: usize,
    /// Memory addresses must be multiples of this many bytes.
    pub memory_align: usize,
}

/// Policy on bypassing the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectMode {
    /// Use direct I/O where the file system allows it, and silently fall back to the page cache
    /// elsewhere. Data that is already cached is read from the cache.
    #[default]
    Auto,
    /// Use direct I/O or fail.
    On,
    /// Never use direct I/O.
    Off,
}

/// Whether a file supports direct I/O, according to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectSupport {
    /// The file supports direct I/O with this alignment.
    Yes(DirectIo),
    /// The file does not support direct I/O.
    No,
    /// The kernel (before 6.1) or the file system does not report it; only a trial can show it.
    Unknown,
}

/// Reads the answer to `STATX_DIOALIGN`.
pub(crate) fn support(answer: &Statx) -> DirectSupport {
    if answer.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return DirectSupport::Unknown;
    }
    let offset_align = answer.stx_dio_offset_align as usize;
    let memory_align = answer.stx_dio_mem_align as usize;
    if offset_align == 0 || memory_align == 0 {
        return DirectSupport::No;
    }
    DirectSupport::Yes(DirectIo { offset_align, memory_align })
}
