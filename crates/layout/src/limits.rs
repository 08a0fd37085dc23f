//! Bounds on the content of an archive.

use crate::error::LayoutError;
use unsnap_tarstream::{Member, printable};

/// Limits on the content of an archive.
///
/// Unless noted otherwise the defaults are those of Agave 4.2.2's unpacker (`agave-snapshots`,
/// `hardened_unpack.rs`): a validator would refuse an archive that exceeds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries of an archive. In [`AnyLayout`](crate::AnyLayout) directories that are only implied
    /// by paths count too.
    ///
    /// 5,000,000. Mainnet has about 430,000 storages.
    pub entries_max: u64,
    /// Total size of all files as they appear, holes included.
    ///
    /// 64 TiB.
    pub apparent_bytes_max: u64,
    /// Total size of all files as stored in a snapshot archive.
    ///
    /// 4 TiB. Admitted files have no holes, so for snapshots the smaller of the two limits applies.
    pub actual_bytes_max: u64,
    /// `snapshots/<slot>/<slot>`: 32 GiB.
    pub bank_file_bytes_max: u64,
    /// `snapshots/status_cache`: 32 GiB.
    pub status_cache_bytes_max: u64,
    /// `version`: 8 bytes. Its usual content has five.
    pub version_bytes_max: u64,
    /// One account storage: 16 GiB, the largest file that `append_vec.rs` of `solana-accounts-db`
    /// opens.
    pub storage_bytes_max: u64,
    /// A whole path: 4095 bytes, Linux `PATH_MAX` without its NUL.
    pub path_bytes_max: usize,
    /// One component of a path: 255 bytes, Linux `NAME_MAX`.
    pub component_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries_max: 5_000_000,
            apparent_bytes_max: 64 << 40,
            actual_bytes_max: 4 << 40,
            bank_file_bytes_max: 32 << 30,
            status_cache_bytes_max: 32 << 30,
            version_bytes_max: 8,
            storage_bytes_max: 16 << 30,
            path_bytes_max: 4_095,
            component_bytes_max: 255,
        }
    }
}

/// Totals of the entries admitted so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Totals {
    pub(crate) fn add(
        &mut self,
        member: &Member<'_>,
        entries_max: u64,
        bytes_max: u64,
    ) -> Result<(), LayoutError> {
        let offset = member.header_offset;
        if self.entries >= entries_max {
            let entry = printable(member.path);
            return Err(LayoutError::TooManyEntries { offset, entry, limit: entries_max });
        }
        // The saturated value exceeds every limit.
        let found = self.bytes.saturating_add(member.size);
        if found > bytes_max {
            let entry = printable(member.path);
            return Err(LayoutError::TotalTooLarge { offset, entry, found, limit: bytes_max });
        }
        self.entries += 1;
        self.bytes = found;
        Ok(())
    }
}
