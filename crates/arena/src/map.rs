//! The reservation: one anonymous mapping, backed by huge pages where available.

use std::{ffi::c_void, ptr::NonNull, sync::Arc};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::{PAGE_BYTES, Pool};

/// Size and alignment of a huge page on the architectures Agave runs on.
const HUGE_PAGE_BYTES: usize = 2 << 20;

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

/// Memory could not be reserved or cut into pools. Always the fault of the environment or of the
/// request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The kernel refused the reservation.
    #[error("cannot reserve {bytes} bytes of memory: {source}")]
    Reserve {
        /// Requested bytes, including those for alignment.
        bytes: usize,
        /// Error returned by the kernel.
        source: rustix::io::Errno,
    },
    /// A pool is larger than the uncut part of the reservation.
    #[error("a memory pool of {asked} bytes does not fit into the {left} bytes left in the arena")]
    Exhausted {
        /// Requested bytes.
        asked: usize,
        /// Bytes not yet cut into pools.
        left: usize,
    },
}

/// Builder for an [`Arena`].
#[derive(Clone, Debug)]
pub struct ArenaBuilder {
    bytes: usize,
    hugetlb: bool,
    populate: bool,
}

impl ArenaBuilder {
    /// Sets the size of the reservation in bytes, rounded up to whole pages. Default: 64 MiB.
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Tries reserved huge pages (`MAP_HUGETLB`) first. Default: off, since transparent huge pages
    /// need no preparation by the operator and were measured to be as fast.
    #[must_use]
    pub fn hugetlb(mut self, hugetlb: bool) -> Self {
        self.hugetlb = hugetlb;
        self
    }

    /// Faults the pages in at once instead of one by one under load. Default: on.
    #[must_use]
    pub fn populate(mut self, populate: bool) -> Self {
        self.populate = populate;
        self
    }

    /// Reserves the memory, falling back from reserved to transparent to plain pages.
    /// [`Arena::page_kind`] says which kind it got.
    pub fn build(self) -> Result<Arena, ArenaError> {
        let bytes = self.bytes.max(PAGE_BYTES).next_multiple_of(PAGE_BYTES);
        // Reserved huge pages are all or nothing: `mmap` itself fails if there are too few.
        let mapping = match self.hugetlb.then(|| Mapping::hugetlb(bytes)) {
            Some(Ok(mapping)) => mapping,
            Some(Err(errno)) => {
                tracing::debug!(%errno, "no reserved huge pages; trying transparent ones");
                Mapping::transparent(bytes)?
            }
            None => Mapping::transparent(bytes)?,
        };
        if self.populate {
            mapping.populate(bytes);
        }
        Ok(Arena { mapping: Arc::new(mapping), bytes, cut: 0 })
    }
}

/// One reservation of memory, to be cut into [`Pool`]s.
///
/// The memory is returned to the kernel when the arena, its pools and every handle on a lent
/// block are gone.
#[derive(Debug)]
pub struct Arena {
    mapping: Arc<Mapping>,
    bytes: usize,
    cut: usize,
}

impl Arena {
    /// Returns a builder with the default settings.
    pub fn builder() -> ArenaBuilder {
        ArenaBuilder { bytes: 64 << 20, hugetlb: false, populate: true }
    }

    /// Cuts a pool of `bytes`, rounded up to whole pages, off the reservation.
    pub fn pool(&mut self, bytes: usize) -> Result<Pool, ArenaError> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let left = self.bytes - self.cut;
        if bytes > left {
            return Err(ArenaError::Exhausted { asked: bytes, left });
        }
        let pool = Pool::new(Arc::clone(&self.mapping), self.cut, bytes);
        self.cut += bytes;
        Ok(pool)
    }

    /// Returns the kind of pages that the kernel provided.
    pub fn page_kind(&self) -> PageKind {
        self.mapping.kind
    }

    /// Returns the usable size of the reservation in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a handle on the reservation's address range, for registering it with a ring. The
    /// handle keeps the mapping alive.
    pub fn ranges(&self) -> ArenaRanges {
        ArenaRanges { mapping: Arc::clone(&self.mapping), bytes: self.bytes }
    }
}

/// The address range of an arena, in pieces that a ring can register. Keeps the mapping alive.
#[derive(Clone, Debug)]
pub struct ArenaRanges {
    mapping: Arc<Mapping>,
    bytes: usize,
}

impl ArenaRanges {
    /// Returns the address and length of each piece. All but the last are `piece_bytes` long.
    pub fn pieces(&self, piece_bytes: usize) -> impl Iterator<Item = (*const u8, usize)> {
        let base = self.mapping.base.as_ptr().cast_const();
        (0..self.bytes)
            .step_by(piece_bytes.max(PAGE_BYTES))
            .map(move |at| (base.wrapping_add(at), piece_bytes.min(self.bytes - at)))
    }

    /// Returns the index of the piece that holds all `len` bytes from `start`, if one does.
    pub fn piece_of(&self, start: *const u8, len: usize, piece_bytes: usize) -> Option<usize> {
        let offset = start.addr().checked_sub(self.mapping.base.addr().get())?;
        let end = offset.checked_add(len)?;
        let piece = offset / piece_bytes;
        (end <= self.bytes && len > 0 && (end - 1) / piece_bytes == piece).then_some(piece)
    }
}

/// The mapping. `base` is the aligned start inside `[map_start, map_start + map_bytes)`.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    map_start: NonNull<u8>,
    map_bytes: usize,
    kind: PageKind,
}

// SAFETY: a mapping is an address range of the whole process and not tied to a thread. Its bytes
// are accessed only through `Block` and `Slice`, whose ranges never alias mutably (see block.rs).
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` itself only hands out addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn hugetlb(bytes: usize) -> Result<Self, rustix::io::Errno> {
        let map_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let map_start = map_anonymous(map_bytes, MapFlags::HUGETLB)?;
        // The kernel aligns such mappings to the huge page size.
        Ok(Self { base: map_start, map_start, map_bytes, kind: PageKind::HugeTlb })
    }

    fn transparent(bytes: usize) -> Result<Self, ArenaError> {
        // One huge page more than requested, so that the mapping contains an aligned start.
        let map_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        let map_start = map_anonymous(map_bytes, MapFlags::NORESERVE)
            .map_err(|source| ArenaError::Reserve { bytes: map_bytes, source })?;
        let skip =
            map_start.addr().get().next_multiple_of(HUGE_PAGE_BYTES) - map_start.addr().get();
        // SAFETY: skip < HUGE_PAGE_BYTES < map_bytes, so the result lies inside the mapping.
        let base = unsafe { map_start.add(skip) };
        let mut mapping = Self { base, map_start, map_bytes, kind: PageKind::Plain };
        match mapping.advise(bytes, Advice::LinuxHugepage) {
            Ok(()) => mapping.kind = PageKind::Transparent,
            Err(errno) => tracing::debug!(%errno, "no transparent huge pages; using plain pages"),
        }
        Ok(mapping)
    }

    /// Faults the pages in. A kernel without `MADV_POPULATE_WRITE` (before 5.14) faults them in on
    /// first use, with the same contents.
    fn populate(&self, bytes: usize) {
        if let Err(errno) = self.advise(bytes, Advice::LinuxPopulateWrite) {
            tracing::debug!(%errno, "cannot populate the arena; pages are faulted in on first use");
        }
    }

    fn advise(&self, bytes: usize, advice: Advice) -> Result<(), rustix::io::Errno> {
        let start = self.base.as_ptr().cast::<c_void>();
        // SAFETY: [base, base + bytes) lies inside our own private anonymous mapping, and neither
        // advice used here (huge pages, populate) changes the bytes that a reader sees.
        unsafe { rustix::mm::madvise(start, bytes, advice) }
    }

    /// Returns the address of the byte at `offset`. The caller must stay within the reservation.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.map_bytes);
        // SAFETY: pools are cut so that their offsets lie inside the reservation (Arena::pool),
        // which lies inside the mapping.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start = self.map_start.as_ptr().cast::<c_void>();
        // SAFETY: this is exactly the range that mmap returned. Every block, slice and ring
        // registration holds a share of the `Arc<Mapping>`, so nothing refers to the range any
        // more.
        if let Err(errno) = unsafe { rustix::mm::munmap(start, self.map_bytes) } {
            tracing::error!(%errno, "munmap failed; the memory stays mapped");
        }
    }
}

fn map_anonymous(bytes: usize, extra: MapFlags) -> Result<NonNull<u8>, rustix::io::Errno> {
    let flags = MapFlags::PRIVATE | extra;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address chosen by the kernel overlaps no existing mapping.
    let start =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)? };
    NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_aligned_and_reports_its_page_kind() {
        let mut arena = Arena::builder().bytes(3 << 20).build().unwrap();
        assert_eq!(arena.bytes(), 3 << 20);
        let pool = arena.pool(3 << 20).unwrap();
        let block = pool.try_allocate(3 << 20).unwrap();
        assert_eq!(block.as_ptr().addr() % HUGE_PAGE_BYTES, 0);
        assert!(matches!(arena.page_kind(), PageKind::Transparent | PageKind::Plain));
    }

    #[test]
    fn hugetlb_falls_back_when_no_pages_are_reserved() {
        let mut arena = Arena::builder().bytes(64 << 20).hugetlb(true).build().unwrap();
        let mut block = arena.pool(64 << 20).unwrap().try_allocate(64 << 20).unwrap();
        // Touching memory without pages behind it would kill the process.
        block.fill(1);
    }

    #[test]
    fn pools_cannot_exceed_the_reservation() {
        let mut arena = Arena::builder().bytes(1 << 20).build().unwrap();
        let _first = arena.pool(1 << 19).unwrap();
        let error = arena.pool(1 << 20).unwrap_err();
        assert!(matches!(error, ArenaError::Exhausted { left: 0x8_0000, .. }), "{error}");
    }

    #[test]
    fn pieces_cover_the_reservation_and_find_their_addresses() {
        let mut arena = Arena::builder().bytes(5 << 20).build().unwrap();
        let pool = arena.pool(5 << 20).unwrap();
        let ranges = arena.ranges();
        let pieces: Vec<_> = ranges.pieces(2 << 20).collect();
        assert_eq!(pieces.iter().map(|(_, len)| len).sum::<usize>(), 5 << 20);
        let block = pool.try_allocate(5 << 20).unwrap();
        let at = |offset: usize| block.as_ptr().wrapping_add(offset);
        assert_eq!(ranges.piece_of(at(0), 4096, 2 << 20), Some(0));
        assert_eq!(ranges.piece_of(at(4 << 20), 1 << 20, 2 << 20), Some(2));
        assert_eq!(ranges.piece_of(at((2 << 20) - 1), 2, 2 << 20), None, "straddles two pieces");
        assert_eq!(ranges.piece_of(at(5 << 20), 1, 2 << 20), None, "past the end");
        let outside = [0_u8; 16];
        assert_eq!(ranges.piece_of(outside.as_ptr(), 16, 2 << 20), None);
    }
}
