//! Tables in force, which blocks hand on to those after them.
//!
//! A chunk of blocks must not wait for the chunks in front of it. So who divides a frame into chunks
//! also looks at the few bytes of each block that say what tables it describes, and keeps copies of
//! the latest descriptions. A chunk gets the copies that were in force at its start. It builds a
//! table from them only if it needs it, which is rare: most blocks describe their own.

use crate::{
    Defect,
    bits::LEAD_BYTES,
    huffman::HuffmanTable,
    literals::{LiteralKind, LiteralsHeader},
    section::SequencesHeader,
    sequences::{ALL_CODES, CodeTable, CodeTables, Codes},
};

/// Longest description of a Huffman table: a byte, and 128 weights in 64 bytes or 127 bytes coded.
const HUFFMAN_BYTES_MAX: usize = 128;

/// Longest descriptions of the three tables of codes together. Each of the 121 symbols takes at most
/// 10 bits for its count, and 2 for a zero; each table begins with 4 bits, and ends with a byte begun.
const CODES_BYTES_MAX: usize = (121 * 12 + 3 * 4) / 8 + 3;

/// Copies of the descriptions in force.
#[derive(Clone)]
pub(crate) struct Descriptions {
    huffman: Option<Copied<HUFFMAN_BYTES_MAX>>,
    /// For each kind of codes, the modes and descriptions of the latest block that had one.
    codes: [Option<(u8, Copied<CODES_BYTES_MAX>)>; 3],
}

/// The beginning of some bytes.
#[derive(Clone)]
struct Copied<const MAX: usize> {
    /// The bytes, then zeros.
    bytes: [u8; MAX],
    length: usize,
}

impl<const MAX: usize> Copied<MAX> {
    fn of(bytes: &[u8]) -> Self {
        let length = bytes.len().min(MAX);
        let mut copied = Self { bytes: [0; MAX], length };
        copied.bytes[..length].copy_from_slice(&bytes[..length]);
        copied
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Descriptions {
    /// Returns those at the start of a frame: none.
    pub fn none() -> Self {
        Self { huffman: None, codes: [const { None }; 3] }
    }

    /// Notes what the compressed block `block` describes. If the block is damaged, decoding it will
    /// say so, and nothing after it is decoded.
    pub fn note(&mut self, block: &[u8], block_bytes_max: usize) {
        let Ok(literals) = LiteralsHeader::parse(block, block_bytes_max) else { return };
        if literals.kind == LiteralKind::Coded {
            self.huffman = Some(Copied::of(&block[literals.header_bytes..literals.bytes()]));
        }
        let sequences = &block[literals.bytes()..];
        let Ok(header) = SequencesHeader::parse(sequences) else { return };
        let described = Copied::of(&sequences[header.header_bytes..]);
        for codes in ALL_CODES {
            if header.count > 0 && header.mode(codes) != SequencesHeader::KEEP {
                self.codes[codes as usize] = Some((header.modes, described.clone()));
            }
        }
    }
}

/// The tables of one thread, for one chunk after the other.
pub(crate) struct Tables {
    huffman: HuffmanTable,
    has_huffman: bool,
    codes: [CodeTable; 3],
    has_codes: [bool; 3],
    /// In force at the start of the chunk.
    carried: Descriptions,
}

impl Tables {
    pub fn new() -> Self {
        Self {
            huffman: HuffmanTable::new(),
            has_huffman: false,
            codes: std::array::from_fn(|_| CodeTable::new()),
            has_codes: [false; 3],
            carried: Descriptions::none(),
        }
    }

    /// Starts a chunk.
    pub fn begin(&mut self, carried: &Descriptions) {
        self.has_huffman = false;
        self.has_codes = [false; 3];
        self.carried.clone_from(carried);
    }

    /// Reads the table described at `input[start..]`. Also returns the length of its description.
    pub fn read_huffman(
        &mut self,
        input: &[u8],
        start: usize,
    ) -> Result<(&HuffmanTable, usize), Defect> {
        self.has_huffman = false;
        let length = self.huffman.read(input, start)?;
        self.has_huffman = true;
        Ok((&self.huffman, length))
    }

    /// Returns the table in force.
    pub fn huffman(&mut self) -> Result<&HuffmanTable, Defect> {
        if !self.has_huffman {
            let copied = self.carried.huffman.as_ref().ok_or(Defect::NoHuffmanTable)?;
            let mut input = [0; LEAD_BYTES + HUFFMAN_BYTES_MAX];
            let end = LEAD_BYTES + copied.length;
            input[LEAD_BYTES..end].copy_from_slice(copied.bytes());
            self.huffman.read(&input[..end], LEAD_BYTES)?;
            self.has_huffman = true;
        }
        Ok(&self.huffman)
    }

    /// Reads the tables that `header` announces, described at the beginning of `bytes`. Returns the
    /// length of their descriptions.
    pub fn read_codes(&mut self, header: &SequencesHeader, bytes: &[u8]) -> Result<usize, Defect> {
        let mut at = 0;
        for codes in ALL_CODES {
            let mode = header.mode(codes);
            if mode == SequencesHeader::KEEP {
                self.keep(codes)?;
            } else {
                self.has_codes[codes as usize] = false;
                let rest = bytes.get(at..).ok_or(Defect::BlockEnds("tables"))?;
                at += self.codes[codes as usize].read(codes, mode, rest)?;
                self.has_codes[codes as usize] = true;
            }
        }
        Ok(at)
    }

    /// Makes sure that the table of the block before is there.
    fn keep(&mut self, codes: Codes) -> Result<(), Defect> {
        let index = codes as usize;
        if self.has_codes[index] {
            return Ok(());
        }
        let (modes, copied) = self.carried.codes[index].as_ref().ok_or(Defect::NoCodeTable)?;
        let header = SequencesHeader { count: 1, modes: *modes, header_bytes: 0 };
        let mut rest = copied.bytes();
        for before in ALL_CODES.into_iter().take(index) {
            let length = CodeTable::described_bytes(before, header.mode(before), rest)?;
            rest = rest.get(length..).ok_or(Defect::BlockEnds("tables"))?;
        }
        self.codes[index].read(codes, header.mode(codes), rest)?;
        self.has_codes[index] = true;
        Ok(())
    }

    /// Returns the tables in force, which [`read_codes`](Self::read_codes) has made complete.
    pub fn codes(&self) -> CodeTables<'_> {
        let [literal_lengths, offsets, match_lengths] = &self.codes;
        CodeTables { literal_lengths, offsets, match_lengths }
    }
}
