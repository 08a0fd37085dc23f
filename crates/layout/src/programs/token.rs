//! Accounts of the token programs.
//!
//! ```text
//! token account  mint 0 | owner 32 | amount 64 | delegate 4+32 72 | state 108 | native 4+8 109
//!                | delegated amount 121 | close authority 4+32 129                       165 bytes
//! mint           authority 4+32 0 | supply 36 | decimals 44 | initialised 45
//!                | freeze authority 4+32 46                                               82 bytes
//! multisig                                                                               355 bytes
//! ```
//!
//! Token-2022 has the same, and with extensions zeros up to byte 165, there the type (1 for a mint, 2
//! for a token account), then the extensions. It never gives an account the length of a multisig.

use super::{
    TOKEN_2022_PROGRAM, TOKEN_PROGRAM,
    fields::{Fields, Malformed},
};

const ACCOUNT_BYTES: usize = 165;
const MINT_BYTES: usize = 82;
const MULTISIG_BYTES: usize = 355;

const TYPE_MINT: u8 = 1;
const TYPE_ACCOUNT: u8 = 2;

const STATE_INITIALIZED: u8 = 1;
const STATE_FROZEN: u8 = 2;

/// Data of an account of a token program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenData {
    /// Somebody's amount of a token.
    Account(TokenAccountData),
    /// A token.
    Mint(MintData),
    /// Keys of which several must sign.
    Multisig,
}

/// Somebody's amount of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenAccountData {
    /// The token.
    pub mint: [u8; 32],
    /// The holder.
    pub owner: [u8; 32],
    /// Amount in the smallest unit.
    pub amount: u64,
    /// Who may spend a part.
    pub delegate: Option<[u8; 32]>,
    /// How much the delegate may spend.
    pub delegated_amount: u64,
    /// Whether nothing may be moved.
    pub is_frozen: bool,
    /// Of wrapped SOL, the lamports that are not part of the amount.
    pub native_reserve: Option<u64>,
    /// Who may close the account; `None` for the holder.
    pub close_authority: Option<[u8; 32]>,
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MintData {
    /// Who may make more.
    pub mint_authority: Option<[u8; 32]>,
    /// Amount of all, in the smallest unit.
    pub supply: u64,
    /// Digits after the point.
    pub decimals: u8,
    /// Who may freeze accounts.
    pub freeze_authority: Option<[u8; 32]>,
}

impl TokenData {
    /// Returns whether a program is a token program.
    pub fn is_program(program: &[u8; 32]) -> bool {
        *program == TOKEN_PROGRAM || *program == TOKEN_2022_PROGRAM
    }

    /// Decodes the data of an account of a token program; `None` if the program would not accept it:
    /// another layout, or not initialised.
    pub fn decode(program: &[u8; 32], data: &[u8]) -> Option<Self> {
        match data.len() {
            MULTISIG_BYTES => Some(Self::Multisig),
            ACCOUNT_BYTES => TokenAccountData::read(data).ok().map(Self::Account),
            MINT_BYTES => MintData::read(data).ok().map(Self::Mint),
            _ if *program == TOKEN_2022_PROGRAM => Self::decode_extended(data),
            _ => None,
        }
    }

    fn decode_extended(data: &[u8]) -> Option<Self> {
        match *data.get(ACCOUNT_BYTES)? {
            TYPE_ACCOUNT => TokenAccountData::read(data).ok().map(Self::Account),
            TYPE_MINT => {
                let gap = data.get(MINT_BYTES..ACCOUNT_BYTES)?;
                let mint = MintData::read(data).ok().map(Self::Mint);
                mint.filter(|_| gap.iter().all(|byte| *byte == 0))
            }
            _ => None,
        }
    }
}

impl TokenAccountData {
    fn read(data: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(data);
        let (mint, owner, amount) = (fields.key()?, fields.key()?, fields.u64()?);
        let delegate = fields.c_option(Fields::key)?;
        let is_frozen = match fields.byte()? {
            STATE_INITIALIZED => false,
            STATE_FROZEN => true,
            _ => return Err(Malformed),
        };
        let native_reserve = fields.c_option(Fields::u64)?;
        let delegated_amount = fields.u64()?;
        let close_authority = fields.c_option(Fields::key)?;
        Ok(Self {
            mint,
            owner,
            amount,
            delegate,
            delegated_amount,
            is_frozen,
            native_reserve,
            close_authority,
        })
    }
}

impl MintData {
    fn read(data: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(data);
        let mint_authority = fields.c_option(Fields::key)?;
        let (supply, decimals) = (fields.u64()?, fields.byte()?);
        let is_initialized = fields.byte()? == 1;
        let freeze_authority = fields.c_option(Fields::key)?;
        let mint = Self { mint_authority, supply, decimals, freeze_authority };
        is_initialized.then_some(mint).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Vec<u8> {
        let mut data = vec![0; ACCOUNT_BYTES];
        data[..32].fill(1);
        data[32..64].fill(2);
        data[64..72].copy_from_slice(&u64::MAX.to_le_bytes());
        data[108] = 1;
        data
    }

    fn mint() -> Vec<u8> {
        let mut data = vec![0; MINT_BYTES];
        data[36..44].copy_from_slice(&7_u64.to_le_bytes());
        (data[44], data[45]) = (9, 1);
        data
    }

    fn classic(data: &[u8]) -> Option<TokenData> {
        TokenData::decode(&TOKEN_PROGRAM, data)
    }

    fn newer(data: &[u8]) -> Option<TokenData> {
        TokenData::decode(&TOKEN_2022_PROGRAM, data)
    }

    #[test]
    fn every_field_is_read_from_its_place() {
        let plain = TokenAccountData {
            mint: [1; 32],
            owner: [2; 32],
            amount: u64::MAX,
            delegate: None,
            delegated_amount: 0,
            is_frozen: false,
            native_reserve: None,
            close_authority: None,
        };
        assert_eq!(classic(&account()), Some(TokenData::Account(plain)));
        let mut data = account();
        (data[72], data[109], data[129]) = (1, 1, 1);
        data[76..108].fill(3);
        data[108] = 2;
        data[113..121].copy_from_slice(&4_u64.to_le_bytes());
        data[121..129].copy_from_slice(&5_u64.to_le_bytes());
        data[133..].fill(6);
        let full = TokenAccountData {
            delegate: Some([3; 32]),
            delegated_amount: 5,
            is_frozen: true,
            native_reserve: Some(4),
            close_authority: Some([6; 32]),
            ..plain
        };
        assert_eq!(classic(&data), Some(TokenData::Account(full)));
        let plain =
            MintData { mint_authority: None, supply: 7, decimals: 9, freeze_authority: None };
        assert_eq!(classic(&mint()), Some(TokenData::Mint(plain)));
        let mut data = mint();
        (data[0], data[46]) = (1, 1);
        data[4..36].fill(8);
        data[50..].fill(9);
        let full =
            MintData { mint_authority: Some([8; 32]), freeze_authority: Some([9; 32]), ..plain };
        assert_eq!(classic(&data), Some(TokenData::Mint(full)));
        assert_eq!(classic(&[0; MULTISIG_BYTES]), Some(TokenData::Multisig));
    }

    #[test]
    fn what_the_program_refuses_is_not_decoded() {
        for (at, value) in [(72, 2), (73, 1), (108, 0), (108, 3), (109, 2), (112, 1), (129, 255)] {
            let mut data = account();
            data[at] = value;
            assert_eq!((classic(&data), newer(&data)), (None, None), "{value} at {at}");
        }
        for (at, value) in [(0, 2), (3, 1), (45, 0), (45, 2), (46, 7), (49, 1)] {
            let mut data = mint();
            data[at] = value;
            assert_eq!((classic(&data), newer(&data)), (None, None), "{value} at {at}");
        }
        for length in (0..ACCOUNT_BYTES).filter(|length| *length != MINT_BYTES) {
            let data = &account()[..length];
            assert_eq!((classic(data), newer(data)), (None, None), "{length}");
        }
    }

    #[test]
    fn only_the_newer_program_has_extensions() {
        let extended = |base: &[u8], kind: u8, extensions: usize| {
            let mut data = base.to_vec();
            data.resize(ACCOUNT_BYTES, 0);
            data.push(kind);
            data.resize(data.len() + extensions, 0xEE);
            data
        };
        for extensions in [0, 4, 1000] {
            let (account, mint) = (&account(), &mint());
            assert_eq!(newer(&extended(account, 2, extensions)), classic(account));
            assert_eq!(newer(&extended(mint, 1, extensions)), classic(mint));
            for wrong in [extended(account, 1, extensions), extended(mint, 2, extensions)] {
                assert_eq!(newer(&wrong), None, "of the other type");
            }
            for kind in [0, 3, 255] {
                assert_eq!(newer(&extended(account, kind, extensions)), None);
            }
            assert_eq!(classic(&extended(account, 2, extensions)), None);
        }
        let mut gap = extended(&mint(), 1, 0);
        gap[MINT_BYTES] = 1;
        assert_eq!(newer(&gap), None);
        let as_multisig = extended(&account(), 2, MULTISIG_BYTES - ACCOUNT_BYTES - 1);
        assert_eq!(newer(&as_multisig), Some(TokenData::Multisig));
    }
}
