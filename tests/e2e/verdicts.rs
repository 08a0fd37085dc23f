//! What unsnap says of the corpora of other tar readers, beside what those say: the table
//! `tests/data/verdicts.md`.
//!
//! unsnap's, tar-rs's and tar-core's columns are computed here and compared. Those of GNU tar and of
//! Python are written where these tools are, and are not compared: they differ by release. Wherever
//! somebody else's verdict is another than ours, the last column must say why.

mod readers;

use std::{
    ffi::OsStr,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use readers::{Verdict, gnu_tar, python, tar_core, tar_rs, unsnap};
use unsnap_pass::LayoutKind;
use unsnap_test_support::Site;
use unsnap_testkit::table::{Table, is_blessing};

const COMMAND: &str = "UNSNAP_BLESS=1 cargo test -p unsnap-tests --test e2e verdicts";

/// The columns, in their order in the table.
const FILE: usize = 0;
const ANY: usize = 2;
const COMPARED: [usize; 5] = [FILE, 1, ANY, 3, 4];
const TAR_RS: usize = 3;
const OTHERS: [usize; 4] = [TAR_RS, 4, GNU_TAR, PYTHON];
const GNU_TAR: usize = 5;
const PYTHON: usize = 6;
const WHY: usize = 7;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// The tars of the corpora by their path below `tar-corpus`, unpacked if they are compressed.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for folder in ["go", "tar-rs", "tokio-tar"] {
        for entry in fs::read_dir(data().join("tar-corpus").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let mut bytes = fs::read(&path).unwrap();
            match path.extension().and_then(OsStr::to_str) {
                Some("tar") => {}
                Some("bz2") => {
                    let compressed = std::mem::take(&mut bytes);
                    bzip2::read::BzDecoder::new(&compressed[..]).read_to_end(&mut bytes).unwrap();
                }
                Some("md") => continue,
                _ => panic!("{name} is of no known kind"),
            }
            files.push((format!("{folder}/{name}"), bytes));
        }
    }
    files.sort();
    assert!(files.len() >= 70, "{}", files.len());
    files
}

/// The version of a crate that these tests are built with.
fn locked(name: &str) -> String {
    let lock = fs::read_to_string(data().join("../../Cargo.lock")).unwrap();
    let (_, after) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).unwrap();
    format!("{name} {}", after.split('"').next().unwrap())
}

/// The table as it is now; cells that cannot be computed here are those of `old`.
fn computed(old: &Table) -> Table {
    let site = Site::new();
    let tools = if is_blessing() { (gnu_tar::version(), python::version()) } else { (None, None) };
    let title = |column: usize, now: &Option<String>| {
        now.clone().or_else(|| old.titles.get(column).cloned()).unwrap_or_default()
    };
    let titles = vec![
        "file".to_owned(),
        "unsnap, layout `snapshot`".to_owned(),
        "unsnap, layout `any`".to_owned(),
        locked("tar"),
        locked("tar-core"),
        title(GNU_TAR, &tools.0),
        title(PYTHON, &tools.1),
        "why unsnap differs".to_owned(),
    ];
    let mut rows = Vec::new();
    for (name, bytes) in corpus() {
        let path = site.write("archive.tar", &bytes);
        let kept = |column| old.cell(&name, column).unwrap_or_default().to_owned();
        let tool = |column, found: &Option<String>, verdict: fn(&Path) -> Verdict| match found {
            Some(_) => verdict(&path).to_string(),
            None => kept(column),
        };
        rows.push(vec![
            name.clone(),
            unsnap(&path, LayoutKind::Snapshot).to_string(),
            unsnap(&path, LayoutKind::Any).to_string(),
            tar_rs(&bytes).to_string(),
            tar_core(&bytes).to_string(),
            tool(GNU_TAR, &tools.0, gnu_tar::verdict),
            tool(PYTHON, &tools.1, python::verdict),
            kept(WHY),
        ]);
    }
    Table { introduction: old.introduction.clone(), titles, rows }
}

#[test]
fn the_table_is_true() {
    let path = data().join("verdicts.md");
    let old = Table::read(&path).unwrap();
    let now = computed(&old);
    if is_blessing() {
        now.write(&path).unwrap();
    } else {
        let differences = old.differences(&now, &COMPARED);
        assert!(
            differences.is_empty(),
            "tests/data/verdicts.md is not true any more; `{COMMAND}` rewrites it:\n{}",
            differences.join("\n")
        );
    }
}

#[test]
fn every_difference_has_its_reason() {
    let table = Table::read(&data().join("verdicts.md")).unwrap();
    let mut unexplained = Vec::new();
    for row in &table.rows {
        let ours: Verdict = row[ANY].parse().unwrap();
        let differ = OTHERS.iter().any(|&column| {
            let theirs: Verdict = row[column].parse().unwrap();
            !theirs.agrees_with(&ours)
        });
        if differ == row[WHY].is_empty() {
            unexplained.push(format!("{}: differs: {differ}, why: {:?}", row[FILE], row[WHY]));
        }
    }
    assert!(unexplained.is_empty(), "in tests/data/verdicts.md:\n{}", unexplained.join("\n"));
}
