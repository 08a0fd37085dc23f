//! Accepted constructs and how they are reported.

use crate::build::{Archive, BLOCK, GNU, Header, POSIX, V7, every_construct, record};
use crate::seen::{Seen, SeenMember, members, walk};
use unsnap_tarstream::MemberKind;

/// Returns the only member of an archive.
fn only(stream: &[u8]) -> SeenMember {
    let mut members = members(stream).expect("the archive is accepted");
    assert_eq!(members.len(), 1);
    members.remove(0)
}

#[test]
fn a_genuine_account_entry() {
    // Byte for byte as Agave 4.2.2 writes it: no mode, no owner, no typeflag.
    let mut header = [0; BLOCK];
    header[..14].copy_from_slice(b"accounts/44.44");
    header[124..136].copy_from_slice(b"00000017050\0");
    header[136..148].copy_from_slice(b"00000000000\0");
    header[148..156].copy_from_slice(b"0006051\0");
    header[257..265].copy_from_slice(&GNU);
    let stream = Archive::new().raw(&header).content(&[5; 7_720]).end();
    let expected = SeenMember {
        kind: MemberKind::Regular,
        path: b"accounts/44.44".to_vec(),
        link: Vec::new(),
        size: 7_720,
        header_offset: 0,
        payload_offset: 512,
        mode: None,
        mtime: Some(0),
    };
    assert_eq!(
        walk(&stream).expect("genuine"),
        [
            Seen::Member(expected),
            Seen::Payload { range: 512..8_232, complete: true },
            Seen::End { offset: 9_728 },
        ]
    );
}

#[test]
fn every_construct_is_walked() {
    let long = ("long/".repeat(30) + "name").into_bytes();
    let seen: Vec<_> = members(&every_construct())
        .expect("accepted")
        .into_iter()
        .map(|member| (member.kind, member.path, member.link, member.size, member.header_offset))
        .collect();
    let member = |kind, path: &[u8], link: &[u8], size, header_offset| {
        (kind, path.to_vec(), link.to_vec(), size, header_offset)
    };
    assert_eq!(
        seen,
        [
            member(MemberKind::Regular, b"version", b"", 5, 1_024),
            member(MemberKind::Directory, b"snapshots/", b"", 0, 2_048),
            member(MemberKind::Regular, b"empty", b"", 0, 2_560),
            member(MemberKind::Regular, b"whole", b"", 512, 3_072),
            member(MemberKind::Regular, &long, b"", 700, 4_096),
            member(MemberKind::SymbolicLink, &long, &long, 0, 6_656),
            member(MemberKind::Regular, "päx/path".as_bytes(), b"", 1_025, 9_216),
            member(MemberKind::Regular, b"some/prefix/name", b"", 3, 12_288),
            member(MemberKind::Sparse, b"sparse", b"", 600, 13_312),
            member(MemberKind::Other(b'V'), b"label", b"", 0, 15_872),
            member(MemberKind::HardLink, b"hard", b"version", 0, 16_384),
        ]
    );
}

#[test]
fn typeflags() {
    for (flag, kind) in [
        (0, MemberKind::Regular),
        (b'0', MemberKind::Regular),
        (b'7', MemberKind::Regular),
        (b'1', MemberKind::HardLink),
        (b'2', MemberKind::SymbolicLink),
        (b'3', MemberKind::CharDevice),
        (b'4', MemberKind::BlockDevice),
        (b'5', MemberKind::Directory),
        (b'6', MemberKind::Fifo),
        (b'S', MemberKind::Sparse),
        (b'M', MemberKind::Other(b'M')),
        (b'D', MemberKind::Other(b'D')),
        (b'V', MemberKind::Other(b'V')),
        (b'A', MemberKind::Other(b'A')),
        (0xff, MemberKind::Other(0xff)),
    ] {
        let stream = Archive::new().header(&Header::of_type(flag, "name", 0)).end();
        assert_eq!(only(&stream).kind, kind, "typeflag {flag:#04x}");
    }
}

#[test]
fn unknown_kinds_have_their_payload_stepped_over() {
    let stream = Archive::new()
        .header(&Header::of_type(b'D', "dump", 14))
        .content(b"Yfile\0Nother\0\0")
        .file("next", b"x")
        .end();
    let members = members(&stream).expect("accepted");
    assert_eq!((members[0].kind, members[0].size), (MemberKind::Other(b'D'), 14));
    assert_eq!((members[1].path.as_slice(), members[1].header_offset), (&b"next"[..], 1_024));
}

#[test]
fn an_old_regular_header_with_a_slash_is_a_directory() {
    for magic in [GNU, POSIX, V7] {
        let stream = Archive::new().header(&Header::new("dir/", 0).magic(magic)).end();
        assert_eq!(only(&stream).kind, MemberKind::Directory);
        let stream = Archive::new().header(&Header::of_type(b'0', "dir/", 0).magic(magic)).end();
        assert_eq!(only(&stream).kind, MemberKind::Regular);
    }
    // The whole path counts, whatever its source.
    let stream = Archive::new().long(b'L', "dir/").header(&Header::new("dir", 0)).end();
    assert_eq!(only(&stream).kind, MemberKind::Directory);
}

#[test]
fn names_fill_their_fields() {
    let name = [b'n'; 100];
    let target = [b't'; 100];
    let header = Header::of_type(b'2', name, 0).link(target);
    let link = only(&Archive::new().header(&header).end());
    assert_eq!((link.path, link.link), (name.to_vec(), target.to_vec()));

    let mut header = Header::new(name, 0).magic(POSIX);
    header.field(345, &[b'p'; 155]);
    let expected = [&[b'p'; 155][..], b"/", &name].concat();
    assert_eq!(only(&Archive::new().header(&header).end()).path, expected);
}

#[test]
fn only_posix_headers_have_a_prefix() {
    for magic in [GNU, V7] {
        let mut header = Header::new("name", 0).magic(magic);
        header.field(345, b"12574544345");
        assert_eq!(only(&Archive::new().header(&header).end()).path, b"name");
    }
}

#[test]
fn bytes_behind_a_nul_are_not_part_of_a_name() {
    let header = Header::of_type(b'2', b"name\0junk", 0).link(b"target\0junk");
    let link = only(&Archive::new().header(&header).end());
    assert_eq!((&link.path[..], &link.link[..]), (&b"name"[..], &b"target"[..]));
}

#[test]
fn only_links_have_a_link() {
    let header = Header::new("name", 0).link("junk");
    assert_eq!(only(&Archive::new().header(&header).end()).link, b"");
}

#[test]
fn modes_and_times() {
    let fields = |mode: &[u8], mtime: &[u8]| {
        let mut header = Header::new("name", 0);
        header.field(100, mode);
        header.field(136, mtime);
        let member = only(&Archive::new().header(&header).end());
        (member.mode, member.mtime)
    };
    assert_eq!(fields(b"0000644\0", b"15300204146\0"), (Some(0o644), Some(0o15_300_204_146)));
    assert_eq!(fields(b"   755 \0", b"          1 "), (Some(0o755), Some(1)));
    assert_eq!(fields(&[0; 8], &[0; 12]), (None, None));
    assert_eq!(fields(b"garbage!", b"not a number"), (None, None));
    assert_eq!(fields(&[0xff; 8], &[0xff; 12]), (None, None), "negative");
}

#[test]
fn a_signed_checksum_is_accepted() {
    let header = Header::new("n\u{e4}me", 0);
    assert_ne!(header.block(), header.block_with_signed_sum());
    let stream = Archive::new().raw(&header.block_with_signed_sum()).end();
    assert_eq!(only(&stream).path, "n\u{e4}me".as_bytes());
}

#[test]
fn sizes_in_binary_and_from_unfilled_fields() {
    let size = |field: &[u8], content: usize| {
        let mut header = Header::new("name", 0);
        header.field(124, field);
        only(&Archive::new().header(&header).content(&vec![1; content]).end()).size
    };
    assert_eq!(size(b"\x80\0\0\0\0\0\0\0\0\0\x03\x01", 769), 769);
    assert_eq!(size(&[0; 12], 0), 0);
    assert_eq!(size(b"         12 ", 10), 10);
    assert_eq!(size(b"000000000012", 10), 10);
}

#[test]
fn pax_overrides_path_link_and_size() {
    let body = [record("path", "a\nb=c"), record("linkpath", "t"), record("mtime", "1.5")].concat();
    let stream = Archive::new()
        .pax(b'x', &body)
        .header(&Header::of_type(b'2', "short", 0).link("short").magic(POSIX))
        .file("next", b"")
        .end();
    let read = members(&stream).expect("accepted");
    assert_eq!((&read[0].path[..], &read[0].link[..]), (&b"a\nb=c"[..], &b"t"[..]));
    assert_eq!(read[1].path, b"next", "it applies to one entry only");

    // A header size of zero, and one equal to the PAX size.
    for header_size in [0, 600] {
        let stream = Archive::new()
            .pax(b'x', &record("size", "600"))
            .header(&Header::new("name", header_size))
            .content(&[9; 600])
            .end();
        assert_eq!(only(&stream).size, 600);
    }
}

#[test]
fn pax_size_does_not_apply_to_the_extension_in_between() {
    // GHSA-3cv2-h65g-fgmm: readers that applied it lost their place in the stream.
    let stream = Archive::new()
        .pax(b'x', &record("size", "2048"))
        .long(b'L', "longname.txt")
        .header(&Header::new("file", 2_048))
        .content(&[1; 2_048])
        .file("next", b"")
        .end();
    let read = members(&stream).expect("accepted");
    assert_eq!((&read[0].path[..], read[0].size), (&b"longname.txt"[..], 2_048));
    assert_eq!(read[0].header_offset, 0);
    assert_eq!(read[1].path, b"next");
}

#[test]
fn pax_and_gnu_extensions_may_each_set_another_property() {
    let stream = Archive::new()
        .long(b'K', "target")
        .pax(b'x', &record("path", "path"))
        .header(&Header::of_type(b'2', "x", 0))
        .end();
    let link = only(&stream);
    assert_eq!((&link.path[..], &link.link[..]), (&b"path"[..], &b"target"[..]));
}

#[test]
fn pax_sparse_files_are_called_sparse() {
    for key in ["GNU.sparse.map", "GNU.sparse.major", "GNU.sparse.size"] {
        let stream = Archive::new()
            .pax(b'x', &record(key, "1"))
            .header(&Header::of_type(b'0', "name", 1).magic(POSIX))
            .content(b"x")
            .file("next", b"")
            .end();
        let read = members(&stream).expect("accepted");
        assert_eq!(read[0].kind, MemberKind::Sparse, "{key}");
        assert_eq!(read[1].kind, MemberKind::Regular);
    }
}

#[test]
fn global_headers_are_stepped_over() {
    let body = record("comment", "path=no");
    let stream = Archive::new().pax(b'g', &body).pax(b'g', b"").file("name", b"").end();
    let member = only(&stream);
    assert_eq!((&member.path[..], member.header_offset), (&b"name"[..], 1_536));
}

#[test]
fn a_path_of_4095_bytes_is_accepted() {
    let path = "p".repeat(4_095);
    let stream = Archive::new().long(b'L', &path).file("x", b"").end();
    assert_eq!(only(&stream).path, path.as_bytes());
}

#[test]
fn archives_of_the_tar_crate_are_read() {
    let mut builder = tar::Builder::new(Vec::new());
    let long = "directory/".repeat(20);
    for (path, content) in [("a", &b""[..]), ("b/c", b"content"), (long.as_str(), &[7; 3_000])] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000);
        let path = path.trim_end_matches('/');
        builder.append_data(&mut header, path, content).expect("to a Vec");
    }
    let read = members(&builder.into_inner().expect("to a Vec")).expect("accepted");
    let expected = [(&b"a"[..], 0), (b"b/c", 7), (long.trim_end_matches('/').as_bytes(), 3_000)];
    assert_eq!(read.iter().map(|m| (&m.path[..], m.size)).collect::<Vec<_>>(), expected);
    assert!(read.iter().all(|m| (m.mode, m.mtime) == (Some(0o644), Some(1_700_000_000))));
}
