//! Searches find the rows that reading everything finds, and read less.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, ops::Range};

use bytes::Bytes;
use proptest::prelude::*;
use unsnap_table::{
    AccountColumns, Cell, Columns, Encoder, KeyForm, Parts, Schema, Searched, TableError,
    TableFile, search,
};

type Key = [u8; 32];

/// A file in memory, with the ranges that were read.
struct InMemory {
    bytes: Bytes,
    read: Vec<Range<u64>>,
}

impl InMemory {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into(), read: Vec::new() }
    }

    fn bytes_read(&self) -> u64 {
        self.read.iter().map(|range| range.end - range.start).sum()
    }
}

impl Parts for InMemory {
    type Error = TableError;

    fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<(u64, Bytes)>, TableError> {
        self.read.extend_from_slice(ranges);
        let part = |range: &Range<u64>| {
            let index = |at: u64| usize::try_from(at).unwrap();
            (range.start, self.bytes.slice(index(range.start)..index(range.end)))
        };
        Ok(ranges.iter().map(part).collect())
    }
}

fn schema(keys: KeyForm) -> Schema {
    Schema::accounts(AccountColumns { keys, data: true, provenance: false })
}

/// The key of a number: numbers in order have keys in order.
fn key(number: u64) -> Key {
    let mut key = [7; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// A file with a row for each number, in row groups.
fn file(schema: &Schema, groups: &[Vec<u64>]) -> Vec<u8> {
    let encoder = Encoder::new(schema.clone()).unwrap();
    let mut file = TableFile::begin(&encoder, Vec::new(), []).unwrap();
    for group in groups {
        let mut columns = Columns::new(schema);
        for number in group {
            let mut row = columns.row();
            row.key(&key(*number));
            row.key(&key(number % 3));
            row.long(i64::try_from(*number).unwrap());
            row.long(5);
            row.int(i32::try_from(number % 50).unwrap());
            row.boolean(number.is_multiple_of(2));
            row.or_null(number.is_multiple_of(7).then_some(9), unsnap_table::Row::long);
            row.data(&vec![number.to_le_bytes()[0]; usize::try_from(number % 50).unwrap()]);
        }
        file.append(encoder.encode(vec![columns]).unwrap()).unwrap();
    }
    file.finish().unwrap()
}

/// Searches for numbers. Returns those that were found, each with the right values.
fn found(
    schema: &Schema,
    parts: &mut InMemory,
    wanted: &[u64],
    with_data: bool,
) -> Result<(Vec<u64>, Searched), TableError> {
    let keys: BTreeSet<Key> = wanted.iter().map(|number| key(*number)).collect();
    let mut numbers = Vec::new();
    let searched = search(schema, parts, &keys, with_data, |cells| {
        let Cell::Long(number) = cells[2] else { panic!("{cells:?}") };
        let number = u64::try_from(number).unwrap();
        assert_eq!(cells[0].to_key(), Some(key(number)));
        assert_eq!(cells[1].to_key(), Some(key(number % 3)));
        let epoch = if number.is_multiple_of(7) { Cell::Long(9) } else { Cell::Null };
        let few = [
            Cell::Long(5),
            Cell::Int(i32::try_from(number % 50).unwrap()),
            Cell::Boolean(number.is_multiple_of(2)),
            epoch,
        ];
        assert_eq!(cells[3..7], few);
        assert_eq!(cells.len(), if with_data { 8 } else { 7 });
        if with_data {
            let data = vec![number.to_le_bytes()[0]; usize::try_from(number % 50).unwrap()];
            assert_eq!(cells[7], Cell::Data(&data));
        }
        numbers.push(number);
    })?;
    Ok((numbers, searched))
}

#[test]
fn of_sorted_rows_one_page_is_read() {
    let schema = schema(KeyForm::Binary);
    // Even numbers are there.
    let groups = [0..50_000, 50_000..120_000]
        .map(|group: Range<u64>| group.map(|number| number * 2).collect::<Vec<_>>());
    let mut parts = InMemory::new(file(&schema, &groups));
    let (numbers, searched) = found(&schema, &mut parts, &[130_000], true).unwrap();
    assert_eq!(numbers, [130_000]);
    let expected = Searched { row_groups: 2, row_groups_read: 1, pages: 4, pages_read: 1, rows: 1 };
    assert_eq!(searched, expected);
    // The footer, one page of addresses, and a page of each column.
    let share = parts.bytes_read() * 2;
    assert!(share < parts.file_bytes(), "{share} of {}", parts.file_bytes());
    // What would be between two others is not there: one page. What is behind all: none.
    for (number, pages_read) in [(130_001, 1), (240_001, 0)] {
        let mut parts = InMemory::new(parts.bytes.to_vec());
        let (numbers, searched) = found(&schema, &mut parts, &[number], false).unwrap();
        assert_eq!((numbers, searched.pages_read), (vec![], pages_read));
    }
    // Of the others without their data, that is not read.
    let mut without = InMemory::new(parts.bytes.to_vec());
    found(&schema, &mut without, &[130_000], false).unwrap();
    assert!(without.bytes_read() < parts.bytes_read());
}

#[test]
fn other_tables_and_no_tables_are_refused() {
    let binary = schema(KeyForm::Binary);
    let bytes = file(&binary, &[vec![1, 2, 3]]);
    let other = found(&schema(KeyForm::Base58), &mut InMemory::new(bytes.clone()), &[1], true);
    assert!(matches!(other, Err(TableError::Schema { .. })));
    for length in [0, 1, 7, 8, 12, bytes.len() / 2, bytes.len() - 1] {
        let mut cut = InMemory::new(bytes[..length].to_vec());
        assert!(found(&binary, &mut cut, &[1], true).is_err(), "{length}");
    }
    let none = file(&binary, &[]);
    assert_eq!(found(&binary, &mut InMemory::new(none), &[1], true).unwrap().0, [0; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_search_finds_what_is_there(
        groups in prop::collection::vec(prop::collection::vec(0..300_u64, 1..200), 0..4),
        wanted in prop::collection::vec(0..320_u64, 0..12),
        base58: bool,
        with_data: bool,
    ) {
        let schema = schema(if base58 { KeyForm::Base58 } else { KeyForm::Binary });
        let mut parts = InMemory::new(file(&schema, &groups));
        let (numbers, searched) = found(&schema, &mut parts, &wanted, with_data).unwrap();
        let all = groups.iter().flatten().copied();
        let expected: Vec<u64> = all.filter(|number| wanted.contains(number)).collect();
        prop_assert_eq!(searched.rows, expected.len() as u64);
        prop_assert_eq!(numbers, expected);
        if wanted.is_empty() && !base58 {
            prop_assert_eq!(searched.pages_read, 0);
        }
    }
}
