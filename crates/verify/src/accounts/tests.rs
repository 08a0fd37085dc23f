use std::{
    collections::{BTreeMap, HashMap},
    io::Write as _,
    os::unix::fs::FileExt as _,
};

use proptest::prelude::*;
use solana_lattice_hash::lt_hash::LtHash;
use unsnap_layout::append_vec::RecordHeader;

use super::*;
use crate::structure::StorageProblem;

/// Numbers that depend only on a seed.
struct Random(blake3::OutputReader);

impl Random {
    fn new(seed: u64) -> Self {
        Self(blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof())
    }
    fn below(&mut self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound
    }
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.fill(&mut bytes);
        bytes
    }
}

type Account = (RecordHeader, Vec<u8>);

fn account(random: &mut Random, key: u64) -> Account {
    let data_len = match random.below(8) {
        0 => 0,
        1 => 1500 + random.below(3000),
        _ => random.below(400),
    };
    let mut pubkey = [7; 32];
    pubkey[..8].copy_from_slice(&key.to_le_bytes());
    let header = RecordHeader {
        data_len,
        pubkey,
        lamports: random.below(4) * random.below(1 << 40),
        rent_epoch: random.below(9),
        owner: random.bytes(32).try_into().unwrap(),
        executable: u8::from(random.below(9) == 0),
    };
    (header, random.bytes(usize::try_from(data_len).unwrap()))
}

fn storage(accounts: &[Account]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (header, data) in accounts {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(header.to_bytes());
        bytes.extend(data);
    }
    bytes
}

/// Storages of two streams, by slot. All slots of the second stream are above those of the first.
struct World {
    streams: [BTreeMap<u64, Vec<Account>>; 2],
    fingerprint_bits: u32,
}

impl World {
    fn new(streams: [BTreeMap<u64, Vec<Account>>; 2]) -> Self {
        Self { streams, fingerprint_bits: 64 }
    }

    /// Creates a world in which every slot has some of `keys` accounts, each at most once.
    fn random(seed: u64, slots: u64, keys: u64) -> Self {
        let mut random = Random::new(seed);
        let mut streams = [BTreeMap::new(), BTreeMap::new()];
        for slot in 0..slots {
            let step = 1 + random.below(8);
            let mut accounts = Vec::new();
            let mut key = random.below(step);
            while key < keys {
                accounts.push(account(&mut random, key));
                key += 1 + random.below(step);
            }
            if !accounts.is_empty() {
                streams[usize::from(slot >= slots * 2 / 3)].insert(slot, accounts);
            }
        }
        Self::new(streams)
    }

    /// Returns lattice hash, capitalization and number of accounts, computed naively.
    fn expected(&self) -> (LtHash, u64, u64) {
        let mut newest: HashMap<[u8; 32], &Account> = HashMap::new();
        for accounts in self.streams.iter().flat_map(BTreeMap::values) {
            newest.extend(accounts.iter().map(|account| (account.0.pubkey, account)));
        }
        let (mut sum, mut capitalization, mut count) = (LtHash::identity(), 0, 0);
        for (header, data) in newest.values().filter(|(header, _)| header.lamports > 0) {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&header.lamports.to_le_bytes()).update(data);
            hasher.update(&[header.executable]).update(&header.owner).update(&header.pubkey);
            sum.mix_in(&LtHash::with(&hasher));
            capitalization += header.lamports;
            count += 1;
        }
        (sum, capitalization, count)
    }

    /// Returns the storages of a stream as (slot, number, bytes), in arbitrary order.
    fn storages(&self, stream: usize) -> Vec<(u64, u64, Vec<u8>)> {
        let storages = self.streams[stream].iter();
        let mut storages: Vec<_> =
            storages.map(|(slot, accounts)| (*slot, slot * 3, storage(accounts))).collect();
        storages.sort_by_key(|(slot, ..)| slot.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        storages
    }

    /// Runs a check over both streams at the same time.
    fn check(
        &self,
        config: AccountsConfig,
        piece_bytes: usize,
        look: &mut dyn SecondLook,
    ) -> Result<AccountsSummary, AccountsError> {
        let check = AccountsCheck::start(config, Fingerprints::new(self.fingerprint_bits)).unwrap();
        let streams = [check.stream(), check.stream()];
        thread::scope(|scope| {
            for (number, mut stream) in (0..).zip(streams) {
                scope.spawn(move || {
                    for (slot, id, bytes) in self.storages(number) {
                        stream.begin(slot, id, bytes.len() as u64)?;
                        for piece in bytes.chunks(piece_bytes) {
                            stream.piece(piece.to_vec())?;
                        }
                        stream.end()?;
                    }
                    Ok::<_, AccountsError>(())
                });
            }
        });
        check.finish(look)
    }

    fn assert_agrees(&self, summary: &AccountsSummary) {
        let (hash, capitalization, accounts) = self.expected();
        assert_eq!(summary.capitalization, capitalization);
        assert_eq!(summary.accounts, accounts);
        assert!(summary.hash.0 == hash.0);
        summary.expect_checksum(&hash.checksum().0).unwrap();
        summary.expect_capitalization(capitalization).unwrap();
    }
}

/// Returns a second look by another pass over the world.
fn stream_look(world: &World, piece_bytes: usize) -> impl SecondLook {
    StreamLook::new(move |picker: &mut Picker<'_, '_>| {
        for stream in 0..2 {
            for (slot, id, bytes) in world.storages(stream) {
                let size = bytes.len() as u64;
                if picker.begin(&StorageId { stream, slot, id, size }) {
                    bytes.chunks(piece_bytes).for_each(|piece| picker.piece(piece));
                }
            }
        }
        Ok(())
    })
}

/// Returns a second look at files.
fn file_look(world: &World) -> impl SecondLook {
    FileLook::new(|storage: &StorageId| {
        let storages = world.storages(storage.stream);
        let (.., bytes) = storages.iter().find(|(slot, ..)| *slot == storage.slot).unwrap();
        let mut file = tempfile::tempfile()?;
        file.write_all(bytes)?;
        Ok(file)
    })
}

fn config(workers: usize) -> AccountsConfig {
    let workers = NonZeroUsize::new(workers).unwrap();
    AccountsConfig { workers, memory_bytes_max: 1 << 20, ..AccountsConfig::default() }
}

#[test]
fn only_the_newest_versions_count() {
    for seed in 0..10 {
        let world = World::random(seed, 20, 200);
        let summary = world.check(config(2), 10_000, &mut file_look(&world)).unwrap();
        world.assert_agrees(&summary);
        assert!(summary.older_versions > 100, "seed {seed} has duplicates");
        let newest = summary.accounts + summary.closed_accounts;
        assert_eq!(newest + summary.older_versions, summary.records, "seed {seed}");
        assert_eq!(summary.spilt_bytes, 0);
    }
}

#[test]
fn a_large_set_with_little_memory_spills_and_takes_several_rounds() {
    let world = World::random(99, 60, 3000);
    let spill = tempfile::tempfile().unwrap();
    let kept = spill.try_clone().unwrap();
    let config = AccountsConfig { memory_bytes_max: 128 << 10, spill: Some(spill), ..config(3) };
    let mut rounds = 0;
    let mut inner = stream_look(&world, 4096);
    let mut look = Counting(&mut rounds, &mut inner);
    let summary = world.check(config, 3000, &mut look).unwrap();
    world.assert_agrees(&summary);
    assert!(rounds > 3, "{rounds} rounds");
    // By the end all entries are in the file, 16 bytes each.
    assert_eq!(summary.spilt_bytes, summary.records * 16);
    assert_eq!(kept.metadata().unwrap().len(), summary.spilt_bytes);
}

struct Counting<'a>(&'a mut usize, &'a mut dyn SecondLook);

impl SecondLook for Counting<'_> {
    fn look(&mut self, wanted: &[Wanted], take: &mut Take<'_>) -> Result<(), LookError> {
        *self.0 += 1;
        let storages: Vec<_> = wanted.chunk_by(|one, other| one.storage == other.storage).collect();
        assert!(storages.iter().all(|records| records.is_sorted_by_key(|record| record.offset)));
        let once: HashMap<_, _> = storages.iter().map(|records| (records[0].storage, ())).collect();
        assert_eq!(once.len(), storages.len(), "records of a storage are adjacent");
        self.1.look(wanted, take)
    }
}

#[test]
fn colliding_fingerprints_are_told_apart_by_the_keys() {
    for bits in [1, 3, 8, 12] {
        let world = World { fingerprint_bits: bits, ..World::random(5, 12, 150) };
        // Few bits make few partitions, which overflow.
        let spill = Some(tempfile::tempfile().unwrap());
        let config = AccountsConfig { spill, ..config(2) };
        let summary = world.check(config, 5000, &mut stream_look(&world, 777)).unwrap();
        world.assert_agrees(&summary);
        assert!(bits > 3 || summary.looked_at > summary.records, "some were wrongly subtracted");
    }
}

#[test]
fn one_worker_and_pieces_of_single_bytes_give_the_same() {
    let world = World::random(7, 6, 20);
    for piece_bytes in [1, 135, 136, 137] {
        let config = AccountsConfig { queue_bytes_max: 0, ..config(1) };
        let summary = world.check(config, piece_bytes, &mut stream_look(&world, 1)).unwrap();
        world.assert_agrees(&summary);
    }
}

#[test]
fn a_version_without_lamports_hides_the_older_one() {
    let mut random = Random::new(0);
    let (mut alive, data) = account(&mut random, 1);
    alive.lamports = 77;
    let dead = RecordHeader { lamports: 0, ..alive };
    let world = |first: RecordHeader, second: RecordHeader| {
        World::new([
            BTreeMap::from([(1, vec![(first, data.clone())])]),
            BTreeMap::from([(2, vec![(second, data.clone())])]),
        ])
    };
    for (first, second, accounts) in [(alive, dead, 0), (dead, alive, 1)] {
        let world = world(first, second);
        let summary = world.check(config(2), 1000, &mut file_look(&world)).unwrap();
        assert_eq!((summary.accounts, summary.older_versions), (accounts, 1));
        assert_eq!(summary.closed_accounts, 1 - accounts);
        world.assert_agrees(&summary);
    }
}

#[test]
fn an_account_twice_in_one_storage_is_an_error() {
    let mut random = Random::new(0);
    let twice = vec![account(&mut random, 1), account(&mut random, 2), account(&mut random, 1)];
    let offset = storage(&twice[..2]).len().next_multiple_of(8) as u64;
    let world = World::new([BTreeMap::from([(4, twice)]), BTreeMap::new()]);
    let error = world.check(config(2), 1000, &mut stream_look(&world, 1000)).unwrap_err();
    assert!(error.is_bad_archive());
    let AccountsError::Twice { slot, first_id, first_offset, second_id, second_offset, .. } = error
    else {
        panic!("{error}");
    };
    assert_eq!((slot, first_id, first_offset, second_id, second_offset), (4, 12, 0, 12, offset));
}

#[test]
fn overflow_without_a_file_is_reported() {
    let world = World::random(1, 30, 3000);
    let config = AccountsConfig { memory_bytes_max: 16 << 10, ..config(2) };
    let error = world.check(config, 10_000, &mut NoLook).unwrap_err();
    assert!(matches!(error, AccountsError::NoSpillFile { memory_bytes_max: 16_384 }), "{error}");
    assert!(!error.is_bad_archive());
}

#[test]
fn a_file_that_cannot_be_written_is_reported() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let read_only = File::open(path.path()).unwrap();
    let world = World::random(1, 30, 3000);
    let config = AccountsConfig { memory_bytes_max: 16 << 10, spill: Some(read_only), ..config(2) };
    let error = world.check(config, 10_000, &mut NoLook).unwrap_err();
    assert!(matches!(error, AccountsError::Spill { doing: "write", .. }), "{error}");
}

#[test]
fn one_account_in_more_versions_than_can_be_sorted_is_reported() {
    let mut random = Random::new(0);
    let many = (0..2000).map(|slot| (slot, vec![account(&mut random, 1)])).collect();
    let world = World::new([many, BTreeMap::new()]);
    let config = AccountsConfig {
        memory_bytes_max: 16 << 10,
        spill: Some(tempfile::tempfile().unwrap()),
        ..config(2)
    };
    let error = world.check(config, 10_000, &mut NoLook).unwrap_err();
    let expected = "2000 entries must be sorted at once, but memory holds only 1024";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn no_more_bytes_wait_than_may() {
    /// Bytes that are alive, and their maximum so far.
    #[derive(Debug, Default)]
    struct Alive(AtomicUsize, AtomicUsize);
    #[derive(Debug)]
    struct Counted(Vec<u8>, Arc<Alive>);
    impl Counted {
        fn new(bytes: &[u8], alive: &Arc<Alive>) -> Self {
            let now = alive.0.fetch_add(bytes.len(), Ordering::SeqCst) + bytes.len();
            alive.1.fetch_max(now, Ordering::SeqCst);
            Self(bytes.to_vec(), Arc::clone(alive))
        }
    }
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.0.fetch_sub(self.0.len(), Ordering::SeqCst);
        }
    }

    let world = World::random(11, 30, 2000);
    let config = AccountsConfig {
        queue_bytes_max: 64 << 10,
        spill: Some(tempfile::tempfile().unwrap()),
        ..config(2)
    };
    let check = AccountsCheck::new(config).unwrap();
    let (mut stream, alive) = (check.stream(), Arc::new(Alive::default()));
    let mut shown = 0;
    for (slot, id, bytes) in world.storages(0) {
        stream.begin(slot, id, bytes.len() as u64).unwrap();
        for piece in bytes.chunks(5000) {
            stream.piece(Counted::new(piece, &alive)).unwrap();
        }
        stream.end().unwrap();
        shown += bytes.len();
    }
    check.finish(&mut stream_look(&world, 1000)).unwrap();
    let most = alive.1.load(Ordering::SeqCst);
    // The piece that waits for room is alive too.
    assert!(most <= (64 << 10) + 5000 && shown > 10 * most, "{most} of {shown} bytes at a time");
    assert_eq!(alive.0.load(Ordering::SeqCst), 0);
}

#[test]
fn a_bad_storage_ends_the_check_of_all_streams() {
    // A file holds the good stream's entries until a worker reaches the bad storage, however long
    // the machine delays it.
    let config = AccountsConfig { spill: Some(tempfile::tempfile().unwrap()), ..config(2) };
    let check = AccountsCheck::new(config).unwrap();
    let (mut bad, mut good) = (check.stream(), check.stream());
    bad.begin(3, 4, 200).unwrap();
    bad.piece(vec![1; 200]).unwrap();
    bad.end().unwrap();
    // The other stream continues until it receives the error.
    let error = loop {
        let storage = storage(&[account(&mut Random::new(1), 1)]);
        let result = good
            .begin(5, 6, storage.len() as u64)
            .and_then(|()| good.piece(storage))
            .and_then(|()| good.end());
        if let Err(error) = result {
            break error;
        }
    };
    let AccountsError::Storage(error) = error else { panic!("{error}") };
    assert_eq!((error.slot, error.id), (3, 4));
    assert!(matches!(error.problem, StorageProblem::DataTooLong { offset: 0, .. }));
    assert!(matches!(check.finish(&mut NoLook), Err(AccountsError::Storage(_))));
}

#[test]
fn a_storage_that_does_not_end_is_reported() {
    let check = AccountsCheck::new(config(1)).unwrap();
    let mut stream = check.stream();
    stream.begin(3, 4, 200).unwrap();
    stream.piece(vec![0; 100]).unwrap();
    let error = check.finish(&mut NoLook).unwrap_err();
    assert!(matches!(error, AccountsError::Unfinished { storages: 1 }), "{error}");
}

#[test]
fn a_storage_that_ends_early_is_reported() {
    let check = AccountsCheck::new(config(1)).unwrap();
    let mut stream = check.stream();
    stream.begin(3, 4, 200).unwrap();
    stream.piece(vec![0; 100]).unwrap();
    stream.end().unwrap();
    let error = check.finish(&mut NoLook).unwrap_err();
    assert_eq!(error.to_string(), "accounts/3.4: 200 bytes were announced, but 100 arrived");
}

#[test]
fn streams_of_a_dropped_check_return_an_error() {
    let check = AccountsCheck::new(config(2)).unwrap();
    let mut stream = check.stream();
    stream.begin(3, 4, 200).unwrap();
    drop(check);
    assert!(matches!(stream.piece(vec![0; 100]), Err(AccountsError::Stopped)));
}

#[test]
fn records_changed_before_the_second_look_are_reported() {
    let mut random = Random::new(0);
    let versions = [1, 2].map(|slot| (slot, vec![account(&mut random, 1)]));
    let world = World::new([BTreeMap::from(versions), BTreeMap::new()]);
    // Another key, data beyond the end, and no file at all.
    for (at, patch) in [(16, [9; 8]), (8, [0xff; 8])] {
        let mut look = FileLook::new(|storage: &StorageId| {
            let file = tempfile::tempfile()?;
            let (.., bytes) =
                world.storages(0).into_iter().find(|(slot, ..)| *slot == storage.slot).unwrap();
            file.write_all_at(&bytes, 0)?;
            file.write_all_at(&patch, at)?;
            Ok(file)
        });
        let error = world.check(config(1), 1000, &mut look).unwrap_err();
        assert!(error.to_string().contains("has changed at offset 0 since"), "{error}");
    }
    let mut look = FileLook::new(|_: &StorageId| Err(io::ErrorKind::NotFound.into()));
    let error = world.check(config(1), 1000, &mut look).unwrap_err();
    assert!(error.to_string().contains("could not be read again at offset 0"), "{error}");
    assert!(!error.is_bad_archive());
    // A pass that omits records.
    let mut look = StreamLook::new(|_: &mut Picker<'_, '_>| Ok(()));
    let error = world.check(config(1), 1000, &mut look).unwrap_err();
    assert!(error.to_string().contains("has changed"), "{error}");
}

#[test]
fn lamports_beyond_64_bits_are_an_error_and_only_if_they_count() {
    let mut random = Random::new(0);
    let mut rich = |key| {
        let (mut header, data) = account(&mut random, key);
        header.lamports = u64::MAX;
        (header, data)
    };
    let [first, again, second] = [rich(1), rich(1), rich(2)];
    let world =
        World::new([BTreeMap::from([(1, vec![first.clone()]), (2, vec![again])]), BTreeMap::new()]);
    let summary = world.check(config(1), 1000, &mut file_look(&world)).unwrap();
    assert_eq!(summary.capitalization, u64::MAX);
    let world = World::new([BTreeMap::from([(1, vec![first, second])]), BTreeMap::new()]);
    let error = world.check(config(1), 1000, &mut NoLook).unwrap_err();
    let found = u128::from(u64::MAX) * 2;
    assert!(matches!(error, AccountsError::TooManyLamports { found: told } if told == found));
}

#[test]
fn a_comparison_tells_both_sides() {
    let world = World::random(3, 3, 20);
    let summary = world.check(config(1), 1000, &mut file_look(&world)).unwrap();
    let error = summary.expect_checksum(&[0; 32]).unwrap_err();
    let expected = format!(
        "the accounts hash to {}, expected 11111111111111111111111111111111",
        bs58::encode(summary.hash.checksum()).into_string()
    );
    assert_eq!(error.to_string(), expected);
    let error = summary.expect_capitalization(summary.capitalization + 1).unwrap_err();
    assert!(matches!(error, AccountsError::WrongCapitalization { .. }));
    summary.expect_hash(&summary.hash).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_world_is_summed_up_as_anyone_would(
        seed: u64,
        slots in 1_u64..12,
        keys in 1_u64..80,
        piece_bytes in 1_usize..20_000,
        look_bytes in 1_usize..5000,
        workers in 1_usize..4,
        bits in prop_oneof![Just(64_u32), 1_u32..10],
    ) {
        let world = World { fingerprint_bits: bits, ..World::random(seed, slots, keys) };
        let config = AccountsConfig {
            memory_bytes_max: 16 << 10,
            spill: Some(tempfile::tempfile().unwrap()),
            ..config(workers)
        };
        let summary =
            world.check(config, piece_bytes, &mut stream_look(&world, look_bytes)).unwrap();
        world.assert_agrees(&summary);
    }

    #[test]
    fn hostile_bytes_end_in_an_answer(
        bytes in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 1..2000),
        good in 0_u64..5,
        piece_bytes in 1_usize..2000,
    ) {
        let mut random = Random::new(good);
        let accounts: Vec<_> = (0..good).map(|key| account(&mut random, key)).collect();
        let mut storage = storage(&accounts);
        storage.resize(storage.len().next_multiple_of(8), 0);
        storage.extend(bytes);
        let check = AccountsCheck::new(config(2)).unwrap();
        let mut stream = check.stream();
        let mut show = || {
            stream.begin(1, 1, storage.len() as u64)?;
            for piece in storage.chunks(piece_bytes) {
                stream.piece(piece.to_vec())?;
            }
            stream.end()
        };
        let _ = show();
        let _ = check.finish(&mut NoLook);
    }
}
