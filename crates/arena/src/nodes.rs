//! NUMA nodes: those that this process may use, and memory that is spread over them.
//!
//! Segments are decoded by any worker and written by any creator, so no node is the right one for
//! the memory. On one node it would be limited by that node's memory channels, which most of the
//! processors reach through the interconnect. Interleaved, page by page, all channels share the
//! traffic.

use std::{ffi::c_void, ptr::NonNull};

use rustix::io::Errno;

const WORDS: usize = 16;
const WORD_BITS: usize = u64::BITS as usize;

/// Most nodes of any kernel: `CONFIG_NODES_SHIFT` is 10 at most.
const NODES_MAX: usize = WORDS * WORD_BITS;

/// Flag of get_mempolicy(2), from `linux/mempolicy.h`.
const MPOL_F_MEMS_ALLOWED: libc::c_int = 1 << 2;

/// A set of NUMA nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSet([u64; WORDS]);

impl NodeSet {
    /// Returns the set of these nodes. Nodes that no kernel can have are left out.
    pub fn of(nodes: impl IntoIterator<Item = usize>) -> Self {
        let mut words = [0; WORDS];
        for node in nodes.into_iter().filter(|node| *node < NODES_MAX) {
            words[node / WORD_BITS] |= 1 << (node % WORD_BITS);
        }
        Self(words)
    }

    /// Returns the nodes whose memory this process may use, by its cpuset. It needs no file, so it
    /// works in a sandbox. Fails where the kernel has no NUMA support or a filter refuses the call.
    pub fn allowed() -> Result<Self, Errno> {
        let mut words = [0_u64; WORDS];
        // SAFETY: the kernel writes at most NODES_MAX bits to `words`, which has as many. The other
        // pointers may be null with this flag.
        let result = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                std::ptr::null_mut::<libc::c_int>(),
                words.as_mut_ptr(),
                NODES_MAX,
                std::ptr::null_mut::<c_void>(),
                MPOL_F_MEMS_ALLOWED,
            )
        };
        answer(result).map(|()| Self(words))
    }

    /// Returns the number of nodes.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Spreads the pages of a range that has none yet over the nodes, in turns.
    pub(crate) fn interleave(&self, start: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
        // One more than the number of bits, which the kernel expects (mbind(2), "BUGS").
        // SAFETY: the call changes where the kernel takes pages from, and no byte of the range. It
        // reads NODES_MAX bits of the set.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                start.as_ptr(),
                bytes,
                libc::MPOL_INTERLEAVE,
                self.0.as_ptr(),
                NODES_MAX + 1,
                0,
            )
        };
        answer(result)
    }
}

fn answer(result: libc::c_long) -> Result<(), Errno> {
    if result < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::NOSYS));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_nodes_that_they_were_made_of() {
        assert_eq!(NodeSet::of([]).count(), 0);
        assert_eq!(NodeSet::of([0, 1, 64, 1023, 1]).count(), 4);
        assert_eq!(NodeSet::of([1024, usize::MAX]).count(), 0);
        assert_eq!(NodeSet::of([0, 65]), NodeSet::of([65, 0]));
    }
}
