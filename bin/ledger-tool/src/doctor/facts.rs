//! Facts about the machine, before they are judged. Sizes are in bytes. `None` means "unknown", or
//! "no limit" for fields whose doc says so.

use serde::Serialize;
pub use unsnap_cli::machine::cgroup::Cgroup;

/// All facts that verdicts are based on.
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
    /// The kernel's error if it refused a ring, such as "Operation not permitted (os error 1)".
    pub refused: Option<String>,
    /// Likely cause of the refusal.
    pub reason: Option<String>,
    /// The sysctl kernel.io_uring_disabled (Linux 6.6): 0 for all, 1 for a group, 2 for nobody.
    pub disabled: Option<u32>,
    pub features: Vec<&'static str>,
    pub missing_operations: Vec<&'static str>,
    pub restricts: bool,
    pub registers: bool,
}

/// Restrictions of this process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Confinement {
    /// Version of Landlock's interface, such as "abi 6".
    pub landlock: Option<String>,
    /// Restrictions that a run's sandbox would lack.
    pub sandbox_missing: Vec<String>,
    /// 0 none, 1 strict, 2 a filter.
    pub seccomp_mode: Option<u32>,
    pub no_new_privs: Option<bool>,
    /// Kind of container that the process runs in.
    pub container: Option<String>,
    /// Kind of virtual machine that the process runs in.
    pub virtual_machine: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Processor {
    pub model: Option<String>,
    /// Vector features that hashing and decoding use.
    pub features: Vec<&'static str>,
    /// Logical processors of the machine that are online.
    pub online: usize,
    /// Online processors that this process may run on.
    pub allowed: usize,
    /// Useful number of threads: `allowed`, or fewer if the cgroup has a quota.
    pub usable: usize,
    /// Frequency governor of the first processor.
    pub governor: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    pub total_bytes: u64,
    pub available_bytes: u64,
    /// Memory that a run reserves by default.
    pub needed_bytes: u64,
    /// Transparent huge pages: "always", "madvise" or "never".
    pub transparent: Option<String>,
    /// Free reserved huge pages.
    pub huge_free: u64,
    /// All reserved huge pages.
    pub huge_total: u64,
    pub huge_page_bytes: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Limits {
    /// RLIMIT_MEMLOCK; `None` for no limit.
    pub locked_bytes: Option<u64>,
    /// Whether this process is exempt from that limit (CAP_IPC_LOCK).
    pub may_lock: bool,
    /// RLIMIT_NOFILE; `None` for no limit.
    pub open_files: Option<u64>,
    pub open_files_hard: Option<u64>,
    /// RLIMIT_FSIZE; `None` for no limit.
    pub file_bytes: Option<u64>,
}

/// Kernel settings that validators need.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sysctls {
    pub max_map_count: Option<u64>,
    pub nr_open: Option<u64>,
}

/// A path, and the file system and disks that hold it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Place {
    pub path: String,
    /// Whether it is a directory, to write files to. Otherwise it is a file to read.
    pub is_directory: bool,
    /// `st_dev`.
    pub device: u64,
    /// Such as "ext4".
    pub file_system: String,
    pub mount_point: String,
    /// The mounted device, such as "/dev/nvme0n1p1".
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
    /// Error of creating a file, if it failed.
    pub write_error: Option<String>,
    pub direct: Direct,
    /// Free space for this process, as `unpack` counts it.
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// `None` where there is no limit.
    pub free_inodes: Option<u64>,
    /// The disk, and the disks that it is made of.
    pub disks: Vec<Disk>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Direct {
    /// Whether statx reports direct I/O as supported (STATX_DIOALIGN, Linux 6.1).
    pub declared: Option<bool>,
    /// Required alignment of offsets and lengths.
    pub offset_align: Option<u64>,
    /// Required alignment of memory.
    pub memory_align: Option<u64>,
    /// Whether a direct write and read of 4 KiB succeeded; for an archive, a read.
    pub works: Option<bool>,
    /// Its error, if it failed.
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
    /// Maximum size of a discard; 0 if the device does not support discards.
    pub discard_bytes: Option<u64>,
    pub block_bytes: Option<u64>,
}
