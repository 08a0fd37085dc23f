//! `accounts`: accounts are listed as a plain scan finds them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use unsnap_test_support::{
    Outcome, Site, genuine, genuine_full, genuine_pairs, ledger_tool, ledger_tool_path, run,
};
use unsnap_testkit::{
    compress,
    spec::{ArchiveSpec, FileSizes, Frames},
    tree::decompress,
};

use crate::scan::{Scanned, newest, scan};

fn accounts(archive: &Path, more: &[&str]) -> Outcome {
    run(ledger_tool().arg("accounts").arg(archive).args(more))
}

/// What is listed, as JSON.
#[track_caller]
fn lines(archive: &Path, more: &[&str]) -> Vec<Value> {
    let outcome = accounts(archive, more).assert_code(0);
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn expected(record: &Scanned) -> Value {
    json!({
        "pubkey": record.pubkey, "lamports": record.lamports, "owner": record.owner,
        "executable": record.executable, "rent_epoch": record.rent_epoch,
        "data_bytes": record.data.len(), "slot": record.slot, "storage_id": record.id,
        "offset": record.offset,
    })
}

/// The genuine archives, and a generated one whose accounts have many versions and straddle frames.
fn archives(site: &Site) -> Vec<PathBuf> {
    let many = ArchiveSpec {
        total_bytes: 3_000_000,
        file_sizes: FileSizes::Fixed(60_000),
        frames: Frames::Sized(9_000),
        ..ArchiveSpec::default()
    };
    let mut archives = genuine();
    archives.push(site.archive(&many));
    archives
}

#[test]
fn every_record_is_listed_in_order() {
    let site = Site::new();
    for archive in archives(&site) {
        let expected: Vec<_> = scan(&archive).iter().map(expected).collect();
        assert!(lines(&archive, &[]) == expected, "{}", archive.display());
    }
}

#[test]
fn only_what_is_asked_for_is_listed() {
    let archive = genuine_full();
    let all = scan(&archive);
    let owners = [all[0].owner.as_str(), all[all.len() / 2].owner.as_str()];
    let some = |keep: &dyn Fn(&Scanned) -> bool| -> Vec<Value> {
        all.iter().filter(|record| keep(record)).map(expected).collect()
    };
    let found = lines(&archive, &["--owner", owners[0], "--owner", owners[1]]);
    assert!(found == some(&|record| owners.contains(&record.owner.as_str())));
    let length = all.iter().map(|record| record.data.len()).max().unwrap();
    let found = lines(&archive, &["--data-size", &length.to_string()]);
    assert!(!found.is_empty() && found == some(&|record| record.data.len() == length));
    let found = lines(&archive, &["--data-size", "1..200"]);
    assert!(found == some(&|record| (1..=200).contains(&record.data.len())));
    assert!(lines(&archive, &["--data-size", "10MiB.."]).is_empty());
}

#[test]
fn the_newest_versions_are_those_of_a_plain_scan() {
    let site = Site::new();
    // Several archives' storages in one: keys that occur twice.
    for archive in archives(&site) {
        let records = scan(&archive);
        let kept = newest(&records);
        let expected: Vec<_> = records
            .iter()
            .filter(|record| kept.get(&record.pubkey) == Some(record))
            .map(expected)
            .collect();
        assert!(lines(&archive, &["--newest"]) == expected, "{}", archive.display());
        // With so little memory that most is put into a file.
        let found = lines(&archive, &["--newest", "--memory", "4MiB"]);
        assert!(found == expected, "{}, spilt", archive.display());
    }
}

#[test]
fn tables_hold_the_same_and_data_is_base64() {
    let archive = genuine_full();
    let table = accounts(&archive, &["--format", "csv", "--with-data"]).assert_code(0).stdout;
    let mut table = table.lines();
    let names =
        "pubkey,lamports,owner,executable,rent_epoch,data_bytes,slot,storage_id,offset,data";
    assert_eq!(table.next(), Some(names));
    let json = lines(&archive, &["--with-data"]);
    let records = scan(&archive);
    assert_eq!((table.clone().count(), json.len()), (records.len(), records.len()));
    for ((row, object), record) in table.zip(json).zip(&records) {
        let cells: Vec<_> = row.split(',').collect();
        assert_eq!(cells.len(), 10, "{row}");
        for (name, cell) in names.split(',').zip(&cells) {
            let value = &object[name];
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(*cell, text, "{name} of {}", record.pubkey);
        }
        assert_eq!(from_base64(cells[9]), record.data, "{}", record.pubkey);
    }
}

/// RFC 4648, by the book.
fn from_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    assert!(text.len().is_multiple_of(4));
    for group in text.as_bytes().chunks(4) {
        let digit = |byte: &u8| ALPHABET.iter().position(|letter| letter == byte);
        let digits: Vec<_> = group.iter().map_while(digit).collect();
        let bits =
            digits.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - digits.len()));
        let three = [bits >> 16, bits >> 8, bits].map(|byte| u8::try_from(byte & 255).unwrap());
        bytes.extend(&three[..digits.len() - 1]);
    }
    bytes
}

#[test]
fn a_pair_is_listed_as_one() {
    for (full, incremental) in genuine_pairs() {
        let flags = ["--incremental", incremental.to_str().unwrap()];
        let both: Vec<Scanned> = [scan(&full), scan(&incremental)].concat();
        let all: Vec<_> = both.iter().map(expected).collect();
        assert!(lines(&full, &flags) == all, "{}", full.display());
        let kept = newest(&both);
        let newest: Vec<_> = both
            .iter()
            .filter(|record| kept.get(&record.pubkey) == Some(record))
            .map(expected)
            .collect();
        assert!(newest.len() < all.len() && newest.len() > kept.len() / 2);
        let found = lines(&full, &[&flags[..], &["--newest"]].concat());
        assert!(found == newest, "{}", full.display());
    }
    let [(full, _), (_, other)] = genuine_pairs();
    let foreign = accounts(&full, &["--incremental", other.to_str().unwrap()]);
    foreign.assert_code(2).assert_error(&["builds on slot"]);
}

#[test]
fn an_array_and_a_table_hold_the_same() {
    let archive = genuine_full();
    let all = lines(&archive, &["--with-data"]);
    let array = accounts(&archive, &["--with-data", "--format", "json"]).assert_code(0).json();
    assert!(array.as_array().unwrap() == &all);
    let none = ["--format", "json", "--data-size", "10MiB.."];
    assert_eq!(accounts(&archive, &none).assert_code(0).stdout, "[]\n");
    let table = accounts(&archive, &["--with-data", "--format", "text"]).assert_code(0).stdout;
    let mut rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let names = ["pubkey", "lamports", "data_bytes", "slot", "owner", "data"];
    assert_eq!(rows.next().unwrap(), names);
    assert_eq!(rows.clone().count(), all.len());
    for (row, object) in rows.zip(&all) {
        for (cell, name) in row.iter().zip(names) {
            let value = &object[name];
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(*cell, text, "{name}: {row:?}");
        }
    }
}

#[test]
fn a_limit_ends_the_listing() {
    let site = Site::new();
    let archive = genuine_full();
    let all = lines(&archive, &[]);
    for count in ["1", "7", "5000"] {
        let number: usize = count.parse().unwrap();
        assert!(lines(&archive, &["--limit", count]) == all[..number]);
        let array = accounts(&archive, &["--limit", count, "--format", "json"]).assert_code(0);
        assert!(array.json().as_array().unwrap() == &all[..number]);
        let table = accounts(&archive, &["--limit", count, "--format", "csv"]).assert_code(0);
        assert_eq!(table.stdout.lines().count(), number + 1);
        assert!(table.stderr.contains("unread and unchecked"), "{table:?}");
    }
    let more = (all.len() + 1).to_string();
    assert!(lines(&archive, &["--limit", &more]) == all);
    // Over the end of the first archive, and no further.
    let (full, incremental) = genuine_pairs().into_iter().find(|(it, _)| *it == archive).unwrap();
    let flags = ["--incremental", incremental.to_str().unwrap(), "--limit", &more];
    assert_eq!(lines(&full, &flags).len(), all.len() + 1);
    // What follows is not read.
    let bytes = fs::read(&archive).unwrap();
    let cut = site.write("cut", &bytes[..bytes.len() / 2]);
    assert!(lines(&cut, &["--limit", "3"]) == all[..3]);
    accounts(&archive, &["--limit", "0"]).assert_code(2);
}

#[test]
fn bad_archives_and_requests_are_told() {
    let site = Site::new();
    let tar = decompress(&fs::read(genuine_full()).unwrap()).unwrap();
    let cut = site.write("cut", &compress::zstd_frames(&tar[..tar.len() / 2], 1 << 16, 1));
    for more in [&[][..], &["--newest"]] {
        accounts(&cut, more).assert_code(1).assert_error(&["hint: "]);
    }
    accounts(Path::new("-"), &["--newest"]).assert_code(2).assert_error(&["two passes"]);
    for bad in [["--owner", "1"], ["--data-size", "5..4"]] {
        accounts(&genuine_full(), &bad).assert_code(2);
    }
    accounts(&site.path("missing"), &[]).assert_code(3).assert_error(&[]);
}

#[test]
fn who_has_read_enough_is_no_error() {
    let script = "set -o pipefail; \"$0\" accounts \"$1\" --quiet | head -n 1";
    let mut shell = std::process::Command::new("bash");
    let outcome = run(shell.args(["-c", script]).arg(ledger_tool_path()).arg(genuine_full()));
    let outcome = outcome.assert_code(0);
    assert_eq!((outcome.stdout.lines().count(), outcome.stderr.as_str()), (1, ""));
}
