//! Progress of a storage's scan, kept while no worker holds the storage.

use unsnap_layout::append_vec::RecordHeader;

use crate::{lattice::AccountInParts, structure::StorageScanner};

/// Progress of a storage's scan.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) scanner: StorageScanner,
    /// Bytes that have been scanned.
    pub(super) base: u64,
    /// The account that continues in the next piece.
    pub(super) straddling: Option<Straddling>,
}

#[derive(Debug)]
pub(super) struct Straddling {
    pub(super) position: u64,
    pub(super) header: RecordHeader,
    pub(super) hash: AccountInParts,
}
