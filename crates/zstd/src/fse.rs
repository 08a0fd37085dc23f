//! Finite state entropy: descriptions of distributions, and the tables made from them (RFC 8878,
//! section 4.1).

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // fields of known width

use crate::bits::ForwardBits;

/// Smallest accuracy of a distribution, as a power of two.
const LOG_MIN: u32 = 5;

/// A distribution of symbols over the states of a table.
pub(crate) struct Distribution {
    /// States of each symbol; -1 for one state with a probability below one state's.
    counts: [i16; 256],
    /// Number of symbols, from 0 to the last that occurs.
    pub symbols: usize,
    /// Number of states, as a power of two.
    pub log: u32,
}

/// What a state of a table means.
pub(crate) struct State {
    pub symbol: u8,
    /// Number of bits to read for the next state.
    pub bits: u8,
    /// Next state if these bits are zero.
    pub next: u16,
}

impl Distribution {
    /// Takes known counts.
    pub fn of(known: &[i16], log: u32) -> Self {
        let mut counts = [0; 256];
        counts[..known.len()].copy_from_slice(known);
        Self { counts, symbols: known.len(), log }
    }

    /// Reads a description of at most `symbols_max` symbols and `1 << log_max` states. Also returns
    /// its length in bytes. Returns `None` if it is invalid.
    pub fn read(bytes: &[u8], symbols_max: usize, log_max: u32) -> Option<(Self, usize)> {
        let mut bits = ForwardBits::new(bytes);
        let log = bits.read(4) + LOG_MIN;
        if log > log_max {
            return None;
        }
        let mut counts = [0_i16; 256];
        let mut symbols = 0;
        // One more than the states not yet given away; the widest value needs `width` bits.
        let mut remaining = (1_u32 << log) + 1;
        let mut width = log + 1;
        while remaining > 1 {
            if symbols >= symbols_max {
                return None;
            }
            // Values below `short` take one bit less.
            let threshold = 1 << (width - 1);
            let short = 2 * threshold - 1 - remaining;
            let mut value = bits.peek(width);
            let low = value & (threshold - 1);
            if low < short {
                value = low;
                bits.skip(width - 1);
            } else {
                value = if value >= threshold { value - short } else { value };
                bits.skip(width);
            }
            let count = value as i16 - 1;
            remaining -= u32::from(count.unsigned_abs());
            counts[symbols] = count;
            symbols += 1;
            if count == 0 {
                loop {
                    let zeros = bits.read(2);
                    symbols += zeros as usize;
                    if zeros < 3 || symbols > symbols_max {
                        break;
                    }
                }
            }
            if remaining < threshold && remaining > 1 {
                width = remaining.ilog2() + 1;
            }
        }
        let bytes_read = bits.bytes_passed()?;
        Some((Self { counts, symbols, log }, bytes_read))
    }

    /// Calls `state` for every state of the table, in order.
    pub fn states(&self, mut state: impl FnMut(usize, State)) {
        let size = 1_usize << self.log;
        let mut next = [0_u16; 256];
        let mut symbol_of = [0_u8; 512];
        // Improbable symbols take the last states.
        let mut high = size;
        for (symbol, &count) in self.counts[..self.symbols].iter().enumerate() {
            next[symbol] = count.unsigned_abs();
            if count < 0 {
                high -= 1;
                symbol_of[high] = symbol as u8;
            }
        }
        // The others are spread over the rest.
        let step = size / 2 + size / 8 + 3;
        let mut at = 0;
        for (symbol, &count) in self.counts[..self.symbols].iter().enumerate() {
            for _ in 0..count {
                symbol_of[at] = symbol as u8;
                at = (at + step) % size;
                while at >= high {
                    at = (at + step) % size;
                }
            }
        }
        for (index, &symbol) in symbol_of[..size].iter().enumerate() {
            let turn = &mut next[usize::from(symbol)];
            let bits = self.log - turn.ilog2();
            let first = (usize::from(*turn) << bits) - size;
            *turn += 1;
            state(index, State { symbol, bits: bits as u8, next: first as u16 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_reached_once_per_symbol() {
        let distribution = Distribution::of(&[10, -1, 0, 20, 1], 5);
        let mut reached = vec![0_u32; 32];
        let mut counts = [0; 5];
        distribution.states(|_, state| {
            counts[usize::from(state.symbol)] += 1;
            if state.symbol == 3 {
                for next in 0..1 << state.bits {
                    reached[usize::from(state.next) + next] += 1;
                }
            }
        });
        assert_eq!(counts, [10, 1, 0, 20, 1]);
        assert!(reached.iter().all(|&times| times == 1), "{reached:?}");
    }

    #[test]
    fn a_description_is_read_to_its_last_bit() {
        // Accuracy 5, then the values 33 = all states for symbol 0 (count 32): six bits.
        let (distribution, bytes) = Distribution::read(&[0xf0, 0x03, 0xaa], 36, 9).unwrap();
        assert_eq!((distribution.symbols, distribution.log, bytes), (1, 5, 2));
        assert_eq!(distribution.counts[0], 32);
        assert!(Distribution::read(&[0xf0], 36, 9).is_none(), "cut");
        assert!(Distribution::read(&[0x05], 36, 9).is_none(), "too accurate");
        let zeros = [0x10, 0xfe, 0xff, 0xff, 0xff, 0xff];
        assert!(Distribution::read(&zeros, 36, 9).is_none(), "too many symbols");
    }
}
