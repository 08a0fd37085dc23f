use super::*;
use proptest::prelude::*;
use solana_lattice_hash::lt_hash::LtHash;
use unsnap_layout::append_vec::RecordHeader;

fn account(seed: u64, data_len: usize) -> (RecordHeader, Vec<u8>) {
    let mut bytes = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let (mut pubkey, mut owner, mut data) = ([0; 32], [0; 32], vec![0; data_len]);
    bytes.fill(&mut pubkey);
    bytes.fill(&mut owner);
    bytes.fill(&mut data);
    let header = RecordHeader {
        data_len: data_len as u64,
        pubkey,
        lamports: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        rent_epoch: seed,
        owner,
        executable: u8::from(seed.is_multiple_of(5)),
    };
    (header, data)
}

/// Computes the hash as `lt_hash_account` of `solana-accounts-db` does.
fn reference(header: &RecordHeader, data: &[u8]) -> LtHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header.lamports.to_le_bytes());
    hasher.update(data);
    hasher.update(&[header.executable]);
    hasher.update(&header.owner);
    hasher.update(&header.pubkey);
    LtHash::with(&hasher)
}

fn assert_equal_to_reference(lengths: impl IntoIterator<Item = usize>) {
    let accounts: Vec<_> =
        (0..).zip(lengths).map(|(seed, data_len)| account(seed, data_len)).collect();
    let mut expected = LtHash::identity();
    for (header, data) in &accounts {
        expected.mix_in(&reference(header, data));
    }
    for vectors in Vectors::available() {
        let mut hasher = LatticeHasher::with(vectors);
        for (header, data) in &accounts {
            hasher.add(header, data);
        }
        let found = hasher.take();
        assert!(found.0 == expected.0, "{vectors:?}, {} accounts", accounts.len());
        assert_eq!(hasher.take(), LatticeHash::ZERO);
        assert_eq!(found.checksum(), expected.checksum().0);
    }
}

#[test]
fn every_length_around_blocks_and_chunks_is_hashed_as_the_reference_does() {
    for length in (0..1200)
        .chain([2047, 2048, 3000, 4096, 10_000, 100_001, 130_998, 130_999, 131_000, 300_000])
    {
        assert_equal_to_reference([length]);
    }
}

#[test]
fn lanes_that_are_full_or_not_give_the_same_sum() {
    for count in 0..40 {
        assert_equal_to_reference(std::iter::repeat_n(165, count));
    }
}

#[test]
fn an_account_without_lamports_adds_nothing() {
    let (mut header, data) = account(1, 100);
    header.lamports = 0;
    let mut hasher = LatticeHasher::new();
    hasher.add(&header, &data);
    assert_eq!(hasher.take(), LatticeHash::ZERO);
}

#[test]
fn added_accounts_can_be_subtracted_and_hashes_survive_a_round_trip() {
    let hash_of = |seed| {
        let mut hasher = LatticeHasher::new();
        let (header, data) = account(seed, 300);
        hasher.add(&header, &data);
        hasher.take()
    };
    let (one, two) = (hash_of(1), hash_of(2));
    let mut sum = one.clone();
    sum.add(&two);
    assert_ne!(sum, one);
    sum.subtract(&two);
    assert_eq!(sum, one);
    assert_eq!(LatticeHash::from_bytes(&one.to_bytes()), one);
}

#[test]
fn an_account_in_parts_has_the_same_hash() {
    let (header, data) = account(3, 5000);
    let mut account = AccountInParts::begin(&header);
    for part in data.chunks(700) {
        account.part(part);
    }
    assert_eq!(account.end(&header).0, reference(&header, &data).0);
}

#[test]
fn the_widest_vectors_come_first_and_none_last() {
    let names: Vec<_> = Vectors::available().iter().map(|vectors| format!("{vectors:?}")).collect();
    assert_eq!(names.first().unwrap(), &format!("{:?}", Vectors::detect()));
    assert_eq!(names.last().unwrap(), "none");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn any_mixture_of_lengths_is_hashed_as_the_reference_does(
        lengths in prop::collection::vec(
            prop_oneof![4 => 0_usize..1000, 1 => 900_usize..1100, 1 => 1000_usize..20_000],
            0..100,
        ),
    ) {
        assert_equal_to_reference(lengths);
    }
}
