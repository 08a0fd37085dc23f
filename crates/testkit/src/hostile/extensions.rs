//! GNU long names and long links.

use super::{Construct, behind, between, blocks, constructs, good_beginning};
use crate::tar::{Dialect, Header, TarBuilder};

constructs![
    long_name_of_8_gib,
    long_name_of_a_mebibyte_and_a_byte,
    long_name_of_2_to_the_63_less_1,
    long_name_below_zero,
    long_name_twice,
    long_link_twice,
    long_name_without_a_nul,
    long_name_without_a_character,
    long_name_of_no_bytes,
    long_name_with_padding,
    long_name_of_nothing,
    long_name_at_the_end,
    long_name_cut,
    long_link_cut,
    long_name_under_no_magic,
    long_name_under_posix_magic,
    long_link_of_a_file,
    many_long_names,
];

const NAME: &str = "accounts/98.1";

/// Returns a header of this type that declares a size, and the given content.
fn claims(kind: u8, size: u64, contents: &[u8]) -> Construct {
    let header = Header::new(Dialect::Gnu, kind, "././@LongLink", size);
    between(|tar| tar.entry(header, contents).account(NAME, b"x"))
}

/// Returns a long name with this body.
fn body(bytes: &[u8]) -> Construct {
    claims(b'L', bytes.len() as u64, bytes)
}

/// CPython PR 151498: 512 bytes that made a reader reserve gigabytes.
fn long_name_of_8_gib() -> Construct {
    claims(b'L', 8 << 30, b"short\0").refused(behind(), "has 8589934592 bytes, limit is 1048576")
}

/// One byte more than the limit, and really present.
fn long_name_of_a_mebibyte_and_a_byte() -> Construct {
    body(&vec![0; (1 << 20) + 1]).refused(behind(), "has 1048577 bytes, limit is 1048576")
}

/// A size that overflows when anything is added.
fn long_name_of_2_to_the_63_less_1() -> Construct {
    claims(b'K', i64::MAX.unsigned_abs(), b"").refused(behind(), "has 9223372036854775807 bytes")
}

/// CPython CVE-2025-8194: a reader moved backwards in an endless loop.
fn long_name_below_zero() -> Construct {
    let header = Header::new(Dialect::Gnu, b'L', "././@LongLink", 0).size_binary(u64::MAX);
    let header = header.patch(crate::tar::field::SIZE.start, &[0xff; 12]);
    between(|tar| tar.entry(header, &[]).account(NAME, b"x"))
        .entry("././@LongLink")
        .refused(behind(), "is negative")
}

/// libarchive's `gtar_redundant_L`, Go's `gnu-multi-hdrs.tar`: Python and GNU tar use the last.
fn long_name_twice() -> Construct {
    between(|tar| tar.long_name(b"accounts/97.1").long_name(NAME.as_bytes()).account("cut", b"x"))
        .refused(behind() + blocks(2), "second extension of type 'L'")
}

/// The same for link targets.
fn long_link_twice() -> Construct {
    between(|tar| tar.long_link(b"a").long_link(b"b").symlink(NAME, "c"))
        .refused(behind() + blocks(2), "second extension of type 'K'")
}

/// A name without a NUL, for readers that search until they find one.
fn long_name_without_a_nul() -> Construct {
    body(b"accounts/97.1").refused(behind() + blocks(1), "does not hold one NUL-terminated name")
}

/// An empty path in a long name.
fn long_name_without_a_character() -> Construct {
    body(b"\0").refused(behind() + blocks(1), "does not hold one NUL-terminated name")
}

/// For readers that strip the byte before the end, which here lies before the beginning.
fn long_name_of_no_bytes() -> Construct {
    body(b"").refused(behind() + blocks(1), "does not hold one NUL-terminated name")
}

/// NULs that fill a buffer, as some writers leave them: still one name.
fn long_name_with_padding() -> Construct {
    let padded = [NAME.as_bytes(), &[0; 7]].concat();
    let header = Header::new(Dialect::Gnu, b'L', "././@LongLink", padded.len() as u64);
    between(|tar| tar.entry(header, &padded).account("cut", b"x")).accepted(&[(NAME, b"x")])
}

/// A name before the end of the archive.
fn long_name_of_nothing() -> Construct {
    let tar = good_beginning().account("accounts/99.9", b"the last");
    let at = tar.len();
    Construct::tar(tar.long_name(NAME.as_bytes()).finish())
        .refused(at, "is not followed by the entry it belongs to")
}

/// A name at the end of the stream.
fn long_name_at_the_end() -> Construct {
    let tar = good_beginning().account("accounts/99.9", b"the last");
    let at = tar.len();
    Construct::tar(tar.long_name(NAME.as_bytes()).into_bytes())
        .refused(at, "is not followed by the entry it belongs to")
}

/// Part of a name at the end of the stream.
fn long_name_cut() -> Construct {
    let tar = good_beginning().long_name(&[b'n'; 600]);
    let at = tar.len() - blocks(1);
    let mut bytes = tar.into_bytes();
    bytes.truncate(at);
    Construct::tar(bytes).refused(at, "inside an extension of type 'L': 512 of 601 bytes present")
}

/// CVE-2024-57970 (libarchive): a read beyond the end of the data.
fn long_link_cut() -> Construct {
    let tar = good_beginning().long_link(&[b'n'; 600]);
    let at = tar.len() - blocks(1);
    let mut bytes = tar.into_bytes();
    bytes.truncate(at);
    Construct::tar(bytes).refused(at, "inside an extension of type 'K': 512 of 601 bytes present")
}

/// Go's `issue12435.tar`: v7 tar had no types.
fn long_name_under_no_magic() -> Construct {
    let header = Header::new(Dialect::V7, b'L', "././@LongLink", 14);
    between(|tar| tar.entry(header, b"accounts/98.1\0").account("cut", b"x"))
        .refused(behind(), "does not exist in the v7 format")
}

/// tar-rs's `7z_long_path.tar`: 7-Zip writes long names this way, and all readers accept them.
fn long_name_under_posix_magic() -> Construct {
    let header = Header::new(Dialect::Ustar, b'L', "././@LongLink", 14);
    between(|tar| tar.entry(header, b"accounts/98.1\0").file_in(Dialect::Ustar, "cut", b"x"))
        .accepted(&[(NAME, b"x")])
}

/// A link target for a file, which has none.
fn long_link_of_a_file() -> Construct {
    between(|tar| tar.long_link(b"../../outside/canary").account(NAME, b"x"))
        .accepted(&[(NAME, b"x")])
}

/// tar-core's limit on pending entries: an endless chain of extensions.
fn many_long_names() -> Construct {
    let chain = |tar: TarBuilder| {
        (0..1000).fold(tar.long_link(b"target"), |tar, _| tar.long_name(NAME.as_bytes()))
    };
    between(|tar| chain(tar).account("cut", b"x"))
        .refused(behind() + blocks(4), "second extension of type 'L'")
}
