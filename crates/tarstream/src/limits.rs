//! Bounds on everything an archive can make the walker remember.

/// Limits on each construct. The walker refuses an archive that exceeds them.
///
/// Payload sizes are not limited here because payload is never held. The layout crate limits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Body of one long name, long link or PAX header, in bytes.
    ///
    /// 1 MiB, as in the tar-core parser. GNU tar writes names up to `PATH_MAX`; PAX headers with
    /// extended attributes reach some tens of KiB. The buffer grows with the bytes that arrive,
    /// never with the size that a header declares.
    pub extension_bytes_max: u64,
    /// Body of one PAX global header, in bytes.
    ///
    /// 64 KiB. `git archive` writes 52 bytes; no writer is known to produce more than a few
    /// records.
    pub global_header_bytes_max: u64,
    /// A member's path or the target of its link, in bytes.
    ///
    /// 4095: Linux `PATH_MAX` without its terminating NUL.
    pub path_bytes_max: usize,
    /// Blocks of one GNU sparse member's map that follow its header.
    ///
    /// 4096 blocks hold 86,016 extents, eight times the limit of the tar-core parser. This is a
    /// guess: no current snapshot archive has a sparse member, and the map is only skipped.
    pub sparse_map_blocks_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            extension_bytes_max: 1 << 20,
            global_header_bytes_max: 64 << 10,
            path_bytes_max: 4_095,
            sparse_map_blocks_max: 4_096,
        }
    }
}
