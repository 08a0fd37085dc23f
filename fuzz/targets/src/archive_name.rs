//! Target for names of archives.

use unsnap_layout::{ArchiveHash, ArchiveName, Compression};

use crate::text::assert_safe;

/// Takes a file name. It is accepted exactly if an independent parser accepts it, with the same
/// parts, and it has only one spelling. Refusals are safe to display.
pub fn archive_name(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let expected = read(text);
    match ArchiveName::parse(text) {
        Ok(name) => {
            assert_eq!(name.to_string(), text);
            let found = (name.base_slot(), name.slot(), *name.hash().as_bytes());
            assert_eq!(Some(found), expected, "{text}");
            assert!(name.base_slot().is_none_or(|base| base < name.slot()));
            let lz4 = text.as_bytes().last() == Some(&b'4');
            assert_eq!(name.compression() == Compression::Lz4, lz4);
            assert_eq!(name.kind() == "full", name.base_slot().is_none());
            assert_safe(text);
        }
        Err(error) => {
            assert_eq!(expected, None, "{text}: {error}");
            assert_safe(&error.to_string());
        }
    }
    let hash = ArchiveHash::parse(text);
    assert_eq!(hash.map(|hash| *hash.as_bytes()), base58(text));
    if let Some(hash) = hash {
        assert_eq!(hash.to_string(), text);
    }
}

/// Returns base slot, slot and hash, parsed from the parts between the dashes.
fn read(text: &str) -> Option<(Option<u64>, u64, [u8; 32])> {
    let parts: Vec<&str> = text.split('-').collect();
    let (base_slot, slot, rest) = match parts[..] {
        ["snapshot", slot, rest] => (None, slot, rest),
        ["incremental", "snapshot", base, slot, rest] => (Some(base), slot, rest),
        _ => return None,
    };
    let (hash, extension) = rest.split_once('.')?;
    let slot = number(slot)?;
    let base_slot = match base_slot {
        Some(base) => Some(number(base).filter(|&base| base < slot)?),
        None => None,
    };
    let known = matches!(extension, "tar.zst" | "tar.lz4");
    known.then_some((base_slot, slot, base58(hash)?))
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

fn base58(text: &str) -> Option<[u8; 32]> {
    // Decoding time grows with the square of the length.
    if text.len() > 100 {
        return None;
    }
    bs58::decode(text).into_vec().ok()?.try_into().ok()
}
