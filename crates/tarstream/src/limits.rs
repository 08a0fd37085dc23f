//! Bounds on everything an archive can make the walker remember.

/// How much of each construct the walker accepts before it refuses the archive.
///
/// Payload sizes are not limited here: payload is never held. The layout crate limits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Body of one long name, long link or PAX header, in bytes.
    ///
    /// 1 MiB, as in the tar-core parser. GNU tar writes names up to `PATH_MAX`; PAX headers with
    /// extended attributes reach some tens of KiB. The buffer grows with the bytes that really
    /// arrive, never by the size a header declares.
    pub extension_bytes_max: u64,
    /// Body of one PAX global header, in bytes.
    ///
    /// 64 KiB. `git archive` writes 52 bytes; nothing larger than a few records is known.
    pub global_header_bytes_max: u64,
    /// A member's path, or the target of its link, in bytes.
    ///
    /// 4095: Linux `PATH_MAX` without its terminating NUL.
    pub path_bytes_max: usize,
    /// Blocks of one GNU sparse member's map that follow its header.
    ///
    /// 4096 blocks hold 86,016 extents, eight times what the tar-core parser takes. A guess: no
    /// snapshot archive has a sparse member any more, the map is only stepped over.
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
