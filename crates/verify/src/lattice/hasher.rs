//! Hashing of accounts into their lattice sum.

use std::fmt;

use blake3::hazmat::{HasherExt as _, left_subtree_len};
use fearless_simd::{Level, dispatch};
use unsnap_layout::append_vec::RecordHeader;

use super::{
    LatticeHash,
    lanes::{BLOCK_BYTES, LANES_MAX, LaneSums, Root, add_output, hash_inputs},
};

/// Bytes of an account's input before its data: lamports.
const FRONT_BYTES: usize = 8;

/// Bytes of an account's input after its data: executable, owner, public key.
const BACK_BYTES: usize = 1 + 32 + 32;

/// Inputs of up to one BLAKE3 chunk are hashed in lanes. Longer ones form a tree.
const CHUNK_BYTES: usize = 1024;

/// Inputs of up to this length are first assembled in one buffer. For longer ones the copy would
/// cost more than it saves, and the output is a negligible part of the work. A guess: a quarter of
/// a second-level cache.
const LONG_BYTES_MAX: usize = 128 << 10;

/// Input blocks of the longest input that is hashed in lanes.
const BLOCKS_MAX: usize = CHUNK_BYTES / BLOCK_BYTES;

/// Vector instructions used to hash accounts.
#[derive(Clone, Copy)]
pub struct Vectors(Option<Level>);

impl Vectors {
    /// Returns the widest vectors of this machine.
    pub fn detect() -> Self {
        let level = Level::new();
        Self((!level.is_fallback()).then_some(level))
    }

    /// Returns no vectors: the `blake3` crate does all the work.
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns all vectors of this machine, the widest first and [`Self::none`] last. For tests and
    /// benchmarks.
    pub fn available() -> Vec<Self> {
        let widest = Level::new();
        #[cfg(target_arch = "x86_64")]
        let levels = [
            widest.as_avx512().map(Level::Avx512),
            widest.as_avx2().map(Level::Avx2),
            widest.as_sse4_2().map(Level::Sse4_2),
            widest.as_sse2().map(Level::Sse2),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let levels = [(!widest.is_fallback()).then_some(widest)];
        let levels = levels.into_iter().flatten().map(|level| Self(Some(level)));
        levels.chain([Self::none()]).collect()
    }

    /// Returns how many accounts are hashed at a time.
    fn lanes(self) -> usize {
        #[inline(always)]
        fn lanes<S: fearless_simd::Simd>(_: S) -> usize {
            use fearless_simd::SimdBase as _;
            S::u32s::LEN
        }
        self.0.map_or(1, |level| dispatch!(level, simd => lanes(simd)))
    }
}

impl fmt::Debug for Vectors {
    /// Writes `Avx512`, `Avx2`, `Sse4_2`, `Sse2`, `Neon` or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(level) = self.0 else { return f.write_str("none") };
        let name = format!("{level:?}");
        f.write_str(name.split('(').next().unwrap_or(&name))
    }
}

/// Adds up the lattice hashes of accounts.
///
/// Accounts whose input is at most one chunk of BLAKE3 (951 bytes of data) wait until there are as
/// many of similar length as a vector has lanes, and are then hashed together. For longer accounts
/// the `blake3` crate hashes the two halves, and only the output is computed here: the crate
/// computes it block by block unless the machine has AVX-512. The crate does all the work for
/// accounts of more than 128 KiB, and for all accounts if there are no vectors.
///
/// Takes at most 400 KiB, regardless of what is added.
pub struct LatticeHasher {
    level: Option<Level>,
    lanes: usize,
    /// Sum of the hashes that were computed in lanes.
    lane_sums: LaneSums,
    /// Sum of the hashes that were computed one by one.
    sum: LatticeHash,
    /// Buffer for the input of a long account.
    scratch: Vec<u8>,
    /// Waiting inputs by their number of blocks, from 2.
    waiting: Vec<Waiting>,
}

/// Inputs with the same number of blocks.
struct Waiting {
    /// The inputs, one after the other, each padded with zeros to whole blocks.
    inputs: Vec<u8>,
    /// Length of the input within each last block.
    last_bytes: [u8; LANES_MAX],
    count: usize,
}

impl LatticeHasher {
    /// Creates an empty sum that hashes with the widest available vectors.
    pub fn new() -> Self {
        Self::with(Vectors::detect())
    }

    /// Creates an empty sum that hashes with `vectors`.
    pub fn with(vectors: Vectors) -> Self {
        let lanes = vectors.lanes();
        let waiting = (2..=BLOCKS_MAX)
            .map(|blocks| Waiting {
                inputs: vec![0; lanes * blocks * BLOCK_BYTES],
                last_bytes: [0; LANES_MAX],
                count: 0,
            })
            .collect();
        let (lane_sums, sum) = (LaneSums::new(), LatticeHash::ZERO);
        Self { level: vectors.0, lanes, lane_sums, sum, scratch: Vec::new(), waiting }
    }

    /// Adds an account. One without lamports adds nothing.
    #[inline]
    pub fn add(&mut self, header: &RecordHeader, data: &[u8]) {
        if header.lamports == 0 {
            return;
        }
        let input_bytes = FRONT_BYTES + data.len() + BACK_BYTES;
        match self.level {
            None => self.sum.add(&hash_one(header, data)),
            Some(level) if input_bytes <= CHUNK_BYTES => {
                self.add_short(level, header, data, input_bytes);
            }
            Some(_) if input_bytes > LONG_BYTES_MAX => self.sum.add(&hash_one(header, data)),
            Some(level) => {
                let root = root_of_long(header, data, &mut self.scratch);
                let sums = &mut self.lane_sums;
                dispatch!(level, simd => add_output(simd, &root, sums));
            }
        }
    }

    /// Adds a hash that was computed elsewhere.
    pub fn add_hash(&mut self, hash: &LatticeHash) {
        self.sum.add(hash);
    }

    /// Returns the sum of everything added, and resets it to the empty sum.
    pub fn take(&mut self) -> LatticeHash {
        if let Some(level) = self.level {
            for (index, waiting) in self.waiting.iter_mut().enumerate() {
                waiting.hash(level, index + 2, &mut self.lane_sums);
            }
        }
        let mut sum = std::mem::replace(&mut self.sum, LatticeHash::ZERO);
        sum.add(&self.lane_sums.ordered(self.lanes));
        self.lane_sums = LaneSums::new();
        sum
    }

    fn add_short(&mut self, level: Level, header: &RecordHeader, data: &[u8], input_bytes: usize) {
        let blocks = input_bytes.div_ceil(BLOCK_BYTES); // at least 2: 73 bytes without data
        let waiting = &mut self.waiting[blocks - 2];
        let stride = blocks * BLOCK_BYTES;
        let input = &mut waiting.inputs[waiting.count * stride..][..stride];
        let (front, rest) = input.split_at_mut(FRONT_BYTES);
        let (middle, back) = rest.split_at_mut(data.len());
        front.copy_from_slice(&header.lamports.to_le_bytes());
        middle.copy_from_slice(data);
        back[0] = header.executable;
        back[1..33].copy_from_slice(&header.owner);
        back[33..65].copy_from_slice(&header.pubkey);
        back[65..].fill(0);
        let last_bytes = input_bytes - (blocks - 1) * BLOCK_BYTES;
        // At most 64.
        waiting.last_bytes[waiting.count] = u8::try_from(last_bytes).unwrap_or(u8::MAX);
        waiting.count += 1;
        if waiting.count == self.lanes {
            waiting.hash(level, blocks, &mut self.lane_sums);
        }
    }
}

impl Default for LatticeHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LatticeHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatticeHasher")
            .field("vectors", &Vectors(self.level))
            .finish_non_exhaustive()
    }
}

impl Waiting {
    fn hash(&mut self, level: Level, blocks: usize, sums: &mut LaneSums) {
        let (inputs, last_bytes) = (&self.inputs[..], &self.last_bytes[..self.count]);
        if !last_bytes.is_empty() {
            dispatch!(level, simd => hash_inputs(simd, inputs, blocks, last_bytes, sums));
        }
        self.count = 0;
    }
}

/// Returns the part of an account's input after its data.
fn back(header: &RecordHeader) -> [u8; BACK_BYTES] {
    let mut back = [0; BACK_BYTES];
    back[0] = header.executable;
    back[1..33].copy_from_slice(&header.owner);
    back[33..].copy_from_slice(&header.pubkey);
    back
}

/// Hashes one account with the `blake3` crate alone.
fn hash_one(header: &RecordHeader, data: &[u8]) -> LatticeHash {
    let mut account = AccountInParts::begin(header);
    account.part(data);
    account.end(header)
}

/// Returns the last compression of an account that is longer than a chunk.
///
/// The input is assembled in `scratch`: in one buffer its chunks are hashed side by side, while
/// after 8 bytes of lamports the crate could start only with one, then two, then four.
fn root_of_long(header: &RecordHeader, data: &[u8], scratch: &mut Vec<u8>) -> Root {
    scratch.clear();
    scratch.extend_from_slice(&header.lamports.to_le_bytes());
    scratch.extend_from_slice(data);
    scratch.extend_from_slice(&back(header));
    let input_bytes = scratch.len();
    // Less than the whole input.
    let left_bytes = usize::try_from(left_subtree_len(input_bytes as u64)).unwrap_or(input_bytes);
    let (left, right) = scratch.split_at(left_bytes);
    Root::parent(&subtree(left, 0), &subtree(right, left_bytes as u64))
}

/// Returns the chaining value of a subtree that begins at `offset` of the input.
fn subtree(input: &[u8], offset: u64) -> [u8; 32] {
    blake3::Hasher::new().set_input_offset(offset).update(input).finalize_non_root()
}

/// An account whose data arrives in parts.
#[derive(Debug)]
pub(crate) struct AccountInParts(blake3::Hasher);

impl AccountInParts {
    pub(crate) fn begin(header: &RecordHeader) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&header.lamports.to_le_bytes());
        Self(hasher)
    }

    pub(crate) fn part(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    pub(crate) fn end(mut self, header: &RecordHeader) -> LatticeHash {
        self.0.update(&back(header));
        let mut bytes = [0; LatticeHash::BYTES];
        self.0.finalize_xof().fill(&mut bytes);
        LatticeHash::from_bytes(&bytes)
    }
}
