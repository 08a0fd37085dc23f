//! What to unpack, where to, and how.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use unsnap_decode::Tuning as DecodeTuning;
pub use unsnap_layout::fastboot::Format as FastbootFormat;
pub use unsnap_ring::{DirectMode, FaultPlan, IoPriority, Pace};
pub use unsnap_source::{Digest, DigestKind};

use unsnap_create::FileSink;
use unsnap_decode::MemoryPlan;
use unsnap_ring::Syscalls;

use crate::{
    CpuSet, Error, SandboxMode,
    opening::decode_threads,
    stages::archive_name,
    staging::{Existing, Spot},
};

/// Below an accounts path, where a validator keeps its storages.
pub const RUN_DIRECTORY: &str = "run";

/// Below an accounts path, where a state's storages have a second name, see [`State::shadow`].
pub const SHADOW_DIRECTORY: &str = "unsnap-shadow";

/// Names of what is under construction.
const STAGED_STATE: &str = ".unsnap-state.unsnap-staging";
const STAGED_RUN: &str = ".run.unsnap-staging";
const STAGED_SHADOW: &str = ".unsnap-shadow.unsnap-staging";

/// Names of the directories that a state's are staged in, until they are published: one that is not
/// locked (`flock`) was left by a run that was interrupted.
pub const STAGED: [&str; 3] = [STAGED_STATE, STAGED_RUN, STAGED_SHADOW];

/// Where the archive comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Archive {
    /// A file (or a named pipe, which is read like standard input).
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Archive {
    /// What messages call it.
    pub fn display_name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
        }
    }
}

/// What the archive may contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutKind {
    /// Exactly what a validator's snapshot contains.
    #[default]
    Snapshot,
    /// Files and directories under any safe relative path.
    Any,
}

impl LayoutKind {
    /// Its name in options and journals.
    pub fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Any => "any",
        }
    }
}

/// How files are read and written.
#[derive(Clone, Debug, Default)]
pub enum IoEngine {
    /// What is fastest here: see ARCHITECTURE.md for the measurements behind the choice.
    #[default]
    Auto,
    /// io_uring, or fail.
    Uring,
    /// Plain threads.
    Threads,
    /// Plain system calls with injected faults. For tests.
    Faulty(FaultPlan),
}

impl IoEngine {
    /// The calls to make beside it: if it has a plan of faults, they are part of it.
    pub(crate) fn syscalls(&self) -> Syscalls {
        match self {
            Self::Auto | Self::Uring | Self::Threads => Syscalls::default(),
            Self::Faulty(plan) => Syscalls::with_faults(plan.clone()),
        }
    }
}

/// Caps on what an archive may ask for, one group for each stage.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Of the compressed stream.
    pub decode: unsnap_decode::Limits,
    /// Of tar headers.
    pub tar: unsnap_tarstream::Limits,
    /// Of entries.
    pub layout: unsnap_layout::Limits,
}

/// Settings for tests and benchmarks; the defaults are right.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// Sizes of segments and reads.
    pub decode: DecodeTuning,
    /// Files smaller than this are written through the page cache.
    pub direct_bytes_min: Option<u64>,
    /// Operations in flight for the reader, and for each creator.
    pub depth: Option<usize>,
    /// Threads that may block in the kernel for each creator.
    pub workers: Option<usize>,
    /// Bytes that go through the page cache between two early syncs.
    pub writeback_bytes: Option<u64>,
    /// Free bytes of each file system that are taken for used while the run goes on, as if somebody
    /// had written so much after it began.
    pub hidden_bytes: Option<u64>,
    /// Archives up to so many bytes are read from end to end to find out how much they hold.
    pub survey_whole_bytes: Option<u64>,
    /// Ends the walk in front of the first member that begins so many decoded bytes after the archive's
    /// beginning, once all is there that a snapshot must have, as if the archive ended there. What
    /// is published then is a part of a snapshot, and the report does not count what was read and
    /// decoded. For benchmarks of large archives.
    pub stop_after_bytes: Option<u64>,
    /// For tests of the sandbox only: what an attacker does who has taken over the tar walk.
    pub compromised: Option<Compromised>,
}

/// For tests of the sandbox only: called once, by the thread that walks the tar, at the first member
/// of an archive.
#[derive(Clone)]
pub struct Compromised(Arc<dyn Fn() + Send + Sync>);

impl Compromised {
    /// `attack`: what to do in the unpacker's place.
    pub fn new(attack: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(attack))
    }

    pub(crate) fn strike(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Compromised {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Compromised")
    }
}

/// What is checked of a snapshot's content while it passes by, beyond the archive itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Nothing.
    None,
    /// That the bank file is the one of the archive's name, and that every storage is a row of
    /// accounts.
    #[default]
    Structure,
    /// The same, and that the newest versions of all accounts add up to the hash in the archive's name
    /// and the capitalization in its bank file. Hashes every account: some 2 KiB of hash for each.
    Accounts,
}

/// Whether the index beside an archive (its side-car) is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexUse {
    /// If it is there, and seems to be that of the archive by size and samples; otherwise it is passed
    /// over with a warning.
    #[default]
    Auto,
    /// It must be there, and the archive must have the digest that it says, which takes a pass over
    /// all bytes of the archive.
    Proven,
    /// Not at all, and neither is a seek table at the archive's end.
    Ignore,
}

/// How it is found out whether an archive fits. What does not is refused before anything is written, and
/// the run stops before a disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreflightMode {
    /// Not at all: a run goes on until a disk has nothing left.
    Off,
    /// By all headers of frames that declare their sizes, however large the archive, if they can be
    /// walked in so much time; otherwise by an estimate. `None` for one second and 50 ms for
    /// each GB of the archive, or, where an estimate leaves a doubt, two seconds and one for each GB.
    Within(Option<Duration>),
    /// By all headers of frames that declare their sizes, however long that takes.
    Exact,
}

impl Default for PreflightMode {
    fn default() -> Self {
        Self::Within(None)
    }
}

/// A state that a validator starts from, instead of the tree that the archive holds: the output is
/// the bank snapshot's directory `<snapshots>/snapshots/<slot>`, and the storages go to the
/// directory `run` of each accounts path.
#[derive(Clone, Debug)]
pub struct State {
    /// How the list of storages is written.
    pub format: FastbootFormat,
    /// Give every storage a second name, a hard link below `unsnap-shadow` of its accounts path, so
    /// that a state can be made whole again from which a validator has removed files.
    pub shadow: bool,
}

/// What to unpack, where to, and how. Made by [`Config::new`], then adjusted field by field.
#[allow(clippy::struct_excessive_bools)] // switches, not states
#[derive(Clone, Debug)]
pub struct Config {
    /// The archive.
    pub archive: Archive,
    /// The archive of an incremental snapshot upon the full one, for a validator's state, or to
    /// verify both: there is no tree of two archives.
    pub incremental: Option<Archive>,
    /// The directory that will hold the archive's tree. Absent or empty; its parent exists.
    pub output: PathBuf,
    /// Directories that take the storages, flat, instead of `<output>/accounts`. Absent or empty.
    pub accounts: Vec<PathBuf>,
    /// Make a validator's state of a snapshot, instead of the tree that the archive holds. What is
    /// at its places is cleared away by whoever publishes it: see [`Unpacker::stage`].
    ///
    /// [`Unpacker::stage`]: crate::Unpacker::stage
    pub state: Option<State>,
    /// Who is told of files as they become complete, and may read them while the run goes on.
    pub files: Option<FileSink>,
    /// What is checked of a snapshot's content.
    pub verify: Verify,
    /// Bytes for what is remembered of accounts, 16 for each record; what is more goes to a file
    /// without a name. `None` for 1 GiB.
    pub verify_memory: Option<u64>,
    /// Whether what the archive's index says is believed.
    pub index: IndexUse,
    /// What the archive may contain.
    pub layout: LayoutKind,
    /// Whether to bypass the page cache.
    pub direct_io: DirectMode,
    /// How files are read and written.
    pub io_engine: IoEngine,
    /// Threads that decode; `None` for as many as there are cores.
    pub decode_threads: Option<usize>,
    /// Bytes of memory for reading ahead and for decoded data; `None` for what suits the threads.
    pub memory_budget: Option<u64>,
    /// Try reserved huge pages before transparent ones.
    pub hugetlb: bool,
    /// Do everything but create files.
    pub dry_run: bool,
    /// Go on from where an interrupted run of the same archive to the same destinations stood, and
    /// leave what can be resumed if this one is interrupted too. Without it, what an interrupted
    /// run has left is removed, and so is what this one has done when it fails.
    pub resume: bool,
    /// Bytes of files between two checkpoints, which is what an interrupted run may have to do
    /// again; `None` for 16 GiB.
    pub checkpoint_bytes: Option<u64>,
    /// How the archive is digested, if at all. The digest is in the report.
    pub digest: Option<DigestKind>,
    /// What the digest of the archive must be; anything else is a bad archive.
    pub expect_digest: Option<Digest>,
    /// A file that takes name, size and digest of every file, a line of JSON each.
    pub manifest: Option<PathBuf>,
    /// Whether to give up, before the first byte of the archive is looked at, all rights that are not
    /// needed: see [`SandboxMode`] for what that protects against and what not.
    pub sandbox: SandboxMode,
    /// Whether what cannot fit is refused before anything is written.
    pub preflight: PreflightMode,
    /// A handle that limits how fast the run writes, and pauses it; may be shared by runs. `None` is
    /// the same as one that nobody uses.
    pub pace: Option<Pace>,
    /// How urgent the run's reads and writes are; `None` for what the caller's thread has.
    pub io_priority: Option<IoPriority>,
    /// Niceness of the run's threads, from -20 (which takes a privilege) to 19; not added to the
    /// caller's. `None` for that of the caller's thread.
    pub nice: Option<i32>,
    /// Processors that the run's threads may run on, of those that the caller's may; the default for
    /// the number of decoding threads goes by it. `None` for the caller's.
    pub cpus: Option<CpuSet>,
    /// Caps on what the archive may ask for.
    pub limits: Limits,
    /// Settings for tests and benchmarks.
    pub tuning: Tuning,
}

impl Config {
    /// Unpack `archive` into `output`, with the defaults for everything else.
    pub fn new(archive: Archive, output: impl Into<PathBuf>) -> Self {
        Self {
            archive,
            incremental: None,
            output: output.into(),
            accounts: Vec::new(),
            state: None,
            files: None,
            verify: Verify::default(),
            verify_memory: None,
            index: IndexUse::default(),
            layout: LayoutKind::default(),
            direct_io: DirectMode::default(),
            io_engine: IoEngine::default(),
            decode_threads: None,
            memory_budget: None,
            hugetlb: false,
            dry_run: false,
            resume: false,
            checkpoint_bytes: None,
            digest: Some(DigestKind::Xxh3),
            expect_digest: None,
            manifest: None,
            sandbox: SandboxMode::default(),
            preflight: PreflightMode::default(),
            pace: None,
            io_priority: None,
            nice: None,
            cpus: None,
            limits: Limits::default(),
            tuning: Tuning::default(),
        }
    }

    /// Bytes that a run reserves at most for reading ahead and for decoded data: the budget, or what
    /// suits the threads that decode. Files in the page cache and what is remembered of accounts
    /// come on top.
    pub fn memory_bytes(&self) -> u64 {
        let suitable = || MemoryPlan::default_budget(decode_threads(self)) as u64;
        self.memory_budget.unwrap_or_else(suitable)
    }

    /// Whether what is asked for goes together.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |reason: &str| Err(Error::Request { reason: reason.to_owned(), hint: None });
        self.check_nice()?;
        let name = archive_name(&self.archive);
        let upon = self.incremental.as_ref().map(archive_name);
        if self.incremental.is_some() && self.state.is_none() && !self.dry_run {
            return refuse("there is no tree of a full and an incremental archive, only a state");
        }
        let bases =
            [name.map(|name| name.slot()), upon.flatten().and_then(|name| name.base_slot())];
        if self.incremental.is_some() && (bases[0].is_none() || bases[0] != bases[1]) {
            return refuse("an incremental archive goes with the full one that its name says");
        }
        if self.verify == Verify::Accounts {
            if name.is_none() || self.layout != LayoutKind::Snapshot {
                return refuse("accounts are verified of archives that have a snapshot's name");
            }
            if name.is_some_and(|name| name.base_slot().is_some()) {
                let reason = "the accounts of an incremental archive alone add up to nothing";
                let hint = Some("verify it together with its full archive".to_owned());
                return Err(Error::Request { reason: reason.to_owned(), hint });
            }
            if self.resume {
                return refuse("accounts are verified of whole runs, not of resumed ones");
            }
        }
        if self.state.is_none() {
            return Ok(());
        }
        if self.layout != LayoutKind::Snapshot || name.is_none() {
            return refuse("a validator's state is made of archives that have a snapshot's name");
        }
        if self.accounts.is_empty() {
            return refuse("a validator's state needs an accounts path");
        }
        if self.resume || self.manifest.is_some() || self.expect_digest.is_some() || self.dry_run {
            return refuse(
                "a validator's state is neither resumed nor tried, and has no manifest or expected digest",
            );
        }
        Ok(())
    }

    /// Whether the bank file is held to the archive's name, and storages to be rows of accounts.
    pub(crate) fn checks_content(&self) -> bool {
        self.layout == LayoutKind::Snapshot && self.verify != Verify::None
    }

    /// The archives, the one that others build on first.
    pub(crate) fn archives(&self) -> Vec<&Archive> {
        std::iter::once(&self.archive).chain(&self.incremental).collect()
    }

    /// What is to be built: the destinations of files, the output first; behind them the shadows of a
    /// state's accounts paths.
    pub(crate) fn spots(&self) -> Vec<Spot> {
        let Some(state) = &self.state else {
            let paths = std::iter::once(&self.output).chain(&self.accounts);
            return paths.map(|path| Spot::empty(path)).collect();
        };
        let cleared = |path: PathBuf, stage_in, stage_as| Spot {
            path,
            existing: Existing::WillBeCleared { stage_in, stage_as },
        };
        // A validator that starts removes whatever is no complete state beside the output.
        let above = self.output.parent().and_then(Path::parent).map(Path::to_owned);
        let mut spots = vec![cleared(self.output.clone(), above, STAGED_STATE)];
        let below = |name, staged| {
            self.accounts.iter().map(move |path| cleared(path.join(name), None, staged))
        };
        spots.extend(below(RUN_DIRECTORY, STAGED_RUN));
        if state.shadow {
            spots.extend(below(SHADOW_DIRECTORY, STAGED_SHADOW));
        }
        spots
    }

    /// Destinations of files among them.
    pub(crate) fn destinations(&self) -> usize {
        1 + self.accounts.len()
    }
}
