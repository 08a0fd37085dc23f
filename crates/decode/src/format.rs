//! Archive formats, detected from the first bytes and never from the name.

/// Compression format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One or more zstd frames.
    Zstd,
    /// One or more lz4 frames.
    Lz4,
    /// Not compressed: a tar stream.
    Tar,
}

/// Magic number of a zstd frame (RFC 8878).
pub(crate) const ZSTD_MAGIC: u32 = 0xfd2f_b528;
/// Magic number of an lz4 frame.
pub(crate) const LZ4_MAGIC: u32 = 0x184d_2204;
/// First of the sixteen magic numbers of skippable frames, which both formats share.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;

/// Bytes that [`Format::detect`] needs: one tar header.
pub(crate) const HEAD_BYTES: usize = 512;

impl Format {
    /// Detects the format from the first bytes of an archive, 512 if it has as many. An archive
    /// that begins with a skippable frame counts as zstd, because Firedancer may write such
    /// archives.
    pub fn detect(head: &[u8]) -> Option<Self> {
        match magic(head) {
            Some(ZSTD_MAGIC) => Some(Self::Zstd),
            Some(LZ4_MAGIC) => Some(Self::Lz4),
            Some(magic) if is_skippable(magic) => Some(Self::Zstd),
            _ if is_tar_header(head) => Some(Self::Tar),
            _ => None,
        }
    }

    /// Returns the word used in reports.
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

/// Returns whether `head`, which has fewer than four bytes, may be the beginning of a frame with
/// this magic number or of a skippable frame.
pub(crate) fn begins_magic(head: &[u8], magic: u32) -> bool {
    (SKIPPABLE_MAGIC..SKIPPABLE_MAGIC + 16)
        .chain([magic])
        .any(|magic| magic.to_le_bytes().starts_with(head))
}

/// Returns whether `head` is a tar header, recognised by its checksum since the oldest headers have
/// no magic. The header of an archive without members is all zeros.
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
    fn formats_are_detected_from_the_first_bytes() {
        assert_eq!(Format::detect(&[0x28, 0xb5, 0x2f, 0xfd, 0]), Some(Format::Zstd));
        assert_eq!(Format::detect(&[0x5a, 0x2a, 0x4d, 0x18]), Some(Format::Zstd));
        assert_eq!(Format::detect(&[0x04, 0x22, 0x4d, 0x18]), Some(Format::Lz4));
        assert_eq!(Format::detect(&[0; 512]), Some(Format::Tar));
        assert_eq!(Format::detect(&[0; 511]), None);
        assert_eq!(Format::detect(b"BZh91AY&SY"), None);
        assert_eq!(Format::detect(b""), None);
    }
}
