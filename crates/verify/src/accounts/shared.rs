//! State shared by streams and workers.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, atomic::AtomicUsize},
};

use super::{
    entries::{Entries, Entry, Fingerprints},
    look::StorageId,
    pool::Queue,
};
use crate::lattice::Vectors;

/// The check as its streams and workers see it.
#[derive(Debug)]
pub(super) struct Shared<B> {
    pub(super) queue: Queue<B>,
    pub(super) entries: Entries<Entry>,
    pub(super) storages: Mutex<Vec<StorageId>>,
    pub(super) streams: AtomicUsize,
    pub(super) fingerprints: Fingerprints,
    pub(super) workers: NonZeroUsize,
    pub(super) memory_bytes_max: usize,
    pub(super) vectors: Vectors,
}
