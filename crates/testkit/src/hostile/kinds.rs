//! Kinds of entries that no snapshot has, and modes that no file gets.

use super::{Construct, behind, between, blocks, constructs, good_end};
use crate::tar::{Dialect, Header, TarBuilder};

constructs![
    named_pipe,
    character_device,
    block_device,
    volume_label,
    part_of_a_multi_volume_file,
    dump_of_a_directory,
    old_long_name,
    access_control_list,
    unknown_type,
    type_of_255,
    contiguous_file,
    set_user_id,
    directory_for_everybody,
    file_that_nobody_may_read,
    directory_in_place_of_a_storage,
    file_in_place_of_a_directory,
];

const NAME: &str = "accounts/98.1";

fn kind(kind: u8, reason: &'static str) -> Construct {
    between(|tar| tar.entry(Header::new(Dialect::Gnu, kind, NAME, 0), &[]))
        .entry(NAME)
        .refused(behind(), reason)
}

/// A named pipe: a reader that opens it blocks forever.
fn named_pipe() -> Construct {
    kind(b'6', "named pipe")
}

/// A device node chosen by the archive: for example the machine's memory.
fn character_device() -> Construct {
    let header = Header::new(Dialect::Gnu, b'3', NAME, 0).patch(329, b"0000001\x000000001\0");
    between(|tar| tar.entry(header, &[])).entry(NAME).refused(behind(), "character device")
}

/// A device node for the machine's disk.
fn block_device() -> Construct {
    let header = Header::new(Dialect::Gnu, b'4', NAME, 0).patch(329, b"0000010\x000000000\0");
    between(|tar| tar.entry(header, &[])).entry(NAME).refused(behind(), "block device")
}

/// GNU type `V`: a name for the archive, which unaware readers treat as a file.
fn volume_label() -> Construct {
    kind(b'V', "member of type 'V'")
}

/// GNU type `M`: the remainder of a file, without its beginning.
fn part_of_a_multi_volume_file() -> Construct {
    kind(b'M', "member of type 'M'")
}

/// GNU type `D`: a directory with a list of files as its content (Go's `gnu-incremental.tar`).
fn dump_of_a_directory() -> Construct {
    let header = Header::new(Dialect::Gnu, b'D', "accounts", 8);
    between(|tar| tar.entry(header, b"Y90.7\0\0\0"))
        .entry("accounts")
        .refused(behind(), "member of type 'D'")
}

/// GNU type `N`: renames and links from before 1990, which old readers execute.
fn old_long_name() -> Construct {
    let header = Header::new(Dialect::Gnu, b'N', NAME, 512);
    between(|tar| tar.entry(header, b"Rename accounts/90.7 to ../../outside/canary\n"))
        .entry(NAME)
        .refused(behind(), "member of type 'N'")
}

/// Solaris type `A` (libarchive's `acl_oob_read`).
fn access_control_list() -> Construct {
    kind(b'A', "member of type 'A'")
}

/// POSIX says to treat this type as a file. Readers disagree, so it is refused.
fn unknown_type() -> Construct {
    kind(b'Z', "member of type 'Z'")
}

/// A type that is not a character.
fn type_of_255() -> Construct {
    kind(0xff, r"member of type '\xff'")
}

/// Type `7`, which POSIX says to treat as a file by default.
fn contiguous_file() -> Construct {
    between(|tar| tar.entry(Header::new(Dialect::Ustar, b'7', NAME, 1), b"x"))
        .accepted(&[(NAME, b"x")])
}

/// A file that would run as its owner. unsnap sets its own modes and ignores the archive's.
fn set_user_id() -> Construct {
    let header = Header::new(Dialect::Gnu, b'0', NAME, 1).mode(0o6777).owner(0, 0);
    between(|tar| tar.entry(header, b"x")).accepted(&[(NAME, b"x")])
}

/// A directory in which anyone may replace files.
fn directory_for_everybody() -> Construct {
    let header = Header::new(Dialect::Gnu, b'5', "accounts", 0).mode(0o7777);
    between(|tar| tar.entry(header, &[])).accepted(&[])
}

/// A directory that its owner cannot write to, and a file that its owner cannot read.
fn file_that_nobody_may_read() -> Construct {
    let directory = Header::new(Dialect::Gnu, b'5', "accounts", 0).mode(0);
    let file = Header::new(Dialect::Gnu, b'0', NAME, 1).mode(0);
    between(|tar| tar.entry(directory, &[]).entry(file, b"x")).accepted(&[(NAME, b"x")])
}

/// A file's name on a directory.
fn directory_in_place_of_a_storage() -> Construct {
    let mut construct = between(|tar| tar.directory(NAME))
        .entry(NAME)
        .refused_as_snapshot(behind(), "only a regular file is accepted")
        .accepted_as_any(&[]);
    construct.directories.push(NAME);
    construct
}

/// A directory's name on a file.
fn file_in_place_of_a_directory() -> Construct {
    let tar = TarBuilder::new().file("version", b"1.2.0");
    let at = tar.len();
    let tar = tar.file("snapshots", b"x").file("snapshots/status_cache", b"the status cache");
    Construct::tar(good_end(tar))
        .refused_as_snapshot(at, "only a directory is accepted")
        .refused_as_any(at + blocks(2), "both a file and a directory")
}
