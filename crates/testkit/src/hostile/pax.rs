//! PAX headers: two sizes, and records that readers interpret differently or not at all.

use super::{Construct, behind, between, blocks, constructs, good_beginning};
use crate::tar::{Dialect, Header, TarBuilder, pax_record};

constructs![
    size_that_hides_an_archive,
    size_smaller_than_the_header_s,
    size_larger_than_the_header_s,
    size_of_zero_against_the_header_s,
    size_in_front_of_a_long_name,
    size_behind_a_long_name,
    size_in_front_of_a_long_link,
    size_with_a_plus_sign,
    size_below_zero,
    size_in_hexadecimal,
    size_with_a_space,
    size_without_a_value,
    size_of_2_to_the_63,
    size_of_2_to_the_64_and_a_bit,
    size_twice,
    length_beyond_the_header,
    length_within_the_record,
    length_within_its_own_digits,
    length_with_a_plus_sign,
    length_with_a_leading_zero,
    length_of_zero,
    length_of_21_digits,
    no_length,
    no_newline_at_the_end,
    nuls_at_the_end,
    no_equals_sign,
    no_key,
    nul_in_a_key,
    newline_in_a_value,
    keys_that_mean_nothing,
    path_without_a_value,
    path_twice,
    path_that_is_not_utf8,
    link_path_twice,
    link_path_of_a_file,
    path_and_a_long_name,
    long_name_and_a_path,
    header_twice,
    header_twice_and_the_first_empty,
    header_of_nothing,
    header_at_the_end,
    header_under_gnu_s_magic,
    header_under_no_magic,
    header_of_solaris,
    header_of_4_gib,
    global_comment,
    global_path,
    global_size,
    global_sparse_keys,
    global_without_a_newline,
    global_header_beyond_64_kib,
    global_header_of_4_gib,
    global_between_a_header_and_its_entry,
];

const NAME: &str = "accounts/98.1";

/// Returns an account whose header has this size.
fn sized(size: u64) -> Header {
    Header::new(Dialect::Ustar, b'0', NAME, size)
}

/// Returns a PAX header with this body, and a file of one byte.
fn records(bytes: &[u8]) -> Construct {
    between(|tar| tar.pax_raw(b'x', bytes).entry(sized(1), b"x"))
}

/// Returns a construct refused because of the record at this position of the header's body.
fn bad_record(bytes: &[u8], position: usize, reason: &'static str) -> Construct {
    records(bytes).refused(behind() + blocks(1) + position, reason)
}

/// CVE-2025-62518 (TARmageddon: async-tar, tokio-tar, astral-tokio-tar < 0.5.6): readers skipped
/// the header's size, and the entries of the inner archive became entries of the outer one.
fn size_that_hides_an_archive() -> Construct {
    let inner = TarBuilder::new().account("accounts/97.1", b"hidden").finish();
    let size = inner.len().to_string();
    between(|tar| tar.pax(&[("size", &size)]).entry(sized(0), &inner)).accepted(&[(NAME, &inner)])
}

/// CVE-2026-33055 / RUSTSEC-2026-0068 (tar < 0.4.45): the PAX size was ignored if the header had
/// one.
fn size_smaller_than_the_header_s() -> Construct {
    let inner = TarBuilder::new().account("accounts/97.1", b"hidden").into_bytes();
    between(|tar| tar.pax(&[("size", "512")]).entry(sized(1024), &inner))
        .entry(NAME)
        .refused(behind() + blocks(2), "two sizes: 1024 in its header, 512 in its PAX header")
}

/// The inverse of CVE-2026-33055.
fn size_larger_than_the_header_s() -> Construct {
    let inner = TarBuilder::new().account("accounts/97.1", b"hidden").into_bytes();
    let contents = [&[0; 512][..], &inner].concat();
    between(|tar| tar.pax(&[("size", "1536")]).entry(sized(512), &contents))
        .entry(NAME)
        .refused(behind() + blocks(2), "two sizes: 512 in its header, 1536 in its PAX header")
}

/// CVE-2026-33055 with a size of zero, which some readers treat as absent.
fn size_of_zero_against_the_header_s() -> Construct {
    between(|tar| tar.pax(&[("size", "0")]).entry(sized(512), &[1; 512]))
        .entry(NAME)
        .refused(behind() + blocks(2), "two sizes: 512 in its header, 0 in its PAX header")
}

/// GHSA-3cv2-h65g-fgmm (tar < 0.4.46), RUSTSEC-2026-0112 (astral-tokio-tar), CVE-2026-53655
/// (node-tar <= 7.5.15): the size was applied to the long name in between.
fn size_in_front_of_a_long_name() -> Construct {
    between(|tar| {
        let header = Header::new(Dialect::Ustar, b'0', "cut", 0);
        tar.pax(&[("size", "1100")]).long_name(NAME.as_bytes()).entry(header, &[9; 1100])
    })
    .accepted(&[(NAME, &[9; 1100])])
}

/// The same in the other order, which is harmless to all readers.
fn size_behind_a_long_name() -> Construct {
    between(|tar| {
        let header = Header::new(Dialect::Ustar, b'0', "cut", 0);
        tar.long_name(NAME.as_bytes()).pax(&[("size", "1100")]).entry(header, &[9; 1100])
    })
    .accepted(&[(NAME, &[9; 1100])])
}

/// GHSA-3cv2-h65g-fgmm with a long link, which does not apply to a file.
fn size_in_front_of_a_long_link() -> Construct {
    between(|tar| tar.pax(&[("size", "1100")]).long_link(b"target").entry(sized(0), &[9; 1100]))
        .accepted(&[(NAME, &[9; 1100])])
}

/// Text that the `parse` function of many languages accepts as 1 (astral-tokio-tar, series of June
/// 2026).
fn size_with_a_plus_sign() -> Construct {
    bad_record(&pax_record("size", "+1"), 0, "size is not a decimal number in range: \"+1\"")
}

/// CPython CVE-2025-8194 by PAX: a reader moves backwards.
fn size_below_zero() -> Construct {
    bad_record(&pax_record("size", "-512"), 0, "size is not a decimal number in range: \"-512\"")
}

/// A number in another base.
fn size_in_hexadecimal() -> Construct {
    bad_record(&pax_record("size", "0x1"), 0, "size is not a decimal number in range: \"0x1\"")
}

/// A number with spaces that some readers trim.
fn size_with_a_space() -> Construct {
    bad_record(&pax_record("size", " 1"), 0, "size is not a decimal number in range: \" 1\"")
}

/// libarchive's `test_read_pax_empty_val_no_nl`: POSIX says that an empty value deletes a record,
/// but few readers do that.
fn size_without_a_value() -> Construct {
    bad_record(&pax_record("size", ""), 0, "size is not a decimal number in range: \"\"")
}

/// One more than the largest signed number.
fn size_of_2_to_the_63() -> Construct {
    bad_record(
        &pax_record("size", "9223372036854775808"),
        0,
        "size is not a decimal number in range",
    )
}

/// libarchive's `test_read_format_tar_invalid_pax_size`: 1 for readers that overflow.
fn size_of_2_to_the_64_and_a_bit() -> Construct {
    bad_record(
        &pax_record("size", "18446744073709551617"),
        0,
        "size is not a decimal number in range",
    )
}

/// POSIX: the last one counts; some readers take the first.
fn size_twice() -> Construct {
    let twice = [pax_record("size", "1"), pax_record("size", "1")].concat();
    bad_record(&twice, 9, "size occurs twice")
}

/// DIFF-014 of astral-tokio-tar (`diff-014-unterminated-pax.tar`): a length beyond the end.
fn length_beyond_the_header() -> Construct {
    bad_record(
        b"40 path=accounts/97.1\n",
        0,
        "its length is 40, but only 22 bytes of the header are left",
    )
}

/// Go's `pax-bad-hdr-file.tar`: a length that differs from the record's.
fn length_within_the_record() -> Construct {
    bad_record(b"15 path=accounts/97.1\n", 0, "there is no newline at the end given by its length")
}

/// A length that ends before its own space: a subtraction that underflows.
fn length_within_its_own_digits() -> Construct {
    bad_record(b"2 path=accounts/97.1\n", 0, "there is no newline at the end given by its length")
}

/// Text that the `parse` function of many languages accepts as 23.
fn length_with_a_plus_sign() -> Construct {
    bad_record(b"+23 path=accounts/97.1\n", 0, "does not start with its length")
}

/// A second spelling of a length, and an octal one for some readers.
fn length_with_a_leading_zero() -> Construct {
    bad_record(b"023 path=accounts/97.1\n", 0, "does not start with its length")
}

/// A record that a loop never advances past.
fn length_of_zero() -> Construct {
    bad_record(b"0 path=accounts/97.1\n", 0, "does not start with its length")
}

/// A length that overflows.
fn length_of_21_digits() -> Construct {
    bad_record(b"184467440737095516170 a=b\n", 0, "does not start with its length")
}

/// A record without a length.
fn no_length() -> Construct {
    bad_record(b"path=accounts/97.1\n", 0, "does not start with its length")
}

/// A record whose length includes a missing newline.
fn no_newline_at_the_end() -> Construct {
    bad_record(b"21 path=accounts/97.1", 0, "there is no newline at the end given by its length")
}

/// Padding counted in the header's size.
fn nuls_at_the_end() -> Construct {
    let padded = [&pax_record("comment", "x")[..], &[0; 8]].concat();
    bad_record(&padded, 13, "does not start with its length")
}

/// CVE-2026-32766 (astral-tokio-tar): malformed records were silently skipped.
fn no_equals_sign() -> Construct {
    bad_record(b"12 path:abc\n", 0, "it has no key")
}

/// A record with an empty key.
fn no_key() -> Construct {
    bad_record(b"8 =abcd\n", 0, "it has no key")
}

/// Go's `pax-nul-xattrs.tar`: a key that is `path` to readers that stop at a NUL.
fn nul_in_a_key() -> Construct {
    bad_record(&pax_record("path\0x", "accounts/97.1"), 0, "it has no key")
}

/// A record within a value, for readers that split by lines. A record ends where its length says.
fn newline_in_a_value() -> Construct {
    records(&pax_record("comment", "a\n22 path=accounts/97.1\n")).accepted(&[(NAME, b"x")])
}

/// Odd, vendor-specific and unknown keys: all of them are ignored.
fn keys_that_mean_nothing() -> Construct {
    let records = [
        pax_record(" path", "accounts/97.1"),
        pax_record("PATH", "accounts/97.1"),
        pax_record("path\n", "accounts/97.1"),
        pax_record("SCHILY.xattr.security.capability", "\u{1}\0\0\u{2}"),
        pax_record("LIBARCHIVE.creationtime", "-1e99"),
        pax_record("mtime", "nan"),
        pax_record("uid", "-1"),
        pax_record("hdrcharset", "BINARY"),
    ];
    self::records(&records.concat()).accepted(&[(NAME, b"x")])
}

/// An empty path: POSIX then uses the header's path, other readers refuse or use none.
fn path_without_a_value() -> Construct {
    bad_record(&pax_record("path", ""), 0, "path is empty")
}

/// POSIX: the last one counts; some readers take the first.
fn path_twice() -> Construct {
    let twice = [pax_record("path", "accounts/97.1"), pax_record("path", NAME)].concat();
    bad_record(&twice, 22, "path occurs twice")
}

/// PAX is UTF-8 by definition.
fn path_that_is_not_utf8() -> Construct {
    records(b"22 path=accounts/98.\xff\n")
        .entry(r"accounts/98.\xff")
        .refused_as_snapshot(behind(), super::FOREIGN)
        .refused_as_any(behind(), "it is not UTF-8")
}

/// The same for link targets.
fn link_path_twice() -> Construct {
    let twice = [pax_record("linkpath", "a"), pax_record("linkpath", "b")].concat();
    bad_record(&twice, 14, "linkpath occurs twice")
}

/// A link target for a file, which has none.
fn link_path_of_a_file() -> Construct {
    records(&pax_record("linkpath", "../../outside/canary")).accepted(&[(NAME, b"x")])
}

/// tokio-tar's `pax-overrides-extension-header.tar`: two paths for one entry, without a rule for
/// which one applies.
fn path_and_a_long_name() -> Construct {
    between(|tar| tar.pax(&[("path", NAME)]).long_name(b"accounts/97.1").entry(sized(1), b"x"))
        .refused(behind() + blocks(3), "both a GNU extension of type 'L' and a PAX path")
}

/// The same in the other order.
fn long_name_and_a_path() -> Construct {
    between(|tar| tar.long_name(b"accounts/97.1").pax(&[("path", NAME)]).entry(sized(1), b"x"))
        .refused(behind() + blocks(3), "both a GNU extension of type 'L' and a PAX path")
}

/// Go's `pax-multi-hdrs.tar`: Python and GNU tar merge them.
fn header_twice() -> Construct {
    between(|tar| {
        tar.pax(&[("path", "accounts/97.1")]).pax(&[("comment", "x")]).entry(sized(1), b"x")
    })
    .refused(behind() + blocks(2), "second extension of type 'x'")
}

/// For readers that discard a header without records.
fn header_twice_and_the_first_empty() -> Construct {
    between(|tar| tar.pax_raw(b'x', b"").pax(&[("path", NAME)]).entry(sized(1), b"x"))
        .refused(behind() + blocks(1), "second extension of type 'x'")
}

/// tokio-tar's `diff-024-pending-pax-boundary.tar`: a header before the end of the archive.
fn header_of_nothing() -> Construct {
    let tar = good_beginning().account("accounts/99.9", b"the last");
    let at = tar.len();
    Construct::tar(tar.pax(&[("path", NAME)]).finish())
        .refused(at, "is not followed by the entry it belongs to")
}

/// Go's `pax-path-hdr.tar`: a header at the end of the stream.
fn header_at_the_end() -> Construct {
    let tar = good_beginning().account("accounts/99.9", b"the last");
    let at = tar.len();
    Construct::tar(tar.pax(&[("path", NAME)]).into_bytes())
        .refused(at, "is not followed by the entry it belongs to")
}

/// Readers that check the magic see a file, others a PAX header.
fn header_under_gnu_s_magic() -> Construct {
    let records = pax_record("path", NAME);
    let header = Header::new(Dialect::Gnu, b'x', "accounts/97.1", records.len() as u64);
    between(|tar| tar.entry(header, &records).entry(sized(1), b"x"))
        .refused(behind(), "does not exist in the GNU format")
}

/// The same in a v7 header, which has no types.
fn header_under_no_magic() -> Construct {
    let records = pax_record("path", NAME);
    let header = Header::new(Dialect::V7, b'x', "accounts/97.1", records.len() as u64);
    between(|tar| tar.entry(header, &records).entry(sized(1), b"x"))
        .refused(behind(), "does not exist in the v7 format")
}

/// Type `X`: PAX to Solaris and to some readers, a file to others.
fn header_of_solaris() -> Construct {
    between(|tar| tar.pax_raw(b'X', &pax_record("path", NAME)).entry(sized(1), b"x"))
        .refused(behind(), "Solaris extended header (type 'X')")
}

/// CPython PR 151498: memory was reserved for the size that a header declares. The bytes do not
/// exist.
fn header_of_4_gib() -> Construct {
    let header = Header::new(Dialect::Ustar, b'x', "PaxHeaders/0", 4 << 30);
    between(|tar| tar.entry(header, &pax_record("path", NAME)))
        .refused(behind(), "has 4294967296 bytes, limit is 1048576")
}

/// The output of `git archive`: a global header that does not affect entries.
fn global_comment() -> Construct {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    between(|tar| tar.pax_global(&[("comment", commit)]).entry(sized(1), b"x"))
        .accepted(&[(NAME, b"x")])
}

/// Go's `pax-global-records.tar`: readers that honour it give every entry this path.
fn global_path() -> Construct {
    between(|tar| tar.pax_global(&[("path", "accounts/97.1")]).entry(sized(1), b"x"))
        .refused(behind() + blocks(1), "a global header must not set path")
}

/// TARmageddon for all entries that follow.
fn global_size() -> Construct {
    between(|tar| tar.pax_global(&[("comment", "x"), ("size", "0")]).entry(sized(1), b"x"))
        .refused(behind() + blocks(1) + 13, "a global header must not set size")
}

/// Holes in all entries that follow.
fn global_sparse_keys() -> Construct {
    between(|tar| tar.pax_global(&[("GNU.sparse.major", "1")]).entry(sized(1), b"x"))
        .refused(behind() + blocks(1), "a global header must not set GNU.sparse.major")
}

/// A malformed record is malformed in a global header too.
fn global_without_a_newline() -> Construct {
    between(|tar| tar.pax_raw(b'g', b"12 comment=xy").entry(sized(1), b"x"))
        .refused(behind() + blocks(1), "there is no newline at the end given by its length")
}

/// One byte more than the limit of a global header.
fn global_header_beyond_64_kib() -> Construct {
    let body = vec![b'c'; (64 << 10) + 1];
    between(|tar| tar.pax_raw(b'g', &body).entry(sized(1), b"x"))
        .refused(behind(), "has 65537 bytes, limit is 65536")
}

/// libarchive's `test_read_format_tar_pax_g_large`.
fn global_header_of_4_gib() -> Construct {
    let header = Header::new(Dialect::Ustar, b'g', "pax_global_header", 4 << 30);
    between(|tar| tar.entry(header, &[]).entry(sized(1), b"x"))
        .refused(behind(), "has 4294967296 bytes")
}

/// A global header between an extension and its entry: readers disagree on what the extension
/// applies to.
fn global_between_a_header_and_its_entry() -> Construct {
    between(|tar| tar.pax(&[("path", NAME)]).pax_global(&[("comment", "x")]).entry(sized(1), b"x"))
        .refused(behind(), "is not followed by the entry it belongs to")
}
