//! Origin of a state: the full archive that most of its storages are from.
//!
//! Storages of one full snapshot are the same in all states that build on it. A later state with a
//! newer incremental archive links them instead of unpacking the full archive again; see
//! [`Base`](crate::Base). Storages of the full archive have slots up to its own; those of an
//! incremental archive have higher slots.

use unsnap_layout::ArchiveName;

/// Name of the file that tells the origin, in the directory of a shadow, beside its list.
pub const ORIGIN_FILE: &str = "unsnap-shadow.origin";

/// Longest file that is read. One has about 140 bytes.
pub const ORIGIN_BYTES_MAX: u64 = 4096;

/// First line of the file.
const MAGIC: &str = "unsnap origin 1";

/// Origin of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of the full archive.
    pub full: ArchiveName,
    /// Whether its storages were checked when they were unpacked.
    pub checked: bool,
}

impl Origin {
    /// Encodes the origin as lines of text.
    pub fn encode(&self) -> String {
        let checks = if self.checked { "structure" } else { "none" };
        format!("{MAGIC}\nfull {}\nchecks {checks}\n", self.full)
    }

    /// Decodes an origin; `None` if the bytes are not one of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = std::str::from_utf8(bytes).ok()?.strip_prefix(MAGIC)?.strip_prefix("\nfull ")?;
        let (full, checks) = rest.split_once("\nchecks ")?;
        let full = ArchiveName::parse(full).ok().filter(|name| name.base_slot().is_none())?;
        let checked = match checks {
            "structure\n" => true,
            "none\n" => false,
            _ => return None,
        };
        Some(Self { full, checked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU";

    #[test]
    fn origins_are_read_back_and_a_torn_one_is_none() {
        let full = ArchiveName::parse(&format!("snapshot-39-{HASH}.tar.zst")).unwrap();
        for checked in [false, true] {
            let origin = Origin { full, checked };
            let text = origin.encode();
            assert!(text.len() as u64 <= ORIGIN_BYTES_MAX);
            assert_eq!(Origin::decode(text.as_bytes()), Some(origin));
            for end in 0..text.len() {
                assert_eq!(Origin::decode(&text.as_bytes()[..end]), None, "{end}");
            }
            let later = text.replace("origin 1", "origin 2");
            assert_eq!(Origin::decode(later.as_bytes()), None);
        }
        let incremental = format!("incremental-snapshot-39-47-{HASH}.tar.zst");
        let wrong = format!("{MAGIC}\nfull {incremental}\nchecks none\n");
        assert_eq!(Origin::decode(wrong.as_bytes()), None);
    }
}
