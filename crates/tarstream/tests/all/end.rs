//! Checks at the end of an archive.

use crate::build::{Archive, BLOCK, every_construct};
use crate::seen::{Seen, walk};
use unsnap_tarstream::{Limits, TarError, Walker};

fn refusal(stream: &[u8]) -> TarError {
    walk(stream).expect_err("the archive is refused")
}

#[test]
fn an_archive_may_be_empty() {
    let seen = walk(&Archive::new().end()).expect("two zero blocks");
    assert_eq!(seen, [Seen::End { offset: 1_024 }]);
}

/// A device or a preallocated file would be read for ever.
#[test]
fn zeros_after_the_end_are_limited() {
    let stream = Archive::new().file("version", b"1.2.0").end();
    let mut walker = Walker::new(Limits::default());
    let mut rest = &stream[..];
    while !rest.is_empty() {
        rest = &rest[walker.step(rest).expect("an archive").consumed..];
    }
    let zeros = vec![0; 1 << 20];
    for _ in 0..1_024 {
        assert_eq!(walker.step(&zeros).expect("padding").consumed, zeros.len());
    }
    walker.finish().expect("padding of 1 GiB");
    let error = walker.step(&[0]).expect_err("one byte too many");
    let offset = stream.len() as u64;
    assert_eq!(error, TarError::PaddingTooLong { offset, limit: 1 << 30 });
}

#[test]
fn a_stream_cut_at_any_byte_is_refused() {
    let stream = every_construct();
    for length in 0..stream.len() {
        let error = refusal(&stream[..length]);
        let dangling = matches!(error, TarError::DanglingExtension { .. });
        assert!(dangling || error.raw_offset() == length as u64, "{length}: {error:?}");
    }
    walk(&stream).expect("the whole stream");
}

#[test]
fn the_error_says_how_far_a_cut_archive_got() {
    let stream =
        Archive::new().file("version", b"1.2.0").long(b'L', "other").file("x", &[1; 600]).end();
    let entry = || Some("version".to_owned());
    let missing_end = |offset, entry, entries, found| TarError::MissingEnd {
        offset,
        entry,
        entries,
        found,
        expected: 2,
    };
    for (length, expected) in [
        (0, missing_end(0, None, 0, 0)),
        (1, TarError::TruncatedHeader { offset: 1, entry: None, found: 1, expected: 512 }),
        (511, TarError::TruncatedHeader { offset: 511, entry: None, found: 511, expected: 512 }),
        (
            514,
            TarError::TruncatedPayload {
                offset: 514,
                entry: "version".to_owned(),
                found: 2,
                expected: 5,
            },
        ),
        (517, missing_end(517, entry(), 1, 0)),
        (700, missing_end(700, entry(), 1, 0)),
        (1_024, missing_end(1_024, entry(), 1, 0)),
        (1_537, TarError::TruncatedExtension { offset: 1_537, flag: 'L', found: 1, expected: 6 }),
        (1_600, TarError::DanglingExtension { offset: 1_024 }),
        (2_048, TarError::DanglingExtension { offset: 1_024 }),
        (
            2_560,
            TarError::TruncatedPayload {
                offset: 2_560,
                entry: "other".to_owned(),
                found: 0,
                expected: 600,
            },
        ),
        (3_584, missing_end(3_584, Some("other".to_owned()), 2, 0)),
        (4_096, missing_end(4_096, Some("other".to_owned()), 2, 1)),
        (4_100, missing_end(4_100, Some("other".to_owned()), 2, 1)),
    ] {
        assert_eq!(refusal(&stream[..length]), expected, "cut at {length}");
    }
    assert_eq!(
        refusal(&stream[..1_024]).to_string(),
        "archive ends at byte 1024 without an end marker (0 of 2 zero blocks, entries read: 1): \
         it was truncated or is still being written"
    );
    assert_eq!(
        refusal(&stream[..514]).to_string(),
        "archive is truncated at byte 514, inside version: 2 of 5 bytes present"
    );
}

#[test]
fn a_single_zero_block_ends_nothing() {
    let archive = Archive::new().file("a", b"").raw(&[0; BLOCK]).file("b", b"");
    assert_eq!(refusal(&archive.end()), TarError::StrayZeroBlock { offset: 1_024 });
    // Not even one bit may differ.
    let mut stream = Archive::new().end();
    stream[1_023] = 1;
    assert_eq!(refusal(&stream), TarError::StrayZeroBlock { offset: 512 });
}

#[test]
fn zeros_of_any_length_may_follow_the_end() {
    for zeros in (0..1_100).chain([9_216, 100_000]) {
        let mut stream = Archive::new().file("a", b"a").end();
        stream.resize(stream.len() + zeros, 0);
        walk(&stream).expect("zeros only");
    }
}

#[test]
fn anything_else_behind_the_end_is_refused() {
    let end = Archive::new().file("a", b"a").end().len();
    for zeros in 0..1_100 {
        for behind in [0, 1, 511, 5_000] {
            let mut stream = Archive::new().file("a", b"a").end();
            stream.resize(end + zeros, 0);
            stream.push(0x80);
            stream.resize(stream.len() + behind, 0);
            let offset = (end + zeros) as u64;
            assert_eq!(refusal(&stream), TarError::TrailingData { offset, found: 0x80 });
        }
    }
}

#[test]
fn a_second_archive_behind_the_first_is_refused() {
    let archive = Archive::new().file("a", b"a").end();
    let error = refusal(&[archive.clone(), archive.clone()].concat());
    assert_eq!(error, TarError::TrailingData { offset: archive.len() as u64, found: b'a' });
}

#[test]
fn an_empty_slice_changes_nothing() {
    let mut walker = Walker::new(Limits::default());
    let stream = Archive::new().end();
    for byte in &stream {
        assert_eq!(walker.step(&[]).expect("nothing to refuse").consumed, 0);
        walker.step(std::slice::from_ref(byte)).expect("a zero");
    }
    walker.finish().expect("two zero blocks");
}
