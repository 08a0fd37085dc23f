//! What archives are said to be.

use std::fs;

use serde_json::Value;
use unsnap_test_support::{Site, genuine, genuine_full};
use unsnap_testkit::{
    compress,
    spec::{ArchiveSpec, Frames},
    tar::{TarBuilder, snapshot_head, snapshot_tar},
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

/// Inspects bytes under a name, in both forms. The same error ends both.
#[track_caller]
fn inspect_bad(
    site: &Site,
    name: &str,
    bytes: &[u8],
    more: &[&str],
    error: &str,
) -> (String, Value) {
    let archive = site.write(name, bytes);
    let words = |format| [&["inspect", "--format", format], more].concat();
    let text = tool(&words("text"), &archive).assert_code(1).assert_error(&[error]);
    let json = tool(&words("json"), &archive).assert_code(1).assert_error(&[error]);
    assert!(text.stdout.contains("\n  examined "), "{text:?}");
    let found = json.json();
    (text.stdout, found)
}

#[test]
fn what_comes_before_damage_is_shown() {
    let site = Site::new();
    let tar = snapshot_tar(7, &[(7, 1, vec![0; 5000])]);
    let bank = position(&tar, b"snapshots/7/7\0");
    let name = "damaged.tar";

    // The bank file is cut.
    let (text, found) = inspect_bad(&site, name, &tar[..bank + 1024], &[], "error: ");
    assert!(text.contains("  bank file      NOT REACHED: "), "{text}");
    assert!(text.contains("  DAMAGED        5 entries read, up to snapshots/7/7: "), "{text}");
    assert_eq!(found["bank_not_reached"], true, "{found}");
    assert_eq!(found["damage"]["entries"], 5, "{found}");
    assert_eq!(found["damage"]["last_entry"], "snapshots/7/7", "{found}");
    assert!(found["damage"]["reason"].as_str().unwrap().contains(name), "{found}");
    assert!(!found["not_looked_at"].to_string().contains("bank file"), "{found}");

    // Nothing can be decoded.
    let mut frames = compress::zstd_frames(&tar, 1 << 20, 1);
    let middle = frames.len() / 2;
    frames.truncate(middle);
    let (text, found) = inspect_bad(&site, "cut.tar.zst", &frames, &[], "[archive-cut]");
    assert!(text.contains("CUT at byte") && text.contains("NOT REACHED"), "{text}");
    assert_eq!(found["frames"]["damage"]["is_cut"], true, "{found}");
    assert_eq!(found["compression"], "zstd", "{found}");

    // An entry that no snapshot has, with a name that a terminal must not see.
    let link = TarBuilder::new().file("version", b"1.2.0").symlink("a\x1b[31m", "/etc").finish();
    let (text, found) = inspect_bad(&site, "link.tar", &link, &[], "error: ");
    assert!(text.contains("2 entries read, up to a") && !text.contains('\x1b'), "{text}");
    assert_eq!(found["bank_not_reached"], true, "{found}");

    // No archive at all.
    let (text, found) = inspect_bad(&site, "garbage.tar", b"neither", &[], "[not-an-archive]");
    assert!(text.contains("NOT REACHED") && text.contains("(7 bytes)"), "{text}");
    assert_eq!(found["damage"]["last_entry"], Value::Null, "{found}");
}

#[test]
fn damage_behind_the_bank_file_leaves_its_fields() {
    let site = Site::new();
    let tar = snapshot_tar(7, &[(7, 1, vec![0; 5000]), (6, 2, vec![0; 5000])]);
    let cut = &tar[..tar.len() - 4096];
    let archive = site.write("behind.tar", cut);
    // It is not seen if nobody looks there.
    tool(&["inspect"], &archive).assert_code(0);
    let (text, found) = inspect_bad(&site, "behind.tar", cut, &["--storages"], "error: ");
    assert_eq!(found["bank"]["slot"], 7, "{found}");
    assert!(found.get("bank_not_reached").is_none(), "{found}");
    assert_eq!(found["storages"]["count"], 2, "{found}");
    assert!(text.contains("up to accounts/6.2") && text.contains("before the damage"), "{text}");
}

#[test]
fn a_bank_file_that_cannot_be_parsed_is_called_bad() {
    let site = Site::new();
    let tar = snapshot_head(7, b"not a bank file", b"status").finish();
    let (text, found) = inspect_bad(&site, "bad.tar", &tar, &[], "[wrong-bank]");
    assert!(text.contains("  bank file      BAD: ") && !text.contains("DAMAGED"), "{text}");
    assert_eq!((&found["bank_is_bad"], &found["bank"]), (&true.into(), &Value::Null), "{found}");
    assert!(found.get("damage").is_none(), "{found}");
}

fn position(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}
