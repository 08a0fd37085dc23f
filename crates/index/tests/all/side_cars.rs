//! Side-cars survive a round trip, and any other content is refused.

use proptest::prelude::*;
use unsnap_index::{EntryName, FrameTable, Index, IndexError, side_car_path};
use unsnap_testkit::compress;

use crate::support::{entries, index, shapes, snapshot};

#[test]
fn an_index_comes_back_as_it_was() {
    let tar = snapshot();
    for (name, archive, table) in shapes(&tar) {
        let written = index(&tar, &archive, &table);
        let bytes = written.encode();
        let read = Index::decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read, written, "{name}");
        assert_eq!(read.encode(), bytes, "{name}: the encoding is unique");
        read.identity.check(&archive.as_slice(), archive.len() as u64).unwrap();
    }
}

#[test]
fn entries_are_those_of_the_tar_crate() {
    let tar = snapshot();
    let table = entries(&tar);
    let mut archive = tar::Archive::new(tar.as_slice());
    let mut found = table.entries().iter();
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let ours = found.next().unwrap();
        assert_eq!(ours.path(), entry.path_bytes());
        assert_eq!(ours.header_offset, entry.raw_header_position());
        assert_eq!((ours.payload_offset, ours.size), (entry.raw_file_position(), entry.size()));
    }
    assert_eq!(found.next(), None);
    let slots: Vec<u64> = table.entries().iter().filter_map(|entry| entry.name.slot()).collect();
    assert_eq!(slots, [5, 3, 70_000]);
    let storage = EntryName::Storage { slot: 3, id: 2 };
    assert!(table.entries().iter().any(|entry| entry.name == storage));
}

#[test]
fn a_side_car_is_small() {
    let storages: Vec<_> =
        (0..2000_u32).map(|n| (350_000_000 + u64::from(n), n, vec![1; 600])).collect();
    let tar = unsnap_testkit::tar::snapshot_tar(350_100_000, &storages);
    let archive = compress::zstd_frames(&tar, 32 << 20, 1);
    let table = crate::support::zstd_table(&archive);
    let bytes = index(&tar, &archive, &table).encode().len();
    assert!(bytes < 2000 * 9, "{bytes}");
}

#[test]
fn every_changed_byte_is_noticed() {
    let tar = snapshot();
    let archive = compress::zstd_frames(&tar, 9000, 1);
    let bytes = index(&tar, &archive, &crate::support::zstd_table(&archive)).encode();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let error = Index::decode(&changed).unwrap_err();
        match at {
            0..8 => assert!(matches!(error, IndexError::NotAnIndex(_)), "{at}: {error}"),
            8..12 => assert!(matches!(error, IndexError::Version { .. }), "{at}: {error}"),
            _ => assert!(matches!(error, IndexError::Checksum), "{at}: {error}"),
        }
    }
    for length in 0..bytes.len() {
        assert!(Index::decode(&bytes[..length]).is_err(), "{length}");
    }
}

/// Appends the correct checksum.
fn sealed(content: &[u8]) -> Vec<u8> {
    use unsnap_source::{Digest, DigestKind};
    let mut hasher = DigestKind::Xxh3.hasher();
    hasher.update(content);
    let Digest::Xxh3(value) = hasher.digest() else { unreachable!() };
    [content, &value.to_le_bytes()].concat()
}

proptest! {
    /// Anyone who can write a side-car can append the correct checksum. An accepted side-car is
    /// consistent and survives rewriting.
    #[test]
    fn hostile_side_cars_are_refused_or_consistent(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let tar = snapshot();
        let archive = compress::zstd_firedancer(&tar, 1);
        let mut bytes = index(&tar, &archive, &crate::support::zstd_table(&archive)).encode();
        bytes.truncate(bytes.len() - 16);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(index) = Index::decode(&sealed(&bytes)) {
            let frames = index.frames.frames();
            let sum: u64 = frames.iter().map(|frame| frame.bytes).sum();
            prop_assert_eq!(sum, index.identity.archive_bytes);
            let end = index.entries.entries().last().map_or(0, |entry| entry.raw_extent().end);
            prop_assert!(end <= index.frames.raw_bytes());
            prop_assert_eq!(Index::decode(&index.encode()).unwrap(), index);
        }
    }
}

#[test]
fn a_table_that_a_side_car_cannot_hold_is_refused() {
    let tar = snapshot();
    let table = FrameTable::plain(tar.len() as u64 - 512);
    let identity = index(&tar, &tar, &FrameTable::plain(tar.len() as u64)).identity;
    assert!(Index::new(identity, table, entries(&tar)).is_err());
}

#[test]
fn it_lies_beside_its_archive() {
    let path = side_car_path("/mnt/snapshot-1-x.tar.zst".as_ref());
    assert_eq!(path.as_os_str(), "/mnt/snapshot-1-x.tar.zst.unsnap-index");
}
