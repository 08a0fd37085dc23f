//! What an archive holds is what its name says, or it is refused.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use unsnap_failure::{Failure, Family};
use unsnap_pass::{Archive, SandboxMode};
use unsnap_state::Format;
use unsnap_test_support::{
    Outcome, Site, genuine, genuine_pairs, ledger::Ledger, ledger_tool, run, small, unpack, within,
};
use unsnap_testkit::{
    compress,
    lattice::totals,
    spec::{ArchiveSpec, FileSizes, LatticeHash},
    tree::{Kind, decompress, reference_entries},
};
use unsnap_unpack::{AccountsPaths, Report, State, UnpackError, Verify};

/// A full archive of `files` storages with the true hash of its accounts.
fn true_spec(files: u64) -> ArchiveSpec {
    ArchiveSpec {
        total_bytes: files * 20_000,
        file_sizes: FileSizes::Fixed(20_000),
        files: Some(files),
        slot: 1000,
        lattice_hash: LatticeHash::OfAccounts,
        ..ArchiveSpec::default()
    }
}

/// A full archive, and an incremental one upon it, both with true hashes.
fn true_pair(site: &Site) -> (PathBuf, PathBuf) {
    let full = true_spec(40);
    let incremental = ArchiveSpec {
        slot: 1020,
        base_slot: Some(1000),
        lattice_hash: LatticeHash::OfAccountsUpon(Box::new(full.clone())),
        ..true_spec(6)
    };
    (site.archive(&full), site.archive(&incremental))
}

fn verify(archive: &Path, flags: &[&str]) -> Outcome {
    run(ledger_tool().arg("verify").arg(archive).args(flags))
}

/// Verifies in this process, without writing anything.
fn check(
    full: &Path,
    incremental: Option<&Path>,
    memory: Option<u64>,
) -> Result<Report, UnpackError> {
    let mut config = small(full, Path::new(""));
    config.dry_run = true;
    config.incremental = incremental.map(|path| Archive::File(path.to_owned()));
    config.verify = Verify::Accounts { memory_bytes: memory };
    unpack(&config)
}

/// What independent code says of some archives together: accounts, and their lamports.
fn reference(archives: &[&Path]) -> (u64, u64) {
    let mut newest: HashMap<[u8; 32], (u64, u64)> = HashMap::new();
    for archive in archives {
        for entry in reference_entries(&fs::read(archive).unwrap()).unwrap() {
            let Some(name) = entry.path.strip_prefix("accounts/") else { continue };
            if entry.kind != Kind::File {
                continue;
            }
            let slot: u64 = name.split('.').next().unwrap().parse().unwrap();
            let (bytes, mut at) = (entry.bytes, 0);
            while at + 136 <= bytes.len() {
                let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                let key = bytes[at + 16..at + 48].try_into().unwrap();
                let there = newest.entry(key).or_insert((slot, number(at + 48)));
                if slot >= there.0 {
                    *there = (slot, number(at + 48));
                }
                let data = usize::try_from(number(at + 8)).unwrap();
                at += (136 + data).next_multiple_of(8);
            }
        }
    }
    let living = newest.values().filter(|(_, lamports)| *lamports > 0);
    (living.clone().count() as u64, living.map(|(_, lamports)| lamports).sum())
}

#[test]
fn genuine_archives_are_what_their_names_say() {
    let archives = genuine();
    let is_incremental =
        |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("incremental");
    for full in archives.iter().filter(|path| !is_incremental(path)) {
        let upon = archives.iter().filter(is_incremental);
        let upon = upon.filter(|path| path.parent() == full.parent()).map(PathBuf::as_path);
        for incremental in [None].into_iter().chain(upon.map(Some)) {
            let both: Vec<&Path> =
                [Some(full.as_path()), incremental].into_iter().flatten().collect();
            let mut flags = vec!["--format", "json"];
            if let Some(incremental) = incremental {
                flags.extend(["--incremental", incremental.to_str().unwrap()]);
            }
            let report = verify(full, &flags).assert_code(0).json();
            let (accounts, capitalization) = reference(&both);
            assert_eq!(report["accounts"]["accounts"], accounts);
            assert_eq!(report["accounts"]["capitalization"], capitalization);
            assert_eq!(report["bank"]["capitalization"], capitalization);
            assert_eq!(report["dry_run"], true);
            let older = report["accounts"]["older_versions"].as_u64().unwrap();
            assert_eq!(older > 0, incremental.is_some(), "{report:#}");
        }
    }
}

#[test]
fn made_archives_are_verified_whatever_the_memory() {
    let site = Site::new();
    let (full, incremental) = true_pair(&site);
    for memory in [None, Some(0), Some(10_000)] {
        let report = check(&full, Some(&incremental), memory).unwrap();
        let accounts = report.accounts.unwrap();
        let expected = reference(&[&full, &incremental]);
        assert_eq!((accounts.accounts, accounts.capitalization), expected);
        assert_eq!(accounts.spilt_bytes > 0, memory.is_some(), "{memory:?}: {accounts:?}");
    }
}

#[test]
fn accounts_are_verified_while_they_are_unpacked() {
    let site = Site::new();
    let (full, _) = true_pair(&site);
    for accounts in [vec![], vec![site.place().join("a"), site.place().join("b")]] {
        let mut config = small(&full, &site.output());
        config.accounts.clone_from(&accounts);
        config.verify = Verify::Accounts { memory_bytes: None };
        let report = unpack(&config).unwrap();
        assert_eq!(report.accounts.unwrap().capitalization, reference(&[&full]).1);
        site.reset(false);
        for path in accounts {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

#[test]
fn the_second_look_at_unpacked_files_is_seen_to_make_progress() {
    let site = Site::new();
    let [(full, incremental), _] = genuine_pairs();
    let ledger = Ledger::new(&site.place(), 1);
    for path in [ledger.states(), ledger.run(0)] {
        fs::create_dir_all(path).unwrap();
    }
    let mut config = small(&full, Path::new(""));
    config.incremental = Some(Archive::File(incremental));
    config.verify = Verify::Accounts { memory_bytes: None };
    config.state = Some(State {
        directory: ledger.state(47),
        accounts: AccountsPaths::new(ledger.accounts.clone()).unwrap(),
        format: Format::V3,
        shadow: false,
    });
    // A sandboxed thread cannot move the state into place; the crate fastboot uses another one.
    config.pass.sandbox = SandboxMode::Off;
    let unpacker = config.unpacker().unwrap();
    let progress = unpacker.handles().progress;
    let report = within(move || unpacker.run()).unwrap().accounts.unwrap();
    assert!(report.looked_at > 0, "{report:?}");
    // Each storage that is opened again counts, so that a watchdog sees it.
    assert!(progress.snapshot().files_handled > 0, "{:?}", progress.snapshot());
}

/// The archive with some bytes of its tar stream changed, under the name it had.
fn changed(archive: &Path, site: &Site, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut tar = decompress(&fs::read(archive).unwrap()).unwrap();
    change(&mut tar);
    let path = site.path("changed").join(archive.file_name().unwrap());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, compress::zstd_frames(&tar, 1 << 20, 1)).unwrap();
    path
}

/// Where the payload of the first storage begins in a tar stream.
fn first_storage(tar: &[u8]) -> usize {
    let header = tar.chunks(512).position(|block| block.starts_with(b"accounts/")).unwrap();
    (header + 1) * 512
}

#[test]
fn a_changed_account_is_found_and_nothing_is_published() {
    let site = Site::new();
    let (full, _) = true_pair(&site);
    // A byte of a public key, of the lamports, of the owner, and of data.
    for offset in [16, 48, 64, 136] {
        let bad = changed(&full, &site, |tar| {
            let at = first_storage(tar) + offset;
            tar[at] ^= 1;
        });
        verify(&bad, &[]).assert_code(1).assert_error(&["the accounts hash to", "expected"]);
        // The structure is good.
        verify(&bad, &["--verify", "structure"]).assert_code(0);
        let before = site.state();
        let outcome = run(ledger_tool()
            .arg("unpack")
            .arg(&bad)
            .args(["--verify", "accounts", "--output"])
            .arg(site.output()));
        outcome.assert_code(1);
        site.assert_untouched(&before, offset);
    }
}

#[test]
fn a_storage_that_is_no_row_of_accounts_is_refused_by_default() {
    let site = Site::new();
    let (full, _) = true_pair(&site);
    // A length that leads behind the storage's end.
    let bad = changed(&full, &site, |tar| {
        let at = first_storage(tar) + 8;
        tar[at..at + 8].copy_from_slice(&(5_000_000_u64).to_le_bytes());
    });
    let before = site.state();
    let output = site.output();
    let outcome =
        run(ledger_tool().arg("unpack").arg(&bad).arg("--output").arg(&output)).assert_code(1);
    outcome.assert_error(&["accounts/", "offset 0"]);
    site.assert_untouched(&before, "structure");
    let mut command = ledger_tool();
    command.arg("unpack").arg(&bad).args(["--verify", "none", "--output"]).arg(&output);
    run(&mut command).assert_code(0);
}

#[test]
fn an_archive_under_another_name_ends_with_its_bank_file() {
    let site = Site::new();
    let spec = true_spec(400);
    let archive = site.archive(&spec);
    let other = ArchiveSpec { seed: 7, ..spec.clone() };
    let renamed = site.path(&other.name());
    fs::copy(&archive, &renamed).unwrap();
    for flags in [&["--verify", "structure"][..], &[]] {
        let name = other.name();
        let hash = name.split('-').nth(2).unwrap().split('.').next().unwrap();
        verify(&renamed, flags).assert_code(1).assert_error(&["bank file", hash]);
    }
    // And one of another slot.
    let hash = archive.file_name().unwrap().to_str().unwrap().split('-').nth(2).unwrap().to_owned();
    let renamed = site.path(&format!("snapshot-1001-{hash}"));
    fs::copy(&archive, &renamed).unwrap();
    verify(&renamed, &["--verify", "structure"]).assert_code(1);
}

#[test]
fn what_cannot_be_verified_is_said_before_anything_is_read() {
    let site = Site::new();
    let (full, incremental) = true_pair(&site);
    verify(&incremental, &[])
        .assert_code(2)
        .assert_error(&["alone", "hint: give its full archive"]);
    let other = site.archive(&ArchiveSpec { slot: 999, ..true_spec(3) });
    let upon = incremental.to_str().unwrap();
    verify(&other, &["--incremental", upon])
        .assert_code(2)
        .assert_error(&["builds on slot 1000", "slot 999"]);
    let nameless = site.path("renamed.tar.zst");
    fs::copy(&full, &nameless).unwrap();
    verify(&nameless, &[]).assert_code(2).assert_error(&["only the name of a snapshot archive"]);
    let stream = run(ledger_tool().args(["verify", "-"]).stdin(Stdio::null()));
    stream.assert_code(2);
}

#[test]
fn an_account_twice_in_one_storage_is_refused() {
    let site = Site::new();
    let (full, _) = true_pair(&site);
    let tar = decompress(&fs::read(&full).unwrap()).unwrap();
    let start = first_storage(&tar);
    let data = u64::from_le_bytes(tar[start + 8..start + 16].try_into().unwrap());
    let data = usize::try_from(data).unwrap();
    let next = start + (136 + data).next_multiple_of(8);
    let bad = changed(&full, &site, |tar| tar.copy_within(start + 16..start + 48, next + 16));
    let error = check(&bad, None, None).unwrap_err();
    assert_eq!(error.family(), Family::BadArchive, "{error}");
    assert!(error.to_string().contains("twice"), "{error}");
}

#[test]
fn testkit_counts_like_the_reference() {
    // The oracle's oracle: two ways to add up the genuine accounts agree.
    for full in genuine().iter().filter(|path| !path.to_str().unwrap().contains("incremental")) {
        let entries = reference_entries(&fs::read(full).unwrap()).unwrap();
        let counted = totals(|visit| {
            for entry in &entries {
                if let Some(name) = entry.path.strip_prefix("accounts/") {
                    visit(name.split('.').next().unwrap().parse().unwrap(), &entry.bytes);
                }
            }
        });
        assert_eq!(counted.capitalization, reference(&[full]).1);
    }
}
