//! The first bytes of archives, and the memory that is divided according to them.

use std::os::fd::OwnedFd;

use unsnap_arena::{Arena, ArenaRanges, Pool};
use unsnap_decode::{MemoryPlan, Tuning};
use unsnap_failure::Remedy;
use unsnap_fetch::Remote;
use unsnap_ring::Pace;
use unsnap_source::{ArchiveFile, read_head};

use crate::{Archive, CancelToken, OpenArchive, Options, PassError};

/// Number of first bytes that decide how memory is divided: enough for the headers of the first
/// frame and its first block. For a stream it is smaller, so that even a slow sender delivers them
/// at once. Guesses.
const HEAD_BYTES: usize = 64 << 10;
const STREAM_HEAD_BYTES: usize = 512;

/// An open archive and its first bytes.
pub enum Input {
    /// A regular file.
    File {
        /// The file.
        file: ArchiveFile,
        /// Its first bytes.
        head: Vec<u8>,
    },
    /// A stream.
    Stream {
        /// The stream, positioned behind the first bytes.
        file: OwnedFd,
        /// The first bytes.
        head: Vec<u8>,
    },
    /// An archive on a web server, with its first bytes.
    Remote(Remote),
}

impl Input {
    /// Reads the first bytes of each archive. For a stream this waits until they arrive.
    pub fn begin_all(
        opened: Vec<OpenArchive>,
        named: &[Archive],
        cancel: &CancelToken,
    ) -> Result<Vec<Self>, PassError> {
        let opened = opened.into_iter().zip(named);
        opened.map(|(opened, archive)| Self::begin(opened, archive, cancel)).collect()
    }

    fn begin(
        opened: OpenArchive,
        archive: &Archive,
        cancel: &CancelToken,
    ) -> Result<Self, PassError> {
        match opened {
            OpenArchive::File(file) => {
                let head = file.read_head(HEAD_BYTES).map_err(PassError::source)?;
                Ok(Self::File { file, head })
            }
            OpenArchive::Stream(file) => {
                let name = archive.display_name();
                let head = read_head(&file, name, STREAM_HEAD_BYTES, || cancel.is_cancelled());
                let head = head.map_err(PassError::source)?;
                Ok(Self::Stream { file, head })
            }
            OpenArchive::Remote(remote) => Ok(Self::Remote(remote)),
        }
    }

    /// Returns the file, if the archive is one.
    pub fn file(&self) -> Option<&ArchiveFile> {
        match self {
            Self::File { file, .. } => Some(file),
            Self::Stream { .. } | Self::Remote(_) => None,
        }
    }

    /// Returns the archive on a web server.
    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Remote(remote) => Some(remote),
            Self::File { .. } | Self::Stream { .. } => None,
        }
    }

    fn head(&self) -> &[u8] {
        match self {
            Self::File { head, .. } | Self::Stream { head, .. } => head,
            Self::Remote(remote) => remote.head(),
        }
    }
}

/// Archives up to this size have their memory faulted in on demand. They are unpacked sooner than
/// all of it could be faulted in and pinned, which took 0.2 s for 80 MiB on a virtual machine
/// (November 2026).
const SMALL_ARCHIVE_BYTES: u64 = 64 << 20;

/// Share of the memory budget, as a divisor, for an incremental archive that is unpacked together
/// with its full one. One thread streams it and needs 80 MiB for full speed; a small budget gives
/// it less. A guess.
const INCREMENTAL_PART: usize = 4;

/// The single memory reservation of a run, and its pools.
pub struct Memory {
    /// Reservation.
    pub arena: Arena,
    /// Pools of each archive.
    pub streams: Vec<StreamMemory>,
    /// Whether pages are faulted in on first use.
    on_demand: bool,
    /// Pace whose waiters are woken when the memory is closed.
    pace: Option<Pace>,
}

/// Memory of one archive.
pub struct StreamMemory {
    /// Division of the memory.
    pub plan: MemoryPlan,
    /// Pool for compressed bytes.
    pub read: Pool,
    /// Pool for decoded bytes.
    pub segments: Pool,
    /// Number of decoding threads.
    pub threads: usize,
}

impl Memory {
    /// Reserves memory. `threads` decode the first archive, and one more decodes another archive.
    /// `writes` tells whether decoded data is written to disks. If not, pages are faulted in on
    /// demand.
    ///
    /// # Errors
    ///
    /// [`PassError::Request`] if the budget is too small, [`PassError::Memory`] if the kernel
    /// refuses the memory.
    pub fn reserve(
        options: &Options,
        inputs: &[Input],
        threads: usize,
        writes: bool,
    ) -> Result<Self, PassError> {
        let wanted = options.resources.memory_bytes();
        let budget = usize::try_from(wanted).unwrap_or(usize::MAX / 2);
        if budget < MemoryPlan::budget_min() {
            let reason = format!("a memory budget of {budget} bytes is too small");
            let bytes = MemoryPlan::budget_min() as u64;
            return Err(PassError::request_with(reason, Remedy::MoreMemory { bytes }));
        }
        let mut left = budget;
        let mut plans = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate().rev() {
            let (share, threads) =
                if index == 0 { (left, threads) } else { (left / INCREMENTAL_PART, 1) };
            let limits = &options.limits.decode;
            let decoder = options.resources.decoder;
            let tuning = Tuning { decoder, ..options.tuning.decode };
            let plan = MemoryPlan::new(share, threads, input.head(), limits, tuning);
            left = left.saturating_sub(plan.total_bytes());
            plans.push((plan, threads));
        }
        plans.reverse();
        let memory =
            |error: unsnap_arena::ArenaError| PassError::Memory { reason: error.to_string() };
        let is_small =
            |input: &Input| input.file().is_some_and(|file| file.size() <= SMALL_ARCHIVE_BYTES);
        let on_demand = inputs.iter().all(is_small) || !writes;
        let bytes = plans.iter().map(|(plan, _)| plan.total_bytes()).sum();
        let builder = Arena::builder().bytes(bytes).hugetlb(options.resources.hugetlb);
        let mut arena = builder.populate(!on_demand).build().map_err(memory)?;
        let mut streams = Vec::with_capacity(plans.len());
        for (plan, threads) in plans {
            let read = arena.pool(plan.read_bytes).map_err(memory)?;
            let segments = arena.pool(plan.segments_bytes).map_err(memory)?;
            streams.push(StreamMemory { plan, read, segments, threads });
        }
        Ok(Self { arena, streams, on_demand, pace: options.neighbour.pace.clone() })
    }

    /// Returns the most decoded bytes that can be in memory.
    pub fn decoded_bytes_max(&self) -> usize {
        self.streams.iter().map(|stream| stream.plan.decoded_bytes_max()).sum()
    }

    /// Returns the memory that rings should register; `None` if it is faulted in on demand.
    pub fn to_register(&self) -> Option<ArenaRanges> {
        (!self.on_demand).then(|| self.arena.ranges())
    }

    /// Wakes all threads that wait for memory, for a silent stream, or for the end of a pause. They
    /// fail from then on.
    pub fn close(&self) {
        self.closer()();
    }

    /// Returns a function that [closes](Self::close) the memory from any thread.
    pub fn closer(&self) -> impl Fn() + Send + Sync + 'static {
        let pools: Vec<Pool> = self
            .streams
            .iter()
            .flat_map(|stream| [stream.read.clone(), stream.segments.clone()])
            .collect();
        let pace = self.pace.clone();
        move || {
            pools.iter().for_each(Pool::close);
            if let Some(pace) = &pace {
                pace.rouse();
            }
        }
    }
}
