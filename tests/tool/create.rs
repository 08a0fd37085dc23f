//! `create`: directories become archives that validators would have written.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use unsnap_test_support::{
    Outcome, Site, genuine, genuine_full, has_tool, ledger_tool, ledger_tool_path, run,
};
use unsnap_testkit::tree::{decompress, files, reference_entries};

fn create(directory: &Path, output: &Path, more: &[&str]) -> Command {
    let mut command = ledger_tool();
    command.arg("create").arg(directory).arg("--output").arg(output).args(more);
    command
}

#[track_caller]
fn unpack(archive: &Path, output: &Path, more: &[&str]) {
    let mut command = ledger_tool();
    command.arg("unpack").arg(archive).arg("--output").arg(output).arg("--quiet").args(more);
    run(&mut command).assert_code(0);
}

#[track_caller]
fn verified(archive: &Path) -> Outcome {
    run(ledger_tool().arg("verify").arg(archive)).assert_code(0)
}

/// The genuine incremental archive.
fn incremental() -> PathBuf {
    let is_it = |path: &PathBuf| {
        path.extension().unwrap() == "zst"
            && path.file_name().unwrap().to_str().unwrap().starts_with("incremental-")
    };
    genuine().into_iter().find(is_it).unwrap()
}

/// The first block of each entry, by its name, and the names in order.
fn headers(tar: &[u8]) -> (BTreeMap<String, Vec<u8>>, Vec<String>) {
    let (mut headers, mut names) = (BTreeMap::new(), Vec::new());
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let at = usize::try_from(entry.raw_header_position()).unwrap();
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        headers.insert(name.clone(), tar[at..at + 512].to_owned());
        names.push(name);
    }
    (headers, names)
}

#[test]
fn what_was_unpacked_becomes_the_archive_again() {
    let site = Site::new();
    for (archive, more) in [(genuine_full(), &[][..]), (incremental(), &["--base-slot", "39"])] {
        let tree = site.path("tree");
        unpack(&archive, &tree, &[]);
        let made = site.path("made");
        fs::create_dir(&made).unwrap();
        run(&mut create(&tree, &made, more)).assert_code(0);
        let made = made.join(archive.file_name().unwrap());
        let (new, old) = (fs::read(&made).unwrap(), fs::read(&archive).unwrap());
        let files_of = |archive: &[u8]| files(reference_entries(archive).unwrap());
        assert!(files_of(&new) == files_of(&old), "{}", archive.display());

        // The headers of storages are those that Agave has written, to the bit.
        let (new, order) = headers(&decompress(&new).unwrap());
        let (old, _) = headers(&decompress(&old).unwrap());
        assert_eq!(new.keys().collect::<Vec<_>>(), old.keys().collect::<Vec<_>>());
        for (name, header) in new.iter().filter(|(name, _)| name.starts_with("accounts/")) {
            assert!(*header == old[name], "{name}");
        }
        assert_eq!(order[..3], ["version", "snapshots/", "snapshots/status_cache"]);
        let slots: Vec<u64> = order[5..]
            .iter()
            .map(|name| name["accounts/".len()..].split_once('.').unwrap().0.parse().unwrap())
            .collect();
        assert!(slots.is_sorted(), "{slots:?}");
        fs::remove_dir_all(&tree).unwrap();
        fs::remove_dir_all(site.path("made")).unwrap();
    }
}

#[test]
fn storages_elsewhere_are_found_and_the_accounts_prove_it() {
    let site = Site::new();
    let (tree, places) = (site.path("tree"), [site.path("one"), site.path("two")]);
    let places = places.map(|place| place.to_str().unwrap().to_owned()).join(",");
    unpack(&genuine_full(), &tree, &["--accounts", &places]);
    let made = site.place().join(genuine_full().file_name().unwrap());
    run(&mut create(&tree, &made, &["--accounts", &places, "--quiet"])).assert_code(0);
    verified(&made);
}

#[test]
fn a_state_becomes_a_full_archive() {
    let site = Site::new();
    let ledger = site.path("ledger");
    fs::create_dir(&ledger).unwrap();
    for archive in [genuine_full(), incremental()] {
        fs::copy(&archive, ledger.join(archive.file_name().unwrap())).unwrap();
    }
    let mut prepare = ledger_tool();
    prepare.args(["fastboot", "prepare", "--quiet", "--ledger"]).arg(&ledger);
    run(&mut prepare).assert_code(0);
    let accounts = ledger.join("accounts");
    let states: Vec<_> = fs::read_dir(ledger.join("snapshots")).unwrap().collect();
    let [Ok(state)] = states.as_slice() else { panic!("{states:?}") };
    let more = ["--accounts", accounts.to_str().unwrap(), "--format", "json"];
    let report = run(&mut create(&state.path(), &site.place(), &more)).assert_code(0).json();
    let made = PathBuf::from(report["output"].as_str().unwrap());
    // Full, of the incremental's slot, and with the hash that both together have.
    let name = incremental().file_name().unwrap().to_str().unwrap().to_owned();
    let name = name.replace("incremental-snapshot-39-", "snapshot-");
    assert_eq!(made.file_name().unwrap().to_str(), Some(name.as_str()));
    verified(&made);
}

#[test]
fn what_makes_no_snapshot_becomes_nothing() {
    let site = Site::new();
    let before = site.state();
    let broken = |what: &str, code, parts: &[&str], more: &[&str], spoil: &dyn Fn(&Path)| {
        let tree = site.path("tree");
        unpack(&genuine_full(), &tree, &[]);
        spoil(&tree);
        run(&mut create(&tree, &site.place(), more)).assert_code(code).assert_error(parts);
        site.assert_untouched(&before, what);
        fs::remove_dir_all(&tree).unwrap();
    };
    let a_storage = |tree: &Path| {
        let mut storages = fs::read_dir(tree.join("accounts")).unwrap();
        storages.next().unwrap().unwrap().path()
    };
    broken("no bank file", 1, &["39/39", "no such file"], &[], &|tree| {
        fs::remove_file(tree.join("snapshots/39/39")).unwrap();
    });
    broken("no status cache", 1, &["status_cache"], &[], &|tree| {
        fs::remove_file(tree.join("snapshots/status_cache")).unwrap();
    });
    broken("another version", 1, &["version"], &[], &|tree| {
        fs::write(tree.join("version"), "2.0.0").unwrap();
    });
    broken("a bank file that is cut", 1, &["39/39"], &[], &|tree| {
        fs::write(tree.join("snapshots/39/39"), [1; 100]).unwrap();
    });
    broken("a file that is no storage", 1, &["not that of a storage"], &[], &|tree| {
        fs::write(tree.join("accounts/1.2.3"), "no").unwrap();
    });
    broken("a link", 1, &["not a regular file"], &[], &|tree| {
        let storage = a_storage(tree);
        fs::rename(&storage, tree.join("moved")).unwrap();
        std::os::unix::fs::symlink(tree.join("moved"), storage).unwrap();
    });
    broken("a storage that is cut", 1, &["accounts/"], &[], &|tree| {
        let storage = a_storage(tree);
        let bytes = fs::read(&storage).unwrap();
        fs::write(&storage, &bytes[..150]).unwrap();
    });
    broken("an empty storage", 1, &["accounts/"], &[], &|tree| {
        fs::write(a_storage(tree), "").unwrap();
    });
    broken("two storages of a slot", 1, &["accounts/"], &[], &|tree| {
        let storage = a_storage(tree);
        let name = storage.file_name().unwrap().to_str().unwrap().to_owned() + "99";
        fs::copy(&storage, storage.with_file_name(name)).unwrap();
    });
    broken("nothing to build on", 2, &["does not build"], &["--base-slot", "39"], &|_| {});
    broken("storages of the base", 1, &["accounts/"], &["--base-slot", "38"], &|_| {});
    run(&mut create(&site.path("missing"), &site.place(), &[]))
        .assert_code(3)
        .assert_error(&["[not-found]"]);
    let tree = site.path("tree");
    unpack(&genuine_full(), &tree, &[]);
    let other = site.place().join("snapshot-1.tar.zst");
    run(&mut create(&tree, &other, &[])).assert_code(2).assert_error(&["name snapshot-39-"]);
    site.assert_untouched(&before, "another name");
}

#[test]
fn an_archive_gets_its_name_when_it_is_verified() {
    let site = Site::new();
    let before = site.state();
    let name = genuine_full().file_name().unwrap().to_owned();
    let tree = site.path("tree");
    unpack(&genuine_full(), &tree, &[]);
    let made = |more: &[&str]| {
        let more = [more, &["--format", "json"]].concat();
        let report = run(&mut create(&tree, &site.place(), &more)).assert_code(0).json();
        fs::remove_file(site.place().join(&name)).unwrap();
        report["verification"].clone()
    };

    assert!(made(&["--verify", "none"]).is_null());
    let structure = made(&[]);
    assert!(structure["bank"].is_object() && structure["accounts"].is_null(), "{structure}");
    let accounts = made(&["--verify", "accounts", "--verify-memory", "1MiB"]);
    assert!(accounts["accounts"]["accounts"].as_u64().unwrap() > 0, "{accounts}");

    // Only the sum of all accounts tells.
    let mut storages = fs::read_dir(tree.join("accounts")).unwrap();
    fs::remove_file(storages.next().unwrap().unwrap().path()).unwrap();
    made(&[]);
    let outcome = run(&mut create(&tree, &site.place(), &["--verify", "accounts"])).assert_code(1);
    // The archive is named as it would be called.
    let parts = ["the new archive is not what its name says", "hash", name.to_str().unwrap()];
    outcome.assert_error(&parts).assert_error(&["hint: the directory lacks storages"]);
    site.assert_untouched(&before, "a storage is missing");
}

/// strace swallows the first bytes that are written, and claims that they are in the file.
#[test]
fn what_cannot_be_read_again_gets_no_name() {
    if !has_tool("strace", "--version") {
        return;
    }
    let site = Site::new();
    let before = site.state();
    let tree = site.path("tree");
    unpack(&genuine_full(), &tree, &[]);
    let name = genuine_full().file_name().unwrap().to_str().unwrap().to_owned();
    let partial = site.place().join(format!(".{name}.unsnap-partial"));
    let lying = |more: &[&str]| {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-P"]).arg(&partial);
        command.args(["-e", "trace=write,pwrite64"]);
        command.args(["-e", "inject=write,pwrite64:retval=512:when=1"]);
        command.arg(ledger_tool_path()).arg("create").arg(&tree).args(more);
        run(command.arg("--output").arg(site.place()))
    };
    lying(&[]).assert_code(1).assert_error(&["the new archive is not what its name says", &name]);
    site.assert_untouched(&before, "the beginning was not written");
    lying(&["--verify", "none"]).assert_code(0);
    let made = site.place().join(&name);
    run(ledger_tool().arg("verify").arg(made)).assert_code(1);
}

#[test]
fn the_accounts_of_an_incremental_archive_alone_cannot_be_verified() {
    let site = Site::new();
    let before = site.state();
    let tree = site.path("tree");
    unpack(&incremental(), &tree, &[]);
    let more = ["--base-slot", "39", "--verify", "accounts"];
    run(&mut create(&tree, &site.place(), &more))
        .assert_code(2)
        .assert_error(&["without its full archive", "hint: verify the structure now"]);
    site.assert_untouched(&before, "an incremental archive");
    run(&mut create(&tree, &site.place(), &more[..2])).assert_code(0);
}
