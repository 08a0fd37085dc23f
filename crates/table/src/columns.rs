//! Rows in memory: one buffer for each column.

use twox_hash::XxHash3_128;

use crate::{Kind, Schema};

/// Length of a key in bytes.
pub(crate) const KEY_BYTES: usize = 32;

/// Rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    rows: usize,
    buffers: Vec<Buffer>,
    /// Bytes in all buffers.
    bytes: usize,
}

/// Values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// Keys, one after the other.
    Keys(Vec<u8>),
    Longs(Vec<i64>),
    /// Null is `None`.
    OptionalLongs(Vec<Option<i64>>),
    Ints(Vec<i32>),
    Booleans(Vec<bool>),
    /// Values one after the other, and the end of each. Of [`Kind::Data`] and [`Kind::KeyText`].
    Bytes {
        bytes: Vec<u8>,
        ends: Vec<usize>,
        text: bool,
    },
}

impl Buffer {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Key => Self::Keys(Vec::new()),
            Kind::Long => Self::Longs(Vec::new()),
            Kind::OptionalLong => Self::OptionalLongs(Vec::new()),
            Kind::Int => Self::Ints(Vec::new()),
            Kind::Boolean => Self::Booleans(Vec::new()),
            Kind::Data | Kind::KeyText => {
                Self::Bytes { bytes: Vec::new(), ends: Vec::new(), text: kind == Kind::KeyText }
            }
        }
    }
}

impl Columns {
    /// Creates empty columns.
    pub fn new(schema: &Schema) -> Self {
        let buffers = schema.columns.iter().map(|column| Buffer::of(column.kind)).collect();
        Self { rows: 0, buffers, bytes: 0 }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the size of all values in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row. Its values must follow in the order of the columns.
    pub fn row(&mut self) -> Row<'_> {
        self.rows += 1;
        Row { buffers: self.buffers.iter_mut(), bytes: &mut self.bytes }
    }

    pub(crate) fn from_buffers(rows: usize, buffers: Vec<Buffer>) -> Self {
        Self { rows, buffers, bytes: 0 }
    }

    /// Takes the buffer of a column.
    pub(crate) fn take(&mut self, column: usize) -> Option<Buffer> {
        let buffer = self.buffers.get_mut(column)?;
        Some(std::mem::replace(buffer, Buffer::Booleans(Vec::new())))
    }

    /// Returns the digest of the rows: the same for the same rows in any order.
    pub fn digest(&self) -> Digest {
        let mut row = Vec::new();
        let mut digest = Digest::default();
        for index in 0..self.rows {
            row.clear();
            for buffer in &self.buffers {
                match buffer {
                    Buffer::Keys(keys) => {
                        row.extend_from_slice(&keys[index * KEY_BYTES..][..KEY_BYTES]);
                    }
                    Buffer::Longs(values) => row.extend(values[index].to_le_bytes()),
                    Buffer::OptionalLongs(values) => {
                        row.push(values[index].is_some().into());
                        row.extend(values[index].unwrap_or_default().to_le_bytes());
                    }
                    Buffer::Ints(values) => row.extend(values[index].to_le_bytes()),
                    Buffer::Booleans(values) => row.push(values[index].into()),
                    Buffer::Bytes { bytes, ends, .. } => {
                        let begin = index.checked_sub(1).map_or(0, |before| ends[before]);
                        let value = XxHash3_128::oneshot(&bytes[begin..ends[index]]);
                        row.extend(value.to_le_bytes());
                    }
                }
            }
            digest.add(Digest { rows: 1, sum: XxHash3_128::oneshot(&row) });
        }
        digest
    }
}

/// A row under construction. Each call adds the value of the next column.
///
/// # Panics
///
/// Every method panics if the next column is of another kind: the caller's code does not match the
/// schema.
pub struct Row<'a> {
    buffers: std::slice::IterMut<'a, Buffer>,
    bytes: &'a mut usize,
}

impl Row<'_> {
    fn next(&mut self) -> &mut Buffer {
        self.buffers.next().expect("a row has no more values than columns")
    }

    /// Adds a key, in the column's form.
    pub fn key(&mut self, key: &[u8; KEY_BYTES]) {
        let mut added = KEY_BYTES;
        match self.next() {
            Buffer::Keys(keys) => keys.extend_from_slice(key),
            Buffer::Bytes { bytes, ends, text: true } => {
                let mut text = [0; five8::BASE58_ENCODED_32_MAX_LEN];
                let length = usize::from(five8::encode_32(key, &mut text));
                bytes.extend_from_slice(&text[..length]);
                ends.push(bytes.len());
                added = length;
            }
            other => panic!("a key does not go into {other:?}"),
        }
        *self.bytes += added;
    }

    /// Adds a number of 64 bits.
    pub fn long(&mut self, value: i64) {
        match self.next() {
            Buffer::Longs(values) => values.push(value),
            other => panic!("a long does not go into {other:?}"),
        }
        *self.bytes += size_of::<i64>();
    }

    /// Adds a number of 64 bits or null.
    pub fn optional_long(&mut self, value: Option<i64>) {
        match self.next() {
            Buffer::OptionalLongs(values) => values.push(value),
            other => panic!("an optional long does not go into {other:?}"),
        }
        *self.bytes += size_of::<i64>();
    }

    /// Adds a number of 32 bits.
    pub fn int(&mut self, value: i32) {
        match self.next() {
            Buffer::Ints(values) => values.push(value),
            other => panic!("an int does not go into {other:?}"),
        }
        *self.bytes += size_of::<i32>();
    }

    /// Adds true or false.
    pub fn boolean(&mut self, value: bool) {
        match self.next() {
            Buffer::Booleans(values) => values.push(value),
            other => panic!("a boolean does not go into {other:?}"),
        }
        *self.bytes += 1;
    }

    /// Adds bytes.
    pub fn data(&mut self, value: &[u8]) {
        match self.next() {
            Buffer::Bytes { bytes, ends, text: false } => {
                bytes.extend_from_slice(value);
                ends.push(bytes.len());
            }
            other => panic!("data does not go into {other:?}"),
        }
        *self.bytes += value.len();
    }
}

/// Digest of rows: their number, and the sum of a 128-bit hash (XXH3) of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Number of rows.
    pub rows: u64,
    /// Sum of their hashes, modulo 2^128.
    pub sum: u128,
}

impl Digest {
    /// Adds the rows of another digest.
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "xxh3-sum:{:032x}", self.sum)
    }
}
