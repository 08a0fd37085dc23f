//! Test corpora of other tar readers, with our verdict on each file.
//!
//! Every verdict on an accepted file agrees with the listing of GNU tar 1.34, except that sparse
//! files appear under their stored name and size. GNU tar accepts some of the refused files, with
//! or without a warning: archives without an end marker, long names with bytes after their NUL or
//! without one, repeated extensions, two sizes, a path from a global header, malformed PAX records.

use crate::seen::{SeenMember, members};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use unsnap_tarstream::printable;

enum Verdict {
    /// Kind, path, stored size and link target of each member.
    Reads(&'static [&'static str]),
    /// The whole message.
    Refuses(&'static str),
}

use Verdict::{Reads, Refuses};

#[test]
fn every_file_has_its_verdict() {
    for (file, verdict) in VERDICTS {
        let stream = fs::read(data().join(file)).expect("the table names existing files");
        match (verdict, members(&stream)) {
            (Reads(expected), Ok(read)) => {
                let read: Vec<String> = read.iter().map(describe).collect();
                assert_eq!(read, *expected, "{file}");
            }
            (Refuses(expected), Err(error)) => assert_eq!(error.to_string(), *expected, "{file}"),
            (_, outcome) => panic!("{file}: {outcome:?}"),
        }
    }
}

#[test]
fn no_file_is_without_a_verdict() {
    let mut files = BTreeSet::new();
    for folder in ["go", "tar-rs", "tokio-tar"] {
        for entry in fs::read_dir(data().join(folder)).expect("the folder exists") {
            let name = entry.expect("readable").file_name();
            // tests/e2e/verdicts.rs judges the compressed files together with the other readers.
            if Path::new(&name).extension().is_some_and(|extension| extension == "tar") {
                files.insert(format!("{folder}/{}", name.display()));
            }
        }
    }
    assert_eq!(files, VERDICTS.iter().map(|(file, _)| (*file).to_owned()).collect());
}

fn data() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tar-corpus"))
}

fn describe(member: &SeenMember) -> String {
    let text = format!("{} {} {}", member.kind, shown(&member.path), member.size);
    if member.link.is_empty() { text } else { format!("{text} -> {}", shown(&member.link)) }
}

fn shown(path: &[u8]) -> String {
    if path.len() <= 40 {
        printable(path)
    } else {
        format!("{}..({} bytes)", printable(&path[..24]), path.len())
    }
}

const VERDICTS: &[(&str, Verdict)] = &[
    ("go/file-and-dir.tar", Reads(&["regular file small.txt 5", "directory dir/ 0"])),
    (
        "go/gnu-incremental.tar",
        Refuses(
            "archive ends at byte 2560 without an end marker (0 of 2 zero blocks, entries read: 3): it was truncated or is still being written",
        ),
    ),
    (
        "go/gnu-long-nul.tar",
        Refuses("GNU extension of type 'L' at byte 512 does not hold one NUL-terminated name"),
    ),
    (
        "go/gnu-multi-hdrs.tar",
        Refuses("second extension of type 'L' for the same entry at byte 1024"),
    ),
    ("go/gnu-nil-sparse-data.tar", Reads(&["sparse file sparse.db 1000"])),
    ("go/gnu-nil-sparse-hole.tar", Reads(&["sparse file sparse.db 0"])),
    ("go/gnu-not-utf8.tar", Reads(&["regular file hi\\x80\\x81\\x82\\x83bye 0"])),
    ("go/gnu-sparse-big.tar", Reads(&["sparse file gnu-sparse 3072"])),
    ("go/gnu-utf8.tar", Reads(&["regular file ☺☻☹☺☻☹☺☻..(162 bytes) 0"])),
    ("go/gnu.tar", Reads(&["regular file small.txt 5", "regular file small2.txt 11"])),
    ("go/hardlink.tar", Reads(&["regular file file.txt 15", "hard link hard.txt 0 -> file.txt"])),
    (
        "go/hdr-only.tar",
        Refuses("directory dir/ at byte 4608 declares 5 bytes of content but can have none"),
    ),
    ("go/invalid-go17.tar", Reads(&["regular file foo 0"])),
    (
        "go/issue10968.tar",
        Refuses(
            "checksum of the header at byte 0 is not a number: \"\\x80\\x00\\x00\\x00\\x00\\x00j.\"",
        ),
    ),
    (
        "go/issue11169.tar",
        Refuses("checksum of the header at byte 0 is not a number: \"011420\\x000\""),
    ),
    ("go/issue12435.tar", Refuses("header type 'K' at byte 0 does not exist in the v7 format")),
    (
        "go/neg-size.tar",
        Refuses("tar header at byte 0 has an unknown format: its magic is \"\\x83s|\\x83ss00\""),
    ),
    (
        "go/nil-uid.tar",
        Refuses(
            "archive ends at byte 1024 without an end marker (0 of 2 zero blocks, entries read: 1): it was truncated or is still being written",
        ),
    ),
    (
        "go/pax-bad-hdr-file.tar",
        Refuses("PAX record at byte 512: there is no newline at the end given by its length"),
    ),
    (
        "go/pax-bad-mtime-file.tar",
        Refuses(
            "archive ends at byte 2560 without an end marker (0 of 2 zero blocks, entries read: 1): it was truncated or is still being written",
        ),
    ),
    (
        "go/pax-global-records.tar",
        Refuses("PAX record at byte 534: a global header must not set path"),
    ),
    (
        "go/pax-multi-hdrs.tar",
        Refuses("second extension of type 'x' for the same entry at byte 1024"),
    ),
    ("go/pax-nil-sparse-data.tar", Reads(&["sparse file GNUSparseFile.0/sparse.db 1512"])),
    ("go/pax-nil-sparse-hole.tar", Reads(&["sparse file GNUSparseFile.0/sparse.db 512"])),
    ("go/pax-nul-path.tar", Refuses("PAX record at byte 512: path contains a NUL")),
    ("go/pax-nul-xattrs.tar", Refuses("PAX record at byte 512: it has no key")),
    (
        "go/pax-path-hdr.tar",
        Refuses("extension header at byte 0 is not followed by the entry it belongs to"),
    ),
    (
        "go/pax-pos-size-file.tar",
        Refuses("entry foo at byte 1024 has two sizes: 684 in its header, 999 in its PAX header"),
    ),
    ("go/pax-records.tar", Reads(&["regular file file 0"])),
    ("go/pax-sparse-big.tar", Reads(&["sparse file GNUSparseFile.0/pax-sparse 3584"])),
    (
        "go/pax.tar",
        Reads(&[
            "regular file a/1234567891011121314151..(194 bytes) 7",
            "symbolic link a/b 0 -> 123456789101112131415161..(192 bytes)",
        ]),
    ),
    (
        "go/sparse-formats.tar",
        Reads(&[
            "sparse file sparse-gnu 95",
            "sparse file sparse-posix-0.0 95",
            "sparse file ./GNUSparseFile.1234/sparse-posix-0.1 95",
            "sparse file ./GNUSparseFile.1234/sparse-posix-1.0 1119",
            "regular file end 4",
        ]),
    ),
    ("go/star.tar", Reads(&["regular file small.txt 5", "regular file small2.txt 11"])),
    ("go/trailing-slash.tar", Reads(&["directory 123456789/123456789/1234..(300 bytes) 0"])),
    ("go/ustar-file-devs.tar", Reads(&["regular file file 0"])),
    (
        "go/ustar-file-reg.tar",
        Refuses(
            "archive ends at byte 1536 without an end marker (0 of 2 zero blocks, entries read: 1): it was truncated or is still being written",
        ),
    ),
    ("go/ustar.tar", Reads(&["regular file longname/longname/longna..(143 bytes) 6"])),
    ("go/v7.tar", Reads(&["regular file small.txt 5", "regular file small2.txt 11"])),
    (
        "go/writer-big-long.tar",
        Refuses(
            "archive is truncated at byte 1536, inside longname/longname/longname/longname/longname/longname/longname/longname/longname/longname/longname/longname/longname/longname/longname/16gig.txt: 0 of 17179869184 bytes present",
        ),
    ),
    (
        "go/writer-big.tar",
        Refuses(
            "archive is truncated at byte 512, inside tmp/16gig.txt: 0 of 17179869184 bytes present",
        ),
    ),
    (
        "go/writer.tar",
        Reads(&[
            "regular file small.txt 5",
            "regular file small2.txt 11",
            "symbolic link link.txt 0 -> small.txt",
        ]),
    ),
    ("go/xattrs.tar", Reads(&["regular file small.txt 5", "regular file small2.txt 11"])),
    (
        "tar-rs/7z_long_path.tar",
        Reads(&[
            "directory this_is_a_folder_with_a_..(103 bytes) 0",
            "regular file this_is_a_folder_with_a_..(111 bytes) 0",
        ]),
    ),
    ("tar-rs/biguid_gnu.tar", Reads(&["regular file ./test.txt 14"])),
    ("tar-rs/biguid_pax.tar", Reads(&["regular file ./test.txt 14"])),
    ("tar-rs/directory.tar", Reads(&["directory a/ 0", "directory a/b/ 0", "regular file a/c 2"])),
    ("tar-rs/duplicate_dirs.tar", Reads(&["directory some_dir/ 0", "directory some_dir/ 0"])),
    ("tar-rs/empty_filename.tar", Refuses("entry at byte 0 has an empty path")),
    ("tar-rs/file_times.tar", Reads(&["regular file a 0"])),
    ("tar-rs/link.tar", Reads(&["symbolic link lnk 0 -> file", "regular file file 14"])),
    ("tar-rs/pax.tar", Reads(&["regular file Cargo.toml 760", "regular file src/lib.rs 2390"])),
    (
        "tar-rs/pax2.tar",
        Reads(&[
            "directory aaaaaaaaaaaaaaa/aaaaaaaa..(192 bytes) 0",
            "regular file aaaaaaaaaaaaaaa/aaaaaaaa..(207 bytes) 16",
            "regular file aaaaaaaaaaaaaaa/aaaaaaaa..(207 bytes) 16",
            "symbolic link bbbbbbbbbbbbbbb 0 -> aaaaaaaaaaaaaaa/aaaaaaaa..(207 bytes)",
            "hard link ccccccccccccccc 0 -> aaaaaaaaaaaaaaa/aaaaaaaa..(207 bytes)",
        ]),
    ),
    ("tar-rs/pax_size.tar", Reads(&["regular file test 4"])),
    ("tar-rs/reading_files.tar", Reads(&["regular file a 22", "regular file b 22"])),
    ("tar-rs/simple.tar", Reads(&["regular file a 0", "regular file b 0", "regular file c 0"])),
    (
        "tar-rs/simple_missing_last_header.tar",
        Reads(&["regular file a 0", "regular file b 0", "regular file c 0"]),
    ),
    ("tar-rs/spaces.tar", Reads(&["regular file a 2"])),
    ("tar-rs/sparse-1.tar", Reads(&["sparse file a.big 4108"])),
    ("tar-rs/sparse-large.tar", Reads(&["sparse file huge 1664"])),
    (
        "tar-rs/sparse.tar",
        Reads(&[
            "sparse file sparse_begin.txt 512",
            "sparse file sparse_end.txt 425",
            "sparse file sparse_ext.txt 2565",
            "sparse file sparse.txt 1024",
        ]),
    ),
    ("tar-rs/xattrs.tar", Reads(&["directory a/ 0", "regular file a/b 0"])),
    (
        "tokio-tar/diff-014-unterminated-pax.tar",
        Refuses(
            "PAX record at byte 512: its length is 13, but only 12 bytes of the header are left",
        ),
    ),
    (
        "tokio-tar/diff-024-pending-pax-boundary.tar",
        Refuses("extension header at byte 0 is not followed by the entry it belongs to"),
    ),
    (
        "tokio-tar/diff-039-truncated-entry-body.tar",
        Refuses("archive is truncated at byte 512, inside aaa: 0 of 7 bytes present"),
    ),
    (
        "tokio-tar/pax-header-precedence.tar",
        Reads(&[
            "regular file normal.txt 6",
            "regular file blob.bin 1024",
            "regular file marker.txt 7",
        ]),
    ),
    (
        "tokio-tar/pax-hidden-entry.tar",
        Reads(&["regular file file_a 1536", "regular file file_b 0", "regular file hidden 73"]),
    ),
    (
        "tokio-tar/pax-overrides-extension-header.tar",
        Refuses("GNU extension of type 'L' at byte 1536 does not hold one NUL-terminated name"),
    ),
    (
        "tokio-tar/pax-phantom-entry.tar",
        Reads(&["regular file file_a 512", "regular file file_b 1536"]),
    ),
    ("tokio-tar/pax2.tar", Reads(&["directory aaaaaaaaaaaaaaa/aaaaaaaa..(192 bytes) 0"])),
    ("tokio-tar/paxlongname.tar", Reads(&["regular file this_file_name_will_be_o..(101 bytes) 0"])),
];
