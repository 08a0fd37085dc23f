//! Exports hold exactly the accounts of the archives, or do not exist.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, Row},
};
use tempfile::TempDir;
use unsnap_export::{
    AccountColumns, ExportError, ExportQuery, ExportReport, KeyForm, TableKind, export,
};
use unsnap_failure::{Code, Errno, Failure, Family};
use unsnap_lookup::{AccountFilter, Memcmp};
use unsnap_pass::{Archive, Archives, FaultPlan, Handles, Io, IoEngine, Options, SandboxMode};
use unsnap_testkit::{
    answers::{self, newest, rows},
    archive::write_archive,
    bank::{BankSpec, bank_file, name_hash},
    compress::zstd_frames,
    content::Content,
    spec::{ArchiveSpec, FileSizes, Frames, LatticeHash},
    tar::{account_path, snapshot_head},
};

struct Site {
    directory: TempDir,
}

impl Site {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn archive(&self, spec: &ArchiveSpec) -> Archive {
        let path = self.directory.path().join(spec.name());
        let mut bytes = Vec::new();
        write_archive(spec, &mut bytes).unwrap();
        fs::write(&path, bytes).unwrap();
        Archive::File(path)
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("tables")
    }

    /// Returns the names beside the archives.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.contains("snapshot-")).collect()
    }

    /// Exports to a new directory, checks it, and returns its rows.
    fn rows(&self, archives: &Archives, query: ExportQuery) -> (ExportReport, Vec<answers::Row>) {
        let _ = fs::remove_dir_all(self.output());
        let query = ExportQuery { output: self.output(), check: true, ..query };
        let report = export(archives, &query, &options(), &Handles::default()).unwrap();
        assert_eq!(self.names(), ["tables"]);
        let rows = read(&self.output(), &report);
        (report, rows)
    }
}

fn options() -> Options {
    Options { sandbox: SandboxMode::Off, ..Options::default() }
}

fn one(archive: Archive) -> Archives {
    Archives::new(archive, None).unwrap()
}

const ALL: AccountColumns = AccountColumns { keys: KeyForm::Binary, data: true, provenance: true };

fn query() -> ExportQuery {
    ExportQuery { columns: ALL, ..ExportQuery::all("") }
}

/// An archive of many small storages in frames that cut accounts.
fn spec() -> ArchiveSpec {
    ArchiveSpec {
        content: Content::Mainnet,
        total_bytes: 3_000_000,
        files: Some(40),
        frames: Frames::Sized(300_001),
        slot: 1000,
        ..ArchiveSpec::default()
    }
}

/// Reads the table as the manifest describes it.
fn read(output: &Path, report: &ExportReport) -> Vec<answers::Row> {
    assert_eq!(fs::read(output.join("_SUCCESS")).unwrap(), b"");
    let text = fs::read_to_string(output.join("_manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest, serde_json::to_value(&report.manifest).unwrap());
    let mut found = Vec::new();
    let table = &report.manifest.tables[0];
    assert_eq!(fs::read_dir(output.join("accounts")).unwrap().count(), table.files.len());
    for file in &table.files {
        let path = output.join(&file.path);
        assert_eq!(fs::metadata(&path).unwrap().len(), file.bytes);
        let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
        assert_eq!(reader.num_row_groups() as u64, file.row_groups);
        let before = found.len() as u64;
        found.extend(reader.get_row_iter(None).unwrap().map(|row| account(&row.unwrap())));
        assert_eq!(found.len() as u64 - before, file.rows);
    }
    assert_eq!((found.len() as u64, report.rows), (table.rows, table.rows));
    let lamports: u128 = found.iter().map(|row| u128::from(row.lamports)).sum();
    assert_eq!(table.lamports, lamports.to_string());
    found
}

/// Reads all files of a published table.
fn read_files(output: &Path) -> Vec<answers::Row> {
    assert!(output.join("_SUCCESS").exists() && output.join("_manifest.json").exists());
    let entries = fs::read_dir(output.join("accounts")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let rows = paths.iter().flat_map(|path| {
        let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(|row| account(&row.unwrap()));
        rows.collect::<Vec<_>>()
    });
    rows.collect()
}

/// Returns the account in a row. Columns that are not there are zero.
fn account(row: &Row) -> answers::Row {
    let field = |name: &str| {
        let mut columns = row.get_column_iter();
        columns.find(|(column, _)| *column == name).map(|(_, field)| field.clone())
    };
    let long = |name: &str| match field(name) {
        Some(Field::Long(value)) => u64::try_from(value).unwrap(),
        Some(Field::Int(value)) => u64::try_from(value).unwrap(),
        Some(Field::Null) => u64::MAX,
        _ => 0,
    };
    let key = |name: &str| match field(name) {
        Some(Field::Bytes(bytes)) => bytes.data().try_into().unwrap(),
        Some(Field::Str(text)) => bs58::decode(text).into_vec().unwrap().try_into().unwrap(),
        other => panic!("{name} is {other:?}"),
    };
    let data = match field("data") {
        Some(Field::Bytes(bytes)) => bytes.data().to_vec(),
        _ => Vec::new(),
    };
    assert!(data.len() as u64 <= long("data_len"));
    answers::Row {
        pubkey: key("pubkey"),
        owner: key("owner"),
        lamports: long("lamports"),
        slot: long("slot"),
        storage_id: long("storage_id").try_into().unwrap(),
        offset: long("offset"),
        executable: matches!(field("executable"), Some(Field::Bool(true))),
        rent_epoch: long("rent_epoch"),
        data,
    }
}

#[track_caller]
fn assert_rows(found: &[answers::Row], expected: &[answers::Row]) {
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(found == expected, "row {index}: {found:?}, expected {expected:?}");
    }
}

#[test]
fn every_record_is_a_row_in_the_order_of_the_archive() {
    let (site, spec) = (Site::new(), spec());
    let archives = one(site.archive(&spec));
    let expected = rows(&spec).unwrap();
    let mut digests = HashSet::new();
    for (threads, row_group_bytes, file_bytes) in
        [(1, None, None), (3, Some(100_000), Some(200_000)), (2, Some(1), None)]
    {
        let threads = NonZeroUsize::new(threads).unwrap();
        let query = ExportQuery { threads, row_group_bytes, file_bytes, ..query() };
        let (report, found) = site.rows(&archives, query);
        assert_rows(&found, &expected);
        let has_many = report.files > 1;
        assert_eq!((report.records, has_many), (expected.len() as u64, file_bytes.is_some()));
        let facts = &report.manifest.archives[0];
        assert_eq!(
            (facts.kind.as_str(), facts.slot, facts.records),
            ("full", Some(1000), report.records)
        );
        assert!(!report.manifest.filtered && report.checked);
        digests.insert(report.manifest.tables[0].digest.clone());
    }
    assert_eq!(digests.len(), 1, "the same rows: {digests:?}");
}

const DERIVED: [TableKind; 4] =
    [TableKind::TokenAccounts, TableKind::Mints, TableKind::Stakes, TableKind::Votes];

/// Reads a table as text: the names and values of its columns.
fn read_text(output: &Path, report: &ExportReport, table: &str) -> Vec<Vec<(String, String)>> {
    let text = |field: &Field| match field {
        Field::Bytes(bytes) => {
            bytes.data().iter().fold(String::new(), |text, byte| text + &format!("{byte:02X}"))
        }
        Field::Str(text) => text.clone(),
        Field::Null => "null".to_owned(),
        other => other.to_string().trim_end_matches('.').to_owned(),
    };
    let facts = report.manifest.tables.iter().find(|facts| facts.name == table).unwrap();
    let files = facts.files.iter().flat_map(|file| {
        let file = fs::File::open(output.join(&file.path)).unwrap();
        let rows = SerializedFileReader::new(file).unwrap().into_iter();
        rows.map(|row| {
            let row = row.unwrap();
            let fields = row.get_column_iter();
            fields.map(|(name, field)| (name.clone(), text(field))).collect()
        })
    });
    files.collect()
}

#[test]
fn derived_tables_hold_what_programs_keep() {
    let (site, spec) = (Site::new(), spec());
    let archives = one(site.archive(&spec));
    let rows = rows(&spec).unwrap();
    let derived = BTreeSet::from(DERIVED);
    let all: BTreeSet<_> = DERIVED.into_iter().chain([TableKind::Accounts]).collect();
    let columns = AccountColumns { provenance: false, ..ALL };
    let mut digests = Vec::new();
    for (tables, threads, row_group_bytes) in
        [(all.clone(), 1, None), (all, 3, Some(2000)), (derived, 2, None)]
    {
        let threads = NonZeroUsize::new(threads).unwrap();
        let output = site.output();
        let _ = fs::remove_dir_all(&output);
        let query =
            ExportQuery { tables: tables.clone(), threads, row_group_bytes, columns, ..query() };
        let query = ExportQuery { output: output.clone(), check: true, ..query };
        let report = export(&archives, &query, &options(), &Handles::default()).unwrap();
        let names: Vec<&str> =
            report.manifest.tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, tables.iter().map(|table| table.name()).collect::<Vec<_>>());
        assert_eq!(fs::read_dir(&output).unwrap().count(), tables.len() + 2);
        for table in DERIVED {
            let expected = answers::decoded(table.name(), &rows);
            let facts = report.manifest.tables.iter().find(|facts| facts.name == table.name());
            let facts = facts.unwrap();
            let found = read_text(&output, &report, table.name());
            assert!(found.len() > 3, "{table:?}: {} rows", found.len());
            assert_eq!(found.len(), expected.rows.len(), "{table:?}");
            for (found, expected) in found.iter().zip(&expected.rows) {
                let found: Vec<_> =
                    found.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
                assert_eq!(found, *expected, "{table:?}");
            }
            assert_eq!(facts.not_decoded, expected.not_decoded, "{table:?}");
            assert!(facts.columns.iter().eq(expected.rows[0].iter().map(|(name, _)| name)));
            digests.push(facts.digest.clone());
        }
        assert_eq!(report.records, rows.len() as u64);
    }
    assert!(digests.chunks(4).all(|chunk| chunk == &digests[..4]), "{digests:?}");
}

/// A record of a program, with data.
fn owned(owner: [u8; 32], data: &[u8]) -> Vec<u8> {
    let mut record = record(7, 1, u64::MAX, data);
    record[64..96].copy_from_slice(&owner);
    record
}

#[test]
fn hostile_data_of_programs_is_counted_and_never_a_row() {
    use unsnap_layout::programs::{STAKE_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, VOTE_PROGRAM};
    let site = Site::new();
    let mut storage = Vec::new();
    let mut count = 0;
    // No value of a mark, a version or a type is right.
    for length in [0, 1, 4, 81, 82, 83, 164, 165, 166, 170, 200, 1000, 3731, 3762, 10 << 20] {
        for byte in [0x7F, 0xFF] {
            count += 1;
            for owner in [TOKEN_PROGRAM, TOKEN_2022_PROGRAM, STAKE_PROGRAM, VOTE_PROGRAM] {
                storage.extend(owned(owner, &vec![byte; length]));
            }
        }
    }
    // All zeros: not initialised.
    for owner in [TOKEN_PROGRAM, TOKEN_2022_PROGRAM, STAKE_PROGRAM, VOTE_PROGRAM] {
        storage.extend(owned(owner, &[0; 165]));
    }
    count += 1;
    // Neither an account nor a mint, but known.
    storage.extend(owned(TOKEN_PROGRAM, &[0xFF; 355]));
    let tables = BTreeSet::from(DERIVED);
    let query = ExportQuery { output: site.output(), check: true, tables, ..query() };
    let archives = archive_of(&site, &storage);
    let report = export(&archives, &query, &options(), &Handles::default()).unwrap();
    let found: Vec<_> = report.manifest.tables.iter().map(|it| (it.rows, it.not_decoded)).collect();
    assert_eq!(found, [(0, 2 * count), (0, 2 * count), (0, count), (0, count)]);
    assert_eq!(report.records, 4 * count + 1);
}

#[test]
fn columns_are_those_asked_for() {
    let (site, spec) = (Site::new(), spec());
    let archives = one(site.archive(&spec));
    let expected = |change: &dyn Fn(&mut answers::Row)| {
        let mut rows = rows(&spec).unwrap();
        rows.iter_mut().for_each(change);
        rows
    };
    let with = |columns| ExportQuery { columns, ..query() };
    let without_provenance = |row: &mut answers::Row| (row.storage_id, row.offset) = (0, 0);
    let keys = with(AccountColumns { keys: KeyForm::Base58, provenance: false, ..ALL });
    assert_rows(&site.rows(&archives, keys).1, &expected(&without_provenance));
    let no_data = with(AccountColumns { data: false, ..ALL });
    let (report, found) = site.rows(&archives, no_data);
    assert_rows(&found, &expected(&|row| row.data.clear()));
    assert!(!report.manifest.tables[0].columns.contains(&"data".to_owned()));
    let prefix = ExportQuery { data_prefix: Some(40), ..query() };
    let (report, found) = site.rows(&archives, prefix);
    assert_rows(&found, &expected(&|row| row.data.truncate(40)));
    assert_eq!(report.manifest.data_prefix, Some(40));
}

#[test]
fn filters_select_what_they_say() {
    type Keep<'a> = &'a dyn Fn(&answers::Row) -> bool;
    let (site, spec) = (Site::new(), spec());
    let archives = one(site.archive(&spec));
    let all = rows(&spec).unwrap();
    let (one_row, other) = (&all[17], &all[500]);
    let token = all.iter().find(|row| row.data.len() == 165).unwrap();
    let filter = AccountFilter::default;
    let mint = Memcmp { offset: 0, bytes: token.data[..32].to_vec() };
    let cases: [(AccountFilter, Keep<'_>); 6] = [
        (AccountFilter { owners: vec![one_row.owner, other.owner], ..filter() }, &|row| {
            [one_row.owner, other.owner].contains(&row.owner)
        }),
        (AccountFilter { data_len: 165..=200, ..filter() }, &|row| {
            (165..=200).contains(&row.data.len())
        }),
        (AccountFilter { memcmp: vec![mint], ..filter() }, &|row| {
            row.data.starts_with(&token.data[..32])
        }),
        (
            AccountFilter { pubkeys: Some([one_row.pubkey, other.pubkey].into()), ..filter() },
            &|row| row.pubkey == one_row.pubkey || row.pubkey == other.pubkey,
        ),
        (AccountFilter { slots: vec![990..=995, 1000..=1000], ..filter() }, &|row| {
            (990..=995).contains(&row.slot) || row.slot == 1000
        }),
        (AccountFilter { pubkeys: Some(HashSet::new()), ..filter() }, &|_| false),
    ];
    for (filter, keep) in cases {
        let expected: Vec<_> = all.iter().filter(|row| keep(row)).cloned().collect();
        assert!(expected.len() < all.len());
        let (report, found) = site.rows(&archives, ExportQuery { filter, ..query() });
        assert_rows(&found, &expected);
        assert!(report.manifest.filtered && report.records == all.len() as u64);
    }
}

#[test]
fn the_newest_versions_of_both_archives_have_the_banks_lamports() {
    let site = Site::new();
    let full = ArchiveSpec { lattice_hash: LatticeHash::OfAccounts, ..spec() };
    // The same seed gives the same accounts again.
    let increment = ArchiveSpec {
        slot: 1100,
        base_slot: Some(1000),
        files: Some(10),
        total_bytes: 900_000,
        lattice_hash: LatticeHash::OfAccountsUpon(Box::new(full.clone())),
        ..full.clone()
    };
    let both = [&full, &increment].into_iter().flat_map(|spec| rows(spec).unwrap());
    let both: Vec<answers::Row> = both.collect();
    let pair = Archives::new(site.archive(&full), Some(site.archive(&increment))).unwrap();
    assert_rows(&site.rows(&pair, query()).1, &both);
    let expected = newest(both.clone());
    assert!(expected.len() < both.len());
    let (report, found) = site.rows(&pair, ExportQuery { newest: true, ..query() });
    assert_rows(&found, &expected);
    let capitalization = report.manifest.archives[1].capitalization.unwrap();
    assert_eq!(report.manifest.tables[0].lamports, capitalization.to_string());
    assert_eq!((report.manifest.slot, report.manifest.newest), (Some(1100), true));
}

#[test]
fn a_wrong_capitalization_is_found_by_the_check() {
    let (site, spec) = (Site::new(), spec());
    let archives = one(site.archive(&spec));
    let query = ExportQuery { newest: true, check: true, output: site.output(), ..query() };
    let error = export(&archives, &query, &options(), &Handles::default()).unwrap_err();
    assert_eq!((error.code(), error.family()), (Code::WrongAccounts, Family::BadArchive));
    assert!(matches!(error, ExportError::Capitalization { .. }), "{error}");
    assert_eq!(site.names(), [""; 0]);
    let query = ExportQuery { check: false, ..query };
    export(&archives, &query, &options(), &Handles::default()).unwrap();
}

/// A record of a storage.
fn record(pubkey: u8, lamports: u64, rent_epoch: u64, data: &[u8]) -> Vec<u8> {
    let mut record = vec![0; 136];
    record[8..16].copy_from_slice(&(data.len() as u64).to_le_bytes());
    record[16..48].fill(pubkey);
    record[48..56].copy_from_slice(&lamports.to_le_bytes());
    record[56..64].copy_from_slice(&rent_epoch.to_le_bytes());
    record.extend_from_slice(data);
    record.resize(record.len().next_multiple_of(8), 0);
    record
}

/// An archive with one storage.
fn archive_of(site: &Site, storage: &[u8]) -> Archives {
    let lattice_hash = [7; 2048];
    let storages = [(90, 1, storage.len() as u64)];
    let bank = bank_file(&BankSpec {
        slot: 100,
        lattice_hash: &lattice_hash,
        capitalization: 1,
        storages: &storages,
        vote_accounts: 1,
        seed: 0,
    });
    let tar = snapshot_head(100, &bank, &[2; 500]);
    let tar = tar.account(&account_path(90, 1), storage).finish();
    let name = format!("snapshot-100-{}.tar.zst", name_hash(&lattice_hash));
    let path = site.directory.path().join(name);
    fs::write(&path, zstd_frames(&tar, 100_000, 1)).unwrap();
    one(Archive::File(path))
}

#[test]
fn numbers_and_data_at_their_limits_are_represented_or_refused() {
    let site = Site::new();
    let most = u64::try_from(i64::MAX).unwrap();
    let large: Vec<u8> = (0..10 << 20).map(|at: u32| at.to_le_bytes()[2]).collect();
    let good = [
        record(1, 0, 0, &[]),
        record(2, most, u64::MAX, &[1]),
        record(3, 1, most, &large),
        record(4, most, 1, &[]),
    ];
    let (report, found) = site.rows(&archive_of(&site, &good.concat()), query());
    let facts: Vec<_> =
        found.iter().map(|row| (row.pubkey[0], row.lamports, row.rent_epoch)).collect();
    assert_eq!(facts, [(1, 0, 0), (2, most, u64::MAX), (3, 1, most), (4, most, 1)]);
    assert!(found[2].data == large && found[0].data.is_empty());
    assert_eq!(report.manifest.tables[0].lamports, (2 * u128::from(most) + 1).to_string());

    fs::remove_dir_all(site.output()).unwrap();
    for (bad, column) in [
        (record(9, most + 1, 0, &[]), "lamports"),
        (record(9, u64::MAX, 0, &[]), "lamports"),
        (record(9, 1, u64::MAX - 1, &[]), "rent_epoch"),
    ] {
        let archives = archive_of(&site, &[record(1, 1, 0, &[]), bad].concat());
        let query = ExportQuery { output: site.output(), ..query() };
        let error = export(&archives, &query, &options(), &Handles::default()).unwrap_err();
        assert_eq!((error.code(), error.family()), (Code::BadStorage, Family::BadArchive));
        assert!(error.to_string().contains(column), "{error}");
        assert_eq!(site.names(), [""; 0]);
    }
}

#[test]
fn bad_archives_and_used_directories_are_refused() {
    let (site, spec) = (Site::new(), spec());
    let Archive::File(path) = site.archive(&spec) else { unreachable!() };
    let good = fs::read(&path).unwrap();
    let export_to = |output: &Path| {
        let query = ExportQuery { output: output.to_owned(), ..query() };
        let archives = one(Archive::File(path.clone()));
        export(&archives, &query, &options(), &Handles::default()).map(drop)
    };
    for cut in [good.len() - 1, good.len() / 2] {
        fs::write(&path, &good[..cut]).unwrap();
        assert_eq!(export_to(&site.output()).unwrap_err().family(), Family::BadArchive);
        assert_eq!(site.names(), [""; 0]);
    }
    fs::write(&path, &good).unwrap();
    fs::create_dir(site.output()).unwrap();
    export_to(&site.output()).unwrap();
    let error = export_to(&site.output()).unwrap_err();
    assert_eq!(error.family(), Family::NotClean, "{error}");
    let cancelled = Handles::default();
    cancelled.cancel.cancel();
    let query = ExportQuery { output: site.directory.path().join("other"), ..query() };
    let error = export(&one(Archive::File(path.clone())), &query, &options(), &cancelled);
    assert_eq!(error.unwrap_err().family(), Family::Cancelled);
    assert_eq!(site.names(), ["tables"]);
}

/// Fails every system call in turn, once and for good. A success holds all rows, and a failure leaves
/// nothing.
#[test]
fn whatever_call_fails_there_are_all_rows_or_none() {
    let site = Site::new();
    let spec = ArchiveSpec {
        total_bytes: 60_000,
        files: Some(3),
        file_sizes: FileSizes::Fixed(20_000),
        ..spec()
    };
    let archives = one(site.archive(&spec));
    let expected = rows(&spec).unwrap();
    let (mut failed, mut done) = (0, 0);
    for errno in [Errno::NOSPC, Errno::IO] {
        for lasting in [false, true] {
            for step in 0.. {
                let plan = FaultPlan::new(0);
                let plan =
                    if lasting { plan.fail_from(step, errno) } else { plan.fail(step, errno) };
                let io = Io { engine: IoEngine::Faulty(plan.clone()), ..Io::default() };
                let options = Options { io, ..options() };
                let query = ExportQuery {
                    output: site.output(),
                    row_group_bytes: Some(10_000),
                    file_bytes: Some(10_000),
                    threads: NonZeroUsize::MIN,
                    ..query()
                };
                let result = export(&archives, &query, &options, &Handles::default());
                let call = plan.injected().first().map(|injected| injected.call);
                match &result {
                    Ok(report) => {
                        assert_rows(&read(&site.output(), report), &expected);
                        fs::remove_dir_all(site.output()).unwrap();
                        done += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.family(), Family::Environment, "{call:?}: {error}");
                        // What was published cannot be taken back if nothing works any more.
                        if site.output().exists() {
                            assert!(lasting, "{call:?}: {error}");
                            assert_rows(&read_files(&site.output()), &expected);
                            fs::remove_dir_all(site.output()).unwrap();
                        }
                        failed += 1;
                    }
                }
                // A directory that cannot be removed is left to the next run.
                for name in site.names() {
                    assert_eq!(name, ".tables.unsnap-staging");
                    fs::remove_dir_all(site.directory.path().join(name)).unwrap();
                }
                if call.is_none() {
                    result.unwrap();
                    break;
                }
            }
        }
    }
    assert!(failed > 100 && done > 4, "{failed} failed, {done} did not");
}
