//! Entries out of archives: with an index and without, the same bytes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use unsnap_index::{Entry, EntryName, EntryTable, Index};
use unsnap_test_support::{
    Outcome, Site, expected_tree, finish, genuine, genuine_full, ledger_tool, run, snapshot_shapes,
};
use unsnap_testkit::{
    compress,
    spec::{ArchiveSpec, Frames},
    tar,
    tree::{files, reference_entries},
};

/// The program, told what to do with an archive, and nothing else on standard error than errors.
pub fn tool(words: &[&str], archive: &Path) -> Outcome {
    let (command, rest) = words.split_first().unwrap();
    run(ledger_tool().arg(command).arg(archive).args(rest).arg("--no-progress"))
}

/// Makes an index and says where it is.
pub fn index(archive: &Path) -> PathBuf {
    tool(&["index", "--quiet"], archive).assert_code(0);
    let mut path = archive.as_os_str().to_owned();
    path.push(".unsnap-index");
    path.into()
}

/// Files below a directory.
pub fn found(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    unsnap_testkit::tree::read_tree(directory)
        .unwrap()
        .into_iter()
        .filter_map(|(path, node)| match node {
            unsnap_testkit::tree::Node::File { bytes, .. } => Some((path, bytes)),
            unsnap_testkit::tree::Node::Dir { .. } => None,
            _ => panic!("{path} is neither file nor directory"),
        })
        .collect()
}

/// Of an archive, the files whose path says yes.
fn expected(archive: &[u8], wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<u8>> {
    let mut files = files(reference_entries(archive).unwrap());
    files.retain(|path, _| wanted(path));
    files
}

fn snapshot() -> Vec<u8> {
    let storages: Vec<(u64, u32, Vec<u8>)> = (1..40_u32)
        .map(|n| (u64::from(n) * 7, n, vec![n.to_le_bytes()[0]; n as usize * 700]))
        .collect();
    tar::snapshot_tar(300, &storages)
}

#[test]
fn entries_are_the_same_with_an_index_and_without_whatever_the_shape() {
    let site = Site::new();
    let mut archives = genuine();
    let tar = snapshot();
    for (name, archive) in snapshot_shapes(&tar) {
        archives.push(site.write(&name.replace(' ', "-"), &archive));
    }
    for archive in archives {
        let bytes = fs::read(&archive).unwrap();
        // The genuine ones lie where nothing may be written.
        let archive = site.write(archive.file_name().unwrap().to_str().unwrap(), &bytes);
        let listed = tool(&["list", "--format", "json-lines"], &archive).assert_code(0).stdout;
        let side_car = index(&archive);
        let from_index = tool(&["list", "--format", "json-lines"], &archive).assert_code(0).stdout;
        assert_eq!(from_index, listed, "{}", archive.display());
        let index = Index::decode(&fs::read(side_car).unwrap()).unwrap();
        assert_eq!(index.entries.entries().len(), reference_entries(&bytes).unwrap().len());

        let wanted = expected(&bytes, |path| path.starts_with("accounts/"));
        for (flags, looked_up) in [(&[][..], true), (&["--no-index"][..], false)] {
            site.reset(false);
            let output = site.output();
            let words = ["extract", "--entry", "accounts/*", "--format", "json", "--output"];
            let words = [&words[..], &[output.to_str().unwrap()], flags].concat();
            let report = tool(&words, &archive).assert_code(0).json();
            assert_eq!(report["index"], looked_up, "{report}");
            assert_eq!(report["entries"], wanted.len());
            assert!(found(&output) == wanted, "{} {flags:?}", archive.display());
        }
    }
}

#[test]
fn one_entry_of_an_indexed_archive_costs_less_than_three_frames() {
    let site = Site::new();
    let spec = ArchiveSpec { frames: Frames::Sized(1 << 20), ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    index(&archive);
    let files = files(reference_entries(&fs::read(&archive).unwrap()).unwrap());
    let (path, bytes) = files.iter().find(|(_, bytes)| bytes.len() < 1 << 20).unwrap();
    for (entry, bytes) in [(path.as_str(), bytes), ("version", &files["version"])] {
        site.reset(false);
        let output = site.output();
        let output = output.to_str().unwrap();
        let words = ["extract", "--entry", entry, "--format", "json", "--output", output];
        let report = tool(&words, &archive).assert_code(0).json();
        let reads = &report["reads"];
        assert!(reads["frames"].as_u64().unwrap() < 3, "{report}");
        assert!(reads["reads"].as_u64().unwrap() < 3, "{report}");
        assert_eq!(fs::read(site.output().join(entry)).unwrap(), *bytes);
    }
}

#[test]
fn gaps_are_read_over_if_that_is_wanted() {
    let site = Site::new();
    let archive = site.write("frames.tar.zst", &compress::zstd_frames(&snapshot(), 1500, 1));
    index(&archive);
    let mut counts = Vec::new();
    for gap in ["0", "1MiB"] {
        site.reset(false);
        let output = site.output();
        let words = ["extract", "--slot", "7", "--slot", "21", "--coalesce-gap", gap];
        let words = [&words[..], &["--format", "json", "--output", output.to_str().unwrap()]];
        let reads = tool(&words.concat(), &archive).assert_code(0).json()["reads"].clone();
        let names: Vec<String> = found(&output).into_keys().collect();
        assert_eq!(names, ["accounts/21.3", "accounts/7.1"]);
        let count = |name: &str| reads[name].as_u64().unwrap();
        counts.push((count("reads"), count("reads_saved"), count("extra_bytes")));
    }
    let [(apart, 0, 0), (together, saved, extra)] = counts[..] else { panic!("{counts:?}") };
    assert!(together == 1 && saved == apart - 1 && extra > 0, "{counts:?}");
}

#[test]
fn single_entries_go_to_standard_output_and_whoever_reads_it_may_have_had_enough() {
    let site = Site::new();
    let archive = site.write("a.tar.zst", &fs::read(genuine_full()).unwrap());
    let files = files(reference_entries(&fs::read(&archive).unwrap()).unwrap());
    let version = tool(&["extract", "--entry", "version", "--output", "-"], &archive);
    assert_eq!(version.assert_code(0).stdout.as_bytes(), files["version"]);
    let (path, bytes) = files.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    assert!(bytes.len() > 128 << 10, "more than a pipe holds");
    for flags in [&[][..], &["--no-index"]] {
        let mut command = ledger_tool();
        command.arg("extract").arg(&archive).args(["--entry", path, "--output", "-"]).args(flags);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let outcome = finish(child).assert_code(0);
        assert_eq!(outcome.stderr, "");
        index(&archive);
    }
}

#[test]
fn an_index_that_is_not_of_the_archive_is_passed_over_with_a_warning() {
    let site = Site::new();
    let good = compress::zstd_frames(&snapshot(), 5000, 1);
    let archive = site.write("a.tar.zst", &good);
    let side_car = index(&archive);
    let index_bytes = fs::read(&side_car).unwrap();
    let mut damaged = index_bytes.clone();
    damaged[100] ^= 1;
    let other_archive = compress::zstd_frames(&snapshot(), 6000, 1);
    let cases: [(&[u8], &[u8], &str); 4] = [
        (&other_archive, &index_bytes, "size differs"),
        (&good, &damaged, "checksum"),
        (&good, b"no index at all", "not an index"),
        (&good, b"", "not an index"),
    ];
    for (archive_bytes, index_bytes, reason) in cases {
        fs::write(&archive, archive_bytes).unwrap();
        fs::write(&side_car, index_bytes).unwrap();
        let listed = tool(&["list"], &archive).assert_code(0);
        assert!(
            listed.stderr.contains("ignoring the index") && listed.stderr.contains(reason),
            "{listed:?}"
        );
        assert_eq!(listed.stdout, tool(&["list", "--no-index"], &archive).assert_code(0).stdout);
        let before = site.state();
        let output = site.output();
        let words = ["extract", "--entry", "**", "--check-index", "--output"];
        let words = [&words[..], &[output.to_str().unwrap()]].concat();
        tool(&words, &archive).assert_code(1).assert_error(&[reason, "--no-index"]);
        site.assert_untouched(&before, reason);
        // Without being forced to it, the same entries are found otherwise.
        let words = ["extract", "--entry", "**", "--output", output.to_str().unwrap()];
        tool(&words, &archive).assert_code(0);
        assert!(found(&output) == expected(archive_bytes, |_| true), "{reason}");
        site.reset(false);
    }
    // The right one again, held to every byte of the archive.
    fs::write(&side_car, &index_bytes).unwrap();
    fs::write(&archive, &good).unwrap();
    let listed = tool(&["list", "--check-index"], &archive).assert_code(0);
    assert_eq!(listed.stderr, "");
}

#[test]
fn an_index_that_lies_never_gives_other_bytes_under_an_entrys_name() {
    let site = Site::new();
    let archive = site.write("a.tar.zst", &compress::zstd_frames(&snapshot(), 5000, 1));
    let side_car = index(&archive);
    let honest = Index::decode(&fs::read(&side_car).unwrap()).unwrap();
    let forge = |change: &dyn Fn(&mut Entry)| {
        let mut entries = EntryTable::default();
        for entry in honest.entries.entries() {
            let mut entry = entry.clone();
            change(&mut entry);
            entries.push(entry).unwrap();
        }
        Index::new(honest.identity, honest.frames.clone(), entries).unwrap()
    };
    let is_it = |entry: &Entry| entry.name == EntryName::Storage { slot: 14, id: 2 };
    let lies: [(&str, Index); 3] = [
        (
            "another name",
            forge(&|entry| {
                if is_it(entry) {
                    entry.name = EntryName::Storage { slot: 15, id: 2 };
                }
            }),
        ),
        (
            "size differs",
            forge(&|entry| {
                if is_it(entry) {
                    entry.size -= 1;
                }
            }),
        ),
        (
            "another place",
            forge(&|entry| {
                if is_it(entry) {
                    entry.header_offset += 512;
                    entry.payload_offset += 512;
                    entry.size -= 512;
                }
            }),
        ),
    ];
    let before = site.state();
    for (lie, index) in lies {
        fs::write(&side_car, index.encode()).unwrap();
        let output = site.output();
        let words = ["extract", "--slot", "14-15", "--output", output.to_str().unwrap()];
        tool(&words, &archive).assert_code(1).assert_error(&["does not belong to this archive"]);
        site.assert_untouched(&before, lie);
    }
}

#[test]
fn unpacking_knows_exactly_what_it_will_write_if_there_is_an_index() {
    let site = Site::new();
    let spec = ArchiveSpec { total_bytes: 30_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let unpack = |flags: &[&str]| {
        site.reset(false);
        let output = site.output();
        let words = ["unpack", "--format", "json", "--output", output.to_str().unwrap()];
        tool(&[&words[..], flags].concat(), &archive).assert_code(0).json()["preflight"].clone()
    };
    index(&archive);
    let (with, without) = (unpack(&[]), unpack(&["--no-index"]));
    assert_eq!((&with["basis"], &with["bytes_exact"]), (&"walked".into(), &true.into()), "{with}");
    assert_ne!(without["basis"], with["basis"], "{without}");
    let tree = expected_tree(&fs::read(&archive).unwrap());
    unsnap_test_support::assert_holds(&site.output(), &tree, "unpacked");
    let units = |bytes: u64| bytes.div_ceil(4096) * 4096;
    let files = files(reference_entries(&fs::read(&archive).unwrap()).unwrap());
    let needed: u64 = files.values().map(|bytes| units(bytes.len() as u64)).sum();
    if rustix::fs::statvfs(site.place()).unwrap().f_frsize == 4096 {
        assert_eq!(with["bytes_needed"], needed, "{with}");
    }
}
