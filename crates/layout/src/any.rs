//! Layout of a tar archive that is not a snapshot.

use crate::error::{LayoutError, PathProblem};
use crate::limits::{Limits, Totals};
use crate::placement::{Placement, Role};
use crate::set::U64Set;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str;
use unsnap_tarstream::{Member, MemberKind, printable};

/// Admits regular files and directories under any safe relative path.
///
/// Paths are UTF-8 without control characters, relative, and made of plain components; one leading
/// `./` is removed. No top-level name may begin like unsnap's own temporary names. No path may
/// occur twice, and none may be both a file and a directory. A directory may be listed after its
/// contents.
///
/// The layout remembers each path as a keyed 64-bit hash of 8 bytes (two hashes for a listed
/// directory). If two different paths had the same hash, the archive would be refused as having a
/// duplicate; a collision never admits anything that should be refused. With five million paths
/// this happens to one archive in a million, and not again when the same archive is retried.
#[derive(Debug)]
pub struct AnyLayout {
    limits: Limits,
    totals: Totals,
    keys: RandomState,
    files: U64Set,
    /// Directories that exist: listed, or implied by a path below them.
    directories: U64Set,
    /// Directories that the archive has listed.
    listed: U64Set,
    root_listed: bool,
}

/// Totals of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnySummary {
    /// Entries of the archive.
    pub entries: u64,
    /// Regular files among them.
    pub files: u64,
    /// Directories of the unpacked tree, listed or implied, without the destination itself.
    pub directories: u64,
    /// Total size of all files in bytes.
    pub file_bytes: u64,
}

impl AnyLayout {
    /// Creates a layout for an archive of which nothing has been seen yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            totals: Totals::default(),
            keys: RandomState::new(),
            files: U64Set::new(),
            directories: U64Set::new(),
            listed: U64Set::new(),
            root_listed: false,
        }
    }

    /// Returns the place of a member. The layout is unusable after an error.
    pub fn admit<'m>(&mut self, member: &Member<'m>) -> Result<Placement<'m>, LayoutError> {
        let (offset, entry) = (member.header_offset, || printable(member.path));
        let is_directory = match member.kind {
            MemberKind::Regular => false,
            MemberKind::Directory => true,
            found => {
                let expected = "regular file or directory";
                return Err(LayoutError::WrongKind { offset, entry: entry(), found, expected });
            }
        };
        self.totals.add(member, self.limits.entries_max, self.limits.apparent_bytes_max)?;
        let path = safe_path(member.path, is_directory, &self.limits)
            .map_err(|problem| LayoutError::UnsafePath { offset, entry: entry(), problem })?;

        let Some(path) = path else {
            if self.root_listed {
                return Err(LayoutError::Duplicate { offset, entry: entry() });
            }
            self.root_listed = true;
            return Ok(Placement::Root);
        };
        let outcome = self.enter_parents(path).and_then(|hash| {
            if is_directory { self.enter_directory(hash) } else { self.enter_file(hash) }
        });
        outcome.map_err(|clash| match clash {
            Clash::Duplicate => LayoutError::Duplicate { offset, entry: entry() },
            Clash::FileAndDirectory => LayoutError::FileAndDirectory { offset, entry: entry() },
        })?;

        // Deep paths imply directories that are not charged to any entry.
        let limit = self.limits.entries_max;
        if (self.files.len() + self.directories.len()) as u64 > limit {
            return Err(LayoutError::TooManyEntries { offset, entry: entry(), limit });
        }
        Ok(if is_directory {
            Placement::Directory { path }
        } else {
            Placement::File { role: Role::Other, path }
        })
    }

    /// Returns the totals of the archive. This layout has no required entries.
    pub fn finish(&self) -> AnySummary {
        AnySummary {
            entries: self.totals.entries,
            files: self.files.len() as u64,
            directories: self.directories.len() as u64,
            file_bytes: self.totals.bytes,
        }
    }

    /// Enters all parents of a path as directories. Returns the hash of the path itself.
    fn enter_parents(&mut self, path: &str) -> Result<u64, Clash> {
        let mut hasher = self.keys.build_hasher();
        let mut hash = None;
        for component in path.split('/') {
            if let Some(parent) = hash {
                if self.files.contains(parent) {
                    return Err(Clash::FileAndDirectory);
                }
                self.directories.insert(parent);
            }
            hasher.write(component.as_bytes());
            hasher.write_u8(b'/');
            hash = Some(hasher.finish());
        }
        Ok(hash.expect("a split has at least one part"))
    }

    fn enter_directory(&mut self, hash: u64) -> Result<(), Clash> {
        if self.files.contains(hash) {
            return Err(Clash::FileAndDirectory);
        }
        self.directories.insert(hash);
        if self.listed.insert(hash) { Ok(()) } else { Err(Clash::Duplicate) }
    }

    fn enter_file(&mut self, hash: u64) -> Result<(), Clash> {
        if self.directories.contains(hash) {
            return Err(Clash::FileAndDirectory);
        }
        if self.files.insert(hash) { Ok(()) } else { Err(Clash::Duplicate) }
    }
}

/// Conflict of a path with an earlier one.
enum Clash {
    Duplicate,
    FileAndDirectory,
}

/// Reserved beginning of names at the top of the destination: files that unsnap keeps there only
/// while it unpacks.
const RESERVED: &str = ".unsnap-";

/// Returns the path to create, or `None` for the destination itself.
fn safe_path<'m>(
    listed: &'m [u8],
    is_directory: bool,
    limits: &Limits,
) -> Result<Option<&'m str>, PathProblem> {
    let (found, limit) = (listed.len(), limits.path_bytes_max);
    if found > limit {
        return Err(PathProblem::TooLong { found, limit });
    }
    let path = str::from_utf8(listed).map_err(|_| PathProblem::NotUtf8)?;
    for character in path.chars() {
        let code = u32::from(character);
        if character.is_control() {
            return Err(PathProblem::Control { character: code });
        }
        if is_bidirectional(character) {
            return Err(PathProblem::Bidirectional { character: code });
        }
    }
    if is_directory && matches!(path, "." | "./") {
        return Ok(None);
    }
    let path = path.strip_prefix("./").unwrap_or(path);
    if path.starts_with('/') {
        return Err(PathProblem::Absolute);
    }
    let path = match path.strip_suffix('/') {
        Some(_) if !is_directory => return Err(PathProblem::TrailingSlash),
        Some(stripped) => stripped,
        None => path,
    };
    if path.starts_with(RESERVED) {
        return Err(PathProblem::Reserved);
    }
    for component in path.split('/') {
        let (found, limit) = (component.len(), limits.component_bytes_max);
        match component {
            "" => return Err(PathProblem::EmptyComponent),
            "." => return Err(PathProblem::DotComponent),
            ".." => return Err(PathProblem::Upwards),
            _ if found > limit => return Err(PathProblem::ComponentTooLong { found, limit }),
            _ => {}
        }
    }
    if path.split('/').next() == Some(STAGING_NAME) {
        return Err(PathProblem::Reserved);
    }
    Ok(Some(path))
}

/// Staging directory in which `unsnap-unpack` collects the content of a mount point. An entry of
/// this name could not be published there, and anywhere else the next run would take it for files
/// left by an interrupted run.
const STAGING_NAME: &str = ".unsnap-staging";

/// The characters of Unicode's property `Bidi_Control`.
fn is_bidirectional(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}
