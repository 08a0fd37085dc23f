//! Descriptions of Huffman codes: a weight for every symbol (RFC 8878, section 4.2.1).

// Fields of known width.
#![allow(clippy::cast_possible_truncation)]

use crate::{bits::BackwardBits, fse::Distribution};

/// Longest code in bits. The format says 11; libzstd accepts 12.
pub(crate) const CODE_BITS_MAX: u32 = 12;
/// Most symbols whose weights are described. The weight of the last one follows from the others.
const WEIGHTS_MAX: usize = 255;
/// Largest accuracy of the distribution of weights.
const WEIGHT_LOG_MAX: u32 = 6;

/// The weights of symbols. The higher a weight, the shorter the code; 0 means no code.
pub(crate) struct Weights {
    values: [u8; WEIGHTS_MAX + 1],
    symbols: usize,
    /// Length of the longest code.
    pub code_bits: u32,
}

impl Weights {
    /// Reads a description, with which `bytes[start..]` begin. Also returns its length in bytes.
    /// Returns `None` if it is invalid.
    pub fn read(bytes: &[u8], start: usize) -> Option<(Self, usize)> {
        let mut values = [0; WEIGHTS_MAX + 1];
        let (described, length) = read_described(bytes, start, &mut values)?;
        let symbols = described + 1;
        let code_bits = complete(&mut values[..symbols])?;
        Some((Self { values, symbols, code_bits }, length))
    }

    /// Returns the weights of all symbols, from 0 to the last.
    pub fn of_symbols(&self) -> &[u8] {
        &self.values[..self.symbols]
    }
}

/// Reads the weights of all symbols but the last. Returns their number, and the length of the
/// description in bytes.
fn read_described(
    bytes: &[u8],
    start: usize,
    weights: &mut [u8; WEIGHTS_MAX + 1],
) -> Option<(usize, usize)> {
    let header = usize::from(*bytes.get(start)?);
    if header >= 128 {
        // Four bits each.
        let count = header - 127;
        let packed = bytes.get(start + 1..=start + count.div_ceil(2))?;
        for (index, weight) in weights[..count].iter_mut().enumerate() {
            *weight = packed[index / 2] >> (4 - index % 2 * 4) & 15;
        }
        return Some((count, 1 + packed.len()));
    }
    let end = start + 1 + header;
    let coded = bytes.get(start + 1..end)?;
    let (distribution, described) = Distribution::read(coded, 256, WEIGHT_LOG_MAX)?;
    // libzstd's memory for this table is sized for weights up to 11 at the highest accuracy.
    if table_words(distribution.log, distribution.symbols) > table_words(WEIGHT_LOG_MAX, 12) {
        return None;
    }
    let count = decode_weights(&distribution, bytes, start + 1 + described, end, weights)?;
    Some((count, 1 + header))
}

/// Returns the 32-bit words that libzstd needs for a table of weights.
fn table_words(log: u32, symbols: usize) -> usize {
    let states = 1 << log;
    states + (2 * symbols + states + 8).div_ceil(4)
}

/// Decodes weights by two states in turn, until the stream is exhausted.
fn decode_weights(
    distribution: &Distribution,
    bytes: &[u8],
    start: usize,
    end: usize,
    weights: &mut [u8; WEIGHTS_MAX + 1],
) -> Option<usize> {
    let mut table = [(0_u8, 0_u32, 0_u32); 1 << WEIGHT_LOG_MAX];
    distribution.states(|index, state| {
        table[index] = (state.symbol, u32::from(state.bits), u32::from(state.next));
    });
    let mut stream = BackwardBits::new(bytes, start, end)?;
    let mut current = stream.read(distribution.log);
    let mut other = stream.read(distribution.log);
    if stream.left < 0 {
        return None;
    }
    let mut count = 0;
    loop {
        // Two more weights at most, the last of which is at the end of the stream.
        if count > WEIGHTS_MAX - 2 {
            return None;
        }
        let (weight, bits, next) = table[current as usize];
        weights[count] = weight;
        count += 1;
        current = next + stream.read(bits);
        if stream.left < 0 {
            weights[count] = table[other as usize].0;
            return Some(count + 1);
        }
        std::mem::swap(&mut current, &mut other);
    }
}

/// Checks the weights and sets the last one so that the codes are complete. Returns the length of
/// the longest code.
fn complete(weights: &mut [u8]) -> Option<u32> {
    let (last, described) = weights.split_last_mut()?;
    if described.iter().any(|&weight| u32::from(weight) > CODE_BITS_MAX) {
        return None;
    }
    let total: u32 = described.iter().map(|&weight| 1 << weight >> 1).sum();
    let bits = total.checked_ilog2()? + 1;
    let rest = (1 << bits) - total;
    if bits > CODE_BITS_MAX || !rest.is_power_of_two() {
        return None;
    }
    *last = rest.ilog2() as u8 + 1;
    // The longest codes come in pairs.
    let longest: u32 = weights.iter().map(|&weight| u32::from(weight == 1)).sum();
    (longest >= 2 && longest.is_multiple_of(2)).then_some(bits)
}
