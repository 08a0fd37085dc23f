//! Headers of lz4 frames and of their blocks.
//!
//! ```text
//! │ magic 4 │ flags, sizes, header checksum 3 to 15 │ length 4 │ block │ … │ 0 0 0 0 │ checksum │
//! ```

use twox_hash::XxHash32;

/// Length of the longest frame header.
pub(crate) const FRAME_HEADER_BYTES_MAX: usize = 19;

/// Length of a block header.
pub(crate) const BLOCK_HEADER_BYTES: usize = 4;

/// Length of the checksums of blocks and frames.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// Most decoded bytes per byte of a compressed block: a byte of a length counts for 255.
const EXPANSION_MAX: usize = 255;

/// Bits of the first byte after the magic number.
const VERSION: u8 = 0b1100_0000;
const VERSION_1: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 0b0010_0000;
const BLOCK_CHECKSUMS: u8 = 0b0001_0000;
const CONTENT_SIZE: u8 = 0b0000_1000;
const CONTENT_CHECKSUM: u8 = 0b0000_0100;
const RESERVED: u8 = 0b0000_0010;
const DICTIONARY: u8 = 0b0000_0001;

/// Bits of the second byte that are not used.
const SIZES_RESERVED: u8 = 0b1000_1111;

/// Marks the length of a block that is stored as it is.
const STORED: u32 = 1 << 31;

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// Length of the header.
    pub bytes: usize,
    /// Most decoded bytes of a block.
    pub block_bytes_max: usize,
    /// Whether blocks do not refer to earlier ones.
    pub independent: bool,
    pub block_checksums: bool,
    pub content_checksum: bool,
    /// Declared size of the decoded frame.
    pub content_bytes: Option<u64>,
}

impl FrameHeader {
    /// Parses the header that `head` begins with. Returns `None` if `head` is too short.
    pub fn parse(head: &[u8]) -> Result<Option<Self>, &'static str> {
        let Some(&[flags, sizes]) = head.get(4..).and_then(|rest| rest.first_chunk()) else {
            return Ok(None);
        };
        let has = |bit: u8| flags & bit != 0;
        if flags & VERSION != VERSION_1 {
            return Err("the lz4 frame has an unknown version");
        }
        if has(RESERVED) || sizes & SIZES_RESERVED != 0 {
            return Err("the lz4 frame header has reserved bits");
        }
        let optional = if has(CONTENT_SIZE) { 8 } else { 0 } + if has(DICTIONARY) { 4 } else { 0 };
        let fields = 4..6 + optional;
        let Some(&expected) = head.get(fields.end) else { return Ok(None) };
        if checksum(&head[fields.clone()]).to_le_bytes()[1] != expected {
            return Err("the lz4 frame header does not match its checksum");
        }
        if has(DICTIONARY) {
            return Err("the lz4 frame needs a dictionary");
        }
        let block_bytes_max = match sizes >> 4 {
            4 => 64 << 10,
            5 => 256 << 10,
            6 => 1 << 20,
            7 => 4 << 20,
            _ => return Err("the lz4 frame has an unknown block size"),
        };
        let content_bytes = head[6..].first_chunk().filter(|_| has(CONTENT_SIZE));
        Ok(Some(Self {
            bytes: fields.end + 1,
            block_bytes_max,
            independent: has(INDEPENDENT),
            block_checksums: has(BLOCK_CHECKSUMS),
            content_checksum: has(CONTENT_CHECKSUM),
            content_bytes: content_bytes.map(|bytes| u64::from_le_bytes(*bytes)),
        }))
    }
}

/// Header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Length of the block in the archive, without its checksum.
    pub bytes: usize,
    compressed: bool,
}

impl BlockHeader {
    /// Parses the length in front of a block. Returns `None` for the end mark.
    pub fn parse(
        length: [u8; BLOCK_HEADER_BYTES],
        frame: &FrameHeader,
    ) -> Result<Option<Self>, &'static str> {
        let length = u32::from_le_bytes(length);
        if length == 0 {
            return Ok(None);
        }
        let bytes = usize::try_from(length & !STORED).unwrap_or(usize::MAX);
        if bytes > frame.block_bytes_max {
            return Err("the lz4 block is larger than its frame allows");
        }
        Ok(Some(Self { bytes, compressed: length & STORED == 0 }))
    }

    /// Returns the length of the block in the archive, with its checksum.
    pub fn stored_bytes(&self, frame: &FrameHeader) -> usize {
        self.bytes + if frame.block_checksums { CHECKSUM_BYTES } else { 0 }
    }

    /// Returns the most bytes that the block can decode to.
    pub fn decoded_bytes_max(&self, frame: &FrameHeader) -> usize {
        let expanded = if self.compressed { self.bytes * EXPANSION_MAX } else { self.bytes };
        expanded.min(frame.block_bytes_max)
    }

    /// Decodes a block from all its bytes in the archive to the beginning of `target`, which has
    /// room for [`decoded_bytes_max`](Self::decoded_bytes_max). It may refer to `dictionary`, the
    /// bytes before it. Returns the number of decoded bytes.
    pub fn decode(
        &self,
        stored: &[u8],
        target: &mut [u8],
        dictionary: &[u8],
    ) -> Result<usize, String> {
        let (stored, expected) = stored.split_at(self.bytes);
        if let Some(expected) = expected.first_chunk()
            && checksum(stored).to_le_bytes() != *expected
        {
            return Err("the lz4 block does not match its checksum".to_owned());
        }
        if !self.compressed {
            target[..stored.len()].copy_from_slice(stored);
            return Ok(stored.len());
        }
        let decoded = if dictionary.is_empty() {
            lz4_flex::block::decompress_into(stored, target)
        } else {
            lz4_flex::block::decompress_into_with_dict(stored, target, dictionary)
        };
        decoded.map_err(|error| error.to_string())
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    XxHash32::oneshot(0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a frame header with these two bytes, these optional fields and a right checksum.
    fn header(flags: u8, sizes: u8, optional: &[u8]) -> Vec<u8> {
        let fields = [&[flags, sizes], optional].concat();
        let checksum = checksum(&fields).to_le_bytes()[1];
        [&[0x04, 0x22, 0x4d, 0x18][..], &fields, &[checksum]].concat()
    }

    fn parse(flags: u8, sizes: u8, optional: &[u8]) -> Result<Option<FrameHeader>, &'static str> {
        FrameHeader::parse(&header(flags, sizes, optional))
    }

    #[test]
    fn frame_headers_of_every_kind() {
        let plain = parse(0x40, 0x40, &[]).unwrap().unwrap();
        let expected = FrameHeader {
            bytes: 7,
            block_bytes_max: 64 << 10,
            independent: false,
            block_checksums: false,
            content_checksum: false,
            content_bytes: None,
        };
        assert_eq!(plain, expected);
        let all = parse(0x7c, 0x70, &7_u64.to_le_bytes()).unwrap().unwrap();
        let expected = FrameHeader {
            bytes: 15,
            block_bytes_max: 4 << 20,
            independent: true,
            block_checksums: true,
            content_checksum: true,
            content_bytes: Some(7),
        };
        assert_eq!(all, expected);
        let long = header(0x7c, 0x70, &7_u64.to_le_bytes());
        for cut in 0..long.len() {
            assert_eq!(FrameHeader::parse(&long[..cut]), Ok(None), "{cut}");
        }
        assert!(parse(0x49, 0x40, &[0; 12]).unwrap_err().contains("dictionary"));
        assert_eq!(header(0x49, 0x40, &[0; 12]).len(), FRAME_HEADER_BYTES_MAX);
        assert!(parse(0x00, 0x40, &[]).unwrap_err().contains("version"));
        for (flags, sizes) in [(0x42, 0x40), (0x40, 0xc0), (0x40, 0x41)] {
            assert!(parse(flags, sizes, &[]).unwrap_err().contains("reserved"));
        }
        for sizes in [0x00, 0x30] {
            assert!(parse(0x40, sizes, &[]).unwrap_err().contains("block size"));
        }
        let mut wrong = header(0x40, 0x40, &[]);
        wrong[6] ^= 1;
        assert!(FrameHeader::parse(&wrong).unwrap_err().contains("checksum"));
    }

    #[test]
    fn a_block_is_bounded_by_its_length_and_by_its_frame() {
        let frame = parse(0x50, 0x40, &[]).unwrap().unwrap();
        let block = |length: u32| BlockHeader::parse(length.to_le_bytes(), &frame);
        assert_eq!(block(0), Ok(None));
        let bound = |length| block(length).unwrap().unwrap().decoded_bytes_max(&frame);
        assert_eq!((bound(1), bound(2), bound(60_000)), (255, 510, 64 << 10));
        assert_eq!(
            (bound(STORED), bound(STORED | 0x46), bound(STORED | 0x1_0000)),
            (0, 70, 65_536)
        );
        assert_eq!(block(70).unwrap().unwrap().stored_bytes(&frame), 74);
        for length in [65_537, STORED | 0x1_0001, u32::MAX, 1 << 30] {
            assert!(block(length).unwrap_err().contains("larger"));
        }
        // The longest match that 8 bytes can encode, after one literal.
        let densest = [0x1f, b'a', 1, 0, 255, 255, 254, 0];
        let mut target = vec![0; 65_536];
        let header = block(8).unwrap().unwrap();
        let checked = [&densest[..], &checksum(&densest).to_le_bytes()].concat();
        let decoded = header.decode(&checked, &mut target, &[]).unwrap();
        assert!(decoded > 700 && decoded <= header.decoded_bytes_max(&frame), "{decoded}");
        let wrong = [&densest[..], &[0; 4]].concat();
        assert!(header.decode(&wrong, &mut target, &[]).unwrap_err().contains("checksum"));
    }
}
