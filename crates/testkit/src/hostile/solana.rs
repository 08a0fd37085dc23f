//! Archives that are good tars but not snapshots, or snapshots that no validator would load.

use super::{
    Construct, FOREIGN, SLOT, behind, between, constructs, good_beginning, good_end, good_files,
    good_tar, head,
};
use crate::spec::ArchiveSpec;
use crate::tar::{Header, TarBuilder};

constructs![
    version_of_100_gb,
    version_of_9_bytes,
    version_that_is_not_known,
    version_that_speaks_to_the_terminal,
    no_version,
    no_status_cache,
    no_bank,
    bank_of_33_gib,
    status_cache_of_33_gib,
    storage_of_17_gib,
    empty_storage,
    bank_of_another_slot,
    bank_file_of_another_name,
    bank_of_another_slot_than_the_archive_s_name,
    storage_newer_than_the_bank,
    bank_older_than_a_storage,
    storage_of_the_full_snapshot,
    second_storage_of_a_slot,
    storage_twice,
    slot_with_a_leading_zero,
    slot_beyond_64_bits,
    storage_number_beyond_31_bits,
    file_that_is_nobody_s,
    directory_that_is_nobody_s,
    file_among_the_accounts,
    directory_among_the_accounts,
    second_accounts_directory,
    accounts_in_the_place_of_banks,
    too_many_entries,
    too_many_bytes,
    too_many_apparent_bytes,
];

/// Returns an archive with an entry that no snapshot has but any tar may have.
fn foreign(path: &str) -> Construct {
    between(|tar| tar.file(path, b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), FOREIGN)
        .accepted_as_any(&[(path, b"x")])
}

/// Returns an archive with a storage that no snapshot has but any tar may have.
fn storage(path: &str, reason: &'static str) -> Construct {
    between(|tar| tar.account(path, b"x"))
        .entry(path)
        .refused_as_snapshot(behind(), reason)
        .accepted_as_any(&[(path, b"x")])
}

/// Returns an archive with a declared size above the limit for the file. The content is missing.
fn claims(tar: TarBuilder, path: &str, size: u64, reason: &'static str) -> Construct {
    let at = tar.len();
    let tar = tar.entry(Header::account(path, size), b"1.2.0").finish();
    let end = tar.len();
    Construct::tar(tar)
        .entry(path)
        .refused_as_snapshot(at, reason)
        .refused_as_any(end, "is truncated")
}

/// solana#18841: the whole version file was read into memory, and 100 GB exhausted it.
fn version_of_100_gb() -> Construct {
    claims(TarBuilder::new(), "version", 100_000_000_000, "has 100000000000 bytes, limit is 8")
}

/// One byte above the limit.
fn version_of_9_bytes() -> Construct {
    let mut files = good_files();
    files[0].1 = b"1.2.0\0\0\0\0".to_vec();
    whole(files, 0, "has 9 bytes, limit is 8")
}

/// Returns a snapshot of the given files that is refused for the one at `at`.
fn whole(files: Vec<(String, Vec<u8>)>, at: usize, reason: &'static str) -> Construct {
    let tar = files.iter().fold(TarBuilder::new(), |tar, (path, bytes)| tar.file(path, bytes));
    Construct::tar(tar.finish())
        .entry("version")
        .refused_as_snapshot(at, reason)
        .accepted_as_any_with(files)
}

/// A format that would be loaded as another one.
fn version_that_is_not_known() -> Construct {
    let mut files = good_files();
    files[0].1 = b"1.3.0".to_vec();
    whole(files, 0, "snapshot version is \"1.3.0\"")
}

/// Content of a file that appears in a message.
fn version_that_speaks_to_the_terminal() -> Construct {
    let mut files = good_files();
    files[0].1 = b"\x1b[2J\x9b1m".to_vec();
    whole(files, 0, r#"snapshot version is "\x1b[2J\x9b1m""#)
}

/// Returns a good snapshot without one of its files.
fn without(path: &str, reason: &'static str) -> Construct {
    let files: Vec<_> = good_files().into_iter().filter(|(name, _)| name != path).collect();
    let mut construct = whole(files, 0, reason).refused_as_snapshot(None, reason);
    construct.entry = None;
    construct
}

/// An unknown format: the version file is missing.
fn no_version() -> Construct {
    without("version", "has no version")
}

/// A snapshot that would fail to load an hour later.
fn no_status_cache() -> Construct {
    without("snapshots/status_cache", "has no snapshots/status_cache")
}

/// A snapshot without its bank file.
fn no_bank() -> Construct {
    without("snapshots/100/100", "has no snapshots/<slot>/<slot>")
}

/// Agave's limit on a file that it reads at once.
fn bank_of_33_gib() -> Construct {
    let tar = TarBuilder::new().file("version", b"1.2.0");
    claims(tar, "snapshots/100/100", 33 << 30, "has 35433480192 bytes, limit is 34359738368")
}

/// The same limit on the status cache.
fn status_cache_of_33_gib() -> Construct {
    let tar = TarBuilder::new().file("version", b"1.2.0");
    claims(tar, "snapshots/status_cache", 33 << 30, "has 35433480192 bytes, limit is 34359738368")
}

/// A storage larger than any that a validator opens (`append_vec.rs`).
fn storage_of_17_gib() -> Construct {
    claims(
        good_beginning(),
        "accounts/98.1",
        17 << 30,
        "has 18253611008 bytes, limit is 17179869184",
    )
}

/// A storage that a validator refuses when it loads the snapshot.
fn empty_storage() -> Construct {
    between(|tar| tar.account("accounts/98.1", b""))
        .entry("accounts/98.1")
        .refused_as_snapshot(behind(), "is empty")
        .accepted_as_any(&[("accounts/98.1", b"")])
}

/// Two banks, of which a validator could load either.
fn bank_of_another_slot() -> Construct {
    storage("snapshots/99/99", "belongs to slot 99, but the snapshot is of slot 100")
}

/// A bank file that Agave admits but does not find.
fn bank_file_of_another_name() -> Construct {
    foreign("snapshots/100/99")
}

/// A snapshot of another slot than the requested one.
fn bank_of_another_slot_than_the_archive_s_name() -> Construct {
    let tar = good_tar();
    let at = TarBuilder::new()
        .file("version", b"1.2.0")
        .directory("snapshots/")
        .file("snapshots/status_cache", b"the status cache")
        .len();
    let mut construct = Construct::tar(tar)
        .entry("snapshots/100")
        .refused_as_snapshot(at, "belongs to slot 100, but the snapshot is of slot 101")
        .accepted_as_any(&[]);
    let spec = ArchiveSpec { slot: SLOT + 1, ..ArchiveSpec::default() };
    construct.file_name = spec.name();
    construct
}

/// A storage from a later slot.
fn storage_newer_than_the_bank() -> Construct {
    storage(
        "accounts/101.1",
        "the archive has a storage of slot 101, but the snapshot is of slot 100",
    )
}

/// The same with the bank as the last entry.
fn bank_older_than_a_storage() -> Construct {
    let tar = TarBuilder::new().file("version", b"1.2.0").account("accounts/101.1", b"x");
    let at = tar.len();
    let mut files = good_files();
    files.push(("accounts/101.1".to_owned(), b"x".to_vec()));
    let tar = tar.file("snapshots/100/100", b"the bank");
    let tar = tar.file("snapshots/status_cache", b"the status cache");
    let tar = good_end(tar.account("accounts/90.7", &[7; 600]));
    let mut construct = Construct::tar(tar)
        .entry("snapshots/100/100")
        .refused_as_snapshot(at, "the archive has a storage of slot 101")
        .accepted_as_any_with(files);
    "archive.tar".clone_into(&mut construct.file_name); // A name without a slot.
    construct
}

/// A storage in an incremental snapshot that its base already has, in another state.
fn storage_of_the_full_snapshot() -> Construct {
    let mut construct = Construct::tar(good_tar())
        .entry("accounts/90.7")
        .refused_as_snapshot(head().len(), "belongs to slot 90, which the full snapshot of slot 95")
        .accepted_as_any(&[]);
    let spec = ArchiveSpec { slot: SLOT, base_slot: Some(95), ..ArchiveSpec::default() };
    construct.file_name = spec.name();
    construct
}

/// Agave refuses this when it loads the snapshot, hours later.
fn second_storage_of_a_slot() -> Construct {
    storage("accounts/90.8", "is the second storage of slot 90")
}

/// The same under an identical name.
fn storage_twice() -> Construct {
    between(|tar| tar.account("accounts/90.7", b"x"))
        .entry("accounts/90.7")
        .refused_as_snapshot(behind(), "is the second storage of slot 90")
        .refused_as_any(behind(), "occurs twice in the archive")
}

/// Two names for one storage, which Agave's own grammar allows.
fn slot_with_a_leading_zero() -> Construct {
    storage("accounts/090.8", "number with leading zeros")
}

/// A number that becomes 0 if it overflows.
fn slot_beyond_64_bits() -> Construct {
    storage("accounts/18446744073709551616.1", "has the number 18446744073709551616 in its name")
}

/// A number that the accounts database reserves for itself.
fn storage_number_beyond_31_bits() -> Construct {
    storage("accounts/98.2147483648", "has the number 2147483648 in its name, limit is 2147483647")
}

/// solana#7167: unrelated files, up to the number of inodes.
fn file_that_is_nobody_s() -> Construct {
    foreign("genesis.bin")
}

/// solana#7167 again, with a directory.
fn directory_that_is_nobody_s() -> Construct {
    let mut construct = between(|tar| tar.directory("extra"))
        .entry("extra")
        .refused_as_snapshot(behind(), FOREIGN)
        .accepted_as_any(&[]);
    construct.directories.push("extra");
    construct
}

/// An extra file in a directory of many files.
fn file_among_the_accounts() -> Construct {
    foreign("accounts/98.1.tmp")
}

/// An extra directory level.
fn directory_among_the_accounts() -> Construct {
    foreign("accounts/98/1")
}

/// solana#7167: more accounts directories than the validator has.
fn second_accounts_directory() -> Construct {
    foreign("accounts2/98.1")
}

/// A storage in the directory of banks.
fn accounts_in_the_place_of_banks() -> Construct {
    foreign("snapshots/98.1/98.1")
}

/// solana#7167: exhausted inodes. The limit on entries, lowered so that a good snapshot exceeds it.
fn too_many_entries() -> Construct {
    Construct::tar(good_tar())
        .limits("[limits]\nentries_max = 6\n")
        .refused_as_snapshot(
            behind(),
            "accounts/99.9 at byte 5632 is one entry too many, limit is 6",
        )
        // Here directories without an entry count too.
        .refused_as_any(head().len(), "accounts/90.7 at byte 4096 is one entry too many")
}

/// solana#8427: a full disk. The limit on the total of all files, lowered likewise.
fn too_many_bytes() -> Construct {
    Construct::tar(good_tar())
        .limits("[limits]\nactual_bytes_max = 600\n")
        .entry("accounts/90.7")
        .refused_as_snapshot(head().len(), "the files add up to 629 bytes, limit is 600")
        .accepted_as_any(&[])
}

/// The same with holes counted, although there are none.
fn too_many_apparent_bytes() -> Construct {
    Construct::tar(good_tar())
        .limits("[limits]\napparent_bytes_max = 600\n")
        .entry("accounts/90.7")
        .refused(head().len(), "the files add up to 629 bytes, limit is 600")
}
