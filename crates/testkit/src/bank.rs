//! Bank files, status caches and the hash in an archive's name.
//!
//! The bank file has every field of a genuine one in its place, with the right lengths, so that a
//! parser can walk it from end to end. **Its contents are invented**: the stakes belong to nobody.
//! Unless a specification [asks for them](crate::spec::LatticeHash), the capitalization is not the
//! total of the accounts, and the lattice hash is *not* that of the accounts in the archive but
//! random bytes. The file is consistent in everything an unpacker can check without reading
//! accounts: the slot, the storages with their lengths, and the name of the archive, whose hash is
//! the BLAKE3 hash of the lattice hash at the end of the bank file.

use crate::random::Random;

/// Time of the genesis in all bank files, in seconds since 1970: that of mainnet, 16 March 2020.
pub const GENESIS_S: u64 = 1_584_368_940;

/// Length of an accounts lattice hash in bytes.
pub const LATTICE_HASH_BYTES: usize = 2048;

/// The capitalization used if the accounts are not added up: about 600 million SOL in lamports.
pub const CAPITALIZATION: u64 = 600_000_000_000_000_000;

/// Specification of a bank file.
#[derive(Clone, Copy, Debug)]
pub struct BankSpec<'a> {
    /// Slot of the bank.
    pub slot: u64,
    /// The accounts lattice hash.
    pub lattice_hash: &'a [u8; LATTICE_HASH_BYTES],
    /// Total lamports of all accounts.
    pub capitalization: u64,
    /// Slot, id and length of every storage, as releases before 4.4 recorded them.
    pub storages: &'a [(u64, u32, u64)],
    /// Number of vote accounts, about 3.8 KB each; there are ten times as many delegations.
    pub vote_accounts: u64,
    /// Seed of all keys and hashes.
    pub seed: u64,
}

/// Returns a lattice hash: random bytes that depend only on the seed.
pub fn lattice_hash(seed: u64) -> [u8; LATTICE_HASH_BYTES] {
    Random::of(&[seed, STREAM_LATTICE_HASH]).bytes()
}

/// Returns the hash in an archive's name: base58 of the BLAKE3 hash of the lattice hash.
pub fn name_hash(lattice_hash: &[u8; LATTICE_HASH_BYTES]) -> String {
    bs58::encode(blake3::hash(lattice_hash).as_bytes()).into_string()
}

/// Returns the bank file `snapshots/<slot>/<slot>`: bincode with fixed-width little-endian
/// integers, in the layout of Agave 4.1 to 4.3 (block id present, storages listed).
pub fn bank_file(spec: &BankSpec) -> Vec<u8> {
    let mut file = Fields::new(Random::of(&[spec.seed, STREAM_BANK]));
    blockhash_queue(&mut file);
    chain(&mut file, spec.slot, spec.capitalization);
    economics(&mut file);
    stakes(&mut file, spec);
    file.u64s(&[0, 0, 0, 0]).u8(0); // unused: three empty lists and epoch stakes; is_delta
    storages(&mut file, spec);
    extras(&mut file, spec.lattice_hash);
    file.bytes
}

/// Returns the file `snapshots/status_cache`: the last 300 rooted slots up to `slot`, each with one
/// blockhash and `transactions` successful transactions.
pub fn status_cache(slot: u64, transactions: u64, seed: u64) -> Vec<u8> {
    let mut file = Fields::new(Random::of(&[seed, STREAM_STATUS_CACHE]));
    let first = slot.saturating_sub(STATUS_CACHE_SLOTS - 1);
    file.u64(slot - first + 1);
    for root in first..=slot {
        file.u64(root).u8(1).u64(1).random(32).u64(0).u64(transactions);
        for _ in 0..transactions {
            file.random(20).u32(0);
        }
    }
    file.bytes
}

fn blockhash_queue(file: &mut Fields) {
    file.u64(BLOCKHASHES - 1).u8(1).random(32).u64(BLOCKHASHES);
    for index in 0..BLOCKHASHES {
        file.random(32).u64s(&[5000, index, GENESIS_MS + index * 400]);
    }
    file.u64(BLOCKHASHES - 1);
}

fn chain(file: &mut Fields, slot: u64, capitalization: u64) {
    file.u64s(&[1, slot, 0]); // ancestors: this slot
    file.random(32).random(32).u64(slot.saturating_sub(1)).u64(0); // hash, parent, no hard forks
    let transactions = slot.wrapping_mul(1500);
    file.u64s(&[transactions, slot.wrapping_mul(64), transactions * 2, capitalization]);
    file.u64(slot.wrapping_add(1).wrapping_mul(64)); // max tick height
    file.u8(1).u64(12_500).u64(64); // hashes per tick, ticks per slot
    file.u64s(&[400_000_000, 0]); // nanoseconds per slot, a u128
    file.u64(GENESIS_S).f64(78_892_314.984); // genesis time, slots per year
    file.u64(0).u64(slot).u64(0).u64(slot); // accounts data length, slot, unused, block height
    file.random(32).u64s(&[0, 0]); // leader, unused
}

fn economics(file: &mut Fields) {
    file.u64s(&[10_000, 20_000, 0, 100_000]).u8(50).u64(0); // fee governor, unused
    file.u64(0); // rent collector: epoch, then its epoch schedule
    epoch_schedule(file);
    file.f64(78_892_314.984).u64(3480).f64(2.0).u8(50); // slots per year; rent
    epoch_schedule(file);
    for rate in [0.08, 0.015, 0.15, 0.05, 7.0, 0.0] {
        file.f64(rate); // inflation
    }
}

fn epoch_schedule(file: &mut Fields) {
    file.u64s(&[SLOTS_PER_EPOCH, SLOTS_PER_EPOCH]).u8(0).u64s(&[0, 0]);
}

fn stakes(file: &mut Fields, spec: &BankSpec) {
    let epoch = spec.slot / SLOTS_PER_EPOCH;
    file.u64(spec.vote_accounts);
    for vote_account in 0..spec.vote_accounts {
        file.random(32).u64s(&[1_000_000_000 * (vote_account + 1), 27_074_400, VOTE_STATE_BYTES]);
        // A vote state: mostly lockouts of consecutive slots and credits of past epochs.
        let end = file.bytes.len() + crate::length(VOTE_STATE_BYTES);
        file.u32(2).random(64).u8(5).u64(31);
        for confirmations in (1..=31).rev() {
            file.u8(0).u64(spec.slot.saturating_sub(confirmations.into())).u32(confirmations);
        }
        for past in 0..64 {
            file.u64s(&[epoch.saturating_sub(64 - past), past * 6_900_000, past * 6_800_000]);
        }
        file.bytes.resize(end, 0);
        file.random(32).u8(0).u64(u64::MAX); // owner, executable, rent epoch
    }
    let delegations = spec.vote_accounts * 10;
    file.u64(delegations);
    for delegation in 0..delegations {
        file.random(32).random(32);
        file.u64s(&[2_282_880 + delegation, epoch, u64::MAX]).f64(0.25);
    }
    file.u64s(&[0, epoch, 1, epoch, 1_000_000_000, 0, 0]); // unused, epoch, one entry of history
}

fn storages(file: &mut Fields, spec: &BankSpec) {
    file.u64(spec.storages.len() as u64);
    for &(slot, id, length) in spec.storages {
        file.u64s(&[slot, 1, id.into(), length]);
    }
    // A write version, the slot, 64 unused bytes, five statistics, two empty lists.
    file.u64s(&[0, spec.slot]).u64s(&[0; 8]).u64s(&[0; 5]).u64s(&[0, 0]);
}

fn extras(file: &mut Fields, lattice_hash: &[u8; LATTICE_HASH_BYTES]) {
    file.u64(5000).u8(0).u8(0); // lamports per signature; two absent options
    file.u64(0); // epoch stakes
    file.u8(1).raw(lattice_hash);
    file.u8(1).random(32); // block id
}

/// A byte string written field by field.
struct Fields {
    bytes: Vec<u8>,
    random: Random,
}

impl Fields {
    fn new(random: Random) -> Self {
        Self { bytes: Vec::new(), random }
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    fn u64s(&mut self, values: &[u64]) -> &mut Self {
        values.iter().fold(self, |fields, &value| fields.u64(value))
    }

    fn f64(&mut self, value: f64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    fn random(&mut self, length: usize) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.resize(start + length, 0);
        self.random.fill(&mut self.bytes[start..]);
        self
    }
}

const STREAM_LATTICE_HASH: u64 = u64::from_le_bytes(*b"lattice ");
const STREAM_BANK: u64 = u64::from_le_bytes(*b"bank    ");
const STREAM_STATUS_CACHE: u64 = u64::from_le_bytes(*b"statuses");

const BLOCKHASHES: u64 = 301;
const STATUS_CACHE_SLOTS: u64 = 300;
const SLOTS_PER_EPOCH: u64 = 432_000;
/// Length of a mainnet vote account's data in bytes.
const VOTE_STATE_BYTES: u64 = 3762;
/// The same in milliseconds.
const GENESIS_MS: u64 = GENESIS_S * 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn spec<'a>(
        hash: &'a [u8; LATTICE_HASH_BYTES],
        storages: &'a [(u64, u32, u64)],
    ) -> BankSpec<'a> {
        let capitalization = CAPITALIZATION;
        BankSpec {
            slot: 1000,
            lattice_hash: hash,
            capitalization,
            storages,
            vote_accounts: 3,
            seed: 9,
        }
    }

    #[test]
    fn the_tail_holds_the_lattice_hash_and_a_block_id() {
        let hash = lattice_hash(9);
        let file = bank_file(&spec(&hash, &[]));
        let (head, block_id) = file.split_at(file.len() - 33);
        assert_eq!(block_id[0], 1);
        assert_eq!(head[head.len() - 2048..], hash);
        assert_eq!(head[head.len() - 2049], 1);
    }

    /// The lengths of the format's fields, summed: a field too many or too few would shift the
    /// tail.
    #[test]
    fn every_field_has_its_length() {
        let hash = lattice_hash(9);
        let file = bank_file(&spec(&hash, &[(5, 1, 100), (6, 2, 200)]));
        let blockhashes = 8 + 33 + 8 + 301 * 56 + 8;
        let chain = (8 + 16) + 64 + 8 + 8 + 5 * 8 + 9 + 8 + 16 + 8 + 8 + 8 + 8 + 8 + 8 + 32 + 16;
        let economics = 33 + 8 + 66 + 33 + 48;
        let vote_accounts = 8 + 3 * (32 + 8 + 8 + 8 + 3762 + 32 + 1 + 8);
        let delegations = 8 + 30 * 96;
        let stakes = vote_accounts + delegations + 8 + 8 + 8 + 32;
        let unused = 4 * 8 + 1;
        let storages = 8 + 2 * 32 + 8 + 8 + 64 + 40 + 16;
        let extras = 8 + 1 + 1 + 8 + 2049 + 33;
        let total = blockhashes + chain + economics + stakes + unused + storages + extras;
        assert_eq!(file.len(), total);
        let slot_at = blockhashes + chain - 32 - 16 - 3 * 8;
        assert_eq!(file[slot_at..slot_at + 8], 1000u64.to_le_bytes());
    }

    #[test]
    fn names_depend_on_the_lattice_hash() {
        assert_ne!(name_hash(&lattice_hash(1)), name_hash(&lattice_hash(2)));
        let decoded = bs58::decode(name_hash(&lattice_hash(1))).into_vec().unwrap();
        assert_eq!(decoded.len(), 32);
    }

    #[test]
    fn status_caches_end_at_the_slot() {
        let file = status_cache(1000, 2, 0);
        assert_eq!(file[..8], 300u64.to_le_bytes());
        assert_eq!(file[8..16], 701u64.to_le_bytes());
        assert_eq!(file.len(), 8 + 300 * (8 + 1 + 8 + 32 + 8 + 8 + 2 * 24));
        assert_eq!(status_cache(0, 0, 0)[..8], 1u64.to_le_bytes());
    }
}
