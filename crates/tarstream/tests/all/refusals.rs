//! Refused constructs, with the values that the errors carry.

use crate::build::{Archive, BLOCK, GNU, Header, POSIX, V7, record};
use crate::seen::{walk, walk_with};
use unsnap_tarstream::{Limits, MemberKind, NumberProblem, PaxProblem, TarError, Walker};

fn refusal(stream: &[u8]) -> TarError {
    walk(stream).expect_err("the archive is refused")
}

/// Starts an archive with a member, so that the construct under test is not at offset 0.
fn behind_a_file() -> Archive {
    Archive::new().file("first", b"12345")
}

const BEHIND: u64 = 1_024;

#[test]
fn damaged_headers() {
    let mut block = Header::new("name", 0).block();
    block[0] += 1;
    let error = refusal(&behind_a_file().raw(&block).end());
    let TarError::Checksum { offset, stored, computed } = error else { panic!("{error:?}") };
    assert_eq!((offset, stored + 1), (BEHIND, computed));

    block[148..156].fill(0);
    let error = refusal(&behind_a_file().raw(&block).end());
    assert!(matches!(error, TarError::Number { offset: BEHIND, field: "checksum", .. }));
}

#[test]
fn a_flipped_bit_in_a_header_never_goes_unnoticed() {
    let good = Archive::new().file("name", b"content").file("b", b"").end();
    let events = walk(&good).expect("accepted");
    for position in (0..BLOCK).chain(1_024..1_024 + BLOCK) {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[position] ^= 1 << bit;
            // The blanks of the checksum field itself can be written in several ways.
            let spelling = (148..156).contains(&(position % BLOCK));
            match walk(&bad) {
                Err(_) => {}
                Ok(same) => assert!(spelling && same == events, "byte {position}, bit {bit}"),
            }
        }
    }
}

#[test]
fn unknown_magic() {
    for magic in
        [b"ustar\0\0\0", b"ustar\x0001", b"ustar 00", b"ustar   ", b"USTAR  \0", b"tar\0\0\0\0\0"]
    {
        let error = refusal(&Archive::new().header(&Header::new("name", 0).magic(*magic)).end());
        assert!(matches!(error, TarError::Magic { offset: 0, .. }), "{error:?}");
    }
}

#[test]
fn sizes_that_are_no_numbers() {
    for (field, expected) in [
        (&b"            "[..], NumberProblem::Malformed),
        (b"00000000009\0", NumberProblem::Malformed),
        (b"-0000000001\0", NumberProblem::Malformed),
        (b"5\0garbage\0\0\0", NumberProblem::Malformed),
        (&[0xff; 12], NumberProblem::Negative),
        (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", NumberProblem::TooLarge),
        (b"\x8e\0\0\0\0\0\0\0\0\0\0\x01", NumberProblem::TooLarge),
    ] {
        // The same applies to an extension's size as to a file's.
        for typeflag in [b'0', b'L'] {
            let mut header = Header::of_type(typeflag, "na\x1bme", 0);
            header.field(124, field);
            let error = refusal(&behind_a_file().header(&header).end());
            let TarError::Number { offset, ref entry, field: name, problem, .. } = error else {
                panic!("{error:?}")
            };
            assert_eq!((offset, name, problem), (BEHIND, "size", expected));
            assert_eq!(entry.as_deref(), Some(r"na\x1bme"));
        }
    }
}

#[test]
fn the_largest_size_is_only_cut() {
    let mut header = Header::new("name", 0);
    header.field(124, b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
    let error = refusal(&Archive::new().header(&header).content(&[0; 100]).cut());
    let (entry, expected) = ("name".to_owned(), i64::MAX as u64);
    assert_eq!(error, TarError::TruncatedPayload { offset: 1_024, entry, found: 512, expected });
}

#[test]
fn empty_paths() {
    let error = refusal(&behind_a_file().header(&Header::new("", 0)).end());
    assert_eq!(error, TarError::EmptyPath { offset: BEHIND });
    let error = refusal(&behind_a_file().header(&Header::new("\0hidden", 0)).end());
    assert_eq!(error, TarError::EmptyPath { offset: BEHIND });
}

#[test]
fn paths_and_links_that_are_too_long() {
    let path = "p".repeat(4_096);
    for archive in [
        behind_a_file().long(b'L', &path).file("x", b""),
        behind_a_file().pax(b'x', &record("path", &path)).file("x", b""),
        behind_a_file().long(b'K', &path).header(&Header::of_type(b'2', "p", 0)),
        behind_a_file()
            .pax(b'x', &record("linkpath", &path))
            .header(&Header::of_type(b'1', "p", 0)),
    ] {
        let error = refusal(&archive.end());
        let TarError::PathTooLong { entry, found, limit, .. } = error else { panic!("{error:?}") };
        assert_eq!((found, limit), (4_096, 4_095));
        assert!(entry.len() <= 256);
    }
}

#[test]
fn content_of_kinds_without_content() {
    for (typeflag, kind) in [
        (b'1', MemberKind::HardLink),
        (b'2', MemberKind::SymbolicLink),
        (b'3', MemberKind::CharDevice),
        (b'4', MemberKind::BlockDevice),
        (b'5', MemberKind::Directory),
        (b'6', MemberKind::Fifo),
    ] {
        let expected = TarError::UnexpectedContent {
            offset: BEHIND,
            entry: "name".to_owned(),
            kind,
            found: 1,
        };
        let header = Header::of_type(typeflag, "name", 1);
        assert_eq!(refusal(&behind_a_file().header(&header).content(b"x").end()), expected);
        // Declared by PAX.
        let header = Header::of_type(typeflag, "name", 0).magic(POSIX);
        let archive = Archive::new().pax(b'x', &record("size", "1")).header(&header).content(b"x");
        assert_eq!(refusal(&archive.end()), expected);
    }
    let error = refusal(&Archive::new().file("old directory/", b"x").end());
    assert!(matches!(error, TarError::UnexpectedContent { kind: MemberKind::Directory, .. }));
}

#[test]
fn two_sizes() {
    // CVE-2025-62518 and CVE-2026-33055: a reader that trusts one size hides content that a reader
    // of the other size shows.
    for (found, pax) in [(512, 0), (512, 511), (1, 2)] {
        let archive = Archive::new()
            .pax(b'x', &record("size", pax.to_string()))
            .header(&Header::new("name", found))
            .content(&[0; 512]);
        let entry = "name".to_owned();
        let expected = TarError::SizeConflict { offset: BEHIND, entry, found, pax };
        assert_eq!(refusal(&archive.end()), expected);
    }
}

#[test]
fn extensions_under_a_foreign_magic() {
    for (flag, magic, format) in [
        (b'x', GNU, "GNU"),
        (b'x', V7, "v7"),
        (b'g', GNU, "GNU"),
        (b'g', V7, "v7"),
        (b'L', V7, "v7"),
        (b'K', V7, "v7"),
    ] {
        let archive = Archive::new().extension(flag, magic, b"9 path=a\n\0").file("x", b"");
        let expected = TarError::ForeignType { offset: 0, flag: char::from(flag), format };
        assert_eq!(refusal(&archive.end()), expected);
    }
    for (magic, format) in [(POSIX, "POSIX"), (V7, "v7")] {
        let archive = Archive::new().header(&Header::of_type(b'S', "name", 0).magic(magic));
        let expected = TarError::ForeignType { offset: 0, flag: 'S', format };
        assert_eq!(refusal(&archive.end()), expected);
    }
    let archive = behind_a_file().pax(b'X', &record("path", "a")).file("x", b"");
    assert_eq!(refusal(&archive.end()), TarError::SolarisExtension { offset: BEHIND });
}

#[test]
fn a_size_behind_a_nul() {
    // tar-core ends the field at the NUL and reads size 0; GNU tar reads 5.
    for field in [&b"\x0000000000005"[..], b"\0\0 5 \0\0\0\0\0\0\0", b" \0\0\0\0\0\0\0\0\0\x005"] {
        let mut header = Header::new("name", 0);
        header.field(124, field);
        let expected = TarError::Number {
            offset: BEHIND,
            entry: Some("name".to_owned()),
            field: "size",
            found: unsnap_tarstream::printable(field),
            problem: NumberProblem::Malformed,
        };
        assert_eq!(refusal(&behind_a_file().header(&header).content(b"hello").end()), expected);
    }
}

#[test]
fn extensions_beyond_their_limit() {
    // Only the header exists: nothing is allocated for the size that it declares.
    let limits = Limits::default();
    for (flag, magic, limit) in [
        (b'L', GNU, limits.extension_bytes_max),
        (b'K', GNU, limits.extension_bytes_max),
        (b'x', POSIX, limits.extension_bytes_max),
        (b'g', POSIX, limits.global_header_bytes_max),
    ] {
        for found in [limit + 1, 1 << 32] {
            let header = Header::of_type(flag, "x", found).magic(magic);
            let expected =
                TarError::ExtensionTooLarge { offset: 0, flag: char::from(flag), found, limit };
            assert_eq!(refusal(&Archive::new().header(&header).end()), expected);
        }
        let header = Header::of_type(flag, "x", limit).magic(magic);
        let error = refusal(&Archive::new().header(&header).cut());
        assert!(
            matches!(error, TarError::TruncatedExtension { expected, .. } if expected == limit)
        );
    }
}

#[test]
fn an_extension_of_the_largest_size_is_accepted() {
    let body = record("comment", vec![b'c'; (1 << 20) - 17]);
    assert_eq!(body.len(), 1 << 20);
    walk(&Archive::new().pax(b'x', &body).file("x", b"").end()).expect("accepted");
}

#[test]
fn an_extension_twice() {
    for (flag, archive) in [
        ('L', Archive::new().long(b'L', "a").long(b'L', "a")),
        ('K', Archive::new().long(b'K', "a").long(b'K', "b")),
        ('x', Archive::new().pax(b'x', b"").pax(b'x', &record("path", "a"))),
    ] {
        let second = if flag == 'x' { 512 } else { 1_024 };
        let expected = TarError::DuplicateExtension { offset: second, flag };
        assert_eq!(refusal(&archive.file("x", b"").end()), expected);
    }
    // One per entry is accepted.
    let archive = Archive::new().long(b'L', "a").file("x", b"").long(b'L', "b").file("x", b"");
    walk(&archive.end()).expect("accepted");
}

#[test]
fn gnu_and_pax_at_once() {
    let path = record("path", "a");
    let link = record("linkpath", "a");
    for (archive, offset, flag, key) in [
        (Archive::new().long(b'L', "a").pax(b'x', &path), 1_536, 'L', "path"),
        (Archive::new().pax(b'x', &path).long(b'L', "a"), 1_536, 'L', "path"),
        (Archive::new().long(b'K', "a").pax(b'x', &link), 1_536, 'K', "linkpath"),
        (Archive::new().pax(b'x', &link).long(b'K', "a"), 1_536, 'K', "linkpath"),
    ] {
        let expected = TarError::ConflictingExtensions { offset, flag, key };
        assert_eq!(refusal(&archive.file("x", b"").end()), expected);
    }
}

#[test]
fn extensions_of_nothing() {
    let dangling = TarError::DanglingExtension { offset: BEHIND };
    for archive in [
        behind_a_file().long(b'L', "a"),
        behind_a_file().long(b'L', "a").long(b'K', "b"),
        behind_a_file().pax(b'x', &record("path", "a")),
        behind_a_file().pax(b'x', b""),
    ] {
        assert_eq!(refusal(&archive.clone().end()), dangling);
        assert_eq!(refusal(&archive.clone().cut()), dangling);
        let archive = archive.pax(b'g', &record("comment", "c")).file("x", b"");
        assert_eq!(refusal(&archive.end()), dangling);
    }
}

#[test]
fn long_names_that_are_not_one_name() {
    for body in [&b""[..], b"\0", b"no nul", b"one\0two\0", b"one\0two"] {
        let archive = behind_a_file().extension(b'L', GNU, body).file("x", b"");
        let expected = TarError::LongName { offset: BEHIND + 512, flag: 'L' };
        assert_eq!(refusal(&archive.end()), expected);
    }
    walk(&Archive::new().extension(b'K', GNU, b"name\0\0\0").file("x", b"").end()).expect("padded");
}

#[test]
fn pax_records() {
    let twice = |key, value| [record(key, value), record(key, value)].concat();
    let size = |found: &str| PaxProblem::Size { found: found.to_owned() };
    for (body, position, expected) in [
        (b"9 path=a".to_vec(), 0, PaxProblem::LengthOutOfRange { found: 9, available: 8 }),
        (b"9 path=ab\n".to_vec(), 0, PaxProblem::Newline),
        (b"+9 path=a\n".to_vec(), 0, PaxProblem::Length),
        (b"9 path:a\n".to_vec(), 0, PaxProblem::Key),
        ([record("a", "b"), b"\0".to_vec()].concat(), 6, PaxProblem::Length),
        (record("path", ""), 0, PaxProblem::EmptyValue { key: "path" }),
        (record("linkpath", ""), 0, PaxProblem::EmptyValue { key: "linkpath" }),
        (record("path", "a\0b"), 0, PaxProblem::NulInValue { key: "path" }),
        (record("linkpath", "a\0b"), 0, PaxProblem::NulInValue { key: "linkpath" }),
        (twice("path", "a"), 9, PaxProblem::DuplicateKey { key: "path" }),
        (twice("linkpath", "a"), 14, PaxProblem::DuplicateKey { key: "linkpath" }),
        (twice("size", "0"), 9, PaxProblem::DuplicateKey { key: "size" }),
        (record("size", ""), 0, size("")),
        (record("size", "+1"), 0, size("+1")),
        (record("size", "-1"), 0, size("-1")),
        (record("size", "1.0"), 0, size("1.0")),
        (record("size", "9223372036854775808"), 0, size("9223372036854775808")),
    ] {
        let archive = behind_a_file().pax(b'x', &body).file("x", b"");
        let expected = TarError::Pax { offset: BEHIND + 512 + position, problem: expected };
        assert_eq!(refusal(&archive.end()), expected);
    }
    let archive = Archive::new().pax(b'x', &twice("comment", "a")).file("x", b"");
    walk(&archive.end()).expect("keys without effect may occur twice");
}

#[test]
fn global_headers_that_change_entries() {
    for key in ["path", "linkpath", "size", "GNU.sparse.major"] {
        let body = [record("comment", "c"), record(key, "1")].concat();
        let expected = TarError::Pax {
            offset: 512 + 13,
            problem: PaxProblem::GlobalKey { key: key.to_owned() },
        };
        assert_eq!(refusal(&Archive::new().pax(b'g', &body).file("x", b"").end()), expected);
    }
    let error = refusal(&Archive::new().pax(b'g', b"6 a=b").file("x", b"").end());
    let problem = PaxProblem::LengthOutOfRange { found: 6, available: 5 };
    assert_eq!(error, TarError::Pax { offset: 512, problem });
}

#[test]
fn sparse_maps_without_end() {
    let mut header = Header::of_type(b'S', "sparse", 0);
    header[482] = 1;
    let mut block = [0; BLOCK];
    block[504] = 1;
    let limits = Limits { sparse_map_blocks_max: 3, ..Limits::default() };
    let archive = Archive::new().header(&header).raw(&block).raw(&block);
    walk_with(limits, [&archive.clone().raw(&[0; BLOCK]).end()[..]]).expect("three blocks");

    let stream = archive.raw(&block).raw(&[0; BLOCK]).end();
    let error = walk_with(limits, [&stream[..]]).expect_err("four blocks");
    let entry = "sparse".to_owned();
    assert_eq!(error, TarError::SparseMapTooLong { offset: 2_560, entry, limit: 3 });
}

#[test]
fn after_a_refusal_nothing_is_accepted() {
    let mut walker = Walker::new(Limits::default());
    let good = Archive::new().file("name", b"").end();
    walker.step(&[1; BLOCK]).expect_err("no header");
    let refused = TarError::AlreadyRefused { offset: 512 };
    assert_eq!(walker.step(&good), Err(refused.clone()));
    assert_eq!(walker.finish(), Err(refused));
}

#[test]
fn messages_are_one_safe_line() {
    let mut header = Header::of_type(b'5', "evil\x1b]0;title\x07\n\u{202e}", 1);
    let errors = [
        refusal(&Archive::new().header(&header).end()),
        refusal(&Archive::new().header(&Header::new("evil\x1b\n", 9)).cut()),
        {
            header.field(257, b"\x1b[31mred");
            refusal(&Archive::new().header(&header).end())
        },
        refusal(&Archive::new().pax(b'x', &record("size", "\x1b\n")).end()),
    ];
    for error in errors {
        let message = error.to_string();
        assert!(!message.chars().any(char::is_control), "{message:?}");
        assert!(!message.contains('\u{202e}') && !message.ends_with('.'), "{message:?}");
    }
    let mut header = Header::new("name", 0);
    header.field(124, b"none");
    assert_eq!(
        refusal(&Archive::new().header(&header).end()).to_string(),
        r#"size of entry name at byte 0 is not a number: "none0000000\x00""#
    );
}
