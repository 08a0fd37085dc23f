//! Encoding of row groups, on any thread.

use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding, ZstdLevel},
    column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer},
    data_type::{ByteArray, FixedLenByteArray},
    file::{
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr},
        writer::{SerializedPageWriter, TrackedWrite},
    },
    schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor},
};

use crate::{
    Columns, Packing, Schema, TableError,
    columns::{Buffer, Values},
    schema::{DECIMAL_BYTES, KEY_BYTES},
};

/// Most rows of a page: what one look-up by the page index has to decode.
const PAGE_ROWS: usize = 20_000;

/// Size of a page in bytes, before compression.
const PAGE_BYTES: usize = 1 << 20;

/// Level of zstd: higher ones cost more time than space is worth here. A guess.
const ZSTD_LEVEL: i32 = 1;

/// Encodes rows of a table as row groups.
#[derive(Clone, Debug)]
pub struct Encoder {
    pub(crate) schema: Schema,
    pub(crate) columns: SchemaDescPtr,
    pub(crate) properties: WriterPropertiesPtr,
}

/// An encoded row group.
#[derive(Debug)]
pub struct RowGroup {
    /// Number of rows.
    pub rows: u64,
    /// Size of the encoded column chunks in bytes.
    pub bytes: u64,
    pub(crate) chunks: Vec<(Bytes, ColumnCloseResult)>,
}

impl Encoder {
    /// Creates an encoder for a table.
    pub fn new(schema: Schema) -> Result<Self, TableError> {
        let columns = SchemaDescriptor::new(schema.to_parquet()?).into();
        let zstd = Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?);
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("unsnap ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(zstd)
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_data_page_size_limit(PAGE_BYTES)
            .set_statistics_enabled(EnabledStatistics::Page);
        for column in &schema.columns {
            let path = || ColumnPath::from(column.name);
            let dictionary = column.packing == Packing::Dictionary;
            properties = properties.set_column_dictionary_enabled(path(), dictionary);
            properties = match column.packing {
                Packing::Dictionary => properties,
                Packing::Plain => properties
                    .set_column_encoding(path(), Encoding::PLAIN)
                    .set_column_compression(path(), Compression::UNCOMPRESSED),
                Packing::Delta => {
                    properties.set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED)
                }
                Packing::Bulk => properties
                    .set_column_encoding(path(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
                    .set_column_statistics_enabled(path(), EnabledStatistics::None),
            };
        }
        Ok(Self { schema, columns, properties: properties.build().into() })
    }

    /// Returns the table.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Encodes rows of this table, in their order, as one row group.
    pub fn encode(&self, mut parts: Vec<Columns>) -> Result<RowGroup, TableError> {
        let mut group = RowGroup { rows: 0, bytes: 0, chunks: Vec::new() };
        group.rows = parts.iter().map(|part| part.rows() as u64).sum();
        for (index, column) in self.columns.columns().iter().enumerate() {
            let mut sink = TrackedWrite::new(Vec::new());
            let pages = Box::new(SerializedPageWriter::new(&mut sink));
            let mut writer = get_column_writer(column.clone(), self.properties.clone(), pages);
            for buffer in parts.iter_mut().filter_map(|part| part.take(index)) {
                write(&mut writer, buffer)?;
            }
            let closed = writer.close()?;
            let bytes = Bytes::from(sink.into_inner()?);
            group.bytes += bytes.len() as u64;
            group.chunks.push((bytes, closed));
        }
        Ok(group)
    }
}

/// Writes values to a column of their kind.
fn write(writer: &mut ColumnWriter<'_>, buffer: Buffer) -> Result<(), TableError> {
    let levels = buffer.present.map(|present| present.into_iter().map(i16::from).collect());
    let levels: Option<Vec<i16>> = levels;
    let levels = levels.as_deref();
    match (writer, buffer.values) {
        (ColumnWriter::FixedLenByteArrayColumnWriter(writer), Values::Keys(keys)) => {
            writer.write_batch(&fixed(keys, KEY_BYTES), levels, None)?;
        }
        (ColumnWriter::FixedLenByteArrayColumnWriter(writer), Values::Decimals(values)) => {
            let bytes = values.iter().flat_map(|value| decimal(*value)).collect();
            writer.write_batch(&fixed(bytes, DECIMAL_BYTES), levels, None)?;
        }
        (ColumnWriter::ByteArrayColumnWriter(writer), Values::Bytes { bytes, ends, .. }) => {
            let bytes = Bytes::from(bytes);
            let begins = std::iter::once(0).chain(ends.iter().copied());
            let values: Vec<ByteArray> = begins
                .zip(&ends)
                .map(|(begin, end)| ByteArray::from(bytes.slice(begin..*end)))
                .collect();
            writer.write_batch(&values, levels, None)?;
        }
        (ColumnWriter::Int64ColumnWriter(writer), Values::Longs(values)) => {
            writer.write_batch(&values, levels, None)?;
        }
        (ColumnWriter::Int32ColumnWriter(writer), Values::Ints(values)) => {
            writer.write_batch(&values, levels, None)?;
        }
        (ColumnWriter::BoolColumnWriter(writer), Values::Booleans(values)) => {
            writer.write_batch(&values, levels, None)?;
        }
        _ => unreachable!("buffers are made by the schema that the columns are made by"),
    }
    Ok(())
}

/// Returns values of `length` bytes each.
fn fixed(bytes: Vec<u8>, length: usize) -> Vec<FixedLenByteArray> {
    let bytes = Bytes::from(bytes);
    let ends = (1..=bytes.len() / length).map(|count| count * length);
    ends.map(|end| ByteArray::from(bytes.slice(end - length..end)).into()).collect()
}

/// Returns a number as Parquet has decimals: big-endian, with a sign.
fn decimal(value: u64) -> [u8; DECIMAL_BYTES] {
    let mut bytes = [0; DECIMAL_BYTES];
    bytes[1..].copy_from_slice(&value.to_be_bytes());
    bytes
}
