//! Fastboot files against bytes written by hand.

use proptest::prelude::*;
use unsnap_state::format::{
    FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX, Format, FormatError, NO_OBSOLETE_ACCOUNTS,
    OBSOLETE_ACCOUNTS, STATUS_CACHE, STORAGES_LIST, STORAGES_LIST_BYTES_MAX, Storage, VERSION,
    VERSION_TEXT, Version, bank_file, check_obsolete_accounts, check_version_file,
};

const STORAGES: [Storage; 2] =
    [Storage { slot: 0x0102_0304_0506_0708, id: 0x1112_1314 }, Storage { slot: 39, id: 0 }];

#[rustfmt::skip]
const LIST_V3: [u8; 32] = [
    2, 0, 0, 0, 0, 0, 0, 0,
    8, 7, 6, 5, 4, 3, 2, 1,  0x14, 0x13, 0x12, 0x11,
    39, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,
];

#[rustfmt::skip]
const LIST_V5: [u8; 40] = [
    2, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0,  0x14, 0x13, 0x12, 0x11,  8, 7, 6, 5, 4, 3, 2, 1,
    0, 0, 0, 0,  0, 0, 0, 0,  39, 0, 0, 0, 0, 0, 0, 0,
];

const FORMATS: [(Format, &[u8]); 2] = [(Format::V3, &LIST_V3), (Format::V5, &LIST_V5)];

#[test]
fn names_and_constants() {
    let names = [STATUS_CACHE, VERSION, STORAGES_LIST, OBSOLETE_ACCOUNTS, FASTBOOT_VERSION];
    let expected =
        ["status_cache", "version", "storages_list", "obsolete_accounts", "fastboot_version"];
    assert_eq!(names, expected);
    assert_eq!(bank_file(350_000_000), "350000000");
    assert_eq!(VERSION_TEXT, "1.2.0");
    assert_eq!((Format::V3.version(), Format::V5.version()), ("3.0.0", "5.0.0"));
    assert_eq!(STORAGES[1].to_string(), "39.0");
}

#[test]
fn lists_byte_by_byte() {
    for (format, bytes) in FORMATS {
        assert_eq!(format.encode_storages(&STORAGES).unwrap(), bytes);
        assert_eq!(format.decode_storages(bytes).unwrap(), STORAGES);
        assert_eq!(format.encode_storages(&[]).unwrap(), [0; 8]);
        assert_eq!(format.decode_storages(&[0; 8]).unwrap(), []);
    }
}

#[test]
fn cut_lists_and_lists_that_go_on() {
    for (format, bytes) in FORMATS {
        let file = STORAGES_LIST;
        for end in 0..bytes.len() {
            let offset = end as u64;
            let expected = if end < 8 { 8 } else { bytes.len() as u64 };
            let truncated = FormatError::Truncated { file, offset, expected };
            assert_eq!(format.decode_storages(&bytes[..end]).unwrap_err(), truncated);
        }
        let longer = [bytes, &[0]].concat();
        let trailing = FormatError::TrailingBytes { file, offset: bytes.len() as u64 };
        assert_eq!(format.decode_storages(&longer).unwrap_err(), trailing);
        // Numbers of storages that no file has.
        for count in [3, 1 << 60, u64::MAX] {
            let mut bytes = bytes.to_vec();
            bytes[..8].copy_from_slice(&u64::to_le_bytes(count));
            let error = format.decode_storages(&bytes).unwrap_err();
            let offset = bytes.len() as u64;
            assert!(
                matches!(error, FormatError::Truncated { offset: at, .. } if at == offset),
                "{error}"
            );
        }
    }
}

#[test]
fn split_storages_are_reported() {
    #[rustfmt::skip]
    let list = [
        2, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0,  7, 0, 0, 0,  39, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0,  1,  8, 0, 0, 0,  40, 0, 0, 0, 0, 0, 0, 0,
    ];
    let storage = Storage { slot: 40, id: 8 };
    let error = Format::V5.decode_storages(&list).unwrap_err();
    assert_eq!(error, FormatError::Split { offset: 24, storage });
    assert!(error.to_string().contains("40.8"), "{error}");
    let mut unknown = list;
    unknown[24] = 2;
    let error = Format::V5.decode_storages(&unknown).unwrap_err();
    assert_eq!(error, FormatError::UnknownKind { offset: 24, found: 2 });
}

#[test]
fn slots_and_ids_are_there_once() {
    let first = Storage { slot: 1, id: 10 };
    for (format, bytes) in [(Format::V3, 12), (Format::V5, 16)] {
        for (storage, what) in
            [(Storage { slot: 1, id: 11 }, "slot"), (Storage { slot: 2, id: 10 }, "id")]
        {
            let list = format.encode_storages(&[first, storage]).unwrap();
            let error = format.decode_storages(&list).unwrap_err();
            assert_eq!(error, FormatError::Duplicate { offset: 8 + bytes, storage, what });
        }
    }
}

#[test]
fn lists_are_bounded() {
    assert_eq!(STORAGES_LIST_BYTES_MAX, 104_857_600);
    let limit = STORAGES_LIST_BYTES_MAX;
    let file = STORAGES_LIST;
    for (format, count) in [(Format::V3, 8_738_132), (Format::V5, 6_553_599)] {
        let storages = vec![STORAGES[0]; count + 1];
        let bytes = format.encode_storages(&storages[1..]).unwrap();
        assert!(bytes.len() as u64 <= limit);
        let error = format.encode_storages(&storages).unwrap_err();
        assert!(matches!(error, FormatError::TooLarge { .. }), "{error}");
    }
    let found = limit + 1;
    let bytes = vec![0; usize::try_from(found).unwrap()];
    let expected = FormatError::TooLarge { file, found, limit };
    assert_eq!(Format::V3.decode_storages(&bytes).unwrap_err(), expected);
}

#[test]
fn obsolete_accounts() {
    assert_eq!(NO_OBSOLETE_ACCOUNTS, [0, 0, 0, 0, 0, 0, 0, 0]);
    check_obsolete_accounts(&NO_OBSOLETE_ACCOUNTS).unwrap();
    let file = OBSOLETE_ACCOUNTS;
    let error = check_obsolete_accounts(&[0; 7]).unwrap_err();
    assert_eq!(error, FormatError::Truncated { file, offset: 7, expected: 8 });
    let error = check_obsolete_accounts(&[0; 9]).unwrap_err();
    assert_eq!(error, FormatError::TrailingBytes { file, offset: 8 });
    let mut one = vec![0; 40];
    one[0] = 1;
    let error = check_obsolete_accounts(&one).unwrap_err();
    assert_eq!(error, FormatError::ObsoleteAccounts { storages: 1 });
}

#[test]
fn versions() {
    let version = |major, minor, patch| Version { major, minor, patch };
    for (text, expected) in [
        ("3.0.0", version(3, 0, 0)),
        ("5.0.0\n", version(5, 0, 0)),
        (" 3.1.0 ", version(3, 1, 0)),
        ("18446744073709551615.0.10", version(u64::MAX, 0, 10)),
    ] {
        assert_eq!(Version::parse(text.as_bytes()).unwrap(), expected);
        assert_eq!(expected.to_string(), text.trim());
    }
    let bad: [&[u8]; 12] = [
        b"",
        b"3",
        b"3.0",
        b"3.0.0.0",
        b"3.0.x",
        b"03.0.0",
        b"+3.0.0",
        b"3..0",
        b"3.0.0-a",
        b"18446744073709551616.0.0",
        b"\xff.0.0",
        b"3. 0.0",
    ];
    for text in bad {
        let error = Version::parse(text).unwrap_err();
        assert!(matches!(error, FormatError::BadVersion { .. }), "{error}");
    }
    assert!(!Version::parse(b"\x1b[2J").unwrap_err().to_string().contains('\x1b'));
    let long = vec![b' '; 65];
    let expected = FormatError::TooLarge {
        file: FASTBOOT_VERSION,
        found: 65,
        limit: FASTBOOT_VERSION_BYTES_MAX,
    };
    assert_eq!(Version::parse(&long).unwrap_err(), expected);

    assert_eq!(Format::of(version(3, 1, 0)), Ok(Format::V3));
    assert_eq!(Format::of(version(5, 0, 0)), Ok(Format::V5));
    for major in [0, 1, 2, 4, 6] {
        let found = version(major, 0, 0);
        assert_eq!(Format::of(found), Err(FormatError::UnknownVersion { found }));
    }
    for format in [Format::V3, Format::V5] {
        let version = Version::parse(format.version().as_bytes()).unwrap();
        assert_eq!(Format::of(version), Ok(format));
    }

    check_version_file(b"1.2.0").unwrap();
    for other in [&b"1.2.0\n"[..], b"v1.2.0", b"", b"1.2.1"] {
        assert!(check_version_file(other).is_err());
    }
    assert!(matches!(check_version_file(&[b'1'; 65]), Err(FormatError::TooLarge { .. })));
}

proptest! {
    /// What is read is what would be written; nothing else is accepted, and nothing panics.
    #[test]
    fn arbitrary_lists(
        count in 0u64..5,
        rest in proptest::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..80),
        v5 in any::<bool>(),
    ) {
        let format = if v5 { Format::V5 } else { Format::V3 };
        let bytes = [&count.to_le_bytes()[..], &rest].concat();
        if let Ok(storages) = format.decode_storages(&bytes) {
            prop_assert_eq!(format.encode_storages(&storages).unwrap(), bytes);
        }
    }

    #[test]
    fn arbitrary_storages(
        storages in proptest::collection::btree_map(any::<u64>(), any::<u32>(), 0..50),
        v5 in any::<bool>(),
    ) {
        let format = if v5 { Format::V5 } else { Format::V3 };
        let storages: Vec<_> =
            storages.into_iter().map(|(slot, id)| Storage { slot, id }).collect();
        let ids: std::collections::HashSet<_> = storages.iter().map(|storage| storage.id).collect();
        prop_assume!(ids.len() == storages.len());
        let bytes = format.encode_storages(&storages).unwrap();
        prop_assert_eq!(format.decode_storages(&bytes).unwrap(), storages);
    }
}
