//! Differential target: our tar walk against the crate `tar-core`.
//!
//! The method is that of tar-core's own differential target: both parsers read the same bytes, with
//! correct checksums so that they get far. Unlike there, one of the two is stricter on purpose, so
//! if only one accepts, an entry of [`ALLOWED`] must give the reason.

use tar_core::HeaderError;
use tar_core::parse::{Limits, ParseError, ParseEvent, ParsedEntry, Parser};
use unsnap_tarstream::{MemberKind, TarError};

use crate::{
    INPUT_BYTES_MAX,
    blocks::{BLOCK, with_checksums},
    walk::{SeenMember, Walked, walk},
};

/// Takes a tar stream. Both parsers accept it and list the same members, or both refuse it, or one
/// refuses it for a reason in [`ALLOWED`]. As far as both get, they list the same members.
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
    assert!(allowed.is_some(), "only one accepts, for no reason in the list: {reason:?}");
}

/// A refusal that the other parser does not share.
#[derive(Debug)]
pub enum Refusal<'e> {
    /// We refuse.
    Ours(&'e TarError),
    /// tar-core refuses.
    Theirs(&'e TheirError),
}

/// The reason why tar-core refuses.
#[derive(Debug)]
pub enum TheirError {
    /// A parser error.
    Parse(ParseError),
    /// The stream ends too early.
    Cut,
}

/// An intended difference.
pub struct Allowed {
    /// Its name.
    pub name: &'static str,
    /// Its justification.
    pub reason: &'static str,
    applies: fn(&Refusal<'_>) -> bool,
}

macro_rules! allowed {
    ($($name:literal: $pattern:pat $(if $guard:expr)? => $reason:literal,)*) => {
        /// All intended differences, by the refusal that the other parser does not share.
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
        "tar-core lets PAX win; we refuse because readers disagree on where the member ends",
    "content of a kind without content": Refusal::Ours(TarError::UnexpectedContent { .. }) =>
        "readers disagree on whether content follows the header of a directory or link",
    "Solaris header": Refusal::Ours(TarError::SolarisExtension { .. }) =>
        "tar-core lists it as a member of unknown type",
    "foreign type": Refusal::Ours(TarError::ForeignType { .. }) =>
        "PAX outside POSIX headers, GNU extensions in v7 headers: some readers see files",
    "unknown magic": Refusal::Ours(TarError::Magic { .. }) =>
        "tar-core treats everything that is neither GNU nor POSIX as v7",
    "GNU and PAX name": Refusal::Ours(TarError::ConflictingExtensions { .. }) =>
        "tar-core lets PAX win",
    "PAX record": Refusal::Ours(TarError::Pax { .. }) =>
        "keys that count twice, empty or with NUL; sizes beyond i64; global path or size: tar-core \
         takes the last, or leaves global ones to its caller",
    "extension without entry": Refusal::Ours(TarError::DanglingExtension { .. }) =>
        "a global header between an extension and its entry makes tar-core forget the extension",
    "long name": Refusal::Ours(TarError::LongName { .. }) =>
        "tar-core strips one NUL; we require a name and NULs to the end",
    "path too long": Refusal::Ours(TarError::PathTooLong { .. }) =>
        "tar-core has no limit by default",
    "large global header": Refusal::Ours(TarError::ExtensionTooLarge { flag: 'g', .. }) =>
        "our limit is 64 KiB, tar-core's 1 MiB",
    "data after the end": Refusal::Ours(TarError::TrailingData { .. }) =>
        "tar-core ends at the end marker and leaves the rest to its caller",
    "stray zero block": Refusal::Ours(TarError::StrayZeroBlock { .. }) =>
        "tar-core 0.1.0 skips a single zero block, other readers end there",
    "number": Refusal::Ours(TarError::Number { field: "size" | "checksum", .. }) =>
        "fields of spaces, numbers beyond i64",
    // tar-core is stricter.
    "field without meaning": Refusal::Theirs(TheirError::Parse(ParseError::Header(
        HeaderError::InvalidOctal(_)))) =>
        "we accept any mode, owner, times, devices and sparse extents",
    "signed checksum": Refusal::Theirs(TheirError::Parse(ParseError::Header(
        HeaderError::ChecksumMismatch { .. }))) =>
        "some historical tars summed signed bytes; GNU tar accepts that too",
    "PAX value without meaning": Refusal::Theirs(TheirError::Parse(
        ParseError::InvalidPaxValue { .. } | ParseError::InvalidUtf8(_) | ParseError::Pax(_)
        | ParseError::InvalidPaxSparseMap(_))) =>
        "we do not parse owners, times, attributes and sparse maps in PAX; keys are bytes",
    "sparse map": Refusal::Theirs(TheirError::Parse(ParseError::TooManySparseEntries { .. }
        | ParseError::SparseNotGnu)) =>
        "we skip sparse maps, because every layout refuses sparse members",
    "extensions together": Refusal::Theirs(TheirError::Parse(
        ParseError::MetadataTooLarge { .. })) =>
        "tar-core limits an entry's extensions in total, we limit each one",
}

/// tar-core's reading of a stream.
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
    /// Sparse by PAX: the path may come from PAX, and the map be taken off the payload.
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

/// Checks that both list the same members, as far as both get. Returns `false` if they disagree on
/// a sparse member's map, so that nothing after it can be compared: every layout refuses sparse
/// members.
///
/// * PAX: we report members as stored, tar-core takes the map off the payload.
/// * GNU header: any byte but NUL continues the map (as in GNU tar), in tar-core only a 1 does.
fn same_members(ours: &Walked, theirs: &Theirs) -> bool {
    for (ours, theirs) in ours.members().zip(&theirs.members) {
        let other_map = ours.payload_offset != theirs.payload_offset;
        if theirs.pax_sparse || ours.kind == MemberKind::Sparse && other_map {
            return false;
        }
        let context = || format!("{ours:?}, {theirs:?}");
        // tar-core strips one NUL after a GNU long name, we strip all.
        assert_eq!(ours.path, trim_nuls(&theirs.path), "{}", context());
        assert_eq!(ours.size, theirs.size, "{}", context());
        assert_eq!(ours.payload_offset, theirs.payload_offset, "{}", context());
        let is_link = matches!(ours.kind, MemberKind::HardLink | MemberKind::SymbolicLink);
        // We report no target for a member that is not a link, whatever its field holds.
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
