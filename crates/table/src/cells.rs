//! Rows, value by value.

use crate::{
    Columns,
    columns::{Buffer, Values},
    schema::KEY_BYTES,
};

/// The value of a column in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// A key.
    Key(&'a [u8; KEY_BYTES]),
    /// Text. That of a file need not be UTF-8.
    Text(&'a [u8]),
    /// A number of 64 bits.
    Long(i64),
    /// A number of 64 bits without sign.
    Decimal(u64),
    /// A number of 32 bits.
    Int(i32),
    /// True or false.
    Boolean(bool),
    /// Bytes.
    Data(&'a [u8]),
}

impl Cell<'_> {
    /// Returns the key, whatever its form.
    pub fn to_key(self) -> Option<[u8; KEY_BYTES]> {
        match self {
            Self::Key(key) => Some(*key),
            Self::Text(text) => {
                let mut key = [0; KEY_BYTES];
                five8::decode_32(text, &mut key).ok()?;
                Some(key)
            }
            _ => None,
        }
    }
}

impl Columns {
    /// Shows all rows to `see`, in order: their values in the order of the columns.
    pub fn each_row<'a>(&'a self, mut see: impl FnMut(&[Cell<'a>])) {
        let mut cells = Vec::with_capacity(self.buffers().len());
        // Of each column, how many values the rows before have.
        let mut indexes = vec![0; self.buffers().len()];
        for row in 0..self.rows() {
            cells.clear();
            for (buffer, index) in self.buffers().iter().zip(&mut indexes) {
                cells.push(buffer.cell(row, index));
            }
            see(&cells);
        }
    }
}

impl Buffer {
    /// Returns the value in a row. `index` counts the values of the rows before.
    fn cell(&self, row: usize, index: &mut usize) -> Cell<'_> {
        if self.present.as_ref().is_some_and(|present| !present[row]) {
            return Cell::Null;
        }
        let at = *index;
        *index += 1;
        match &self.values {
            Values::Keys(keys) => keys.as_chunks().0.get(at).map_or(Cell::Null, Cell::Key),
            Values::Longs(values) => Cell::Long(values[at]),
            Values::Decimals(values) => Cell::Decimal(values[at]),
            Values::Ints(values) => Cell::Int(values[at]),
            Values::Booleans(values) => Cell::Boolean(values[at]),
            Values::Bytes { bytes, ends, text } => {
                let begin = at.checked_sub(1).map_or(0, |before| ends[before]);
                let value = &bytes[begin..ends[at]];
                if *text { Cell::Text(value) } else { Cell::Data(value) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccountColumns, KeyForm, Schema};

    #[test]
    fn rows_have_the_values_that_were_added() {
        for keys in [KeyForm::Binary, KeyForm::Base58] {
            let schema = Schema::accounts(AccountColumns { keys, data: true, provenance: false });
            let mut columns = Columns::new(&schema);
            for number in 0..3_u8 {
                let mut row = columns.row();
                row.key(&[number; 32]);
                row.key(&[2; 32]);
                row.long(number.into());
                row.long(4);
                row.int(5);
                row.boolean(number == 1);
                // Only the row in the middle has a value.
                row.or_null((number == 1).then_some(7), crate::Row::long);
                row.data(&vec![9; number.into()]);
            }
            let mut number = 0_u8;
            columns.each_row(|cells| {
                assert_eq!(cells[0].to_key(), Some([number; 32]));
                assert_eq!(matches!(cells[0], Cell::Key(_)), keys == KeyForm::Binary);
                assert_eq!(cells[1].to_key(), Some([2; 32]));
                let epoch = if number == 1 { Cell::Long(7) } else { Cell::Null };
                let data = vec![9; number.into()];
                let expected = [
                    Cell::Long(number.into()),
                    Cell::Long(4),
                    Cell::Int(5),
                    Cell::Boolean(number == 1),
                    epoch,
                    Cell::Data(&data),
                ];
                assert_eq!(cells[2..], expected);
                assert_eq!(cells[2].to_key(), None);
                number += 1;
            });
            assert_eq!(number, 3);
        }
        assert_eq!(Cell::Text(b"no key").to_key(), None);
    }
}
