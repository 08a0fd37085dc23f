//! Rows of records.

use unsnap_layout::{
    append_vec::RecordHeader,
    programs::{STAKE_PROGRAM, StakeData, TokenData, VOTE_PROGRAM, VoteData},
};
use unsnap_lookup::{Batch, Storage, Superseded};
use unsnap_table::{Columns, Digest, Row, Schema, TableKind};

use crate::{ExportError, ExportQuery, rows};

/// `rent_epoch` of an account that is exempt from rent.
const EXEMPT: u64 = u64::MAX;

/// Rows of a batch of records.
pub(crate) struct Gathered {
    /// Number of records in the batch.
    pub records: u64,
    /// The rows of each table.
    pub parts: Vec<Part>,
}

/// Rows of a table.
pub(crate) struct Part {
    pub rows: Columns,
    pub digest: Digest,
    /// Sum of the rows' lamports.
    pub lamports: u128,
    /// Number of records of the table's programs that are of no known layout.
    pub not_decoded: u64,
}

impl Part {
    fn new(schema: &Schema) -> Self {
        let (rows, digest) = (Columns::new(schema), Digest::default());
        Self { rows, digest, lamports: 0, not_decoded: 0 }
    }
}

/// Makes rows of records.
pub(crate) struct Gather<'a> {
    pub archive: &'a str,
    pub query: &'a ExportQuery,
    pub tables: &'a [(TableKind, Schema)],
    pub superseded: Option<&'a Superseded>,
}

/// Numbers of a record that its columns can hold.
struct Numbers {
    lamports: i64,
    slot: i64,
    data_len: i32,
    rent_epoch: Option<i64>,
    storage_id: i64,
    offset: i64,
}

/// What a record's program makes of its data; `None` if that is of no known layout.
enum Decoded {
    Token(Option<TokenData>),
    Stake(Option<StakeData>),
    Vote(Option<VoteData>),
    /// Of any other program.
    Other,
}

impl Decoded {
    fn of(owner: &[u8; 32], data: &[u8]) -> Self {
        match *owner {
            STAKE_PROGRAM => Self::Stake(StakeData::decode(data)),
            VOTE_PROGRAM => Self::Vote(VoteData::decode(data)),
            _ if TokenData::is_program(owner) => Self::Token(TokenData::decode(owner, data)),
            _ => Self::Other,
        }
    }
}

impl Gather<'_> {
    /// Returns the rows of a batch, in the order of its records.
    pub fn batch(&self, batch: &Batch) -> Result<Gathered, ExportError> {
        let (storage, filter) = (batch.storage, &self.query.filter);
        let in_slot = filter.includes_slot(storage.slot);
        let parts = self.tables.iter().map(|(_, schema)| Part::new(schema));
        let mut gathered = Gathered { records: 0, parts: parts.collect() };
        let mut result = Ok(());
        batch.each(|position, header, data| {
            gathered.records += 1;
            if result.is_ok()
                && in_slot
                && filter.includes(header, data)
                && !self.superseded.is_some_and(|older| older.contains(storage, position))
            {
                result = self.record(&mut gathered.parts, storage, position, header, data);
            }
        });
        result?;
        for part in &mut gathered.parts {
            part.digest = part.rows.digest();
        }
        Ok(gathered)
    }

    /// Adds a record to the tables that it belongs to.
    fn record(
        &self,
        parts: &mut [Part],
        storage: Storage,
        position: u64,
        header: &RecordHeader,
        data: &[u8],
    ) -> Result<(), ExportError> {
        let is_derived = |(kind, _): &(TableKind, Schema)| *kind != TableKind::Accounts;
        let decoded = if self.tables.iter().any(is_derived) {
            Decoded::of(&header.owner, data)
        } else {
            Decoded::Other
        };
        for ((kind, _), part) in self.tables.iter().zip(parts) {
            let add: &dyn Fn(&mut Row<'_>, &Numbers) = match (kind, &decoded) {
                (TableKind::Accounts, _) => &|row, numbers| account(row, header, numbers),
                (TableKind::TokenAccounts, Decoded::Token(Some(TokenData::Account(account)))) => {
                    &|row, numbers| rows::token_account(row, header, account, numbers.data_len)
                }
                (TableKind::Mints, Decoded::Token(Some(TokenData::Mint(mint)))) => {
                    &|row, numbers| rows::mint(row, header, mint, numbers.data_len)
                }
                (TableKind::Stakes, Decoded::Stake(Some(stake))) => {
                    &|row, _| rows::stake(row, header, stake)
                }
                (TableKind::Votes, Decoded::Vote(Some(vote))) => {
                    &|row, _| rows::vote(row, header, vote)
                }
                (TableKind::TokenAccounts | TableKind::Mints, Decoded::Token(None))
                | (TableKind::Stakes, Decoded::Stake(None))
                | (TableKind::Votes, Decoded::Vote(None)) => {
                    part.not_decoded += 1;
                    continue;
                }
                _ => continue,
            };
            let numbers = self.numbers(storage, position, header)?;
            part.lamports += u128::from(header.lamports);
            let mut row = part.rows.row();
            add(&mut row, &numbers);
            if *kind != TableKind::Accounts {
                row.long(numbers.lamports);
                row.long(numbers.slot);
            }
            if self.query.columns.provenance {
                row.long(numbers.storage_id);
                row.long(numbers.offset);
            }
            if self.query.columns.data && *kind == TableKind::Accounts {
                let length = self.query.data_prefix.map_or(data.len(), |most| most.min(data.len()));
                row.data(&data[..length]);
            }
        }
        Ok(())
    }

    fn numbers(
        &self,
        storage: Storage,
        position: u64,
        header: &RecordHeader,
    ) -> Result<Numbers, ExportError> {
        let too_large = |column, value| ExportError::TooLarge {
            archive: self.archive.to_owned(),
            pubkey: bs58::encode(header.pubkey).into_string(),
            column,
            value,
        };
        let long = |column, value| i64::try_from(value).map_err(|_| too_large(column, value));
        let RecordHeader { lamports, rent_epoch, data_len, .. } = *header;
        Ok(Numbers {
            lamports: long("lamports", lamports)?,
            slot: long("slot", storage.slot)?,
            data_len: i32::try_from(data_len).map_err(|_| too_large("data_len", data_len))?,
            rent_epoch: match rent_epoch {
                EXEMPT => None,
                epoch => Some(long("rent_epoch", epoch)?),
            },
            storage_id: storage.id.into(),
            offset: long("offset", position)?,
        })
    }
}

/// Adds the columns of the table of accounts, but for the place and the data.
fn account(row: &mut Row<'_>, header: &RecordHeader, numbers: &Numbers) {
    row.key(&header.pubkey);
    row.key(&header.owner);
    row.long(numbers.lamports);
    row.long(numbers.slot);
    row.int(numbers.data_len);
    row.boolean(header.executable != 0);
    row.or_null(numbers.rent_epoch, Row::long);
}
