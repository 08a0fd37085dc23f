//! Headers of literals (RFC 8878, section 3.1.1.3.1.1).

use crate::Defect;

/// Fewest literals that can be divided among four streams.
const FOUR_STREAMS_MIN: usize = 6;

/// How literals are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiteralKind {
    /// As they are.
    Raw,
    /// One byte, repeated.
    Repeated,
    /// Huffman codes, after the description of their table.
    Coded,
    /// Huffman codes of the table in force.
    CodedAgain,
}

/// The header of the literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiteralsHeader {
    pub kind: LiteralKind,
    /// Length of the header in bytes.
    pub header_bytes: usize,
    /// Number of literals.
    pub count: usize,
    /// Bytes between this header and the sequences.
    pub stored_bytes: usize,
    /// Whether the codes are in four streams rather than one.
    pub four_streams: bool,
}

impl LiteralsHeader {
    /// Parses the header at the beginning of a block.
    pub fn parse(block: &[u8], block_bytes_max: usize) -> Result<Self, Defect> {
        const ENDS: Defect = Defect::BlockEnds("literals");
        // A byte for the literals and one for the sequences, at least.
        let [first, _, ..] = *block else { return Err(ENDS) };
        let format = (first >> 2) & 3;
        let kind = match first & 3 {
            0 => LiteralKind::Raw,
            1 => LiteralKind::Repeated,
            2 => LiteralKind::Coded,
            _ => LiteralKind::CodedAgain,
        };
        let header = match kind {
            LiteralKind::Raw | LiteralKind::Repeated => {
                let (header_bytes, shift) = match format {
                    1 => (2, 4),
                    3 => (3, 4),
                    _ => (1, 3),
                };
                let count = field(block, header_bytes, shift, 20).ok_or(ENDS)?;
                let stored_bytes = if kind == LiteralKind::Raw { count } else { 1 };
                Self { kind, header_bytes, count, stored_bytes, four_streams: false }
            }
            LiteralKind::Coded | LiteralKind::CodedAgain => {
                let (header_bytes, width) = match format {
                    2 => (4, 14),
                    3 => (5, 18),
                    _ => (3, 10),
                };
                // libzstd wants five bytes even for shorter headers; no valid block has fewer.
                if block.len() < 5 {
                    return Err(ENDS);
                }
                let count = field(block, header_bytes, 4, width).ok_or(ENDS)?;
                let stored_bytes = field(block, header_bytes, 4 + width, width).ok_or(ENDS)?;
                let four_streams = format != 0;
                Self { kind, header_bytes, count, stored_bytes, four_streams }
            }
        };
        let too_few = header.four_streams && header.count < FOUR_STREAMS_MIN;
        if header.count > block_bytes_max || too_few {
            return Err(Defect::LiteralCount);
        }
        if header.header_bytes + header.stored_bytes > block.len() {
            return Err(ENDS);
        }
        Ok(header)
    }

    /// Returns the length of the literals, header included, in bytes.
    pub fn bytes(&self) -> usize {
        self.header_bytes + self.stored_bytes
    }
}

/// Returns `width` bits from bit `shift` of the first `bytes` bytes.
fn field(block: &[u8], bytes: usize, shift: usize, width: usize) -> Option<usize> {
    let value =
        block.get(..bytes)?.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
    usize::try_from((value >> shift) & ((1 << width) - 1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_forms() {
        let header = |bytes: &[u8]| {
            let mut block = bytes.to_vec();
            block.resize(1 << 18, 0);
            let header = LiteralsHeader::parse(&block, 128 << 10)?;
            Ok((header.header_bytes, header.count, header.stored_bytes, header.four_streams))
        };
        assert_eq!(header(&[0b1111_1000]), Ok((1, 31, 31, false)));
        assert_eq!(header(&[0b1111_0100, 0x12]), Ok((2, 0x12f, 0x12f, false)));
        assert_eq!(header(&[0b1111_1101, 0xff, 0x01]), Ok((3, 0x1fff, 1, false)));
        assert_eq!(header(&[0b1010_0010, 0x40, 0x01]), Ok((3, 10, 5, false)));
        assert_eq!(header(&[0b1010_0110, 0x40, 0x01]), Ok((3, 10, 5, true)));
        assert_eq!(header(&[0b1010_1010, 0, 0x14, 0]), Ok((4, 10, 5, true)));
        assert_eq!(header(&[0b1010_1110, 0, 0x40, 1, 0]), Ok((5, 10, 5, true)));
        assert_eq!(header(&[0b0101_0110, 0x40, 0x01]), Err(Defect::LiteralCount), "5 in 4 streams");
        assert_eq!(header(&[0b1111_1101, 0xff, 0xff]), Err(Defect::LiteralCount));
    }

    #[test]
    fn literals_end_inside_their_block() {
        let ends = Err(Defect::BlockEnds("literals"));
        for block in [&[][..], &[0], &[0b0001_0000, 1], &[0b0000_1101, 0], &[0b0101_0010, 0, 0, 0]]
        {
            assert_eq!(LiteralsHeader::parse(block, 128 << 10), ends, "{block:x?}");
        }
        assert!(LiteralsHeader::parse(&[0b0001_0000, 1, 2], 128 << 10).is_ok());
    }
}
