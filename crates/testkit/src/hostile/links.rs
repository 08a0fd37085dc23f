//! Links: none is ever created, whatever its target.

use super::{ABSOLUTE, Construct, RELATIVE, behind, between, blocks, constructs, good_end, head};
use crate::tar::{Dialect, Header, TarBuilder};

constructs![
    link_and_then_a_file_through_it,
    link_in_place_of_the_accounts,
    link_and_then_a_directory_of_its_name,
    hard_link_and_then_a_file_of_its_name,
    absolute_link,
    absolute_hard_link,
    hard_link_upwards,
    hard_link_within_the_archive,
    hard_link_through_two_links,
    hard_link_to_a_link_made_shallower,
    link_with_a_target_beyond_path_max,
    link_without_a_target,
    link_without_a_name,
    link_in_place_of_the_destination,
    link_by_long_link,
    link_by_pax,
    link_with_content,
    hard_link_with_content,
];

const SYMBOLIC: &str = "symbolic link";
const HARD: &str = "hard link";

/// RUSTSEC-2021-0080 (tar < 0.4.36): directories were created through the link, outside.
fn link_and_then_a_file_through_it() -> Construct {
    between(|tar| tar.symlink("accounts/98.1", "..").file("accounts/98.1/../outside/new", b"x"))
        .entry("accounts/98.1")
        .refused(behind(), SYMBOLIC)
}

/// A link in the place of a directory that every snapshot has, before that directory is created.
fn link_in_place_of_the_accounts() -> Construct {
    let tar = head();
    let at = tar.len();
    let tar = good_end(tar.symlink("accounts", RELATIVE).account("accounts/90.7", &[7; 600]));
    Construct::tar(tar).entry("accounts").refused(at, SYMBOLIC)
}

/// CVE-2026-33056 / RUSTSEC-2026-0067 (tar < 0.4.45), RUSTSEC-2026-0113 (astral-tokio-tar): the
/// directory's mode was applied to the link's target.
fn link_and_then_a_directory_of_its_name() -> Construct {
    let header = Header::new(Dialect::Gnu, b'5', "snapshots/100", 0).mode(0o777);
    let tar = TarBuilder::new().file("version", b"1.2.0");
    let at = tar.len();
    let tar = tar
        .symlink("snapshots/100", "../../../outside")
        .entry(header, &[])
        .file("snapshots/status_cache", b"the status cache")
        .file("snapshots/100/100", b"the bank");
    Construct::tar(good_end(tar)).entry("snapshots/100").refused(at, SYMBOLIC)
}

/// RUSTSEC-2018-0002 (tar < 0.4.16): the link's target was overwritten.
fn hard_link_and_then_a_file_of_its_name() -> Construct {
    between(|tar| {
        tar.hard_link("accounts/98.1", "../../outside/canary").account("accounts/98.1", b"x")
    })
    .entry("accounts/98.1")
    .refused(behind(), HARD)
}

/// node-tar CVE-2026-23745: the target was not checked because it is absolute.
fn absolute_link() -> Construct {
    between(|tar| tar.symlink("accounts/98.1", ABSOLUTE))
        .entry("accounts/98.1")
        .refused(behind(), SYMBOLIC)
}

/// Perl's Archive::Tar, CVE-2026-42496.
fn absolute_hard_link() -> Construct {
    between(|tar| tar.hard_link("accounts/98.1", "/proc/self/cwd/outside/canary"))
        .entry("accounts/98.1")
        .refused(behind(), HARD)
}

/// Perl's Archive::Tar, CVE-2026-42497.
fn hard_link_upwards() -> Construct {
    between(|tar| tar.hard_link("accounts/98.1", "../../outside/./canary"))
        .entry("accounts/98.1")
        .refused(behind(), HARD)
}

/// CPython CVE-2026-4360: the second name of a file in the archive kept another owner.
fn hard_link_within_the_archive() -> Construct {
    between(|tar| tar.hard_link("accounts/98.1", "accounts/90.7"))
        .entry("accounts/98.1")
        .refused(behind(), HARD)
}

/// node-tar CVE-2026-26960: each link by itself stays inside.
fn hard_link_through_two_links() -> Construct {
    let tar = head();
    let at = tar.len() + blocks(3);
    let tar = tar
        .directory("a/")
        .directory("a/b/")
        .directory("a/b/c/")
        .symlink("a/b/c/up", "../..")
        .symlink("a/b/escape", "c/up/../..")
        .hard_link("accounts/98.1", "a/b/escape/outside/canary");
    Construct::tar(good_end(tar))
        .refused_as_snapshot(at - blocks(3), "directory a/ ")
        .refused_as_any(at, SYMBOLIC)
}

/// CPython CVE-2026-11940: the link's copy lies higher than the link, and so points outside.
fn hard_link_to_a_link_made_shallower() -> Construct {
    between(|tar| {
        tar.symlink("snapshots/100/deep", "../../../outside")
            .hard_link("deep", "snapshots/100/deep")
    })
    .entry("snapshots/100/deep")
    .refused(behind(), SYMBOLIC)
}

/// CPython CVE-2025-4517, CVE-2025-4330, CVE-2025-4138: beyond `PATH_MAX` the check and the system
/// disagreed on a link's target.
fn link_with_a_target_beyond_path_max() -> Construct {
    let target = "d/".repeat(2_047) + "..";
    assert_eq!(target.len(), 4_096);
    between(|tar| tar.long_link(target.as_bytes()).symlink("accounts/98.1", "d"))
        .entry("accounts/98.1")
        .refused(behind() + blocks(1 + 9), "has 4096 bytes, limit is 4095")
}

/// A dangling link.
fn link_without_a_target() -> Construct {
    between(|tar| tar.symlink("accounts/98.1", ""))
        .entry("accounts/98.1")
        .refused(behind(), SYMBOLIC)
}

/// CPython CVE-2026-7774: a link with an empty name replaced the destination.
fn link_without_a_name() -> Construct {
    between(|tar| tar.symlink("", RELATIVE)).refused(behind(), "has an empty path")
}

/// The destination itself as a link.
fn link_in_place_of_the_destination() -> Construct {
    between(|tar| tar.symlink("./", RELATIVE)).entry("./").refused(behind(), SYMBOLIC)
}

/// A target in a GNU extension. The header's own target is harmless.
fn link_by_long_link() -> Construct {
    between(|tar| tar.long_link(ABSOLUTE.as_bytes()).symlink("accounts/98.1", "90.7"))
        .entry("accounts/98.1")
        .refused(behind(), SYMBOLIC)
}

/// A target in a PAX record.
fn link_by_pax() -> Construct {
    let header = Header::new(Dialect::Ustar, b'2', "accounts/98.1", 0).link_name(b"90.7");
    between(|tar| tar.pax(&[("linkpath", ABSOLUTE)]).entry(header, &[]))
        .entry("accounts/98.1")
        .refused(behind(), SYMBOLIC)
}

/// GNU tar CVE-2026-5704 (hidden members): readers that skip a link's content do not see the entry
/// in it, others do.
fn link_with_content() -> Construct {
    let hidden = TarBuilder::new().account("accounts/97.1", b"hidden").into_bytes();
    let header =
        Header::new(Dialect::Gnu, b'2', "accounts/98.1", hidden.len() as u64).link_name(b"90.7");
    between(|tar| tar.entry(header, &hidden))
        .entry("accounts/98.1")
        .refused(behind(), "declares 1024 bytes of content but can have none")
}

/// The same in a hard link. pax and cpio do store content in those.
fn hard_link_with_content() -> Construct {
    let header = Header::new(Dialect::Ustar, b'1', "accounts/98.1", 1).link_name(b"accounts/90.7");
    between(|tar| tar.entry(header, b"x"))
        .entry("accounts/98.1")
        .refused(behind(), "declares 1 bytes of content but can have none")
}
