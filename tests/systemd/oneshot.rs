//! `unsnap-unpack.service`: one archive, unpacked before a validator starts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use unsnap_testkit::{
    spec::ArchiveSpec,
    tree::{assert_tree_equals, files, reference_entries_of_file},
};

use crate::{
    container::Container,
    support::{Site, ledger_tool_path},
};

const UNIT: &str = "unsnap-unpack.service";

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy").join(name)
}

/// A container as deploy/README.md makes a machine, with an archive.
fn installed() -> Option<(Container, PathBuf)> {
    let container = Container::boot()?;
    container.install(ledger_tool_path(), "/usr/local/bin/ledger-tool", 0o755);
    container.install(
        &deploy("systemd/unsnap-unpack.service"),
        &format!("/etc/systemd/system/{UNIT}"),
        0o644,
    );
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes: 4 << 20, ..ArchiveSpec::default() });
    let name = archive.file_name().unwrap().to_str().unwrap();
    let placed = container.mnt().join("snapshots").join(name);
    fs::create_dir(container.mnt().join("snapshots")).unwrap();
    fs::copy(&archive, &placed).unwrap();
    let environment = fs::read_to_string(deploy("unpack.env")).unwrap();
    container
        .write("/etc/unsnap/unpack.env", environment.replace("snapshot-SLOT-HASH.tar.zst", name));
    container
        .sh("useradd --system sol && install -d -o sol /mnt/ledger /mnt/accounts && systemctl daemon-reload")
        .succeeds();
    Some((container, placed))
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
    // A second run finds the destination not clean, and says so by its exit code.
    container.sh("systemctl start unsnap-unpack").fails();
    assert_eq!(container.property(UNIT, "ExecMainStatus"), "4");
}
