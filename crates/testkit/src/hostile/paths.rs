//! Names that lead elsewhere, mean two things, or speak to the terminal.

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

/// A file of one byte under this name, which no snapshot has.
fn file(path: &str, reason: &'static str) -> Construct {
    between(|tar| tar.file(path, b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), reason)
}

/// CVE-2001-1267 (GNU tar), zip-slip, and all their heirs.
fn upwards() -> Construct {
    file("../../outside/canary", "it leads upwards")
}

/// Zip-slip behind a component that is good.
fn upwards_from_within() -> Construct {
    file("accounts/../../../outside/canary", "it leads upwards")
}

/// Zip-slip through a directory that does not exist, which some readers normalise away.
fn upwards_through_nothing() -> Construct {
    file("nowhere/../../../outside/new", "it leads upwards")
}

/// BusyBox CVE-2026-26157: only `/../` was looked for, not `/..` at the end.
fn upwards_at_the_end() -> Construct {
    between(|tar| tar.directory("accounts/.."))
        .entry("accounts/..")
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it leads upwards")
}

/// Zip-slip in the part of the name that only POSIX headers have.
fn upwards_by_prefix() -> Construct {
    let header = Header::new(Dialect::Ustar, b'0', "canary", 1).prefix(b"../../outside");
    between(|tar| tar.entry(header, b"x"))
        .entry("../../outside/canary")
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it leads upwards")
}

/// Zip-slip in a GNU long name, behind which the header's own name is harmless.
fn upwards_by_long_name() -> Construct {
    let path = "../../outside/canary";
    between(|tar| tar.long_name(path.as_bytes()).file("accounts/98.1", b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it leads upwards")
}

/// Zip-slip in a PAX record, behind which the header's own name is harmless.
fn upwards_by_pax() -> Construct {
    let path = "../../outside/canary";
    between(|tar| tar.pax(&[("path", path)]).file_in(Dialect::Ustar, "accounts/98.1", b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it leads upwards")
}

/// Zip-slip with a name from the root of the file system.
fn absolute() -> Construct {
    file("/proc/self/cwd/outside/canary", "it is absolute")
}

/// An absolute path for readers that take a leading `./` off after they have looked.
fn absolute_behind_a_dot() -> Construct {
    file(".//proc/self/cwd/outside/canary", "it is absolute")
}

/// An absolute path for readers that take one leading slash off.
fn absolute_with_two_slashes() -> Construct {
    file("//proc/self/cwd/outside/canary", "it is absolute")
}

/// A second way to say a path that is there already: `a//b`.
fn empty_component() -> Construct {
    file("accounts//98.1", "it has an empty component")
}

/// A second way to say a path that is there already: `a/./b`.
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

/// No name at all (tar-rs's own `empty_filename.tar`).
fn empty_name() -> Construct {
    between(|tar| tar.file("", b"x")).refused(behind(), "has an empty path")
}

/// No name for readers that stop at a NUL, one for those that do not.
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

/// Old writers left behind the NUL what was in their buffer; every reader stops there, and so do we.
fn tail_behind_the_nul_of_a_name() -> Construct {
    let header = Header::account("accounts/98.1\0/../../outside/canary", 5);
    between(|tar| tar.entry(header, b"tails")).accepted(&[("accounts/98.1", b"tails")])
}

/// A name that is no text (Go's `gnu-not-utf8.tar`).
fn not_utf8() -> Construct {
    let header = Header::account("", 1).path(b"accounts/98.1\xff");
    between(|tar| tar.entry(header, b"x"))
        .entry(r"accounts/98.1\xff")
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "it is not UTF-8")
}

/// More than `NAME_MAX`: a name that no file can have.
fn component_of_256_bytes() -> Construct {
    let path = "c".repeat(256);
    between(|tar| tar.long_name(path.as_bytes()).file("c", b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), "a component has 256 bytes, limit is 255")
}

/// More than `PATH_MAX`: CVE-2025-4517 and its siblings (CPython) hid where such a path leads.
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

/// Names that speak to the terminal (CWE-150; `fd` escapes them, many tools do not).
fn escape_sequence() -> Construct {
    shown("\x1b]0;owned\x07\x1b[2Jx", r"\x1b]0;owned\x07\x1b[2Jx", "U+001B")
}

/// The same by a C1 control, which is one character of UTF-8.
fn c1_control() -> Construct {
    shown("\u{9b}2Jx", r"\u{9b}2Jx", "U+009B")
}

/// CVE-2021-42574 (Trojan Source) in a file name.
fn right_to_left_override() -> Construct {
    shown("accounts/\u{202e}1.89", r"accounts/\u{202e}1.89", "U+202E")
}

/// A name that must not be shown as it is.
fn shown(path: &str, printable: &str, reason: &'static str) -> Construct {
    between(|tar| tar.file(path, b"x"))
        .entry(printable)
        .refused_as_snapshot(behind(), FOREIGN)
        .refused_as_any(behind(), reason)
}

/// A file for readers of the type byte, a directory for readers of the name.
fn slash_behind_a_file() -> Construct {
    file("accounts/98.1/", "it ends in a slash but is no directory")
}

/// Zip-slip on another system. Here a backslash is a character like others.
fn backslashes() -> Construct {
    let path = r"..\..\outside\canary";
    between(|tar| tar.file(path, b"x"))
        .entry(r"..\\..\\outside\\canary")
        .refused_as_snapshot(behind(), FOREIGN)
        .accepted_as_any(&[(path, b"x")])
}

/// node-tar CVE-2026-23950: names that one file system takes for the same. They are bytes to us; a
/// file system that thinks otherwise refuses the second one, since nothing is ever opened twice.
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

/// RUSTSEC-2018-0002 without a link: which of the two counts depends on the reader.
fn same_file_twice() -> Construct {
    between(|tar| tar.file("version", b"1.2.0")).entry("version").refused(behind(), "twice")
}

/// The same path in other words.
fn same_file_said_differently() -> Construct {
    file("./version", "twice")
}

/// A directory that could get another mode the second time.
fn same_directory_twice() -> Construct {
    between(|tar| tar.directory("snapshots")).entry("snapshots").refused(behind(), "twice")
}

/// A file that something is below of.
fn file_and_then_directory() -> Construct {
    file("version/x", "both a file and a directory")
}

/// A file where a directory is.
fn directory_and_then_file() -> Construct {
    between(|tar| tar.file("accounts", b"x"))
        .entry("accounts")
        .refused_as_snapshot(behind(), "only a directory is accepted")
        .refused_as_any(behind(), "both a file and a directory")
}

/// The name of unsnap's own staging directory: taken for a left-over it would be deleted by the
/// next run.
fn our_staging_directory() -> Construct {
    file(".unsnap-staging/x", "it is a name that unsnap uses itself")
}

/// The name of the journal of what can be resumed, which an archive could claim for itself.
fn our_journal() -> Construct {
    file(".unsnap-journal", "it is a name that unsnap uses itself")
}
