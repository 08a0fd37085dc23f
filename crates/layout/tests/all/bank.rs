//! Genuine and generated bank files in pieces: their fields, and refusals.

use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use unsnap_layout::{
    ArchiveHash, ArchiveName, BankError, BankFacts, BankReader, HARD_FORKS_MAX, HardFork,
};
use unsnap_testkit::archive::expected_files;
use unsnap_testkit::random::Random;
use unsnap_testkit::spec::ArchiveSpec;
use unsnap_testkit::tree::{files, reference_entries_of_file};

/// An archive written by Agave 4.2.2, with the facts of its bank.
struct Genuine {
    path: &'static str,
    /// The full archive that an incremental one is based on.
    base: Option<&'static str>,
    parent_slot: u64,
}

/// Every archive in `tests/data`.
const GENUINE: [Genuine; 4] = [
    Genuine {
        path: "agave-tiny/snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst",
        base: None,
        parent_slot: 38,
    },
    Genuine {
        path: "agave-tiny/incremental-snapshot-39-47-FgdisjK9WWpr26styZuQubshv1Du6YnWze9a6UPdY24Q.tar.zst",
        base: Some("agave-tiny/snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst"),
        parent_slot: 46,
    },
    Genuine {
        path: "agave-tiny-lz4/snapshot-11-5Mj3ns2bt9KNEoPpiRtmYfNSKWp3eKLuGkuRjktG6zhH.tar.lz4",
        base: None,
        parent_slot: 10,
    },
    Genuine {
        path: "agave-tiny-lz4/incremental-snapshot-11-14-5ZTTtfzY3zxrMzs24ujdsdgDdeV7vpQsodZW29Fv8C93.tar.lz4",
        base: Some(
            "agave-tiny-lz4/snapshot-11-5Mj3ns2bt9KNEoPpiRtmYfNSKWp3eKLuGkuRjktG6zhH.tar.lz4",
        ),
        parent_slot: 13,
    },
];

fn content(path: &str) -> BTreeMap<String, Vec<u8>> {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data"));
    files(reference_entries_of_file(&data.join(path)).expect("an archive"))
}

fn name(path: &str) -> ArchiveName {
    let file_name = path.split('/').next_back().expect("a split has a part");
    ArchiveName::parse(file_name).expect("a name of an archive")
}

fn bank_file(path: &str) -> Vec<u8> {
    let slot = name(path).slot();
    content(path).remove(&format!("snapshots/{slot}/{slot}")).expect("a bank file")
}

/// Returns the bank file of a generated archive, which is smaller than a genuine one.
fn made() -> (ArchiveName, Vec<u8>) {
    let spec = ArchiveSpec { total_bytes: 100_000, slot: 1_000_000, ..ArchiveSpec::default() };
    let path = "snapshots/1000000/1000000";
    let mut entries = expected_files(&spec).expect("an archive");
    let (_, file) = entries.find(|(entry, _)| entry == path).expect("a bank file");
    (ArchiveName::parse(&spec.name()).expect("a genuine name"), file)
}

fn read<'a>(
    file_bytes: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<BankFacts, BankError> {
    let mut reader = BankReader::new(file_bytes as u64);
    for piece in pieces {
        reader.push(piece)?;
    }
    reader.finish()
}

fn read_whole(file: &[u8]) -> Result<BankFacts, BankError> {
    read(file.len(), [file])
}

/// Returns the total lamports of all accounts, each from the newest storage that holds it. Written
/// independently, from the description of the format.
fn capitalization(archives: &[&str]) -> u64 {
    let mut newest: HashMap<Vec<u8>, (u64, u64)> = HashMap::new();
    for path in archives {
        for (entry, bytes) in content(path) {
            let Some(storage) = entry.strip_prefix("accounts/") else { continue };
            let (slot, _) = storage.split_once('.').expect("slot and id");
            let slot: u64 = slot.parse().expect("a slot");
            let mut record = &bytes[..];
            while record.len() >= 136 {
                let number = |at: usize| {
                    let bytes = record[at..].first_chunk().expect("136 bytes");
                    u64::from_le_bytes(*bytes)
                };
                let lamports = number(48);
                let known = newest.entry(record[16..48].to_vec()).or_insert((slot, lamports));
                if known.0 <= slot {
                    *known = (slot, lamports);
                }
                let data_bytes = usize::try_from(number(8)).expect("64 bits");
                record = record.get((136 + data_bytes).next_multiple_of(8)..).unwrap_or_default();
            }
        }
    }
    newest.values().map(|(_, lamports)| lamports).sum()
}

#[test]
fn genuine_bank_files_are_proven() {
    for Genuine { path, base, parent_slot } in GENUINE {
        let (name, file) = (name(path), bank_file(path));
        let facts = read_whole(&file).expect(path);
        assert_eq!((facts.slot, facts.parent_slot), (name.slot(), parent_slot), "{path}");
        let archives: Vec<_> = base.into_iter().chain([path]).collect();
        assert_eq!(facts.capitalization, capitalization(&archives), "{path}");
        assert!(facts.block_height <= facts.slot && facts.block_height > 0, "{facts:?}");
        assert_ne!(facts.hash, facts.parent_hash);

        let proof = facts.prove(&name).expect(path);
        let hash = ArchiveHash::new(*blake3::hash(&proof.lattice_hash[..]).as_bytes());
        assert_eq!(hash, name.hash(), "{path}");
        let (before_id, id) = file.split_at(file.len() - 32);
        assert_eq!(before_id[before_id.len() - 1], 1);
        assert_eq!(proof.block_id.as_ref().map(|id| &id[..]), Some(id));
    }
}

/// The first epochs of the genuine banks have 32, 64, ... slots.
#[test]
fn epochs_of_genuine_bank_files() {
    for (Genuine { path, .. }, epoch) in GENUINE.iter().zip([1, 1, 0, 0]) {
        let facts = read_whole(&bank_file(path)).expect(path);
        let schedule = facts.epoch_schedule;
        assert!(schedule.warmup && schedule.slots_per_epoch == 432_000, "{schedule:?}");
        assert_eq!((schedule.first_normal_epoch, schedule.first_normal_slot), (14, 524_256));
        assert_eq!(facts.epoch(), epoch, "{path}");
    }
}

#[test]
fn generated_bank_files_return_their_fields() {
    let (name, file) = made();
    let facts = read_whole(&file).unwrap();
    assert_eq!(
        (facts.slot, facts.parent_slot, facts.block_height),
        (1_000_000, 999_999, 1_000_000)
    );
    assert_eq!(facts.capitalization, 600_000_000_000_000_000);
    assert_eq!(facts.transaction_count, 1_500_000_000);
    assert_eq!(facts.epoch(), 2);
    facts.prove(&name).unwrap();
}

/// Returns the generated bank file with these hard forks.
fn with_hard_forks(forks: &[HardFork]) -> Vec<u8> {
    let (_, mut file) = made();
    let at = 8 + 33 + 8 + 301 * 56 + 8 + 24 + 64 + 8;
    let mut bytes = (forks.len() as u64).to_le_bytes().to_vec();
    for fork in forks {
        bytes.extend([fork.slot.to_le_bytes(), fork.count.to_le_bytes()].concat());
    }
    file.splice(at..at + 8, bytes);
    file
}

#[test]
fn hard_forks_are_read_unless_they_are_too_many() {
    let (name, without) = made();
    assert_eq!(read_whole(&without).unwrap().hard_forks, Some(Vec::new()));
    for count in [1, 2, 7, HARD_FORKS_MAX] {
        let forks: Vec<_> = (0..count).map(|n| HardFork { slot: n * 1000, count: n + 1 }).collect();
        let file = with_hard_forks(&forks);
        let facts = read_whole(&file).unwrap();
        assert_eq!(facts.hard_forks.as_deref(), Some(&*forks), "{count}");
        assert_eq!(facts.slot, 1_000_000);
        facts.prove(&name).unwrap();
        assert_eq!(read(file.len(), file.chunks(1)).unwrap(), facts, "{count}");
        // They are known long before the end.
        let mut reader = BankReader::new(file.len() as u64);
        assert_eq!(reader.hard_forks(), None);
        let last = 8 + 33 + 8 + 301 * 56 + 8 + 24 + 64 + 8 + 8 + forks.len() * 16 - 1;
        reader.push(&file[..last]).unwrap();
        assert_eq!(reader.hard_forks(), None, "{count}");
        reader.push(&file[last..=last]).unwrap();
        assert_eq!(reader.hard_forks(), Some(&*forks), "{count}");
    }
    let many = vec![HardFork { slot: 1, count: 1 }; usize::try_from(HARD_FORKS_MAX).unwrap() + 1];
    let facts = read_whole(&with_hard_forks(&many)).unwrap();
    assert_eq!((facts.hard_forks, facts.slot), (None, 1_000_000));
}

#[test]
fn pieces_do_not_matter() {
    for path in GENUINE.map(|genuine| genuine.path) {
        let file = bank_file(path);
        let whole = read_whole(&file).unwrap();
        assert_eq!(read(file.len(), file.chunks(1)).unwrap(), whole, "{path}, bytes");
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut rest = &file[..];
            let mut reader = BankReader::new(file.len() as u64);
            while !rest.is_empty() {
                let length = usize::try_from(random.log_uniform(16)).unwrap().min(rest.len());
                let (piece, after) = rest.split_at(length);
                reader.push(piece).unwrap();
                rest = after;
            }
            assert_eq!(reader.finish().unwrap(), whole, "{path}, seed {seed}");
        }
    }
}

/// Truncated files, declared with their own length and with the length they should have.
#[test]
fn cut_files_prove_nothing() {
    let (name, file) = (name(GENUINE[0].path), bank_file(GENUINE[0].path));
    for end in 0..file.len() {
        let cut = &file[..end];
        let (offset, expected) = (end as u64, file.len() as u64);
        let truncated = BankError::Truncated { offset, expected };
        assert_eq!(read(file.len(), [cut]).unwrap_err(), truncated);
        if let Ok(facts) = read_whole(cut) {
            // Without the block id it would be a file of another release.
            assert!(facts.prove(&name).is_err() || end == file.len() - 33, "{end}");
        }
    }
}

#[test]
fn the_three_tails() {
    let (name, file) = made();
    let (without_id, id) = file.split_at(file.len() - 33);
    let prove = |file: &[u8]| read_whole(file).unwrap().prove(&name);
    let proof = prove(&file).unwrap();
    assert_eq!(proof.block_id.unwrap(), id[1..]);
    assert_eq!(proof.lattice_hash[..], without_id[without_id.len() - 2048..]);
    for file in [without_id.to_vec(), [without_id, &[0]].concat()] {
        let other = prove(&file).unwrap();
        assert_eq!((other.lattice_hash, other.block_id), (proof.lattice_hash.clone(), None));
    }
    // An invalid tag, only a tag, and no hash at all.
    let end = |file: &[u8]| file.len() as u64;
    for file in [
        [without_id, &[2]].concat(),
        [without_id, &[0, 0]].concat(),
        [without_id, &[0], &id[1..]].concat(),
        [&without_id[..without_id.len() - 2049], &[0]].concat(),
    ] {
        match prove(&file).unwrap_err() {
            BankError::NoLatticeHash { offset, expected } => {
                assert_eq!((offset, expected), (end(&file), name.hash()));
            }
            // Random bytes that happen to begin with a tag.
            BankError::WrongLatticeHash { found, .. } => assert_ne!(found, name.hash()),
            error => panic!("{error}"),
        }
    }
}

/// A head with nothing after it is a file without a lattice hash. The head's bytes are not mistaken
/// for one.
#[test]
fn a_tail_does_not_reach_into_the_head() {
    let (name, file) = made();
    let schedule = 33;
    let head = 8 + 33 + 8 + 301 * 56 + 8 + 24 + 64 + 8 + 8 + 40 + 9 + 120 + 33 + 8 + 66 + schedule;
    let facts = read_whole(&file[..head]).unwrap();
    let expected = name.hash();
    let offset = head as u64;
    assert_eq!(facts.prove(&name).unwrap_err(), BankError::NoLatticeHash { offset, expected });
    let expected = BankError::TooShort {
        offset: offset - 260,
        field: "slot, fees and epoch schedule",
        expected: offset,
        found: offset - 1,
    };
    assert_eq!(read_whole(&file[..head - 1]).unwrap_err(), expected);
    // With one byte less than a tail, the lattice hash would begin in the head.
    let mut short = file[..head].to_vec();
    short[head - 1] = 1;
    short.extend_from_slice(&[7; 2048]);
    let hash = ArchiveHash::new(*blake3::hash(&[7; 2048]).as_bytes());
    let compression = name.compression();
    let of_sevens = ArchiveName::Full { slot: 1_000_000, hash, compression };
    let refused = read_whole(&short).unwrap().prove(&of_sevens).unwrap_err();
    assert!(matches!(refused, BankError::NoLatticeHash { .. }), "{refused}");
    short.insert(head, 1);
    read_whole(&short).unwrap().prove(&of_sevens).unwrap();
}

#[test]
fn other_names_are_refused() {
    let (full, incremental) = (&GENUINE[0], &GENUINE[1]);
    let facts = read_whole(&bank_file(full.path)).unwrap();
    let (own, other) = (name(full.path), name(incremental.path));
    let error = facts.prove(&other).unwrap_err();
    assert!(
        matches!(error, BankError::WrongSlot { expected: 47, found: 39, offset } if offset > 0),
        "{error}"
    );
    let expected = other.hash();
    let wrong = ArchiveName::Full { slot: 39, hash: expected, compression: own.compression() };
    let error = facts.prove(&wrong).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&expected.to_string()) && text.contains(&own.hash().to_string()),
        "{text}"
    );
    assert!(
        matches!(error, BankError::WrongLatticeHash { found, .. } if found == own.hash()),
        "{error}"
    );

    facts.check_base_of(&other).unwrap();
    let error = facts.check_base_of(&own).unwrap_err();
    assert!(matches!(error, BankError::WrongBase { expected: None, found: 39, .. }), "{error}");
    let foreign = name(GENUINE[3].path);
    let error = facts.check_base_of(&foreign).unwrap_err();
    assert!(matches!(error, BankError::WrongBase { expected: Some(11), .. }), "{error}");
}

#[test]
fn hostile_fields() {
    let (_, file) = made();
    let patched = |offset: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
        read_whole(&file).unwrap_err()
    };
    let file_bytes = file.len() as u64;
    let blockhashes = 8 + 33;
    let ancestors = blockhashes + 8 + 301 * 56 + 8;
    let hard_forks = ancestors + 24 + 64 + 8;
    let hashes_per_tick = hard_forks + 8 + 40;
    let schedule = hashes_per_tick + 9 + 120 + 33 + 8 + 66;
    for (at, size, field, after) in [
        (blockhashes, 56, "blockhashes", 8),
        (ancestors, 16, "ancestors", 8),
        (hard_forks, 16, "hard forks", 8),
    ] {
        let offset = at as u64;
        let limit = (file_bytes - offset - after) / size;
        for found in [limit + 1, u64::MAX / size + 1, 1 << 63, u64::MAX] {
            let expected = BankError::TooMany { offset, field, found, limit };
            assert_eq!(patched(at, &found.to_le_bytes()), expected);
        }
        // Exactly as many elements as fit: the next fields are missing or invalid.
        let error = patched(at, &limit.to_le_bytes());
        let accepted =
            !matches!(error, BankError::TooMany { field: refused, .. } if refused == field);
        assert!(accepted, "{error}");
    }
    for (at, field) in [
        (8, "the last blockhash"),
        (hashes_per_tick, "the hashes per tick"),
        (schedule + 16, "the warm-up of epochs"),
    ] {
        let offset = at as u64;
        let expected = BankError::BadTag { offset, field, found: 2 };
        assert_eq!(patched(at, &[2]), expected);
    }
    let offset = schedule as u64;
    assert_eq!(patched(schedule, &[0; 8]), BankError::NoSlotsInEpoch { offset });
}

#[test]
fn more_than_the_file_has_is_refused() {
    let (_, file) = made();
    let mut reader = BankReader::new(file.len() as u64);
    reader.push(&file).unwrap();
    reader.push(&[]).unwrap();
    let offset = file.len() as u64;
    assert_eq!(reader.push(&[0]).unwrap_err(), BankError::TooLong { offset });
    let mut empty = BankReader::new(0);
    assert_eq!(empty.push(&[0]).unwrap_err(), BankError::TooLong { offset: 0 });
    let error = BankReader::new(0).finish().unwrap_err();
    let expected = BankError::TooShort { offset: 0, field: "blockhashes", expected: 9, found: 0 };
    assert_eq!(error, expected);
}

/// A file of the largest declared length costs nothing: no length causes an allocation.
#[test]
fn huge_declared_lengths() {
    let mut reader = BankReader::new(u64::MAX);
    let mut head = [0; 17];
    head[9..].copy_from_slice(&(u64::MAX / 56 - 1).to_le_bytes());
    reader.push(&head).unwrap();
    for _ in 0..100 {
        reader.push(&[0xFF; 4096]).unwrap();
    }
    let error = reader.finish().unwrap_err();
    let expected = BankError::Truncated { offset: 17 + 409_600, expected: u64::MAX };
    assert_eq!(error, expected);
}

/// A changed byte in the lattice hash gives another hash. Other bytes are not proven, but changing
/// them breaks nothing either.
#[test]
fn flipped_bytes() {
    let (name, file) = (name(GENUINE[3].path), bank_file(GENUINE[3].path));
    let lattice_hash = file.len() - 33 - 2048..file.len() - 33;
    let honest = read_whole(&file).unwrap();
    for at in 0..file.len() {
        let mut flipped = file.clone();
        flipped[at] ^= 0x55;
        let proven = read_whole(&flipped).and_then(|facts| Ok((facts.prove(&name)?, facts)));
        if lattice_hash.contains(&at) {
            let error = proven.unwrap_err();
            assert!(matches!(error, BankError::WrongLatticeHash { .. }), "{at}: {error}");
        } else if let Ok((proof, facts)) = proven {
            assert_eq!(facts.slot, honest.slot, "{at}");
            assert_eq!(proof.lattice_hash[..], file[lattice_hash.clone()], "{at}");
        }
    }
}

proptest! {
    /// Arbitrary bytes give the same result in arbitrary pieces.
    #[test]
    fn arbitrary_bytes(
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..6000),
        piece in 1usize..500,
        declared in prop_oneof![Just(None), (0usize..7000).prop_map(Some)],
    ) {
        let genuine = name(GENUINE[0].path);
        let declared = declared.unwrap_or(bytes.len());
        let whole = read(declared, [&bytes[..]]);
        let in_pieces = read(declared, bytes.chunks(piece));
        match (whole, in_pieces) {
            (Ok(whole), Ok(in_pieces)) => {
                prop_assert_eq!(&whole, &in_pieces);
                prop_assert!(whole.prove(&genuine).is_err());
            }
            (Err(whole), Err(in_pieces)) => {
                // Only the order of the errors can differ, because the length is checked first.
                let too_long = matches!(whole, BankError::TooLong { .. });
                prop_assert!(too_long || whole == in_pieces, "{} / {}", whole, in_pieces);
            }
            (whole, in_pieces) => prop_assert!(false, "{:?} / {:?}", whole, in_pieces),
        }
    }

    /// The head of a genuine file, overwritten in one place.
    #[test]
    fn overwritten_heads(
        at in 0usize..20_000,
        bytes in proptest::collection::vec(any::<u8>(), 1..16),
        piece in 1usize..3000,
    ) {
        let (name, mut file) = made();
        let end = (at + bytes.len()).min(file.len());
        file[at..end].copy_from_slice(&bytes[..end - at]);
        let whole = read_whole(&file);
        prop_assert_eq!(&read(file.len(), file.chunks(piece)), &whole);
        if let Ok(facts) = whole {
            // Only the slot and the lattice hash are proven.
            prop_assert!(facts.slot != name.slot() || facts.prove(&name).is_ok() || end > 20_000);
        }
    }
}
