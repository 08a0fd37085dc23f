//! `export --format arrow`: other programs read accounts from a pipe.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use unsnap_test_support::{Site, genuine_full, ledger_tool, run};
use unsnap_testkit::{
    answers::{decoded, newest, rows},
    content::Content,
    skip::{skip, skip_unsupported},
    spec::{ArchiveSpec, Frames},
};

/// Programs that read a stream on standard input and print the number of its rows, the sum of their
/// lamports, and of a column of decimal numbers and one that may be null the sum and the nulls.
const READERS: [(&str, &str); 3] = [
    (
        "pyarrow",
        "
import pyarrow, pyarrow.compute as compute, json, sys
rows = pyarrow.ipc.open_stream(sys.stdin.buffer).read_all()
add = lambda name: str(sum(value for value in rows[name].to_pylist()))
answer = [rows.num_rows, add('lamports'), add('amount'), rows['delegate'].null_count]
",
    ),
    (
        "polars",
        "
import polars, json, sys
rows = polars.read_ipc_stream(sys.stdin.buffer)
add = lambda name: str(sum(int(value) for value in rows[name].to_list()))
answer = [rows.height, add('lamports'), add('amount'), rows['delegate'].null_count()]
",
    ),
    (
        "duckdb",
        "
import duckdb, pyarrow, json, sys
rows = pyarrow.ipc.open_stream(sys.stdin.buffer)
query = 'SELECT count(*), sum(lamports), sum(amount), count(*) - count(delegate) FROM rows'
count, lamports, amount, nulls = duckdb.sql(query).fetchall()[0]
answer = [count, str(lamports), str(amount), nulls]
",
    ),
];

/// Returns the interpreter, if it has these modules.
fn python(modules: &str) -> Option<String> {
    let python = std::env::var("UNSNAP_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if python.is_empty() {
        skip_unsupported("what reads Arrow cannot be downloaded");
        return None;
    }
    let found = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        skip(format!("{modules}: not installed for Python"));
        return None;
    }
    Some(python)
}

/// Feeds a stream to a reader. Returns its answer, or what it complains of.
fn read(python: &str, script: &str, stream: fs::File) -> Result<Value, String> {
    let script = format!("{script}\njson.dump(answer, sys.stdout)");
    let read = Command::new(python).args(["-c", &script]).stdin(stream).output().unwrap();
    if read.status.success() {
        Ok(serde_json::from_slice(&read.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&read.stderr).into_owned())
    }
}

#[test]
fn other_programs_read_every_row_or_refuse_the_stream() {
    let site = Site::new();
    let spec = ArchiveSpec {
        content: Content::Mainnet,
        total_bytes: 3_000_000,
        frames: Frames::Sized(500_000),
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let path = site.path("stream");
    let mut tool = ledger_tool();
    tool.arg("export").arg(&archive).args(["--format", "arrow", "--output", "-", "--newest"]);
    tool.args(["--table", "token_accounts", "--row-group-size", "200KB"]);
    let status = tool.stdout(fs::File::create(&path).unwrap()).stderr(Stdio::null()).status();
    assert!(status.unwrap().success());

    let table = decoded("token_accounts", &newest(rows(&spec).unwrap()));
    let column = |name: &str| {
        let values = table.rows.iter().map(|row| &row.iter().find(|it| it.0 == name).unwrap().1);
        values.cloned().collect::<Vec<String>>()
    };
    let add = |name: &str| {
        column(name).iter().map(|value| value.parse::<u128>().unwrap()).sum::<u128>().to_string()
    };
    let nulls = column("delegate").iter().filter(|value| *value == "null").count();
    let expected = json!([table.rows.len(), add("lamports"), add("amount"), nulls]);

    let bytes = fs::read(&path).unwrap();
    // The end, and the beginning of a message: where a stream without our care would seem complete.
    let message = [0xFF; 4];
    let begins = |at: &usize| bytes[*at..].starts_with(&message) && at.is_multiple_of(8);
    let third = (1..bytes.len()).filter(begins).nth(2).unwrap();
    for (name, script) in READERS {
        let modules = if name == "duckdb" { "duckdb, pyarrow" } else { name };
        let Some(python) = python(modules) else { continue };
        let whole = read(&python, script, fs::File::open(&path).unwrap());
        assert_eq!(whole, Ok(expected.clone()), "{name}");
        for length in [bytes.len() - 4, third + 4, third + 100] {
            let cut = site.path("cut");
            fs::write(&cut, &bytes[..length]).unwrap();
            let answer = read(&python, script, fs::File::open(&cut).unwrap());
            assert!(answer.is_err(), "{name} takes {length} of {} bytes", bytes.len());
        }
    }
}

#[test]
fn a_bad_archive_never_ends_its_stream() {
    let site = Site::new();
    let spec = ArchiveSpec { content: Content::Mainnet, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let whole = fs::read(&archive).unwrap();
    let export = |path: &std::path::Path| {
        let mut tool = ledger_tool();
        tool.arg("export").arg(path).args(["--format", "arrow", "--output", "-"]);
        tool.output().unwrap()
    };
    let good = export(&archive);
    assert!(good.status.success() && good.stdout.ends_with(&[0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]));
    for length in [whole.len() - 1, whole.len() / 2] {
        fs::write(&archive, &whole[..length]).unwrap();
        let bad = export(&archive);
        assert_eq!(bad.status.code(), Some(1));
        assert!(bad.stdout.ends_with(&[0xFF; 4]) && bad.stdout.len() < good.stdout.len());
    }
}

#[test]
fn requests_for_streams_that_make_no_sense_are_refused() {
    for flags in [
        &["--format", "parquet"][..],
        &["--format", "arrow", "--table", "accounts,mints"],
        &["--format", "arrow", "--check"],
        &["--format", "arrow", "--report", "json"],
    ] {
        let mut tool = ledger_tool();
        tool.arg("export").arg(genuine_full()).args(["--output", "-"]).args(flags);
        let outcome = run(&mut tool);
        outcome.assert_code(2);
        assert!(!std::path::Path::new("-").exists(), "{flags:?}");
    }
}
