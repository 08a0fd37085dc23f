//! Options that all operations share.

use std::{fmt, sync::Arc, thread};

use unsnap_decode::{Decoder, MemoryPlan, Tuning as DecodeTuning};
use unsnap_layout::{AnyLayout, ArchiveName, Layout, SnapshotLayout};
use unsnap_ring::{DirectMode, FaultPlan, Syscalls};

use crate::{Archive, Neighbour, SandboxMode};

/// Largest default number of decoding threads. No measurement has shown a gain from more. A guess.
const DECODE_THREADS_MAX: usize = 16;

/// Options of a pass over archives. The defaults suit every machine.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Reading and writing of files.
    pub io: Io,
    /// Memory and threads.
    pub resources: Resources,
    /// Limits on what an archive may claim.
    pub limits: Limits,
    /// Consideration for other processes.
    pub neighbour: Neighbour,
    /// Whether the thread confines itself before it reads the archive.
    pub sandbox: SandboxMode,
    /// Settings for benchmarks and tests.
    #[doc(hidden)]
    pub tuning: Tuning,
}

/// Options for reading and writing files.
#[derive(Clone, Debug, Default)]
pub struct Io {
    /// Whether to bypass the page cache.
    pub direct: DirectMode,
    /// Engine for reads and writes.
    pub engine: IoEngine,
    /// Use of the archive's index.
    pub index: IndexUse,
}

/// Engine for reads and writes.
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
    /// Returns the interface for system calls outside of the engine, with the same plan of faults.
    pub fn syscalls(&self) -> Syscalls {
        match self {
            Self::Auto | Self::Uring | Self::Threads => Syscalls::default(),
            Self::Faulty(plan) => Syscalls::with_faults(plan.clone()),
        }
    }
}

/// Use of the index beside an archive (its side-car).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexUse {
    /// Uses the index if it matches the archive by size and samples. Otherwise warns and continues
    /// without it.
    #[default]
    Auto,
    /// Requires an index whose digest matches the archive. The check reads the whole archive.
    Proven,
    /// Uses neither an index nor a seek table at the archive's end.
    Ignore,
}

/// Memory and threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resources {
    /// Number of decoding threads; `None` for one per core, at most 16.
    pub decode_threads: Option<usize>,
    /// Decoder of zstd frames.
    pub decoder: Decoder,
    /// Bytes of memory for reading ahead and for decoded data; `None` for a default that suits the
    /// number of threads.
    pub memory_budget: Option<u64>,
    /// Whether to try reserved huge pages before transparent ones.
    pub hugetlb: bool,
}

impl Resources {
    /// Returns the number of decoding threads, from 1 to 256.
    pub fn threads(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        self.decode_threads.unwrap_or(cores.min(DECODE_THREADS_MAX)).clamp(1, 256)
    }

    /// Returns the most bytes that a pass reserves. The page cache and the memory for verifying
    /// accounts are additional.
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

/// Set of entries that an archive may contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutKind {
    /// The entries of a validator's snapshot and no others.
    #[default]
    Snapshot,
    /// Files and directories under any safe relative path.
    Any,
}

impl LayoutKind {
    /// Returns the layout's name in options and journals.
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

/// Settings for benchmarks and tests. Programs use the defaults.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// Sizes of segments and reads.
    pub decode: DecodeTuning,
    /// Size in bytes below which files are written through the page cache.
    pub direct_bytes_min: Option<u64>,
    /// Operations in flight for the reader, and for each creator.
    pub depth: Option<usize>,
    /// Number of threads of each creator that may block in the kernel.
    pub workers: Option<usize>,
    /// Bytes that go through the page cache between two early syncs.
    pub writeback_bytes: Option<u64>,
    /// Bytes of files between two checkpoints; `None` for 16 GiB. A run that resumes also takes
    /// checkpoints early and by time. A killed run has to write the files since the last one again.
    pub checkpoint_bytes: Option<u64>,
    /// Free bytes of each file system that count as used once the run has begun, as if another
    /// process had written them.
    pub hidden_bytes: Option<u64>,
    /// Size in bytes up to which the check for space reads an archive from end to end.
    pub survey_whole_bytes: Option<u64>,
    /// Number of decoded bytes after which the walk ends before the next entry, once every entry
    /// that a snapshot requires has passed. The result is a part of a snapshot. For benchmarks of
    /// large archives.
    pub stop_after_bytes: Option<u64>,
    /// Function for tests of the sandbox. Called at the first entry, as if the archive had taken
    /// over the tar walk.
    pub compromised: Option<Compromised>,
}

/// An attack for tests of the sandbox. The thread that walks the archive carries it out once.
#[doc(hidden)]
#[derive(Clone)]
pub struct Compromised(Arc<dyn Fn() + Send + Sync>);

impl Compromised {
    /// Wraps an attack.
    pub fn new(attack: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(attack))
    }

    /// Carries out the attack.
    pub fn strike(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Compromised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Compromised")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_suit_every_machine() {
        let Options { io, resources, neighbour, sandbox, .. } = Options::default();
        assert_eq!((io.direct, io.index), (DirectMode::Auto, IndexUse::Auto));
        assert!(matches!(io.engine, IoEngine::Auto));
        assert_eq!(sandbox, SandboxMode::Auto);
        assert_eq!(neighbour.rate_limit(), None);
        assert!((1..=DECODE_THREADS_MAX).contains(&resources.threads()));
        let budget = MemoryPlan::default_budget(resources.threads()) as u64;
        assert_eq!(resources.memory_bytes(), budget);
    }

    #[test]
    fn threads_and_memory_are_as_requested_within_bounds() {
        for (wanted, threads) in [(0, 1), (1, 1), (40, 40), (1000, 256)] {
            let resources = Resources { decode_threads: Some(wanted), ..Resources::default() };
            assert_eq!(resources.threads(), threads);
        }
        let resources = Resources { memory_budget: Some(77), ..Resources::default() };
        assert_eq!(resources.memory_bytes(), 77);
    }

    #[test]
    fn a_layout_follows_the_archive_and_the_options() {
        let named = Archive::File("snapshot-100-11111111111111111111111111111111.tar.zst".into());
        let limits = Limits::default();
        assert_eq!(LayoutKind::default(), LayoutKind::Snapshot);
        for (kind, name) in [(LayoutKind::Snapshot, "snapshot"), (LayoutKind::Any, "any")] {
            let is_snapshot = matches!(kind.rules(&named, &limits), Layout::Snapshot(_));
            assert_eq!((kind.name(), is_snapshot), (name, kind == LayoutKind::Snapshot));
        }
    }
}
