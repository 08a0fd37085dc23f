//! Space that is left to other processes.

/// Space that stays free for other processes, which may not use ext4's reserved blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinFree {
    /// Bytes to leave free.
    pub bytes: u64,
    /// Bytes that are free now.
    pub free_bytes: u64,
}

impl MinFree {
    /// Returns whether less is free than should be.
    pub fn is_broken(&self) -> bool {
        self.free_bytes < self.bytes
    }
}
