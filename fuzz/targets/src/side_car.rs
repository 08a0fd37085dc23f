//! Target for side-cars: indexes beside archives.

use unsnap_index::{Encoding, EntryName, FrameTable, Index, IndexError};
use unsnap_source::{Digest, DigestKind};

use crate::{INPUT_BYTES_MAX, tables::assert_adjoin, text::assert_safe};

/// Length of the checksum at the end.
const CHECKSUM_BYTES: usize = 16;

/// Length of the shortest entry: kind, slot, id, gap, headers and size, one byte each.
const ENTRY_BYTES_MIN: usize = 6;

/// Takes a side-car, once as it is and once with the correct checksum. It is accepted only with
/// that checksum. An accepted side-car is consistent, takes memory in proportion to its length, and
/// survives a round trip.
pub fn side_car(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    let content = &data[..data.len().saturating_sub(CHECKSUM_BYTES)];
    let mut hasher = DigestKind::Xxh3.hasher();
    hasher.update(content);
    let Digest::Xxh3(checksum) = hasher.digest() else { panic!("unexpected digest") };
    let sealed = [content, &checksum.to_le_bytes()].concat();
    if sealed != data {
        refused(&Index::decode(data).expect_err("the checksum is wrong"));
    }
    match Index::decode(&sealed) {
        Ok(index) => check(&index, &sealed),
        Err(error) => {
            refused(&error);
            assert!(!matches!(error, IndexError::Checksum), "the checksum is right");
        }
    }
}

fn refused(error: &IndexError) {
    assert!(!error.is_environment(), "{error:?}");
    assert_safe(&error.to_string());
}

fn check(index: &Index, bytes: &[u8]) {
    let Index { identity, frames, entries } = index;
    assert_adjoin(frames);
    assert_eq!(frames.archive_bytes(), identity.archive_bytes);
    if frames.encoding() == Encoding::Plain {
        assert_eq!(*frames, FrameTable::plain(identity.archive_bytes));
    }
    let mut end = 0;
    let mut text_bytes = 0;
    for entry in entries.entries() {
        let path = entry.path();
        assert!(!path.is_empty() && !path.contains(&0), "{entry:?}");
        assert_eq!(EntryName::of(&path), entry.name, "a path has one name");
        assert!(entry.header_offset >= end, "{entry:?} begins before {end}");
        assert!(entry.header_offset < entry.payload_offset, "{entry:?} has a header");
        assert!(
            entry.header_offset.is_multiple_of(512) && entry.payload_offset.is_multiple_of(512)
        );
        end = entry.raw_extent().end.next_multiple_of(512);
        assert!(end <= frames.raw_bytes(), "{entry:?} lies within the stream");
        text_bytes += entry.link.len();
        if let EntryName::Path(path) = &entry.name {
            text_bytes += path.len();
        }
    }
    assert_eq!(entries.raw_end(), end);
    let taken = frames.frames().len() + entries.entries().len() * ENTRY_BYTES_MIN + text_bytes;
    assert!(taken <= bytes.len(), "{taken} out of {} bytes", bytes.len());

    let written = index.encode();
    assert_eq!(Index::decode(&written).as_ref().ok(), Some(index));
}
