//! The reservation, cut into pools.

use std::sync::Arc;

use crate::{
    PAGE_BYTES,
    error::ArenaError,
    mapping::{Mapping, PageKind},
    nodes::NodeSet,
    pool::Pool,
};

/// Builder for an [`Arena`].
#[derive(Clone, Debug)]
pub struct ArenaBuilder {
    bytes: usize,
    hugetlb: bool,
    populate: bool,
    nodes: Option<NodeSet>,
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

    /// Spreads the memory over these NUMA nodes, if there are several. Default: all that the process
    /// may use.
    #[must_use]
    pub fn nodes(mut self, nodes: NodeSet) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Reserves the memory, falling back from reserved to transparent to plain pages.
    /// [`Arena::page_kind`] says which kind it got.
    pub fn build(self) -> Result<Arena, ArenaError> {
        let bytes = self.bytes.max(PAGE_BYTES).next_multiple_of(PAGE_BYTES);
        let nodes = self.nodes.or_else(|| NodeSet::allowed().ok());
        let nodes = nodes.filter(|nodes| nodes.count() > 1);
        // Reserved huge pages are all or nothing, and faulted in whatever `populate` says: a page
        // that is refused later would end the process.
        let mapping = match self.hugetlb.then(|| Mapping::hugetlb(bytes, nodes.as_ref())) {
            Some(Ok(mapping)) => mapping,
            Some(Err(errno)) => {
                tracing::debug!(%errno, "no reserved huge pages; trying transparent ones");
                Mapping::transparent(bytes, nodes.as_ref())?
            }
            None => Mapping::transparent(bytes, nodes.as_ref())?,
        };
        if self.populate && mapping.kind() != PageKind::HugeTlb {
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
        ArenaBuilder { bytes: 64 << 20, hugetlb: false, populate: true, nodes: None }
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
        self.mapping.kind()
    }

    /// Returns the number of NUMA nodes that the memory is spread over; 1 if it is not spread.
    pub fn nodes(&self) -> usize {
        self.mapping.nodes()
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
        let base = self.mapping.base().as_ptr().cast_const();
        (0..self.bytes)
            .step_by(piece_bytes.max(PAGE_BYTES))
            .map(move |at| (base.wrapping_add(at), piece_bytes.min(self.bytes - at)))
    }

    /// Returns the index of the piece that holds all `len` bytes from `start`, if one does.
    pub fn piece_of(&self, start: *const u8, len: usize, piece_bytes: usize) -> Option<usize> {
        let offset = start.addr().checked_sub(self.mapping.base().addr().get())?;
        let end = offset.checked_add(len)?;
        let piece = offset / piece_bytes;
        (end <= self.bytes && len > 0 && (end - 1) / piece_bytes == piece).then_some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE_PAGE_BYTES;
    use unsnap_testkit::skip::skip_unsupported;

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
    fn memory_is_spread_where_there_are_several_nodes() {
        let allowed = match NodeSet::allowed() {
            Ok(allowed) => allowed,
            Err(errno) => return skip_unsupported(errno),
        };
        let of = |nodes| Arena::builder().bytes(8 << 20).nodes(nodes).build().unwrap();
        assert_eq!(of(allowed).nodes(), allowed.count());
        assert_eq!(of(NodeSet::of([0])).nodes(), 1, "nothing to spread over");
        assert_eq!(of(NodeSet::of([])).nodes(), 1);
        // No machine has these, so the kernel refuses, and the memory works all the same.
        let mut arena = of(NodeSet::of([1000, 1001]));
        assert_eq!(arena.nodes(), 1);
        arena.pool(8 << 20).unwrap().try_allocate(8 << 20).unwrap().fill(1);
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
