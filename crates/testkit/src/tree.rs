//! Expected results of unpacking: reference extraction, and comparison with a directory.
//!
//! The reference uses the `tar`, `zstd` and `lz4_flex` crates, which share no code with the
//! unpacker under test. Everything is held in memory, so it suits archives of up to some hundred
//! MB.
//!
//! Paths are strings with `/`. Bytes other than printable ASCII are escaped as `\xNN`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Kinds of archive entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ordinary file, with or without a type byte.
    File,
    /// A directory.
    Directory,
    /// Links, devices and all other kinds.
    Other,
}

/// An entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path as in the archive, including a final `/`.
    pub path: String,
    /// Its kind.
    pub kind: Kind,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// An object in a directory.
#[derive(Clone, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Dir {
        /// Its permissions, without the file type bits.
        mode: u32,
    },
    /// An ordinary file.
    File {
        /// Its permissions, without the file type bits.
        mode: u32,
        /// Its contents.
        bytes: Vec<u8>,
    },
    /// A symbolic link.
    Symlink {
        /// Its target.
        target: String,
    },
    /// A device, socket or pipe.
    Other,
}

/// All objects below a directory by their paths relative to it.
pub type Tree = BTreeMap<String, Node>;

/// Returns the entries of an archive in memory: zstd or lz4, of any number of frames, or
/// uncompressed.
///
/// Reading ends at the first zero block. Later bytes are not read.
pub fn reference_entries(archive: &[u8]) -> io::Result<Vec<Entry>> {
    let tar = decompress(archive)?;
    let mut archive = ::tar::Archive::new(&tar[..]);
    archive
        .entries()?
        .map(|entry| {
            let mut entry = entry?;
            let path = printable(&entry.path_bytes());
            let kind = match entry.header().entry_type() {
                ::tar::EntryType::Regular | ::tar::EntryType::Continuous => Kind::File,
                ::tar::EntryType::Directory => Kind::Directory,
                _ => Kind::Other,
            };
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            Ok(Entry { path, kind, bytes })
        })
        .collect()
}

/// Returns the [`reference_entries`] of a file.
pub fn reference_entries_of_file(path: &Path) -> io::Result<Vec<Entry>> {
    reference_entries(&fs::read(path)?)
}

/// Returns the files among the entries, by path. Of files with the same path the last one counts.
pub fn files(entries: impl IntoIterator<Item = Entry>) -> BTreeMap<String, Vec<u8>> {
    let files = entries.into_iter().filter(|entry| entry.kind == Kind::File);
    files.map(|entry| (entry.path, entry.bytes)).collect()
}

/// Decompresses zstd or lz4, identified by the magic number. Anything else is returned unchanged.
pub fn decompress(stream: &[u8]) -> io::Result<Vec<u8>> {
    match stream.first_chunk().map(|magic| u32::from_le_bytes(*magic)) {
        Some(LZ4_MAGIC) => decompress_lz4(stream),
        Some(ZSTD_MAGIC | SKIPPABLE_MAGIC_FIRST..=SKIPPABLE_MAGIC_LAST) => {
            zstd::stream::decode_all(stream)
        }
        _ => Ok(stream.to_vec()),
    }
}

/// Returns everything below a directory.
pub fn read_tree(directory: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    read_into(&mut tree, directory, "")?;
    Ok(tree)
}

/// Panics with the first difference unless the directory holds exactly these files with these
/// bytes. Directories and permissions do not matter; links and other kinds are differences.
pub fn assert_tree_equals(directory: &Path, expected: &BTreeMap<String, Vec<u8>>) {
    let tree = read_tree(directory)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", directory.display()));
    if let Some(difference) = difference(&tree, expected) {
        panic!("{} is not as expected: {difference}", directory.display());
    }
}

/// Returns the first difference between a directory and the files it should hold, in order of
/// paths.
pub fn difference(found: &Tree, expected: &BTreeMap<String, Vec<u8>>) -> Option<Difference> {
    let is_dir = |node: &&Node| matches!(node, Node::Dir { .. });
    let paths: std::collections::BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    paths.into_iter().find_map(|path| {
        let found = found.get(path);
        let what = match (found.filter(|node| !is_dir(node)), expected.get(path)) {
            (None, None) => return None,
            (None, Some(_)) if found.is_some() => What::NotAFile,
            (None, Some(bytes)) => What::Missing { bytes: bytes.len() },
            (Some(_), None) => What::Unexpected,
            (Some(Node::File { bytes, .. }), Some(expected)) => compare(bytes, expected)?,
            (Some(_), Some(_)) => What::NotAFile,
        };
        Some(Difference { path: path.clone(), what })
    })
}

/// A difference between a directory and the expected files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path of the first object that differs.
    pub path: String,
    /// Kind of the difference.
    pub what: What,
}

/// Kinds of differences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A file is missing.
    Missing {
        /// The expected length.
        bytes: usize,
    },
    /// An unexpected object.
    Unexpected,
    /// An object that is not a file.
    NotAFile,
    /// A file differs.
    Contents {
        /// Offset of the first byte that differs, or the shorter length.
        offset: usize,
        /// Bytes from that offset on, at most 8.
        found: Vec<u8>,
        /// The expected bytes.
        expected: Vec<u8>,
        /// Length of the file.
        found_bytes: usize,
        /// The expected length.
        expected_bytes: usize,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.what {
            What::Missing { bytes } => write!(f, "{path} ({bytes} bytes) is missing"),
            What::Unexpected => write!(f, "{path} should not exist"),
            What::NotAFile => write!(f, "{path} is not a file"),
            What::Contents { offset, found, expected, found_bytes, expected_bytes } => write!(
                f,
                "{path} differs at byte {offset}: found {found:02x?}, expected {expected:02x?} \
                 ({found_bytes} and {expected_bytes} bytes)"
            ),
        }
    }
}

impl fmt::Debug for Node {
    /// Without the contents, which would hide the message of a failed assertion.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dir { mode } => write!(f, "Dir({mode:04o})"),
            Self::File { mode, bytes } => write!(f, "File({mode:04o}, {} bytes)", bytes.len()),
            Self::Symlink { target } => write!(f, "Symlink({target})"),
            Self::Other => write!(f, "Other"),
        }
    }
}

fn compare(found: &[u8], expected: &[u8]) -> Option<What> {
    if found == expected {
        return None;
    }
    let common = found.iter().zip(expected).take_while(|(found, expected)| found == expected);
    let offset = common.count();
    let from_there = |bytes: &[u8]| bytes[offset..bytes.len().min(offset + 8)].to_vec();
    Some(What::Contents {
        offset,
        found: from_there(found),
        expected: from_there(expected),
        found_bytes: found.len(),
        expected_bytes: expected.len(),
    })
}

fn read_into(tree: &mut Tree, directory: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = format!("{prefix}{}", printable(entry.file_name().as_bytes()));
        let metadata = entry.path().symlink_metadata()?;
        let mode = metadata.permissions().mode() & 0o7777;
        let node = if metadata.is_dir() {
            read_into(tree, &entry.path(), &format!("{path}/"))?;
            Node::Dir { mode }
        } else if metadata.is_file() {
            Node::File { mode, bytes: fs::read(entry.path())? }
        } else if metadata.is_symlink() {
            Node::Symlink { target: printable(entry.path().read_link()?.as_os_str().as_bytes()) }
        } else {
            Node::Other
        };
        tree.insert(path, node);
    }
    Ok(())
}

fn decompress_lz4(mut stream: &[u8]) -> io::Result<Vec<u8>> {
    let mut raw = Vec::new();
    while !stream.is_empty() {
        // The decoder stops at the end of a frame and leaves `stream` there.
        lz4_flex::frame::FrameDecoder::new(&mut stream).read_to_end(&mut raw)?;
    }
    Ok(raw)
}

fn printable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

const ZSTD_MAGIC: u32 = 0xFD2F_B528;
const LZ4_MAGIC: u32 = 0x184D_2204;
const SKIPPABLE_MAGIC_FIRST: u32 = 0x184D_2A50;
const SKIPPABLE_MAGIC_LAST: u32 = 0x184D_2A5F;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::{lz4_frames, zstd_firedancer, zstd_mixed};
    use crate::tar::snapshot_tar;

    #[test]
    fn all_compressions_give_the_same_entries() {
        let tar = snapshot_tar(10, &[(9, 1, vec![4; 100_000]), (10, 2, vec![5; 200])]);
        let entries = reference_entries(&tar).unwrap();
        assert_eq!(entries.len(), 7);
        assert_eq!(entries[1].kind, Kind::Directory);
        assert_eq!(entries[6].bytes, [5; 200]);
        for archive in [lz4_frames(&tar, 1000), zstd_mixed(&tar, 3), zstd_firedancer(&tar, 1)] {
            assert_eq!(reference_entries(&archive).unwrap(), entries);
        }
    }

    #[test]
    fn truncated_archives_are_errors() {
        let tar = snapshot_tar(10, &[(10, 2, vec![5; 2000])]);
        assert!(reference_entries(&tar[..tar.len() - 2048]).is_err());
        let zstd = zstd_mixed(&tar, 0);
        assert!(reference_entries(&zstd[..zstd.len() - 1]).is_err());
    }

    fn written(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        directory
    }

    fn expected(files: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
        files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect()
    }

    #[test]
    fn equal_trees_are_equal() {
        let files: &[(&str, &[u8])] = &[("version", b"1.2.0"), ("a/b/c", b""), ("a/d", &[9; 5000])];
        let directory = written(files);
        fs::create_dir(directory.path().join("empty")).unwrap();
        assert_tree_equals(directory.path(), &expected(files));
        let tree = read_tree(directory.path()).unwrap();
        assert_eq!(tree.len(), 6);
        assert!(matches!(tree["a/b"], Node::Dir { .. }));
    }

    #[test]
    fn the_first_difference_is_reported() {
        let directory = written(&[("b", b"same"), ("c", b"found bytes"), ("d", b"")]);
        std::os::unix::fs::symlink("b", directory.path().join("e")).unwrap();
        let tree = read_tree(directory.path()).unwrap();
        let report = |files| difference(&tree, &expected(files)).map(|d| d.to_string());
        assert_eq!(report(&[("a", b"12")]).unwrap(), "a (2 bytes) is missing");
        assert_eq!(report(&[("c", b"")]).unwrap(), "b should not exist");
        let contents = report(&[("b", b"same"), ("c", b"found BY")]).unwrap();
        assert!(contents.starts_with("c differs at byte 6: found [62, 79,"), "{contents}");
        assert!(contents.ends_with("(11 and 8 bytes)"), "{contents}");
        let link: &[(&str, &[u8])] =
            &[("b", b"same"), ("c", b"found bytes"), ("d", b""), ("e", b"")];
        assert_eq!(report(link).unwrap(), "e is not a file");
    }

    #[test]
    #[should_panic(expected = "version (5 bytes) is missing")]
    fn assertions_name_the_difference() {
        assert_tree_equals(written(&[]).path(), &expected(&[("version", b"1.2.0")]));
    }
}
