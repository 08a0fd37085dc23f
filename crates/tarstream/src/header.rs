//! One header block and its numeric fields.
//!
//! ```text
//! offset  bytes  field        used here
//!      0    100  name         up to the first NUL
//!    100      8  mode         if it is a number
//!    108     16  uid, gid     no
//!    124     12  size         octal, or binary (first bit set)
//!    136     12  mtime        if it is a number
//!    148      8  checksum     always verified
//!    156      1  typeflag
//!    157    100  link name    up to the first NUL
//!    257      8  magic        tells GNU, POSIX and v7 apart
//!    265     80  owner names, device numbers: no
//!    345    155  prefix       POSIX only
//!    482      1  "more map"   GNU sparse only
//! ```
//!
//! Genuine account entries leave mode, uid, gid and the typeflag all NUL, so nothing may depend on
//! them being set.

use crate::error::{NumberProblem, TarError};
use crate::member::MemberKind;
use crate::printable;
use std::ops::Range;

/// Size of a block, the unit of a tar stream.
pub(crate) const BLOCK_BYTES: usize = 512;

/// One block of a tar stream.
pub(crate) type Block = [u8; BLOCK_BYTES];

/// A header block with a verified checksum and a known magic.
#[derive(Clone, Copy)]
pub(crate) struct Header<'b> {
    block: &'b Block,
    pub(crate) offset: u64,
    pub(crate) format: Format,
}

/// The tar dialect identified by a header's magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Gnu,
    Posix,
    V7,
}

impl<'b> Header<'b> {
    /// Parses the block at `offset` of the stream as a header.
    pub(crate) fn parse(block: &'b Block, offset: u64) -> Result<Self, TarError> {
        verify_checksum(block, offset)?;
        let format = match &block[MAGIC] {
            b"ustar  \0" => Format::Gnu,
            b"ustar\x0000" => Format::Posix,
            b"\0\0\0\0\0\0\0\0" => Format::V7,
            other => return Err(TarError::Magic { offset, found: printable(other) }),
        };
        Ok(Self { block, offset, format })
    }

    pub(crate) fn typeflag(self) -> u8 {
        self.block[TYPEFLAG]
    }

    /// Returns the name field alone, without the prefix.
    pub(crate) fn name(self) -> &'b [u8] {
        until_nul(&self.block[NAME])
    }

    /// Returns the directory part of a POSIX name that did not fit the name field. Other formats
    /// use these bytes for other fields.
    pub(crate) fn prefix(self) -> &'b [u8] {
        match self.format {
            Format::Posix => until_nul(&self.block[PREFIX]),
            Format::Gnu | Format::V7 => &[],
        }
    }

    pub(crate) fn link(self) -> &'b [u8] {
        until_nul(&self.block[LINK])
    }

    /// Returns the size field, at most `i64::MAX`. A field of NULs was never filled in and means
    /// zero.
    pub(crate) fn size(self) -> Result<u64, TarError> {
        let field = &self.block[SIZE];
        number(field).map(Option::unwrap_or_default).map_err(|problem| TarError::Number {
            offset: self.offset,
            entry: Some(printable(self.name())),
            field: "size",
            found: printable(field),
            problem,
        })
    }

    pub(crate) fn mode(self) -> Option<u32> {
        number(&self.block[MODE]).ok().flatten().and_then(|mode| u32::try_from(mode).ok())
    }

    pub(crate) fn mtime(self) -> Option<u64> {
        number(&self.block[MTIME]).ok().flatten()
    }

    /// Returns the kind of member that this header describes, unless it is an extension. `path` is
    /// the whole path, which may come from an extension.
    pub(crate) fn kind(self, path: &[u8]) -> Result<MemberKind, TarError> {
        Ok(match self.typeflag() {
            // v7 had no type for directories and marked them by a trailing slash.
            0 if path.ends_with(b"/") => MemberKind::Directory,
            0 | b'0' | b'7' => MemberKind::Regular,
            b'1' => MemberKind::HardLink,
            b'2' => MemberKind::SymbolicLink,
            b'3' => MemberKind::CharDevice,
            b'4' => MemberKind::BlockDevice,
            b'5' => MemberKind::Directory,
            b'6' => MemberKind::Fifo,
            // The sparse map occupies the bytes where other formats keep the prefix.
            b'S' if self.format == Format::Gnu => MemberKind::Sparse,
            b'S' => return Err(self.foreign_type()),
            other => MemberKind::Other(other),
        })
    }

    /// Returns the error for a type that this header's format does not have.
    pub(crate) fn foreign_type(self) -> TarError {
        TarError::ForeignType {
            offset: self.offset,
            flag: char::from(self.typeflag()),
            format: self.format.name(),
        }
    }

    /// Returns whether blocks of a GNU sparse map follow this header.
    pub(crate) fn sparse_map_continues(self) -> bool {
        self.block[SPARSE_HEADER_CONTINUES] != 0
    }
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Gnu => "GNU",
            Self::Posix => "POSIX",
            Self::V7 => "v7",
        }
    }
}

pub(crate) fn is_zero(block: &Block) -> bool {
    block.iter().all(|&byte| byte == 0)
}

/// Returns whether another block follows this block of a GNU sparse map.
pub(crate) fn sparse_block_continues(block: &Block) -> bool {
    block[SPARSE_BLOCK_CONTINUES] != 0
}

/// Verifies the checksum, which is the sum of all bytes with the checksum field itself counted as
/// spaces. Some historical tars summed signed bytes, so both sums are accepted, as GNU tar does.
fn verify_checksum(block: &Block, offset: u64) -> Result<(), TarError> {
    let field = &block[CHECKSUM];
    let malformed = |problem| TarError::Number {
        offset,
        entry: None,
        field: "checksum",
        found: printable(field),
        problem,
    };
    let stored =
        octal(field).map_err(malformed)?.ok_or_else(|| malformed(NumberProblem::Malformed))?;

    let spaces = u64::from(b' ') * field.len() as u64;
    let computed = u64::from(sum(block) - sum(field)) + spaces;
    if stored == computed {
        return Ok(());
    }
    // A byte with its top bit set counts 256 less when it is signed.
    let high = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte >= 0x80).count() as u64;
    let signed = computed.checked_sub(256 * (high(block) - high(field)));
    if signed == Some(stored) {
        return Ok(());
    }
    Err(TarError::Checksum { offset, stored, computed })
}

/// Sums in 32 bits, which is enough for a block and lets the compiler use wide lanes.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().map(|&byte| u32::from(byte)).sum()
}

/// Parses a numeric field: octal digits, or a big-endian two's complement number marked by a set
/// first bit. Returns `None` for a field that was left empty.
fn number(field: &[u8]) -> Result<Option<u64>, NumberProblem> {
    match field {
        [first, rest @ ..] if first & 0x80 != 0 => {
            if first & 0x40 != 0 {
                return Err(NumberProblem::Negative);
            }
            let mut value = i64::from(first & 0x3f);
            for &byte in rest {
                value = value.checked_mul(256).ok_or(NumberProblem::TooLarge)?;
                value |= i64::from(byte);
            }
            Ok(Some(value.unsigned_abs()))
        }
        _ => octal(field),
    }
}

/// Parses octal digits, with optional spaces before them and spaces or NULs after them. Returns
/// `None` for a field of NULs only. A field has at most twelve digits, so the value cannot
/// overflow.
///
/// Digits after a NUL are refused: some readers continue to them, others end the field at the NUL.
fn octal(field: &[u8]) -> Result<Option<u64>, NumberProblem> {
    if field.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let blanks = field.iter().take_while(|&&byte| byte == b' ').count();
    let mut value = 0;
    let mut rest = &field[blanks..];
    if !matches!(rest, [b'0'..=b'7', ..]) {
        return Err(NumberProblem::Malformed);
    }
    while let [digit @ b'0'..=b'7', tail @ ..] = rest {
        value = value * 8 + u64::from(digit - b'0');
        rest = tail;
    }
    let ended = rest.iter().all(|byte| matches!(byte, b' ' | 0));
    if ended { Ok(Some(value)) } else { Err(NumberProblem::Malformed) }
}

fn until_nul(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    &field[..end]
}

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const SIZE: Range<usize> = 124..136;
const MTIME: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const TYPEFLAG: usize = 156;
const LINK: Range<usize> = 157..257;
const MAGIC: Range<usize> = 257..265;
const PREFIX: Range<usize> = 345..500;
const SPARSE_HEADER_CONTINUES: usize = 482;
const SPARSE_BLOCK_CONTINUES: usize = 504;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_numbers() {
        for (field, value) in [
            (&b"00000000005\0"[..], 5),
            (b"00000000005 ", 5),
            (b"          5 ", 5),
            (b" 5 \0\0\0\0\0\0\0 \0", 5),
            (b"5           ", 5),
            (b"777777777777", (1 << 36) - 1),
            (b"000000000000", 0),
        ] {
            assert_eq!(number(field), Ok(Some(value)), "{}", printable(field));
        }
        assert_eq!(number(&[0; 12]), Ok(None));
    }

    #[test]
    fn binary_numbers() {
        let field = |first: u8, low: u64| {
            let mut field = [0; 12];
            field[0] = first;
            field[4..].copy_from_slice(&low.to_be_bytes());
            field
        };
        assert_eq!(number(&field(0x80, 0)), Ok(Some(0)));
        assert_eq!(number(&field(0x80, 1 << 34)), Ok(Some(1 << 34)));
        assert_eq!(number(&field(0x80, i64::MAX as u64)), Ok(Some(i64::MAX as u64)));
        assert_eq!(number(&field(0x80, 1 << 63)), Err(NumberProblem::TooLarge));
        assert_eq!(number(&field(0x81, 0)), Err(NumberProblem::TooLarge));
        assert_eq!(number(&field(0x8e, 1)), Err(NumberProblem::TooLarge));
        assert_eq!(number(&field(0xbf, 1)), Err(NumberProblem::TooLarge));
        assert_eq!(number(&field(0xc0, 1)), Err(NumberProblem::Negative));
        assert_eq!(number(&[0xff; 12]), Err(NumberProblem::Negative));
        let mut third_byte = field(0x80, 0);
        third_byte[3] = 1;
        assert_eq!(number(&third_byte), Err(NumberProblem::TooLarge));
    }

    #[test]
    fn garbage_is_not_a_number() {
        for field in [
            &b"            "[..],
            b"00000000008\0",
            b"0000000000a\0",
            b"-0000000005\0",
            b"+0000000005\0",
            b"0x000000005\0",
            b"0000 000005\0",
            b"5\0garbage\0\0\0",
            b"\0 \0         ",
            b"\0\0 5 \0\0\0\0\0\0\0",
            b"\x0000000000005",
        ] {
            assert_eq!(number(field), Err(NumberProblem::Malformed), "{}", printable(field));
        }
    }

    #[test]
    fn a_field_ends_at_its_first_nul() {
        assert_eq!(until_nul(b"abc\0def"), b"abc");
        assert_eq!(until_nul(b"abc"), b"abc");
        assert_eq!(until_nul(b"\0abc"), b"");
    }
}
