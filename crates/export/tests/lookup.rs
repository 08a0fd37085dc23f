//! Accounts are found in exports, in directories and on servers that do as they like.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use unsnap_export::{
    AccountColumns, ExportError, ExportQuery, KeyForm, LookupQuery, LookupReport, Place, TableKind,
    export, lookup,
};
use unsnap_failure::{Code, Failure, Family};
use unsnap_fetch::{Address, FetchOptions, Patience};
use unsnap_pass::{Archive, Archives, Handles, Options, SandboxMode};
use unsnap_testkit::{
    answers::{Row, decoded, rows},
    archive::write_archive,
    content::Content,
    server::{Fault, Personality, Script, Server},
    spec::{ArchiveSpec, Frames},
};

fn options() -> Options {
    Options { sandbox: SandboxMode::Off, ..Options::default() }
}

/// An export of all tables in several files.
struct Ground {
    _directory: TempDir,
    output: PathBuf,
    rows: Vec<Row>,
}

impl Ground {
    fn new(keys: KeyForm) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let spec = ArchiveSpec {
            content: Content::Mainnet,
            total_bytes: 900_000,
            files: Some(20),
            frames: Frames::Sized(200_001),
            slot: 1000,
            ..ArchiveSpec::default()
        };
        let path = directory.path().join(spec.name());
        let mut bytes = Vec::new();
        write_archive(&spec, &mut bytes).unwrap();
        fs::write(&path, bytes).unwrap();
        let output = directory.path().join("tables");
        let query = ExportQuery {
            tables: BTreeSet::from(TableKind::ALL),
            columns: AccountColumns { keys, data: true, provenance: true },
            row_group_bytes: Some(50_000),
            file_bytes: Some(60_000),
            ..ExportQuery::all(&output)
        };
        let archives = Archives::new(Archive::File(path), None).unwrap();
        export(&archives, &query, &options(), &Handles::default()).unwrap();
        Self { _directory: directory, output, rows: rows(&spec).unwrap() }
    }

    fn query(&self) -> LookupQuery {
        LookupQuery {
            place: Place::Directory(self.output.clone()),
            keys: self.rows.iter().step_by(97).map(|row| row.pubkey).collect(),
            tables: BTreeSet::from([TableKind::Accounts]),
            with_data: true,
            gap_bytes: None,
            threads: NonZeroUsize::new(3).unwrap(),
        }
    }

    /// The rows of the query's addresses in the table of accounts.
    fn expected(&self, query: &LookupQuery) -> Vec<Value> {
        let wanted = self.rows.iter().filter(|row| query.keys.contains(&row.pubkey));
        let text = |key: &[u8; 32]| bs58::encode(key).into_string();
        let rows = wanted.map(|row| {
            let epoch = (row.rent_epoch != u64::MAX).then_some(row.rent_epoch);
            let mut values = json!({
                "pubkey": text(&row.pubkey),
                "owner": text(&row.owner),
                "lamports": row.lamports,
                "slot": row.slot,
                "data_len": row.data.len(),
                "executable": row.executable,
                "rent_epoch": epoch,
                "storage_id": row.storage_id,
                "offset": row.offset,
            });
            if query.with_data {
                values["data"] = json!(STANDARD.encode(&row.data));
            }
            json!({"table": "accounts", "values": values})
        });
        rows.collect()
    }

    /// The files by their paths below the directory.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut add = |path: &Path| {
            let name = path.strip_prefix(&self.output).unwrap().to_str().unwrap().to_owned();
            files.insert(format!("exports/{name}"), fs::read(path).unwrap());
        };
        for entry in fs::read_dir(&self.output).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                for entry in fs::read_dir(path).unwrap() {
                    add(&entry.unwrap().path());
                }
            } else {
                add(&path);
            }
        }
        files
    }
}

fn ask(query: &LookupQuery) -> Result<LookupReport, ExportError> {
    lookup(query, &options(), &Handles::default())
}

fn found(report: &LookupReport) -> Vec<Value> {
    report.rows.iter().map(|row| serde_json::to_value(row).unwrap()).collect()
}

#[test]
fn accounts_are_found_with_all_of_their_values() {
    for keys in [KeyForm::Binary, KeyForm::Base58] {
        let ground = Ground::new(keys);
        let mut requests = Vec::new();
        for (gap_bytes, with_data) in [(Some(0), true), (None, false), (Some(1 << 30), true)] {
            let mut query = LookupQuery { gap_bytes, with_data, ..ground.query() };
            assert!(query.keys.len() > 10);
            query.keys.insert([9; 32]);
            let report = ask(&query).unwrap();
            assert_eq!(found(&report), ground.expected(&query));
            assert_eq!(report.missing, [bs58::encode([9; 32]).into_string()]);
            assert_eq!(report.slot, Some(1000));
            assert!(report.files > 1 && report.row_groups >= report.row_groups_read, "{report:?}");
            assert!(report.row_groups > report.files, "{report:?}");
            assert!(report.bytes_needed <= report.bytes_read, "{report:?}");
            requests.push(report.requests);
        }
        assert!(requests[2] < requests[0], "{requests:?}");
    }
}

#[test]
fn all_tables_are_searched_and_numbers_without_a_sign_are_text() {
    let ground = Ground::new(KeyForm::Binary);
    let stakes = decoded("stakes", &ground.rows);
    let hex =
        |key: &[u8; 32]| key.iter().fold(String::new(), |text, byte| text + &format!("{byte:02X}"));
    let stake = &stakes.rows[stakes.rows.len() / 2];
    let value = |name: &str| stake.iter().find(|it| it.0 == name).unwrap().1.clone();
    let pubkey = value("pubkey");
    let key = ground.rows.iter().map(|row| row.pubkey).find(|key| hex(key) == pubkey).unwrap();
    let query = LookupQuery {
        keys: BTreeSet::from([key]),
        tables: BTreeSet::new(),
        with_data: false,
        ..ground.query()
    };
    let report = ask(&query).unwrap();
    let tables: BTreeSet<&str> = report.rows.iter().map(|row| row.table).collect();
    assert_eq!(tables, BTreeSet::from(["accounts", "stakes"]));
    let row = found(&report).into_iter().find(|row| row["table"] == "stakes").unwrap();
    assert_eq!(row["values"]["rent_exempt_reserve"], value("rent_exempt_reserve"));
    assert!(row["values"]["lamports"].is_u64() && row["values"].get("data").is_none(), "{row}");
}

fn impatient() -> FetchOptions {
    let patience = Patience {
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(5),
        give_up: Duration::from_secs(5),
        ..Patience::default()
    };
    FetchOptions { patience, confined: false, ..FetchOptions::default() }
}

fn at(server: &Server, query: LookupQuery) -> LookupQuery {
    let address = Address::parse(&server.url("/exports/")).unwrap();
    LookupQuery { place: Place::Server(Box::new((address, impatient()))), ..query }
}

#[test]
fn servers_are_asked_for_little_and_their_faults_cost_only_time() {
    let ground = Ground::new(KeyForm::Binary);
    let expected = ground.expected(&ground.query());
    let never = || Box::new(|_: usize, _: &_| None) as Script;
    let every = |nth: usize, fault: Fault| {
        // Not the first request for a file: nothing is tried again in front of a wrong address.
        Box::new(move |number: usize, asked: &unsnap_testkit::server::Asked| {
            let is_first = asked.headers.contains("range: bytes=0-65535");
            (number % nth == nth - 1 && !is_first && asked.headers.contains("if-match"))
                .then(|| fault.clone())
        }) as Script
    };
    for (personality, script, is_whole) in [
        (Personality::nginx(), never(), true),
        (Personality::firedancer(), never(), true),
        (Personality { closes: true, ..Personality::nginx() }, never(), true),
        (Personality::nginx(), every(3, Fault::Cut(10)), false),
        (Personality::nginx(), every(2, Fault::Close), false),
        (Personality::nginx(), every(3, Fault::Short(7)), false),
        (Personality::nginx(), every(3, Fault::Status("503 Service Unavailable")), false),
    ] {
        let server = Server::start_files(ground.files(), personality, script);
        let query = at(&server, ground.query());
        let report = ask(&query).unwrap();
        assert_eq!(found(&report), expected);
        let asked = server.asked();
        assert_eq!(report.requests, asked.len() as u64);
        if is_whole {
            // The manifest, and of each file: its end, addresses, other columns.
            assert!(report.requests <= 1 + report.files * 3, "{:?}", server.asked());
            let bytes: u64 = asked
                .iter()
                .map(|asked| asked.range.unwrap())
                .map(|(first, last)| last.unwrap() + 1 - first)
                .sum();
            assert!(bytes >= report.bytes_read, "{bytes} {report:?}");
        }
    }
}

#[test]
fn servers_that_cannot_answer_are_refused() {
    let ground = Ground::new(KeyForm::Binary);
    let never = || Box::new(|_: usize, _: &_| None) as Script;
    // Without ranges.
    let server = Server::start_files(ground.files(), Personality::agave(), never());
    let error = ask(&at(&server, ground.query())).unwrap_err();
    assert_eq!((error.code(), error.family()), (Code::Network, Family::Environment), "{error}");
    // Without a file.
    let mut files = ground.files();
    files.remove("exports/accounts/part-00001.parquet").unwrap();
    let server = Server::start_files(files, Personality::nginx(), never());
    let error = ask(&at(&server, ground.query())).unwrap_err();
    assert!(error.to_string().contains("part-00001.parquet"), "{error}");
    // A file that changes under way.
    let other = |_: usize, asked: &unsnap_testkit::server::Asked| {
        asked.headers.contains("if-match").then_some(Fault::OtherTag)
    };
    let server = Server::start_files(ground.files(), Personality::nginx(), Box::new(other));
    let error = ask(&at(&server, ground.query())).unwrap_err();
    assert_eq!(error.family(), Family::BadArchive, "{error}");
    // Not an export.
    let files = BTreeMap::from([("exports/_manifest.json".to_owned(), b"{}".to_vec())]);
    let server = Server::start_files(files, Personality::nginx(), never());
    let error = ask(&at(&server, ground.query())).unwrap_err();
    assert_eq!(error.code(), Code::BadExport, "{error}");
}

#[test]
fn directories_without_an_export_and_unknown_tables_are_refused() {
    let ground = Ground::new(KeyForm::Binary);
    fs::remove_file(ground.output.join("_SUCCESS")).unwrap();
    assert_eq!(ask(&ground.query()).unwrap_err().code(), Code::BadExport);
    fs::remove_dir_all(&ground.output).unwrap();
    assert_eq!(ask(&ground.query()).unwrap_err().code(), Code::NotFound);
    let keys = (0..10_001_u32).map(|number| {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        key
    });
    let query = LookupQuery { keys: keys.collect(), ..ground.query() };
    assert_eq!(ask(&query).unwrap_err().family(), Family::Request);
}
