//! Rows as an Arrow IPC stream, for a pipe.
//!
//! Every message of a stream begins with the same four bytes, and so does its end. Readers take a
//! stream that stops between two messages for complete. Therefore [`ArrowStream`] writes those bytes of
//! the next message in one piece with the last bytes of the message before, which a pipe takes as one:
//! wherever a stream is cut, readers see that something is missing.

use std::{collections::HashMap, io::Write, sync::Arc};

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Int32Array,
    Int64Array, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow_buffer::{Buffer as Bytes, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, SchemaRef};

use crate::{
    Column, Columns, Kind, Schema, TableError,
    columns::{Buffer, Values},
    schema::{DECIMAL_DIGITS, KEY_BYTES},
};

/// First bytes of every message.
const MARK: [u8; 4] = [0xFF; 4];

/// What follows these bytes at the end of a stream.
const END: [u8; 4] = [0; 4];

/// How much of a message is written together with the first bytes of the next one.
const LAST_BYTES: usize = 8;

/// Encodes rows of a table as messages, on any thread.
#[derive(Clone, Debug)]
pub struct ArrowEncoder {
    schema: Schema,
    arrow: SchemaRef,
    /// The message of the schema.
    head: Vec<u8>,
}

/// A message: rows, or the schema. Without its first bytes, but with those of the next one.
#[derive(Debug)]
pub struct ArrowMessage(Vec<u8>);

impl ArrowMessage {
    fn of(message: &[u8]) -> Self {
        let rest = message.strip_prefix(&MARK).unwrap_or(message);
        Self([rest, &MARK].concat())
    }
}

impl ArrowEncoder {
    /// Creates an encoder for a table. `facts` are names and values for the schema.
    pub fn new(
        schema: Schema,
        facts: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, TableError> {
        let fields: Vec<Field> = schema.columns.iter().map(field).collect();
        let facts: HashMap<String, String> = facts.into_iter().collect();
        let arrow: SchemaRef = Arc::new(arrow_schema::Schema::new_with_metadata(fields, facts));
        let head = StreamWriter::try_new(Vec::new(), &arrow)?.get_ref().clone();
        Ok(Self { schema, arrow, head })
    }

    /// Returns the message that a stream begins with.
    pub fn head(&self) -> ArrowMessage {
        ArrowMessage::of(&self.head)
    }

    /// Encodes rows of this table, in their order.
    pub fn encode(&self, parts: Vec<Columns>) -> Result<ArrowMessage, TableError> {
        let mut rows = Columns::new(&self.schema);
        for part in parts {
            rows.append(part);
        }
        let mut arrays = Vec::with_capacity(self.schema.columns.len());
        for (index, column) in self.schema.columns.iter().enumerate() {
            arrays.extend(rows.take(index).map(|buffer| array(column, buffer)).transpose()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.rows()));
        let batch = RecordBatch::try_new_with_options(self.arrow.clone(), arrays, &options)?;
        let mut writer = StreamWriter::try_new(Vec::new(), &self.arrow)?;
        writer.write(&batch)?;
        Ok(ArrowMessage::of(&writer.get_ref()[self.head.len()..]))
    }
}

/// A stream under construction.
pub struct ArrowStream<W: Write> {
    sink: W,
}

impl<W: Write> ArrowStream<W> {
    /// Begins a stream. The sink must not gather bytes or divide small writes.
    pub fn begin(encoder: &ArrowEncoder, mut sink: W) -> Result<Self, TableError> {
        sink.write_all(&MARK)?;
        let mut stream = Self { sink };
        stream.append(&encoder.head())?;
        Ok(stream)
    }

    /// Appends a message. Returns its size.
    pub fn append(&mut self, message: &ArrowMessage) -> Result<u64, TableError> {
        let ArrowMessage(bytes) = message;
        let (most, last) = bytes.split_at(bytes.len().saturating_sub(LAST_BYTES + MARK.len()));
        self.sink.write_all(most)?;
        self.sink.write_all(last)?;
        Ok(bytes.len() as u64)
    }

    /// Ends the stream: it is complete.
    pub fn finish(mut self) -> Result<W, TableError> {
        self.sink.write_all(&END)?;
        Ok(self.sink)
    }
}

fn field(column: &Column) -> Field {
    let kind = match column.kind {
        Kind::Key => DataType::FixedSizeBinary(i32::try_from(KEY_BYTES).unwrap_or(i32::MAX)),
        Kind::Text => DataType::Utf8,
        Kind::Long => DataType::Int64,
        Kind::Decimal => DataType::Decimal128(precision(), 0),
        Kind::Int => DataType::Int32,
        Kind::Boolean => DataType::Boolean,
        Kind::Data => DataType::Binary,
    };
    Field::new(column.name, kind, column.nullable)
}

fn precision() -> u8 {
    u8::try_from(DECIMAL_DIGITS).unwrap_or(u8::MAX)
}

/// Returns the values of a column. Unlike in files, rows without a value have a place among them.
fn array(column: &Column, buffer: Buffer) -> Result<ArrayRef, TableError> {
    let present = buffer.present.as_deref();
    let nulls = present.map(|present| NullBuffer::from(present.to_vec()));
    Ok(match buffer.values {
        Values::Keys(keys) => {
            let keys = Bytes::from_vec(spread_keys(keys, present));
            let length = i32::try_from(KEY_BYTES).unwrap_or(i32::MAX);
            Arc::new(FixedSizeBinaryArray::try_new(length, keys, nulls)?)
        }
        Values::Longs(values) => {
            let values = ScalarBuffer::from(spread(values, present));
            Arc::new(Int64Array::try_new(values, nulls)?)
        }
        Values::Decimals(values) => {
            let values = spread(values, present).into_iter().map(i128::from);
            let values = ScalarBuffer::from(values.collect::<Vec<_>>());
            let values = Decimal128Array::try_new(values, nulls)?;
            Arc::new(values.with_precision_and_scale(precision(), 0)?)
        }
        Values::Ints(values) => {
            let values = ScalarBuffer::from(spread(values, present));
            Arc::new(Int32Array::try_new(values, nulls)?)
        }
        Values::Booleans(values) => {
            Arc::new(BooleanArray::new(spread(values, present).into(), nulls))
        }
        Values::Bytes { bytes, ends, text } => {
            let offsets = offsets(column, &ends, present)?;
            let bytes = Bytes::from_vec(bytes);
            if text {
                Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
            } else {
                Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
            }
        }
    })
}

fn spread<T: Default>(values: Vec<T>, present: Option<&[bool]>) -> Vec<T> {
    let Some(present) = present else { return values };
    let mut values = values.into_iter();
    let next = |is_there: &bool| is_there.then(|| values.next()).flatten().unwrap_or_default();
    present.iter().map(next).collect()
}

fn spread_keys(keys: Vec<u8>, present: Option<&[bool]>) -> Vec<u8> {
    let Some(present) = present else { return keys };
    let keys = keys.as_chunks::<KEY_BYTES>().0.to_vec();
    spread(keys, Some(present)).into_flattened()
}

/// Returns where values begin and end. A row without a value ends where it begins.
fn offsets(
    column: &Column,
    ends: &[usize],
    present: Option<&[bool]>,
) -> Result<OffsetBuffer<i32>, TableError> {
    let mut offsets = vec![0];
    let mut add = |end: usize| {
        let end = i32::try_from(end).map_err(|_| TableError::Value { column: column.name })?;
        offsets.push(end);
        Ok::<(), TableError>(())
    };
    match present {
        None => ends.iter().try_for_each(|end| add(*end))?,
        Some(present) => {
            let (mut ends, mut last) = (ends.iter(), 0);
            for is_there in present {
                if *is_there {
                    last = ends.next().copied().unwrap_or(last);
                }
                add(last)?;
            }
        }
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}
