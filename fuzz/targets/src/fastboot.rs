//! Target for the small files of a validator's state.

use std::collections::HashSet;

use unsnap_state::format::{
    Format, FormatError, Storage, Version, check_obsolete_accounts, check_version_file,
};

use crate::{INPUT_BYTES_MAX, text::assert_safe};

/// Takes bytes and parses them as each of the files. Lists are accepted exactly if the encoder
/// produces them from storages with no slot or id twice. Versions are accepted in one form only.
/// Refusals are safe to display.
pub fn fastboot(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    for (format, form) in [(Format::V3, three as fn(&[u8]) -> Storage), (Format::V5, five)] {
        list(data, format, form);
    }
    version(data);
    let none = check_obsolete_accounts(data);
    assert_eq!(none.is_ok(), data == [0; 8]);
    let layout = check_version_file(data);
    assert_eq!(layout.is_ok(), data == b"1.2.0");
    for refused in [none, layout] {
        show(refused.err());
    }
}

fn list(data: &[u8], format: Format, read: fn(&[u8]) -> Storage) {
    let bytes_each = if format == Format::V3 { 12 } else { 16 };
    let decoded = format.decode_storages(data);
    let expected = || -> Option<Vec<Storage>> {
        let (count, entries) = data.split_first_chunk()?;
        let fits = u64::from_le_bytes(*count).checked_mul(bytes_each as u64)?;
        if fits != entries.len() as u64 {
            return None;
        }
        Some(entries.chunks(bytes_each).map(read).collect())
    };
    let unique = |storages: &Vec<Storage>| {
        let slots: HashSet<u64> = storages.iter().map(|storage| storage.slot).collect();
        let ids: HashSet<u32> = storages.iter().map(|storage| storage.id).collect();
        slots.len() == storages.len() && ids.len() == storages.len()
    };
    // For the second form, the encoder's output for the entries shows whether their tags are
    // correct.
    let expected = expected().filter(unique).filter(|storages| {
        let encoded = format.encode_storages(storages);
        encoded.is_ok_and(|encoded| encoded == data)
    });
    assert_eq!(decoded.as_ref().ok(), expected.as_ref());
    show(decoded.err());
}

fn three(entry: &[u8]) -> Storage {
    Storage { slot: number(&entry[..8]), id: small(&entry[8..]) }
}

fn five(entry: &[u8]) -> Storage {
    Storage { slot: number(&entry[8..]), id: small(&entry[4..8]) }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn small(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn version(data: &[u8]) {
    match Version::parse(data) {
        Ok(version) => {
            assert_eq!(version.to_string().as_bytes(), data.trim_ascii());
            let known = matches!(version.major, 3 | 5);
            assert_eq!(Format::of(version).is_ok(), known);
        }
        Err(error) => show(Some(error)),
    }
}

fn show(error: Option<FormatError>) {
    if let Some(error) = error {
        assert_safe(&error.to_string());
    }
}
