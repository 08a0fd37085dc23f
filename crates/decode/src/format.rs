//! What kind of archive it is, by its first bytes (never by its name).

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One or more zstd frames.
    Zstd,
    /// One or more lz4 frames.
    Lz4,
    /// Not at all: a tar stream.
    Tar,
}

/// The magic number of a zstd frame (RFC 8878).
pub(crate) const ZSTD_MAGIC: u32 = 0xfd2f_b528;
/// The magic number of an lz4 frame.
pub(crate) const LZ4_MAGIC: u32 = 0x184d_2204;
/// Skippable frames, of both formats, have sixteen magic numbers from this one.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;

/// Bytes of the head that [`Format::detect`] wants to see: one tar header.
pub(crate) const HEAD_BYTES: usize = 512;

impl Format {
    /// Tells the format by the first bytes of an archive, 512 if it has as many. An archive that
    /// begins with a skippable frame counts as zstd, as Firedancer may write it.
    pub fn detect(head: &[u8]) -> Option<Self> {
        match magic(head) {
            Some(ZSTD_MAGIC) => Some(Self::Zstd),
            Some(LZ4_MAGIC) => Some(Self::Lz4),
            Some(magic) if is_skippable(magic) => Some(Self::Zstd),
            _ if is_tar_header(head) => Some(Self::Tar),
            _ => None,
        }
    }

    /// The word used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Tar => "tar",
        }
    }
}

pub(crate) fn magic(head: &[u8]) -> Option<u32> {
    head.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

pub(crate) fn is_skippable(magic: u32) -> bool {
    magic & 0xffff_fff0 == SKIPPABLE_MAGIC
}

/// Whether `head`, of less than four bytes, may be the beginning of a frame with this magic number
/// or of a skippable one.
pub(crate) fn begins_magic(head: &[u8], magic: u32) -> bool {
    (SKIPPABLE_MAGIC..SKIPPABLE_MAGIC + 16)
        .chain([magic])
        .any(|magic| magic.to_le_bytes().starts_with(head))
}

/// A tar header is told by its checksum, since the oldest ones have no magic; an archive without
/// members is all zeros.
fn is_tar_header(head: &[u8]) -> bool {
    let Some(header) = head.first_chunk::<HEAD_BYTES>() else { return false };
    if header.iter().all(|&byte| byte == 0) {
        return true;
    }
    let digits: String = header[148..156]
        .iter()
        .skip_while(|&&byte| byte == b' ')
        .take_while(|byte| byte.is_ascii_digit())
        .map(|&byte| char::from(byte))
        .collect();
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    let field: u32 = header[148..156].iter().map(|&byte| u32::from(byte)).sum();
    u32::from_str_radix(&digits, 8) == Ok(sum - field + 8 * u32::from(b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_first_bytes() {
        assert_eq!(Format::detect(&[0x28, 0xb5, 0x2f, 0xfd, 0]), Some(Format::Zstd));
        assert_eq!(Format::detect(&[0x5a, 0x2a, 0x4d, 0x18]), Some(Format::Zstd));
        assert_eq!(Format::detect(&[0x04, 0x22, 0x4d, 0x18]), Some(Format::Lz4));
        assert_eq!(Format::detect(&[0; 512]), Some(Format::Tar));
        assert_eq!(Format::detect(&[0; 511]), None);
        assert_eq!(Format::detect(b"BZh91AY&SY"), None);
        assert_eq!(Format::detect(b""), None);
    }
}
