//! An export that is not what it was, in whatever part, is found out.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};
use tempfile::TempDir;
use unsnap_export::{
    AccountColumns, CheckQuery, CheckReport, ExportError, ExportQuery, KeyForm, Problem, TableKind,
    check, export,
};
use unsnap_failure::{Code, Failure, Family};
use unsnap_lookup::AccountFilter;
use unsnap_pass::{Archive, Archives, Handles, Options, SandboxMode};
use unsnap_source::DigestKind;
use unsnap_testkit::{
    archive::write_archive,
    content::Content,
    spec::{ArchiveSpec, Frames, LatticeHash},
};

/// An export of a full and an incremental archive, in several files.
struct Ground {
    directory: TempDir,
    pair: Archives,
    query: ExportQuery,
}

fn options() -> Options {
    Options { sandbox: SandboxMode::Off, ..Options::default() }
}

impl Ground {
    fn new(query: ExportQuery) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let full = ArchiveSpec {
            content: Content::Mainnet,
            total_bytes: 400_000,
            files: Some(12),
            frames: Frames::Sized(100_001),
            slot: 1000,
            lattice_hash: LatticeHash::OfAccounts,
            ..ArchiveSpec::default()
        };
        let increment = ArchiveSpec {
            slot: 1100,
            base_slot: Some(1000),
            files: Some(4),
            total_bytes: 100_000,
            lattice_hash: LatticeHash::OfAccountsUpon(Box::new(full.clone())),
            ..full.clone()
        };
        let [full, increment] = [full, increment].map(|spec| {
            let path = directory.path().join(spec.name());
            let mut bytes = Vec::new();
            write_archive(&spec, &mut bytes).unwrap();
            fs::write(&path, bytes).unwrap();
            Archive::File(path)
        });
        let pair = Archives::new(full, Some(increment)).unwrap();
        let query = ExportQuery {
            output: directory.path().join("tables"),
            row_group_bytes: Some(30_000),
            file_bytes: Some(60_000),
            ..query
        };
        let ground = Self { directory, pair, query };
        ground.export();
        ground
    }

    fn export(&self) {
        let _ = fs::remove_dir_all(self.output());
        export(&self.pair, &self.query, &options(), &Handles::default()).unwrap();
    }

    fn output(&self) -> PathBuf {
        self.query.output.clone()
    }

    fn check(&self) -> Result<CheckReport, ExportError> {
        check(&CheckQuery::new(self.output()), None, &options(), &Handles::default())
    }

    fn check_against(&self, archives: &Archives) -> Result<CheckReport, ExportError> {
        let query = CheckQuery::new(self.output());
        check(&query, Some(archives), &options(), &Handles::default())
    }

    /// Fails unless the check finds a problem. Returns where, below the output directory.
    #[track_caller]
    fn problem(&self) -> (String, Problem) {
        let error = self.check().unwrap_err();
        assert_eq!(
            (error.code(), error.family()),
            (Code::BadExport, Family::BadArchive),
            "{error}"
        );
        let ExportError::BadExport { path, problem } = error else { panic!("{error}") };
        let below = path.strip_prefix(self.output()).unwrap().to_str().unwrap().to_owned();
        (below, *problem)
    }

    fn manifest(&self) -> Value {
        serde_json::from_slice(&fs::read(self.output().join("_manifest.json")).unwrap()).unwrap()
    }

    fn set_manifest(&self, manifest: &Value) {
        fs::write(self.output().join("_manifest.json"), manifest.to_string()).unwrap();
    }
}

fn all() -> ExportQuery {
    let tables = BTreeSet::from(TableKind::ALL);
    ExportQuery { newest: true, tables, ..ExportQuery::all("") }
}

#[test]
fn a_good_export_has_the_hash_and_the_lamports_of_its_bank() {
    for (keys, provenance) in [(KeyForm::Binary, false), (KeyForm::Base58, true)] {
        let columns = AccountColumns { keys, data: true, provenance };
        let ground = Ground::new(ExportQuery { columns, ..all() });
        let report = ground.check_against(&ground.pair).unwrap();
        let newest = report.manifest.archives.last().unwrap();
        assert!(report.accounts_hash.is_some() && report.accounts_hash == newest.hash);
        assert!(report.capitalization.is_some() && report.capitalization == newest.capitalization);
        assert_eq!((report.slot, report.compared_with.len()), (Some(1100), 2));
        assert!(report.files > 6 && report.rows > 500, "{report:?}");
    }
    // Without all data, versions or tables there is less to compare.
    let columns = AccountColumns { keys: KeyForm::Binary, data: false, provenance: false };
    let cases = [
        (ExportQuery { columns, ..all() }, true),
        (ExportQuery { data_prefix: Some(8), ..all() }, true),
        (ExportQuery { newest: false, ..all() }, false),
        (ExportQuery { tables: BTreeSet::from([TableKind::Mints]), ..all() }, false),
    ];
    for (query, has_capitalization) in cases {
        let ground = Ground::new(query);
        let report = ground.check_against(&ground.pair).unwrap();
        assert_eq!(report.accounts_hash, None);
        assert_eq!(report.capitalization.is_some(), has_capitalization);
    }
}

/// Offsets of a file's parts: its magic numbers, the pages of every column, the indexes, the footer.
fn parts(path: &Path) -> BTreeSet<u64> {
    let file = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let end = fs::metadata(path).unwrap().len();
    let mut parts = BTreeSet::from([0, 3, end - 1, end - 4, end - 5, end - 8, end - 9, end - 50]);
    for group in file.metadata().row_groups() {
        for column in group.columns() {
            let (begin, length) = column.byte_range();
            parts.extend([begin, begin + length / 2, begin + length - 1]);
            let indexes = [column.column_index_offset(), column.offset_index_offset()];
            parts.extend(indexes.into_iter().flatten().map(|at| u64::try_from(at).unwrap() + 1));
        }
    }
    parts
}

#[test]
fn a_flipped_byte_in_any_part_of_a_file_is_found() {
    let ground = Ground::new(all());
    let before = ground.manifest();
    let mut undetectable = 0;
    for table in 0..5 {
        let file = &before["tables"][table]["files"][0];
        let name = file["path"].as_str().unwrap();
        let path = ground.output().join(name);
        let good = fs::read(&path).unwrap();
        let parts = parts(&path);
        assert!(parts.len() > 20, "{parts:?}");
        for at in parts {
            let mut bad = good.clone();
            bad[usize::try_from(at).unwrap()] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            let (below, problem) = ground.problem();
            assert!(below == name && matches!(problem, Problem::Bytes { .. }), "{at}: {problem}");
            // Even if the digest of the bytes were right, no other rows are taken for these.
            let mut forged = before.clone();
            let mut hasher = DigestKind::Xxh3.hasher();
            hasher.update(&bad);
            forged["tables"][table]["files"][0]["digest"] = json!(hasher.digest().to_string());
            ground.set_manifest(&forged);
            if ground.check().is_ok() {
                undetectable += 1;
            }
            ground.set_manifest(&before);
        }
        fs::write(&path, good).unwrap();
    }
    // Sizes and statistics that only say how to read, not what.
    assert!(undetectable > 0, "the digest of the bytes proves nothing that the rows do not");
    ground.check().unwrap();
}

#[test]
fn missing_and_foreign_files_are_found() {
    let ground = Ground::new(all());
    let output = ground.output();
    let first = "accounts/part-00000.parquet";
    let second = "accounts/part-00001.parquet";

    fs::rename(output.join(second), output.join("../aside")).unwrap();
    assert!(matches!(ground.problem(), (path, Problem::Missing) if path == second));
    // Another file of the same table is not that file, nor is a link to it.
    fs::copy(output.join(first), output.join(second)).unwrap();
    let (path, problem) = ground.problem();
    assert!(path == second, "{problem}");
    fs::remove_file(output.join(second)).unwrap();
    std::os::unix::fs::symlink("../../aside", output.join(second)).unwrap();
    assert!(matches!(ground.problem(), (path, Problem::Foreign) if path == second));
    fs::remove_file(output.join(second)).unwrap();
    fs::rename(output.join("../aside"), output.join(second)).unwrap();
    ground.check().unwrap();

    for foreign in ["accounts/part-00099.parquet", "mints/.hidden", "note", "votes/_SUCCESS"] {
        fs::write(output.join(foreign), "").unwrap();
        assert!(matches!(ground.problem(), (path, Problem::Foreign) if path == foreign));
        fs::remove_file(output.join(foreign)).unwrap();
    }
    fs::create_dir(output.join("accounts/program=token")).unwrap();
    assert!(
        matches!(ground.problem(), (path, Problem::Foreign) if path == "accounts/program=token")
    );
    fs::remove_dir(output.join("accounts/program=token")).unwrap();

    let good = fs::read(output.join(first)).unwrap();
    for other in [&good[..good.len() - 1], &[&good[..], &[0]].concat(), &[]] {
        fs::write(output.join(first), other).unwrap();
        assert!(matches!(ground.problem(), (path, Problem::Size { .. }) if path == first));
    }
    fs::write(output.join(first), good).unwrap();

    for (name, is_problem) in [
        ("_SUCCESS", (|problem| matches!(problem, Problem::NotComplete)) as fn(&Problem) -> bool),
        ("_manifest.json", |problem| matches!(problem, Problem::Manifest(_))),
    ] {
        let bytes = fs::read(output.join(name)).unwrap();
        fs::remove_file(output.join(name)).unwrap();
        let (_, problem) = ground.problem();
        assert!(is_problem(&problem), "{problem}");
        fs::write(output.join(name), bytes).unwrap();
    }
    ground.check().unwrap();
    fs::remove_dir_all(&output).unwrap();
    let error = ground.check().unwrap_err();
    assert_eq!((error.code(), error.family()), (Code::NotFound, Family::Environment));
}

#[test]
fn manifests_that_lie_are_found() {
    let ground = Ground::new(all());
    let good = ground.manifest();
    let cases: [(&str, Value); 17] = [
        ("/version", json!(2)),
        ("/version", json!("1")),
        ("/keys", json!("base64")),
        ("/keys", json!("base58")),
        ("/tables/0/name", json!("../accounts")),
        ("/tables/0/name", json!("mints")),
        ("/tables/0/columns/1", json!("holder")),
        ("/tables/0/rows", json!(1)),
        ("/tables/0/lamports", json!("1")),
        ("/tables/0/digest", json!("xxh3-sum:00000000000000000000000000000000")),
        ("/tables/0/files/0/path", json!("accounts/../mints/part-00000.parquet")),
        ("/tables/0/files/0/path", json!("/etc/passwd")),
        ("/tables/0/files/0/path", json!("accounts/part-00001.parquet")),
        ("/tables/0/files/0/rows", json!(1)),
        ("/tables/0/files/0/row_groups", json!(77)),
        ("/tables/0/files/0/bytes", json!(1)),
        ("/tables/0/files", json!([])),
    ];
    for (pointer, value) in cases {
        let mut lie = good.clone();
        *lie.pointer_mut(pointer).unwrap() = value;
        ground.set_manifest(&lie);
        let (path, problem) = ground.problem();
        assert!(!path.contains(".."), "{pointer}: {path}: {problem}");
    }
    for lie in ["", "{", "[]", "{\"version\": 1}"] {
        fs::write(ground.output().join("_manifest.json"), lie).unwrap();
        assert!(matches!(ground.problem(), (_, Problem::Manifest(_))));
    }
    // The bank's own numbers.
    for (field, value) in
        [("hash", json!("11111111111111111111111111111111")), ("capitalization", json!(5))]
    {
        let mut lie = good.clone();
        lie["archives"][1][field] = value;
        ground.set_manifest(&lie);
        let error = ground.check().unwrap_err();
        let is_right = match &error {
            ExportError::BadExport { problem, .. } => {
                field == "hash" && matches!(**problem, Problem::AccountsHash { .. })
            }
            ExportError::Capitalization { .. } => field == "capitalization",
            _ => false,
        };
        assert!(is_right, "{error}");
    }
}

#[test]
fn an_archive_with_other_accounts_is_not_that_of_the_export() {
    let ground = Ground::new(all());
    let [full, _] = ground.pair.as_slice() else { panic!("two archives") };
    let alone = Archives::new(full.clone(), None).unwrap();
    let error = ground.check_against(&alone).unwrap_err();
    let ExportError::BadExport { problem, .. } = &error else { panic!("{error}") };
    assert!(matches!(**problem, Problem::Rows { table: "accounts", .. }), "{error}");
    assert!(error.to_string().contains("snapshot-1000-"), "{error}");
    assert!(!ground.directory.path().join(".tables.unsnap-staging").exists());

    // Which records a filter has selected is not known.
    let filter = AccountFilter { data_len: 1..=u64::MAX, ..AccountFilter::default() };
    let ground = Ground::new(ExportQuery { filter, ..all() });
    let report = ground.check().unwrap();
    assert_eq!((report.accounts_hash, report.capitalization), (None, None));
    let error = ground.check_against(&ground.pair).unwrap_err();
    assert_eq!(error.family(), Family::Request);
}

#[test]
fn a_check_can_be_cancelled() {
    let ground = Ground::new(all());
    let handles = Handles::default();
    handles.cancel.cancel();
    let error = check(&CheckQuery::new(ground.output()), None, &options(), &handles).unwrap_err();
    assert_eq!(error.family(), Family::Cancelled);
}
