//! Whether the start of a validator waits for a target's job.

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use unsnap_fastboot::Places;

/// File in the snapshots directory that `unsnap-validator` keeps locked while it waits for another
/// unsnap.
const WAITING: &str = ".unsnap-waiting";

/// Returns whether a validator's start waits for another unsnap. The file of a process that has
/// died is not locked, and means nothing.
pub fn is_waited_for(places: &Places) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(CWD, places.snapshots.join(WAITING), flags, Mode::empty());
    file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn somebody_waits_as_long_as_the_file_is_locked() {
        let scratch = tempfile::tempdir().unwrap();
        let places = Places::new(scratch.path());
        assert!(!is_waited_for(&places));
        let file = File::create(scratch.path().join(WAITING)).unwrap();
        assert!(!is_waited_for(&places), "left behind by a process that died");
        file.lock().unwrap();
        assert!(is_waited_for(&places));
        drop(file);
        assert!(!is_waited_for(&places));
    }
}
