//! Answers about what programs keep in generated accounts, by the offsets that the generator writes.

use super::Row;
use crate::mainnet::{
    EXTENDED_BYTES, EXTENDED_MINT_BYTES, MINT_BYTES, STAKE_BYTES, STAKE_PROGRAM,
    TOKEN_2022_PROGRAM, TOKEN_BYTES, TOKEN_PROGRAM, VOTE_BYTES, VOTE_PROGRAM, VOTES,
};

/// Length of accounts that are multisigs for both token programs.
const MULTISIG_BYTES: usize = 355;

/// Rows of a table as text, keys in hexadecimal digits, and the records that have none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// The rows' names and values, in the order of the columns.
    pub rows: Vec<Vec<(&'static str, String)>>,
    /// Number of records of the table's programs that are of no known layout.
    pub not_decoded: u64,
}

/// Returns a table that is derived from these accounts.
///
/// # Panics
///
/// If there is no table of this name.
pub fn decoded(table: &str, rows: &[Row]) -> Decoded {
    let mut decoded = Decoded::default();
    for row in rows {
        let made = match table {
            "token_accounts" | "mints" => token(table, row),
            "stakes" => stake(row),
            "votes" => vote(row),
            _ => panic!("there is no table {table}"),
        };
        match made {
            Made::Row(mut fields) => {
                fields.insert(0, ("pubkey", hex(&row.pubkey)));
                fields.push(("lamports", row.lamports.to_string()));
                fields.push(("slot", row.slot.to_string()));
                decoded.rows.push(fields);
            }
            Made::Unknown => decoded.not_decoded += 1,
            Made::Nothing => {}
        }
    }
    decoded
}

enum Made {
    Row(Vec<(&'static str, String)>),
    Unknown,
    Nothing,
}

fn token(table: &str, row: &Row) -> Made {
    let length = row.data.len();
    let (is_account, is_mint) = match row.owner {
        TOKEN_PROGRAM => (length == TOKEN_BYTES, length == MINT_BYTES),
        // Shorter data is random.
        TOKEN_2022_PROGRAM if length >= EXTENDED_BYTES => {
            let kind = row.data[TOKEN_BYTES];
            (kind == 2, kind == 1 && length >= EXTENDED_MINT_BYTES)
        }
        TOKEN_2022_PROGRAM => (false, false),
        _ => return Made::Nothing,
    };
    match (table, length) {
        (_, MULTISIG_BYTES) => Made::Nothing,
        ("token_accounts", _) if is_account => Made::Row(token_account(row)),
        ("mints", _) if is_mint => Made::Row(mint(row)),
        _ if is_account || is_mint => Made::Nothing,
        _ => Made::Unknown,
    }
}

fn token_account(row: &Row) -> Vec<(&'static str, String)> {
    let data = &row.data;
    vec![
        ("mint", hex(&data[..32])),
        ("owner", hex(&data[32..64])),
        ("amount", number(data, 64)),
        ("state", if data[108] == 2 { "frozen" } else { "initialized" }.to_owned()),
        ("delegate", if_there(data[72], || hex(&data[76..108]))),
        ("delegated_amount", number(data, 121)),
        ("native_reserve", if_there(data[109], || number(data, 113))),
        ("close_authority", if_there(data[129], || hex(&data[133..165]))),
        ("program", hex(&row.owner)),
        ("data_len", data.len().to_string()),
    ]
}

fn mint(row: &Row) -> Vec<(&'static str, String)> {
    let data = &row.data;
    vec![
        ("supply", number(data, 36)),
        ("decimals", data[44].to_string()),
        ("mint_authority", if_there(data[0], || hex(&data[4..36]))),
        ("freeze_authority", if_there(data[46], || hex(&data[50..82]))),
        ("program", hex(&row.owner)),
        ("data_len", data.len().to_string()),
    ]
}

fn stake(row: &Row) -> Made {
    let data = &row.data;
    if row.owner != STAKE_PROGRAM {
        return Made::Nothing;
    }
    if data.len() < STAKE_BYTES {
        return Made::Unknown;
    }
    let delegated = u8::from(data[0] == 2);
    let deactivated = u8::from(delegated == 1 && data[172..180] != [255; 8]);
    Made::Row(vec![
        ("voter", if_there(delegated, || hex(&data[124..156]))),
        ("stake", if_there(delegated, || number(data, 156))),
        ("activation_epoch", if_there(delegated, || number(data, 164))),
        ("deactivation_epoch", if_there(deactivated, || number(data, 172))),
        ("credits_observed", if_there(delegated, || number(data, 188))),
        ("staker", hex(&data[12..44])),
        ("withdrawer", hex(&data[44..76])),
        ("custodian", hex(&data[92..124])),
        ("lockup_timestamp", number(data, 76)),
        ("lockup_epoch", number(data, 84)),
        ("rent_exempt_reserve", number(data, 4)),
    ])
}

fn vote(row: &Row) -> Made {
    let data = &row.data;
    if row.owner != VOTE_PROGRAM {
        return Made::Nothing;
    }
    if data.len() < VOTE_BYTES {
        return Made::Unknown;
    }
    let (commission, votes) = match data[0] {
        3 => (u64::from(data[132]) + u64::from(data[133]) * 256, 145),
        _ => (u64::from(data[68]) * 100, 69),
    };
    let root = votes + 8 + VOTES * if data[0] == 1 { 12 } else { 13 };
    let voter = root + 9 + 8 + 8;
    let credits = voter + 32 + if data[0] == 3 { 0 } else { 1545 };
    // Of two.
    let last = credits + 8 + 24;
    Made::Row(vec![
        ("node", hex(&data[4..36])),
        ("authorized_voter", hex(&data[voter..voter + 32])),
        ("authorized_withdrawer", hex(&data[36..68])),
        ("commission_bps", commission.to_string()),
        ("last_vote", number(data, root - 12)),
        ("root_slot", number(data, root + 1)),
        ("epoch", number(data, last)),
        ("credits", number(data, last + 8)),
        ("previous_credits", number(data, last + 16)),
        ("timestamp_slot", number(data, last + 24)),
        ("timestamp", number(data, last + 32)),
        ("version", data[0].to_string()),
    ])
}

fn if_there(mark: u8, value: impl FnOnce() -> String) -> String {
    if mark == 1 { value() } else { "null".to_owned() }
}

fn number(data: &[u8], at: usize) -> String {
    u64::from_le_bytes(*data[at..].first_chunk().expect("data of this length")).to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02X}"))
}
