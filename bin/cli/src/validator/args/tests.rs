use std::os::unix::ffi::OsStringExt;

use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect()
}

fn parsed(line: &str) -> ValidatorArgs {
    ValidatorArgs::parse(&words(line))
}

#[test]
fn all_spellings_of_the_ledger_are_known() {
    for (line, ledger) in [
        ("", None),
        ("--ledger x", Some("x")),
        ("--ledger=x", Some("x")),
        ("--ledger=x=y", Some("x=y")),
        ("--ledger==x", Some("x")),
        ("-l x", Some("x")),
        ("-lx", Some("x")),
        ("-l=x", Some("x")),
        ("-l -", Some("-")),
        ("run -l x", Some("x")),
        ("-l x run", Some("x")),
        ("run --ledger x --identity y", Some("x")),
        ("--no-voting --ledger x", Some("x")),
        // A wrapper, and what it wraps.
        ("--interleave=all agave-validator --ledger x", Some("x")),
        // Not ours, though they begin or end like it.
        ("--ledger-verification x", None),
        ("--limit-ledger-size x", None),
        ("--ledgerx y", None),
        ("-i -l x", Some("x")),
        ("--log -lx", Some("x")),
        ("--identity --ledger x", Some("x")),
        // Without a value, which the validator will report.
        ("--ledger --identity y", None),
        ("--ledger", None),
        // Words behind the end of flags are no flags.
        ("-- --ledger x", None),
        ("--identity y -- -lx", None),
    ] {
        let ledger = ledger.map(PathBuf::from);
        assert_eq!(parsed(line).ledger, ledger, "{line}");
        assert_eq!(parsed(line).purpose, Purpose::Start, "{line}");
    }
}

#[test]
fn accounts_paths_add_up() {
    for (line, accounts) in [
        ("--accounts a", "a"),
        ("--accounts a,b", "a b"),
        ("--accounts=a,b --accounts c", "a b c"),
        ("--accounts a b,c -l x", "a b c"),
        ("--accounts a b -- c", "a b"),
        ("--accounts=a b", "a"),
        ("--accounts -l x", ""),
        ("--accounts a,,b,", "a b"),
        ("--accounts-index-path a", ""),
        ("--account-index program-id --accounts a", "a"),
    ] {
        let expected: Vec<PathBuf> = words(accounts).into_iter().map(PathBuf::from).collect();
        assert_eq!(parsed(line).accounts, expected, "{line}");
    }
}

#[test]
fn directories_of_archives_and_their_use_at_startup_are_known() {
    let all = parsed(
        "--snapshots s --full-snapshot-archive-path=f --incremental-snapshot-archive-path i --use-snapshot-archives-at-startup=never",
    );
    let path = |name: &str| Some(PathBuf::from(name));
    assert_eq!(all.snapshots, path("s"));
    assert_eq!(all.full_archives, path("f"));
    assert_eq!(all.incremental_archives, path("i"));
    assert_eq!(all.archive_use, Some(ArchiveUse::Never));
    for (value, expected) in [
        (" always", ArchiveUse::Always),
        ("=always", ArchiveUse::Always),
        (" when-newest", ArchiveUse::WhenNewest),
        ("=nonsense", ArchiveUse::WhenNewest),
    ] {
        let line = format!("--use-snapshot-archives-at-startup{value}");
        assert_eq!(parsed(&line).archive_use, Some(expected), "{line}");
    }
}

#[test]
fn what_is_expected_of_the_cluster_is_known() {
    assert_eq!(parsed("-l x --no-voting").cluster, ExpectedCluster::default());
    let mainnet = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";
    let genesis_hash = ArchiveHash::parse(mainnet);
    assert!(genesis_hash.is_some());
    for line in [
        format!("--expected-genesis-hash {mainnet} --expected-shred-version 50093 --hard-fork 7 9"),
        format!(
            "--hard-fork=7 --expected-shred-version=50093 --expected-genesis-hash={mainnet} --hard-fork 9"
        ),
    ] {
        let hard_forks = vec![7, 9];
        let expected = ExpectedCluster { genesis_hash, shred_version: Some(50093), hard_forks };
        assert_eq!(parsed(&line).cluster, expected, "{line}");
        assert_eq!(parsed(&format!("{line} -l x")).ledger, Some("x".into()), "{line}");
    }
    // The validator refuses these.
    for line in ["--expected-shred-version 70000", "--expected-genesis-hash short", "--hard-fork x"]
    {
        assert_eq!(parsed(line).cluster, ExpectedCluster::default(), "{line}");
    }
    assert_eq!(parsed("--expected-shred-version --hard-fork").cluster, ExpectedCluster::default());
}

#[test]
fn command_lines_that_do_not_start_a_validator_are_known() {
    for (line, other) in [
        ("run", None),
        ("init", None),
        ("ini --ledger x", None),
        ("--ledger x run", None),
        ("exit", Some("exit")),
        ("exi", Some("exi")),
        ("--ledger x exit --force", Some("exit")),
        ("-l x monitor", Some("monitor")),
        ("--no-voting set-identity id.json", Some("set-identity")),
        ("plugin list", Some("plugin")),
        ("repair-whitelist get", Some("repair-whitelist")),
        ("--help", Some("--help")),
        ("run -h", Some("-h")),
        ("--version", Some("--version")),
        ("-V", Some("-V")),
        // More than one subcommand begins like this.
        ("set", None),
        // Values.
        ("--tower exit", None),
        ("--identity monitor --ledger x", None),
        ("--accounts exit", None),
        ("--log=exit", None),
        ("-i exit", None),
        ("run exit", None),
        ("-- exit", None),
        ("agave-validator --ledger x", None),
    ] {
        let purpose = other.map_or(Purpose::Start, |word| Purpose::Other(word.into()));
        assert_eq!(parsed(line).purpose, purpose, "{line}");
    }
}

#[test]
fn the_flag_is_added_where_the_validator_reads_it() {
    const NEW: &str = "--use-snapshot-archives-at-startup when-newest";
    for (line, expected) in [
        ("", NEW.to_owned()),
        ("--ledger x", format!("--ledger x {NEW}")),
        ("--ledger x --", format!("--ledger x {NEW} --")),
        ("--ledger x run", format!("--ledger x {NEW} run")),
        ("run --ledger x", format!("{NEW} run --ledger x")),
        ("run --ledger x --", format!("{NEW} run --ledger x --")),
        ("--accounts a b", format!("--accounts a b {NEW}")),
    ] {
        let arguments = words(line);
        assert_eq!(
            ValidatorArgs::parse(&arguments).with_archive_use(&arguments, ArchiveUse::WhenNewest),
            words(&expected),
            "{line}"
        );
    }
    let line = words("--ledger x run");
    assert_eq!(
        ValidatorArgs::parse(&line).with_archive_use(&line, ArchiveUse::Never),
        words("--ledger x --use-snapshot-archives-at-startup never run")
    );
    for line in [
        "--use-snapshot-archives-at-startup never",
        "run --use-snapshot-archives-at-startup=when-newest -l x",
    ] {
        let arguments = words(line);
        assert_eq!(
            ValidatorArgs::parse(&arguments).with_archive_use(&arguments, ArchiveUse::WhenNewest),
            arguments,
            "{line}"
        );
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_kept() {
    let odd = |prefix: &[u8]| OsString::from_vec([prefix, b"\xff,\xfe"].concat());
    let arguments = [odd(b"--ledger="), "--accounts".into(), odd(b""), odd(b"-l")];
    let parsed = ValidatorArgs::parse(&arguments[..3]);
    assert_eq!(parsed.ledger, Some(odd(b"").into()));
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    assert_eq!(parsed.accounts, [path(b"\xff"), path(b"\xfe")]);
    assert_eq!(ValidatorArgs::parse(&arguments).ledger, Some(odd(b"").into()));
    assert_eq!(
        parsed.with_archive_use(&arguments[..3], ArchiveUse::WhenNewest)[..3],
        arguments[..3]
    );
}

#[test]
fn words_that_belong_to_nothing_are_noticed() {
    for (line, stray) in [
        ("-l x run --no-voting", false),
        ("--accounts a b", false),
        ("-l /mnt/my ledger", true),
        ("run -l /mnt/my ledger", true),
        ("-l x -- y", false),
    ] {
        assert_eq!(parsed(line).has_stray_words, stray, "{line}");
    }
}
