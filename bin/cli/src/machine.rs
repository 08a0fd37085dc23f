//! Memory and control groups of this machine.

pub mod cgroup;
pub mod proc_files;
pub mod process;

use proc_files::{field, kib_or_count, mounts, read};

/// Returns the bytes of memory that can be used without swapping, as the kernel estimates them
/// (`MemAvailable`); 0 if that is unknown.
pub fn available_memory() -> u64 {
    field(&read("/proc/meminfo"), "MemAvailable").map_or(0, kib_or_count)
}

/// Returns the tightest limits of this process's control groups.
pub fn own_cgroup() -> cgroup::Cgroup {
    cgroup::own(&mounts(&read("/proc/self/mountinfo")))
}
