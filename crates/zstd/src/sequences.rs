//! Sequences: tables of codes, and the stream of states (RFC 8878, section 3.1.1.3.2).

// Fields of known width.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

use std::sync::LazyLock;

use crate::{
    BLOCK_BYTES_MAX, Defect,
    bits::{BackwardBits, WINDOW_BITS, Window},
    fse::Distribution,
    kernels::Kernel,
    offsets::Offsets,
    packed::Sequence,
};

/// Most states of a table of codes.
const STATES_MAX: usize = 512;

/// One of the three kinds of codes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codes {
    LiteralLengths,
    Offsets,
    MatchLengths,
}

/// The kinds in the order of their descriptions.
pub(crate) const ALL_CODES: [Codes; 3] =
    [Codes::LiteralLengths, Codes::Offsets, Codes::MatchLengths];

impl Codes {
    /// Returns the number of codes and the largest accuracy of a table of them.
    fn limits(self) -> (usize, u32) {
        match self {
            Self::LiteralLengths => (36, 9),
            Self::Offsets => (32, 8),
            Self::MatchLengths => (53, 9),
        }
    }

    /// Returns the smallest value of a code, and the number of bits to add to it.
    fn value(self, code: u8) -> (u32, u8) {
        let code_bits = u32::from(code);
        match self {
            Self::LiteralLengths => LITERAL_LENGTHS[usize::from(code)],
            Self::MatchLengths => MATCH_LENGTHS[usize::from(code)],
            // Codes 0 and 1 choose among the repeat offsets.
            Self::Offsets if code < 2 => (code_bits, code),
            Self::Offsets => ((1 << code_bits) - 3, code),
        }
    }
}

const LITERAL_LENGTHS: [(u32, u8); 36] = with_single_values(
    0,
    &[
        (16, 1),
        (18, 1),
        (20, 1),
        (22, 1),
        (24, 2),
        (28, 2),
        (32, 3),
        (40, 3),
        (48, 4),
        (64, 6),
        (128, 7),
        (256, 8),
        (512, 9),
        (1024, 10),
        (2048, 11),
        (4096, 12),
        (8192, 13),
        (16384, 14),
        (32768, 15),
        (65536, 16),
    ],
);

const MATCH_LENGTHS: [(u32, u8); 53] = with_single_values(
    3,
    &[
        (35, 1),
        (37, 1),
        (39, 1),
        (41, 1),
        (43, 2),
        (47, 2),
        (51, 3),
        (59, 3),
        (67, 4),
        (83, 4),
        (99, 5),
        (131, 7),
        (259, 8),
        (515, 9),
        (1027, 10),
        (2051, 11),
        (4099, 12),
        (8195, 13),
        (16387, 14),
        (32771, 15),
        (65539, 16),
    ],
);

/// Returns values that count up from `first` without bits to add, then `ranges`.
const fn with_single_values<const N: usize>(first: u32, ranges: &[(u32, u8)]) -> [(u32, u8); N] {
    let mut values = [(0, 0); N];
    let singles = N - ranges.len();
    let mut code = 0;
    while code < N {
        values[code] =
            if code < singles { (first + code as u32, 0) } else { ranges[code - singles] };
        code += 1;
    }
    values
}

const PREDEFINED_LITERAL_LENGTHS: [i16; 36] = [
    4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1,
    -1, -1, -1, -1,
];
const PREDEFINED_OFFSETS: [i16; 29] =
    [1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1];
const PREDEFINED_MATCH_LENGTHS: [i16; 53] = [
    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
];

static PREDEFINED: LazyLock<[CodeTable; 3]> = LazyLock::new(|| {
    let table = |codes, counts, log| {
        let mut table = CodeTable::new();
        table.fill(codes, &Distribution::of(counts, log));
        table
    };
    [
        table(Codes::LiteralLengths, &PREDEFINED_LITERAL_LENGTHS, 6),
        table(Codes::Offsets, &PREDEFINED_OFFSETS, 5),
        table(Codes::MatchLengths, &PREDEFINED_MATCH_LENGTHS, 6),
    ]
});

/// What a state means.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// Smallest value of the code.
    base: u32,
    /// Next state if its bits are zero.
    next: u16,
    /// Number of bits to read for the next state.
    state_bits: u8,
    /// Number of bits to add to the value.
    value_bits: u8,
}

/// A table of codes.
#[derive(Clone)]
pub(crate) struct CodeTable {
    entries: Box<[Entry; STATES_MAX]>,
    log: u32,
}

impl CodeTable {
    pub fn new() -> Self {
        Self { entries: Box::new([Entry::default(); STATES_MAX]), log: 0 }
    }

    /// Reads the table that `mode` and the beginning of `bytes` describe. Returns the length of the
    /// description. Mode 3 means to keep the table, and is not for this function.
    pub fn read(&mut self, codes: Codes, mode: u8, bytes: &[u8]) -> Result<usize, Defect> {
        let (symbols_max, log_max) = codes.limits();
        match mode {
            0 => {
                let predefined = &PREDEFINED[codes as usize];
                let states = 1 << predefined.log;
                self.entries[..states].copy_from_slice(&predefined.entries[..states]);
                self.log = predefined.log;
                Ok(0)
            }
            1 => {
                let code = *bytes.first().ok_or(Defect::BlockEnds("tables"))?;
                if usize::from(code) >= symbols_max {
                    return Err(Defect::CodeTable);
                }
                let (base, value_bits) = codes.value(code);
                self.entries[0] = Entry { base, next: 0, state_bits: 0, value_bits };
                self.log = 0;
                Ok(1)
            }
            _ => {
                let (distribution, length) =
                    Distribution::read(bytes, symbols_max, log_max).ok_or(Defect::CodeTable)?;
                self.fill(codes, &distribution);
                Ok(length)
            }
        }
    }

    /// Returns the length of the description that [`read`](Self::read) would read.
    pub fn described_bytes(codes: Codes, mode: u8, bytes: &[u8]) -> Result<usize, Defect> {
        let (symbols_max, log_max) = codes.limits();
        match mode {
            0 | 3 => Ok(0),
            1 => Ok(1),
            _ => Distribution::read(bytes, symbols_max, log_max)
                .map(|(_, length)| length)
                .ok_or(Defect::CodeTable),
        }
    }

    fn fill(&mut self, codes: Codes, distribution: &Distribution) {
        self.log = distribution.log;
        distribution.states(|index, state| {
            let (base, value_bits) = codes.value(state.symbol);
            self.entries[index] =
                Entry { base, next: state.next, state_bits: state.bits, value_bits };
        });
    }

    #[inline]
    fn entry(&self, state: usize) -> Entry {
        self.entries[state % STATES_MAX]
    }
}

/// The three tables of a block.
pub(crate) struct CodeTables<'a> {
    pub literal_lengths: &'a CodeTable,
    pub offsets: &'a CodeTable,
    pub match_lengths: &'a CodeTable,
}

/// Totals of a block's sequences.
#[derive(Default)]
pub(crate) struct Totals {
    /// Sequences written: as many as decoded, and one more for each part of a long one.
    pub written: usize,
    /// Literals that the sequences take.
    pub literals: usize,
    /// Bytes that they copy.
    pub copied: usize,
}

/// Most sequences that a block can hold without becoming too large, including parts of long ones:
/// of literals and of matches longer than a sequence can hold, a block has room for two.
pub(crate) const SEQUENCES_MAX: usize = BLOCK_BYTES_MAX / 3 + 3;

/// A sequence with a length that is too long for a word. A block has room for two.
#[derive(Clone, Copy)]
struct Long {
    index: usize,
    literals: u32,
    copied: u32,
}

/// Decodes sequences.
pub(crate) struct Decode<'a> {
    pub stream: BackwardBits<'a>,
    pub tables: CodeTables<'a>,
    /// Number of sequences.
    pub count: usize,
    /// Repeat offsets, before and after.
    pub offsets: &'a mut Offsets,
    pub window_bytes: u32,
    /// Room for the sequences and two more.
    pub target: &'a mut [u64],
}

impl Kernel for Decode<'_> {
    type Output = Result<Totals, Defect>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Self { mut stream, tables, count, offsets, window_bytes, target } = self;
        let mut literal_state = stream.read(tables.literal_lengths.log) as usize;
        let mut offset_state = stream.read(tables.offsets.log) as usize;
        let mut match_state = stream.read(tables.match_lengths.log) as usize;
        let [mut first, mut second, mut third] = offsets.0;
        let mut long = [None::<Long>; 2];
        let mut offset_max = 0;
        let mut unused_bits = 0;
        let bytes = stream.with_lead();
        let mut left = stream.left;
        for (index, target) in target[..count].iter_mut().enumerate() {
            if left < 0 {
                return Err(Defect::SequenceStream);
            }
            let literal_code = tables.literal_lengths.entry(literal_state);
            let offset_code = tables.offsets.entry(offset_state);
            let match_code = tables.match_lengths.entry(match_state);
            let mut window = Window::load(bytes, left);

            let offset_bits = offset_code.value_bits;
            let no_literals = literal_code.base == 0;
            let offset;
            if offset_bits > 1 {
                offset = offset_code.base.wrapping_add(window.take(offset_bits));
                offset_max = offset_max.max(offset);
                (third, second, first) = (second, first, offset);
            } else {
                let choice = offset_code.base + window.take(offset_bits) + u32::from(no_literals);
                match choice {
                    0 => offset = first,
                    1 => {
                        offset = second;
                        (second, first) = (first, offset);
                    }
                    _ => {
                        // 0 is no offset, which executing the sequence will find out.
                        offset = if choice == 2 { third } else { first.wrapping_sub(1) };
                        (third, second, first) = (second, first, offset);
                    }
                }
            }
            let copied = match_code.base + window.take(match_code.value_bits);
            if offset_bits + match_code.value_bits + literal_code.value_bits > VALUE_BITS_MAX {
                window.load_again(bytes, &mut left);
            }
            let literals = literal_code.base + window.take(literal_code.value_bits);

            // After the last sequence there are no more states; what is read here is not used.
            let before = window.valid;
            literal_state =
                usize::from(literal_code.next) + window.take(literal_code.state_bits) as usize;
            match_state =
                usize::from(match_code.next) + window.take(match_code.state_bits) as usize;
            offset_state =
                usize::from(offset_code.next) + window.take(offset_code.state_bits) as usize;
            unused_bits = before - window.valid;
            left = window.left(left);

            if (literals | copied) > Sequence::LENGTH_MAX {
                let found = Long { index, literals, copied };
                // With three of them the block is too large.
                *long.iter_mut().find(|long| long.is_none()).ok_or(Defect::BlockSize)? =
                    Some(found);
                *target = Sequence::new(0, 0, offset).0;
            } else {
                *target = Sequence::new(literals, copied, offset).0;
            }
        }
        if left + unused_bits as isize != 0 {
            return Err(Defect::SequenceStream);
        }
        if offset_max > window_bytes {
            return Err(Defect::OffsetBeyondWindow);
        }
        offsets.0 = [first, second, third];
        let mut totals = Totals { written: count, ..Totals::default() };
        for &packed in &target[..count] {
            totals.literals += Sequence(packed).literals();
            totals.copied += Sequence(packed).copied();
        }
        // From the end, so that the indices stay right.
        for long in long.into_iter().rev().flatten() {
            totals.literals += long.literals as usize;
            totals.copied += long.copied as usize;
            totals.written += divide(target, totals.written, long).ok_or(Defect::BlockSize)?;
        }
        Ok(totals)
    }
}

/// Bits that the values of a sequence may take if the states are to be read from the same window.
const VALUE_BITS_MAX: u8 = (WINDOW_BITS - 9 - 9 - 8) as u8;

/// Divides the sequence at `long.index` into parts. Returns the number of parts that this adds to
/// the `written` sequences, or `None` if there is no room for them: the block is too large.
#[cold]
fn divide(target: &mut [u64], written: usize, long: Long) -> Option<usize> {
    let Long { index, mut literals, mut copied } = long;
    let offset = Sequence(target[index]).offset();
    let mut parts = Vec::with_capacity(4);
    while literals > Sequence::LENGTH_MAX {
        // An offset that is always good: nothing is copied.
        parts.push(Sequence::new(Sequence::LENGTH_MAX, 0, 1).0);
        literals -= Sequence::LENGTH_MAX;
    }
    while copied > Sequence::LENGTH_MAX {
        parts.push(Sequence::new(literals, Sequence::LENGTH_MAX, offset).0);
        literals = 0;
        copied -= Sequence::LENGTH_MAX;
    }
    parts.push(Sequence::new(literals, copied, offset).0);
    let added = parts.len() - 1;
    if written + added > target.len() {
        return None;
    }
    target.copy_within(index + 1..written, index + 1 + added);
    target[index..=index + added].copy_from_slice(&parts);
    Some(added)
}
