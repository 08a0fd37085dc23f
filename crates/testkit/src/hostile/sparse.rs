//! Sparse files: every form is refused at its header, so that no map is ever read.

use super::{Construct, behind, between, blocks, constructs};
use crate::tar::{BLOCK_BYTES, Dialect, Header, field, pax_record};

constructs![
    storage_with_holes,
    map_without_end,
    map_below_zero,
    map_that_overflows,
    map_longer_than_the_content,
    file_of_8_eib,
    map_under_posix_magic,
    pax_0_0,
    pax_0_1_of_150_000_extents,
    pax_0_1_beyond_a_mebibyte,
    pax_1_0_of_ten_million_extents,
    pax_1_0_with_a_map_that_does_not_end,
    pax_name_upwards,
];

const NAME: &str = "accounts/98.1";

/// Offset of the first extents in a header of GNU's old form: 12 bytes of offset, 12 of length.
const MAP: usize = 386;
const GOES_ON: usize = 482;
const REAL_SIZE: usize = 483;

/// Returns a sparse account in GNU's old form.
fn gnu(size: u64) -> Header {
    Header::account(NAME, size).kind(b'S').patch(REAL_SIZE, b"00000010000\0")
}

fn extents(map: &[u8]) -> Construct {
    let header = gnu(512).patch(MAP, map);
    between(|tar| tar.entry(header, &[1; 512])).entry(NAME).refused(behind(), "sparse file")
}

/// Returns an account with these PAX records before this content.
fn pax(records: &[(&str, &str)], content: &[u8]) -> Construct {
    let header = Header::new(Dialect::Ustar, b'0', NAME, content.len() as u64);
    between(|tar| tar.pax(records).entry(header, content))
        .entry(NAME)
        .refused(behind(), "sparse file")
}

/// solana#7167 and pull request 15706: storages with holes, half of which were missing. Current
/// archives have no sparse files.
fn storage_with_holes() -> Construct {
    extents(b"00000000000\x0000000001000\x0000000007000\x0000000000000\0")
}

/// Go CVE-2025-58183: memory for a map of any length. This one has one block more than the limit.
fn map_without_end() -> Construct {
    const BLOCKS: usize = 4_097;
    let mut block = [0; BLOCK_BYTES];
    block[504] = 1;
    let maps = block.repeat(BLOCKS);
    between(|tar| tar.entry(gnu(0).patch(GOES_ON, &[1]), &maps))
        .entry(NAME)
        .refused(behind() + blocks(1 + BLOCKS), "is longer than 4096 blocks")
}

/// Go's archive/tar, libarchive's `gtar_sparse_length`: a negative length.
fn map_below_zero() -> Construct {
    let mut map = *b"00000000000\0............";
    map[12..].fill(0xff);
    extents(&map)
}

/// An offset and a length whose sum overflows the file.
fn map_that_overflows() -> Construct {
    let largest = b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff";
    extents(&[&largest[..], &largest[..]].concat())
}

/// Go CVE-2026-32288: a map that covers more than the content.
fn map_longer_than_the_content() -> Construct {
    extents(b"00000000000\x0077777777777\0")
}

/// A file larger than any file system supports.
fn file_of_8_eib() -> Construct {
    let header = gnu(0).patch(REAL_SIZE, b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
    between(|tar| tar.entry(header, &[])).entry(NAME).refused(behind(), "sparse file")
}

/// The map occupies bytes where POSIX has a part of the name.
fn map_under_posix_magic() -> Construct {
    let header = gnu(0).patch(field::MAGIC.start, b"ustar\x0000");
    between(|tar| tar.entry(header, &[])).refused(behind(), "does not exist in the POSIX format")
}

/// The first PAX form: a record for each number.
fn pax_0_0() -> Construct {
    let records = [
        ("GNU.sparse.size", "1024"),
        ("GNU.sparse.numblocks", "1"),
        ("GNU.sparse.offset", "512"),
        ("GNU.sparse.numbytes", "1"),
    ];
    pax(&records, b"x")
}

/// The second form: one record for all numbers, within the limit of a header.
fn pax_0_1_of_150_000_extents() -> Construct {
    let map = "9,1,".repeat(150_000);
    pax(&[("GNU.sparse.major", "0"), ("GNU.sparse.minor", "1"), ("GNU.sparse.map", &map)], b"x")
}

/// The same above that limit.
fn pax_0_1_beyond_a_mebibyte() -> Construct {
    let records = pax_record("GNU.sparse.map", &"9,1,".repeat(270_000));
    between(|tar| tar.pax_raw(b'x', &records).file_in(Dialect::Ustar, NAME, b"x"))
        .refused(behind(), "has 1080024 bytes, limit is 1048576")
}

/// Go CVE-2025-58183: memory reserved for a declared number of extents. Here they do not even
/// exist.
fn pax_1_0_of_ten_million_extents() -> Construct {
    pax(&[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0")], b"10000000\n0\n1\n")
}

/// Go CVE-2026-32288: a map that continues in the bytes after the entry.
fn pax_1_0_with_a_map_that_does_not_end() -> Construct {
    pax(&[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0")], &[b'7'; 512])
}

/// A second path for the entry, which only readers that expand holes use.
fn pax_name_upwards() -> Construct {
    let records = [("GNU.sparse.name", "../../outside/canary"), ("GNU.sparse.realsize", "4096")];
    pax(&records, b"x")
}
