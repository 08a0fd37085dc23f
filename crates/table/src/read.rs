//! Reading of files: back into the columns that they were made of.

use std::ops::{ControlFlow, Range};

use parquet::{
    column::reader::ColumnReader,
    data_type::{ByteArray, FixedLenByteArray},
    file::{
        metadata::ParquetMetaData,
        reader::{ChunkReader, FileReader, SerializedFileReader},
    },
};

use crate::{
    Column, Columns, Kind, Schema, TableError,
    columns::{Buffer, Values},
    schema::KEY_BYTES,
};

/// Reads all rows of a file of this table and shows them to `see`, one row group at a time. Returns the
/// number of row groups. A break ends the reading.
///
/// # Errors
///
/// [`TableError::Schema`] if the file has other columns.
pub fn read_rows<R: ChunkReader + 'static>(
    schema: &Schema,
    file: R,
    mut see: impl FnMut(&Columns) -> ControlFlow<()>,
) -> Result<u64, TableError> {
    let reader = SerializedFileReader::new(file)?;
    check_columns(schema, reader.metadata())?;
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index)?;
        let rows = u64::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut buffers = Vec::new();
        for (index, column) in schema.columns.iter().enumerate() {
            let all = 0..usize::try_from(rows).unwrap_or(usize::MAX);
            buffers.push(read(group.get_column_reader(index)?, column, &[all])?);
        }
        let columns = Columns::from_buffers(usize::try_from(rows).unwrap_or(usize::MAX), buffers);
        if see(&columns).is_break() {
            break;
        }
    }
    Ok(reader.num_row_groups() as u64)
}

/// Compares the columns of a file with those of a table.
pub(crate) fn check_columns(schema: &Schema, file: &ParquetMetaData) -> Result<(), TableError> {
    let expected = schema.to_parquet()?;
    let found = file.file_metadata().schema();
    if found.get_fields() == expected.get_fields() {
        return Ok(());
    }
    let mut other = found.get_fields().iter().zip(expected.get_fields());
    let other = other.find(|(found, expected)| found != expected);
    let column = other.map_or("number", |(found, _)| found.name()).to_owned();
    Err(TableError::Schema { table: schema.name, column })
}

/// Reads rows of a column of a row group: ranges in ascending order.
///
/// # Errors
///
/// [`TableError::Count`] if there are fewer.
pub(crate) fn read(
    reader: ColumnReader,
    column: &Column,
    rows: &[Range<usize>],
) -> Result<Buffer, TableError> {
    let (mut levels, mut count): (Vec<i16>, usize) = (Vec::new(), 0);
    /// Reads the values of a column.
    macro_rules! all {
        ($reader:expr) => {{
            let (mut values, mut at) = (Vec::new(), 0);
            for range in rows {
                let skipped = $reader.skip_records(range.start - at)?;
                let mut left = if skipped == range.start - at { range.len() } else { 0 };
                while left > 0 {
                    let levels = column.nullable.then_some(&mut levels);
                    let (records, ..) = $reader.read_records(left, levels, None, &mut values)?;
                    if records == 0 {
                        break;
                    }
                    left -= records;
                    count += records;
                }
                at = range.end;
            }
            values
        }};
    }
    let other = || TableError::Value { column: column.name };
    let values = match (reader, column.kind) {
        (ColumnReader::FixedLenByteArrayColumnReader(mut reader), Kind::Key) => {
            let values: Vec<FixedLenByteArray> = all!(reader);
            let mut keys = Vec::with_capacity(values.len() * KEY_BYTES);
            for value in &values {
                keys.extend_from_slice(value.data());
            }
            Values::Keys(keys)
        }
        (ColumnReader::FixedLenByteArrayColumnReader(mut reader), Kind::Decimal) => {
            let values: Vec<FixedLenByteArray> = all!(reader);
            let number = |value: &FixedLenByteArray| match value.data() {
                [0, number @ ..] => Some(u64::from_be_bytes(number.try_into().ok()?)),
                _ => None,
            };
            let values = values.iter().map(number).collect::<Option<_>>();
            Values::Decimals(values.ok_or_else(other)?)
        }
        (ColumnReader::ByteArrayColumnReader(mut reader), Kind::Data | Kind::Text) => {
            let values: Vec<ByteArray> = all!(reader);
            let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(values.len()));
            for value in &values {
                bytes.extend_from_slice(value.data());
                ends.push(bytes.len());
            }
            Values::Bytes { bytes, ends, text: column.kind == Kind::Text }
        }
        (ColumnReader::Int64ColumnReader(mut reader), Kind::Long) => Values::Longs(all!(reader)),
        (ColumnReader::Int32ColumnReader(mut reader), Kind::Int) => Values::Ints(all!(reader)),
        (ColumnReader::BoolColumnReader(mut reader), Kind::Boolean) => {
            Values::Booleans(all!(reader))
        }
        _ => unreachable!("the file has the columns of the schema"),
    };
    let expected = rows.iter().map(Range::len).sum();
    if count != expected {
        let (expected, found) = (expected as u64, count as u64);
        return Err(TableError::Count { column: column.name, expected, found });
    }
    let present = column.nullable.then(|| levels.iter().map(|level| *level > 0).collect());
    Ok(Buffer { values, present })
}
