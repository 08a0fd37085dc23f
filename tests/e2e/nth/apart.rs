//! A process for one test alone: what it counts is its own, and what hangs in it can be ended.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use unsnap_test_support::{seed, until};

/// Says to a process that it is one, and which directory it may use.
const APART: &str = "UNSNAP_TEST_APART";

/// No run takes this long, however busy the machine is: what does hangs. A guess.
const HANG: Duration = Duration::from_mins(3);

/// What more than at the beginning is no leak: caches of the allocator and of thread stacks (glibc
/// keeps up to 40 MiB of these). Less than the memory of the runs a test makes at the least.
const GROWTH_MAX: u64 = 96 << 20;

/// A file system in memory, where thousands of syncs take no time. Its direct I/O is a copy.
const IN_MEMORY: &str = "/dev/shm";

/// Where a test has its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the build directory, in most cases on a disk.
    BuildDirectory,
    /// In memory, or where that is not to be had in the build directory.
    Memory,
}

/// What a process of its own is given.
pub struct Apart<'a> {
    pub seed: u64,
    /// Removed however the process ends.
    pub directory: &'a Path,
    pub in_memory: bool,
}

/// Runs `body` in a process of its own, which is this program with only the test `name`. `body` says
/// in the end what it has done.
pub fn apart(name: &str, place: Place, body: impl FnOnce(Apart) -> String) {
    if let Some(directory) = std::env::var_os(APART) {
        let seed = std::env::var("UNSNAP_TEST_SEED").unwrap().parse().unwrap();
        watch();
        let directory = Path::new(&directory);
        let done = body(Apart { seed, directory, in_memory: directory.starts_with(IN_MEMORY) });
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "a thread has panicked");
        say(format_args!("{name}: {done}"));
        return;
    }
    let seed = seed(name);
    let in_memory = TempDir::new_in(IN_MEMORY).ok().filter(|_| place == Place::Memory);
    let directory =
        in_memory.unwrap_or_else(|| TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(APART, directory.path())
        .env("UNSNAP_TEST_SEED", seed.to_string())
        // Otherwise glibc reserves address space for each thread, which looks like a leak.
        .env("MALLOC_ARENA_MAX", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{name}, UNSNAP_TEST_SEED={seed}: {}\n{stdout}\n{stderr}",
        output.status
    );
    say(stderr.trim_end());
}

/// Past the test harness, which swallows what tests that pass print.
fn say(what: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// What is being done, and since when.
static CURRENT: Mutex<Option<(Instant, String)>> = Mutex::new(None);
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Says what is going to be done, for the case that it hangs.
pub fn begin(what: &str) {
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) =
        Some((Instant::now(), what.to_owned()));
}

/// Ends the process when something hangs; counts panics, wherever they are.
fn watch() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        hook(panic);
    }));
    thread::spawn(|| {
        loop {
            thread::sleep(Duration::from_secs(1));
            let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, what)) = current.as_ref().filter(|(since, _)| since.elapsed() > HANG) {
                say(format_args!("this hangs: {what}"));
                std::process::abort();
            }
        }
    });
}

/// Whether a thread has panicked so far.
pub fn has_panicked() -> bool {
    PANICS.load(Ordering::Relaxed) > 0
}

/// Keeps what unsnap warns of from here on.
pub fn keep_log() {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(|| Lines)
        .init();
}

/// What it has warned of since the last time.
pub fn take_log() -> String {
    let mut lines = lines().lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&std::mem::take(&mut *lines)).into_owned()
}

fn lines() -> &'static Mutex<Vec<u8>> {
    static LINES: OnceLock<Mutex<Vec<u8>>> = OnceLock::new();
    LINES.get_or_init(Mutex::default)
}

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lines().lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What this process holds.
#[derive(Clone, Copy, Debug)]
pub struct Holdings {
    descriptors: usize,
    threads: usize,
    /// Bytes of address space, and of memory.
    reserved: u64,
    resident: u64,
}

impl Holdings {
    pub fn now() -> Self {
        let count = |folder| fs::read_dir(folder).unwrap().count();
        let pages: Vec<u64> = fs::read_to_string("/proc/self/statm")
            .unwrap()
            .split(' ')
            .map_while(|number| number.parse().ok())
            .collect();
        let page = rustix::param::page_size() as u64;
        Self {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            reserved: pages[0] * page,
            resident: pages[1] * page,
        }
    }

    /// Panics if there is more now. Threads are gone a moment after they were joined.
    #[track_caller]
    pub fn assert_no_leak(self, what: &str) {
        let as_before = || {
            let now = Self::now();
            // Fewer if a thread was ending when these were counted.
            now.descriptors <= self.descriptors && now.threads <= self.threads
        };
        until(&format!("{what}: as few descriptors and threads as before: {self:?}"), as_before);
        let now = Self::now();
        let grown = (now.reserved.saturating_sub(self.reserved))
            .max(now.resident.saturating_sub(self.resident));
        assert!(grown < GROWTH_MAX, "{what}: memory leaks: was {self:?}, is {now:?}");
    }
}
