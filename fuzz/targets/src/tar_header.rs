//! Target for one header block.

use unsnap_tarstream::MemberKind;

use crate::{
    blocks::{BLOCK, checksum_is_right, octal, set_checksum, text},
    walk::{Seen, SeenMember, walk},
};

/// Takes one header block (missing bytes are NUL), once as it is and once with the correct
/// checksum. The walk must agree with an independent parser of the format.
pub fn tar_header(data: &[u8]) {
    let mut block = [0; BLOCK];
    let length = data.len().min(BLOCK);
    block[..length].copy_from_slice(&data[..length]);
    check(&block);
    if block != [0; BLOCK] {
        set_checksum(&mut block);
        check(&block);
    }
}

fn check(block: &[u8; BLOCK]) {
    let walked = walk([&block[..]]);
    for cut in [1, 124, 136, 148, 156, 257, 345, 511] {
        let (head, tail) = block.split_at(cut);
        assert_eq!(walk([head, tail]), walked);
    }
    // The stream ends after the block, so it is never complete.
    let error = walked.result.expect_err("an incomplete archive");
    let found = match walked.events.first() {
        Some(Seen::Member(member)) => Reading::Member(Box::new(member.clone())),
        // Errors about the block itself point at its beginning, others at the missing bytes.
        None if error.raw_offset() == 0 && !is_dangling(&error) => Reading::Refused,
        None => Reading::Nothing,
        Some(other) => panic!("{other:?}"),
    };
    assert_eq!(found, read(block), "{error}");
}

fn is_dangling(error: &unsnap_tarstream::TarError) -> bool {
    matches!(error, unsnap_tarstream::TarError::DanglingExtension { .. })
}

/// The meaning of a block.
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    Member(Box<SeenMember>),
    /// Zeros, an extension, or the first block of a member that takes more.
    Nothing,
    Refused,
}

/// The independent parser.
fn read(block: &[u8; BLOCK]) -> Reading {
    if block.iter().all(|&byte| byte == 0) {
        return Reading::Nothing;
    }
    if !checksum_is_right(block) {
        return Reading::Refused;
    }
    let (gnu, posix) = match &block[257..265] {
        b"ustar  \0" => (true, false),
        b"ustar\x0000" => (false, true),
        [0, 0, 0, 0, 0, 0, 0, 0] => (false, false),
        _ => return Reading::Refused,
    };
    let typeflag = block[156];
    let extension_bytes_max = match typeflag {
        b'L' | b'K' if gnu || posix => Some(1 << 20),
        b'x' if posix => Some(1 << 20),
        b'g' if posix => Some(64 << 10),
        b'L' | b'K' | b'x' | b'g' | b'X' => return Reading::Refused,
        _ => None,
    };
    let Some(size) = number(&block[124..136]) else { return Reading::Refused };
    match (extension_bytes_max, typeflag) {
        (Some(most), _) if size > most => return Reading::Refused,
        // A name needs at least its NUL, and an empty name is none; the error concerns the body.
        (Some(_), _) => return Reading::Nothing,
        (None, _) => {}
    }

    let mut path = text(&block[..100]).to_vec();
    if posix && block[345] != 0 {
        path = [text(&block[345..500]), b"/", &path].concat();
    }
    if path.is_empty() {
        return Reading::Refused;
    }
    let kind = match typeflag {
        0 if path.ends_with(b"/") => MemberKind::Directory,
        0 | b'0' | b'7' => MemberKind::Regular,
        b'1' => MemberKind::HardLink,
        b'2' => MemberKind::SymbolicLink,
        b'3' => MemberKind::CharDevice,
        b'4' => MemberKind::BlockDevice,
        b'5' => MemberKind::Directory,
        b'6' => MemberKind::Fifo,
        b'S' if gnu => MemberKind::Sparse,
        b'S' => return Reading::Refused,
        other => MemberKind::Other(other),
    };
    let content_allowed =
        matches!(kind, MemberKind::Regular | MemberKind::Sparse | MemberKind::Other(_));
    if size > 0 && !content_allowed {
        return Reading::Refused;
    }
    if kind == MemberKind::Sparse && block[482] != 0 {
        return Reading::Nothing;
    }
    let is_link = matches!(kind, MemberKind::HardLink | MemberKind::SymbolicLink);
    Reading::Member(Box::new(SeenMember {
        kind,
        path,
        link: if is_link { text(&block[157..257]).to_vec() } else { Vec::new() },
        size,
        header_offset: 0,
        payload_offset: 512,
        mode: filled(&block[100..108]).and_then(|mode| u32::try_from(mode).ok()),
        mtime: filled(&block[136..148]),
    }))
}

/// Parses a number that is filled in: octal, or binary after a set first bit.
fn filled(field: &[u8]) -> Option<u64> {
    if field.first().is_some_and(|first| first & 0x80 != 0) {
        // At most twelve bytes. The sign is the second bit.
        let value = field.iter().fold(0_u128, |value, &byte| value << 8 | u128::from(byte));
        let sign = 1_u128 << (8 * field.len() - 2);
        let magnitude = value & (sign - 1);
        return if value & sign == 0 {
            i64::try_from(magnitude).ok()?.try_into().ok()
        } else {
            None
        };
    }
    octal(field)
}

/// Parses a size. NULs mean zero.
fn number(field: &[u8]) -> Option<u64> {
    if field.iter().all(|&byte| byte == 0) { Some(0) } else { filled(field) }
}
