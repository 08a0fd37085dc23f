use proptest::{prelude::*, sample::select};

use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

/// What is executed for a command line: the validator's words.
fn executed(words: &[OsString]) -> Option<Vec<OsString>> {
    match Intent::of(words) {
        Intent::Run(cli) if cli.prepare_only => None,
        Intent::Run(cli) => Some(cli.command),
        Intent::StartPlainly { command, .. } => Some(command),
        Intent::Stop(_) => None,
    }
}

/// Words of this program's part of a command line, right ones and wrong ones.
const OWN: &[&str] = &[
    "--deadline",
    "--deadlin",
    "10m",
    "--deadline=10m",
    "--deadline=soon",
    "--ledger",
    "--ledger=/mnt/ledger",
    "/mnt/ledger",
    "-l",
    "-q",
    "-v",
    "-qv",
    "--replace",
    "--replase",
    "--replace=yes",
    "--verify",
    "structure",
    "--accounts=a,b",
    "--nice",
    "-5",
    "--format",
    "json",
    "--no-such-flag",
    "--quiet=1",
    "",
];

/// Spellings of `--prepare-only` that a person or an editor may produce.
fn misspelled() -> impl Strategy<Value = String> {
    const NAME: &str = "prepare-only";
    let edited =
        proptest::collection::vec((0..3_u8, 0..NAME.len(), select(b"apreony-x".to_vec())), 0..3)
            .prop_map(|edits| {
                let mut name = NAME.as_bytes().to_vec();
                for (edit, at, letter) in edits {
                    let at = at % name.len();
                    match edit {
                        0 => drop(name.remove(at)),
                        1 => name.insert(at, letter),
                        _ if at > 0 => name.swap(at, at - 1),
                        _ => name[at] = letter,
                    }
                }
                String::from_utf8(name).unwrap_or_default()
            });
    let name = prop_oneof![
        3 => Just(NAME.to_owned()),
        2 => (1..NAME.len()).prop_map(|end| NAME[..end].to_owned()),
        4 => edited,
        1 => select(vec!["only-prepare", "prepareonly", "prepare_only", "Prepare-Only", "prepare", "only"])
            .prop_map(str::to_owned),
    ];
    let dashes = select(vec!["--", "--", "--", "-", "---", "\u{2013}", "\u{2014}", "\u{2013}-"]);
    let behind = select(vec!["", "", "", "=", "=true", "=no", " --quiet", ","]);
    let before = select(vec!["", "", "", "", "--deadline ", "--ledger=", "--accounts=a,"]);
    (before, dashes, name, behind)
        .prop_map(|(before, dashes, name, behind)| format!("{before}{dashes}{name}{behind}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Wherever it stands among this program's own words, and whatever else is wrong there.
    #[test]
    fn nothing_is_executed_where_prepare_only_may_be_meant(
        own in proptest::collection::vec(select(OWN), 0..5),
        asked in misspelled(),
        at in 0..5_usize,
        marked in any::<bool>(),
    ) {
        let mut line: Vec<OsString> = own.iter().map(OsString::from).collect();
        line.insert(at.min(own.len()), asked.into());
        line.insert(0, "validator".into());
        if marked {
            line.push("--".into());
        }
        line.extend(words("agave-validator --identity id.json -l /mnt/ledger"));
        // A word that is no flag and the value of none is the program that is executed. In this test
        // it is one of `OWN`, and no such program exists.
        if let Some(command) = executed(&line) {
            let program = command[0].to_str().unwrap();
            prop_assert!(OWN.contains(&program), "{line:?}: {command:?}");
        }
    }
}

#[test]
fn mistakes_beside_prepare_only_execute_nothing() {
    for line in [
        "validator --prepare-only --deadlin 10m -- agave-validator -l x",
        "validator --deadlin 10m --prepare-only -- agave-validator -l x",
        "validator --prepare-onl -- agave-validator -l x",
        "validator --prep -- agave-validator",
        "validator -p -- agave-validator",
        "validator -qp -- agave-validator",
        "validator --prepare-only=yes -- agave-validator",
        "validator --prepare-only --prepare-only -- agave-validator",
        "validator --only-prepare -- agave-validator",
        "validator --deadline --prepare-only -- agave-validator",
        "validator --ledger=--prepare-only -- agave-validator",
        "validator --ledger --prepare-only agave-validator",
        "validator --dry-run -- agave-validator",
        "validator \u{2014}prepare-only agave-validator",
        "validator -- --prepare-only agave-validator",
        "validator agave-validator -l x --prepare-only",
        "validator --typo -- agave-validator -l x --prepare-only",
    ] {
        assert_eq!(executed(&words(line)), None, "{line}");
    }
    let quoted = ["validator", "--deadline 10m --prepare-only", "--", "agave-validator"];
    assert_eq!(executed(&quoted.map(OsString::from)), None);
}

#[test]
fn other_mistakes_start_the_validator_only_where_it_is_clear_which_words_start_it() {
    for (line, expected) in [
        ("validator --typo -- agave-validator -l x", Some("agave-validator -l x")),
        ("validator --deadlin 10m -- /opt/agave-validator", Some("/opt/agave-validator")),
        ("validator --deadline soon -q -- ./start.sh a", Some("./start.sh a")),
        ("validator --preflght off -- agave-validator", Some("agave-validator")),
        ("validator --only-known-rpc -- agave-validator", Some("agave-validator")),
        ("validator -l/mnt/prep --typo -- agave-validator", Some("agave-validator")),
        ("validator --deadline soon m -- agave-validator", Some("agave-validator")),
        // The `--` may be the validator's own.
        ("validator --typo agave-validator -l x -- y", None),
        ("validator --deadline soon start.sh -- y", None),
        ("validator --typo agave-validator", None),
        ("validator --typo --", None),
        ("validator --typo -- --ledger x", None),
        ("validator --help -- agave-validator", None),
        ("validator -- -x", None),
        // Nothing is wrong.
        ("validator -l /mnt/prep agave-validator", Some("agave-validator")),
        ("validator -l/mnt/prepare-only agave-validator", Some("agave-validator")),
        ("validator --accounts=/mnt/prepare-only agave-validator", Some("agave-validator")),
        ("validator --preflight off agave-validator", Some("agave-validator")),
    ] {
        assert_eq!(executed(&words(line)), expected.map(words), "{line}");
    }
}
