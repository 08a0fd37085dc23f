//! What is exported, and how.

use std::{collections::BTreeSet, num::NonZeroUsize, path::PathBuf, thread};

use unsnap_lookup::{AccountFilter, MEMORY_BYTES};
use unsnap_pass::ordered;
use unsnap_table::{AccountColumns, KeyForm, TableKind};

const MIB: usize = 1 << 20;

/// Size of the rows of a row group in bytes, before encoding: about 120,000 token accounts, the
/// number of rows that DuckDB gives a row group of its own.
const ROW_GROUP_BYTES: usize = 32 * MIB;

/// Size below which memory does not shrink a row group. Smaller ones cost readers more than they save.
const ROW_GROUP_BYTES_MIN: usize = MIB;

/// Largest size of a row group. Offsets in Arrow's columns have 31 bits, and an account's data is added
/// to a row group that is not full yet.
const ROW_GROUP_BYTES_MAX: usize = 1 << 30;

/// Size of a file, before the next one begins. Engines read files in parallel.
const FILE_BYTES: u64 = 512 << 20;

/// Default memory for rows in bytes.
const ROWS_MEMORY_BYTES: usize = 512 * MIB;

/// What is exported, and how.
#[derive(Clone, Debug)]
pub struct ExportQuery {
    /// Directory to make.
    pub output: PathBuf,
    /// Which records.
    pub filter: AccountFilter,
    /// Export only the newest version of each account, over all archives, if it has lamports. This
    /// takes another pass over the archives.
    pub newest: bool,
    /// The tables to write.
    pub tables: BTreeSet<TableKind>,
    /// Columns of the tables.
    pub columns: AccountColumns,
    /// Most bytes of the data to write for an account; `None` for all.
    pub data_prefix: Option<usize>,
    /// Read all files again before they are published, and compare their rows with the archive's.
    pub check: bool,
    /// Memory for rows that are not written yet, in bytes.
    pub rows_memory_bytes: usize,
    /// Memory for finding the newest versions in bytes; the rest goes to an unnamed temporary file.
    pub newest_memory_bytes: usize,
    /// Most bytes of a row group's rows, if memory suffices; `None` for a default.
    pub row_group_bytes: Option<usize>,
    /// Size of a file before the next one begins; `None` for a default.
    pub file_bytes: Option<u64>,
    /// Number of threads that make rows, and of those that encode them.
    pub threads: NonZeroUsize,
}

impl ExportQuery {
    /// Returns a query for all records with all of their data.
    pub fn all(output: impl Into<PathBuf>) -> Self {
        Self {
            output: output.into(),
            filter: AccountFilter::default(),
            newest: false,
            tables: BTreeSet::from([TableKind::Accounts]),
            columns: AccountColumns { keys: KeyForm::Binary, data: true, provenance: false },
            data_prefix: None,
            check: false,
            rows_memory_bytes: ROWS_MEMORY_BYTES,
            newest_memory_bytes: MEMORY_BYTES,
            row_group_bytes: None,
            file_bytes: None,
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// Returns the most bytes of a row group's rows. One row group of each table is held while it is
    /// filled, and others while they are encoded.
    pub(crate) fn row_group_bytes(&self) -> usize {
        let held = ordered::jobs_max(self.threads) + self.tables.len();
        let fits = (self.rows_memory_bytes / held).max(ROW_GROUP_BYTES_MIN);
        let most = fits.min(ROW_GROUP_BYTES_MAX);
        self.row_group_bytes.unwrap_or(ROW_GROUP_BYTES).clamp(1, most)
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes.unwrap_or(FILE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_groups_fit_into_the_memory() {
        let with = |threads, rows_memory_bytes, row_group_bytes| {
            let threads = NonZeroUsize::new(threads).unwrap();
            let query = ExportQuery { rows_memory_bytes, row_group_bytes, threads, ..all() };
            query.row_group_bytes()
        };
        assert_eq!(with(2, 512 * MIB, None), 32 * MIB);
        assert_eq!(with(4, 80 * MIB, None), 10 * MIB);
        assert_eq!(with(64, MIB, None), MIB, "the smallest");
        assert_eq!(with(2, 512 * MIB, Some(1000)), 1000);
        assert_eq!(with(2, 512 * MIB, Some(usize::MAX)), 512 * MIB / 6);
        assert_eq!(with(2, 512 * MIB, Some(0)), 1);
    }

    fn all() -> ExportQuery {
        ExportQuery::all("tables")
    }
}
