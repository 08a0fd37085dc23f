//! Digests of archives and of single files.

use std::{fmt, str::FromStr};

/// Digest algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DigestKind {
    /// XXH3, 128 bits, as printed by `xxhsum -H2`. Detects damage, but anybody can construct
    /// another archive with the same digest.
    Xxh3,
    /// BLAKE3, 256 bits, as printed by `b3sum`. Nobody can construct another archive with the same
    /// digest.
    Blake3,
}

impl DigestKind {
    /// Returns the prefix of a printed digest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::Blake3 => "blake3",
        }
    }

    /// Returns a new hasher.
    pub fn hasher(self) -> Hasher {
        match self {
            Self::Xxh3 => Hasher::Xxh3(Box::new(twox_hash::XxHash3_128::new())),
            Self::Blake3 => Hasher::Blake3(Box::new(blake3::Hasher::new())),
        }
    }
}

/// A digest. Printed and parsed as `xxh3:` or `blake3:` followed by hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digest {
    /// Digest by [`DigestKind::Xxh3`].
    Xxh3(u128),
    /// Digest by [`DigestKind::Blake3`].
    Blake3([u8; 32]),
}

impl Digest {
    /// Returns the algorithm of the digest.
    pub fn kind(&self) -> DigestKind {
        match self {
            Self::Xxh3(_) => DigestKind::Xxh3,
            Self::Blake3(_) => DigestKind::Blake3,
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:", self.kind().name())?;
        match self {
            Self::Xxh3(value) => write!(formatter, "{value:032x}"),
            Self::Blake3(bytes) => {
                bytes.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
            }
        }
    }
}

/// The text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected xxh3:<32 hex digits> or blake3:<64 hex digits>")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let (kind, digits) = text.split_once(':').ok_or(NotADigest)?;
        let hexadecimal =
            |len| digits.len() == len && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        match kind {
            "xxh3" if hexadecimal(32) => {
                u128::from_str_radix(digits, 16).map(Self::Xxh3).map_err(|_| NotADigest)
            }
            "blake3" if hexadecimal(64) => {
                let mut bytes = [0; 32];
                for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
                    let pair = std::str::from_utf8(pair).map_err(|_| NotADigest)?;
                    *byte = u8::from_str_radix(pair, 16).map_err(|_| NotADigest)?;
                }
                Ok(Self::Blake3(bytes))
            }
            _ => Err(NotADigest),
        }
    }
}

/// Incremental digest of a sequence of bytes.
#[derive(Clone)]
pub enum Hasher {
    /// Hasher for [`DigestKind::Xxh3`].
    Xxh3(Box<twox_hash::XxHash3_128>),
    /// Hasher for [`DigestKind::Blake3`].
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Xxh3(hasher) => hasher.write(bytes),
            Self::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    /// Returns the digest of all bytes added so far. More may follow.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Xxh3(hasher) => Digest::Xxh3(hasher.finish_128()),
            Self::Blake3(hasher) => Digest::Blake3(*hasher.finalize().as_bytes()),
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Hasher({})", self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_match_the_standard_tools() {
        // printf abc | xxhsum -H2; printf abc | b3sum
        let known = [
            (DigestKind::Xxh3, "xxh3:06b05ab6733a618578af5f94892f3950"),
            (
                DigestKind::Blake3,
                "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            ),
        ];
        for (kind, digest) in known {
            let mut hasher = kind.hasher();
            hasher.update(b"a");
            hasher.update(b"bc");
            assert_eq!(hasher.digest().to_string(), digest);
            assert_eq!(digest.parse(), Ok(hasher.digest()));
        }
    }

    #[test]
    fn malformed_digests_are_refused() {
        for text in ["", "xxh3:", "xxh3:00", "md5:d41d8cd98f00b204e9800998ecf8427e", "00"] {
            assert_eq!(text.parse::<Digest>(), Err(NotADigest), "{text}");
        }
        let sign = format!("xxh3:+{}", "0".repeat(31));
        assert_eq!(sign.parse::<Digest>(), Err(NotADigest));
        let wide = format!("blake3:{}", "é".repeat(32));
        assert_eq!(wide.parse::<Digest>(), Err(NotADigest));
    }
}
