//! The kinds of accounts that mainnet has: [`Content::Mainnet`](crate::content::Content::Mainnet).
//!
//! Of mainnet's accounts, 67 % belong to the token program and 8 % to the system program (2025).
//! The layouts of token accounts and mints are those of the SPL token program (`state.rs`), that of
//! stake accounts is `StakeStateV2` of Solana's stake interface:
//!
//! ```text
//! token account  mint 0 | owner 32 | amount 64 | delegate 4+32 72 | state 108 | native 4+8 109
//!                | delegated amount 121 | close authority 4+32 129                       165 bytes
//! mint           authority 4+32 0 | supply 36 | decimals 44 | initialised 45
//!                | freeze authority 4+32 46                                               82 bytes
//! stake          kind 4 0 | rent reserve 4 | staker 12 | withdrawer 44 | lockup 76 | custodian 92
//!                | voter 124 | stake 156 | activation 164 | deactivation 172 | rate 180
//!                | credits 188 | flags 196                                               200 bytes
//! ```

use crate::random::Random;

/// Length of a segment: the largest account fits into one.
pub(crate) const SEGMENT_BYTES: u64 = 16 << 20;

/// Length of a token account's data in bytes.
pub(crate) const TOKEN_BYTES: usize = 165;
/// Length of a mint's data in bytes.
pub(crate) const MINT_BYTES: usize = 82;
/// Length of a stake account's data in bytes.
pub(crate) const STAKE_BYTES: usize = 200;

/// `TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA`.
pub(crate) const TOKEN_PROGRAM: [u8; 32] = [
    0x06, 0xDD, 0xF6, 0xE1, 0xD7, 0x65, 0xA1, 0x93, 0xD9, 0xCB, 0xE1, 0x46, 0xCE, 0xEB, 0x79, 0xAC,
    0x1C, 0xB4, 0x85, 0xED, 0x5F, 0x5B, 0x37, 0x91, 0x3A, 0x8C, 0xF5, 0x85, 0x7E, 0xFF, 0x00, 0xA9,
];

/// `Stake11111111111111111111111111111111111111`.
pub(crate) const STAKE_PROGRAM: [u8; 32] = [
    0x06, 0xA1, 0xD8, 0x17, 0x91, 0x37, 0x54, 0x2A, 0x98, 0x34, 0x37, 0xBD, 0xFE, 0x2A, 0x7A, 0xB2,
    0x55, 0x7F, 0x53, 0x5C, 0x8A, 0x78, 0x72, 0x2B, 0x68, 0xA4, 0x9D, 0xC0, 0x00, 0x00, 0x00, 0x00,
];

/// Sizes of other programs' data: per 100,000 accounts, and from where to where. The last record of
/// a segment may be a little longer, which must not exceed the 10 MiB that an account may have.
const OTHER_BYTES: [(u64, usize, usize); 6] = [
    (60_000, 32, 256),
    (95_000, 256, 1024),
    (99_500, 1024, 4096),
    (99_953, 4096, 32 << 10),
    (99_998, 32 << 10, 256 << 10),
    (100_000, 256 << 10, (10 << 20) - 512),
];

/// `TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb`.
pub(crate) const TOKEN_2022_PROGRAM: [u8; 32] = [
    0x06, 0xDD, 0xF6, 0xE1, 0xEE, 0x75, 0x8F, 0xDE, 0x18, 0x42, 0x5D, 0xBC, 0xE4, 0x6C, 0xCD, 0xDA,
    0xB6, 0x1A, 0xFC, 0x4D, 0x83, 0xB9, 0x0D, 0x27, 0xFE, 0xBD, 0xF9, 0x28, 0xD8, 0xA1, 0x8B, 0xFC,
];

/// `Vote111111111111111111111111111111111111111`.
pub(crate) const VOTE_PROGRAM: [u8; 32] = [
    0x07, 0x61, 0x48, 0x1D, 0x35, 0x74, 0x74, 0xBB, 0x7C, 0x4D, 0x76, 0x24, 0xEB, 0xD3, 0xBD, 0xB3,
    0xD8, 0x35, 0x5E, 0x73, 0xD1, 0x10, 0x43, 0xFC, 0x0D, 0xA3, 0x53, 0x80, 0x00, 0x00, 0x00, 0x00,
];

/// Length of the data of a Token-2022 account whose owner cannot change.
pub(crate) const EXTENDED_BYTES: usize = TOKEN_BYTES + 1 + 4;
/// Length of the data of a Token-2022 mint that points to metadata.
pub(crate) const EXTENDED_MINT_BYTES: usize = TOKEN_BYTES + 1 + 4 + 64;
/// Length of a vote account's data in bytes.
pub(crate) const VOTE_BYTES: usize = 3762;
/// Number of votes in a vote account.
pub(crate) const VOTES: usize = 31;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Token,
    Mint,
    /// A token account of Token-2022.
    Extended,
    /// A mint of Token-2022.
    ExtendedMint,
    System,
    Stake,
    Vote,
    Other,
}

pub(crate) fn pick(random: &mut Random) -> Kind {
    match random.below(1000) {
        0..660 => Kind::Token,
        660..670 => Kind::Mint,
        670..750 => Kind::System,
        750..765 => Kind::Stake,
        765..775 => Kind::Extended,
        775..777 => Kind::ExtendedMint,
        777..780 => Kind::Vote,
        _ => Kind::Other,
    }
}

impl Kind {
    pub fn data_length(self, random: &mut Random) -> usize {
        match self {
            Self::Token => TOKEN_BYTES,
            Self::Mint => MINT_BYTES,
            Self::Extended => EXTENDED_BYTES,
            Self::ExtendedMint => EXTENDED_MINT_BYTES,
            Self::Vote => VOTE_BYTES,
            Self::System => 0,
            Self::Stake => STAKE_BYTES,
            Self::Other => {
                let share = random.below(100_000);
                let sizes = OTHER_BYTES.iter().find(|(end, ..)| share < *end);
                let (_, from, to) = *sizes.expect("the last share is the end");
                from + random.index(to - from)
            }
        }
    }

    /// Returns the owner; `None` for any other program.
    pub fn owner(self) -> Option<[u8; 32]> {
        match self {
            Self::Token | Self::Mint => Some(TOKEN_PROGRAM),
            Self::Extended | Self::ExtendedMint => Some(TOKEN_2022_PROGRAM),
            Self::Vote => Some(VOTE_PROGRAM),
            Self::System => Some([0; 32]),
            Self::Stake => Some(STAKE_PROGRAM),
            Self::Other => None,
        }
    }

    pub fn lamports(self, random: &mut Random, data_bytes: usize) -> u64 {
        let exempt = 890_880 + 6960 * data_bytes as u64;
        match self {
            // A closed account remains until it is cleaned.
            Self::System if random.chance(6) => 0,
            Self::System => random.next_u64() >> 24,
            Self::Stake => exempt + (random.next_u64() >> 20),
            _ => exempt,
        }
    }

    /// Changes a header as few accounts have it: rent was collected, or the data is a program.
    pub fn adorn(self, random: &mut Random, header: &mut [u8]) {
        if random.chance(6) {
            put(header, 56, &0_u64.to_le_bytes());
        }
        if self == Self::Other && random.chance(2) {
            header[96] = 1;
        }
    }
}

/// Gives a token account what few of them have.
pub(crate) fn vary_token(random: &mut Random, data: &mut [u8]) {
    match random.below(10) {
        0..3 => put(data, 64, &0_u64.to_le_bytes()),
        // Half of these amounts do not fit a signed number.
        3 => put(data, 64, &random.next_u64().to_le_bytes()),
        _ => {}
    }
    if random.chance(5) {
        some_key(random, &mut data[72..108]);
        put(data, 121, &random.next_u64().to_le_bytes());
    }
    if random.chance(3) {
        data[108] = 2; // frozen
    }
    if random.chance(4) {
        data[109] = 1;
        put(data, 113, &2_039_280_u64.to_le_bytes());
    }
    if random.chance(6) {
        some_key(random, &mut data[129..165]);
    }
}

pub(crate) fn fill_mint(random: &mut Random, data: &mut [u8]) {
    if random.chance(50) {
        some_key(random, &mut data[..36]);
    }
    put(data, 36, &random.next_u64().to_le_bytes());
    data[44] = u8::try_from(random.below(10)).expect("one digit");
    data[45] = 1;
    if random.chance(30) {
        some_key(random, &mut data[46..82]);
    }
}

pub(crate) fn fill_stake(random: &mut Random, voter: &[u8; 32], data: &mut [u8]) {
    let is_delegated = random.chance(90);
    data[0] = if is_delegated { 2 } else { 1 };
    put(data, 4, &2_282_880_u64.to_le_bytes());
    random.fill(&mut data[12..44]);
    data.copy_within(12..44, 44);
    if !is_delegated {
        return;
    }
    put(data, 124, voter);
    put(data, 156, &(random.next_u64() >> 20).to_le_bytes());
    let activation = random.below(800);
    put(data, 164, &activation.to_le_bytes());
    let deactivation = if random.chance(10) { activation + 1 } else { u64::MAX };
    put(data, 172, &deactivation.to_le_bytes());
    put(data, 180, &0.25_f64.to_le_bytes());
    put(data, 188, &random.below(1 << 32).to_le_bytes());
}

/// Writes the type of a Token-2022 account and one extension, which takes the rest of its `length`.
pub(crate) fn extend(data: &mut [u8], account_type: u8, extension: u16, length: usize) {
    data[TOKEN_BYTES] = account_type;
    let value = length - TOKEN_BYTES - 1 - 4;
    put(data, TOKEN_BYTES + 1, &extension.to_le_bytes());
    put(data, TOKEN_BYTES + 3, &u16::try_from(value).expect("a short value").to_le_bytes());
}

/// Fills in a vote account of any of the three versions.
pub(crate) fn fill_vote(random: &mut Random, node: &[u8; 32], data: &mut [u8]) {
    let version = 1 + random.index(3);
    data[0] = u8::try_from(version).expect("one of three");
    put(data, 4, node);
    random.fill(&mut data[36..68]);
    let mut at = 68;
    let mut add = |bytes: &[u8]| {
        put(data, at, bytes);
        at += bytes.len();
    };
    let commission = random.below(101);
    if version == 3 {
        let mut collectors = [0; 64];
        random.fill(&mut collectors);
        add(&collectors);
        // With a fraction of a percent.
        add(&u16::try_from(commission * 100 + 5).expect("small").to_le_bytes());
        add(&[0; 2 + 8 + 1]);
    } else {
        add(&[u8::try_from(commission).expect("a percentage")]);
    }
    add(&(VOTES as u64).to_le_bytes());
    let root = random.below(1 << 40);
    for vote in 1..=VOTES as u64 {
        if version > 1 {
            add(&[1]);
        }
        add(&(root + vote).to_le_bytes());
        add(&u32::try_from(32 - vote).expect("small").to_le_bytes());
    }
    add(&[1]);
    add(&root.to_le_bytes());
    let epoch = root / 432_000;
    add(&1_u64.to_le_bytes());
    add(&epoch.to_le_bytes());
    let mut voter = [0; 32];
    random.fill(&mut voter);
    add(&voter);
    if version < 3 {
        add(&[0; 1545]);
    }
    let credits = random.below(1 << 50);
    for number in [2, epoch, credits, credits / 2, epoch + 1, credits + 99, credits] {
        add(&number.to_le_bytes());
    }
    add(&(root + VOTES as u64).to_le_bytes());
    add(&(1_700_000_000 + root).to_le_bytes());
}

/// Writes an optional key that is there.
fn some_key(random: &mut Random, field: &mut [u8]) {
    field[0] = 1;
    random.fill(&mut field[4..36]);
}

/// Writes a value at an offset.
pub(crate) fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_their_names() {
        for (program, name) in [
            (STAKE_PROGRAM, "Stake11111111111111111111111111111111111111"),
            (TOKEN_2022_PROGRAM, "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"),
            (VOTE_PROGRAM, "Vote111111111111111111111111111111111111111"),
        ] {
            assert_eq!(bs58::encode(program).into_string(), name);
        }
    }

    #[test]
    fn other_programs_have_data_of_all_sizes() {
        let mut random = Random::new(0);
        let draws = 400_000;
        let sizes: Vec<usize> = (0..draws).map(|_| Kind::Other.data_length(&mut random)).collect();
        let mean = sizes.iter().sum::<usize>() / draws;
        assert!((500..900).contains(&mean), "{mean}");
        let largest = sizes.iter().max().copied().unwrap_or_default();
        assert!((4 << 20..10 << 20).contains(&largest), "{largest}");
    }
}
