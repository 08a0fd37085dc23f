//! Targets for the content of an archive.

use std::collections::{BTreeMap, BTreeSet};

use unsnap_layout::{
    AnyLayout, ArchiveName, LayoutError, Limits, Placement, SnapshotLayout, check_version,
};
use unsnap_tarstream::{Member, MemberKind, printable};

use crate::{INPUT_BYTES_MAX, text::assert_safe};

/// Takes the name of an archive (or anything else) and its members, each after a NUL: a letter for
/// the kind, a letter for the size, the path. Members are admitted exactly if the model admits
/// them, up to the first refusal.
pub fn layout_snapshot(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    let name = data.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = str::from_utf8(name).ok().and_then(|name| ArchiveName::parse(name).ok());
    let mut layout = SnapshotLayout::new(Limits::default(), name);
    let mut model = SnapshotModel {
        slot: name.map(|name| name.slot()),
        base_slot: name.and_then(|name| name.base_slot()),
        ..SnapshotModel::default()
    };
    let mut placed = Placed::default();
    for member in members(data) {
        let expected = model.admit(&member);
        let Some(placement) = judge(layout.admit(&member), expected.as_deref(), &member) else {
            return;
        };
        placed.add(&placement);
    }
    match layout.finish() {
        Ok(summary) => {
            assert!(model.is_complete());
            assert_eq!(Some(summary.slot), model.slot);
            assert_eq!(summary.storages, model.storages.len() as u64);
            assert_eq!(summary.file_bytes, model.bytes);
            assert_eq!(summary.entries, placed.entries);
        }
        Err(error) => {
            assert!(!model.is_complete(), "{error}");
            assert_safe(&error.to_string());
        }
    }
    if let Err(error) = check_version(data) {
        assert!(!matches!(data, b"1.2.0" | b"v1.2.0" | b"V1.2.0"));
        assert_safe(&error.to_string());
    }
}

/// Takes the members of an archive, as for [`layout_snapshot`]. Members are admitted exactly if the
/// model, which remembers whole paths, admits them.
pub fn layout_any(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    let mut layout = AnyLayout::new(Limits::default());
    let mut model = AnyModel::default();
    let mut placed = Placed::default();
    for member in members(data) {
        let expected = model.admit(&member);
        let Some(placement) = judge(layout.admit(&member), expected.as_deref(), &member) else {
            return;
        };
        placed.add(&placement);
    }
    let summary = layout.finish();
    assert_eq!(summary.entries, placed.entries);
    assert_eq!(summary.files, placed.files.len() as u64);
    assert_eq!(summary.file_bytes, model.bytes);
    let directories = model.tree.values().filter(|entry| **entry != Known::File).count();
    assert_eq!(summary.directories, directories as u64);
}

/// Returns the layout's answer, which must equal the model's.
fn judge<'m>(
    answer: Result<Placement<'m>, LayoutError>,
    expected: Option<&str>,
    member: &Member<'_>,
) -> Option<Placement<'m>> {
    match answer {
        Ok(placement) => {
            assert_eq!(Some(placement.path()), expected, "{member:?}");
            Some(placement)
        }
        Err(error) => {
            assert_eq!(expected, None, "{error}");
            assert_safe(&error.to_string());
            error.entry().into_iter().for_each(assert_safe);
            assert!(error.raw_offset().is_none_or(|offset| offset == member.header_offset));
            None
        }
    }
}

/// Parses members as the walk may report them: a path is never empty and has no NUL.
fn members(data: &[u8]) -> impl Iterator<Item = Member<'_>> {
    let pieces = data.split(|&byte| byte == 0).skip(1).enumerate();
    pieces.filter_map(|(index, piece)| {
        let [kind, size, path @ ..] = piece else { return None };
        let kind = match kind {
            b'd' => MemberKind::Directory,
            b'l' => MemberKind::SymbolicLink,
            b'h' => MemberKind::HardLink,
            b's' => MemberKind::Sparse,
            b'o' => MemberKind::Other(*size),
            _ => MemberKind::Regular,
        };
        let file = matches!(kind, MemberKind::Regular | MemberKind::Sparse | MemberKind::Other(_));
        let size = if file { SIZES[usize::from(*size) % SIZES.len()] } else { 0 };
        let header_offset = index as u64 * 512;
        let payload_offset = header_offset + 512;
        let (mode, mtime, link) = (None, None, &b""[..]);
        let member = Member { kind, path, link, size, header_offset, payload_offset, mode, mtime };
        (!path.is_empty()).then_some(member)
    })
}

/// Sizes around every limit. A letter selects one of them, with `a` the second.
const SIZES: [u64; 16] = [
    0,
    136,
    1,
    5,
    8,
    9,
    1 << 20,
    16 << 30,
    (16 << 30) + 1,
    32 << 30,
    (32 << 30) + 1,
    4 << 40,
    (4 << 40) + 1,
    64 << 40,
    (64 << 40) + 1,
    i64::MAX as u64,
];

/// The state of the disk after everything admitted has been created.
#[derive(Default)]
struct Placed {
    entries: u64,
    files: BTreeSet<String>,
    directories: BTreeSet<String>,
}

impl Placed {
    /// Checks a [`Placement`] by itself and against the earlier ones.
    fn add(&mut self, placement: &Placement<'_>) {
        self.entries += 1;
        let path = placement.path();
        if *placement == Placement::Root {
            return;
        }
        assert!(!path.starts_with('/') && !path.contains('\0') && path.len() <= 4095);
        for component in path.split('/') {
            assert!(!matches!(component, "" | "." | ".."), "{path:?}");
            assert!(component.len() <= 255);
        }
        let controls = |character: char| character.is_control();
        assert!(!path.contains(controls), "{path:?}");
        assert_safe(&printable(path.as_bytes()));
        assert_eq!(placement.file_name(), path.split('/').next_back());
        for parent in placement.parents() {
            assert!(path.starts_with(parent) && !self.files.contains(parent), "{path:?}");
            self.directories.insert(parent.to_owned());
        }
        assert_eq!(placement.parents().last(), placement.parent());
        match placement {
            Placement::Root => {}
            Placement::Directory { .. } => {
                assert!(!self.files.contains(path), "{path:?} is already a file");
                self.directories.insert(path.to_owned());
            }
            Placement::File { .. } => {
                assert!(!self.directories.contains(path), "{path:?} is already a directory");
                assert!(self.files.insert(path.to_owned()), "{path:?} already exists");
            }
        }
    }
}

/// A plain model of a snapshot's content.
#[derive(Default)]
struct SnapshotModel {
    slot: Option<u64>,
    base_slot: Option<u64>,
    bytes: u64,
    /// Paths of all entries except storages.
    seen: BTreeSet<String>,
    storages: BTreeSet<u64>,
}

impl SnapshotModel {
    /// Returns the path of a member that belongs in the snapshot.
    fn admit(&mut self, member: &Member<'_>) -> Option<String> {
        self.bytes = self.bytes.checked_add(member.size).filter(|&bytes| bytes <= 4 << 40)?;
        let listed = str::from_utf8(member.path).ok()?;
        let is_directory = member.kind == MemberKind::Directory;
        let path = match listed.strip_suffix('/') {
            Some(path) if is_directory => path,
            Some(_) => return None,
            None => listed,
        };
        if !is_directory && member.kind != MemberKind::Regular {
            return None;
        }
        let parts: Vec<&str> = path.split('/').collect();
        let limit = match (is_directory, &parts[..]) {
            (true, ["accounts" | "snapshots"]) => None,
            (true, ["snapshots", slot]) => {
                self.bank(number(slot)?)?;
                None
            }
            (false, ["version"]) => Some(8),
            (false, ["snapshots", "status_cache"]) => Some(32 << 30),
            (false, ["snapshots", directory, file]) if directory == file => {
                self.bank(number(file)?)?;
                Some(32 << 30)
            }
            (false, ["accounts", name]) => {
                let (slot, id) = name.split_once('.')?;
                let slot = number(slot)?;
                number(id).filter(|&id| id <= u64::from(u32::MAX / 2))?;
                let too_new = self.slot.is_some_and(|bank| slot > bank);
                let too_old = self.base_slot.is_some_and(|base| slot <= base);
                if too_new || too_old || !self.storages.insert(slot) {
                    return None;
                }
                Some(16 << 30)
            }
            _ => return None,
        };
        if limit.is_some_and(|limit| member.size == 0 || member.size > limit) {
            return None;
        }
        let storage = parts[0] == "accounts" && parts.len() == 2;
        (storage || self.seen.insert(path.to_owned())).then(|| path.to_owned())
    }

    /// Checks that there is one bank, and that no storage is newer than it.
    fn bank(&mut self, slot: u64) -> Option<()> {
        let newest = self.storages.last().copied().unwrap_or(0);
        (*self.slot.get_or_insert(slot) == slot && newest <= slot).then_some(())
    }

    fn is_complete(&self) -> bool {
        let has = |path: &str| self.seen.contains(path);
        let bank = self.slot.is_some_and(|slot| has(&format!("snapshots/{slot}/{slot}")));
        bank && has("version") && has("snapshots/status_cache")
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

/// A plain model of a file tree.
#[derive(Default)]
struct AnyModel {
    bytes: u64,
    root_listed: bool,
    tree: BTreeMap<String, Known>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    File,
    /// A directory that was listed.
    Listed,
    /// A directory implied by a path below it.
    Implied,
}

impl AnyModel {
    /// Returns the path of a member that may be created.
    fn admit(&mut self, member: &Member<'_>) -> Option<String> {
        let is_directory = match member.kind {
            MemberKind::Regular => false,
            MemberKind::Directory => true,
            _ => return None,
        };
        self.bytes = self.bytes.checked_add(member.size).filter(|&bytes| bytes <= 64 << 40)?;
        let listed = str::from_utf8(member.path).ok().filter(|path| path.len() <= 4095)?;
        let marks = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
                     \u{2066}\u{2067}\u{2068}\u{2069}";
        if listed.chars().any(|character| character.is_control() || marks.contains(character)) {
            return None;
        }
        if is_directory && matches!(listed, "." | "./") {
            return (!std::mem::replace(&mut self.root_listed, true)).then(String::new);
        }
        let mut parts: Vec<&str> = listed.split('/').collect();
        if parts[0] == "." && parts.len() > 1 {
            parts.remove(0);
        }
        if is_directory && parts.len() > 1 && parts.last() == Some(&"") {
            parts.pop();
        }
        if parts.iter().any(|part| matches!(*part, "" | "." | "..") || part.len() > 255) {
            return None;
        }
        if parts[0].starts_with(".unsnap-") {
            return None;
        }
        for length in 1..parts.len() {
            let parent = parts[..length].join("/");
            if *self.tree.entry(parent).or_insert(Known::Implied) == Known::File {
                return None;
            }
        }
        let path = parts.join("/");
        let entry = if is_directory { Known::Listed } else { Known::File };
        match self.tree.insert(path.clone(), entry) {
            None => Some(path),
            Some(Known::Implied) if is_directory => Some(path),
            Some(_) => None,
        }
    }
}
