//! Scope of an inspection.

/// Parts of an archive to inspect beyond headers and the bank file.
#[derive(Clone, Copy, Debug, Default)]
pub struct WhatToInspect {
    /// All storages. Without an index, this takes a pass over the whole archive.
    pub storages: bool,
    /// Number of owners with the most data to report. This takes a pass over the whole archive.
    pub owners: Option<usize>,
    /// All frames. Without an index or a seek table, this takes a read for each block of the
    /// archive.
    pub frames: bool,
}
