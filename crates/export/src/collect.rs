//! Rows collected into row groups.

use unsnap_table::{Columns, Digest};

use crate::gather::Part;

/// Most rows of a row group, whatever their size.
const ROW_GROUP_ROWS: usize = 500_000;

/// Size below which rows are copied to those before them. Each part of a row group costs about a
/// kilobyte, which small storages would multiply.
const SMALL_BYTES: usize = 64 << 10;

/// Collects rows of a table until they fill a row group, and counts them.
pub(crate) struct Collector {
    row_group_bytes: usize,
    parts: Vec<Columns>,
    rows: usize,
    bytes: usize,
    /// Digest of all rows.
    pub digest: Digest,
    /// Sum of the lamports of all rows.
    pub lamports: u128,
    /// Number of records that are of no known layout.
    pub not_decoded: u64,
}

impl Collector {
    pub fn new(row_group_bytes: usize) -> Self {
        Self {
            row_group_bytes,
            parts: Vec::new(),
            rows: 0,
            bytes: 0,
            digest: Digest::default(),
            lamports: 0,
            not_decoded: 0,
        }
    }

    /// Adds the rows of a batch. Returns the rows of a row group if it is full.
    pub fn add(&mut self, part: Part) -> Option<Vec<Columns>> {
        let Part { rows, digest, lamports, not_decoded } = part;
        self.digest.add(digest);
        // Less than 2^63 for each of less than 2^64 rows.
        self.lamports += lamports;
        self.not_decoded += not_decoded;
        if rows.rows() == 0 {
            return None;
        }
        self.rows += rows.rows();
        self.bytes += rows.bytes();
        match self.parts.last_mut() {
            Some(last) if last.bytes().max(rows.bytes()) < SMALL_BYTES => last.append(rows),
            _ => self.parts.push(rows),
        }
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

#[cfg(test)]
mod tests {
    use unsnap_table::{AccountColumns, KeyForm, Schema};

    use super::*;

    fn part(schema: &Schema, data: &[u8]) -> Part {
        let mut rows = Columns::new(schema);
        let mut row = rows.row();
        row.key(&[1; 32]);
        row.key(&[2; 32]);
        row.long(3);
        row.long(4);
        row.int(0);
        row.boolean(false);
        row.null();
        row.data(data);
        Part { digest: rows.digest(), rows, lamports: 3, not_decoded: 1 }
    }

    #[test]
    fn rows_of_tiny_storages_share_their_columns() {
        let columns = AccountColumns { keys: KeyForm::Binary, data: true, provenance: false };
        let schema = Schema::accounts(columns);
        let mut collector = Collector::new(usize::MAX);
        for _ in 0..100_000 {
            assert_eq!(collector.add(part(&schema, &[5; 20])), None);
        }
        let large = part(&schema, &vec![6; SMALL_BYTES]);
        assert_eq!(collector.add(large), None);
        let parts = collector.take().unwrap();
        let counts = (collector.digest.rows, collector.lamports, collector.not_decoded);
        assert_eq!(counts, (100_001, 300_003, 100_001));
        assert!(parts.len() <= 100_000 * 200 / SMALL_BYTES, "{}", parts.len());
        assert_eq!(parts.iter().map(Columns::rows).sum::<usize>(), 100_001);
        let mut digest = Digest::default();
        for part in &parts {
            digest.add(part.digest());
        }
        assert_eq!(digest, collector.digest);
        assert_eq!(collector.take(), None);
    }

    #[test]
    fn a_row_group_is_full_by_bytes_or_by_rows() {
        let columns = AccountColumns { keys: KeyForm::Binary, data: true, provenance: false };
        let schema = Schema::accounts(columns);
        let full = |row_group_bytes: usize| {
            let mut collector = Collector::new(row_group_bytes);
            (1..1_000_000).find(|_| collector.add(part(&schema, &[])).is_some())
        };
        assert_eq!((full(1), full(1000), full(usize::MAX)), (Some(1), Some(12), Some(500_000)));
    }
}
