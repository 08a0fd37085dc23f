//! Tests of the layout for snapshot archives.

use crate::member::{OFFSET, REFUSED_KINDS, directory, file, member};
use unsnap_layout::{
    ArchiveName, Layout, LayoutError, Limits, Placement, Role, SnapshotLayout, SnapshotSummary,
    Summary, check_version,
};
use unsnap_tarstream::{Member, MemberKind};

const FULL: &str = "snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";
const INCREMENTAL: &str =
    "incremental-snapshot-39-47-FgdisjK9WWpr26styZuQubshv1Du6YnWze9a6UPdY24Q.tar.zst";

/// Creates a layout for an archive with or without this name.
fn layout(name: Option<&str>) -> SnapshotLayout {
    let name = name.map(|name| ArchiveName::parse(name).expect("a name of an archive"));
    SnapshotLayout::new(Limits::default(), name)
}

/// Admits all members but the last, and returns the refusal of the last.
fn refusal(mut layout: SnapshotLayout, members: &[Member<'_>]) -> LayoutError {
    let (last, before) = members.split_last().expect("one member at least");
    for member in before {
        layout.admit(member).expect("admitted");
    }
    layout.admit(last).expect_err("the last member is refused")
}

fn refused(members: &[Member<'_>]) -> LayoutError {
    refusal(layout(None), members)
}

/// The entries that Agave 4.2.2 wrote, in its order.
const GENUINE: [(&str, u64); 9] = [
    ("version", 5),
    ("snapshots/", 0),
    ("snapshots/status_cache", 824),
    ("snapshots/47", 0),
    ("snapshots/47/47", 23_315),
    ("accounts/44.44", 7_720),
    ("accounts/40.40", 21_776),
    ("accounts/45.45", 15_760),
    ("accounts/46.46", 42_245),
];

fn genuine() -> Vec<Member<'static>> {
    GENUINE
        .iter()
        .map(|(path, size)| if *size == 0 { directory(*path) } else { file(*path, *size) })
        .collect()
}

#[test]
fn a_genuine_archive() {
    let mut layout = Layout::Snapshot(layout(Some(INCREMENTAL)));
    let placements: Vec<_> =
        genuine().iter().map(|member| layout.admit(member).expect("admitted")).collect();
    let storage = |slot, id, path| Placement::File { role: Role::Storage { slot, id }, path };
    assert_eq!(
        placements,
        [
            Placement::File { role: Role::Version, path: "version" },
            Placement::Directory { path: "snapshots" },
            Placement::File { role: Role::StatusCache, path: "snapshots/status_cache" },
            Placement::Directory { path: "snapshots/47" },
            Placement::File { role: Role::BankFile { slot: 47 }, path: "snapshots/47/47" },
            storage(44, 44, "accounts/44.44"),
            storage(40, 40, "accounts/40.40"),
            storage(45, 45, "accounts/45.45"),
            storage(46, 46, "accounts/46.46"),
        ]
    );
    assert_eq!(placements[5].file_name(), Some("44.44"));
    assert_eq!(placements[4].parents().collect::<Vec<_>>(), ["snapshots", "snapshots/47"]);

    let summary = SnapshotSummary {
        slot: 47,
        storages: 4,
        storage_bytes: 87_501,
        entries: 9,
        file_bytes: 111_645,
    };
    assert_eq!(layout.finish(), Ok(Summary::Snapshot(summary)));
    assert_eq!(summary.directories(), ["accounts", "snapshots", "snapshots/47"]);
}

#[test]
fn the_order_of_entries_does_not_matter() {
    let mut members = genuine();
    members.push(directory("accounts/"));
    let mut in_order = layout(Some(INCREMENTAL));
    for member in &members {
        in_order.admit(member).expect("admitted");
    }
    for rotation in 0..members.len() {
        members.rotate_left(1);
        for name in [None, Some(INCREMENTAL)] {
            let mut layout = layout(name);
            for member in members.iter().rev() {
                layout.admit(member).expect("admitted");
            }
            assert_eq!(layout.finish(), in_order.finish(), "rotated by {rotation}");
        }
    }
}

#[test]
fn directories_need_no_entries_and_no_slash() {
    let mut without = layout(None);
    let mut plain = layout(None);
    for member in genuine() {
        if member.kind == MemberKind::Regular {
            without.admit(&member).expect("admitted");
            plain.admit(&member).expect("admitted");
        }
    }
    assert_eq!(without.finish().map(|summary| summary.entries), Ok(7));
    for (listed, path) in
        [("snapshots", "snapshots"), ("snapshots/47/", "snapshots/47"), ("accounts", "accounts")]
    {
        assert_eq!(plain.admit(&directory(listed)), Ok(Placement::Directory { path }));
    }
}

#[test]
fn nothing_else_belongs_in_a_snapshot() {
    for path in [
        "",
        "/",
        "version/",
        "version/x",
        "/version",
        "./version",
        "Version",
        "version ",
        "version\0",
        "genesis.bin",
        "accounts//1.1",
        "accounts/1",
        "accounts/1.",
        "accounts/.1",
        "accounts/.",
        "accounts/1.1.1",
        "accounts/1.1/",
        "accounts/1.1/x",
        "accounts/a.1",
        "accounts/1.b",
        "accounts/-1.1",
        "accounts/+1.1",
        "accounts/1.+1",
        "accounts/ 1.1",
        "accounts/1.1 ",
        "accounts/1.1.meta",
        "accounts/../1.1",
        "accounts/0x1.1",
        "accounts/１.1",
        "../accounts/1.1",
        "snapshots//47",
        "snapshots/47/48",
        "snapshots/47/47/47",
        "snapshots/47/47/",
        "snapshots/47/status_cache",
        "snapshots/status_cache/",
        "snapshots/status_cache/x",
        "snapshots/status",
        "snapshots/x/x",
        "snapshots/../x",
        "snapshots/47/",
        "tmp/x",
    ] {
        let member = file(path, 5);
        let error = refused(&[member]);
        // A directory's name on a file is an error of kind.
        let wrong_kind = path == "snapshots/47/";
        let is_expected = match &error {
            LayoutError::UnexpectedEntry { offset: OFFSET, .. } => !wrong_kind,
            LayoutError::WrongKind { expected, .. } => wrong_kind && *expected == "directory",
            _ => false,
        };
        assert!(is_expected, "{path:?}: {error:?}");
    }
    let error = refused(&[file(b"accounts/1.1\xff", 5)]);
    let entry = r"accounts/1.1\xff".to_owned();
    let kind = MemberKind::Regular;
    assert_eq!(error, LayoutError::UnexpectedEntry { offset: OFFSET, entry, kind });
    assert_eq!((error.raw_offset(), error.entry()), (Some(OFFSET), Some(r"accounts/1.1\xff")));
}

#[test]
fn only_regular_files_and_directories() {
    for (path, expected) in [
        ("version", "regular file"),
        ("snapshots", "directory"),
        ("snapshots/status_cache", "regular file"),
        ("snapshots/47", "directory"),
        ("snapshots/47/47", "regular file"),
        ("accounts", "directory"),
        ("accounts/1.1", "regular file"),
    ] {
        let other = match expected {
            "directory" => MemberKind::Regular,
            _ => MemberKind::Directory,
        };
        for found in REFUSED_KINDS.into_iter().chain([other]) {
            let error = refused(&[member(found, path, 0)]);
            let entry = path.to_owned();
            assert_eq!(error, LayoutError::WrongKind { offset: OFFSET, entry, found, expected });
        }
    }
}

#[test]
fn numbers_in_names() {
    for path in
        ["accounts/01.1", "accounts/1.01", "accounts/00.1", "snapshots/047", "snapshots/00/00"]
    {
        let member = if path == "snapshots/047" { directory(path) } else { file(path, 1) };
        let entry = path.to_owned();
        assert_eq!(refused(&[member]), LayoutError::LeadingZeros { offset: OFFSET, entry });
    }
    for (path, found, limit) in [
        ("accounts/18446744073709551616.1", "18446744073709551616", u64::MAX),
        ("accounts/1.2147483648", "2147483648", 2_147_483_647),
        ("accounts/1.4294967296", "4294967296", 2_147_483_647),
        ("snapshots/18446744073709551616/18446744073709551616", "18446744073709551616", u64::MAX),
    ] {
        let (entry, found) = (path.to_owned(), found.to_owned());
        let expected = LayoutError::NumberTooLarge { offset: OFFSET, entry, found, limit };
        assert_eq!(refused(&[file(path, 1)]), expected);
    }
    for (path, slot, id) in [
        ("accounts/0.0", 0, 0),
        ("accounts/18446744073709551615.2147483647", u64::MAX, 2_147_483_647),
    ] {
        let placement = layout(None).admit(&file(path, 1));
        assert_eq!(placement, Ok(Placement::File { role: Role::Storage { slot, id }, path }));
    }
}

#[test]
fn duplicates() {
    for first in genuine() {
        let error = refused(&[first, file("accounts/9.9", 1), first]);
        let entry = String::from_utf8(first.path.to_vec()).expect("ASCII");
        let expected = match entry.strip_prefix("accounts/") {
            Some(name) => {
                let slot = name[..2].parse().expect("two digits");
                LayoutError::DuplicateSlot { offset: OFFSET, entry, slot }
            }
            None => LayoutError::Duplicate { offset: OFFSET, entry },
        };
        assert_eq!(error, expected);
    }
    // One directory with two spellings.
    let error = refused(&[directory("snapshots"), directory("snapshots/")]);
    assert!(matches!(error, LayoutError::Duplicate { .. }));
}

#[test]
fn a_slot_has_one_storage() {
    let error =
        refused(&[file("accounts/7.1", 1), file("accounts/8.1", 1), file("accounts/7.2", 1)]);
    let entry = "accounts/7.2".to_owned();
    assert_eq!(error, LayoutError::DuplicateSlot { offset: OFFSET, entry, slot: 7 });
    assert_eq!(
        error.to_string(),
        "accounts/7.2 at byte 4096 is the second storage of slot 7; \
         a validator refuses such a snapshot when it loads it"
    );
}

#[test]
fn sizes_of_files() {
    let limits = Limits::default();
    for (path, limit) in [
        ("version", limits.version_bytes_max),
        ("snapshots/status_cache", limits.status_cache_bytes_max),
        ("snapshots/47/47", limits.bank_file_bytes_max),
        ("accounts/1.1", limits.storage_bytes_max),
    ] {
        let entry = path.to_owned();
        assert_eq!(refused(&[file(path, 0)]), LayoutError::EmptyFile { offset: OFFSET, entry });
        layout(None).admit(&file(path, 1)).expect("the smallest");
        layout(None).admit(&file(path, limit)).expect("the largest");
        let (entry, found) = (path.to_owned(), limit + 1);
        let expected = LayoutError::FileTooLarge { offset: OFFSET, entry, found, limit };
        assert_eq!(refused(&[file(path, found)]), expected);
    }
    assert_eq!((limits.version_bytes_max, limits.storage_bytes_max), (8, 17_179_869_184));
    assert_eq!(limits.bank_file_bytes_max, 34_359_738_368);
}

#[test]
fn counts_and_sums() {
    let limits = Limits { entries_max: 2, actual_bytes_max: 10, ..Limits::default() };
    let small = || SnapshotLayout::new(limits, None);
    let entry = || "accounts/3.3".to_owned();
    let (a, b) = (file("accounts/1.1", 4), file("accounts/2.2", 6));
    let error = refusal(small(), &[a, b, file("accounts/3.3", 1)]);
    assert_eq!(error, LayoutError::TooManyEntries { offset: OFFSET, entry: entry(), limit: 2 });

    let error = refusal(small(), &[b, file("accounts/3.3", 5)]);
    let expected =
        LayoutError::TotalTooLarge { offset: OFFSET, entry: entry(), found: 11, limit: 10 };
    assert_eq!(error, expected);

    let limits = Limits { apparent_bytes_max: 5, ..Limits::default() };
    let error = refusal(SnapshotLayout::new(limits, None), &[b]);
    assert!(matches!(error, LayoutError::TotalTooLarge { found: 6, limit: 5, .. }));

    let mut layout = small();
    layout.admit(&a).expect("4 bytes");
    let error = layout.admit(&file("accounts/3.3", u64::MAX)).expect_err("an overflow");
    assert!(matches!(error, LayoutError::TotalTooLarge { found: u64::MAX, .. }));
}

#[test]
fn the_bank_is_of_the_snapshots_slot() {
    let wrong = |entry: &str, found, expected| {
        let entry = entry.to_owned();
        LayoutError::WrongSlot { offset: OFFSET, entry, found, expected }
    };
    // Checked against the archive's name.
    for (member, entry) in [
        (directory("snapshots/48"), "snapshots/48"),
        (file("snapshots/48/48", 1), "snapshots/48/48"),
    ] {
        let error = refusal(layout(Some(INCREMENTAL)), &[member]);
        assert_eq!(error, wrong(entry, 48, 47));
    }
    // Checked against each other, in either order.
    let error = refused(&[directory("snapshots/47"), file("snapshots/48/48", 1)]);
    assert_eq!(error, wrong("snapshots/48/48", 48, 47));
    let error = refused(&[file("snapshots/47/47", 1), directory("snapshots/46")]);
    assert_eq!(error, wrong("snapshots/46", 46, 47));
    let error = refused(&[file("snapshots/47/47", 1), file("snapshots/46/46", 1)]);
    assert_eq!(error, wrong("snapshots/46/46", 46, 47));
}

#[test]
fn storages_are_of_the_snapshots_slots() {
    let entry = || "accounts/48.1".to_owned();
    let too_new = |entry: &str, found, limit| {
        let entry = entry.to_owned();
        LayoutError::StorageTooNew { offset: OFFSET, entry, found, limit }
    };
    let newest = [file("accounts/47.1", 1), file("accounts/48.1", 1)];
    assert_eq!(refusal(layout(Some(INCREMENTAL)), &newest), too_new(&entry(), 48, 47));
    let newest = [file("accounts/39.1", 1), file("accounts/40.1", 1)];
    assert_eq!(refusal(layout(Some(FULL)), &newest), too_new("accounts/40.1", 40, 39));
    // Without a name the bank determines the slot, whether it comes before or after the storages.
    let storage = file("accounts/48.1", 1);
    let bank = file("snapshots/47/47", 1);
    assert_eq!(refused(&[bank, storage]), too_new(&entry(), 48, 47));
    assert_eq!(refused(&[storage, bank]), too_new("snapshots/47/47", 48, 47));

    let oldest = [file("accounts/40.1", 1), file("accounts/39.1", 1)];
    assert_eq!(
        refusal(layout(Some(INCREMENTAL)), &oldest),
        LayoutError::StorageTooOld {
            offset: OFFSET,
            entry: "accounts/39.1".to_owned(),
            found: 39,
            base_slot: 39,
        }
    );
    layout(Some(FULL)).admit(&file("accounts/0.1", 1)).expect("a full snapshot covers all slots");
}

#[test]
fn required_entries() {
    for (missing, entry) in [
        ("version", "version"),
        ("snapshots/status_cache", "snapshots/status_cache"),
        ("snapshots/47/47", "snapshots/<slot>/<slot>"),
    ] {
        let mut layout = layout(None);
        for member in genuine().iter().filter(|member| member.path != missing.as_bytes()) {
            layout.admit(member).expect("admitted");
        }
        let error = layout.finish().expect_err("incomplete");
        assert_eq!(error, LayoutError::MissingEntry { entry });
        assert_eq!((error.raw_offset(), error.entry()), (None, Some(entry)));
    }
}

#[test]
fn versions() {
    for good in [&b"1.2.0"[..], b"v1.2.0", b"V1.2.0"] {
        assert_eq!(check_version(good), Ok(()));
    }
    for bad in [
        &b""[..],
        b"v",
        b"1.2",
        b"1.2.1",
        b"1.1.0",
        b"01.2.0",
        b"1.2.0\n",
        b" 1.2.0",
        b"1.2.0 ",
        b"vv1.2.0",
        b"1.2.0\0",
        b"1.2.00",
        b"\x1b[2J",
    ] {
        let error = check_version(bad).expect_err("another version");
        let found = unsnap_tarstream::printable(bad);
        assert_eq!(error, LayoutError::UnknownVersion { found });
        assert!(!error.to_string().contains(char::is_control));
    }
}
