use std::fs;

use unsnap_failure::{Failure, Family};

use super::*;

#[track_caller]
fn assert_refused<T>(result: Result<T, FastbootError>, parts: &[&str]) {
    let Err(error) = result else { panic!("not refused: {parts:?}") };
    assert_eq!(error.family(), Family::Request, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "no {part:?} in {error}");
    }
}

#[test]
fn archives_of_another_cluster_are_refused_where_the_ledger_has_a_genesis() {
    let scratch = tempfile::tempdir().unwrap();
    let expected = ExpectedCluster::default();
    let check = |time| {
        let cluster = Cluster::of(&Syscalls::default(), scratch.path(), &expected)?;
        cluster.refuse_other(Path::new("the-archive"), time)
    };
    check(7).unwrap();
    let genesis = scratch.path().join(GENESIS);
    // Not complete.
    fs::write(&genesis, &1_600_000_000_i64.to_le_bytes()[..7]).unwrap();
    check(7).unwrap();
    fs::write(&genesis, [&1_600_000_000_i64.to_le_bytes()[..], b"rest"].concat()).unwrap();
    check(1_600_000_000).unwrap();
    for other in [0, -1, 1_600_000_001, i64::MAX] {
        assert_refused(check(other), &["the-archive is of another cluster"]);
    }
}

/// The hash of the genesis of `tests/data/agave-tiny`, as `GenesisConfig::hash` returns it.
const TINY_GENESIS: &str = "AFpHXPzEpNfVeEprA7gTLX2h1UEhrRgt1wb4aFAXzN99";

/// The shred version that `solana-shred-version` computes from it.
const TINY_VERSION: u16 = 30_123;

fn tiny(ledger: &Path) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/agave-tiny");
    fs::copy(data.join(GENESIS), ledger.join(GENESIS)).unwrap();
}

#[test]
fn a_genesis_that_is_not_the_expected_one_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let check = |hash: &str| {
        let genesis_hash = ArchiveHash::parse(hash);
        assert!(genesis_hash.is_some());
        let expected = ExpectedCluster { genesis_hash, ..Default::default() };
        Cluster::of(&Syscalls::default(), scratch.path(), &expected).map(drop)
    };
    let mainnet = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";
    check(mainnet).unwrap();
    tiny(scratch.path());
    check(TINY_GENESIS).unwrap();
    assert_refused(check(mainnet), &["genesis.bin is of another", TINY_GENESIS, mainnet]);
}

#[test]
fn shred_versions_are_those_of_agave() {
    let fork = |slot, count| HardFork { slot, count };
    for (forks, version) in [
        (&[][..], 1),
        (&[fork(1, 1)], 55_551),
        (&[fork(1, 2)], 46_353),
        (&[fork(1, 2), fork(7, 1)], 17_417),
    ] {
        assert_eq!(shred_version(&[0; 32], forks), version, "{forks:?}");
    }
    // Mainnet's genesis, before its first restart.
    let mainnet = ArchiveHash::parse("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d").unwrap();
    assert_eq!(shred_version(mainnet.as_bytes(), &[]), 54_208);
    assert_eq!(shred_version(&[0xff; 32], &[]), 1);
    let mut saturated = [0; 32];
    saturated[..2].fill(0xff);
    assert_eq!(shred_version(&saturated, &[]), u16::MAX);
}

#[test]
fn forks_on_the_command_line_count_if_they_are_newer_than_the_bank() {
    let fork = |slot, count| HardFork { slot, count };
    let known = [fork(10, 1), fork(90, 1)];
    for (slot, new, expected) in [
        (50, &[][..], &known[..]),
        (50, &[10, 50], &known),
        (50, &[51], &[fork(10, 1), fork(51, 1), fork(90, 1)]),
        (50, &[90, 51, 51, 95], &[fork(10, 1), fork(51, 2), fork(90, 2), fork(95, 1)]),
    ] {
        assert_eq!(with_new_forks(&known, slot, new), expected, "{new:?}");
    }
}

#[test]
fn an_unexpected_shred_version_is_refused_with_both() {
    let scratch = tempfile::tempdir().unwrap();
    let path = Path::new("the-archive");
    let check = |cluster: ExpectedCluster, forks: Option<&[HardFork]>| {
        Cluster::of(&Syscalls::default(), scratch.path(), &cluster)?
            .compare(path, 47, forks, "remedy")
    };
    let expect = |version| ExpectedCluster { shred_version: Some(version), ..Default::default() };
    // Neither a genesis nor its hash is there: the validator fetches it.
    check(expect(7), Some(&[])).unwrap();
    let genesis_hash = ArchiveHash::parse(TINY_GENESIS);
    let hash_alone = ExpectedCluster { genesis_hash, ..expect(7) };
    let found = format!("its shred version is {TINY_VERSION}, but the validator expects 7");
    assert_refused(check(hash_alone, Some(&[])), &["the-archive is of another", &found]);
    tiny(scratch.path());
    check(expect(TINY_VERSION), Some(&[])).unwrap();
    assert_refused(check(expect(7), Some(&[])), &[&found]);
    // Too many to know.
    check(expect(7), None).unwrap();
    // After a restart of the cluster.
    let forks = [HardFork { slot: 40, count: 1 }];
    assert_refused(check(expect(TINY_VERSION), Some(&forks)), &["is of another cluster"]);
    let new = |slot| ExpectedCluster { hard_forks: vec![slot], ..expect(TINY_VERSION) };
    check(new(47), Some(&[])).unwrap();
    assert_refused(check(new(48), Some(&[])), &["is of another cluster"]);
}
