//! Reading of files: back into the columns that they were made of.

use std::ops::ControlFlow;

use parquet::{
    column::reader::ColumnReader,
    data_type::{ByteArray, FixedLenByteArray},
    file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader},
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
    let expected = schema.to_parquet()?;
    let found = reader.metadata().file_metadata().schema();
    if found.get_fields() != expected.get_fields() {
        let other = found.get_fields().iter().zip(expected.get_fields());
        let other = other.clone().find(|(found, expected)| found != expected);
        let column = other.map_or("number", |(found, _)| found.name()).to_owned();
        return Err(TableError::Schema { table: schema.name, column });
    }
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index)?;
        let rows = u64::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut buffers = Vec::new();
        for (index, column) in schema.columns.iter().enumerate() {
            let (buffer, found) = read(&*group, index, column, rows)?;
            if found != rows {
                let column = column.name;
                return Err(TableError::Count { column, expected: rows, found });
            }
            buffers.push(buffer);
        }
        let columns = Columns::from_buffers(usize::try_from(rows).unwrap_or(usize::MAX), buffers);
        if see(&columns).is_break() {
            break;
        }
    }
    Ok(reader.num_row_groups() as u64)
}

/// Reads a column of a row group. Returns its values and the number of rows.
fn read(
    group: &dyn RowGroupReader,
    index: usize,
    column: &Column,
    rows: u64,
) -> Result<(Buffer, u64), TableError> {
    let most = usize::try_from(rows).unwrap_or(usize::MAX);
    let (mut levels, mut count): (Vec<i16>, usize) = (Vec::new(), 0);
    /// Reads all values of a column.
    macro_rules! all {
        ($reader:expr) => {{
            let mut values = Vec::new();
            loop {
                let levels = column.nullable.then_some(&mut levels);
                let (records, ..) =
                    $reader.read_records(most - count, levels, None, &mut values)?;
                count += records;
                if records == 0 || count == most {
                    break values;
                }
            }
        }};
    }
    let other = || TableError::Value { column: column.name };
    let values = match (group.get_column_reader(index)?, column.kind) {
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
    let present = column.nullable.then(|| levels.iter().map(|level| *level > 0).collect());
    Ok((Buffer { values, present }, count as u64))
}
