//! Account files: sequences of genuine append-vec records.
//!
//! ```text
//!   0 write version 8 | 8 data length 8 | 16 public key 32 | 48 lamports 8 | 56 rent epoch 8
//!  64 owner        32 | 96 executable 1 | 97 padding     7 | 104 old hash 32 | 136 data ...
//! ```
//!
//! A file consists of segments of [`Content::segment_bytes`] (the last one takes the rest), each
//! filled with whole records by its own generator. So any thread can generate any part of any file
//! independently, and a file of 300 MB needs no more memory than a small one. The last record of a
//! segment takes all the remaining space as its data. All other records have natural sizes and
//! begin at multiples of 8.

use crate::mainnet::{self, TOKEN_BYTES, TOKEN_PROGRAM, put};
use crate::random::{Random, SplitMix64};
use std::ops::Range;
use std::str::FromStr;
use thiserror::Error;

/// Length of a segment of small accounts in bytes, a multiple of 8.
const SEGMENT_BYTES: u64 = 256 << 10;

/// Length of a record without data, in bytes: the smallest account file.
pub const RECORD_BYTES_MIN: u64 = HEADER_BYTES as u64;

/// Kind of account data, which determines how the archive compresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Nine of ten accounts are token accounts with random keys. Keys do not compress, everything
    /// else repeats: at zstd level 1 the literals of almost all blocks are stored raw, and the
    /// whole shrinks to about 1/3.5. This is easy for decoders.
    #[default]
    Tokens,
    /// Token accounts and structured program data: numbers, prices, times, text, base58. At zstd
    /// level 1 the literals of almost all blocks are Huffman-coded; the whole shrinks to about
    /// 1/3.3. Decoders need two to three times as long as for [`Tokens`](Self::Tokens).
    Huffman,
    /// The kinds of accounts that mainnet has, in its proportions: 67 % token accounts (some of them
    /// frozen, delegated or native) and mints, 8 % system accounts, 25 % of other programs, among
    /// them accounts of Token-2022, stakes and votes, with data of 600 bytes on average and up to 10 MiB. For tests of what
    /// accounts hold.
    Mainnet,
}

impl Content {
    /// Returns the length of a segment in bytes, a multiple of 8. The largest account fits into one.
    pub fn segment_bytes(self) -> u64 {
        match self {
            Self::Tokens | Self::Huffman => SEGMENT_BYTES,
            Self::Mainnet => mainnet::SEGMENT_BYTES,
        }
    }

    /// Returns the byte ranges of the segments of a file of this size.
    pub fn segments(self, size: u64) -> impl Iterator<Item = Range<u64>> {
        (0..self.segment_count(size)).map(move |segment| self.segment_range(size, segment))
    }

    /// Returns the segment that holds the byte at `offset` of a file of `size` bytes.
    pub fn segment_at(self, size: u64, offset: u64) -> u64 {
        (offset / self.segment_bytes()).min(self.segment_count(size) - 1)
    }

    /// Returns the range of a segment. The last one can be up to twice as long, so that none is too
    /// short.
    pub fn segment_range(self, size: u64, segment: u64) -> Range<u64> {
        let start = segment * self.segment_bytes();
        let is_last = segment + 1 == self.segment_count(size);
        start..if is_last { size } else { start + self.segment_bytes() }
    }

    fn segment_count(self, size: u64) -> u64 {
        (size / self.segment_bytes()).max(1)
    }
}

/// A name of no [`Content`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name:?} is not a kind of content: expected tokens, huffman or mainnet")]
pub struct UnknownContent {
    /// The given name.
    pub name: String,
}

impl FromStr for Content {
    type Err = UnknownContent;

    fn from_str(name: &str) -> Result<Self, UnknownContent> {
        match name {
            "tokens" => Ok(Self::Tokens),
            "huffman" => Ok(Self::Huffman),
            "mainnet" => Ok(Self::Mainnet),
            _ => Err(UnknownContent { name: name.to_owned() }),
        }
    }
}

/// Fills `bytes` with one segment of a file. [`Content::segments`] returns the ranges of all of them.
///
/// # Panics
///
/// If `bytes` is shorter than [`RECORD_BYTES_MIN`].
pub fn fill_segment(content: Content, seed: u64, file: u64, segment: u64, bytes: &mut [u8]) {
    assert!(bytes.len() as u64 >= RECORD_BYTES_MIN, "no room for a record");
    let mut records = Records {
        random: Random::of(&[seed, file, segment]),
        keys_seed: seed,
        clock: GENESIS + file * 400,
        price: 1 << 20,
    };
    bytes.fill(0);
    let mut rest = bytes;
    while !rest.is_empty() {
        let kind = records.pick(content);
        let data_length = records.data_length(content, kind);
        let natural = (HEADER_BYTES + data_length).next_multiple_of(8);
        // The space left after this record must hold another one or be empty.
        let (record, data_length) = if rest.len() < natural + HEADER_BYTES {
            (rest.len(), rest.len() - HEADER_BYTES)
        } else {
            (natural, data_length)
        };
        let (bytes, after) = rest.split_at_mut(record);
        records.write(content, kind, &mut bytes[..HEADER_BYTES + data_length]);
        rest = after;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Token,
    System,
    Program,
    /// Of [`Content::Mainnet`].
    Mainnet(mainnet::Kind),
}

struct Records {
    random: Random,
    keys_seed: u64,
    clock: u64,
    price: u64,
}

impl Records {
    fn pick(&mut self, content: Content) -> Kind {
        let (token_percent, system_percent) = match content {
            Content::Tokens => (90, 5),
            Content::Huffman => (82, 5),
            Content::Mainnet => return Kind::Mainnet(mainnet::pick(&mut self.random)),
        };
        match self.random.below(100) {
            n if n < token_percent => Kind::Token,
            n if n < token_percent + system_percent => Kind::System,
            _ => Kind::Program,
        }
    }

    fn data_length(&mut self, content: Content, kind: Kind) -> usize {
        match (kind, content) {
            (Kind::Token, _) => TOKEN_BYTES,
            (Kind::System, _) => 0,
            (Kind::Mainnet(kind), _) => kind.data_length(&mut self.random),
            (Kind::Program, Content::Tokens) => 64 + self.random.index(448),
            (Kind::Program, _) => 128 + self.random.index(1920),
        }
    }

    /// Writes a record into `bytes`, which must be zero.
    fn write(&mut self, content: Content, kind: Kind, bytes: &mut [u8]) {
        let (header, data) = bytes.split_at_mut(HEADER_BYTES);
        let (owner, lamports) = match kind {
            Kind::Token => (TOKEN_PROGRAM, 2_039_280),
            Kind::System => ([0; 32], self.random.next_u64() >> 24),
            Kind::Program => {
                let program = self.random.log_uniform(PROGRAM_BITS);
                (self.key(KEYS_PROGRAM, program), 890_880 + 6960 * data.len() as u64)
            }
            Kind::Mainnet(kind) => {
                let program = self.random.log_uniform(PROGRAM_BITS);
                let owner = kind.owner().unwrap_or_else(|| self.key(KEYS_PROGRAM, program));
                (owner, kind.lamports(&mut self.random, data.len()))
            }
        };
        put(header, 8, &(data.len() as u64).to_le_bytes());
        self.random.fill(&mut header[16..48]);
        put(header, 48, &lamports.to_le_bytes());
        put(header, 56, &u64::MAX.to_le_bytes()); // exempt from rent
        put(header, 64, &owner);
        if let Kind::Mainnet(kind) = kind {
            kind.adorn(&mut self.random, header);
        }
        match (kind, content) {
            // A token account is truncated or extended if it is a segment's last record.
            (Kind::Token, _) if data.len() >= TOKEN_BYTES => self.token(data),
            (Kind::Token | Kind::System, _) => self.random.fill(data),
            (Kind::Program, Content::Tokens) => self.opaque(data),
            (Kind::Mainnet(kind), _) => self.mainnet(kind, data),
            (Kind::Program, _) => self.structured(data),
        }
    }

    /// Fills in a token account: mint 0, owner 32, amount 64, no delegate 72, initialised 108. The
    /// rest stays zero.
    fn token(&mut self, data: &mut [u8]) {
        let mint = self.random.log_uniform(MINT_BITS);
        put(data, 0, &self.key(KEYS_MINT, mint));
        if self.random.chance(FRESH_OWNERS_PERCENT) {
            self.random.fill(&mut data[32..64]);
        } else {
            let owner = self.random.log_uniform(OWNER_BITS);
            put(data, 32, &self.key(KEYS_OWNER, owner));
        }
        let amount = self.random.next_u64() >> 16;
        put(data, 64, &amount.to_le_bytes());
        data[108] = 1;
    }

    /// Fills in data of mainnet's kinds of accounts.
    fn mainnet(&mut self, kind: mainnet::Kind, data: &mut [u8]) {
        match kind {
            mainnet::Kind::Token if data.len() >= TOKEN_BYTES => {
                self.token(data);
                mainnet::vary_token(&mut self.random, data);
            }
            mainnet::Kind::Mint if data.len() >= mainnet::MINT_BYTES => {
                mainnet::fill_mint(&mut self.random, data);
            }
            mainnet::Kind::Extended if data.len() >= mainnet::EXTENDED_BYTES => {
                self.token(data);
                mainnet::vary_token(&mut self.random, data);
                mainnet::extend(data, 2, 7, mainnet::EXTENDED_BYTES);
            }
            mainnet::Kind::ExtendedMint if data.len() >= mainnet::EXTENDED_MINT_BYTES => {
                mainnet::fill_mint(&mut self.random, data);
                mainnet::extend(data, 1, 18, mainnet::EXTENDED_MINT_BYTES);
            }
            mainnet::Kind::Vote if data.len() >= mainnet::VOTE_BYTES => {
                let node = self.random.log_uniform(VOTER_BITS);
                let node = self.key(KEYS_VOTER, node);
                mainnet::fill_vote(&mut self.random, &node, data);
            }
            mainnet::Kind::Stake if data.len() >= mainnet::STAKE_BYTES => {
                let voter = self.random.log_uniform(VOTER_BITS);
                let voter = self.key(KEYS_VOTER, voter);
                mainnet::fill_stake(&mut self.random, &voter, data);
            }
            mainnet::Kind::Other => self.structured(data),
            // Of another length, since it is a segment's last record.
            _ => self.random.fill(data),
        }
    }

    /// Fills in program data without structure that a Huffman code could use: keys with gaps
    /// between them.
    fn opaque(&mut self, data: &mut [u8]) {
        for field in data.chunks_mut(64) {
            let key = field.len().min(32);
            self.random.fill(&mut field[..key]);
        }
    }

    /// Fills in typical program data: fields of a few kinds, most of them far from random.
    fn structured(&mut self, data: &mut [u8]) {
        let mut rest = data;
        while !rest.is_empty() {
            let (field, after) = rest.split_at_mut(FIELD_BYTES.min(rest.len()));
            match self.random.below(16) {
                0..3 => self.integers(field),
                3..6 => self.quotes(field),
                6..9 => self.text(field),
                9 => self.base58(field),
                _ => {} // unused space
            }
            rest = after;
        }
    }

    /// Fills in counters and amounts: 8-byte integers of all magnitudes.
    fn integers(&mut self, field: &mut [u8]) {
        for integer in field.as_chunks_mut::<4>().0 {
            let [a, b, c, ..] = self.random.log_uniform(20).to_le_bytes();
            *integer = [a, b, c, 0];
        }
    }

    /// Fills in price, confidence and time, repeatedly: a random walk along a clock.
    fn quotes(&mut self, field: &mut [u8]) {
        for quote in field.chunks_exact_mut(24) {
            let step = self.random.next_u64();
            self.price = self.price.wrapping_add(step & 0xFFF).wrapping_sub(0x7FF) & 0xFFF_FFFF;
            self.clock += step >> 62;
            put(quote, 0, &self.price.to_le_bytes());
            put(quote, 8, &(step >> 16 & 0xFFFF).to_le_bytes());
            put(quote, 16, &self.clock.to_le_bytes());
        }
    }

    fn text(&mut self, field: &mut [u8]) {
        let mut rest = field;
        while !rest.is_empty() {
            let word = self.random.pick(&WORDS).as_bytes();
            let length = word.len().min(rest.len());
            let (place, after) = rest.split_at_mut(length);
            place.copy_from_slice(&word[..length]);
            rest = after;
        }
    }

    fn base58(&mut self, field: &mut [u8]) {
        for digits in field.chunks_mut(8) {
            let mut word = self.random.next_u64();
            for digit in digits {
                *digit = BASE58[(word & 63) as usize];
                word >>= 8;
            }
        }
    }

    /// Returns the key with this number: the same in all files of all archives of one seed.
    fn key(&self, family: u64, number: u64) -> [u8; 32] {
        let mut words = SplitMix64::new(self.keys_seed ^ family ^ number << 8);
        let mut key = [0; 32];
        for word in key.as_chunks_mut::<8>().0 {
            *word = words.next_u64().to_le_bytes();
        }
        key
    }
}

pub(crate) const HEADER_BYTES: usize = 136;
/// Length of a field of structured data in bytes: enough for two quotes.
const FIELD_BYTES: usize = 48;

/// Percentage of token accounts whose owner occurs nowhere else, as in the corpus `sol` of the
/// experiments.
const FRESH_OWNERS_PERCENT: u64 = 24;
/// Logarithms of the numbers of mints, owners and programs. Chosen so that the archives compress
/// like those measured before: more distinct keys, fewer matches.
const MINT_BITS: u32 = 15;
const OWNER_BITS: u32 = 18;
const PROGRAM_BITS: u32 = 8;
const VOTER_BITS: u32 = 10;
/// Families of keys, far apart.
const KEYS_MINT: u64 = 1 << 61;
const KEYS_OWNER: u64 = 2 << 61;
const KEYS_PROGRAM: u64 = 3 << 61;
const KEYS_VOTER: u64 = 5 << 60;

/// Start of the first file's clock: 16 March 2020, in seconds since 1970.
const GENESIS: u64 = 1_584_368_940;

/// The 58 digits, and six of them again so that six bits can index the array.
const BASE58: &[u8; 64] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456";

const WORDS: [&str; 16] = [
    "the ",
    "token ",
    "of ",
    "account ",
    "https://",
    "metadata",
    ".json",
    "name: ",
    "symbol ",
    "uri=",
    "creator ",
    "verified ",
    "share ",
    "collection ",
    "edition ",
    "ipfs/",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: Content, seed: u64, number: u64, size: u64) -> Vec<u8> {
        let mut bytes = vec![0xFF; usize::try_from(size).unwrap()];
        for (segment, range) in content.segments(size).enumerate() {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            fill_segment(content, seed, number, segment as u64, &mut bytes[range]);
        }
        bytes
    }

    /// Walks the records as a validator does and returns the data lengths.
    fn data_lengths(file: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut offset = 0;
        while file.len() - offset >= HEADER_BYTES {
            let header = &file[offset..offset + HEADER_BYTES];
            let length = crate::length(u64::from_le_bytes(header[8..16].try_into().unwrap()));
            assert_ne!(header[16..48], [0; 32], "empty record at {offset}");
            assert!(
                offset + HEADER_BYTES + length <= file.len(),
                "record at {offset} is truncated"
            );
            assert!(header[96] <= 1);
            lengths.push(length);
            offset = (offset + HEADER_BYTES + length).next_multiple_of(8).min(file.len());
        }
        assert_eq!(offset, file.len());
        lengths
    }

    #[test]
    fn files_of_every_size_hold_whole_records() {
        for content in [Content::Tokens, Content::Huffman, Content::Mainnet] {
            for size in (136..1500).chain([8192, 71_489, 262_144, 524_287, 524_288, 1_000_001]) {
                assert!(!data_lengths(&file(content, 1, 2, size)).is_empty());
            }
        }
    }

    #[test]
    fn nine_of_ten_accounts_are_tokens() {
        let lengths = data_lengths(&file(Content::Tokens, 3, 0, 4 << 20));
        let tokens = lengths.iter().filter(|&&length| length == TOKEN_BYTES).count();
        let percent = tokens * 100 / lengths.len();
        assert!((88..=92).contains(&percent), "{percent}");
    }

    #[test]
    fn seeds_files_and_segments_differ() {
        let size = 3 * SEGMENT_BYTES;
        let one = file(Content::Tokens, 0, 0, size);
        assert_eq!(one, file(Content::Tokens, 0, 0, size));
        assert_ne!(one, file(Content::Tokens, 1, 0, size));
        assert_ne!(one, file(Content::Tokens, 0, 1, size));
        let segment = usize::try_from(SEGMENT_BYTES).unwrap();
        assert_ne!(one[..segment], one[segment..2 * segment]);
    }

    #[test]
    fn segments_cover_files_without_gaps() {
        for content in [Content::Tokens, Content::Mainnet] {
            let segment_bytes = content.segment_bytes();
            for size in [1, 136, segment_bytes, 2 * segment_bytes - 1, 5 * segment_bytes + 7] {
                let mut end = 0;
                for (segment, range) in (0..).zip(content.segments(size)) {
                    assert_eq!(range.start, end);
                    assert_eq!(content.segment_at(size, range.start), segment);
                    assert_eq!(content.segment_at(size, range.end - 1), segment);
                    end = range.end;
                }
                assert_eq!(end, size);
            }
        }
    }

    #[test]
    fn the_token_program_has_its_name() {
        let name = bs58::encode(TOKEN_PROGRAM).into_string();
        assert_eq!(name, "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
    }
}
