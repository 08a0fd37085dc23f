//! The mapping behind the reservation: anonymous memory, backed by huge pages where available.

use std::{ffi::c_void, ptr::NonNull};

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags},
};

use crate::{error::ArenaError, nodes::NodeSet};

/// Size and alignment of a huge page on the architectures Agave runs on.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Kind of pages behind the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Reserved huge pages (`MAP_HUGETLB`), taken from `vm.nr_hugepages`.
    HugeTlb,
    /// Transparent huge pages (`MADV_HUGEPAGE`). The kernel may still have used some small pages.
    Transparent,
    /// Ordinary pages: the kernel has no transparent huge pages or refused the advice.
    Plain,
}

impl PageKind {
    /// Returns whether the kernel agreed to back the reservation with huge pages.
    pub fn is_huge(self) -> bool {
        self != Self::Plain
    }

    /// Returns the word used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::HugeTlb => "hugetlb",
            Self::Transparent => "transparent",
            Self::Plain => "none",
        }
    }
}

/// The mapping. `base` is the aligned start inside `[map_start, map_start + map_bytes)`.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    map_start: NonNull<u8>,
    map_bytes: usize,
    kind: PageKind,
    nodes: usize,
}

// SAFETY: a mapping is an address range of the whole process and not tied to a thread. Its bytes
// are accessed only through `Block` and `Slice`, whose ranges never alias mutably (see block.rs).
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` itself only hands out addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps reserved huge pages and faults them in. `mmap` fails if there are too few. It succeeds
    /// where a control group limits their number (`hugetlb.2MB.max`): a page beyond the limit is
    /// refused when it is first used, by SIGBUS. Faulting in reports that as an error.
    pub fn hugetlb(bytes: usize, nodes: Option<&NodeSet>) -> Result<Self, Errno> {
        let map_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let map_start = map_anonymous(map_bytes, MapFlags::HUGETLB)?;
        // The kernel aligns such mappings to the huge page size.
        let kind = PageKind::HugeTlb;
        let mut mapping = Self { base: map_start, map_start, map_bytes, kind, nodes: 1 };
        mapping.spread(nodes);
        unless_refused(mapping.advise(map_bytes, Advice::LinuxPopulateWrite))?;
        Ok(mapping)
    }

    pub fn transparent(bytes: usize, nodes: Option<&NodeSet>) -> Result<Self, ArenaError> {
        // One huge page more than requested, so that the mapping contains an aligned start.
        let map_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        let map_start = map_anonymous(map_bytes, MapFlags::NORESERVE)
            .map_err(|source| ArenaError::Reserve { bytes: map_bytes, source })?;
        let skip =
            map_start.addr().get().next_multiple_of(HUGE_PAGE_BYTES) - map_start.addr().get();
        // SAFETY: skip < HUGE_PAGE_BYTES < map_bytes, so the result lies inside the mapping.
        let base = unsafe { map_start.add(skip) };
        let kind = PageKind::Plain;
        let mut mapping = Self { base, map_start, map_bytes, kind, nodes: 1 };
        mapping.spread(nodes);
        match mapping.advise(bytes, Advice::LinuxHugepage) {
            Ok(()) => mapping.kind = PageKind::Transparent,
            Err(errno) => tracing::debug!(%errno, "no transparent huge pages; using plain pages"),
        }
        Ok(mapping)
    }

    /// Spreads the pages over nodes, before there are any.
    fn spread(&mut self, nodes: Option<&NodeSet>) {
        let Some(nodes) = nodes else { return };
        match nodes.interleave(self.map_start, self.map_bytes) {
            Ok(()) => self.nodes = nodes.count(),
            Err(errno) => tracing::debug!(%errno, "the memory is not spread over NUMA nodes"),
        }
    }

    /// Faults the pages in. A kernel without `MADV_POPULATE_WRITE` (before 5.14) faults them in on
    /// first use, with the same contents.
    pub fn populate(&self, bytes: usize) {
        if let Err(errno) = self.advise(bytes, Advice::LinuxPopulateWrite) {
            tracing::debug!(%errno, "cannot populate the arena; pages are faulted in on first use");
        }
    }

    fn advise(&self, bytes: usize, advice: Advice) -> Result<(), Errno> {
        let start = self.base.as_ptr().cast::<c_void>();
        assert!(bytes <= self.usable(), "advice on {bytes} bytes of {}", self.usable());
        // SAFETY: by the assertion, [base, base + bytes) lies inside our own private anonymous
        // mapping, and neither advice used here (huge pages, populate) changes the bytes that a
        // reader sees.
        unsafe { rustix::mm::madvise(start, bytes, advice) }
    }

    /// Returns the address of the reservation's first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the kind of pages that the kernel provided.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Returns the number of NUMA nodes that the pages are spread over.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the number of bytes from `base` to the end of the mapping.
    fn usable(&self) -> usize {
        self.map_bytes - (self.base.addr().get() - self.map_start.addr().get())
    }

    /// Returns the address of the `bytes` bytes at `offset` from the base.
    ///
    /// # Panics
    /// If they do not lie within the mapping. Pools are cut so that they do.
    pub fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.usable()), "{bytes} bytes at {offset}");
        // SAFETY: by the assertion, the result lies inside the mapping or one past its end.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start = self.map_start.as_ptr().cast::<c_void>();
        // SAFETY: this is exactly the range that mmap returned: no method changes the two fields.
        // Every block, slice and ring registration holds a share of the `Arc<Mapping>`, so nothing
        // refers to the range any more.
        if let Err(errno) = unsafe { rustix::mm::munmap(start, self.map_bytes) } {
            tracing::error!(%errno, "munmap failed; the memory stays mapped");
        }
    }
}

/// Returns the error of faulting pages in, unless the kernel cannot do so in advance (before 5.14).
fn unless_refused(populated: Result<(), Errno>) -> Result<(), Errno> {
    match populated {
        Err(Errno::INVAL | Errno::NOSYS) => Ok(()),
        result => result,
    }
}

fn map_anonymous(bytes: usize, extra: MapFlags) -> Result<NonNull<u8>, Errno> {
    let flags = MapFlags::PRIVATE | extra;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address chosen by the kernel overlaps no existing mapping.
    let start =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)? };
    NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use unsnap_testkit::skip::skip_unsupported;

    use super::*;

    #[test]
    fn pages_that_cannot_be_faulted_in_are_refused_unless_the_kernel_is_old() {
        assert_eq!(unless_refused(Ok(())), Ok(()));
        assert_eq!(unless_refused(Err(Errno::INVAL)), Ok(()));
        // By a control group's limit, a poisoned page, a lack of memory.
        for errno in [Errno::FAULT, Errno::HWPOISON, Errno::NOMEM] {
            assert_eq!(unless_refused(Err(errno)), Err(errno));
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a file of /proc, in a test")]
    fn pages_are_interleaved_over_the_nodes_that_are_given() {
        let allowed = match NodeSet::allowed() {
            Ok(allowed) => allowed,
            Err(errno) => return skip_unsupported(errno),
        };
        let mapping = Mapping::transparent(HUGE_PAGE_BYTES, Some(&allowed)).unwrap();
        assert_eq!(mapping.nodes(), allowed.count());
        let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap();
        let start = format!("{:x} ", mapping.map_start.addr());
        let line = maps.lines().find(|line| line.starts_with(&start)).unwrap();
        assert!(line.contains(" interleave:"), "{line}");
    }

    /// Memory of a range that the kernel does not populate stands for pages beyond a limit: both are
    /// refused with `EFAULT`.
    #[test]
    fn a_refusal_to_fault_pages_in_is_reported() {
        let mapping = Mapping::transparent(HUGE_PAGE_BYTES, None).unwrap();
        assert_eq!(mapping.advise(HUGE_PAGE_BYTES, Advice::LinuxPopulateWrite), Ok(()));
        if let Ok(mapping) = Mapping::hugetlb(HUGE_PAGE_BYTES, None) {
            assert_eq!(mapping.kind(), PageKind::HugeTlb);
        }
    }
}
