//! Huffman codes of literals (RFC 8878, section 4.2).

// Fields of known width, and lengths that are far from the limits.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

use crate::{
    Defect,
    bits::{BackwardBits, LEAD_BYTES, WINDOW_BITS, top, word},
    kernels::{self, Kernel},
    weights::{CODE_BITS_MAX, Weights},
};

/// Length to which tables of shorter codes are widened, so that the fast loop has one width: five
/// codes are one load.
const FAST_BITS: u32 = 11;
/// Decoded symbols from one load in the fast loop.
const SYMBOLS_PER_LOAD: usize = (WINDOW_BITS / FAST_BITS) as usize;
/// Bytes by which one turn of the fast loop may move a stream.
const BYTES_PER_LOAD: usize = 7;

/// A table that gives the symbol and the length of the code at the beginning of some bits.
#[derive(Clone)]
pub(crate) struct HuffmanTable {
    /// Symbol in the high byte, length of the code in the low one.
    entries: Box<[u16; 1 << CODE_BITS_MAX]>,
    /// Bits that index the table.
    bits: u32,
}

impl HuffmanTable {
    pub fn new() -> Self {
        Self { entries: Box::new([0; 1 << CODE_BITS_MAX]), bits: FAST_BITS }
    }

    /// Reads a description and returns its length in bytes. `bytes[start..]` begins with it.
    pub fn read(&mut self, bytes: &[u8], start: usize) -> Result<usize, Defect> {
        let (weights, length) = Weights::read(bytes, start).ok_or(Defect::HuffmanTable)?;
        self.fill(weights.of_symbols(), weights.code_bits);
        Ok(length)
    }

    /// Fills the table: codes in the order of their weights, and of their symbols.
    fn fill(&mut self, weights: &[u8], bits: u32) {
        self.bits = bits.max(FAST_BITS);
        let widened = self.bits - bits;
        // Where the codes of each weight begin.
        let mut begins = [0_usize; CODE_BITS_MAX as usize + 2];
        for &weight in weights {
            begins[usize::from(weight) + 1] += (1 << weight >> 1) << widened;
        }
        begins[1] = 0;
        for weight in 1..begins.len() {
            begins[weight] += begins[weight - 1];
        }
        for (symbol, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0) {
            let length = bits + 1 - u32::from(weight);
            let places = (1_usize << (weight - 1)) << widened;
            let begin = &mut begins[usize::from(weight)];
            self.entries[*begin..*begin + places].fill((symbol as u16) << 8 | length as u16);
            *begin += places;
        }
    }

    /// Decodes the one stream `bytes[start..end]` into all of `target`.
    pub fn decode(
        &self,
        bytes: &[u8],
        start: usize,
        end: usize,
        target: &mut [u8],
    ) -> Result<(), Defect> {
        let stream = BackwardBits::new(bytes, start, end).ok_or(Defect::LiteralStream)?;
        self.finish(stream, target)
    }

    /// Decodes the four streams `bytes[start..end]`, which begin with a table of their lengths,
    /// into all of `target`.
    pub fn decode_four(
        &self,
        bytes: &[u8],
        start: usize,
        end: usize,
        target: &mut [u8],
    ) -> Result<(), Defect> {
        let first = start + 6;
        if first > end {
            return Err(Defect::LiteralStream);
        }
        let length = |index: usize| {
            let at = start + 2 * index;
            usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
        };
        let second = first + length(0);
        let third = second + length(1);
        let fourth = third + length(2);
        if fourth > end {
            return Err(Defect::LiteralStream);
        }
        let stream = |from, to| BackwardBits::new(bytes, from, to).ok_or(Defect::LiteralStream);
        let mut streams = [
            stream(first, second)?,
            stream(second, third)?,
            stream(third, fourth)?,
            stream(fourth, end)?,
        ];
        let quarter = target.len().div_ceil(4);
        if 3 * quarter > target.len() {
            return Err(Defect::LiteralStream);
        }
        let (one, rest) = target.split_at_mut(quarter);
        let (two, rest) = rest.split_at_mut(quarter);
        let (three, four) = rest.split_at_mut(quarter);
        let mut targets = [one, two, three, four];
        let decoded = if self.bits == FAST_BITS {
            kernels::run(Together {
                table: self,
                bytes,
                streams: &mut streams,
                targets: &mut targets,
            })
        } else {
            0
        };
        for (stream, target) in streams.into_iter().zip(targets) {
            self.finish(stream, &mut target[decoded..])?;
        }
        Ok(())
    }

    /// Decodes the rest of a stream, which must hold exactly the symbols of `target`.
    fn finish(&self, mut stream: BackwardBits<'_>, target: &mut [u8]) -> Result<(), Defect> {
        let per_load = (WINDOW_BITS / self.bits) as usize;
        for group in target.chunks_mut(per_load) {
            if stream.left < 0 {
                return Err(Defect::LiteralStream);
            }
            let mut window = stream.window();
            for symbol in group {
                let entry = self.entries[top(window, self.bits) as usize];
                *symbol = (entry >> 8) as u8;
                let length = entry & 0x3f;
                window <<= length;
                stream.left -= length as isize;
            }
        }
        if stream.left == 0 { Ok(()) } else { Err(Defect::LiteralStream) }
    }
}

/// Decodes four streams together, as far as no end is near. Returns the number of symbols that each
/// has yielded.
struct Together<'a, 'b> {
    table: &'a HuffmanTable,
    bytes: &'a [u8],
    streams: &'a mut [BackwardBits<'b>; 4],
    targets: &'a mut [&'b mut [u8]; 4],
}

impl Kernel for Together<'_, '_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Self { table, bytes, streams, targets } = self;
        let entries: &[u16; 1 << FAST_BITS] = match table.entries.first_chunk() {
            Some(entries) => entries,
            None => return 0,
        };
        // The state of a stream: where its window was loaded, and the window, in which a one below
        // the last valid bit counts the bits read.
        let mut at = [0_usize; 4];
        let mut windows = [0_u64; 4];
        for ((at, window), stream) in at.iter_mut().zip(&mut windows).zip(streams.iter()) {
            let Some((from, shift)) = stream.load_place() else { return 0 };
            *at = from;
            *window = (word(bytes, from) | 1) << shift;
        }
        let mut decoded = 0;
        let symbols_max = targets.iter().map(|target| target.len()).min().unwrap_or(0);
        loop {
            let room = (symbols_max - decoded) / SYMBOLS_PER_LOAD;
            let input = streams
                .iter()
                .zip(&at)
                .map(|(stream, &at)| at.saturating_sub(stream.first_byte()) / BYTES_PER_LOAD)
                .min()
                .unwrap_or(0);
            let turns = room.min(input);
            if turns == 0 {
                break;
            }
            let symbols = turns * SYMBOLS_PER_LOAD;
            let [one, two, three, four] = targets;
            let range = decoded..decoded + symbols;
            let groups = one[range.clone()]
                .chunks_exact_mut(SYMBOLS_PER_LOAD)
                .zip(two[range.clone()].chunks_exact_mut(SYMBOLS_PER_LOAD))
                .zip(three[range.clone()].chunks_exact_mut(SYMBOLS_PER_LOAD))
                .zip(four[range].chunks_exact_mut(SYMBOLS_PER_LOAD));
            for (((one, two), three), four) in groups {
                let mut group = [one, two, three, four];
                for symbol in 0..SYMBOLS_PER_LOAD {
                    for (target, window) in group.iter_mut().zip(&mut windows) {
                        let entry = entries[(*window >> (64 - FAST_BITS)) as usize];
                        target[symbol] = (entry >> 8) as u8;
                        *window <<= entry & 0x3f;
                    }
                }
                for (at, window) in at.iter_mut().zip(&mut windows) {
                    let passed = window.trailing_zeros();
                    *at -= (passed / 8) as usize;
                    *window = (word(bytes, *at) | 1) << (passed % 8);
                }
            }
            decoded += symbols;
        }
        for ((stream, at), window) in streams.iter_mut().zip(at).zip(windows) {
            stream.return_to(at, window.trailing_zeros());
        }
        decoded
    }
}

impl BackwardBits<'_> {
    /// Returns from where a window is loaded and by how many bits it is shifted; `None` if the
    /// stream is shorter than a window.
    fn load_place(&self) -> Option<(usize, u32)> {
        let left = usize::try_from(self.left).ok()?;
        let end = self.first_byte() + left / 8 + 1;
        (end >= self.first_byte() + LEAD_BYTES).then(|| (end - 8, 8 - (left % 8) as u32))
    }

    /// Continues where a window loaded from `at` has been read except for its lowest bits.
    fn return_to(&mut self, at: usize, passed: u32) {
        let unread = (at as isize - self.first_byte() as isize) * 8 + 64;
        self.left = unread - passed as isize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of four symbols with codes of 1, 2, 3 and 3 bits, described directly.
    fn table() -> HuffmanTable {
        let mut table = HuffmanTable::new();
        // Weights 3, 2, 1 for symbols 0, 1, 2; the last is 1.
        assert_eq!(table.read(&[127 + 3, 0x32, 0x10], 0), Ok(3));
        table
    }

    /// Writes the codes of `symbols` so that they are read from the end, with `lead` in front.
    fn encode(symbols: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &symbol in symbols.iter().rev() {
            let (code, length) = [(1, 1), (1, 2), (0, 3), (1, 3)][usize::from(symbol)];
            bits.extend((0..length).map(|bit| code >> bit & 1));
        }
        bits.push(1);
        bits.chunks(8)
            .map(|byte| byte.iter().enumerate().fold(0, |value, (at, bit)| value | bit << at))
            .collect()
    }

    fn symbols(count: usize) -> Vec<u8> {
        (0..count).map(|index| [0, 1, 2, 3, 0, 0, 1][index * index % 7]).collect()
    }

    #[test]
    fn one_stream_of_every_length() {
        let table = table();
        for count in 0..100 {
            let symbols = symbols(count);
            let mut bytes = vec![0x55; LEAD_BYTES];
            bytes.extend(encode(&symbols));
            let mut target = vec![9; count];
            assert_eq!(table.decode(&bytes, LEAD_BYTES, bytes.len(), &mut target), Ok(()));
            assert_eq!(target, symbols);
            let mut longer = vec![0; count + 1];
            let result = table.decode(&bytes, LEAD_BYTES, bytes.len(), &mut longer);
            assert_eq!(result, Err(Defect::LiteralStream), "{count}");
        }
    }

    #[test]
    fn four_streams_of_every_length() {
        let table = table();
        for count in 6..400 {
            let symbols = symbols(count);
            let quarter = count.div_ceil(4);
            let Some(parts) = (3 * quarter <= count).then(|| {
                [0, 1, 2, 3]
                    .map(|part| encode(&symbols[part * quarter..((part + 1) * quarter).min(count)]))
            }) else {
                continue;
            };
            let mut bytes = vec![0x55; LEAD_BYTES];
            for part in &parts[..3] {
                bytes.extend((part.len() as u16).to_le_bytes());
            }
            bytes.extend(parts.concat());
            let mut target = vec![9; count];
            assert_eq!(table.decode_four(&bytes, LEAD_BYTES, bytes.len(), &mut target), Ok(()));
            assert_eq!(target, symbols, "{count}");
            let mut longer = vec![0; count + 4];
            let result = table.decode_four(&bytes, LEAD_BYTES, bytes.len(), &mut longer);
            assert_eq!(result, Err(Defect::LiteralStream), "{count}");
        }
    }

    #[test]
    fn impossible_weights_are_refused() {
        let mut table = HuffmanTable::new();
        for (description, why) in [
            (&[127 + 2, 0x00][..], "no weight"),
            (&[127 + 2, 0xd1], "a code of no length"),
            (&[127 + 3, 0x31, 0x00], "the rest is no power of two"),
            (&[127 + 3, 0x32], "cut"),
            (&[], "empty"),
        ] {
            assert_eq!(table.read(description, 0), Err(Defect::HuffmanTable), "{why}");
        }
    }
}
