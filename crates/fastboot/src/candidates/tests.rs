//! Archives in temporary directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use tempfile::TempDir;
use unsnap_failure::Family;

use super::*;

/// Two hashes, the first of which sorts before the second.
const HASHES: [&str; 2] =
    ["5Mj3ns2bt9KNEoPpiRtmYfNSKWp3eKLuGkuRjktG6zhH", "qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU"];

fn full(slot: u64) -> String {
    format!("snapshot-{slot}-{}.tar.zst", HASHES[0])
}

fn incremental(base: u64, slot: u64) -> String {
    format!("incremental-snapshot-{base}-{slot}-{}.tar.zst", HASHES[0])
}

/// A directory with a `remote` child, and files in them.
fn directory(paths: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join(REMOTE)).expect("a directory");
    for path in paths {
        fs::write(directory.path().join(path), "content").expect("a file");
    }
    directory
}

fn find(directory: &TempDir) -> Candidates {
    Candidates::find(&SearchDirs::new(directory.path())).expect("readable directories")
}

/// All pairs as paths relative to the directory.
fn pairs(candidates: &Candidates, directory: &TempDir) -> Vec<Vec<String>> {
    let relative = |archive: &Candidate| {
        let path = archive.path.strip_prefix(directory.path()).expect("below the directory");
        path.to_str().expect("UTF-8").to_owned()
    };
    candidates.pairs().map(|pair| pair.archives().map(relative).collect()).collect()
}

#[test]
fn the_highest_full_archive_and_the_highest_upon_it() {
    let directory = directory(&[
        &full(9),
        &full(100),
        &full(20),
        &incremental(100, 101),
        &incremental(100, 200),
        &incremental(100, 110),
        &incremental(20, 300),
        &incremental(99, 400),
    ]);
    let candidates = find(&directory);
    let best = candidates.best().expect("a pair");
    assert_eq!((best.slot(), best.full().name.slot(), best.full().bytes), (200, 100, 7));
    let expected = [
        vec![full(100), incremental(100, 200)],
        vec![full(100), incremental(100, 110)],
        vec![full(100), incremental(100, 101)],
        vec![full(100)],
        vec![full(20), incremental(20, 300)],
        vec![full(20)],
        vec![full(9)],
    ];
    assert_eq!(pairs(&candidates, &directory), expected);
}

#[test]
fn what_was_downloaded_counts_as_well() {
    let in_remote = |name: &str| format!("remote/{name}");
    let directory = directory(&[
        &full(100),
        &in_remote(&full(200)),
        &incremental(200, 250),
        &in_remote(&incremental(200, 260)),
    ]);
    let candidates = find(&directory);
    let expected = vec![in_remote(&full(200)), in_remote(&incremental(200, 260))];
    assert_eq!(pairs(&candidates, &directory)[0], expected);
    assert!(candidates.best().expect("a pair").full().remote);
}

#[test]
fn archives_of_one_slot_have_an_order() {
    let names = [
        format!("snapshot-5-{}.tar.lz4", HASHES[0]),
        format!("snapshot-5-{}.tar.zst", HASHES[0]),
        format!("snapshot-5-{}.tar.zst", HASHES[1]),
    ];
    let remote = names.clone().map(|name| format!("remote/{name}"));
    let all: Vec<&str> = remote.iter().chain(names.iter().rev()).map(String::as_str).collect();
    let directory = directory(&all);
    let expected: Vec<Vec<String>> =
        names.into_iter().chain(remote).map(|path| vec![path]).collect();
    assert_eq!(pairs(&find(&directory), &directory), expected);
}

#[test]
fn what_proved_bad_is_set_aside() {
    let directory =
        directory(&[&full(100), &full(50), &incremental(100, 110), &incremental(100, 120)]);
    let mut candidates = find(&directory);
    let path = |name: String| directory.path().join(name);
    let slots = |candidates: &Candidates| {
        candidates.best().map(|pair| (pair.full().name.slot(), pair.slot()))
    };
    assert!(candidates.set_aside(&path(incremental(100, 120))));
    assert_eq!(slots(&candidates), Some((100, 110)));
    assert!(!candidates.set_aside(&path(incremental(100, 120))));
    assert!(candidates.set_aside(&path(incremental(100, 110))));
    assert_eq!(slots(&candidates), Some((100, 100)));
    assert!(candidates.set_aside(&path(full(100))));
    assert_eq!(slots(&candidates), Some((50, 50)));
    assert!(candidates.set_aside(&path(full(50))));
    assert_eq!(slots(&candidates), None);
}

/// A full archive takes the incremental ones upon it along, unless there is another of its slot.
#[test]
fn a_bad_full_archive() {
    let other = format!("snapshot-100-{}.tar.zst", HASHES[1]);
    let directory = directory(&[&full(100), &other, &incremental(100, 110), &full(50)]);
    let mut candidates = find(&directory);
    candidates.set_aside(&directory.path().join(full(100)));
    let expected =
        [vec![other.clone(), incremental(100, 110)], vec![other.clone()], vec![full(50)]];
    assert_eq!(pairs(&candidates, &directory), expected);
    candidates.set_aside(&directory.path().join(other));
    assert_eq!(pairs(&candidates, &directory), [[full(50)]]);
}

#[test]
fn what_is_no_archive_is_passed_over() {
    let temporary = format!("tmp-{}", full(900));
    let uncompressed = format!("snapshot-901-{}.tar", HASHES[0]);
    let backwards = incremental(10, 9);
    let directory = directory(&[
        &full(10),
        &temporary,
        &uncompressed,
        &backwards,
        "snapshot-902.tar.zst",
        "genesis.tar.bz2",
    ]);
    let not_utf8 = OsStr::from_bytes(b"snapshot-903-\xff.tar.zst");
    fs::write(directory.path().join(not_utf8), "").expect("a file");
    fs::create_dir(directory.path().join(full(904))).expect("a directory");
    symlink("nowhere", directory.path().join(full(905))).expect("a link");
    symlink(full(906), directory.path().join(full(906))).expect("a link");
    assert_eq!(pairs(&find(&directory), &directory), [[full(10)]]);
}

#[test]
fn links_to_files_are_archives() {
    let directory = directory(&[&full(10), "remote/elsewhere"]);
    symlink("remote/elsewhere", directory.path().join(full(20))).expect("a link");
    let best = find(&directory).best().expect("a pair");
    assert_eq!((best.full().name.slot(), best.full().bytes), (20, 7));
    assert_eq!(best.full().path, directory.path().join(full(20)));
}

#[test]
fn directories_for_each_kind() {
    let (fulls, incrementals) = (
        directory(&[&full(10), &incremental(10, 99)]),
        directory(&[&full(50), &incremental(10, 20)]),
    );
    let remote = incrementals.path().join(REMOTE).join(incremental(10, 30));
    fs::write(&remote, "").expect("a file");
    let dirs =
        SearchDirs { full: fulls.path().to_owned(), incremental: incrementals.path().to_owned() };
    let best = Candidates::find(&dirs).expect("readable directories").best().expect("a pair");
    assert_eq!(best.full().path, fulls.path().join(full(10)));
    assert_eq!(best.incremental().expect("an incremental archive").path, remote);
}

#[test]
fn nothing_to_choose_from() {
    let directory = directory(&[&incremental(10, 20)]);
    assert_eq!(find(&directory).best(), None);
    fs::remove_dir(directory.path().join(REMOTE)).expect("an empty directory");
    assert_eq!(find(&directory).pairs().count(), 0);
}

#[test]
fn missing_directories() {
    let directory = directory(&[&full(10)]);
    let missing = directory.path().join("missing");
    let here = directory.path().to_owned();
    for dirs in [
        SearchDirs::new(&missing),
        SearchDirs { full: missing.clone(), incremental: here.clone() },
        SearchDirs { full: here.clone(), incremental: missing.clone() },
    ] {
        let error = Candidates::find(&dirs).expect_err("a directory is missing");
        assert_eq!((error.family(), error.errno()), (Family::Environment, Some(Errno::NOENT)));
        assert!(error.to_string().contains(missing.to_str().expect("UTF-8")), "{error}");
        assert_eq!(error.remedy(), Some(Remedy::NameSnapshots));
    }
}

/// A `remote` that cannot be read may hold the newest archive, so it is not passed over. (Root can
/// read any directory, so it is a file here.)
#[test]
fn remote_must_be_readable() {
    let directory = directory(&[&full(10)]);
    fs::remove_dir(directory.path().join(REMOTE)).expect("an empty directory");
    fs::write(directory.path().join(REMOTE), "").expect("a file");
    let error = Candidates::find(&SearchDirs::new(directory.path())).expect_err("refused");
    assert_eq!((error.family(), error.errno()), (Family::Environment, Some(Errno::NOTDIR)));
    assert!(error.to_string().contains(REMOTE), "{error}");
}

#[test]
fn candidates_are_bounded() {
    let directory = directory(&[]);
    let last = CANDIDATES_MAX as u64 + 5;
    for slot in 1..=last {
        fs::write(directory.path().join(full(slot)), "").expect("a file");
    }
    let candidates = find(&directory);
    assert_eq!(candidates.pairs().count(), CANDIDATES_MAX);
    let lowest = candidates.pairs().map(|pair| pair.slot()).min();
    assert_eq!(lowest, Some(6));
    assert_eq!(candidates.best().map(|pair| pair.slot()), Some(last));
}
