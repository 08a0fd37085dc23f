//! Reading of files: back into the columns that they were made of.

use parquet::{
    column::reader::ColumnReader,
    data_type::{ByteArray, FixedLenByteArray},
    file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader},
};

use crate::{
    Columns, Kind, Schema, TableError,
    columns::{Buffer, KEY_BYTES},
};

/// Reads all rows of a file of this table and shows them to `see`, one row group at a time.
///
/// # Errors
///
/// [`TableError::Schema`] if the file has other columns.
pub fn read_rows<R: ChunkReader + 'static>(
    schema: &Schema,
    file: R,
    mut see: impl FnMut(&Columns),
) -> Result<(), TableError> {
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
            let (buffer, found) = read(&*group, index, column.kind, rows)?;
            if found != rows {
                let column = column.name;
                return Err(TableError::Count { column, expected: rows, found });
            }
            buffers.push(buffer);
        }
        see(&Columns::from_buffers(usize::try_from(rows).unwrap_or(usize::MAX), buffers));
    }
    Ok(())
}

/// Reads a column of a row group. Returns its values and their number.
fn read(
    group: &dyn RowGroupReader,
    index: usize,
    kind: Kind,
    rows: u64,
) -> Result<(Buffer, u64), TableError> {
    let most = usize::try_from(rows).unwrap_or(usize::MAX);
    /// Reads all records of a column.
    macro_rules! all {
        ($reader:expr, $levels:expr) => {{
            let mut values = Vec::new();
            let mut count = 0;
            loop {
                let (records, ..) =
                    $reader.read_records(most - count, $levels, None, &mut values)?;
                count += records;
                if records == 0 || count == most {
                    break (values, count as u64);
                }
            }
        }};
    }
    let read = match (group.get_column_reader(index)?, kind) {
        (ColumnReader::FixedLenByteArrayColumnReader(mut reader), Kind::Key) => {
            let (values, count) = all!(reader, None);
            let values: Vec<FixedLenByteArray> = values;
            let mut keys = Vec::with_capacity(values.len() * KEY_BYTES);
            for value in &values {
                keys.extend_from_slice(value.data());
            }
            (Buffer::Keys(keys), count)
        }
        (ColumnReader::ByteArrayColumnReader(mut reader), Kind::Data | Kind::KeyText) => {
            let (values, count) = all!(reader, None);
            let values: Vec<ByteArray> = values;
            let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(values.len()));
            for value in &values {
                bytes.extend_from_slice(value.data());
                ends.push(bytes.len());
            }
            (Buffer::Bytes { bytes, ends, text: kind == Kind::KeyText }, count)
        }
        (ColumnReader::Int64ColumnReader(mut reader), Kind::Long) => {
            let (values, count) = all!(reader, None);
            (Buffer::Longs(values), count)
        }
        (ColumnReader::Int64ColumnReader(mut reader), Kind::OptionalLong) => {
            let mut levels: Vec<i16> = Vec::new();
            let (values, count) = all!(reader, Some(&mut levels));
            let mut values: std::vec::IntoIter<i64> = values.into_iter();
            let optional = levels.iter().map(|level| (*level > 0).then(|| values.next()).flatten());
            (Buffer::OptionalLongs(optional.collect()), count)
        }
        (ColumnReader::Int32ColumnReader(mut reader), Kind::Int) => {
            let (values, count) = all!(reader, None);
            (Buffer::Ints(values), count)
        }
        (ColumnReader::BoolColumnReader(mut reader), Kind::Boolean) => {
            let (values, count) = all!(reader, None);
            (Buffer::Booleans(values), count)
        }
        _ => unreachable!("the file has the columns of the schema"),
    };
    Ok(read)
}
