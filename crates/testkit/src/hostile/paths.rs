//! Names that lead elsewhere, are ambiguous, or control the terminal.

use super::{Construct, FOREIGN, behind, between, blocks, constructs};
use crate::tar::{Dialect, Header};

constructs![
    upwards,
    upwards_from_within,
    upwards_through_nothing,
    upwards_at_the_end,
    upwards_by_prefix,
    upwards_by_long_name,
    upwards_by_pax,
    absolute,
    absolute_behind_a_dot,
    absolute_with_two_slashes,
    empty_component,
    dot_component,
    dot_alone,
    dot_and_slash_as_a_file,
    empty_name,
    name_that_begins_with_nul,
    nul_in_a_long_name,
    nul_in_a_pax_path,
    tail_behind_the_nul_of_a_name,
    not_utf8,
    component_of_256_bytes,
    path_of_4096_bytes,
    newline,
    escape_sequence,
    c1_control,
    right_to_left_override,
    slash_behind_a_file,
    backslashes,
    two_forms_of_one_character,
    upper_and_lower_case,
    same_file_twice,
    same_file_said_differently,
    same_directory_twice,
    file_and_then_directory,
    directory_and_then_file,
    our_staging_directory,
    our_journal,
];

/// Returns a file of one byte with a name that no snapshot has.
fn file(path: &str, reason: &'static str) -> Construct {
    between(|tar| tar.file(path, b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), reason)
}

/// CVE-2001-1267 (GNU tar), zip-slip, and all their successors.
fn upwards() -> Construct {
    file("../../outside/canary", "it has a component \"..\"")
}

/// Zip-slip after a good component.
fn upwards_from_within() -> Construct {
    file("accounts/../../../outside/canary", "it has a component \"..\"")
}

/// Zip-slip through a directory that does not exist, which some readers normalise away.
fn upwards_through_nothing() -> Construct {
    file("nowhere/../../../outside/new", "it has a component \"..\"")
}

/// BusyBox CVE-2026-26157: the check searched for `/../`, not for `/..` at the end.
fn upwards_at_the_end() -> Construct {
    between(|tar| tar.directory("accounts/.."))
        .entry("accounts/..")
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it has a component \"..\"")
}

/// Zip-slip in the prefix field that only POSIX headers have.
fn upwards_by_prefix() -> Construct {
    let header = Header::new(Dialect::Ustar, b'0', "canary", 1).prefix(b"../../outside");
    between(|tar| tar.entry(header, b"x"))
        .entry("../../outside/canary")
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it has a component \"..\"")
}

/// Zip-slip in a GNU long name. The header's own name is harmless.
fn upwards_by_long_name() -> Construct {
    let path = "../../outside/canary";
    between(|tar| tar.long_name(path.as_bytes()).file("accounts/98.1", b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it has a component \"..\"")
}

/// Zip-slip in a PAX record. The header's own name is harmless.
fn upwards_by_pax() -> Construct {
    let path = "../../outside/canary";
    between(|tar| tar.pax(&[("path", path)]).file_in(Dialect::Ustar, "accounts/98.1", b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it has a component \"..\"")
}

/// Zip-slip with an absolute name.
fn absolute() -> Construct {
    file("/proc/self/cwd/outside/canary", "it is absolute")
}

/// An absolute path for readers that remove a leading `./` after the check.
fn absolute_behind_a_dot() -> Construct {
    file(".//proc/self/cwd/outside/canary", "it is absolute")
}

/// An absolute path for readers that remove one leading slash.
fn absolute_with_two_slashes() -> Construct {
    file("//proc/self/cwd/outside/canary", "it is absolute")
}

/// A second spelling of an existing path: `a//b`.
fn empty_component() -> Construct {
    file("accounts//98.1", "it has an empty component")
}

/// A second spelling of an existing path: `a/./b`.
fn dot_component() -> Construct {
    file("accounts/./98.1", "it has a component \".\"")
}

/// The destination itself as a file.
fn dot_alone() -> Construct {
    file(".", "it has a component \".\"")
}

/// The destination itself as a file, with a slash.
fn dot_and_slash_as_a_file() -> Construct {
    file("./", "it has an empty component")
}

/// An empty name (tar-rs's own `empty_filename.tar`).
fn empty_name() -> Construct {
    between(|tar| tar.file("", b"x")).refused(behind(), "has an empty path")
}

/// An empty name for readers that stop at a NUL, but not for others.
fn name_that_begins_with_nul() -> Construct {
    let header = Header::new(Dialect::Gnu, b'0', "\0accounts/98.1", 1);
    between(|tar| tar.entry(header, b"x")).refused(behind(), "has an empty path")
}

/// Two names in one GNU extension: up to the first NUL, and up to the last.
fn nul_in_a_long_name() -> Construct {
    between(|tar| tar.long_name(b"accounts/98.1\0/../../x").file("cut", b"x"))
        .refused(behind() + blocks(1), "does not hold one NUL-terminated name")
}

/// Go's `pax-nul-path.tar`: two names in one PAX record.
fn nul_in_a_pax_path() -> Construct {
    let path = "accounts/98.1\0/../../x";
    between(|tar| tar.pax(&[("path", path)]).file_in(Dialect::Ustar, "cut", b"x"))
        .refused(behind() + blocks(1), "path contains a NUL")
}

/// Old writers left the rest of their buffer after the NUL. Every reader stops there, and so does
/// unsnap.
fn tail_behind_the_nul_of_a_name() -> Construct {
    let header = Header::account("accounts/98.1\0/../../outside/canary", 5);
    between(|tar| tar.entry(header, b"tails")).accepted(&[("accounts/98.1", b"tails")])
}

/// A name that is not UTF-8 (Go's `gnu-not-utf8.tar`).
fn not_utf8() -> Construct {
    let header = Header::account("", 1).path(b"accounts/98.1\xff");
    between(|tar| tar.entry(header, b"x"))
        .entry(r"accounts/98.1\xff")
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it is not UTF-8")
}

/// A name longer than `NAME_MAX`, which no file can have.
fn component_of_256_bytes() -> Construct {
    let path = "c".repeat(256);
    between(|tar| tar.long_name(path.as_bytes()).file("c", b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "a component has 256 bytes, limit is 255")
}

/// A path longer than `PATH_MAX`: CVE-2025-4517 and its siblings (CPython) hid the target of such a
/// path.
fn path_of_4096_bytes() -> Construct {
    let path = "d/".repeat(2048);
    between(|tar| tar.long_name(path.as_bytes()).directory("d"))
        .entry(&path[..256])
        .refused(behind() + blocks(1 + 9), "has 4096 bytes, limit is 4095")
}

/// A name that looks like another line of a log.
fn newline() -> Construct {
    shown("accounts/98.1\nerror: all is well", r"accounts/98.1\x0aerror: all is well", "U+000A")
}

/// Names with terminal control sequences (CWE-150; `fd` escapes them, many tools do not).
fn escape_sequence() -> Construct {
    shown("\x1b]0;owned\x07\x1b[2Jx", r"\x1b]0;owned\x07\x1b[2Jx", "U+001B")
}

/// The same with a C1 control, which is one UTF-8 character.
fn c1_control() -> Construct {
    shown("\u{9b}2Jx", r"\u{9b}2Jx", "U+009B")
}

/// CVE-2021-42574 (Trojan Source) in a file name.
fn right_to_left_override() -> Construct {
    shown("accounts/\u{202e}1.89", r"accounts/\u{202e}1.89", "U+202E")
}

/// A name that must not be displayed unescaped.
fn shown(path: &str, printable: &str, reason: &'static str) -> Construct {
    between(|tar| tar.file(path, b"x"))
        .entry(printable)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), reason)
}

/// A file for readers of the type byte, a directory for readers of the name.
fn slash_behind_a_file() -> Construct {
    file("accounts/98.1/", "it ends in a slash but is not a directory")
}

/// Zip-slip on another system. Here a backslash is an ordinary character.
fn backslashes() -> Construct {
    let path = r"..\..\outside\canary";
    between(|tar| tar.file(path, b"x"))
        .entry(r"..\\..\\outside\\canary")
        .refused_as_snapshot(behind(), FOREIGN)
        .accepted_as_any(&[(path, b"x")])
}

/// node-tar CVE-2026-23950: names that some file systems treat as equal. unsnap compares bytes. On
/// a file system that treats them as equal, creating the second one fails, because nothing is ever
/// opened twice.
fn two_forms_of_one_character() -> Construct {
    let (composed, decomposed) = ("accounts/\u{e9}", "accounts/e\u{301}");
    between(|tar| tar.file(composed, b"one").file(decomposed, b"two"))
        .refused_as_snapshot(behind(), FOREIGN)
        .accepted_as_any(&[(composed, b"one"), (decomposed, b"two")])
}

/// node-tar CVE-2026-23950 again, by case.
fn upper_and_lower_case() -> Construct {
    between(|tar| tar.file("Accounts/90.7", b"other"))
        .entry("Accounts/90.7")
        .refused_as_snapshot(behind(), FOREIGN)
        .accepted_as_any(&[("Accounts/90.7", b"other")])
}

/// RUSTSEC-2018-0002 without a link: readers disagree on which of the two counts.
fn same_file_twice() -> Construct {
    between(|tar| tar.file("version", b"1.2.0")).entry("version").refused(behind(), "twice")
}

/// The same path in another spelling.
fn same_file_said_differently() -> Construct {
    file("./version", "twice")
}

/// A directory that could get another mode the second time.
fn same_directory_twice() -> Construct {
    between(|tar| tar.directory("snapshots")).entry("snapshots").refused(behind(), "twice")
}

/// A file that is also the parent of another entry.
fn file_and_then_directory() -> Construct {
    file("version/x", "both a file and a directory")
}

/// A file in place of an existing directory.
fn directory_and_then_file() -> Construct {
    between(|tar| tar.file("accounts", b"x"))
        .entry("accounts")
        .refused_as_snapshot(behind(), "only a directory is accepted")
        .refused_as_any(behind(), "both a file and a directory")
}

/// The name of unsnap's own staging directory: the next run would delete it as left by an
/// interrupted run.
fn our_staging_directory() -> Construct {
    file(".unsnap-staging/x", "names that begin with .unsnap- are reserved")
}

/// The name of the journal for resuming, which an archive could try to supply.
fn our_journal() -> Construct {
    file(".unsnap-journal", "names that begin with .unsnap- are reserved")
}
