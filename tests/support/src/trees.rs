//! Comparison of directories with a reference extraction.

use std::{collections::BTreeSet, fmt::Display, fs, os::unix::fs::PermissionsExt, path::Path};

use unsnap_testkit::tree::{Kind, Node, Tree, read_tree, reference_entries};

/// Returns the tree that an archive must become: exactly these files and directories, with these
/// modes.
pub fn expected_tree(archive: &[u8]) -> Tree {
    let mut tree = Tree::new();
    for entry in reference_entries(archive).unwrap() {
        let path = entry.path.strip_prefix("./").unwrap_or(&entry.path).trim_end_matches('/');
        if path.is_empty() || path == "." {
            continue;
        }
        for (end, _) in path.match_indices('/') {
            tree.insert(path[..end].to_owned(), Node::Dir { mode: 0o755 });
        }
        let node = match entry.kind {
            Kind::File => Node::File { mode: 0o644, bytes: entry.bytes },
            Kind::Directory => Node::Dir { mode: 0o755 },
            // A setting for all that follows, which the reference shows as an entry.
            Kind::Other if path == "pax_global_header" => continue,
            Kind::Other => panic!("{path} is neither file nor directory"),
        };
        tree.insert(path.to_owned(), node);
    }
    tree
}

/// Returns the [`expected_tree`] of an archive in a file.
pub fn expected_tree_of(archive: &Path) -> Tree {
    expected_tree(&fs::read(archive).unwrap())
}

/// Panics with the first difference unless the directory holds exactly this.
#[track_caller]
pub fn assert_holds(directory: &Path, expected: &Tree, what: impl Display) {
    let found = read_tree(directory)
        .unwrap_or_else(|error| panic!("{what}: cannot read {}: {error}", directory.display()));
    assert_same_tree(&found, expected, &what);
    let root = fs::metadata(directory).unwrap();
    let mode = root.permissions().mode() & 0o7777;
    assert_eq!(mode, 0o755, "{what}: mode of {}: {mode:o}", directory.display());
}

/// Panics with the first difference.
#[track_caller]
pub fn assert_same_tree(found: &Tree, expected: &Tree, what: impl Display) {
    if found == expected {
        return;
    }
    let paths: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    for path in paths {
        let (found, expected) = (found.get(path), expected.get(path));
        assert!(found == expected, "{what}: {path}: found {found:?}, expected {expected:?}");
    }
}
