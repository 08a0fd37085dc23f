//! What was found out, before it is judged. Sizes are bytes; `None` is "not known", or where it says
//! so "no limit".

use serde::Serialize;

/// Everything that verdicts are made from.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    pub kernel: Kernel,
    pub uring: Uring,
    pub confinement: Confinement,
    pub processor: Processor,
    pub memory: Memory,
    pub limits: Limits,
    pub cgroup: Cgroup,
    pub sysctls: Sysctls,
    pub places: Vec<Place>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    /// Its first two numbers.
    pub version: Option<(u32, u32)>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Uring {
    /// The kernel's answer where a ring was refused, such as "Operation not permitted (os error 1)".
    pub refused: Option<String>,
    /// What it means.
    pub reason: Option<String>,
    /// The sysctl kernel.io_uring_disabled (Linux 6.6): 0 for all, 1 for a group, 2 for nobody.
    pub disabled: Option<u32>,
    pub features: Vec<&'static str>,
    pub missing_operations: Vec<&'static str>,
    pub truncates: bool,
    pub restricts: bool,
    pub registers: bool,
}

/// What this process may do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Confinement {
    /// Version of Landlock's interface, such as "abi 6".
    pub landlock: Option<String>,
    /// What a run's sandbox would lack.
    pub sandbox_missing: Vec<String>,
    /// 0 none, 1 strict, 2 a filter.
    pub seccomp_mode: Option<u32>,
    pub no_new_privs: Option<bool>,
    /// What kind of container this is in.
    pub container: Option<String>,
    /// What kind of virtual machine this is in.
    pub virtual_machine: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Processor {
    pub model: Option<String>,
    /// Vector features that hashing and decoding make use of.
    pub features: Vec<&'static str>,
    /// Logical processors of the machine that are on.
    pub online: usize,
    /// Of these, processors that this process may run on.
    pub allowed: usize,
    /// Threads that are worth starting: `allowed`, or what the cgroup's quota leaves.
    pub usable: usize,
    /// How the first processor's frequency is chosen.
    pub governor: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    pub total_bytes: u64,
    pub available_bytes: u64,
    /// What a run reserves by default.
    pub needed_bytes: u64,
    /// Transparent huge pages: "always", "madvise" or "never".
    pub transparent: Option<String>,
    /// Huge pages that were set aside and are free.
    pub huge_free: u64,
    /// Of this many.
    pub huge_total: u64,
    pub huge_page_bytes: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Limits {
    /// RLIMIT_MEMLOCK; `None` for no limit.
    pub locked_bytes: Option<u64>,
    /// Whether that does not hold for this process (CAP_IPC_LOCK).
    pub may_lock: bool,
    /// RLIMIT_NOFILE; `None` for no limit.
    pub open_files: Option<u64>,
    pub open_files_hard: Option<u64>,
    /// RLIMIT_FSIZE; `None` for no limit.
    pub file_bytes: Option<u64>,
}

/// The tightest limits of this process's control groups; `None` for no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cgroup {
    /// Memory beyond which processes are killed (memory.max, memory.limit_in_bytes).
    pub memory_bytes: Option<u64>,
    /// Memory beyond which processes are slowed down (memory.high).
    pub memory_high_bytes: Option<u64>,
    /// Processor time for each second (cpu.max, cpu.cfs_quota_us).
    pub cores: Option<f64>,
    /// Limits of disks, as the kernel prints them (io.max, blkio.throttle.*).
    pub io: Vec<String>,
    /// Control files that could not be read.
    pub unknown: bool,
}

/// What validators ask of the kernel.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sysctls {
    pub max_map_count: Option<u64>,
    pub nr_open: Option<u64>,
}

/// A path, and what it lies on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Place {
    pub path: String,
    /// Whether files can be written into it; else it is a file to read.
    pub is_directory: bool,
    /// `st_dev`.
    pub device: u64,
    /// Such as "ext4".
    pub file_system: String,
    pub mount_point: String,
    /// What is mounted there, such as "/dev/nvme0n1p1".
    pub source: String,
    /// Of the mount, and of the file system.
    pub options: Vec<String>,
    /// Why nothing can be written, if that was tried and failed.
    pub write_error: Option<String>,
    pub direct: Direct,
    /// For this user.
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// `None` where there is no limit.
    pub free_inodes: Option<u64>,
    /// The disk, and those that it is made of.
    pub disks: Vec<Disk>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Direct {
    /// What statx says (STATX_DIOALIGN, Linux 6.1); `None` if nothing.
    pub declared: Option<bool>,
    /// Alignment it asks of offsets and lengths.
    pub offset_align: Option<u64>,
    /// Alignment it asks of memory.
    pub memory_align: Option<u64>,
    /// Whether a direct write and read of 4 KiB (of an archive: a read) worked.
    pub works: Option<bool>,
    /// Why not.
    pub error: Option<String>,
}

/// A block device's queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// Such as "nvme0n1".
    pub name: String,
    pub scheduler: Option<String>,
    pub requests: Option<u64>,
    pub rotational: Option<bool>,
    /// "write back" or "write through".
    pub write_cache: Option<String>,
    /// Most bytes that one discard takes; 0 if the device has none.
    pub discard_bytes: Option<u64>,
    pub block_bytes: Option<u64>,
}
