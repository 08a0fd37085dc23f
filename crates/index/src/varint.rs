//! Numbers in a side-car: LEB128, seven bits per byte, lowest first.

use crate::IndexError;

/// Bytes of the longest number: 64 bits by seven.
const BYTES_MAX: usize = 10;

pub(crate) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push((value & 0x7f) as u8);
}

/// Reads numbers and bytes from a section, and never beyond its end.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn take(&mut self, count: u64) -> Result<&'a [u8], IndexError> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.bytes.len());
        let count = count.ok_or(IndexError::Inconsistent("it ends too early"))?;
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8, IndexError> {
        self.take(1)?.first().copied().ok_or(IndexError::Inconsistent("it ends too early"))
    }

    /// Reads a number in its shortest encoding, the only one accepted.
    pub fn number(&mut self) -> Result<u64, IndexError> {
        let bad = IndexError::Inconsistent("a number is malformed");
        let mut value = 0_u64;
        for index in 0..BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * u32::try_from(index).unwrap_or(u32::MAX);
            if bits.checked_shl(shift).is_none_or(|shifted| shifted >> shift != bits) {
                return Err(bad);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return if byte == 0 && index > 0 { Err(bad) } else { Ok(value) };
            }
        }
        Err(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), u64::MAX];
        let mut bytes = Vec::new();
        for number in numbers {
            put(&mut bytes, number);
        }
        let mut reader = Reader::new(&bytes);
        for number in numbers {
            assert_eq!(reader.number().unwrap(), number);
        }
        assert!(reader.is_empty() && reader.number().is_err());
    }

    #[test]
    fn there_is_one_way_to_write_a_number() {
        let beyond = [&[0xff; 9][..], &[2]].concat();
        for bad in [&[0x80][..], &[0x80, 0], &[0xff; 11], &beyond] {
            assert!(Reader::new(bad).number().is_err(), "{bad:x?}");
        }
    }
}
