//! The tables and their columns.

use crate::{AccountColumns, Column, KeyForm, Kind, Packing, Schema};

/// A table of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableKind {
    /// Every account, as its record has it.
    Accounts,
    /// What holders have of tokens: accounts of the token programs.
    TokenAccounts,
    /// Tokens: accounts of the token programs.
    Mints,
    /// Accounts of the stake program.
    Stakes,
    /// Accounts of the vote program.
    Votes,
}

impl TableKind {
    /// All tables.
    pub const ALL: [Self; 5] =
        [Self::Accounts, Self::TokenAccounts, Self::Mints, Self::Stakes, Self::Votes];

    /// Returns the table's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accounts => "accounts",
            Self::TokenAccounts => "token_accounts",
            Self::Mints => "mints",
            Self::Stakes => "stakes",
            Self::Votes => "votes",
        }
    }
}

impl Schema {
    /// Returns a table. Its first column is the account's address; the last ones are its lamports, its
    /// slot, and its place if that is wanted. The data of accounts follows these: all other columns of
    /// a row group can be read together.
    pub fn of(table: TableKind, wanted: AccountColumns) -> Self {
        let make = Make::of(wanted.keys);
        let mut columns = match table {
            TableKind::Accounts => make.accounts(),
            TableKind::TokenAccounts => make.token_accounts(),
            TableKind::Mints => make.mints(),
            TableKind::Stakes => make.stakes(),
            TableKind::Votes => make.votes(),
        };
        if table != TableKind::Accounts {
            columns.push(number("lamports", Kind::Long));
            columns.push(grows("slot"));
        }
        if wanted.provenance {
            columns.push(grows("storage_id"));
            columns.push(grows("offset"));
        }
        if wanted.data && table == TableKind::Accounts {
            columns.push(column("data", Kind::Data, Packing::Bulk));
        }
        Self { name: table.name(), columns }
    }

    /// Returns the table of accounts.
    pub fn accounts(wanted: AccountColumns) -> Self {
        Self::of(TableKind::Accounts, wanted)
    }
}

/// Makes columns with keys of a form.
struct Make {
    key: Kind,
    unique: Packing,
}

impl Make {
    fn of(keys: KeyForm) -> Self {
        match keys {
            KeyForm::Binary => Self { key: Kind::Key, unique: Packing::Plain },
            KeyForm::Base58 => Self { key: Kind::Text, unique: Packing::Bulk },
        }
    }

    /// The account's address, of which each is another.
    fn pubkey(&self) -> Column {
        column("pubkey", self.key, self.unique)
    }

    /// A key that many rows have.
    fn key(&self, name: &'static str) -> Column {
        column(name, self.key, Packing::Dictionary)
    }

    fn accounts(&self) -> Vec<Column> {
        vec![
            self.pubkey(),
            self.key("owner"),
            number("lamports", Kind::Long),
            grows("slot"),
            number("data_len", Kind::Int),
            number("executable", Kind::Boolean),
            // Null stands for 2^64-1, exempt from rent, which no signed column can hold.
            number("rent_epoch", Kind::Long).or_null(),
        ]
    }

    fn token_accounts(&self) -> Vec<Column> {
        vec![
            self.pubkey(),
            self.key("mint"),
            self.key("owner"),
            number("amount", Kind::Decimal),
            number("state", Kind::Text),
            self.key("delegate").or_null(),
            number("delegated_amount", Kind::Decimal),
            number("native_reserve", Kind::Decimal).or_null(),
            self.key("close_authority").or_null(),
            self.key("program"),
            number("data_len", Kind::Int),
        ]
    }

    fn mints(&self) -> Vec<Column> {
        vec![
            self.pubkey(),
            number("supply", Kind::Decimal),
            number("decimals", Kind::Int),
            self.key("mint_authority").or_null(),
            self.key("freeze_authority").or_null(),
            self.key("program"),
            number("data_len", Kind::Int),
        ]
    }

    fn stakes(&self) -> Vec<Column> {
        vec![
            self.pubkey(),
            self.key("voter").or_null(),
            number("stake", Kind::Decimal).or_null(),
            number("activation_epoch", Kind::Decimal).or_null(),
            number("deactivation_epoch", Kind::Decimal).or_null(),
            number("credits_observed", Kind::Decimal).or_null(),
            self.key("staker"),
            self.key("withdrawer"),
            self.key("custodian"),
            number("lockup_timestamp", Kind::Long),
            number("lockup_epoch", Kind::Decimal),
            number("rent_exempt_reserve", Kind::Decimal),
        ]
    }

    fn votes(&self) -> Vec<Column> {
        vec![
            self.pubkey(),
            self.key("node"),
            self.key("authorized_voter").or_null(),
            self.key("authorized_withdrawer"),
            number("commission_bps", Kind::Int),
            number("last_vote", Kind::Decimal).or_null(),
            number("root_slot", Kind::Decimal).or_null(),
            number("epoch", Kind::Decimal).or_null(),
            number("credits", Kind::Decimal).or_null(),
            number("previous_credits", Kind::Decimal).or_null(),
            number("timestamp_slot", Kind::Decimal),
            number("timestamp", Kind::Long),
            number("version", Kind::Int),
        ]
    }
}

fn column(name: &'static str, kind: Kind, packing: Packing) -> Column {
    Column { name, kind, packing, nullable: false }
}

/// A number or word, of which many rows have the same.
fn number(name: &'static str, kind: Kind) -> Column {
    column(name, kind, Packing::Dictionary)
}

/// A number that grows from row to row.
fn grows(name: &'static str) -> Column {
    column(name, Kind::Long, Packing::Delta)
}

impl Column {
    fn or_null(self) -> Self {
        Self { nullable: true, ..self }
    }
}
