//! Tests of the effect of a pace on creators.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

use std::{
    fs::{self, File},
    num::NonZeroU64,
    path::Path,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use unsnap_arena::{Arena, OpenSegment};
use unsnap_create::{Assembler, CreateProgress, CreatorPool, Destination, NewMember, PoolConfig};
use unsnap_ring::{DirectMode, EngineKind, Pace, Syscalls};
use unsnap_testkit::skip::skip_unsupported;

/// Time after which a test counts as hung.
const HANG: Duration = Duration::from_secs(90);

const FILE_BYTES: usize = 5000;

fn destination(path: &Path) -> Destination {
    let handle = File::open(path).unwrap().into();
    Destination::open(Syscalls::default(), handle, path.to_owned(), DirectMode::Auto).unwrap()
}

/// Creates files in destinations, one after another. Returns the progress, and a function that
/// waits until the files are complete and returns the longest delay in milliseconds.
fn create(
    directories: &[&Path],
    pace: &Pace,
    of: &[usize],
) -> (impl FnOnce() -> u64 + Send + use<>, Arc<CreateProgress>) {
    let mut arena = Arena::builder().bytes(1 << 20).populate(false).build().unwrap();
    let pool = arena.pool(1 << 20).unwrap();
    let destinations: Vec<_> = directories.iter().map(|path| destination(path)).collect();
    let config = PoolConfig {
        engine: EngineKind::Threads,
        cached_engine: EngineKind::Threads,
        streams: 1,
        register: None,
        depth: None,
        workers: None,
        sink: None,
        pace: pace.clone(),
        priority: None,
    };
    let progress = Arc::new(CreateProgress::default());
    let creators = CreatorPool::start(&destinations, &config, Arc::clone(&progress)).unwrap();
    let mut assembler = Assembler::new(destinations, &creators, None);
    let stride = FILE_BYTES.next_multiple_of(512);
    let (mut open, _) = OpenSegment::allocate(&pool, 0, of.len() * stride).unwrap();
    open.advance(of.len() * stride);
    let view = open.seal().prepend(assembler.take_carry());
    for (index, destination) in of.iter().enumerate() {
        let name = format!("file-{index}");
        let size = FILE_BYTES as u64;
        assembler.begin(NewMember { destination: *destination, path: &name, size }, &view).unwrap();
        let start = index * stride;
        assembler.payload(&view, start..start + FILE_BYTES, true).unwrap();
    }
    assembler.end_segment(&view).unwrap();
    assembler.finish().unwrap();
    drop(view);
    let delays = Arc::clone(&progress);
    let finish = move || {
        creators.finish().unwrap();
        drop(arena);
        delays.held_back_ms.load(Ordering::Relaxed)
    };
    (finish, progress)
}

/// Returns the result of `work`, if it ends in time.
fn ends_within(time: Duration, work: impl FnOnce() -> u64 + Send + 'static) -> Option<u64> {
    let (done, result) = channel();
    thread::spawn(move || done.send(work()));
    match result.recv_timeout(time) {
        Ok(result) => Some(result),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => panic!("the work panicked"),
    }
}

fn assert_complete(directory: &Path, files: usize) {
    let entries: Vec<_> = fs::read_dir(directory).unwrap().flatten().collect();
    assert_eq!(entries.len(), files);
    for entry in entries {
        assert_eq!(entry.metadata().unwrap().len(), FILE_BYTES as u64);
    }
}

/// At one byte a second a device accepts one file at once, and the next after hours.
#[test]
fn each_device_has_its_own_bucket() {
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Ok(memory) = TempDir::new_in("/dev/shm") else {
        return skip_unsupported("/dev/shm does not exist");
    };
    if destination(here.path()).device() == destination(memory.path()).device() {
        return skip_unsupported("/dev/shm is not a separate file system");
    }
    let pace = Pace::new();
    pace.set_rate(NonZeroU64::new(1));
    let directories = [here.path(), memory.path()];
    let held_back = ends_within(HANG, create(&directories, &pace, &[0, 1]).0);
    assert_eq!(held_back, Some(0), "the second device was delayed by the first");
    for directory in &directories {
        assert_complete(directory, 1);
    }
}

#[test]
fn destinations_on_one_device_share_a_bucket_until_the_limit_is_lifted() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let paths = [scratch.path().join("a"), scratch.path().join("b")];
    for path in &paths {
        fs::create_dir(path).unwrap();
    }
    let pace = Pace::new();
    pace.set_rate(NonZeroU64::new(1));
    let (finish, progress) = create(&[&paths[0], &paths[1]], &pace, &[0, 1, 0]);
    // The delay is reported while it lasts.
    let since = Instant::now();
    while progress.held_back_ms.load(Ordering::Relaxed) == 0 {
        assert!(since.elapsed() < HANG, "nobody is held back");
        thread::sleep(Duration::from_millis(5));
    }
    let lifting = pace.clone();
    let (done, result) = channel();
    thread::spawn(move || done.send(finish()));
    assert_eq!(result.recv_timeout(Duration::from_millis(300)), Err(RecvTimeoutError::Timeout));
    lifting.set_rate(None);
    assert!(result.recv_timeout(HANG).unwrap() > 0);
    assert_complete(&paths[0], 2);
    assert_complete(&paths[1], 1);
}

/// Without a limit a pause leaves no debt.
#[test]
fn paused_creators_do_nothing_until_resumed() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pace = Pace::new();
    pace.pause();
    let (finish, _) = create(&[scratch.path()], &pace, &[0; 50]);
    let (done, result) = channel();
    thread::spawn(move || done.send(finish()));
    assert_eq!(result.recv_timeout(Duration::from_millis(300)), Err(RecvTimeoutError::Timeout));
    assert_complete(scratch.path(), 0);
    pace.resume();
    assert_eq!(result.recv_timeout(HANG), Ok(0));
    assert_complete(scratch.path(), 50);
}

#[test]
fn a_pool_that_is_dropped_does_not_wait_for_the_end_of_a_pause() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pace = Pace::new();
    pace.pause();
    let (finish, _) = create(&[scratch.path()], &pace, &[0; 50]);
    let dropping = move || {
        drop(finish);
        0
    };
    assert_eq!(ends_within(HANG, dropping), Some(0));
    assert_complete(scratch.path(), 0);
}
