//! Headers as the planner and surveys see them, who pass over blocks without decoding them.

use unsnap_zstd::{BLOCK_HEADER_BYTES, BlockHeader, BlockKind};

/// Parses a block header, for any frame. Returns `None` for the reserved block type.
pub fn block_header(bytes: [u8; BLOCK_HEADER_BYTES]) -> Option<BlockHeader> {
    BlockHeader::parse(bytes, usize::MAX).ok()
}

/// Returns the decoded length of a raw or RLE block, which its header gives; `None` for a
/// compressed block.
pub(crate) fn block_raw_bytes(header: &BlockHeader) -> Option<u64> {
    (header.kind != BlockKind::Compressed).then_some(header.size as u64)
}

/// Compares the declared size of a frame with the decoded one, and returns an error message if they
/// differ. libzstd does not check this if the last block is empty.
pub(crate) fn size_mismatch(declared: u64, decoded: u64) -> Option<String> {
    (declared != decoded)
        .then(|| format!("the frame declares {declared} bytes but holds {decoded}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_type() {
        let header = |bytes| block_header(bytes).map(|header| (header.stored_bytes(), header.last));
        assert_eq!(header([0x01, 0x10, 0x00]), Some((512, true)));
        assert_eq!(header([0x02, 0xff, 0xff]), Some((1, false)), "repeated");
        assert_eq!(header([0x07, 0, 0]), None, "reserved");
        let raw_bytes = |bytes| block_header(bytes).and_then(|header| block_raw_bytes(&header));
        assert_eq!(raw_bytes([0x02, 0x10, 0x00]), Some(512));
        assert_eq!(raw_bytes([0x04, 0x10, 0x00]), None, "compressed");
    }
}
