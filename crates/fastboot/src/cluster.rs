//! Clusters: a state is made only from archives of the ledger's own cluster.
//!
//! An archive does not name its cluster, but its bank file has the time of the cluster's genesis. So has
//! the ledger's `genesis.bin`, in its first eight bytes (`solana-genesis-config`, `creation_time`).
//! Mainnet, testnet and devnet have different ones.

use std::path::Path;

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use unsnap_failure::Remedy;
use unsnap_ring::Syscalls;

use crate::{
    FastbootError,
    files::{failed, open_directory},
};

/// Name of the genesis in a ledger.
const GENESIS: &str = "genesis.bin";

/// Returns the time of the ledger's genesis in seconds since 1970; `None` if the ledger has no genesis
/// yet: a validator fetches it when it starts for the first time.
pub(crate) fn genesis_time(calls: &Syscalls, ledger: &Path) -> Result<Option<i64>, FastbootError> {
    let read = |errno| failed("read", &ledger.join(GENESIS), errno);
    let directory = open_directory(calls, ledger)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match calls.openat(&directory, GENESIS, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(read(errno)),
    };
    let (mut time, mut filled) = ([0; 8], 0);
    while filled < time.len() {
        match calls.pread(&file, &mut time[filled..], filled as u64).map_err(read)? {
            // Being written.
            0 => return Ok(None),
            count => filled += count,
        }
    }
    Ok(Some(i64::from_le_bytes(time)))
}

/// Refuses an archive whose cluster's genesis was at another time than the ledger's.
pub(crate) fn refuse_other(
    calls: &Syscalls,
    ledger: &Path,
    archive: &Path,
    archives_genesis: i64,
) -> Result<(), FastbootError> {
    let Some(own) = genesis_time(calls, ledger)?.filter(|own| *own != archives_genesis) else {
        return Ok(());
    };
    let reason = format!(
        "{} is of another cluster: its genesis was at Unix time {archives_genesis}, that of the ledger \
         {} at {own}",
        archive.display(),
        ledger.display()
    );
    let remedy = Remedy::advice(
        "remove the archive, or name the ledger of its cluster; if the ledger is to change clusters, \
         remove its genesis.bin first",
    );
    Err(FastbootError::request(reason, Some(remedy)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use unsnap_failure::{Failure, Family};

    use super::*;

    #[test]
    fn archives_of_another_cluster_are_refused_where_the_ledger_has_a_genesis() {
        let scratch = tempfile::tempdir().unwrap();
        let (ledger, calls) = (scratch.path(), Syscalls::default());
        let check = |time| refuse_other(&calls, ledger, Path::new("the-archive"), time);
        check(7).unwrap();
        let genesis = ledger.join(GENESIS);
        // Not complete.
        fs::write(&genesis, &1_600_000_000_i64.to_le_bytes()[..7]).unwrap();
        check(7).unwrap();
        fs::write(&genesis, [&1_600_000_000_i64.to_le_bytes()[..], b"rest"].concat()).unwrap();
        check(1_600_000_000).unwrap();
        for other in [0, -1, 1_600_000_001, i64::MAX] {
            let error = check(other).unwrap_err();
            assert_eq!(error.family(), Family::Request, "{error}");
            assert!(error.to_string().contains("the-archive is of another cluster"), "{error}");
        }
    }
}
