//! One header block, any byte of which can be made wrong.
//!
//! ```text
//!   0 name      100 | 100 mode 8 | 108 uid 8 | 116 gid 8 | 124 size 12 | 136 mtime 12
//! 148 checksum    8 | 156 type 1 | 157 link name    100 | 257 magic and version      8
//! 265 uname      32 | 297 gname 32 | 329 device numbers 8 + 8 | 345 prefix (ustar) 155
//! ```

/// Length of a tar block: headers have one, contents are padded to a multiple of it.
pub const BLOCK_BYTES: usize = 512;

/// Ranges of the fields of a header, for [`Header::patch`].
pub mod field {
    use std::ops::Range;

    /// Path, NUL-terminated unless it fills the field.
    pub const NAME: Range<usize> = 0..100;
    /// Permissions.
    pub const MODE: Range<usize> = 100..108;
    /// Owner.
    pub const UID: Range<usize> = 108..116;
    /// Group.
    pub const GID: Range<usize> = 116..124;
    /// Size of the contents in bytes.
    pub const SIZE: Range<usize> = 124..136;
    /// Modification time in seconds since 1970.
    pub const MTIME: Range<usize> = 136..148;
    /// Sum of the block's bytes, with this field as spaces.
    pub const CHECKSUM: Range<usize> = 148..156;
    /// Kind of the entry: `0` or NUL is a file, `5` a directory, and so on.
    pub const TYPE: Range<usize> = 156..157;
    /// Target of a link.
    pub const LINK_NAME: Range<usize> = 157..257;
    /// Magic number and version of the format.
    pub const MAGIC: Range<usize> = 257..265;
    /// Leading directories of the path (ustar and PAX).
    pub const PREFIX: Range<usize> = 345..500;
}

/// Dialects of tar, identified by the magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `ustar  \0`: GNU tar, and every snapshot archive.
    Gnu,
    /// `ustar\0` and `00`: POSIX, with or without PAX records.
    Ustar,
    /// No magic number: seventh edition Unix.
    V7,
}

/// One header block, valid unless modified.
#[derive(Clone, Debug)]
pub struct Header {
    block: [u8; BLOCK_BYTES],
    checksum: Checksum,
}

#[derive(Clone, Copy, Debug)]
enum Checksum {
    Right,
    Wrong,
    Raw([u8; 8]),
}

impl Header {
    /// Creates the header of an account file as Agave writes it: name, size, a modification time of
    /// 0 and the checksum; mode, owner, group and type are NUL bytes.
    pub fn account(path: &str, size: u64) -> Self {
        Self::empty(Dialect::Gnu).path(path.as_bytes()).size(size).mtime(0)
    }

    /// Creates a header with the fields that archivers fill: mode 0644 (0755 for directories), a
    /// plausible owner and time. `kind` is the type byte, such as `b'0'` or `b'5'`.
    pub fn new(dialect: Dialect, kind: u8, path: &str, size: u64) -> Self {
        Self::empty(dialect)
            .path(path.as_bytes())
            .mode(if kind == b'5' { 0o755 } else { 0o644 })
            .owner(1000, 1000)
            .size(size)
            .mtime(MTIME)
            .kind(kind)
    }

    /// Creates a block of zeros with the dialect's magic number.
    pub fn empty(dialect: Dialect) -> Self {
        let magic: &[u8; 8] = match dialect {
            Dialect::Gnu => b"ustar  \0",
            Dialect::Ustar => b"ustar\x0000",
            Dialect::V7 => &[0; 8],
        };
        Self { block: [0; BLOCK_BYTES], checksum: Checksum::Right }.patch(field::MAGIC.start, magic)
    }

    /// Sets the path, truncated to the 100 bytes of the field.
    #[must_use]
    pub fn path(self, path: &[u8]) -> Self {
        self.text(field::NAME, path)
    }

    /// Sets the leading directories of the path (ustar: 155 bytes, joined to the name by `/`).
    #[must_use]
    pub fn prefix(self, prefix: &[u8]) -> Self {
        self.text(field::PREFIX, prefix)
    }

    /// Sets the target of a link.
    #[must_use]
    pub fn link_name(self, target: &[u8]) -> Self {
        self.text(field::LINK_NAME, target)
    }

    /// Sets the type byte.
    #[must_use]
    pub fn kind(self, kind: u8) -> Self {
        self.patch(field::TYPE.start, &[kind])
    }

    /// Sets the permissions.
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        self.octal(field::MODE, mode.into())
    }

    /// Sets owner and group.
    #[must_use]
    pub fn owner(self, uid: u32, gid: u32) -> Self {
        self.octal(field::UID, uid.into()).octal(field::GID, gid.into())
    }

    /// Sets the modification time in seconds since 1970.
    #[must_use]
    pub fn mtime(self, seconds: u64) -> Self {
        self.octal(field::MTIME, seconds)
    }

    /// Sets the size: octal digits, or GNU's binary form from 8 GiB on.
    #[must_use]
    pub fn size(self, bytes: u64) -> Self {
        if bytes < 1 << 33 { self.octal(field::SIZE, bytes) } else { self.size_binary(bytes) }
    }

    /// Sets the size in GNU's binary form: the first bit set, big-endian.
    #[must_use]
    pub fn size_binary(self, bytes: u64) -> Self {
        let mut binary = [0; 12];
        binary[0] = 0x80;
        binary[4..].copy_from_slice(&bytes.to_be_bytes());
        self.patch(field::SIZE.start, &binary)
    }

    /// Overwrites bytes anywhere in the block.
    #[must_use]
    pub fn patch(mut self, offset: usize, bytes: &[u8]) -> Self {
        self.block[offset..offset + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Makes the checksum differ by one from the correct one.
    #[must_use]
    pub fn corrupt_checksum(mut self) -> Self {
        self.checksum = Checksum::Wrong;
        self
    }

    /// Writes these bytes in place of the checksum.
    #[must_use]
    pub fn raw_checksum(mut self, bytes: [u8; 8]) -> Self {
        self.checksum = Checksum::Raw(bytes);
        self
    }

    /// Returns the block, with the checksum of the current fields.
    pub fn finish(mut self) -> [u8; BLOCK_BYTES] {
        self.block[field::CHECKSUM].fill(b' ');
        let sum: u32 = self.block.iter().map(|&byte| u32::from(byte)).sum();
        let checksum = match self.checksum {
            Checksum::Right => checksum_text(sum),
            Checksum::Wrong => checksum_text(sum + 1),
            Checksum::Raw(bytes) => bytes,
        };
        self.block[field::CHECKSUM].copy_from_slice(&checksum);
        self.block
    }

    fn text(mut self, field: std::ops::Range<usize>, text: &[u8]) -> Self {
        let field = &mut self.block[field];
        let length = text.len().min(field.len());
        field.fill(0);
        field[..length].copy_from_slice(&text[..length]);
        self
    }

    /// Writes octal digits with leading zeros and a final NUL, as both GNU tar and tar-rs do.
    fn octal(mut self, field: std::ops::Range<usize>, mut number: u64) -> Self {
        let (nul, digits) = self.block[field].split_last_mut().expect("no field is empty");
        *nul = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number & 0o7) as u8;
            number >>= 3;
        }
        debug_assert_eq!(number, 0, "the number does not fit its field");
        self
    }
}

/// Returns six octal digits, NUL, space: the standard form.
fn checksum_text(sum: u32) -> [u8; 8] {
    let mut text = *b"000000\0 ";
    for (place, digit) in text[..6].iter_mut().rev().enumerate() {
        *digit = b'0' + (sum >> (3 * place) & 0o7) as u8;
    }
    text
}

/// Modification time of ordinary entries: 1 November 2025, so that archives are reproducible.
const MTIME: u64 = 1_761_955_200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_headers_are_bare() {
        let block = Header::account("accounts/5.6", 0o1750).finish();
        assert_eq!(block[..13], *b"accounts/5.6\0");
        assert_eq!(block[field::SIZE], *b"00000001750\0");
        assert_eq!(block[field::MTIME], *b"00000000000\0");
        for range in [field::MODE, field::UID, field::GID, field::TYPE] {
            assert!(block[range].iter().all(|&byte| byte == 0));
        }
        assert_eq!(block[field::MAGIC], *b"ustar  \0");
    }
}
