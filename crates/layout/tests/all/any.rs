//! Tests of the layout for arbitrary archives.

use crate::member::{OFFSET, REFUSED_KINDS, directory, file, member};
use proptest::prelude::*;
use unsnap_layout::{
    AnyLayout, AnySummary, Layout, LayoutError, Limits, PathProblem, Placement, Role, Summary,
};
use unsnap_tarstream::{Member, MemberKind};

fn layout() -> AnyLayout {
    AnyLayout::new(Limits::default())
}

/// Returns the placement of a single member.
fn alone<'m>(member: &Member<'m>) -> Result<Placement<'m>, LayoutError> {
    layout().admit(member)
}

/// Admits all members but the last, and returns the outcome of the last.
fn last<'m>(members: &[Member<'m>]) -> Result<Placement<'m>, LayoutError> {
    let mut layout = layout();
    let (last, before) = members.split_last().expect("one member at least");
    for member in before {
        layout.admit(member).expect("admitted");
    }
    layout.admit(last)
}

fn problem(member: &Member<'_>) -> PathProblem {
    match alone(member) {
        Err(LayoutError::UnsafePath { offset: OFFSET, problem, .. }) => problem,
        other => panic!("{:?}: {other:?}", member.path.escape_ascii().to_string()),
    }
}

#[test]
fn safe_paths() {
    let placed = |path| Ok(Placement::File { role: Role::Other, path });
    assert_eq!(alone(&file("a", 0)), placed("a"));
    assert_eq!(alone(&file("a/b.c/..d/e..", 1)), placed("a/b.c/..d/e.."));
    assert_eq!(alone(&file("./a", 1)), placed("a"));
    assert_eq!(alone(&file("naïve \\ name*?", 1)), placed("naïve \\ name*?"));
    assert_eq!(alone(&file("...", 1)), placed("..."));

    let placed = |path| Ok(Placement::Directory { path });
    for listed in ["a/b", "a/b/", "./a/b", "./a/b/"] {
        assert_eq!(alone(&directory(listed)), placed("a/b"));
    }
    for listed in [".", "./"] {
        assert_eq!(alone(&directory(listed)), Ok(Placement::Root));
    }
}

#[test]
fn unsafe_paths() {
    for (path, expected) in [
        ("/", PathProblem::Absolute),
        ("/a", PathProblem::Absolute),
        ("//a", PathProblem::Absolute),
        (".//a", PathProblem::Absolute),
        ("..", PathProblem::Upwards),
        ("../a", PathProblem::Upwards),
        ("./../a", PathProblem::Upwards),
        ("a/..", PathProblem::Upwards),
        ("a/../b", PathProblem::Upwards),
        ("a/../../b", PathProblem::Upwards),
        ("a//b", PathProblem::EmptyComponent),
        ("a/./b", PathProblem::DotComponent),
        ("a/.", PathProblem::DotComponent),
        ("././a", PathProblem::DotComponent),
        ("./.", PathProblem::DotComponent),
    ] {
        assert_eq!(problem(&file(path, 1)), expected, "{path}");
        assert_eq!(problem(&directory(path)), expected, "{path}");
    }
    assert_eq!(problem(&directory("a//")), PathProblem::EmptyComponent);
    assert_eq!(problem(&directory("a/../")), PathProblem::Upwards);
    assert_eq!(problem(&directory("")), PathProblem::EmptyComponent);
    assert_eq!(problem(&file("", 1)), PathProblem::EmptyComponent);
    assert_eq!(problem(&file(".", 1)), PathProblem::DotComponent);
    assert_eq!(problem(&file("./", 1)), PathProblem::EmptyComponent);
    for path in ["a/", "./a/", "a/b/"] {
        assert_eq!(problem(&file(path, 1)), PathProblem::TrailingSlash, "{path}");
    }
}

#[test]
fn names_of_our_own() {
    for path in [".unsnap-staging", ".unsnap-staging/a", "./.unsnap-journal", ".unsnap-probe/a/b"] {
        assert_eq!(problem(&file(path, 1)), PathProblem::Reserved, "{path}");
        assert_eq!(problem(&directory(path)), PathProblem::Reserved, "{path}");
    }
    for path in ["a/.unsnap-staging", ".unsnap", ".a.unsnap-staging", "unsnap-journal"] {
        assert!(alone(&file(path, 1)).is_ok(), "{path}");
    }
}

#[test]
fn characters_that_no_name_needs() {
    for path in [&b"\xff"[..], b"a/\xe2\x98", b"hi\x80bye"] {
        assert_eq!(problem(&file(path, 1)), PathProblem::NotUtf8);
    }
    for character in (0..0x20).chain(0x7f..0xa0) {
        let path = format!("a{}b", char::from_u32(character).expect("a character"));
        assert_eq!(problem(&file(&path, 1)), PathProblem::Control { character });
    }
    let bidirectional = [0x61c, 0x200e, 0x200f].into_iter().chain(0x202a..=0x202e);
    for character in bidirectional.chain(0x2066..=0x2069) {
        let path = format!("a{}b", char::from_u32(character).expect("a character"));
        assert_eq!(problem(&file(&path, 1)), PathProblem::Bidirectional { character });
    }
    let error = alone(&file("\u{202e}gpj.\x1b", 1)).expect_err("refused");
    assert_eq!(
        error.to_string(),
        r"path \u{202e}gpj.\x1b at byte 4096 is refused: it contains the bidirectional control U+202E"
    );
}

#[test]
fn lengths() {
    let component = "c".repeat(255);
    assert!(alone(&file(&component, 1)).is_ok());
    let too_long = PathProblem::ComponentTooLong { found: 256, limit: 255 };
    assert_eq!(problem(&file(&format!("a/{component}c/b"), 1)), too_long);
    // The limit counts bytes, not characters.
    assert_eq!(problem(&file(&"é".repeat(128), 1)), too_long);

    let path = "d/".repeat(2_047) + "f";
    assert_eq!(path.len(), 4_095);
    assert!(alone(&file(&path, 1)).is_ok());
    let too_long = PathProblem::TooLong { found: 4_096, limit: 4_095 };
    assert_eq!(problem(&file(&(path + "f"), 1)), too_long);
}

#[test]
fn only_regular_files_and_directories() {
    for found in REFUSED_KINDS {
        let (entry, expected) = ("a".to_owned(), "regular file or directory");
        let error = LayoutError::WrongKind { offset: OFFSET, entry, found, expected };
        assert_eq!(alone(&member(found, "a", 0)), Err(error));
    }
}

#[test]
fn duplicates() {
    let duplicate =
        |entry: &str| Err(LayoutError::Duplicate { offset: OFFSET, entry: entry.to_owned() });
    assert_eq!(last(&[file("a", 1), file("b", 1), file("a", 1)]), duplicate("a"));
    assert_eq!(last(&[file("a/b", 1), file("./a/b", 1)]), duplicate("./a/b"));
    assert_eq!(last(&[directory("a"), directory("a/")]), duplicate("a/"));
    assert_eq!(last(&[directory("."), directory("./")]), duplicate("./"));
    assert!(last(&[file("a", 1), file("A", 1)]).is_ok(), "names are bytes");
    assert!(last(&[file("ab/c", 1), file("a/bc", 1)]).is_ok());
}

#[test]
fn a_directory_may_be_implied_before_it_is_listed() {
    let placed = |path| Ok(Placement::Directory { path });
    assert_eq!(last(&[file("a/b/c", 1), directory("a/b")]), placed("a/b"));
    assert_eq!(last(&[directory("a/b/c"), directory("a")]), placed("a"));
    assert!(last(&[file("a/b", 1), directory("a"), directory("a")]).is_err());
}

#[test]
fn no_path_is_a_file_and_a_directory() {
    let clash = |entry: &str| {
        Err(LayoutError::FileAndDirectory { offset: OFFSET, entry: entry.to_owned() })
    };
    assert_eq!(last(&[file("a", 1), file("a/b", 1)]), clash("a/b"));
    assert_eq!(last(&[file("a", 1), file("a/b/c", 1)]), clash("a/b/c"));
    assert_eq!(last(&[file("a/b", 1), directory("a/b/c")]), clash("a/b/c"));
    assert_eq!(last(&[file("a", 1), directory("a")]), clash("a"));
    assert_eq!(last(&[directory("a"), file("a", 1)]), clash("a"));
    assert_eq!(last(&[file("a/b/c", 1), file("a/b", 1)]), clash("a/b"));
    assert_eq!(last(&[file("a/b/c", 1), file("a", 1)]), clash("a"));
    assert!(last(&[file("a", 1), file("ab", 1), file("b/a", 1)]).is_ok());
}

#[test]
fn counts_and_sums() {
    let limits = Limits { entries_max: 3, apparent_bytes_max: 10, ..Limits::default() };
    let mut layout = AnyLayout::new(limits);
    layout.admit(&file("a/b", 4)).expect("a file and a directory");
    layout.admit(&file("a/c", 6)).expect("another file");
    let too_many = |entry: &str| LayoutError::TooManyEntries {
        offset: OFFSET,
        entry: entry.to_owned(),
        limit: 3,
    };
    assert_eq!(layout.admit(&file("a/d", 0)), Err(too_many("a/d")));
    // Directories that are only implied cost memory too.
    let mut layout = AnyLayout::new(limits);
    assert_eq!(layout.admit(&file("a/b/c/d", 0)), Err(too_many("a/b/c/d")));

    let mut layout = AnyLayout::new(limits);
    layout.admit(&file("a", 6)).expect("6 bytes");
    let entry = "b".to_owned();
    let expected = LayoutError::TotalTooLarge { offset: OFFSET, entry, found: 11, limit: 10 };
    assert_eq!(layout.admit(&file("b", 5)), Err(expected));
}

#[test]
fn the_summary_counts_what_the_tree_has() {
    let mut layout = Layout::Any(layout());
    for member in
        [directory("./"), file("./a/b", 4), directory("./a"), directory("./c/d"), file("e", 0)]
    {
        layout.admit(&member).expect("admitted");
    }
    let summary = AnySummary { entries: 5, files: 2, directories: 3, file_bytes: 4 };
    assert_eq!(layout.finish(), Ok(Summary::Any(summary)));
}

proptest! {
    /// Admitted entries stay below the destination and occur once.
    #[test]
    fn admitted_paths_are_safe(
        entries in prop::collection::vec(("[ab./]{0,6}|\\PC{0,4}", any::<bool>()), 0..60),
    ) {
        let mut layout = layout();
        let mut files = Vec::new();
        for (path, is_directory) in &entries {
            let kind = if *is_directory { MemberKind::Directory } else { MemberKind::Regular };
            let Ok(placement) = layout.admit(&member(kind, path, 0)) else { continue };
            let placed = placement.path();
            prop_assert_eq!(placed.is_empty(), placement == Placement::Root);
            for component in placed.split('/').filter(|_| !placed.is_empty()) {
                prop_assert!(!matches!(component, "" | "." | ".."), "{:?}", path);
            }
            if !is_directory {
                prop_assert!(!files.contains(&placed), "{:?} occurs twice", path);
                files.push(placed);
            }
        }
    }
}
