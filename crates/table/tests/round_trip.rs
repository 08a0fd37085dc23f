//! Rows survive the way through a file, and files hold what engines need.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding},
    file::reader::{FileReader, SerializedFileReader},
};
use proptest::prelude::*;
use unsnap_table::{
    AccountColumns, Columns, Digest, Encoder, KeyForm, Kind, Row, Schema, TableError, TableFile,
    TableKind, read_rows,
};

/// An account, as far as it becomes a row.
#[derive(Clone, Debug)]
struct Account {
    pubkey: [u8; 32],
    owner: [u8; 32],
    lamports: i64,
    slot: i64,
    rent_epoch: Option<i64>,
    executable: bool,
    data: Vec<u8>,
}

const KEYS: [KeyForm; 2] = [KeyForm::Binary, KeyForm::Base58];

const TABLES: [TableKind; 5] = [
    TableKind::Accounts,
    TableKind::TokenAccounts,
    TableKind::Mints,
    TableKind::Stakes,
    TableKind::Votes,
];

const ALL: AccountColumns = AccountColumns { keys: KeyForm::Binary, data: true, provenance: true };

fn rows(schema: &Schema, wanted: AccountColumns, accounts: &[Account]) -> Columns {
    let mut columns = Columns::new(schema);
    for (index, account) in (0..).zip(accounts) {
        let mut row = columns.row();
        row.key(&account.pubkey);
        row.key(&account.owner);
        row.long(account.lamports);
        row.long(account.slot);
        row.int(i32::try_from(account.data.len()).unwrap());
        row.boolean(account.executable);
        row.or_null(account.rent_epoch, Row::long);
        if wanted.provenance {
            row.long(index);
            row.long(i64::MAX - index);
        }
        if wanted.data {
            row.data(&account.data);
        }
    }
    columns
}

/// Writes row groups of several parts each.
fn file(encoder: &Encoder, groups: Vec<Vec<Columns>>) -> Vec<u8> {
    let facts = [("name".to_owned(), "value".to_owned())];
    let mut file = TableFile::begin(encoder, Vec::new(), facts).unwrap();
    for group in groups {
        file.append(encoder.encode(group).unwrap()).unwrap();
    }
    file.finish().unwrap()
}

fn read(schema: &Schema, file: Vec<u8>) -> Result<Digest, TableError> {
    let mut digest = Digest::default();
    read_rows(schema, Bytes::from(file), |rows| {
        digest.add(rows.digest());
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(digest)
}

fn numbers() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), Just(1), Just(i64::MAX), 0..1000_i64, 0..i64::MAX]
}

prop_compose! {
    fn account()(
        pubkey in any::<[u8; 32]>(),
        owner in prop_oneof![Just([0; 32]), Just([255; 32]), any::<[u8; 32]>()],
        lamports in numbers(),
        slot in numbers(),
        rent_epoch in proptest::option::of(numbers()),
        executable in any::<bool>(),
        data in proptest::collection::vec(any::<u8>(), 0..300),
    ) -> Account {
        Account { pubkey, owner, lamports, slot, rent_epoch, executable, data }
    }
}

proptest! {
    #[test]
    fn rows_survive(
        accounts in proptest::collection::vec(account(), 0..200),
        cuts in proptest::collection::vec(0..200_usize, 0..4),
        base58 in any::<bool>(),
        data in any::<bool>(),
        provenance in any::<bool>(),
    ) {
        let keys = if base58 { KeyForm::Base58 } else { KeyForm::Binary };
        let wanted = AccountColumns { keys, data, provenance };
        let schema = Schema::accounts(wanted);
        let encoder = Encoder::new(schema.clone()).unwrap();
        let expected = {
            let mut digest = Digest::default();
            let mut rest = &accounts[..];
            let mut groups = Vec::new();
            for cut in cuts {
                let (part, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                let part = rows(&schema, wanted, part);
                digest.add(part.digest());
                groups.push(vec![part]);
            }
            let last = rows(&schema, wanted, rest);
            digest.add(last.digest());
            // A row group of several parts, one of them empty.
            groups.push(vec![last, Columns::new(&schema)]);
            groups.retain(|group| group[0].rows() > 0);
            prop_assert_eq!(read(&schema, file(&encoder, groups)).unwrap(), digest);
            digest
        };
        prop_assert_eq!(expected.rows, accounts.len() as u64);
    }
}

fn some_accounts(count: u8) -> Vec<Account> {
    let account = |number: u8| Account {
        pubkey: [number; 32],
        owner: [number / 16; 32],
        lamports: number.into(),
        slot: number.into(),
        rent_epoch: number.is_multiple_of(2).then_some(0),
        executable: number.is_multiple_of(3),
        data: vec![number; number.into()],
    };
    (0..count).map(account).collect()
}

#[test]
fn the_digest_knows_every_value_and_no_order() {
    let schema = Schema::accounts(ALL);
    let digest = |accounts: &[Account]| {
        let wanted = AccountColumns { provenance: false, ..ALL };
        rows(&Schema::accounts(wanted), wanted, accounts).digest()
    };
    let accounts = some_accounts(50);
    let expected = digest(&accounts);
    let mut turned = accounts.clone();
    turned.reverse();
    assert_eq!(digest(&turned), expected);
    let changes: [fn(&mut Account); 7] = [
        |account| account.pubkey[31] ^= 1,
        |account| account.owner[0] ^= 1,
        |account| account.lamports += 1,
        |account| account.slot += 1,
        |account| account.rent_epoch = account.rent_epoch.map_or(Some(0), |_| None),
        |account| account.executable ^= true,
        |account| account.data[5] ^= 1,
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut changed = accounts.clone();
        change(&mut changed[20]);
        assert_ne!(digest(&changed), expected, "change {index}");
    }
    // Values that swap between rows are a change as well.
    let mut swapped = accounts.clone();
    (swapped[3].owner, swapped[40].owner) = (swapped[40].owner, swapped[3].owner);
    assert_ne!(digest(&swapped), expected);
    assert_ne!(digest(&accounts[1..]), expected);
    assert_eq!(rows(&schema, ALL, &[]).digest(), Digest::default());
}

#[test]
fn a_file_without_rows_is_a_file() {
    let schema = Schema::accounts(ALL);
    let empty = file(&Encoder::new(schema.clone()).unwrap(), Vec::new());
    assert_eq!(read(&schema, empty).unwrap(), Digest::default());
}

#[test]
fn the_largest_account_and_many_pages_survive() {
    let schema = Schema::accounts(ALL);
    let encoder = Encoder::new(schema.clone()).unwrap();
    let mut accounts = some_accounts(200);
    accounts[7].data = (0..10 << 20).map(|at: u32| at.to_le_bytes()[1]).collect();
    let many: Vec<Account> = accounts
        .iter()
        .cycle()
        .take(45_000)
        .cloned()
        .map(|mut account| {
            account.data.truncate(10);
            account
        })
        .collect();
    let groups = [rows(&schema, ALL, &accounts), rows(&schema, ALL, &many)];
    let mut expected = groups[0].digest();
    expected.add(groups[1].digest());
    let [first, second] = groups;
    assert_eq!(read(&schema, file(&encoder, vec![vec![first, second]])).unwrap(), expected);
}

#[test]
fn a_file_of_another_table_or_a_damaged_one_is_refused() {
    let schema = Schema::accounts(ALL);
    let encoder = Encoder::new(schema.clone()).unwrap();
    let good = file(&encoder, vec![vec![rows(&schema, ALL, &some_accounts(100))]]);
    let other = Schema::accounts(AccountColumns { data: false, ..ALL });
    assert!(matches!(read(&other, good.clone()), Err(TableError::Schema { .. })));
    let text = Schema::accounts(AccountColumns { keys: KeyForm::Base58, ..ALL });
    let error = read(&text, good.clone()).unwrap_err();
    assert!(error.to_string().contains("column pubkey"), "{error}");
    for cut in [0, 4, good.len() / 2, good.len() - 1] {
        assert!(read(&schema, good[..cut].to_vec()).is_err(), "cut at {cut}");
    }
    // Inside of the public keys, which nothing but the digest protects.
    let mut damaged = good.clone();
    let key = good.windows(32).position(|bytes| bytes == [77; 32]).unwrap();
    damaged[key] ^= 1;
    assert_ne!(read(&schema, damaged).unwrap(), read(&schema, good).unwrap());
}

/// What some engines read wrongly, or not at all, is in no file: DuckDB 1.5 finds nothing through
/// Bloom filters on binary columns, Trino reads UINT_64 as signed and not LZ4_RAW, DuckDB does not read
/// BYTE_STREAM_SPLIT on fixed binary.
#[test]
fn files_hold_nothing_that_engines_read_wrongly() {
    for (kind, keys) in TABLES.iter().flat_map(|kind| KEYS.map(|keys| (*kind, keys))) {
        let schema = Schema::of(kind, AccountColumns { keys, ..ALL });
        let encoder = Encoder::new(schema.clone()).unwrap();
        let mut rows = Columns::new(&schema);
        (0..200).for_each(|number| any_row(&schema, &mut rows, number));
        let file = file(&encoder, vec![vec![rows]]);
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        let metadata = reader.metadata();
        let facts = metadata.file_metadata().key_value_metadata().unwrap();
        assert!(facts.iter().any(|fact| fact.key == "name"));
        for column in metadata.row_group(0).columns() {
            let name = column.column_path().string();
            assert_eq!(column.bloom_filter_offset(), None, "{name}");
            assert!(
                matches!(column.compression(), Compression::ZSTD(_) | Compression::UNCOMPRESSED),
                "{name}: {:?}",
                column.compression()
            );
            assert!(column.encodings().all(|it| it != Encoding::BYTE_STREAM_SPLIT), "{name}");
            let logical = column.column_descr().logical_type_ref();
            let is_unsigned = format!("{logical:?}").contains("is_signed: false");
            assert!(!is_unsigned, "{name}: {logical:?}");
            // Statistics of keys would cost much where keys are text, and data has none at all.
            let has_statistics = name != "data" && !(keys == KeyForm::Base58 && name == "pubkey");
            assert_eq!(column.statistics().is_some(), has_statistics, "{name}");
            assert!(column.offset_index_offset().is_some(), "{name}");
        }
        let last = metadata.row_group(0).columns().last().unwrap().column_path().string();
        assert_eq!(last, if kind == TableKind::Accounts { "data" } else { "offset" });
    }
}

#[test]
fn keys_are_written_as_everyone_writes_them() {
    let wanted = AccountColumns { keys: KeyForm::Base58, data: false, provenance: false };
    let schema = Schema::accounts(wanted);
    let accounts = some_accounts(200);
    let columns = rows(&schema, wanted, &accounts);
    let file = file(&Encoder::new(schema.clone()).unwrap(), vec![vec![columns]]);
    let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    for (row, account) in rows.iter().zip(&accounts) {
        let text = |name: &str| {
            let (_, field) = row.get_column_iter().find(|(column, _)| *column == name).unwrap();
            field.to_string()
        };
        let quoted = |key: [u8; 32]| format!("\"{}\"", bs58::encode(key).into_string());
        assert_eq!(text("pubkey"), quoted(account.pubkey));
        assert_eq!(text("owner"), quoted(account.owner));
    }
    assert_eq!(rows.len(), accounts.len());
}

/// A row of every column that the table has, from numbers: nulls where they are odd.
fn any_row(schema: &Schema, columns: &mut Columns, number: u8) {
    let mut row = columns.row();
    for (column, index) in schema.columns.iter().zip(number..) {
        if column.nullable && index % 2 == 1 {
            row.null();
            continue;
        }
        match column.kind {
            Kind::Text if column.name == "state" => {
                row.text(["frozen", "ok"][usize::from(index % 2)]);
            }
            Kind::Key | Kind::Text => row.key(&[index; 32]),
            Kind::Long => row.long(i64::from(index) - 100),
            Kind::Decimal => row.decimal(u64::MAX - u64::from(index % 8)),
            Kind::Int => row.int(i32::MAX - i32::from(index)),
            Kind::Boolean => row.boolean(index > 99),
            Kind::Data => row.data(&vec![index; index.into()]),
        }
    }
}

#[test]
fn every_table_survives_with_its_nulls() {
    for kind in TABLES {
        for keys in KEYS {
            let schema = Schema::of(kind, AccountColumns { keys, ..ALL });
            let [mut whole, mut parts] = [(); 2].map(|()| Columns::new(&schema));
            for number in 0..100 {
                any_row(&schema, &mut whole, number);
                let mut part = Columns::new(&schema);
                any_row(&schema, &mut part, number);
                parts.append(part);
            }
            assert_eq!(whole, parts, "appended rows are the same");
            let expected = whole.digest();
            let file = file(&Encoder::new(schema.clone()).unwrap(), vec![vec![whole, parts]]);
            let found = read(&schema, file.clone()).unwrap();
            assert_eq!((found.rows, found.sum), (200, expected.sum.wrapping_mul(2)), "{kind:?}");
            let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
            for (row, number) in reader.get_row_iter(None).unwrap().zip(0_u8..100) {
                for ((_, field), (column, index)) in
                    row.unwrap().get_column_iter().zip(schema.columns.iter().zip(number..))
                {
                    let is_null = column.nullable && index % 2 == 1;
                    let text = field.to_string();
                    assert_eq!(text == "null", is_null, "{}", column.name);
                    if column.kind == Kind::Decimal && !is_null {
                        let expected = u64::MAX - u64::from(index % 8);
                        assert_eq!(text.trim_end_matches('.'), expected.to_string());
                    }
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "the column may be null")]
fn null_does_not_go_into_every_column() {
    Columns::new(&Schema::accounts(ALL)).row().null();
}
