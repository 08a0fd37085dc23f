//! Target for PAX records.

use unsnap_tarstream::MemberKind;

use crate::{
    blocks::{BLOCK, posix_header},
    walk::{Seen, walk},
};

/// Takes the body of a PAX header, placed before a file and before a symbolic link, and as a global
/// header. The entry after it must be the one that an independent parser of the records derives.
pub fn tar_pax(data: &[u8]) {
    if data.len() > BODY_BYTES_MAX {
        return;
    }
    for flag in [b'x', b'g'] {
        for (kind, typeflag) in [(MemberKind::Regular, b'0'), (MemberKind::SymbolicLink, b'2')] {
            check(data, flag, kind, typeflag);
        }
    }
}

/// Half of the limit on a global header.
const BODY_BYTES_MAX: usize = 32 << 10;

fn check(body: &[u8], flag: u8, kind: MemberKind, typeflag: u8) {
    let mut stream = posix_header(flag, "PaxHeaders/0", "", body.len()).to_vec();
    stream.extend_from_slice(body);
    stream.resize(stream.len().next_multiple_of(BLOCK), 0);
    stream.extend_from_slice(&posix_header(typeflag, "fallback", "target", 0));
    let walked = walk([&stream[..]]);
    assert_eq!(walk(stream.chunks(100)), walked);
    let found = match walked.events.first() {
        None => None,
        Some(Seen::Member(member)) => {
            let header_offset = if flag == b'x' { 0 } else { stream.len() as u64 - 512 };
            assert_eq!(member.header_offset, header_offset);
            assert_eq!(member.payload_offset, stream.len() as u64);
            let sparse = member.kind == MemberKind::Sparse;
            assert!(sparse || member.kind == kind);
            let (path, link) = (member.path.clone(), member.link.clone());
            Some(Entry { path, link, size: member.size, sparse })
        }
        Some(other) => panic!("{other:?}"),
    };
    let expected = read(body).and_then(|records| apply(&records, flag, kind));
    assert_eq!(found, expected, "flag {flag}: {:?}", walked.result);
}

/// The entry after the header.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    path: Vec<u8>,
    link: Vec<u8>,
    size: u64,
    sparse: bool,
}

/// Returns all records, or `None` if one is malformed.
fn read(mut body: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut records = Vec::new();
    while !body.is_empty() {
        let space = body.iter().position(|&byte| byte == b' ')?;
        let length: usize = digits(&body[..space])?.try_into().ok()?;
        // Leading zeros would be a second spelling.
        if body[0] == b'0' || length > body.len() || length < space + 2 {
            return None;
        }
        let (record, rest) = body.split_at(length);
        let [content @ .., b'\n'] = &record[space + 1..] else { return None };
        let mut halves = content.splitn(2, |&byte| byte == b'=');
        let (key, value) = (halves.next()?, halves.next()?);
        if key.is_empty() || key.contains(&0) {
            return None;
        }
        records.push((key, value));
        body = rest;
    }
    Some(records)
}

/// Applies the records to the entry. Returns `None` if they are not allowed.
fn apply(records: &[(&[u8], &[u8])], flag: u8, kind: MemberKind) -> Option<Entry> {
    let once = |wanted: &[u8]| -> Option<Option<&[u8]>> {
        let mut values = records.iter().filter(|(key, _)| *key == wanted).map(|(_, value)| *value);
        let first = values.next();
        if values.next().is_some() { None } else { Some(first) }
    };
    let name = |wanted: &[u8]| {
        let value = once(wanted)?;
        let good = value.is_none_or(|value| !value.is_empty() && !value.contains(&0));
        good.then_some(value)
    };
    let sparse = records.iter().any(|(key, _)| key.starts_with(b"GNU.sparse."));
    let (path, link, size) = (name(b"path")?, name(b"linkpath")?, once(b"size")?);
    if flag == b'g' && (sparse || path.is_some() || link.is_some() || size.is_some()) {
        return None;
    }
    let size = match size {
        Some(size) => digits(size).filter(|&size| i64::try_from(size).is_ok())?,
        None => 0,
    };
    let is_link = kind == MemberKind::SymbolicLink;
    let (path, link) = (path.unwrap_or(b"fallback"), link.unwrap_or(b"target"));
    if path.len() > 4095 || link.len() > 4095 || is_link && size > 0 {
        return None;
    }
    let link = if is_link { link.to_vec() } else { Vec::new() };
    Some(Entry { path: path.to_vec(), link, size, sparse })
}

fn digits(text: &[u8]) -> Option<u64> {
    let plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| plain)?.parse().ok()
}
