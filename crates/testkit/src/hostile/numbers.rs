//! Numeric fields, checksums, magic numbers, and entries that declare content they cannot have.

use super::{Construct, behind, between, constructs};
use crate::tar::{Dialect, Header, TarBuilder, field};

constructs![
    size_below_zero,
    size_of_minus_a_block,
    size_with_a_lead_byte_of_8e,
    size_of_2_to_the_63,
    size_of_2_to_the_63_less_1,
    size_with_a_minus_sign,
    size_with_a_digit_of_8,
    size_with_garbage_behind_it,
    size_of_spaces,
    size_of_nuls,
    size_in_binary,
    mode_time_and_owner_that_are_no_numbers,
    checksum_off_by_one,
    checksum_that_is_no_number,
    checksum_of_signed_bytes,
    magic_that_nobody_writes,
    directory_with_content,
    directory_by_its_name_with_content,
    device_with_content,
    volume_label_below_zero,
];

const NAME: &str = "accounts/98.1";

/// Returns an account with these bytes in its size field.
fn size(bytes: &[u8; 12]) -> Construct {
    let header = Header::account(NAME, 0).patch(field::SIZE.start, bytes);
    between(|tar| tar.entry(header, &[]))
}

/// CPython CVE-2025-8194: a reader moved backwards in an endless loop.
fn size_below_zero() -> Construct {
    size(&[0xff; 12]).entry(NAME).refused(behind(), "is negative")
}

/// A negative size that moves a reader back to exactly this header.
fn size_of_minus_a_block() -> Construct {
    size(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe\0")
        .entry(NAME)
        .refused(behind(), "is negative")
}

/// Readers that accept only 0x80 and 0xff as a first byte disagree on the rest.
fn size_with_a_lead_byte_of_8e() -> Construct {
    size(b"\x8e\0\0\0\0\0\0\0\0\0\0\x01").entry(NAME).refused(behind(), "is too large")
}

/// A negative size for readers with signed numbers.
fn size_of_2_to_the_63() -> Construct {
    size(b"\x80\0\0\0\x80\0\0\0\0\0\0\0").entry(NAME).refused(behind(), "is too large")
}

/// The largest valid size: above every limit, and it overflows when anything is added.
fn size_of_2_to_the_63_less_1() -> Construct {
    size(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff")
        .entry(NAME)
        .refused(behind(), "bytes, limit is")
}

/// Text that `strtol` accepts as a number.
fn size_with_a_minus_sign() -> Construct {
    size(b"-0000000001\0").entry(NAME).refused(behind(), "is not a number: \"-0000000001")
}

/// A digit that some readers take as 8 and others as the end of the number.
fn size_with_a_digit_of_8() -> Construct {
    size(b"00000000008\0").entry(NAME).refused(behind(), "is not a number: \"00000000008")
}

/// Readers that stop at the first NUL see 1, others do not.
fn size_with_garbage_behind_it() -> Construct {
    size(b"1\0garbage777").entry(NAME).refused(behind(), "is not a number: \"1\\x00garbage777\"")
}

/// Spaces: zero to some readers, not a number to others.
fn size_of_spaces() -> Construct {
    size(b"            ").entry(NAME).refused(behind(), "is not a number")
}

/// All readers take a field of NULs as zero. An account of zero bytes is refused.
fn size_of_nuls() -> Construct {
    size(&[0; 12])
        .entry(NAME)
        .refused_as_snapshot(behind(), "is empty")
        .accepted_as_any(&[(NAME, b"")])
}

/// GNU's binary form is accepted even if octal digits would suffice.
fn size_in_binary() -> Construct {
    let header = Header::account(NAME, 0).size_binary(3);
    between(|tar| tar.entry(header, b"abc")).accepted(&[(NAME, b"abc")])
}

/// Genuine accounts leave these fields empty, so no reader may depend on them.
fn mode_time_and_owner_that_are_no_numbers() -> Construct {
    let header = Header::account(NAME, 1)
        .patch(field::MODE.start, b"rwxrwxrw")
        .patch(field::UID.start, &[0xff; 16])
        .patch(field::MTIME.start, b"tomorrow\xff\xff\xff\xff");
    between(|tar| tar.entry(header, b"x")).accepted(&[(NAME, b"x")])
}

/// A damaged header.
fn checksum_off_by_one() -> Construct {
    let header = Header::account(NAME, 1).corrupt_checksum();
    between(|tar| tar.entry(header, b"x")).refused(behind(), "is damaged: its checksum is")
}

/// A checksum that `strtol` takes for zero.
fn checksum_that_is_no_number() -> Construct {
    let header = Header::account(NAME, 1).raw_checksum(*b"\x1b[31mred");
    between(|tar| tar.entry(header, b"x")).refused(behind(), r#"is not a number: "\x1b[31mred""#)
}

/// The sum that historical tars wrote for non-ASCII names. GNU tar accepts both sums, and so does
/// unsnap.
fn checksum_of_signed_bytes() -> Construct {
    // Six bytes with the top bit set: each counts 256 less.
    let name = "accounts/\u{65e5}\u{672c}";
    let header = Header::account(name, 1);
    let block = header.clone().finish();
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    let stored: u32 = block[field::CHECKSUM].iter().map(|&byte| u32::from(byte)).sum();
    let signed = sum - stored + 8 * 32 - 6 * 256;
    let mut text = [0; 8];
    text.copy_from_slice(format!("{signed:06o}\0 ").as_bytes());
    between(|tar| tar.entry(header.raw_checksum(text), b"x"))
        .entry(name)
        .refused_as_snapshot(behind(), super::FOREIGN)
        .accepted_as_any(&[(name, b"x")])
}

/// A format with unknown fields.
fn magic_that_nobody_writes() -> Construct {
    let header = Header::account(NAME, 1).patch(field::MAGIC.start, b"ustar\0\0\0");
    between(|tar| tar.entry(header, b"x"))
        .refused(behind(), r#"has an unknown format: its magic is "ustar\x00\x00\x00""#)
}

/// Go's `hdr-only.tar`, tar-core's `NonZeroSizeForHeaderOnlyEntry`, GNU tar CVE-2026-5704: readers
/// that skip the content do not see the entry in it, others do.
fn directory_with_content() -> Construct {
    let hidden = TarBuilder::new().account("accounts/97.1", b"hidden").into_bytes();
    let header = Header::new(Dialect::Gnu, b'5', "snapshots", hidden.len() as u64);
    between(|tar| tar.entry(header, &hidden))
        .entry("snapshots")
        .refused(behind(), "declares 1024 bytes of content but can have none")
}

/// The same in a v7 directory, which is one only by its slash.
fn directory_by_its_name_with_content() -> Construct {
    let hidden = TarBuilder::new().account("accounts/97.1", b"hidden").into_bytes();
    between(|tar| tar.account("accounts/", &hidden))
        .entry("accounts/")
        .refused(behind(), "declares 1024 bytes of content but can have none")
}

/// The same in a device.
fn device_with_content() -> Construct {
    let hidden = TarBuilder::new().account("accounts/97.1", b"hidden").into_bytes();
    let header = Header::new(Dialect::Gnu, b'3', NAME, hidden.len() as u64);
    between(|tar| tar.entry(header, &hidden))
        .entry(NAME)
        .refused(behind(), "declares 1024 bytes of content but can have none")
}

/// libarchive's `test_read_format_tar_V_negative_size`: an endless loop.
fn volume_label_below_zero() -> Construct {
    let header = Header::new(Dialect::Gnu, b'V', "label", 0).patch(field::SIZE.start, &[0xff; 12]);
    between(|tar| tar.entry(header, &[])).entry("label").refused(behind(), "is negative")
}
