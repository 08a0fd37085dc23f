//! Fault plans, which the faulty engine and [`Syscalls`](crate::Syscalls) consult at every system
//! call.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::io::Errno;

use crate::Machine;

/// Upper bound of the sleep of a delayed step, in microseconds. A guess: long enough for every
/// other thread of a run to make progress, short enough for thousands of delays.
const DELAY_MICROS_MAX: u64 = 200;

/// Faults to inject into a run.
///
/// Clones share one count of steps, so that a plan given to every engine and every
/// [`Syscalls`](crate::Syscalls) of a run can fail exactly one step of the whole run. Steps are
/// counted from 0 in the order in which they happen, which is not deterministic across threads.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    seed: u64,
    short_per_mille: u64,
    interrupt_per_mille: u64,
    delay_per_mille: u64,
    faults: Vec<Fault>,
    cut: Option<Cut>,
    machine: Option<Machine>,
    run: Arc<Run>,
}

/// An errno returned instead of making some calls.
#[derive(Clone, Copy, Debug)]
struct Fault {
    when: When,
    answer: Answer,
}

#[derive(Clone, Copy, Debug)]
enum When {
    Step(u64),
    From(u64),
    /// The call of this kind with this number, counted from 0.
    Nth(Call, u64),
}

impl When {
    /// Returns whether the fault applies. `nth` is the number of earlier calls of this kind.
    fn is_now(self, step: u64, call: Call, nth: u64) -> bool {
        match self {
            Self::Step(number) => step == number,
            Self::From(number) => step >= number,
            Self::Nth(kind, number) => (call, nth) == (kind, number),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    This(Errno),
    /// The entry with this index in the call's own table, modulo the table's length.
    OfTable(usize),
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    transfer: u64,
    short: Short,
}

/// Number of bytes that a shortened transfer moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Nothing: for a read the end of the file, for a write a disk that accepts no more.
    Nothing,
    /// One byte.
    OneByte,
    /// Half of the bytes.
    Half,
}

/// Counters shared by all clones of a plan.
#[derive(Debug, Default)]
struct Run {
    steps: AtomicU64,
    /// Number of steps of each kind.
    calls: Mutex<BTreeMap<Call, u64>>,
    transfers: AtomicU64,
    cut: AtomicU64,
    engines: AtomicU64,
    random: AtomicU64,
    injected: Mutex<Vec<Injected>>,
}

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Number of the step.
    pub step: u64,
    /// Kind of call.
    pub call: Call,
    /// Errno that the call returned.
    pub errno: Errno,
}

impl FaultPlan {
    /// Creates a plan that only reorders. Everything random follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let plan = Self { seed, ..Self::default() };
        plan.run.random.store(seed, Ordering::Relaxed);
        plan
    }

    /// Shortens transfers of engines, with this probability in thousandths.
    #[must_use]
    pub fn short(mut self, per_mille: u64) -> Self {
        self.short_per_mille = per_mille;
        self
    }

    /// Fails steps of engines with `EINTR` or `EAGAIN` first, with this probability in thousandths.
    #[must_use]
    pub fn interrupt(mut self, per_mille: u64) -> Self {
        self.interrupt_per_mille = per_mille;
        self
    }

    /// Delays steps by up to 200 µs, with this probability in thousandths.
    #[must_use]
    pub fn delay(mut self, per_mille: u64) -> Self {
        self.delay_per_mille = per_mille;
        self
    }

    /// Fails step number `step` with `errno`.
    #[must_use]
    pub fn fail(self, step: u64, errno: Errno) -> Self {
        self.with(Fault { when: When::Step(step), answer: Answer::This(errno) })
    }

    /// Fails step number `step` with an errno that its call can return: the one at index `choice`
    /// in [`Call::errnos`], modulo their number.
    #[must_use]
    pub fn fail_by_choice(self, step: u64, choice: usize) -> Self {
        self.with(Fault { when: When::Step(step), answer: Answer::OfTable(choice) })
    }

    /// Fails every step from number `step` on with `errno`, like a disk that has died.
    #[must_use]
    pub fn fail_from(self, step: u64, errno: Errno) -> Self {
        self.with(Fault { when: When::From(step), answer: Answer::This(errno) })
    }

    /// Fails call number `nth` of this kind, counted from 0, with `errno`.
    #[must_use]
    pub fn fail_nth(self, call: Call, nth: u64, errno: Errno) -> Self {
        self.with(Fault { when: When::Nth(call, nth), answer: Answer::This(errno) })
    }

    /// Shortens transfer number `transfer`. Reads and writes are counted from 0, separately from
    /// steps.
    #[must_use]
    pub fn cut(mut self, transfer: u64, short: Short) -> Self {
        self.cut = Some(Cut { transfer, short });
        self
    }

    /// Puts the engines of the plan on a modelled machine. Their completions arrive in the order and
    /// at the times that follow from the model, and the files that they create are `/dev/null`.
    #[must_use]
    pub fn on(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    pub(crate) fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    fn with(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Returns the seed of the plan.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the number of steps so far.
    pub fn steps(&self) -> u64 {
        self.run.steps.load(Ordering::Relaxed)
    }

    /// Returns the faults injected so far, in order. Interruptions, delays and short transfers are
    /// not included.
    pub fn injected(&self) -> Vec<Injected> {
        self.run.injected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether the transfer chosen by [`cut`](Self::cut) has been shortened.
    pub fn has_cut(&self) -> bool {
        self.run.cut.load(Ordering::Relaxed) > 0
    }

    /// Counts a step and maybe delays it. Returns the errno to return instead of executing the
    /// step, if the plan fails it.
    pub(crate) fn step(&self, call: Call) -> Option<Errno> {
        if self.delay_per_mille > 0 && self.random() % 1000 < self.delay_per_mille {
            thread::sleep(Duration::from_micros(self.random() % DELAY_MICROS_MAX));
        }
        let step = self.run.steps.fetch_add(1, Ordering::Relaxed);
        let nth = self.count(call);
        let errno =
            match self.faults.iter().find(|fault| fault.when.is_now(step, call, nth))?.answer {
                Answer::This(errno) => errno,
                Answer::OfTable(choice) => call.errnos()[choice % call.errnos().len()],
            };
        let injected = Injected { step, call, errno };
        self.run.injected.lock().unwrap_or_else(PoisonError::into_inner).push(injected);
        Some(errno)
    }

    /// Counts a call. Returns the number of earlier calls of its kind.
    fn count(&self, call: Call) -> u64 {
        let mut calls = self.run.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let count = calls.entry(call).or_default();
        *count += 1;
        *count - 1
    }

    /// Counts a transfer of `len` bytes. Returns how many it may move, if the plan shortens it.
    pub(crate) fn transfer(&self, len: usize) -> Option<usize> {
        let transfer = self.run.transfers.fetch_add(1, Ordering::Relaxed);
        let short = self.cut.filter(|cut| cut.transfer == transfer)?.short;
        self.run.cut.fetch_add(1, Ordering::Relaxed);
        Some(match short {
            Short::Nothing => 0,
            Short::OneByte => len.min(1),
            Short::Half => len / 2,
        })
    }

    pub(crate) fn short_per_mille(&self) -> u64 {
        self.short_per_mille
    }

    pub(crate) fn interrupt_per_mille(&self) -> u64 {
        self.interrupt_per_mille
    }

    /// Returns a seed for the next engine made from this plan, so that no two behave alike.
    pub(crate) fn engine_seed(&self) -> u64 {
        let engine = self.run.engines.fetch_add(1, Ordering::Relaxed);
        mix(self.seed ^ mix(engine))
    }

    fn random(&self) -> u64 {
        mix(self.run.random.fetch_add(GOLDEN, Ordering::Relaxed))
    }
}

/// The increment of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Computes the output function of splitmix64.
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A system call that a plan can fail, distinguished by its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `openat`, `openat2` with `O_CREAT`.
    Create,
    /// `open`, `openat`, `openat2` of an existing file or directory.
    Open,
    /// The same with `O_DIRECT`, and `fcntl` that sets `O_DIRECT`.
    OpenDirect,
    /// `pread`, `read`.
    Read,
    /// `pwrite`, `write`.
    Write,
    /// A probing read, whose failure is a result and not an error.
    TrialRead,
    /// A probing write, whose failure is a result and not an error.
    TrialWrite,
    /// `ftruncate`.
    SetLen,
    /// `fcntl` with `F_SETFL` that clears `O_DIRECT`.
    SetFlags,
    /// `fchmod`.
    SetMode,
    /// `close` of a written file.
    Close,
    /// `realpath`.
    Resolve,
    /// `mkdirat`.
    MakeDirectory,
    /// `getdents64`, and the calls needed before it.
    List,
    /// `unlinkat`.
    Remove,
    /// `unlinkat` with `AT_REMOVEDIR`.
    RemoveDirectory,
    /// `renameat`.
    Rename,
    /// `renameat2` with `RENAME_NOREPLACE`.
    RenameToNew,
    /// `renameat2` with `RENAME_EXCHANGE`.
    Exchange,
    /// `linkat`.
    Link,
    /// `flock` with `LOCK_NB`.
    Lock,
    /// `fstat`, `fstatat`.
    Stat,
    /// `fstatfs`.
    StatFs,
    /// `statx`, for attributes that older kernels do not report.
    Statx,
    /// `cachestat`.
    CacheStat,
    /// `fcntl` with `F_DUPFD_CLOEXEC`.
    Duplicate,
    /// `fsync` of a directory, `fdatasync` of a file.
    Sync,
    /// `syncfs`.
    SyncFileSystem,
}

impl Call {
    /// Returns the errors that the call can return as used here: those in the section ERRORS of its
    /// page in man-pages 6.03, without those caused only by a wrong argument (`EBADF`, `EFAULT`,
    /// flags). Most lists also have `EIO`, which any file system may return, documented or not.
    #[rustfmt::skip] // a table
    pub fn errnos(self) -> &'static [Errno] {
        match self {
            // openat2(2), open(2).
            Self::Create => &[
                Errno::IO, Errno::NOSPC, Errno::ACCESS, Errno::AGAIN, Errno::DQUOT, Errno::EXIST,
                Errno::INTR, Errno::INVAL, Errno::LOOP, Errno::MFILE, Errno::NAMETOOLONG,
                Errno::NFILE, Errno::NOENT, Errno::NOMEM, Errno::NOTDIR, Errno::PERM, Errno::ROFS,
                Errno::XDEV,
            ],
            Self::Open => &[
                Errno::IO, Errno::ACCESS, Errno::BUSY, Errno::INTR, Errno::LOOP, Errno::MFILE,
                Errno::NAMETOOLONG, Errno::NFILE, Errno::NOENT, Errno::NOMEM, Errno::NOTDIR,
                Errno::OVERFLOW, Errno::PERM,
            ],
            Self::OpenDirect => &[
                Errno::INVAL, Errno::IO, Errno::ACCESS, Errno::INTR, Errno::MFILE, Errno::NFILE,
                Errno::NOENT, Errno::NOMEM, Errno::PERM,
            ],
            // read(2).
            Self::Read | Self::TrialRead => &[
                Errno::IO, Errno::AGAIN, Errno::INTR, Errno::INVAL, Errno::ISDIR,
            ],
            // write(2).
            Self::Write | Self::TrialWrite => &[
                Errno::IO, Errno::NOSPC, Errno::AGAIN, Errno::DQUOT, Errno::FBIG, Errno::INTR,
                Errno::INVAL, Errno::PERM,
            ],
            // truncate(2); file systems that copy or allocate when truncating also return errors of
            // a write.
            Self::SetLen => &[
                Errno::IO, Errno::NOSPC, Errno::FBIG, Errno::INTR, Errno::INVAL, Errno::PERM,
                Errno::ROFS, Errno::TXTBSY,
            ],
            // fcntl(2), with the errors of a file system that refuses the flags.
            Self::SetFlags => &[
                Errno::IO, Errno::INVAL, Errno::PERM,
            ],
            // chmod(2).
            Self::SetMode => &[
                Errno::IO, Errno::NOMEM, Errno::NOTSUP, Errno::PERM, Errno::ROFS,
            ],
            // close(2).
            Self::Close => &[
                Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::INTR,
            ],
            // realpath(3).
            Self::Resolve => &[
                Errno::IO, Errno::ACCESS, Errno::LOOP, Errno::NAMETOOLONG, Errno::NOENT,
                Errno::NOMEM, Errno::NOTDIR,
            ],
            // mkdir(2).
            Self::MakeDirectory => &[
                Errno::IO, Errno::NOSPC, Errno::ACCESS, Errno::DQUOT, Errno::EXIST, Errno::LOOP,
                Errno::MLINK, Errno::NAMETOOLONG, Errno::NOENT, Errno::NOMEM, Errno::NOTDIR,
                Errno::PERM, Errno::ROFS,
            ],
            // getdents(2), and open(2) before it.
            Self::List => &[
                Errno::IO, Errno::ACCESS, Errno::MFILE, Errno::NFILE, Errno::NOENT, Errno::NOMEM,
            ],
            // unlink(2).
            Self::Remove => &[
                Errno::IO, Errno::ACCESS, Errno::BUSY, Errno::ISDIR, Errno::NOENT, Errno::NOMEM,
                Errno::PERM, Errno::ROFS,
            ],
            // rmdir(2).
            Self::RemoveDirectory => &[
                Errno::IO, Errno::ACCESS, Errno::BUSY, Errno::NOENT, Errno::NOMEM,
                Errno::NOTEMPTY, Errno::PERM, Errno::ROFS,
            ],
            // rename(2).
            Self::Rename | Self::RenameToNew => &[
                Errno::IO, Errno::NOSPC, Errno::INVAL, Errno::ACCESS, Errno::BUSY, Errno::DQUOT,
                Errno::EXIST, Errno::LOOP, Errno::MLINK, Errno::NOENT, Errno::NOMEM,
                Errno::NOTDIR, Errno::NOTEMPTY, Errno::PERM, Errno::ROFS, Errno::XDEV,
            ],
            // rename(2).
            Self::Exchange => &[
                Errno::IO, Errno::NOSPC, Errno::INVAL, Errno::ACCESS, Errno::BUSY, Errno::DQUOT,
                Errno::NOENT, Errno::NOMEM, Errno::NOTDIR, Errno::PERM, Errno::ROFS, Errno::XDEV,
            ],
            // link(2).
            Self::Link => &[
                Errno::IO, Errno::NOSPC, Errno::ACCESS, Errno::DQUOT, Errno::EXIST, Errno::MLINK,
                Errno::NOENT, Errno::NOMEM, Errno::PERM, Errno::ROFS, Errno::XDEV,
            ],
            // flock(2).
            Self::Lock => &[
                Errno::WOULDBLOCK, Errno::NOLCK, Errno::INTR, Errno::IO,
            ],
            // stat(2).
            Self::Stat => &[
                Errno::IO, Errno::ACCESS, Errno::LOOP, Errno::NOENT, Errno::NOMEM, Errno::NOTDIR,
                Errno::OVERFLOW,
            ],
            // statfs(2).
            Self::StatFs => &[
                Errno::IO, Errno::INTR, Errno::NOMEM, Errno::NOSYS, Errno::OVERFLOW,
            ],
            // statx(2); also kernels and seccomp filters that do not know it.
            Self::Statx => &[
                Errno::NOSYS, Errno::INVAL, Errno::IO, Errno::NOMEM, Errno::PERM,
            ],
            // The comment on cachestat in mm/filemap.c; also kernels and seccomp filters that do
            // not know it.
            Self::CacheStat => &[
                Errno::NOSYS, Errno::INVAL, Errno::OPNOTSUPP, Errno::PERM,
            ],
            // fcntl(2).
            Self::Duplicate => &[
                Errno::MFILE,
            ],
            // fsync(2).
            Self::Sync => &[
                Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::INTR, Errno::INVAL, Errno::ROFS,
            ],
            // sync(2).
            Self::SyncFileSystem => &[
                Errno::IO, Errno::NOSPC, Errno::DQUOT,
            ],
        }
    }

    /// Returns whether `errno` means that another process was faster. The call is then made
    /// nevertheless before `errno` is returned, so that the file system agrees with the error.
    pub(crate) fn was_overtaken(self, errno: Errno) -> bool {
        matches!(
            (self, errno),
            (Self::MakeDirectory, Errno::EXIST)
                | (Self::Remove | Self::RemoveDirectory, Errno::NOENT)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_fails_the_chosen_steps() {
        let plan = FaultPlan::new(1).fail(1, Errno::IO).fail_by_choice(3, 5);
        let clone = plan.clone();
        assert_eq!(plan.step(Call::Read), None);
        assert_eq!(clone.step(Call::Write), Some(Errno::IO));
        assert_eq!(plan.step(Call::Write), None);
        // The table of `close` has four entries.
        assert_eq!(clone.step(Call::Close), Some(Errno::NOSPC));
        assert_eq!(plan.step(Call::Close), None);
        assert_eq!(plan.steps(), 5);
        let injected = [(1, Call::Write, Errno::IO), (3, Call::Close, Errno::NOSPC)];
        let injected = injected.map(|(step, call, errno)| Injected { step, call, errno });
        assert_eq!(plan.injected(), injected);

        let dead = FaultPlan::new(1).fail_from(1, Errno::IO);
        let answers: Vec<_> = (0..4).map(|_| dead.step(Call::Read)).collect();
        assert_eq!(answers, [None, Some(Errno::IO), Some(Errno::IO), Some(Errno::IO)]);

        let nth = FaultPlan::new(1).fail_nth(Call::Close, 1, Errno::IO);
        let calls = [Call::Close, Call::Read, Call::Read, Call::Close, Call::Close];
        let answers = calls.map(|call| nth.step(call));
        assert_eq!(answers, [None, None, None, Some(Errno::IO), None]);
    }

    #[test]
    fn a_plan_shortens_one_transfer() {
        for (short, expected) in [(Short::Nothing, 0), (Short::OneByte, 1), (Short::Half, 50)] {
            let plan = FaultPlan::new(1).cut(1, short);
            assert_eq!((plan.transfer(100), plan.has_cut()), (None, false));
            assert_eq!((plan.transfer(100), plan.has_cut()), (Some(expected), true));
            assert_eq!(plan.transfer(100), None);
        }
    }
}
