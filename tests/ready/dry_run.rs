//! What `prepare --dry-run` tells is what preparing does, and nothing is changed by it.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use serde_json::{Value, json};
use unsnap_test_support::{
    Site,
    ledger::{Ledger, small_archive},
};

use crate::{
    beside::{old_and_new, prepare, ready_beside, validator_on},
    fastboot,
};

/// Every name below a directory with all that a change would show in: kind, size, inode, names,
/// times.
fn listing(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let it = fs::symlink_metadata(&path).unwrap();
        let changed = (it.ctime(), it.ctime_nsec());
        let figures = (it.mode(), it.size(), it.ino(), it.nlink());
        found.push(format!("{} {figures:?} {changed:?}", path.display()));
        if it.is_dir() {
            found.extend(listing(&path));
        }
    }
    found.sort();
    found
}

/// Tells in both formats what would be done, and panics if anything is changed.
#[track_caller]
fn told(site: &Site, ledger: &Ledger, flags: &[&str]) -> (Value, String) {
    let before = listing(&site.place());
    let flags = [flags, &["--dry-run"]].concat();
    let text = fastboot("prepare", ledger, &flags).assert_code(0).stdout;
    let json = fastboot("prepare", ledger, &[&flags[..], &["--format=json"]].concat());
    let json = json.assert_code(0).json();
    assert_eq!(listing(&site.place()), before, "{flags:?}");
    (json, text)
}

/// Kind and slot of these files.
fn kinds(files: &Value) -> Vec<(String, Option<u64>)> {
    let kind = |files: &Value| (files["what"].as_str().unwrap().to_owned(), files["slot"].as_u64());
    files.as_array().unwrap().iter().map(kind).collect()
}

fn kind(what: &str, slot: Option<u64>) -> (String, Option<u64>) {
    (what.to_owned(), slot)
}

#[test]
fn a_ledger_without_anything_stays_so() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 2);
    small_archive(&ledger.snapshots, 100, None, &[(90, 20_000), (100, 9000)]);
    for flags in [&[][..], &["--beside"]] {
        let (plan, text) = told(&site, &ledger, flags);
        assert_eq!((&plan["action"], &plan["slot"]), (&json!("prepare"), &json!(100)));
        assert_eq!((&plan["cleared"], &plan["kept"]), (&json!([]), &json!([])));
        assert!(text.starts_with("would prepare the state of slot 100\n  archive: "), "{text}");
        assert!(text.contains("  would write: "), "{text}");
    }
    let (plan, _) = told(&site, &ledger, &["--beside", "--min-free=1MiB"]);
    assert_eq!(plan["space"][0]["min_free_bytes"], 1 << 20, "{plan:#}");
}

#[test]
fn what_would_be_written_cleared_and_kept_is_told() {
    let site = Site::new();
    let (ledger, ..) = old_and_new(&site, 1);
    // In place, the old state goes.
    let (plan, text) = told(&site, &ledger, &[]);
    assert_eq!((&plan["action"], &plan["slot"]), (&json!("prepare"), &json!(110)));
    assert_eq!(kinds(&plan["cleared"]), [kind("state", Some(50)), kind("storages", None)]);
    assert_eq!((&plan["kept"], &plan["clears_first"]), (&json!([]), &json!(false)));
    assert_eq!(plan["archives"].as_array().unwrap().len(), 2);
    let (space, cleared) = (&plan["space"][0], plan["cleared"].as_array().unwrap());
    let number = |value: &Value| value.as_u64().unwrap();
    let sum: u64 = cleared.iter().map(|files| number(&files["bytes"])).sum();
    assert!(sum >= 3 * 4096, "{plan:#}");
    assert_eq!(number(&space["cleared_bytes"]), sum);
    assert_eq!(number(&space["written_bytes"]), number(&plan["written"]["bytes_needed"]));
    assert_eq!(
        number(&space["free_after_bytes"]),
        number(&space["free_bytes"]) + sum - number(&space["written_bytes"])
    );
    assert!(text.contains("  would clear: the state of slot 50, "), "{text}");
    assert!(text.contains("  would clear: storages, "), "{text}");
    assert!(text.contains(" afterwards\n"), "{text}");

    // Beside a validator, it is kept, and with it what the shadow keeps.
    let lock = validator_on(&ledger);
    let run = ledger.run(0);
    let lost = unsnap_test_support::ledger::names(&run).pop().unwrap();
    fs::remove_file(run.join(lost)).unwrap();
    let before = listing(&site.place());
    let refused = fastboot("prepare", &ledger, &["--dry-run"]).assert_code(4);
    refused.assert_error(&["a validator is running on"]);
    assert_eq!(listing(&site.place()), before);
    let (plan, text) = told(&site, &ledger, &["--beside", "--min-free=1MiB"]);
    let old = [kind("state", Some(50)), kind("storages", None), kind("shadow", None)];
    assert_eq!((kinds(&plan["kept"]), &plan["cleared"]), (old.to_vec(), &json!([])));
    assert!(text.contains("  would keep: storages that only the shadow keeps, "), "{text}");
    assert!(text.contains(", min-free is 1.00 MiB"), "{text}");

    // Done so, there is nothing more to do.
    assert_eq!(prepare(&ledger, &["--beside"])["outcome"], "prepared");
    let (plan, text) = told(&site, &ledger, &["--beside"]);
    assert_eq!((&plan["action"], &plan["slot"]), (&json!("nothing"), &json!(110)));
    assert!(plan["written"].is_null());
    assert!(kinds(&plan["kept"]).contains(&kind("ready", Some(110))), "{plan:#}");
    assert!(text.starts_with("would prepare nothing: the state of slot 110"), "{text}");
    drop(lock);
    // Adopted, it costs the old one only.
    let (plan, text) = told(&site, &ledger, &[]);
    assert_eq!((&plan["action"], &plan["slot"]), (&json!("adopt"), &json!(110)));
    assert_eq!(kinds(&plan["cleared"]), old);
    assert!(text.starts_with("would adopt the state of slot 110"), "{text}");
    assert_eq!(prepare(&ledger, &[])["outcome"], "adopted");
}

#[test]
fn what_preparing_would_refuse_is_refused() {
    let site = Site::new();
    let (ledger, ..) = ready_beside(&site, 1);
    // A bad archive would be passed over.
    let bad = small_archive(&ledger.snapshots, 130, None, &[(120, 800)]);
    fs::write(&bad, "no archive").unwrap();
    let (plan, text) = told(&site, &ledger, &[]);
    assert_eq!((&plan["action"], &plan["set_aside"]), (&json!("adopt"), &json!([bad])));
    assert!(text.contains("would set aside, since it is bad: "), "{text}");
    fs::remove_file(bad).unwrap();
    let before = listing(&site.place());
    let flags = ["--dry-run", "--replace", "--min-free=100%"];
    fastboot("prepare", &ledger, &flags).assert_code(3).assert_error(&["does not fit", "min-free"]);
    assert_eq!(listing(&site.place()), before);
}
