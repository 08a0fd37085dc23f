//! Rows collected into row groups.

use unsnap_table::{Columns, Digest};

use crate::gather::Gathered;

/// Most rows of a row group, whatever their size.
const ROW_GROUP_ROWS: usize = 500_000;

/// Collects rows until they fill a row group, and counts them.
pub(crate) struct Collector {
    row_group_bytes: usize,
    parts: Vec<Columns>,
    rows: usize,
    bytes: usize,
    /// Number of records seen.
    pub records: u64,
    /// Digest of all rows.
    pub digest: Digest,
    /// Sum of the lamports of all rows.
    pub lamports: u128,
}

impl Collector {
    pub fn new(row_group_bytes: usize) -> Self {
        Self {
            row_group_bytes,
            parts: Vec::new(),
            rows: 0,
            bytes: 0,
            records: 0,
            digest: Digest::default(),
            lamports: 0,
        }
    }

    /// Adds the rows of a batch. Returns the rows of a row group if it is full.
    pub fn add(&mut self, gathered: Gathered) -> Option<Vec<Columns>> {
        let Gathered { records, rows, digest, lamports } = gathered;
        self.records += records;
        self.digest.add(digest);
        // Less than 2^63 for each of less than 2^64 rows.
        self.lamports += lamports;
        if rows.rows() == 0 {
            return None;
        }
        self.rows += rows.rows();
        self.bytes += rows.bytes();
        self.parts.push(rows);
        let is_full = self.bytes >= self.row_group_bytes || self.rows >= ROW_GROUP_ROWS;
        is_full.then(|| self.take()).flatten()
    }

    /// Returns the rows of the last row group, if there are any.
    pub fn take(&mut self) -> Option<Vec<Columns>> {
        (self.rows, self.bytes) = (0, 0);
        let parts = std::mem::take(&mut self.parts);
        (!parts.is_empty()).then_some(parts)
    }
}
