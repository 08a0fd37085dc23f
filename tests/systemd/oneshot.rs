//! `unsnap-unpack.service`: one archive, unpacked before a validator starts.

use std::{fs, path::PathBuf};

use unsnap_testkit::tree::{assert_tree_equals, files, reference_entries_of_file};

use unsnap_test_support::skip_unsupported;

use crate::{
    container::Container,
    stage::{landlock_here, place_archive, root, staged},
};

const UNIT: &str = "unsnap-unpack.service";

/// A container with the package's files, a user sol, and an archive.
fn installed() -> Option<(Container, PathBuf)> {
    let container = staged()?;
    let archive = place_archive(&container.mnt().join("snapshots"), 350_000_000, 4 << 20);
    let environment = fs::read_to_string(root().join("deploy/unpack.env")).unwrap();
    let name = archive.file_name().unwrap().to_str().unwrap();
    container
        .write("/etc/unsnap/unpack.env", environment.replace("snapshot-SLOT-HASH.tar.zst", name));
    container.sh("useradd --system sol && install -d -o sol /mnt/ledger /mnt/accounts").succeeds();
    Some((container, archive))
}

#[test]
fn the_unit_for_one_archive_unpacks_it() {
    let Some((container, archive)) = installed() else { return };
    container.sh("systemctl start unsnap-unpack").succeeds();
    assert_eq!(container.property(UNIT, "Result"), "success");
    let output = container.mnt().join("ledger/unpacked");
    assert_tree_equals(&output, &files(reference_entries_of_file(&archive).unwrap()));
    let report = container.journal(UNIT);
    assert!(report.contains(r#""sandbox""#), "{report}");
    // The unit's own filters leave the program's sandbox alone.
    match landlock_here(&archive) {
        Some(version) => {
            assert!(report.contains(&format!(r#""landlock": "{version}""#)), "{report}");
        }
        None => skip_unsupported("this kernel has no Landlock"),
    }
    // A second run finds the destination not clean, and says so by its exit code.
    container.sh("systemctl start unsnap-unpack").fails();
    assert_eq!(container.property(UNIT, "ExecMainStatus"), "4");
}
