//! The law, and its judge: what may be found at a destination after a crash.
//!
//! - Success was reported: everything is there, byte for byte.
//! - It was not: nothing has happened to the destination. Or everything is there, if the crash came
//!   between the publication and its report, which no program can make one.
//!
//! Two shapes have publications of several renames. What a crash in the midst of them may leave is
//! exactly one thing for each, see [`Found::AccountsOnly`] and [`Found::PartlyMoved`].

use std::{fs, path::Path};

use unsnap_testkit::tree::{Node, Tree, read_tree};

/// What a destination is when the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It does not exist.
    Absent,
    /// It is an empty directory.
    Empty,
    /// It does not exist, and account files go to another disk.
    Accounts,
    /// It is the root of a file system, which cannot be renamed over.
    MountPoint,
}

pub const SHAPES: [Shape; 4] = [Shape::Absent, Shape::Empty, Shape::Accounts, Shape::MountPoint];

/// What is found at a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// What was there before; beside it, maybe, what the next run will remove.
    Untouched,
    /// Everything.
    Complete,
    /// With [`Shape::Accounts`]: all account files have their final name, and the output, which is
    /// published last and says that all is there, has not.
    AccountsOnly,
    /// With [`Shape::MountPoint`]: some entries have been moved, and `version`, which is moved last,
    /// has not.
    PartlyMoved,
}

/// Where a run's files go, and what they are.
pub struct Case<'a> {
    pub shape: Shape,
    pub output: &'a Path,
    /// With [`Shape::Accounts`].
    pub accounts: &'a Path,
    /// What the archive becomes.
    pub expected: &'a Tree,
}

impl Case<'_> {
    /// Says what is there, or which law that breaks.
    pub fn judge(&self, reported: bool) -> Result<Found, String> {
        let found = self.look()?;
        match (reported, found) {
            (true, Found::Complete) | (false, _) => Ok(found),
            (true, found) => Err(format!("success was reported, but it is {found:?}")),
        }
    }

    fn look(&self) -> Result<Found, String> {
        let output = read(self.output)?;
        match self.shape {
            Shape::Absent => match output {
                None => Ok(Found::Untouched),
                Some(tree) => complete(&tree, self.expected),
            },
            Shape::Empty => match output {
                None => Err("the empty directory is gone".to_owned()),
                Some(tree) if tree.is_empty() => Ok(Found::Untouched),
                Some(tree) => complete(&tree, self.expected),
            },
            Shape::Accounts => match (output, read(self.accounts)?) {
                (None, None) => Ok(Found::Untouched),
                (None, Some(accounts)) => {
                    complete(&accounts, &accounts_of(self.expected))?;
                    Ok(Found::AccountsOnly)
                }
                (Some(_), None) => Err("the output is there without the accounts".to_owned()),
                (Some(mut whole), Some(accounts)) => {
                    whole.insert("accounts".to_owned(), Node::Dir { mode: 0o755 });
                    let name = |name| format!("accounts/{name}");
                    whole.extend(accounts.into_iter().map(|(path, node)| (name(path), node)));
                    complete(&whole, self.expected)
                }
            },
            Shape::MountPoint => {
                let mut tree = output.ok_or("the mount point is gone")?;
                tree.retain(|path, _| !not_ours(path));
                if tree.is_empty() {
                    Ok(Found::Untouched)
                } else if tree.contains_key("version") {
                    complete(&tree, self.expected)
                } else {
                    // Whole entries only, as each is moved by a rename.
                    let moved = |path: &String| {
                        let top = path.split('/').next().unwrap_or(path);
                        tree.contains_key(top)
                    };
                    let mut expected = self.expected.clone();
                    expected.retain(|path, _| moved(path));
                    complete(&tree, &expected)?;
                    Ok(Found::PartlyMoved)
                }
            }
        }
    }
}

/// What a destination that is a file system holds without our doing, or for the next run to remove.
fn not_ours(path: &str) -> bool {
    ["lost+found", ".unsnap-staging"].contains(&path.split('/').next().unwrap_or(path))
}

fn accounts_of(expected: &Tree) -> Tree {
    let inside = |(path, node): (&String, &Node)| {
        Some((path.strip_prefix("accounts/")?.to_owned(), node.clone()))
    };
    expected.iter().filter_map(inside).collect()
}

fn read(directory: &Path) -> Result<Option<Tree>, String> {
    match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", directory.display())),
        Ok(_) => {}
    }
    let tree = read_tree(directory);
    tree.map(Some).map_err(|error| format!("{} is unreadable: {error}", directory.display()))
}

fn complete(found: &Tree, expected: &Tree) -> Result<Found, String> {
    if found == expected {
        return Ok(Found::Complete);
    }
    let paths: std::collections::BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let differs = |path: &&&String| found.get(**path) != expected.get(**path);
    let differing: Vec<_> = paths.iter().filter(differs).collect();
    let path = differing.first().map_or("", |path| path.as_str());
    let (is, should_be) = (found.get(path), expected.get(path));
    let count = differing.len();
    Err(format!("{count} entries differ, the first is {path}: {is:?} instead of {should_be:?}"))
}
