//! Tables and their columns.

use parquet::{
    basic::{LogicalType, Repetition, Type as Physical},
    schema::types::{Type, TypePtr},
};

use crate::TableError;

/// Length of a key in bytes.
pub(crate) const KEY_BYTES: usize = 32;

/// Digits of a decimal column: 2^64 has as many.
pub(crate) const DECIMAL_DIGITS: i32 = 20;

/// Bytes of a value in a decimal column: numbers of 20 digits need 67 bits and a sign.
pub(crate) const DECIMAL_BYTES: usize = 9;

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
    /// Whether values may be null.
    pub nullable: bool,
}

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 32 bytes.
    Key,
    /// Text, among it keys in base58.
    Text,
    /// A signed number of 64 bits.
    Long,
    /// A number of 64 bits without sign, as a decimal number of 20 digits: no engine reads that wrongly.
    Decimal,
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

/// Columns that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountColumns {
    /// Form of the keys.
    pub keys: KeyForm,
    /// Whether the table of accounts has a column of data.
    pub data: bool,
    /// Whether columns tell the storage of each record and its offset there.
    pub provenance: bool,
}

impl Schema {
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
            Kind::Key => (Physical::FIXED_LEN_BYTE_ARRAY, Some(KEY_BYTES)),
            Kind::Decimal => (Physical::FIXED_LEN_BYTE_ARRAY, Some(DECIMAL_BYTES)),
            Kind::Text | Kind::Data => (Physical::BYTE_ARRAY, None),
            Kind::Long => (Physical::INT64, None),
            Kind::Int => (Physical::INT32, None),
            Kind::Boolean => (Physical::BOOLEAN, None),
        };
        let repetition = if self.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let builder = Type::primitive_type_builder(self.name, physical).with_repetition(repetition);
        let builder = match self.kind {
            Kind::Text => builder.with_logical_type(Some(LogicalType::String)),
            Kind::Decimal => builder
                .with_logical_type(Some(LogicalType::decimal(0, DECIMAL_DIGITS)))
                .with_precision(DECIMAL_DIGITS)
                .with_scale(0),
            _ => builder,
        };
        let builder = match length {
            Some(length) => builder.with_length(i32::try_from(length).unwrap_or(i32::MAX)),
            None => builder,
        };
        Ok(builder.build()?)
    }
}
