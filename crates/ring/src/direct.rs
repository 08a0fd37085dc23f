//! What a file asks of direct I/O.

use rustix::fs::{Statx, StatxFlags};

/// Alignment a file asks of direct I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectIo {
    /// Offsets and lengths must be multiples of this many bytes.
    pub offset_align: usize,
    /// Memory addresses must be multiples of this many bytes.
    pub memory_align: usize,
}

/// Whether to bypass the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectMode {
    /// Where the file system allows it, silently falling back where not. What is to be read and is
    /// in the page cache already is read from there.
    #[default]
    Auto,
    /// Or fail.
    On,
    /// Never.
    Off,
}

/// The kernel's answer to whether a file can be accessed by direct I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectSupport {
    /// It can, with this alignment.
    Yes(DirectIo),
    /// It cannot.
    No,
    /// The kernel (before 6.1) or the file system does not say: only trying tells.
    Unknown,
}

/// What `statx` answers (`STATX_DIOALIGN`) about direct I/O.
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
