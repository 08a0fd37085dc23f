use std::os::unix::ffi::OsStringExt;

use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect()
}

fn said(line: &str) -> Said {
    Said::by(&words(line))
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
        // Without a value, which the validator will say.
        ("--ledger --identity y", None),
        ("--ledger", None),
        // Behind the end of flags there are none.
        ("-- --ledger x", None),
        ("--identity y -- -lx", None),
    ] {
        let ledger = ledger.map(PathBuf::from);
        assert_eq!(said(line).ledger, ledger, "{line}");
        assert_eq!(said(line).purpose, Purpose::Start, "{line}");
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
        assert_eq!(said(line).accounts, expected, "{line}");
    }
}

#[test]
fn places_of_archives_and_the_time_to_look_at_them_are_known() {
    let all = said(
        "--snapshots s --full-snapshot-archive-path=f --incremental-snapshot-archive-path i --use-snapshot-archives-at-startup=never",
    );
    let path = |name: &str| Some(PathBuf::from(name));
    assert_eq!(all.snapshots, path("s"));
    assert_eq!(all.full_archives, path("f"));
    assert_eq!(all.incremental_archives, path("i"));
    assert_eq!(all.at_startup, Some(AtStartup::State));
    for (value, expected) in [
        (" always", AtStartup::Archives),
        ("=always", AtStartup::Archives),
        (" when-newest", AtStartup::WhenNewest),
        ("=nonsense", AtStartup::WhenNewest),
    ] {
        let line = format!("--use-snapshot-archives-at-startup{value}");
        assert_eq!(said(&line).at_startup, Some(expected), "{line}");
    }
}

#[test]
fn what_does_not_start_a_validator_is_known() {
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
        // More than one begins so.
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
        assert_eq!(said(line).purpose, purpose, "{line}");
    }
}

#[test]
fn what_is_added_is_put_where_it_is_read() {
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
        assert_eq!(Said::by(&arguments).with_when_newest(&arguments), words(&expected), "{line}");
    }
    for line in [
        "--use-snapshot-archives-at-startup never",
        "run --use-snapshot-archives-at-startup=when-newest -l x",
    ] {
        let arguments = words(line);
        assert_eq!(Said::by(&arguments).with_when_newest(&arguments), arguments, "{line}");
    }
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let odd = |prefix: &[u8]| OsString::from_vec([prefix, b"\xff,\xfe"].concat());
    let arguments = [odd(b"--ledger="), "--accounts".into(), odd(b""), odd(b"-l")];
    let said = Said::by(&arguments[..3]);
    assert_eq!(said.ledger, Some(odd(b"").into()));
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    assert_eq!(said.accounts, [path(b"\xff"), path(b"\xfe")]);
    assert_eq!(Said::by(&arguments).ledger, Some(odd(b"").into()));
    assert_eq!(said.with_when_newest(&arguments[..3])[..3], arguments[..3]);
}
