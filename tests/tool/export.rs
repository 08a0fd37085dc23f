//! `export`: tables hold the accounts of the archives, and engines give the right answers.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use unsnap_test_support::{Outcome, Site, genuine, genuine_full, ledger_tool, run, until};
use unsnap_testkit::{
    answers::{Row, decoded, newest, rows},
    content::Content,
    skip::{skip, skip_unsupported},
    spec::{ArchiveSpec, Frames},
};

use crate::scan::{Scanned, scan};

fn export(archive: &Path, output: &Path, more: &[&str]) -> Outcome {
    let mut tool = ledger_tool();
    tool.args(["export", "--report", "json"]).arg(archive).arg("--output").arg(output);
    run(tool.args(more))
}

#[test]
fn genuine_archives_are_exported_and_checked() {
    for archive in genuine() {
        let site = Site::new();
        let output = site.path("tables");
        let outcome = export(&archive, &output, &["--check", "--keys", "base58", "--provenance"]);
        let report = outcome.assert_code(0).json();
        let records = scan(&archive);
        assert_eq!(report["rows"], records.len(), "{report:#}");
        let lamports: u128 = records.iter().map(|record| u128::from(record.lamports)).sum();
        let table = &report["manifest"]["tables"][0];
        assert_eq!(table["lamports"], lamports.to_string());
        assert_eq!(report["manifest"]["filtered"], false);
        assert!(output.join("_SUCCESS").exists());
    }
}

#[test]
fn the_newest_versions_have_the_capitalization_of_the_bank() {
    let site = Site::new();
    let output = site.path("tables");
    let report = export(&genuine_full(), &output, &["--newest", "--check"]).assert_code(0).json();
    let capitalization = report["manifest"]["archives"][0]["capitalization"].as_u64().unwrap();
    assert_eq!(report["manifest"]["tables"][0]["lamports"], capitalization.to_string());
}

#[test]
fn an_export_is_checked_later() {
    let site = Site::new();
    let (archive, output) = (genuine_full(), site.path("tables"));
    export(&archive, &output, &["--newest", "--table", "accounts,stakes"]).assert_code(0);
    let check = |flags: &[&str]| run(ledger_tool().arg("check-export").arg(&output).args(flags));
    let said = check(&["--archive", archive.to_str().unwrap()]).assert_code(0).stdout;
    let name = archive.file_stem().unwrap().to_str().unwrap();
    let hash = name.rsplit('-').next().unwrap().trim_end_matches(".tar");
    assert!(said.contains(&format!("the archive's name: {hash}")), "{said}");
    assert!(said.contains("capitalization") && said.contains("stakes: "), "{said}");
    assert_eq!(check(&["--quiet"]).assert_code(0).stdout, "");
    check(&["--incremental", "x"]).assert_code(2);
    check(&["--archive", "/nonexistent"]).assert_code(3);

    let file = output.join("stakes/part-00000.parquet");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let refused = check(&[]).assert_code(1);
    assert!(refused.stderr.contains("stakes/part-00000.parquet"), "{}", refused.stderr);
    assert!(refused.stderr.contains("[bad-export]"), "{}", refused.stderr);
    fs::remove_file(output.join("_SUCCESS")).unwrap();
    check(&[]).assert_code(1);
    run(ledger_tool().args(["check-export", "/nonexistent"])).assert_code(3);
}

#[test]
fn accounts_are_looked_up_in_an_export() {
    let site = Site::new();
    let (archive, output) = (genuine_full(), site.path("tables"));
    export(&archive, &output, &["--newest"]).assert_code(0);
    let records = scan(&archive);
    let record = records.iter().find(|record| record.data.len() > 100).unwrap();
    let absent = "11111111111111111111111111111112";
    let lookup = |flags: &[&str]| {
        let mut tool = ledger_tool();
        tool.args(["lookup", &record.pubkey, absent]).arg(&output).args(flags);
        run(&mut tool)
    };
    let found = lookup(&["--format", "json", "--with-data"]).assert_code(0).json();
    let row = &found["rows"][0];
    assert_eq!(
        (&row["table"], &row["values"]["pubkey"]),
        (&json!("accounts"), &json!(record.pubkey))
    );
    assert_eq!(row["values"]["owner"], record.owner);
    assert_eq!(row["values"]["lamports"], record.lamports);
    assert!(row["values"]["data"].as_str().unwrap().len() > 100);
    assert_eq!(found["missing"], json!([absent]));
    assert!(found["requests"].as_u64() > Some(1) && found["bytes_read"].as_u64() > Some(100));
    let said = lookup(&[]).assert_code(0).stdout;
    for line in [format!("  pubkey: {}", record.pubkey), format!("{absent} is not there")] {
        assert!(said.contains(&line), "{said}");
    }
    assert!(said.contains(" request") && !said.contains("  data: "), "{said}");
    lookup(&["--table", "mints"]).assert_code(2);
    run(ledger_tool().arg("lookup").arg(&output)).assert_code(2);
    run(ledger_tool().args(["lookup", absent, "/nonexistent"])).assert_code(3);
    fs::remove_file(output.join("_SUCCESS")).unwrap();
    lookup(&[]).assert_code(1);
}

/// However far an export has come when it is killed: there is nothing, or all of it.
#[test]
fn a_killed_export_is_whole_or_absent() {
    let site = Site::new();
    let spec =
        ArchiveSpec { content: Content::Mainnet, total_bytes: 6_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let (output, staging) = (site.path("tables"), site.path(".tables.unsnap-staging"));
    let flags = ["--table", "accounts,token_accounts,stakes", "--row-group-size", "100KB"];
    let flags = [&flags[..], &["--file-size", "300KB"]].concat();
    let check = || {
        let mut tool = ledger_tool();
        tool.arg("check-export").arg(&output).arg("--archive").arg(&archive);
        run(&mut tool).assert_code(0);
    };
    // What has to be there before it is killed.
    let begun = ["", "accounts", "accounts/part-00002.parquet", "_manifest.json", "_SUCCESS"];
    for mark in begun {
        let mut tool = ledger_tool();
        tool.args(["export", "--quiet"]).arg(&archive).arg("--output").arg(&output).args(&flags);
        let mut child = tool.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("it has come so far", || {
            staging.join(mark).exists() || child.try_wait().unwrap().is_some()
        });
        let _ = child.kill();
        child.wait().unwrap();
        if output.exists() {
            check();
            fs::remove_dir_all(&output).unwrap();
        }
        // The next run removes what it has left.
        export(&archive, &output, &flags).assert_code(0);
        check();
        assert!(!staging.exists());
        fs::remove_dir_all(&output).unwrap();
    }
}

#[test]
fn filters_are_those_of_accounts() {
    let site = Site::new();
    let archive = genuine_full();
    let records = scan(&archive);
    let chosen = [&records[3], records.last().unwrap()];
    let list = site.path("keys");
    let text = chosen.map(|record| record.pubkey.clone()).join("\n");
    fs::write(&list, format!("# two\n{text}\n\n")).unwrap();
    let stake = records.iter().find(|record| record.data.len() > 8).unwrap();
    let hex = hex(&stake.data[2..6]);
    let memcmp = format!("2:0x{hex}");
    let slot = stake.slot.to_string();
    for flags in [
        vec!["--pubkeys", list.to_str().unwrap()],
        vec!["--memcmp", &memcmp],
        vec!["--slot", &slot, "--data-size", "9.."],
        vec!["--owner", &stake.owner],
    ] {
        let listed = run(ledger_tool().arg("accounts").arg(&archive).args(&flags)).assert_code(0);
        let count = listed.stdout.lines().count();
        assert!((1..records.len()).contains(&count), "{flags:?}: {count}");
        let output = site.path("filtered");
        let report = export(&archive, &output, &flags).assert_code(0).json();
        assert_eq!(report["rows"], count, "{flags:?}");
        fs::remove_dir_all(output).unwrap();
    }
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let site = Site::new();
    let (archive, output) = (genuine_full(), site.path("tables"));
    let list = site.path("keys");
    fs::write(&list, "no address\n").unwrap();
    for flags in [
        &["--pubkeys", list.to_str().unwrap()][..],
        &["--memcmp", "x"],
        &["--no-data", "--data-prefix", "1"],
        &["--format", "csv"],
        &["--format", "arrow"],
    ] {
        export(&archive, &output, flags).assert_code(2);
        assert!(!output.exists(), "{flags:?}");
    }
    export(&archive, &output, &["--pubkeys", "/nonexistent"]).assert_code(3);
    fs::create_dir(&output).unwrap();
    fs::write(output.join("mine"), "").unwrap();
    export(&archive, &output, &[]).assert_code(4);
    assert!(output.join("mine").exists() && !output.join("_SUCCESS").exists());
}

/// Executes each query of a list and prints the rows of all of them.
const ASK_DUCKDB: &str = "
import duckdb, json, sys
database = duckdb.connect()
# Large numbers become text: not every reader of JSON knows them.
plain = lambda value: str(value) if isinstance(value, int) and value >= 2**63 else value
rows = lambda query: [[plain(value) for value in row] for row in database.sql(query).fetchall()]
json.dump([rows(query) for query in json.load(sys.stdin)], sys.stdout, default=str)
";

/// Asks DuckDB; `None` if it is not installed. CI sets an empty `UNSNAP_TEST_PYTHON` where it could not
/// be installed.
fn ask(queries: &[String]) -> Option<Vec<Vec<Vec<Value>>>> {
    let python = std::env::var("UNSNAP_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if python.is_empty() {
        skip_unsupported("duckdb cannot be downloaded");
        return None;
    }
    let has_duckdb = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !has_duckdb.is_ok_and(|found| found.status.success()) {
        skip("duckdb is not installed for Python");
        return None;
    }
    let mut asked = Command::new(python);
    asked.args(["-c", ASK_DUCKDB]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut asked = asked.spawn().unwrap();
    serde_json::to_writer(asked.stdin.take().unwrap(), queries).unwrap();
    let answer = asked.wait_with_output().unwrap();
    assert!(answer.status.success());
    Some(serde_json::from_slice(&answer.stdout).unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02X}"))
}

/// The recipes of the document, in their order, with these words in place of the others.
fn recipes(words: &[(&str, &str)]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document = fs::read_to_string(root.join("docs/tables.md")).unwrap();
    let queries = document.split("```sql\n").skip(1);
    let queries = queries.map(|rest| {
        let query = rest.split("```").next().unwrap().to_owned();
        words.iter().fold(query, |query, (from, to)| query.replace(from, to))
    });
    queries.collect()
}

/// The first ten of numbers by key, the largest first.
fn largest(numbers: impl IntoIterator<Item = (String, u128)>) -> Vec<(String, u128)> {
    let mut numbers: Vec<_> = numbers.into_iter().collect();
    numbers.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    numbers.truncate(10);
    numbers
}

/// A value as text, without quotes.
fn text(value: &Value) -> String {
    value.to_string().replace('"', "")
}

/// A name and a number in each row.
fn pairs(answer: &[Vec<Value>]) -> Vec<(String, u128)> {
    answer.iter().map(|row| (text(&row[0]), text(&row[1]).parse().unwrap())).collect()
}

#[test]
fn recipes_give_the_right_answers_in_duckdb() {
    let site = Site::new();
    let spec = ArchiveSpec {
        content: Content::Mainnet,
        total_bytes: 8_000_000,
        frames: Frames::Sized(1_000_000),
        ..ArchiveSpec::default()
    };
    let output = site.path("tables");
    let tables = ["--table", "accounts,votes,token_accounts,mints,stakes"];
    let flags = ["--newest", "--row-group-size", "500KB", "--file-size", "1MB"];
    let flags = [&flags[..], &tables].concat();
    export(&site.archive(&spec), &output, &flags).assert_code(0);
    let rows: Vec<Row> = newest(rows(&spec).unwrap());
    let is_token =
        |row: &Row| hex(&row.owner).starts_with("06DDF6E1D765A193") && row.data.len() == 165;
    // The mint with the most holders.
    let mut mints: HashMap<&[u8], u64> = HashMap::new();
    for row in rows.iter().filter(|row| is_token(row)) {
        *mints.entry(&row.data[..32]).or_default() += 1;
    }
    let mint = *mints.iter().max_by_key(|(mint, count)| (**count, **mint)).unwrap().0;
    let one = &rows[rows.len() / 2];
    let queries = recipes(&[
        ("<DIR>", output.to_str().unwrap()),
        ("<PUBKEY IN HEX>", &hex(&one.pubkey)),
        ("<MINT IN HEX>", &hex(mint)),
    ]);
    assert_eq!(queries.len(), 9, "every recipe has its answer below");
    let Some(answers) = ask(&queries) else { return };

    let sum = |number: &dyn Fn(&Row) -> u128| rows.iter().map(number).sum::<u128>().to_string();
    let found: Vec<String> = answers[0][0].iter().map(text).collect();
    let bytes = sum(&|row| row.data.len() as u128);
    assert_eq!(found, [rows.len().to_string(), sum(&|row| row.lamports.into()), bytes]);

    let mut programs: BTreeMap<String, u128> = BTreeMap::new();
    for row in &rows {
        *programs.entry(hex(&row.owner)).or_default() += 1;
    }
    assert_eq!(pairs(&answers[1]), largest(programs));

    let system = rows.iter().filter(|row| row.owner == [0; 32]);
    let system = system.map(|row| (hex(&row.pubkey), row.lamports.into()));
    assert_eq!(pairs(&answers[2]), largest(system));

    let rent_epoch = if one.rent_epoch == u64::MAX { json!(null) } else { json!(one.rent_epoch) };
    let expected = [
        json!(one.lamports),
        json!(one.slot),
        json!(one.data.len()),
        json!(one.executable),
        rent_epoch,
    ];
    assert_eq!(answers[3], [expected.to_vec()]);

    let mut holders: BTreeMap<String, u128> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_token(row) && row.data[..32] == *mint) {
        let amount = u64::from_le_bytes(row.data[64..72].try_into().unwrap());
        *holders.entry(hex(&row.data[32..64])).or_default() += u128::from(amount);
    }
    assert!(holders.len() > 3, "{} holders", holders.len());
    assert_eq!(pairs(&answers[4]), largest(holders));
    assert_derived_tables(&rows, mint, &answers[5..]);
}

/// The answers from the tables of programs.
#[track_caller]
fn assert_derived_tables(rows: &[Row], mint: &[u8], answers: &[Vec<Vec<Value>>]) {
    let table = |name: &str| -> Vec<HashMap<&str, String>> {
        let rows = decoded(name, rows).rows;
        rows.into_iter().map(|row| row.into_iter().collect()).collect()
    };
    let number = |text: &str| text.parse::<u128>().unwrap();
    // Token-2022 has more holders of the same mint here.
    let mut holders: BTreeMap<String, u128> = BTreeMap::new();
    for account in table("token_accounts").iter().filter(|row| row["mint"] == hex(mint)) {
        *holders.entry(account["owner"].clone()).or_default() += number(&account["amount"]);
    }
    assert_eq!(pairs(&answers[0]), largest(holders));

    let mut held: HashMap<String, u128> = HashMap::new();
    for account in table("token_accounts") {
        *held.entry(account["mint"].clone()).or_default() += number(&account["amount"]);
    }
    let mints = table("mints");
    let supplies = largest(mints.iter().map(|it| (it["pubkey"].clone(), number(&it["supply"]))));
    let expected: Vec<_> = supplies
        .into_iter()
        .map(|(mint, supply)| (held.get(&mint).copied().unwrap_or_default(), mint, supply))
        .collect();
    let found: Vec<_> = answers[1]
        .iter()
        .map(|row| (number(&text(&row[2])), text(&row[0]), number(&text(&row[1]))))
        .collect();
    assert!(found.len() == 10 && found == expected, "{found:?}, expected {expected:?}");

    let by_key = |rows: Vec<HashMap<&str, String>>,
                  key: &str,
                  value: &dyn Fn(&HashMap<&str, String>) -> Option<u128>| {
        let mut sums: BTreeMap<String, u128> = BTreeMap::new();
        for row in rows {
            if let Some(value) = value(&row) {
                *sums.entry(row[key].clone()).or_default() += value;
            }
        }
        largest(sums)
    };
    let stakes = by_key(table("stakes"), "voter", &|row| {
        let is_active = row["voter"] != "null" && row["deactivation_epoch"] == "null";
        is_active.then(|| number(&row["stake"]))
    });
    assert!(stakes.len() > 3, "{stakes:?}");
    assert_eq!(pairs(&answers[2]), stakes);
    let credits = by_key(table("votes"), "node", &|row| {
        Some(number(&row["credits"]) - number(&row["previous_credits"]))
    });
    assert!(credits.len() > 3, "{credits:?}");
    assert_eq!(pairs(&answers[3]), credits);
}

/// What the validator itself has written into the accounts of its programs.
#[test]
fn genuine_accounts_of_programs_are_decoded() {
    let site = Site::new();
    let archive = genuine_full();
    let output = site.path("tables");
    let tables = "token_accounts,mints,stakes,votes";
    let flags = ["--check", "--table", tables, "--keys", "base58"];
    let report = export(&archive, &output, &flags).assert_code(0).json();
    let found: Vec<(&str, u64, u64)> = report["manifest"]["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| {
            let count = |name: &str| table[name].as_u64().unwrap();
            (table["name"].as_str().unwrap(), count("rows"), count("not_decoded"))
        })
        .collect();
    let records = scan(&archive);
    let owned = |program: &str, bytes: &dyn Fn(usize) -> bool| {
        let is_row =
            |record: &&Scanned| record.owner.starts_with(program) && bytes(record.data.len());
        records.iter().filter(is_row).count() as u64
    };
    // No account here has extensions, so the sizes tell everything.
    let expected = [
        ("token_accounts", owned("Token", &|bytes| bytes == 165), 0),
        ("mints", owned("Token", &|bytes| bytes == 82), 0),
        ("stakes", owned("Stake1111111", &|_| true), 0),
        ("votes", owned("Vote11111111", &|_| true), 0),
    ];
    assert_eq!(found, expected);
    assert!(expected.iter().all(|(_, rows, _)| *rows > 0), "{expected:?}");
}

/// Every form of keys, sizes of row groups and selections of columns: the same rows for DuckDB.
#[test]
fn duckdb_finds_every_account() {
    let site = Site::new();
    let spec =
        ArchiveSpec { content: Content::Mainnet, total_bytes: 2_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let all = rows(&spec).unwrap();
    let keys: Vec<String> = all.iter().step_by(7).map(|row| hex(&row.pubkey)).collect();
    let list = keys.iter().map(|key| format!("(from_hex('{key}'))")).collect::<Vec<_>>().join(", ");
    for (flags, index) in [(&[][..], 0), (&["--row-group-size=50KB", "--no-data"][..], 1)] {
        let output = site.path(&format!("tables-{index}"));
        export(&archive, &output, flags).assert_code(0);
        let from = format!("'{}/accounts/*.parquet'", output.display());
        let one = &keys[keys.len() / 3];
        let queries = [
            format!("SELECT count(*) FROM {from} WHERE pubkey = from_hex('{one}')"),
            format!(
                "SELECT count(*) FROM {from} JOIN (VALUES {list}) AS keys(key) ON pubkey = key"
            ),
            format!("SELECT count(*) FROM {from} WHERE rent_epoch IS NULL"),
            format!("SELECT count(*) FROM {from} WHERE executable"),
            format!("SELECT count(*) FROM {from} WHERE slot = {}", all[0].slot),
        ];
        let Some(answers) = ask(&queries) else { return };
        let count = |keep: &dyn Fn(&Row) -> bool| all.iter().filter(|row| keep(row)).count();
        let expected = [
            1,
            keys.len(),
            count(&|row| row.rent_epoch == u64::MAX),
            count(&|row| row.executable),
            count(&|row| row.slot == all[0].slot),
        ];
        let found: Vec<u64> = answers.iter().map(|answer| answer[0][0].as_u64().unwrap()).collect();
        assert_eq!(found, expected.map(|count| count as u64), "{flags:?}");
    }
}
