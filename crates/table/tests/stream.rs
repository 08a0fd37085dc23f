//! Streams hold every row, and a cut stream is never complete.

#![allow(clippy::unwrap_used)]

use std::io::{self, Cursor, Write};

use arrow_array::{
    Array, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Int32Array,
    Int64Array, RecordBatch, StringArray,
};
use arrow_ipc::reader::StreamReader;
use unsnap_table::{
    AccountColumns, ArrowEncoder, ArrowStream, Columns, KeyForm, Kind, Schema, TableKind,
};

const TABLES: [TableKind; 5] = [
    TableKind::Accounts,
    TableKind::TokenAccounts,
    TableKind::Mints,
    TableKind::Stakes,
    TableKind::Votes,
];

const WITH_NULLS: [u8; 2] = [0, 1];

/// A row from numbers: nulls where they are odd. Returns its values as text.
fn add_row(schema: &Schema, columns: &mut Columns, number: u8) -> Vec<String> {
    let mut row = columns.row();
    let mut values = Vec::new();
    for (column, index) in schema.columns.iter().zip(number..) {
        if column.nullable && index % 2 == 1 {
            row.null();
            values.push("null".to_owned());
            continue;
        }
        values.push(match column.kind {
            Kind::Key => {
                row.key(&[index; 32]);
                format!("{:?}", [index; 32])
            }
            Kind::Text => {
                let word = "x".repeat(index.into());
                row.text(&word);
                word
            }
            Kind::Long => {
                row.long(i64::MIN + i64::from(index));
                (i64::MIN + i64::from(index)).to_string()
            }
            Kind::Decimal => {
                row.decimal(u64::MAX - u64::from(index));
                (u64::MAX - u64::from(index)).to_string()
            }
            Kind::Int => {
                row.int(i32::MAX - i32::from(index));
                (i32::MAX - i32::from(index)).to_string()
            }
            Kind::Boolean => {
                row.boolean(index % 3 == 0);
                (index % 3 == 0).to_string()
            }
            Kind::Data => {
                row.data(&vec![index; index.into()]);
                format!("{:?}", vec![index; index.into()])
            }
        });
    }
    values
}

/// Returns the values of a batch's rows as text.
fn text(batch: &RecordBatch) -> Vec<Vec<String>> {
    let value = |array: &dyn Array, row: usize| {
        let any = array.as_any();
        if array.is_null(row) {
            "null".to_owned()
        } else if let Some(keys) = any.downcast_ref::<FixedSizeBinaryArray>() {
            format!("{:?}", keys.value(row))
        } else if let Some(texts) = any.downcast_ref::<StringArray>() {
            texts.value(row).to_owned()
        } else if let Some(bytes) = any.downcast_ref::<BinaryArray>() {
            format!("{:?}", bytes.value(row))
        } else if let Some(longs) = any.downcast_ref::<Int64Array>() {
            longs.value(row).to_string()
        } else if let Some(decimals) = any.downcast_ref::<Decimal128Array>() {
            decimals.value(row).to_string()
        } else if let Some(ints) = any.downcast_ref::<Int32Array>() {
            ints.value(row).to_string()
        } else {
            any.downcast_ref::<BooleanArray>().unwrap().value(row).to_string()
        }
    };
    let row = |row| batch.columns().iter().map(|array| value(array, row)).collect();
    (0..batch.num_rows()).map(row).collect()
}

/// A pipe: it takes small writes as a whole or not at all.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    /// Where the bytes can end if the writer dies.
    ends: Vec<usize>,
}

/// Size up to which this pipe takes a write as a whole. Linux does so up to 4096 bytes.
const WHOLE_BYTES: usize = 12;

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let end = self.bytes.len();
        if bytes.len() <= WHOLE_BYTES {
            self.ends.push(end);
        } else {
            self.ends.extend(before + 1..=end);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes a stream of batches of several parts each. Returns it with its rows as text.
fn stream(kind: TableKind, batches: u8) -> (Pipe, Vec<Vec<String>>) {
    let wanted = AccountColumns { keys: KeyForm::Binary, data: true, provenance: true };
    let schema = Schema::of(kind, wanted);
    let facts = [("name".to_owned(), "value".to_owned())];
    let encoder = ArrowEncoder::new(schema.clone(), facts).unwrap();
    let mut stream = ArrowStream::begin(&encoder, Pipe::default()).unwrap();
    let mut rows = Vec::new();
    for batch in 0..batches {
        let parts = WITH_NULLS.map(|part| {
            let mut columns = Columns::new(&schema);
            for number in 0..5 {
                rows.push(add_row(&schema, &mut columns, batch * 20 + part * 7 + number));
            }
            columns
        });
        let message = encoder.encode(parts.into()).unwrap();
        stream.append(&message).unwrap();
    }
    (stream.finish().unwrap(), rows)
}

/// Reads a stream as a program that has nothing but it.
fn read(bytes: &[u8]) -> Result<Vec<Vec<String>>, String> {
    let reader = StreamReader::try_new(Cursor::new(bytes), None).map_err(|it| it.to_string())?;
    let mut rows = Vec::new();
    for batch in reader {
        rows.extend(text(&batch.map_err(|error| error.to_string())?));
    }
    Ok(rows)
}

#[test]
fn every_table_survives_with_its_nulls() {
    for kind in TABLES {
        for batches in [0, 1, 3] {
            let (Pipe { bytes, .. }, rows) = stream(kind, batches);
            assert_eq!(read(&bytes).unwrap(), rows, "{kind:?}");
        }
    }
    let (Pipe { bytes, .. }, _) = stream(TableKind::Votes, 1);
    let reader = StreamReader::try_new(Cursor::new(bytes), None).unwrap();
    assert_eq!(reader.schema().metadata()["name"], "value");
}

#[test]
fn a_stream_whose_writer_dies_is_refused() {
    let (Pipe { bytes, mut ends }, rows) = stream(TableKind::Mints, 3);
    assert_eq!(read(&bytes).unwrap(), rows);
    assert_eq!(ends.pop(), Some(bytes.len()));
    // One for almost every byte.
    assert!(ends.len() > bytes.len() - 100, "{} ends", ends.len());
    for end in ends {
        assert!(read(&bytes[..end]).is_err(), "cut at {end} of {}", bytes.len());
    }
}
