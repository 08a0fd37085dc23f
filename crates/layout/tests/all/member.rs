//! Members without an archive.

use unsnap_tarstream::{Member, MemberKind};

/// Header offset of every member in these tests.
pub const OFFSET: u64 = 4_096;

pub fn file(path: &(impl AsRef<[u8]> + ?Sized), size: u64) -> Member<'_> {
    member(MemberKind::Regular, path, size)
}

pub fn directory(path: &(impl AsRef<[u8]> + ?Sized)) -> Member<'_> {
    member(MemberKind::Directory, path, 0)
}

pub fn member(kind: MemberKind, path: &(impl AsRef<[u8]> + ?Sized), size: u64) -> Member<'_> {
    Member {
        kind,
        path: path.as_ref(),
        link: b"",
        size,
        header_offset: OFFSET,
        payload_offset: OFFSET + 512,
        mode: None,
        mtime: None,
    }
}

/// All kinds except regular file and directory.
pub const REFUSED_KINDS: [MemberKind; 8] = [
    MemberKind::HardLink,
    MemberKind::SymbolicLink,
    MemberKind::CharDevice,
    MemberKind::BlockDevice,
    MemberKind::Fifo,
    MemberKind::Sparse,
    MemberKind::Other(b'V'),
    MemberKind::Other(b'\x1b'),
];
