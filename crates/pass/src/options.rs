//! Options of a pass: the parts that all operations share.

use std::{fmt, num::NonZeroU64, sync::Arc, thread};

use unsnap_decode::{MemoryPlan, Tuning as DecodeTuning};
use unsnap_layout::{AnyLayout, ArchiveName, Layout, SnapshotLayout};
use unsnap_ring::{DirectMode, FaultPlan, IoPriority, Pace, Syscalls};

use crate::{Archive, CpuSet, Niceness, SandboxMode};

/// Most decoding threads by default. More have never been seen to gain anything. A guess.
const DECODE_THREADS_MAX: usize = 16;

/// How archives are gone through. The defaults suit every machine.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How files are read and written.
    pub io: Io,
    /// Memory and threads.
    pub resources: Resources,
    /// Limits on what an archive may claim.
    pub limits: Limits,
    /// How much of the machine is left to others.
    pub neighbour: Neighbour,
    /// Whether the thread confines itself before it reads the archive.
    pub sandbox: SandboxMode,
    /// Settings for benchmarks and tests.
    #[doc(hidden)]
    pub tuning: Tuning,
}

/// How files are read and written.
#[derive(Clone, Debug, Default)]
pub struct Io {
    /// Whether to bypass the page cache.
    pub direct: DirectMode,
    /// What carries out reads and writes.
    pub engine: IoEngine,
    /// Whether the archive's index is used.
    pub index: IndexUse,
}

/// What carries out reads and writes.
#[derive(Clone, Debug, Default)]
pub enum IoEngine {
    /// The fastest engine that works here. ARCHITECTURE.md has the measurements.
    #[default]
    Auto,
    /// io_uring. The run fails if the kernel refuses it.
    Uring,
    /// Plain threads.
    Threads,
    /// Plain system calls with injected faults. For tests.
    Faulty(FaultPlan),
}

impl IoEngine {
    /// Returns the system calls to make beside the engine's own. They share its plan of faults.
    pub fn syscalls(&self) -> Syscalls {
        match self {
            Self::Auto | Self::Uring | Self::Threads => Syscalls::default(),
            Self::Faulty(plan) => Syscalls::with_faults(plan.clone()),
        }
    }
}

/// Whether the index beside an archive (its side-car) is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexUse {
    /// Use it if it exists and matches the archive by size and samples. Otherwise warn and go on
    /// without.
    #[default]
    Auto,
    /// It must exist, and the archive must have the digest that it states. That takes a read of the
    /// whole archive.
    Proven,
    /// Use neither an index nor a seek table at the archive's end.
    Ignore,
}

/// Memory and threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resources {
    /// Decoding threads; `None` for one for each core, at most 16.
    pub decode_threads: Option<usize>,
    /// Bytes of memory for reading ahead and for decoded data; `None` for a default that suits the
    /// number of threads.
    pub memory_budget: Option<u64>,
    /// Try reserved huge pages before transparent ones.
    pub hugetlb: bool,
}

impl Resources {
    /// Returns the number of decoding threads, from 1 to 256.
    pub fn threads(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        self.decode_threads.unwrap_or(cores.min(DECODE_THREADS_MAX)).clamp(1, 256)
    }

    /// Returns the bytes that a pass reserves at most. The page cache, and the memory for verifying
    /// accounts, come on top.
    pub fn memory_bytes(&self) -> u64 {
        let default = || MemoryPlan::default_budget(self.threads()) as u64;
        self.memory_budget.unwrap_or_else(default)
    }
}

/// Limits on what an archive may claim, one group for each stage.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Limits on the compressed stream.
    pub decode: unsnap_decode::Limits,
    /// Limits on tar headers.
    pub tar: unsnap_tarstream::Limits,
    /// Limits on entries.
    pub layout: unsnap_layout::Limits,
}

/// How much of the machine is left to others.
#[derive(Clone, Debug, Default)]
pub struct Neighbour {
    /// A handle that limits the write rate and pauses the run. Several runs may share one.
    pub pace: Option<Pace>,
    /// I/O priority of reads and writes; `None` for the caller's.
    pub io_priority: Option<IoPriority>,
    /// Niceness of the run's threads; `None` for the caller's.
    pub nice: Option<Niceness>,
    /// Processors that the run's threads may use, out of the caller's; `None` for all of these.
    pub cpus: Option<CpuSet>,
}

impl Neighbour {
    /// Returns the rate limit in force, in bytes per second for each destination device.
    pub fn rate_limit(&self) -> Option<u64> {
        self.pace.as_ref().and_then(Pace::rate).map(NonZeroU64::get)
    }
}

/// What an archive may contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutKind {
    /// Exactly the entries of a validator's snapshot.
    #[default]
    Snapshot,
    /// Files and directories under any safe relative path.
    Any,
}

impl LayoutKind {
    /// Returns its name in options and journals.
    pub fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Any => "any",
        }
    }

    /// Returns the rules for an archive's entries.
    pub fn rules(self, archive: &Archive, limits: &Limits) -> Layout {
        self.rules_by_name(archive.snapshot_name(), limits)
    }

    /// Returns the rules for the entries of an archive of this name; `None` if the name does not
    /// matter.
    pub fn rules_by_name(self, name: Option<ArchiveName>, limits: &Limits) -> Layout {
        match self {
            Self::Snapshot => Layout::Snapshot(SnapshotLayout::new(limits.layout, name)),
            Self::Any => Layout::Any(AnyLayout::new(limits.layout)),
        }
    }
}

/// Settings for benchmarks and tests. The defaults are right.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// Sizes of segments and reads.
    pub decode: DecodeTuning,
    /// Smaller files are written through the page cache.
    pub direct_bytes_min: Option<u64>,
    /// Operations in flight for the reader, and for each creator.
    pub depth: Option<usize>,
    /// Threads that may block in the kernel for each creator.
    pub workers: Option<usize>,
    /// Bytes that go through the page cache between two early syncs.
    pub writeback_bytes: Option<u64>,
    /// Free bytes of each file system that count as used once the run has begun, as if another
    /// process had written them.
    pub hidden_bytes: Option<u64>,
    /// Archives up to this size are decoded to the end to find out what they hold.
    pub survey_whole_bytes: Option<u64>,
    /// Ends the walk before the first entry that begins behind this many decoded bytes, once every
    /// entry that a snapshot must have has passed. The result is a part of a snapshot. For
    /// benchmarks of large archives.
    pub stop_after_bytes: Option<u64>,
    /// For tests of the sandbox: called at the first entry, as if the archive had taken over the
    /// tar walk.
    pub compromised: Option<Compromised>,
}

/// For tests of the sandbox: an attack, carried out once by the thread that walks the archive.
#[doc(hidden)]
#[derive(Clone)]
pub struct Compromised(Arc<dyn Fn() + Send + Sync>);

impl Compromised {
    /// Wraps an attack.
    pub fn new(attack: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(attack))
    }

    /// Carries it out.
    pub fn strike(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Compromised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Compromised")
    }
}
