//! Headers of blocks (RFC 8878, section 3.1.1.2).

use crate::Defect;

/// Length of a block header in bytes.
pub const BLOCK_HEADER_BYTES: usize = 3;
/// Largest decoded size of a block in bytes, whatever its frame's window.
pub const BLOCK_BYTES_MAX: usize = 128 << 10;

/// How a block holds its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// As it is.
    Raw,
    /// One byte, repeated.
    Repeated,
    /// As literals and sequences.
    Compressed,
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// How the block holds its content.
    pub kind: BlockKind,
    /// Whether it is the last block of its frame.
    pub last: bool,
    /// Size in bytes: of a compressed block as it is stored, of others decoded.
    pub size: usize,
}

impl BlockHeader {
    /// Parses a header, for a frame whose blocks decode to at most `block_bytes_max` bytes.
    pub fn parse(bytes: [u8; BLOCK_HEADER_BYTES], block_bytes_max: usize) -> Result<Self, Defect> {
        let header = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        let kind = match (header >> 1) & 3 {
            0 => BlockKind::Raw,
            1 => BlockKind::Repeated,
            2 => BlockKind::Compressed,
            _ => return Err(Defect::BlockType),
        };
        let size = (header >> 3) as usize;
        // libzstd compares the stored size, which for repeated bytes is 1, and the decoded size.
        let nothing_fits = kind == BlockKind::Repeated && block_bytes_max == 0;
        if size > block_bytes_max || nothing_fits {
            return Err(Defect::BlockSize);
        }
        Ok(Self { kind, last: header & 1 != 0, size })
    }

    /// Returns the number of bytes between this header and the next.
    pub fn stored_bytes(&self) -> usize {
        if self.kind == BlockKind::Repeated { 1 } else { self.size }
    }

    /// Returns the most bytes that the block can decode to.
    pub fn decoded_bytes_max(&self, block_bytes_max: usize) -> usize {
        if self.kind == BlockKind::Compressed { block_bytes_max } else { self.size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_and_limited() {
        let parse = |bits: u32, max| {
            let [a, b, c, _] = bits.to_le_bytes();
            BlockHeader::parse([a, b, c], max)
        };
        let raw = parse(1 | 512 << 3, 512).unwrap();
        assert_eq!((raw.kind, raw.last, raw.stored_bytes()), (BlockKind::Raw, true, 512));
        let repeated = parse(2 | 512 << 3, 512).unwrap();
        assert_eq!(
            (repeated.kind, repeated.last, repeated.stored_bytes()),
            (BlockKind::Repeated, false, 1)
        );
        assert_eq!(repeated.decoded_bytes_max(1 << 10), 512);
        assert_eq!(parse(4 | 9 << 3, 512).unwrap().decoded_bytes_max(512), 512);
        assert_eq!(parse(513 << 3, 512), Err(Defect::BlockSize));
        assert_eq!(parse(2, 0), Err(Defect::BlockSize));
        assert_eq!(parse(6, 512), Err(Defect::BlockType));
    }
}
