//! Our tar walk beside another one: the crate `tar-core`.
//!
//! The method is that of tar-core's own differential target: both read the same bytes, with right
//! checksums put in so that they get far. Unlike there, one of the two is stricter on purpose, so
//! where only one accepts, an entry of [`ALLOWED`] has to say why.

use tar_core::HeaderError;
use tar_core::parse::{Limits, ParseError, ParseEvent, ParsedEntry, Parser};
use unsnap_tarstream::{MemberKind, TarError};

use crate::{
    INPUT_BYTES_MAX,
    blocks::{BLOCK, with_checksums},
    walk::{SeenMember, Walked, walk},
};

/// A tar stream. Both parsers accept it and list the same members, or both refuse it, or one refuses
/// it for a reason that [`ALLOWED`] names. As far as both get, they list the same.
pub fn tar_differential(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    check(data);
    let repaired = with_checksums(data);
    if repaired != data {
        check(&repaired);
    }
}

fn check(stream: &[u8]) {
    let ours = walk([stream]);
    let theirs = parse(stream);
    if !same_members(&ours, &theirs) {
        return;
    }
    let reason = match (&ours.result, &theirs.result) {
        (Ok(()), Ok(())) => {
            assert_eq!(ours.members().count(), theirs.members.len());
            return;
        }
        (Err(_), Err(_)) => return,
        (Err(ours), Ok(())) => Refusal::Ours(ours),
        (Ok(()), Err(theirs)) => Refusal::Theirs(theirs),
    };
    let allowed = ALLOWED.iter().find(|allowed| (allowed.applies)(&reason));
    assert!(allowed.is_some(), "only one accepts, and no entry of the list says why: {reason:?}");
}

/// A refusal that the other parser does not share.
#[derive(Debug)]
pub enum Refusal<'e> {
    /// We refuse.
    Ours(&'e TarError),
    /// tar-core refuses.
    Theirs(&'e TheirError),
}

/// Why tar-core refuses.
#[derive(Debug)]
pub enum TheirError {
    /// It said so.
    Parse(ParseError),
    /// It wants more than there is.
    Cut,
}

/// A difference that is meant to be.
pub struct Allowed {
    /// What it is called.
    pub name: &'static str,
    /// Why it is right.
    pub reason: &'static str,
    applies: fn(&Refusal<'_>) -> bool,
}

macro_rules! allowed {
    ($($name:literal: $pattern:pat $(if $guard:expr)? => $reason:literal,)*) => {
        /// Every difference that is meant to be, by the refusal that the other side does not share.
        pub const ALLOWED: &[Allowed] = &[$(Allowed {
            name: $name,
            reason: $reason,
            applies: |refusal| matches!(refusal, $pattern $(if $guard)?),
        }),*];
    };
}

allowed! {
    // We are stricter.
    "two sizes": Refusal::Ours(TarError::SizeConflict { .. }) =>
        "tar-core lets PAX win; we refuse, as readers disagree on where the member ends",
    "content of what has none": Refusal::Ours(TarError::UnexpectedContent { .. }) =>
        "readers disagree on whether content follows the header of a directory or link",
    "Solaris header": Refusal::Ours(TarError::SolarisExtension { .. }) =>
        "tar-core lists it as a member of unknown type",
    "foreign type": Refusal::Ours(TarError::ForeignType { .. }) =>
        "PAX outside POSIX headers, GNU extensions in v7 headers: some readers see files",
    "unknown magic": Refusal::Ours(TarError::Magic { .. }) =>
        "tar-core takes what is neither GNU nor POSIX for v7",
    "GNU and PAX name": Refusal::Ours(TarError::ConflictingExtensions { .. }) =>
        "tar-core lets PAX win",
    "PAX record": Refusal::Ours(TarError::Pax { .. }) =>
        "keys that count twice, empty or with NUL; sizes beyond i64; global path or size: tar-core \
         takes the last, or leaves global ones to its caller",
    "extension torn off": Refusal::Ours(TarError::DanglingExtension { .. }) =>
        "a global header between an extension and its entry makes tar-core forget the extension",
    "long name": Refusal::Ours(TarError::LongName { .. }) =>
        "tar-core strips one NUL; we want a name and NULs to the end",
    "path too long": Refusal::Ours(TarError::PathTooLong { .. }) =>
        "tar-core has no limit unless told",
    "large global header": Refusal::Ours(TarError::ExtensionTooLarge { flag: 'g', .. }) =>
        "64 KiB with us, 1 MiB there",
    "data behind the end": Refusal::Ours(TarError::TrailingData { .. }) =>
        "tar-core ends at the end mark and leaves the rest to its caller",
    "stray zero block": Refusal::Ours(TarError::StrayZeroBlock { .. }) =>
        "tar-core 0.1.0 skips a single zero block, other readers end there",
    "number": Refusal::Ours(TarError::Number { field: "size" | "checksum", .. }) =>
        "fields of spaces, numbers beyond i64",
    // tar-core is stricter.
    "field without meaning": Refusal::Theirs(TheirError::Parse(ParseError::Header(
        HeaderError::InvalidOctal(_)))) =>
        "mode, owner, times, devices and sparse extents are not read by us",
    "signed checksum": Refusal::Theirs(TheirError::Parse(ParseError::Header(
        HeaderError::ChecksumMismatch { .. }))) =>
        "some historical tars added bytes up as signed ones; GNU tar accepts that too",
    "PAX value without meaning": Refusal::Theirs(TheirError::Parse(
        ParseError::InvalidPaxValue { .. } | ParseError::InvalidUtf8(_) | ParseError::Pax(_)
        | ParseError::InvalidPaxSparseMap(_))) =>
        "owners, times, attributes and sparse maps in PAX are not read by us, keys are bytes",
    "sparse map": Refusal::Theirs(TheirError::Parse(ParseError::TooManySparseEntries { .. }
        | ParseError::SparseNotGnu)) =>
        "sparse maps are stepped over by us: sparse members are refused by every layout",
    "extensions together": Refusal::Theirs(TheirError::Parse(
        ParseError::MetadataTooLarge { .. })) =>
        "tar-core limits the extensions of an entry together, we limit each",
}

/// What tar-core says about a stream.
struct Theirs {
    members: Vec<TheirMember>,
    result: Result<(), TheirError>,
}

#[derive(Debug)]
struct TheirMember {
    typeflag: u8,
    path: Vec<u8>,
    link: Vec<u8>,
    size: u64,
    payload_offset: u64,
    /// It is sparse by PAX: the path may come from there, and the map be taken off the payload.
    pax_sparse: bool,
}

fn parse(stream: &[u8]) -> Theirs {
    let mut parser = Parser::new(Limits::default());
    let mut members = Vec::new();
    let mut at = 0;
    let result = loop {
        let (consumed, entry) = match parser.parse(&stream[at..]) {
            Ok(
                ParseEvent::Entry { consumed, entry }
                | ParseEvent::SparseEntry { consumed, entry, .. },
            ) => (consumed, entry),
            Ok(ParseEvent::GlobalExtensions { consumed, .. }) => {
                at += consumed;
                continue;
            }
            Ok(ParseEvent::End { .. }) => break Ok(()),
            Ok(ParseEvent::NeedData { .. }) => break Err(TheirError::Cut),
            Err(error) => break Err(TheirError::Parse(error)),
        };
        at += consumed;
        let padded = entry.size.checked_next_multiple_of(BLOCK as u64);
        members.push(their_member(&entry, at as u64));
        let next = padded.and_then(|padded| usize::try_from(padded).ok()?.checked_add(at));
        match next.filter(|&next| next <= stream.len()) {
            Some(next) => at = next,
            None => break Err(TheirError::Cut),
        }
    };
    Theirs { members, result }
}

fn their_member(entry: &ParsedEntry<'_>, payload_offset: u64) -> TheirMember {
    let pax = entry.pax.unwrap_or_default();
    TheirMember {
        typeflag: entry.header.as_bytes()[156],
        path: entry.path.to_vec(),
        link: entry.link_target.as_ref().map(|link| link.to_vec()).unwrap_or_default(),
        size: entry.size,
        payload_offset,
        pax_sparse: pax.windows(11).any(|window| window == b"GNU.sparse."),
    }
}

/// As far as both get, they list the same. `false` where they do not agree on a sparse member's map,
/// so that nothing can be said about what follows: every layout refuses sparse members.
///
/// * By PAX: we report them as they are stored, tar-core takes the map off the payload.
/// * By GNU's header: any byte but NUL says that the map goes on (as for GNU tar), for tar-core only
///   a 1 does.
fn same_members(ours: &Walked, theirs: &Theirs) -> bool {
    for (ours, theirs) in ours.members().zip(&theirs.members) {
        let other_map = ours.payload_offset != theirs.payload_offset;
        if theirs.pax_sparse || ours.kind == MemberKind::Sparse && other_map {
            return false;
        }
        let context = || format!("{ours:?}, {theirs:?}");
        // Of NULs behind a GNU long name tar-core strips one, we all.
        assert_eq!(ours.path, trim_nuls(&theirs.path), "{}", context());
        assert_eq!(ours.size, theirs.size, "{}", context());
        assert_eq!(ours.payload_offset, theirs.payload_offset, "{}", context());
        let is_link = matches!(ours.kind, MemberKind::HardLink | MemberKind::SymbolicLink);
        // What is not a link has no target with us, whatever stands in the field.
        assert!(!is_link || ours.link == trim_nuls(&theirs.link), "{}", context());
        assert!(same_kind(ours, theirs.typeflag), "{}", context());
    }
    true
}

fn trim_nuls(mut name: &[u8]) -> &[u8] {
    while let [rest @ .., 0] = name {
        name = rest;
    }
    name
}

fn same_kind(ours: &SeenMember, typeflag: u8) -> bool {
    match ours.kind {
        MemberKind::Regular => matches!(typeflag, 0 | b'0' | b'7'),
        MemberKind::Directory => typeflag == b'5' || typeflag == 0 && ours.path.ends_with(b"/"),
        MemberKind::HardLink => typeflag == b'1',
        MemberKind::SymbolicLink => typeflag == b'2',
        MemberKind::CharDevice => typeflag == b'3',
        MemberKind::BlockDevice => typeflag == b'4',
        MemberKind::Fifo => typeflag == b'6',
        MemberKind::Sparse => typeflag == b'S',
        MemberKind::Other(flag) => typeflag == flag,
    }
}
