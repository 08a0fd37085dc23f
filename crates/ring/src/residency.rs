//! Page-cache residency of files (cachestat).

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Number of `cachestat`. New system calls have the same number on every architecture since Linux
/// 5.1.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of linux/mman.h.
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat` of linux/mman.h: counts of pages.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Returns whether every page of the `bytes` bytes at `offset` is in the page cache at this moment.
///
/// Returns `None` where the kernel does not report it: before 6.5, under some seccomp filters, and
/// (since 6.13) for files that this process neither owns nor may write to. File systems that keep
/// the bytes elsewhere (overlays, ZFS) appear to have none cached. The call reads no data and
/// changes nothing in the cache.
pub fn is_cached(file: impl AsFd, offset: u64, bytes: u64) -> Option<bool> {
    cached(file, offset, bytes).ok()
}

/// Like [`is_cached`], but returns the kernel's error.
pub(crate) fn cached(file: impl AsFd, offset: u64, bytes: u64) -> Result<bool, Errno> {
    let page = rustix::param::page_size() as u64;
    let end = offset.checked_add(bytes).ok_or(Errno::OVERFLOW)?;
    let wanted = end.div_ceil(page) - offset / page;
    let range = Range { offset, bytes };
    let mut counts = Counts::default();
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the call reads one `Range` and writes one `Counts`, both of which outlive it; the
    // descriptor is borrowed for as long. No flags are defined.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file, &raw const range, &raw mut counts, 0_u32) };
    if result == 0 {
        Ok(counts.cached >= wanted)
    } else {
        let error = std::io::Error::last_os_error();
        Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write};

    use rustix::fs::{MemfdFlags, memfd_create};
    use unsnap_testkit::skip::skip_unsupported;

    use super::*;

    #[test]
    fn bytes_just_written_are_cached_and_those_beyond_the_end_are_not() {
        let mut file = File::from(memfd_create("cached", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(&[7; 10_000]).unwrap();
        let Some(cached) = is_cached(&file, 0, 10_000) else {
            return skip_unsupported("this kernel has no cachestat");
        };
        assert!(cached);
        assert_eq!(is_cached(&file, 4097, 3000), Some(true));
        assert_eq!(is_cached(&file, 8192, 10_000_000), Some(false));
        assert_eq!(is_cached(&file, u64::MAX, 2), None);
    }
}
