//! The library in this process, and waiting within bounds.

use std::{
    io::{self, Write},
    panic,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use unsnap_pass::{Archive, IoEngine, LayoutKind};
use unsnap_unpack::{Report, UnpackError, Verify};

use crate::{HANG, Setup};

/// Returns a configuration for small archives: little memory, so that a run costs little.
pub fn small(archive: &Path, output: &Path) -> Setup {
    let mut config = Setup::new(Archive::File(archive.to_owned()), output);
    config.pass.resources.memory_budget = Some(4 << 20);
    config.pass.io.engine = IoEngine::Threads;
    config.pass.resources.decode_threads = Some(2);
    // Most tests are not about the contents of storages, and many archives hold no accounts.
    config.verify = Verify::None;
    config
}

/// Returns [`small`] for tars that are no snapshots.
pub fn small_any(archive: &Path, output: &Path) -> Setup {
    let mut config = small(archive, output);
    config.layout = LayoutKind::Any;
    config
}

/// Unpacks by the library, and panics if that hangs.
#[track_caller]
pub fn unpack(config: &Setup) -> Result<Report, UnpackError> {
    let unpacker = config.unpacker()?;
    within(move || unpacker.run())
}

/// Runs a closure on a thread of its own, and panics if it hangs.
#[track_caller]
pub fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let worker = thread::spawn(move || {
        let _ = done.send(work());
    });
    match result.recv_timeout(HANG) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("this hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            panic::resume_unwind(worker.join().unwrap_err())
        }
    }
}

/// Waits until a condition holds, and panics if it never does.
#[track_caller]
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_true() {
        assert!(since.elapsed() < HANG, "never came true: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a seed that is different in every run, and prints it so that a failure can be repeated:
/// `UNSNAP_TEST_SEED=<seed> cargo test ...`.
pub fn seed(test: &str) -> u64 {
    let given = std::env::var("UNSNAP_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    let _ = writeln!(io::stderr(), "{test}: UNSNAP_TEST_SEED={seed}");
    seed
}
