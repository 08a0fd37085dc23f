//! BLAKE3's compression function over vectors: as many blocks at a time as a vector has 32-bit
//! lanes.
//!
//! A lattice hash uses BLAKE3 in two steps, and each has its own arrangement of the lanes:
//!
//! | step | lanes are | because |
//! |---|---|---|
//! | the input, blocks of 64 bytes | accounts | the blocks of one account depend on each other |
//! | the output, 32 blocks | block counters of one account | only the counter differs |
//!
//! In the second step the message is the same in all lanes, and the output need not be reordered:
//! sums stay in the lanes' order ([`LaneSums`]) and are reordered once, at the very end.
//!
//! The constants are those of the BLAKE3 specification (version 1, tables 1 to 3).

// The functions must be inlined into the one that enables the instructions, or they are compiled
// without them. The casts apply to numbers of lanes and halves of words.
#![allow(clippy::inline_always, clippy::cast_possible_truncation)]

use fearless_simd::{Simd, SimdBase as _, prelude::*};

use super::{ELEMENTS, LatticeHash};

/// Length of a compression's input and output in bytes.
pub(super) const BLOCK_BYTES: usize = 64;

/// Words of a block.
const WORDS: usize = BLOCK_BYTES / 4;

/// Output blocks of a lattice hash.
const OUTPUT_BLOCKS: usize = ELEMENTS * 2 / BLOCK_BYTES;

/// The most lanes of any vector: AVX-512.
pub(super) const LANES_MAX: usize = 16;

/// Initialisation vector, which is also the key of unkeyed hashing.
const IV: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Order of the message words in each round, by half rounds of four mixings.
const SCHEDULE: [[usize; WORDS]; 7] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8],
    [3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1],
    [10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6],
    [12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4],
    [9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7],
    [11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13],
];

const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 2;
const PARENT: u32 = 4;
const ROOT: u32 = 8;

/// A compression with output of arbitrary length: the last one of an account's input.
pub(super) struct Root {
    chaining_value: [u32; 8],
    message: [u32; WORDS],
    message_bytes: u32,
    flags: u32,
}

impl Root {
    /// Creates the root of an input longer than one chunk of 1024 bytes, which joins its two
    /// subtrees.
    pub(super) fn parent(left: &[u8; 32], right: &[u8; 32]) -> Self {
        let mut block = [0; BLOCK_BYTES];
        block[..32].copy_from_slice(left);
        block[32..].copy_from_slice(right);
        Self { chaining_value: IV, message: words(&block), message_bytes: 64, flags: PARENT | ROOT }
    }
}

/// Sum of lattice hashes in the order of the lanes: two elements per word, and words of equal index
/// from all blocks of a pass side by side.
#[derive(Clone)]
#[repr(align(64))] // one AVX-512 vector, so that no load straddles two cache lines
pub(super) struct LaneSums([u32; ELEMENTS / 2]);

impl LaneSums {
    pub(super) fn new() -> Self {
        Self([0; ELEMENTS / 2])
    }

    /// Returns the sum in the order of elements.
    pub(super) fn ordered(&self, lanes: usize) -> LatticeHash {
        let mut hash = LatticeHash::ZERO;
        for (index, pair) in self.0.iter().enumerate() {
            let (row, lane) = (index / lanes, index % lanes);
            let block = row / WORDS * lanes + lane;
            let element = (block * WORDS + row % WORDS) * 2;
            let [low, high] = [pair & 0xffff, pair >> 16].map(|half| half as u16); // 16 bits each
            hash.0[element] = low;
            hash.0[element + 1] = high;
        }
        hash
    }
}

/// Hashes as many inputs as a vector has lanes, all of `blocks` blocks (at least two, at most a
/// chunk's 16), and adds the hashes of the first `last_bytes.len()` to `sums`.
///
/// `inputs` holds the inputs one after the other, each padded with zeros to whole blocks.
/// `last_bytes` gives the length of the input within each last block.
#[inline(always)]
pub(super) fn hash_inputs<S: Simd>(
    simd: S,
    inputs: &[u8],
    blocks: usize,
    last_bytes: &[u8],
    sums: &mut LaneSums,
) {
    let lanes = S::u32s::LEN;
    let mut chaining: [S::u32s; 8] = std::array::from_fn(|word| S::u32s::splat(simd, IV[word]));
    for block in 0..blocks - 1 {
        let message = transposed(simd, inputs, blocks, block);
        let flags = if block == 0 { CHUNK_START } else { 0 };
        let fixed = [IV[0], IV[1], IV[2], IV[3], 0, 0, 64, flags];
        let mut state: [S::u32s; WORDS] = std::array::from_fn(|word| {
            if word < 8 { chaining[word] } else { S::u32s::splat(simd, fixed[word - 8]) }
        });
        mix_columns(&mut state, &message, &SCHEDULE[0]);
        rounds_after_first_columns(&mut state, &message);
        for word in 0..8 {
            chaining[word] = state[word] ^ state[word + 8];
        }
    }
    let mut values = [[0; LANES_MAX]; 8];
    for (row, vector) in values.iter_mut().zip(chaining) {
        vector.store_slice(&mut row[..lanes]);
    }
    for (lane, &bytes) in last_bytes.iter().enumerate() {
        let last = &inputs[(lane * blocks + blocks - 1) * BLOCK_BYTES..][..BLOCK_BYTES];
        let root = Root {
            chaining_value: values.map(|row| row[lane]),
            message: words(last.first_chunk().unwrap_or(&[0; BLOCK_BYTES])),
            message_bytes: bytes.into(),
            flags: CHUNK_END | ROOT,
        };
        add_output(simd, &root, sums);
    }
}

/// Adds the 2048 bytes of output of `root` to `sums`.
#[inline(always)]
pub(super) fn add_output<S: Simd>(simd: S, root: &Root, sums: &mut LaneSums) {
    let lanes = S::u32s::LEN;
    let [message_bytes, flags] = [root.message_bytes, root.flags];
    // In the first half round, only the column with the counter differs between lanes.
    let mut shared = [0; WORDS];
    shared[..8].copy_from_slice(&root.chaining_value);
    shared[8..].copy_from_slice(&[IV[0], IV[1], IV[2], IV[3], 0, 0, message_bytes, flags]);
    for column in 1..4 {
        mix_shared(&mut shared, &root.message, column);
    }
    let message: [S::u32s; WORDS] =
        std::array::from_fn(|word| S::u32s::splat(simd, root.message[word]));
    let mut counters = S::u32s::from_fn(simd, |lane| lane as u32); // at most 15
    for pass in sums.0.chunks_exact_mut(WORDS * lanes).take(OUTPUT_BLOCKS / lanes) {
        let mut state: [S::u32s; WORDS] =
            std::array::from_fn(|word| S::u32s::splat(simd, shared[word]));
        state[12] = counters;
        mix(&mut state, [0, 4, 8, 12], message[0], message[1]);
        rounds_after_first_columns(&mut state, &message);
        for (word, sum) in pass.chunks_exact_mut(lanes).enumerate() {
            let output = if word < 8 {
                state[word] ^ state[word + 8]
            } else {
                state[word] ^ S::u32s::splat(simd, root.chaining_value[word - 8])
            };
            let before: S::u16s = S::u32s::from_slice(simd, sum).bitcast();
            let after: S::u32s = (before + output.bitcast::<S::u16s>()).bitcast();
            after.store_slice(sum);
        }
        counters += S::u32s::splat(simd, lanes as u32); // at most 16
    }
}

/// Returns block `block` of every lane's input as message words, one account per lane.
#[inline(always)]
fn transposed<S: Simd>(simd: S, inputs: &[u8], blocks: usize, block: usize) -> [S::u32s; WORDS] {
    let lanes = S::u32s::LEN;
    let vector_bytes = lanes * 4;
    let mut message = [S::u32s::splat(simd, 0); WORDS];
    for (part, message) in message.chunks_exact_mut(lanes).enumerate() {
        let mut rows = [S::u32s::splat(simd, 0); LANES_MAX];
        for (lane, row) in rows[..lanes].iter_mut().enumerate() {
            let at = (lane * blocks + block) * BLOCK_BYTES + part * vector_bytes;
            *row = S::u8s::from_slice(simd, &inputs[at..at + vector_bytes]).bitcast();
        }
        // Interleaving each row of the first half with its counterpart of the second, log2(lanes)
        // times, transposes rows and columns.
        let mut stages = lanes;
        while stages > 1 {
            let before = rows;
            for pair in 0..lanes / 2 {
                let (low, high) = before[pair].interleave(before[pair + lanes / 2]);
                rows[2 * pair] = low;
                rows[2 * pair + 1] = high;
            }
            stages /= 2;
        }
        message.copy_from_slice(&rows[..lanes]);
    }
    message
}

/// Does the rest of a compression after the first half of its first round.
#[inline(always)]
fn rounds_after_first_columns<S: Simd, V: SimdInt<S, Element = u32>>(
    state: &mut [V; WORDS],
    message: &[V; WORDS],
) {
    mix_diagonals(state, message, &SCHEDULE[0]);
    // Unrolled, so that the compiler knows every index and the state stays in registers.
    mix_columns(state, message, &SCHEDULE[1]);
    mix_diagonals(state, message, &SCHEDULE[1]);
    mix_columns(state, message, &SCHEDULE[2]);
    mix_diagonals(state, message, &SCHEDULE[2]);
    mix_columns(state, message, &SCHEDULE[3]);
    mix_diagonals(state, message, &SCHEDULE[3]);
    mix_columns(state, message, &SCHEDULE[4]);
    mix_diagonals(state, message, &SCHEDULE[4]);
    mix_columns(state, message, &SCHEDULE[5]);
    mix_diagonals(state, message, &SCHEDULE[5]);
    mix_columns(state, message, &SCHEDULE[6]);
    mix_diagonals(state, message, &SCHEDULE[6]);
}

#[inline(always)]
fn mix_columns<S: Simd, V: SimdInt<S, Element = u32>>(
    state: &mut [V; WORDS],
    message: &[V; WORDS],
    order: &[usize; WORDS],
) {
    mix(state, [0, 4, 8, 12], message[order[0]], message[order[1]]);
    mix(state, [1, 5, 9, 13], message[order[2]], message[order[3]]);
    mix(state, [2, 6, 10, 14], message[order[4]], message[order[5]]);
    mix(state, [3, 7, 11, 15], message[order[6]], message[order[7]]);
}

#[inline(always)]
fn mix_diagonals<S: Simd, V: SimdInt<S, Element = u32>>(
    state: &mut [V; WORDS],
    message: &[V; WORDS],
    order: &[usize; WORDS],
) {
    mix(state, [0, 5, 10, 15], message[order[8]], message[order[9]]);
    mix(state, [1, 6, 11, 12], message[order[10]], message[order[11]]);
    mix(state, [2, 7, 8, 13], message[order[12]], message[order[13]]);
    mix(state, [3, 4, 9, 14], message[order[14]], message[order[15]]);
}

/// BLAKE3's quarter round.
#[inline(always)]
fn mix<S: Simd, V: SimdInt<S, Element = u32>>(
    state: &mut [V; WORDS],
    [a, b, c, d]: [usize; 4],
    first: V,
    second: V,
) {
    state[a] = state[a] + state[b] + first;
    state[d] = rotated_right(state[d] ^ state[a], 16);
    state[c] += state[d];
    state[b] = rotated_right(state[b] ^ state[c], 12);
    state[a] = state[a] + state[b] + second;
    state[d] = rotated_right(state[d] ^ state[a], 8);
    state[c] += state[d];
    state[b] = rotated_right(state[b] ^ state[c], 7);
}

#[inline(always)]
fn rotated_right<S: Simd, V: SimdInt<S, Element = u32>>(words: V, bits: u32) -> V {
    (words >> bits) | (words << (32 - bits))
}

/// Does the same for a column of the first round that is equal in all lanes.
#[inline(always)]
fn mix_shared(state: &mut [u32; WORDS], message: &[u32; WORDS], column: usize) {
    let [a, b, c, d] = [column, column + 4, column + 8, column + 12];
    for (word, [by_d, by_b]) in [(2 * column, [16, 12]), (2 * column + 1, [8, 7])] {
        state[a] = state[a].wrapping_add(state[b]).wrapping_add(message[word]);
        state[d] = (state[d] ^ state[a]).rotate_right(by_d);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_right(by_b);
    }
}

/// Returns a block's little-endian words.
#[inline(always)]
fn words(block: &[u8; BLOCK_BYTES]) -> [u32; WORDS] {
    let (words, _) = block.as_chunks::<4>();
    std::array::from_fn(|index| u32::from_le_bytes(words[index]))
}
