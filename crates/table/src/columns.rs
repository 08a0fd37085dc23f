//! Rows in memory: one buffer for each column.

use twox_hash::XxHash3_128;

use crate::{Column, Kind, Schema, schema::KEY_BYTES};

/// Rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    rows: usize,
    buffers: Vec<Buffer>,
    /// Bytes in all buffers.
    bytes: usize,
}

/// A column of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub values: Values,
    /// Whether each row has a value; `None` if all have. Only these are among the values.
    pub present: Option<Vec<bool>>,
}

/// Values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Keys, one after the other.
    Keys(Vec<u8>),
    Longs(Vec<i64>),
    Decimals(Vec<u64>),
    Ints(Vec<i32>),
    Booleans(Vec<bool>),
    /// Values one after the other, and the end of each. Of [`Kind::Data`] and [`Kind::Text`].
    Bytes {
        bytes: Vec<u8>,
        ends: Vec<usize>,
        text: bool,
    },
}

impl Buffer {
    fn of(column: &Column) -> Self {
        let values = match column.kind {
            Kind::Key => Values::Keys(Vec::new()),
            Kind::Long => Values::Longs(Vec::new()),
            Kind::Decimal => Values::Decimals(Vec::new()),
            Kind::Int => Values::Ints(Vec::new()),
            Kind::Boolean => Values::Booleans(Vec::new()),
            Kind::Data | Kind::Text => Values::Bytes {
                bytes: Vec::new(),
                ends: Vec::new(),
                text: column.kind == Kind::Text,
            },
        };
        Self { values, present: column.nullable.then(Vec::new) }
    }

    fn append(&mut self, other: Self) {
        match (&mut self.values, other.values) {
            (Values::Keys(these), Values::Keys(others)) => these.extend(others),
            (Values::Longs(these), Values::Longs(others)) => these.extend(others),
            (Values::Decimals(these), Values::Decimals(others)) => these.extend(others),
            (Values::Ints(these), Values::Ints(others)) => these.extend(others),
            (Values::Booleans(these), Values::Booleans(others)) => these.extend(others),
            (Values::Bytes { bytes, ends, .. }, Values::Bytes { bytes: more, ends: after, .. }) => {
                let before = bytes.len();
                bytes.extend(more);
                ends.extend(after.into_iter().map(|end| before + end));
            }
            (these, others) => panic!("{others:?} cannot follow {these:?}"),
        }
        if let (Some(these), Some(others)) = (&mut self.present, other.present) {
            these.extend(others);
        }
    }
}

impl Values {
    /// Adds the bytes of a value to those that are hashed.
    fn hashed(&self, index: usize, row: &mut Vec<u8>) {
        match self {
            Self::Keys(keys) => row.extend_from_slice(&keys[index * KEY_BYTES..][..KEY_BYTES]),
            Self::Longs(values) => row.extend(values[index].to_le_bytes()),
            Self::Decimals(values) => row.extend(values[index].to_le_bytes()),
            Self::Ints(values) => row.extend(values[index].to_le_bytes()),
            Self::Booleans(values) => row.push(values[index].into()),
            Self::Bytes { bytes, ends, .. } => {
                let begin = index.checked_sub(1).map_or(0, |before| ends[before]);
                row.extend(XxHash3_128::oneshot(&bytes[begin..ends[index]]).to_le_bytes());
            }
        }
    }
}

impl Columns {
    /// Creates empty columns.
    pub fn new(schema: &Schema) -> Self {
        let buffers = schema.columns.iter().map(Buffer::of).collect();
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

    pub(crate) fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    pub(crate) fn from_buffers(rows: usize, buffers: Vec<Buffer>) -> Self {
        Self { rows, buffers, bytes: 0 }
    }

    /// Takes the buffer of a column.
    pub(crate) fn take(&mut self, column: usize) -> Option<Buffer> {
        let none = Buffer { values: Values::Booleans(Vec::new()), present: None };
        Some(std::mem::replace(self.buffers.get_mut(column)?, none))
    }

    /// Adds other rows of the same table.
    ///
    /// # Panics
    ///
    /// If they are of another table.
    pub fn append(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        for (buffer, other) in self.buffers.iter_mut().zip(other.buffers) {
            buffer.append(other);
        }
    }

    /// Returns the digest of the rows: the same for the same rows in any order.
    pub fn digest(&self) -> Digest {
        let (mut row, mut digest) = (Vec::new(), Digest::default());
        // Of each column, how many values the rows before have.
        let mut indexes = vec![0; self.buffers.len()];
        for number in 0..self.rows {
            row.clear();
            for (buffer, index) in self.buffers.iter().zip(&mut indexes) {
                if let Some(present) = &buffer.present {
                    row.push(present[number].into());
                    if !present[number] {
                        continue;
                    }
                }
                buffer.values.hashed(*index, &mut row);
                *index += 1;
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

impl<'a> Row<'a> {
    /// Returns the values of the next column, to which one is added.
    fn next(&mut self, bytes: usize) -> &'a mut Values {
        let buffer = self.buffers.next().expect("a row has no more values than columns");
        if let Some(present) = &mut buffer.present {
            present.push(true);
        }
        *self.bytes += bytes;
        &mut buffer.values
    }

    /// Adds null.
    pub fn null(&mut self) {
        let buffer = self.buffers.next().expect("a row has no more values than columns");
        buffer.present.as_mut().expect("the column may be null").push(false);
        *self.bytes += 1;
    }

    /// Adds a value or null.
    pub fn or_null<T>(&mut self, value: Option<T>, add: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => add(self, value),
            None => self.null(),
        }
    }

    /// Adds a key, in the column's form.
    pub fn key(&mut self, key: &[u8; KEY_BYTES]) {
        match self.next(KEY_BYTES) {
            Values::Keys(keys) => keys.extend_from_slice(key),
            Values::Bytes { bytes, ends, text: true } => {
                let mut text = [0; five8::BASE58_ENCODED_32_MAX_LEN];
                let length = usize::from(five8::encode_32(key, &mut text));
                bytes.extend_from_slice(&text[..length]);
                ends.push(bytes.len());
                *self.bytes += length.saturating_sub(KEY_BYTES);
            }
            other => panic!("a key does not go into {other:?}"),
        }
    }

    /// Adds a number of 64 bits.
    pub fn long(&mut self, value: i64) {
        match self.next(size_of::<i64>()) {
            Values::Longs(values) => values.push(value),
            other => panic!("a long does not go into {other:?}"),
        }
    }

    /// Adds a number of 64 bits without sign.
    pub fn decimal(&mut self, value: u64) {
        match self.next(size_of::<u64>()) {
            Values::Decimals(values) => values.push(value),
            other => panic!("a decimal does not go into {other:?}"),
        }
    }

    /// Adds a number of 32 bits.
    pub fn int(&mut self, value: i32) {
        match self.next(size_of::<i32>()) {
            Values::Ints(values) => values.push(value),
            other => panic!("an int does not go into {other:?}"),
        }
    }

    /// Adds true or false.
    pub fn boolean(&mut self, value: bool) {
        match self.next(1) {
            Values::Booleans(values) => values.push(value),
            other => panic!("a boolean does not go into {other:?}"),
        }
    }

    /// Adds a word.
    pub fn text(&mut self, value: &str) {
        match self.next(value.len()) {
            Values::Bytes { bytes, ends, text: true } => {
                bytes.extend_from_slice(value.as_bytes());
                ends.push(bytes.len());
            }
            other => panic!("text does not go into {other:?}"),
        }
    }

    /// Adds bytes.
    pub fn data(&mut self, value: &[u8]) {
        match self.next(value.len()) {
            Values::Bytes { bytes, ends, text: false } => {
                bytes.extend_from_slice(value);
                ends.push(bytes.len());
            }
            other => panic!("data does not go into {other:?}"),
        }
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
