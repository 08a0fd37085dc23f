//! What archives are said to be.

use std::fs;

use unsnap_test_support::{Site, genuine, genuine_full};
use unsnap_testkit::{
    compress,
    spec::{ArchiveSpec, Frames},
    tree::{files, reference_entries},
};

use crate::lookup::{index, tool};

#[test]
fn genuine_archives_are_recognised() {
    for archive in genuine() {
        let found = tool(&["inspect", "--storages", "--format", "json"], &archive);
        let found = found.assert_code(0).json();
        let name = archive.file_name().unwrap().to_str().unwrap();
        let lz4 = name.ends_with("lz4");
        let guess = if lz4 { "Agave, with lz4" } else { "Agave up to 4.2" };
        assert_eq!(found["producer"]["guess"], guess, "{found}");
        assert_eq!(found["bank"]["hash_check"], "matches", "{found}");
        assert_eq!(found["bank"]["slot"], found["slot"]);
        assert!(name.contains(found["hash"].as_str().unwrap()));
        let kind = if name.starts_with("incremental") { "incremental" } else { "full" };
        assert_eq!(found["kind"], kind);
        let mut storages = files(reference_entries(&fs::read(&archive).unwrap()).unwrap());
        storages.retain(|path, _| path.starts_with("accounts/"));
        let bytes: usize = storages.values().map(Vec::len).sum();
        assert_eq!(found["storages"]["count"], storages.len());
        assert_eq!(found["storages"]["bytes"], bytes);
        let in_classes = found["storages"]["sizes"].as_array().unwrap();
        let in_classes: u64 = in_classes.iter().map(|class| class["count"].as_u64().unwrap()).sum();
        assert_eq!(in_classes, storages.len() as u64);
    }
}

#[test]
fn the_makers_of_archives_are_told_by_their_frames() {
    let site = Site::new();
    let small = ArchiveSpec { total_bytes: 3_000_000, ..ArchiveSpec::default() };
    let made = |spec: ArchiveSpec| {
        let archive = site.archive(&spec);
        // All frames: how many are seen otherwise depends on the time it takes.
        let found = tool(&["inspect", "--frames", "--format", "json"], &archive);
        let found = found.assert_code(0).json();
        assert_eq!(found["bank"]["hash_check"], "matches", "{found}");
        found["producer"]["guess"].as_str().unwrap().to_owned()
    };
    assert_eq!(made(small.clone()), "Agave up to 4.2");
    let large = ArchiveSpec {
        total_bytes: 40_000_000,
        frames: Frames::AGAVE,
        seed: 1,
        ..ArchiveSpec::default()
    };
    assert_eq!(made(large), "Agave from 4.3 on");
    let firedancer = ArchiveSpec { frames: Frames::Firedancer, seed: 2, ..small.clone() };
    assert_eq!(made(firedancer), "Firedancer");
    let checksum = ArchiveSpec { checksum: true, seed: 3, ..small };
    assert_eq!(made(checksum), "the zstd command");
}

#[test]
fn frames_are_counted_by_libzstd_too_and_an_index_says_the_same() {
    let site = Site::new();
    let spec = ArchiveSpec {
        total_bytes: 3_000_000,
        frames: Frames::Sized(100_000),
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let frames = compress::zstd_frame_count(&fs::read(&archive).unwrap());
    let all = ["inspect", "--frames", "--storages", "--owners", "3", "--format", "json"];
    let by_headers = tool(&all, &archive).assert_code(0).json();
    assert_eq!(
        (&by_headers["frames"]["frames"], &by_headers["index"]),
        (&frames.into(), &false.into())
    );
    assert_eq!(by_headers["owners"].as_array().unwrap().len().min(1), 1, "{by_headers}");
    assert_eq!(by_headers["not_looked_at"].as_array().unwrap().len(), 0, "{by_headers}");
    index(&archive);
    let by_index = tool(&["inspect", "--format", "json"], &archive).assert_code(0).json();
    assert_eq!(by_index["index"], true);
    for part in ["bank", "storages", "kind", "slot", "hash"] {
        assert_eq!(by_index[part], by_headers[part], "{part}");
    }
    for part in ["frames", "bytes", "raw_bytes", "complete"] {
        assert_eq!(by_index["frames"][part], by_headers["frames"][part], "{part}");
    }
    let text = tool(&["inspect"], &archive).assert_code(0).stdout;
    assert!(text.contains('█') && text.contains("full snapshot of slot 350000000"), "{text}");
}

#[test]
fn a_bank_file_that_is_not_of_the_name_is_shown_and_is_an_error() {
    let site = Site::new();
    let name = "snapshot-40-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";
    let hash = "snapshot-39-11111111111111111111111111111111.tar.zst";
    let bytes = fs::read(genuine_full()).unwrap();
    let archive = site.write(hash, &bytes);
    let found = tool(&["inspect"], &archive).assert_code(1);
    assert!(
        found.stdout.contains("FAILED") && found.stdout.contains("capitalization"),
        "{found:?}"
    );
    found.assert_error(&["hash of the accounts"]);
    // A bank file of another slot than the name's does not even belong into the archive.
    let archive = site.write(name, &bytes);
    tool(&["inspect"], &archive).assert_code(1).assert_error(&["40"]);
}
