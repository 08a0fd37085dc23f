//! What a run needs before it can start: the archive's beginning, and memory.

use std::os::fd::OwnedFd;

use unsnap_arena::{Arena, ArenaRanges, Pool};
use unsnap_decode::MemoryPlan;
use unsnap_ring::Pace;
use unsnap_source::{ArchiveFile, SourceError, read_head};

use crate::{Archive, CancelToken, Config, Error, opening::OpenArchive};

/// Bytes of the archive's beginning that decide how memory is divided; of a stream fewer, which
/// a slow sender delivers at once.
const HEAD_BYTES: usize = 64 << 10;
const STREAM_HEAD_BYTES: usize = 512;

/// The archive and its beginning.
pub(crate) enum Input {
    File { file: ArchiveFile, head: Vec<u8> },
    Stream { file: OwnedFd, head: Vec<u8> },
}

impl Input {
    /// Reads the beginning of each archive.
    pub fn begin_all(
        opened: Vec<OpenArchive>,
        config: &Config,
        cancel: &CancelToken,
    ) -> Result<Vec<Self>, Error> {
        let opened = opened.into_iter().zip(config.archives());
        opened.map(|(opened, archive)| Self::begin(opened, archive, cancel)).collect()
    }

    /// Reads the beginning; of a stream this waits for it.
    fn begin(opened: OpenArchive, archive: &Archive, cancel: &CancelToken) -> Result<Self, Error> {
        match opened {
            OpenArchive::File(file) => {
                let head = file.read_head(HEAD_BYTES).map_err(Error::Source)?;
                Ok(Self::File { file, head })
            }
            OpenArchive::Stream(file) => {
                let name = archive.display_name();
                let head = read_head(&file, name, STREAM_HEAD_BYTES, || cancel.is_cancelled());
                let head = head.map_err(|error| match error {
                    SourceError::Cancelled => Error::Cancelled,
                    error => Error::Source(error),
                })?;
                Ok(Self::Stream { file, head })
            }
        }
    }

    /// The archive, unless it is a stream.
    pub fn file(&self) -> Option<&ArchiveFile> {
        match self {
            Self::File { file, .. } => Some(file),
            Self::Stream { .. } => None,
        }
    }

    fn head(&self) -> &[u8] {
        match self {
            Self::File { head, .. } | Self::Stream { head, .. } => head,
        }
    }
}

/// Archives up to this size are unpacked before their memory is faulted in and pinned as a whole
/// (which took 0.2 s for 80 MiB on a virtual machine, November 2026): pages come as they are used.
const SMALL_ARCHIVE_BYTES: u64 = 64 << 20;

/// Of the memory budget, the part that an incremental snapshot's archive has when it is unpacked
/// together with a full one's. It is streamed, by one thread, which needs 80 MiB to be as fast as it
/// can; a smaller part of a small budget.
const INCREMENTAL_PART: usize = 4;

/// The one reservation and its pools.
pub(crate) struct Memory {
    pub arena: Arena,
    /// For each archive.
    pub streams: Vec<StreamMemory>,
    on_demand: bool,
    /// Whoever stands still by it is roused when the memory is closed.
    pace: Option<Pace>,
}

/// What one archive has of it.
pub(crate) struct StreamMemory {
    pub plan: MemoryPlan,
    pub read: Pool,
    pub segments: Pool,
    /// Threads that decode.
    pub threads: usize,
}

impl Memory {
    /// `threads`: those that decode the first archive. Another is decoded by one more.
    pub fn reserve(config: &Config, inputs: &[Input], threads: usize) -> Result<Self, Error> {
        let budget = usize::try_from(config.memory_bytes()).unwrap_or(usize::MAX / 2);
        if budget < MemoryPlan::budget_min() {
            return Err(Error::Request {
                reason: format!("a memory budget of {budget} bytes is too small"),
                hint: Some(format!("at least {} bytes are needed", MemoryPlan::budget_min())),
            });
        }
        let mut left = budget;
        let mut plans = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate().rev() {
            let (share, threads) =
                if index == 0 { (left, threads) } else { (left / INCREMENTAL_PART, 1) };
            let (limits, tuning) = (&config.limits.decode, config.tuning.decode);
            let plan = MemoryPlan::new(share, threads, input.head(), limits, tuning);
            left = left.saturating_sub(plan.total_bytes());
            plans.push((plan, threads));
        }
        plans.reverse();
        let memory = |error: unsnap_arena::ArenaError| Error::Memory { reason: error.to_string() };
        let is_small =
            |input: &Input| input.file().is_some_and(|file| file.size() <= SMALL_ARCHIVE_BYTES);
        let on_demand = inputs.iter().all(is_small) || config.dry_run;
        let bytes = plans.iter().map(|(plan, _)| plan.total_bytes()).sum();
        let builder = Arena::builder().bytes(bytes).hugetlb(config.hugetlb);
        let mut arena = builder.populate(!on_demand).build().map_err(memory)?;
        let mut streams = Vec::with_capacity(plans.len());
        for (plan, threads) in plans {
            let read = arena.pool(plan.read_bytes).map_err(memory)?;
            let segments = arena.pool(plan.segments_bytes).map_err(memory)?;
            streams.push(StreamMemory { plan, read, segments, threads });
        }
        Ok(Self { arena, streams, on_demand, pace: config.pace.clone() })
    }

    /// Bytes that segments hold at most.
    pub fn segments_bytes(&self) -> usize {
        self.streams.iter().map(|stream| stream.plan.segments_bytes).sum()
    }

    /// What rings should register.
    pub fn to_register(&self) -> Option<ArenaRanges> {
        (!self.on_demand).then(|| self.arena.ranges())
    }

    /// Ends all waiting for memory, for a silent stream, and for the end of a pause.
    pub fn close(&self) {
        self.closer()();
    }

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
