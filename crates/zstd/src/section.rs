//! Headers of sequences (RFC 8878, section 3.1.1.3.2.1).

use crate::{Defect, sequences::Codes};

/// The header of a block's sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequencesHeader {
    /// Number of sequences. Without any, the header is all there is.
    pub count: usize,
    /// Modes of the three tables.
    pub modes: u8,
    /// Length of the header in bytes.
    pub header_bytes: usize,
}

impl SequencesHeader {
    /// The mode that keeps the table of the block before.
    pub const KEEP: u8 = 3;

    /// Parses the header at the beginning of `bytes`, which follow the literals.
    pub fn parse(bytes: &[u8]) -> Result<Self, Defect> {
        const ENDS: Defect = Defect::BlockEnds("sequences");
        let (count, at) = match *bytes {
            [255, low, high, ..] => (usize::from(u16::from_le_bytes([low, high])) + 0x7f00, 3),
            [first, ..] if first < 128 => (usize::from(first), 1),
            [first, second, ..] if first < 255 => {
                (usize::from(first - 128) << 8 | usize::from(second), 2)
            }
            _ => return Err(ENDS),
        };
        if count == 0 {
            let none = Self { count, modes: 0, header_bytes: at };
            return if bytes.len() == at { Ok(none) } else { Err(Defect::TrailingBytes) };
        }
        let modes = *bytes.get(at).ok_or(ENDS)?;
        if modes & 3 != 0 {
            return Err(Defect::TableModes);
        }
        Ok(Self { count, modes, header_bytes: at + 1 })
    }

    /// Returns the mode of one table.
    pub fn mode(&self, codes: Codes) -> u8 {
        let shift = match codes {
            Codes::LiteralLengths => 6,
            Codes::Offsets => 4,
            Codes::MatchLengths => 2,
        };
        (self.modes >> shift) & 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_two_and_three_bytes() {
        let parse = |bytes: &[u8]| {
            SequencesHeader::parse(bytes).map(|header| (header.count, header.header_bytes))
        };
        assert_eq!(parse(&[127, 0]), Ok((127, 2)));
        assert_eq!(parse(&[0x81, 0x02, 0]), Ok((0x102, 3)));
        assert_eq!(parse(&[0xff, 0x01, 0x02, 0]), Ok((0x201 + 0x7f00, 4)));
        assert_eq!((parse(&[0]), parse(&[0x80, 0])), (Ok((0, 1)), Ok((0, 2))));
        assert_eq!(parse(&[0, 0]), Err(Defect::TrailingBytes));
        assert_eq!(parse(&[1, 1]), Err(Defect::TableModes));
        for cut in [&[][..], &[1], &[0x80], &[0xff, 0], &[0xff, 0, 0]] {
            assert_eq!(parse(cut), Err(Defect::BlockEnds("sequences")), "{cut:x?}");
        }
    }

    #[test]
    fn each_table_has_its_mode() {
        let header = SequencesHeader::parse(&[1, 0b1101_1000]).unwrap();
        let modes = [Codes::LiteralLengths, Codes::Offsets, Codes::MatchLengths];
        assert_eq!(modes.map(|codes| header.mode(codes)), [3, 1, 2]);
    }
}
