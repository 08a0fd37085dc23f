//! Places of members below the destination.

/// The place of a member below the destination.
///
/// Paths are relative, valid UTF-8, without a trailing slash and without `.`, `..` or empty
/// components. An archive need not list a directory before its contents, nor at all: the creator of
/// a file must create the directories that [`parents`](Self::parents) returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement<'m> {
    /// The destination itself. There is nothing to create.
    Root,
    /// A directory to create, unless it was already created for a file.
    Directory {
        /// Its path.
        path: &'m str,
    },
    /// A regular file to create. It does not exist yet.
    File {
        /// The file's role in a snapshot.
        role: Role,
        /// Its path.
        path: &'m str,
    },
}

/// The role of a file in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The version of the snapshot's format; see [`check_version`](crate::check_version).
    Version,
    /// The results of recent transactions.
    StatusCache,
    /// The state of the bank.
    BankFile {
        /// Slot of the bank, and of the snapshot.
        slot: u64,
    },
    /// The accounts written in one slot.
    Storage {
        /// The slot.
        slot: u64,
        /// The storage's number, at most `u32::MAX / 2`. It need not be unique by itself.
        id: u32,
    },
    /// A file of an archive that is not a snapshot.
    Other,
}

impl<'m> Placement<'m> {
    /// Returns the path below the destination, empty for the destination itself.
    pub fn path(&self) -> &'m str {
        match self {
            Self::Root => "",
            Self::Directory { path } | Self::File { path, .. } => path,
        }
    }

    /// Returns the last component of the path: the name of a storage in a flat accounts directory.
    pub fn file_name(&self) -> Option<&'m str> {
        self.path().rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// Returns the directory that must exist before this can be created. `None` means the
    /// destination itself.
    pub fn parent(&self) -> Option<&'m str> {
        self.path().rsplit_once('/').map(|(parent, _)| parent)
    }

    /// Returns all directories on the way, the outermost first: for `a/b/c` they are `a` and `a/b`.
    pub fn parents(&self) -> impl Iterator<Item = &'m str> + use<'m> {
        let path = self.path();
        path.match_indices('/').map(|(end, _)| &path[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path() {
        let file = Placement::File { role: Role::Other, path: "a/b/c" };
        assert_eq!(file.file_name(), Some("c"));
        assert_eq!(file.parent(), Some("a/b"));
        assert_eq!(file.parents().collect::<Vec<_>>(), ["a", "a/b"]);

        let top = Placement::Directory { path: "a" };
        assert_eq!((top.file_name(), top.parent()), (Some("a"), None));
        assert_eq!(top.parents().count(), 0);

        assert_eq!((Placement::Root.path(), Placement::Root.file_name()), ("", None));
        assert_eq!(Placement::Root.parents().count(), 0);
    }
}
