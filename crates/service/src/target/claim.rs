//! Claims: two services must not make results in the same directories.
//!
//! Each service has a state directory, which it locks as long as it runs. It leaves the path of that
//! directory in a file in each of its targets' directories. A service that finds another one's name
//! there, whose state directory is locked, keeps away. No lock is held in the targets' directories:
//! it would keep their disks from being unmounted.

use std::{
    fs::{self, File, TryLockError},
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use unsnap_fastboot::{FastbootError, write_durably};
use unsnap_ring::Syscalls;

use crate::config::{Target, TargetKind};

/// Name of the file. Validators ignore names that they do not know.
pub const CLAIM_FILE: &str = ".unsnap-service";

/// Longest path that is read: `PATH_MAX` of the kernel, and a line feed.
const CLAIM_BYTES_MAX: u64 = 4097;

/// Claims the directories of a target for the service with this state directory. Fails with
/// [`FastbootError::Locked`] if a service with another one runs and has claimed one of them. A claim
/// that cannot be written does not count.
pub fn claim(target: &Target, state_directory: &Path) -> Result<(), FastbootError> {
    let own = fs::canonicalize(state_directory).unwrap_or_else(|_| state_directory.to_owned());
    for directory in directories(&target.kind).filter(|directory| directory.is_dir()) {
        let path = directory.join(CLAIM_FILE);
        match claimed_by(&path) {
            Some(other) if other == own => continue,
            Some(other) if is_running(&other) => {
                let holder = format!("unpackd with the state directory {}", other.display());
                return Err(FastbootError::Locked { path: directory, holder: Some(holder) });
            }
            Some(_) | None => {}
        }
        let text = format!("{}\n", own.display());
        if let Err(error) = write_durably(&Syscalls::default(), &path, text.as_bytes()) {
            tracing::debug!(%error, "other services cannot see whose directory this is");
        }
    }
    Ok(())
}

fn directories(kind: &TargetKind) -> impl Iterator<Item = PathBuf> {
    let (one, others) = match kind {
        TargetKind::Tree { directory } => (directory, &[][..]),
        TargetKind::Fastboot { places, .. } => (&places.snapshots, &places.accounts[..]),
    };
    std::iter::once(one).chain(others).cloned()
}

fn claimed_by(path: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    File::open(path).ok()?.take(CLAIM_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(PathBuf::from(text.strip_suffix('\n')?))
}

/// Returns whether a service runs with this state directory. One that cannot be opened may belong to
/// another user.
fn is_running(state_directory: &Path) -> bool {
    match File::open(state_directory) {
        Ok(directory) => {
            matches!(directory.try_lock_shared(), Err(TryLockError::WouldBlock))
        }
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use unsnap_failure::{Code, Failure};
    use unsnap_fastboot::Places;
    use unsnap_state::Format;

    use super::*;
    use crate::{persistent::StateDirectory, testing};

    #[test]
    fn a_directory_belongs_to_one_running_service() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for name in ["snapshots", "one", "two", "trees"] {
            fs::create_dir(at(name)).unwrap();
        }
        let mut places = Places::new(scratch.path());
        (places.snapshots, places.accounts) = (at("snapshots"), vec![at("one"), at("absent")]);
        let target = |kind| Target { kind, ..testing::target() };
        let state = |places: &Places| {
            let (places, format) = (places.clone(), Format::V3);
            target(TargetKind::Fastboot {
                places,
                format,
                shadow: true,
                beside: true,
                max_behind: u64::MAX,
            })
        };
        let first = StateDirectory::take(&at("state-1")).unwrap();
        let second = StateDirectory::take(&at("state-2")).unwrap();
        let tree = target(TargetKind::Tree { directory: at("trees") });
        for target in [&tree, &state(&places)] {
            claim(target, first.path()).unwrap();
            claim(target, first.path()).unwrap();
            let refused = claim(target, second.path()).unwrap_err();
            assert_eq!(refused.code(), Code::Locked, "{refused}");
            assert!(refused.to_string().contains("state-1"), "{refused}");
        }
        // One accounts path in common is enough.
        let mut other = places.clone();
        (other.snapshots, other.accounts) = (at("two"), vec![at("one")]);
        assert!(claim(&state(&other), second.path()).is_err());
        // The first one has ended.
        drop(first);
        for target in [&tree, &state(&places)] {
            claim(target, second.path()).unwrap();
        }
        // A file that is no claim, and one that cannot be replaced, are in nobody's way.
        fs::write(at("trees").join(CLAIM_FILE), "torn").unwrap();
        claim(&tree, second.path()).unwrap();
        fs::remove_file(at("trees").join(CLAIM_FILE)).unwrap();
        fs::create_dir(at("trees").join(CLAIM_FILE)).unwrap();
        claim(&tree, second.path()).unwrap();
    }
}
