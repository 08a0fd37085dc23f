//! Tables and their columns.

use parquet::{
    basic::{LogicalType, Repetition, Type as Physical},
    schema::types::{Type, TypePtr},
};

use crate::TableError;

/// A table: its name and its columns, in the order of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Name of the table.
    pub name: &'static str,
    /// Columns.
    pub columns: Vec<Column>,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// Kind of its values.
    pub kind: Kind,
    /// How it is stored.
    pub packing: Packing,
}

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 32 bytes.
    Key,
    /// A key in base58.
    KeyText,
    /// A signed number of 64 bits.
    Long,
    /// A [`Long`](Self::Long), or null.
    OptionalLong,
    /// A signed number of 32 bits.
    Int,
    /// True or false.
    Boolean,
    /// Bytes of any length.
    Data,
}

/// How a column is stored. All pages but those of [`Plain`](Self::Plain) are compressed by zstd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Values as they are, without compression, with statistics: for values that nothing compresses.
    Plain,
    /// Positions in a dictionary as long as that is small, with statistics.
    Dictionary,
    /// Differences from one value to the next, with statistics: for numbers that grow.
    Delta,
    /// All lengths, then all values, without statistics.
    Bulk,
}

/// Form of keys in columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyForm {
    /// 32 bytes.
    #[default]
    Binary,
    /// Base58, for people.
    Base58,
}

/// Columns of the table of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountColumns {
    /// Form of the keys.
    pub keys: KeyForm,
    /// Whether there is a column of data.
    pub data: bool,
    /// Whether columns tell the storage of each record and its offset there.
    pub provenance: bool,
}

impl Schema {
    /// Returns the table of accounts. The data is the last column: all others of a row group can be
    /// read together.
    pub fn accounts(wanted: AccountColumns) -> Self {
        let column = |name, kind, packing| Column { name, kind, packing };
        let key = match wanted.keys {
            KeyForm::Binary => Kind::Key,
            KeyForm::Base58 => Kind::KeyText,
        };
        let unique = match wanted.keys {
            KeyForm::Binary => Packing::Plain,
            KeyForm::Base58 => Packing::Bulk,
        };
        let mut columns = vec![
            column("pubkey", key, unique),
            column("owner", key, Packing::Dictionary),
            column("lamports", Kind::Long, Packing::Dictionary),
            column("slot", Kind::Long, Packing::Delta),
            column("data_len", Kind::Int, Packing::Dictionary),
            column("executable", Kind::Boolean, Packing::Dictionary),
            // Null stands for 2^64-1, exempt from rent, which no signed column can hold.
            column("rent_epoch", Kind::OptionalLong, Packing::Dictionary),
        ];
        if wanted.provenance {
            columns.push(column("storage_id", Kind::Long, Packing::Delta));
            columns.push(column("offset", Kind::Long, Packing::Delta));
        }
        if wanted.data {
            columns.push(column("data", Kind::Data, Packing::Bulk));
        }
        Self { name: "accounts", columns }
    }

    /// Returns the schema of the table's files.
    pub(crate) fn to_parquet(&self) -> Result<TypePtr, TableError> {
        let fields = self.columns.iter().map(|column| Ok(column.to_parquet()?.into()));
        let fields = fields.collect::<Result<_, TableError>>()?;
        Ok(Type::group_type_builder(self.name).with_fields(fields).build()?.into())
    }
}

impl Column {
    fn to_parquet(self) -> Result<Type, TableError> {
        let (physical, length) = match self.kind {
            Kind::Key => (Physical::FIXED_LEN_BYTE_ARRAY, Some(32)),
            Kind::KeyText | Kind::Data => (Physical::BYTE_ARRAY, None),
            Kind::Long | Kind::OptionalLong => (Physical::INT64, None),
            Kind::Int => (Physical::INT32, None),
            Kind::Boolean => (Physical::BOOLEAN, None),
        };
        let repetition = match self.kind {
            Kind::OptionalLong => Repetition::OPTIONAL,
            _ => Repetition::REQUIRED,
        };
        let logical = (self.kind == Kind::KeyText).then_some(LogicalType::String);
        let builder = Type::primitive_type_builder(self.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical);
        let builder = match length {
            Some(length) => builder.with_length(length),
            None => builder,
        };
        Ok(builder.build()?)
    }
}
