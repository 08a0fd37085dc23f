//! Headers as validators write them (`agave-snapshots` 4.2.2, `archive.rs`): GNU's magic, numbers in
//! octal. Those of storages have nothing but a name, a size and a time of 0; owners are not told of any.

use unsnap_unpack::Role;

use super::content::Entry;

/// Bytes of a header, and the unit of everything in a tar.
pub const BLOCK_BYTES: usize = 512;

/// Largest size that eleven octal digits hold; storages have at most 16 GiB, and others
/// 32 GiB.
const SIZE_MAX: u64 = (1 << 33) - 1;

/// Magic and version.
const GNU_MAGIC: &[u8; 8] = b"ustar  \0";

/// The header of an entry, whose name the layout has admitted: it is far shorter than 100 bytes.
pub fn header(entry: &Entry) -> [u8; BLOCK_BYTES] {
    let mut header = [0; BLOCK_BYTES];
    let name = entry.name.as_bytes();
    header[..name.len()].copy_from_slice(name);
    match entry.role {
        Some(Role::Storage { .. }) => {}
        role => {
            let (mode, kind) = if role.is_some() { (0o100_644, b'0') } else { (0o040_755, b'5') };
            octal(&mut header[100..108], mode);
            octal(&mut header[108..116], 0);
            octal(&mut header[116..124], 0);
            header[156] = kind;
        }
    }
    if entry.size <= SIZE_MAX {
        octal(&mut header[124..136], entry.size);
    } else {
        // In binary, as GNU does.
        header[124] = 0x80;
        header[128..136].copy_from_slice(&entry.size.to_be_bytes());
    }
    octal(&mut header[136..148], 0);
    header[257..265].copy_from_slice(GNU_MAGIC);
    // The checksum is taken with spaces in its place.
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut header[148..156], sum);
    header
}

/// Octal digits that fill a field but for a NUL at its end.
fn octal(field: &mut [u8], number: u64) {
    let digits = field.len() - 1;
    for (index, byte) in field[..digits].iter_mut().rev().enumerate() {
        let digit = number.checked_shr(3 * u32::try_from(index).unwrap_or(u32::MAX)).unwrap_or(0);
        *byte = b'0' + (digit & 7) as u8;
    }
    field[digits] = 0;
}
