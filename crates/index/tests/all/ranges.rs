//! Parts of archives must equal those of their tar, and the reported reads must be the real ones.

use std::{io, ops::Range, slice, sync::Mutex};

use proptest::prelude::*;
use unsnap_decode::ReadAt;
use unsnap_index::{FrameTable, IndexError, RangeReader, ReadCounts, ReadOptions, TableSource};
use unsnap_testkit::compress;

use crate::support::{shapes, snapshot};

/// An archive that records every read.
struct Noted<'a> {
    bytes: &'a [u8],
    reads: Mutex<Vec<Range<u64>>>,
}

impl ReadAt for Noted<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.bytes.read_at(buffer, offset)?;
        self.reads.lock().unwrap().push(offset..offset + count as u64);
        Ok(count)
    }
}

fn options(coalesce_gap: u64, threads: usize) -> ReadOptions {
    ReadOptions { coalesce_gap, threads, memory_bytes: 100_000 }
}

/// Checks the reader's output against the tar, and its counts against the actual reads.
fn check(tar: &[u8], archive: &[u8], table: &FrameTable, wanted: &[Range<u64>], how: ReadOptions) {
    let noted = Noted { bytes: archive, reads: Mutex::default() };
    let mut found = vec![None; tar.len()];
    let mut end = 0;
    let counts: ReadCounts = RangeReader::new(&noted, table, how)
        .read::<IndexError>(wanted, |offset, bytes| {
            assert!(offset >= end, "in order");
            end = offset + bytes.len() as u64;
            let at = usize::try_from(offset).unwrap();
            for (found, byte) in found[at..].iter_mut().zip(bytes) {
                assert_eq!(found.replace(*byte), None, "once");
            }
            Ok(())
        })
        .unwrap();
    let is_wanted = |at: usize| wanted.iter().any(|range| range.contains(&(at as u64)));
    for (at, found) in found.iter().enumerate() {
        assert_eq!(*found, is_wanted(at).then(|| tar[at]), "{at}");
    }
    let reads = noted.reads.into_inner().unwrap();
    let read: u64 = reads.iter().map(|read| read.end - read.start).sum();
    assert_eq!((counts.reads, counts.bytes_read), (reads.len() as u64, read));
    assert_eq!(counts.wanted_bytes, (0..tar.len()).filter(|at| is_wanted(*at)).count() as u64);
}

#[test]
fn any_part_of_any_shape_is_that_of_the_tar() {
    let tar = snapshot();
    let shapes = shapes(&tar);
    let length = tar.len() as u64;
    let range = (0..length, 0..length).prop_map(|(a, b)| a.min(b)..a.max(b));
    let short = (0..length - 700, 1..700_u64).prop_map(|(at, bytes)| at..at + bytes);
    let ranges = prop::collection::vec(prop_oneof![1 => range, 4 => short], 0..6);
    let mut runner = proptest::test_runner::TestRunner::default();
    runner
        .run(
            &(0..shapes.len(), ranges, 0..20_000_u64, 1..4_usize),
            |(shape, wanted, gap, threads)| {
                let (_, archive, table) = &shapes[shape];
                check(&tar, archive, table, &wanted, options(gap, threads));
                Ok(())
            },
        )
        .unwrap();
}

#[test]
fn tables_by_headers_are_those_that_libzstd_gives() {
    let tar = snapshot();
    for (name, archive, table) in shapes(&tar) {
        let found = FrameTable::of_archive(&archive.as_slice(), archive.len() as u64, &|| true);
        match found {
            Ok((found, TableSource::Headers)) => assert_eq!(found, table, "{name}"),
            Ok((_, source)) => panic!("{name}: {source:?}"),
            Err(IndexError::NoTable(_)) => {
                let declared = ["one frame, sized", "tiny frames", "frames", "plain"];
                assert!(!declared.contains(&name), "{name}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn one_byte_costs_one_frame() {
    let tar = snapshot();
    let archive = compress::zstd_frames(&tar, 9000, 1);
    let (table, _) =
        FrameTable::of_archive(&archive.as_slice(), archive.len() as u64, &|| true).unwrap();
    let bytes = archive.as_slice();
    let reader = RangeReader::new(&bytes, &table, ReadOptions::default());
    let byte = 100_000..100_001;
    let counts = reader.read::<IndexError>(slice::from_ref(&byte), |_, _| Ok(())).unwrap();
    assert_eq!((counts.reads, counts.frames, counts.wanted_bytes), (1, 1, 1));
    assert_eq!(counts.bytes_read, table.frames()[100_000 / 9000].bytes);
}

#[test]
fn frames_that_differ_from_the_table_are_errors() {
    let tar = snapshot();
    for (name, archive, table) in shapes(&tar) {
        if name == "plain" {
            continue;
        }
        let mut lying = FrameTable::new(table.encoding());
        for frame in table.frames() {
            let raw = (!frame.skippable).then_some(frame.raw_bytes + 1);
            lying.push(frame.bytes, raw).unwrap();
        }
        let all = 0..lying.raw_bytes();
        for threads in [1, 3] {
            let bytes = archive.as_slice();
            let reader = RangeReader::new(&bytes, &lying, options(0, threads));
            let error =
                reader.read::<IndexError>(slice::from_ref(&all), |_, _| Ok(())).unwrap_err();
            assert!(matches!(error, IndexError::Frame { .. }), "{name}: {error}");
            // An error of the sink ends the read too.
            let reader = RangeReader::new(&bytes, &table, options(0, threads));
            let range = 0..tar.len() as u64;
            let error =
                reader.read(slice::from_ref(&range), |_, _| Err(IndexError::Checksum)).unwrap_err();
            assert!(matches!(error, IndexError::Checksum), "{name}");
        }
    }
}

#[test]
fn a_reader_that_is_cancelled_says_so() {
    let tar = snapshot();
    let archive = compress::zstd_frames(&tar, 700, 1);
    let (table, _) =
        FrameTable::of_archive(&archive.as_slice(), archive.len() as u64, &|| true).unwrap();
    for threads in [1, 3] {
        let bytes = archive.as_slice();
        let reader = RangeReader::new(&bytes, &table, options(0, threads)).cancelled_by(&|| true);
        let range = 0..1000;
        let error = reader.read::<IndexError>(slice::from_ref(&range), |_, _| Ok(())).unwrap_err();
        assert!(matches!(error, IndexError::Cancelled));
    }
}

#[test]
fn frames_too_large_for_memory_are_streamed() {
    // 130 MiB of zeros in one frame of some KB.
    let raw = vec![0; 130 << 20];
    let archive = compress::zstd_one_frame(&raw, 1, None, false, true);
    let (table, _) =
        FrameTable::of_archive(&archive.as_slice(), archive.len() as u64, &|| true).unwrap();
    let bytes = archive.as_slice();
    let wanted = [5..6, 100_000_000..100_300_000];
    for threads in [1, 2] {
        let mut found = 0;
        let reader = RangeReader::new(&bytes, &table, options(0, threads));
        let counts = reader
            .read::<IndexError>(&wanted, |_, bytes| {
                assert!(bytes.iter().all(|byte| *byte == 0));
                found += bytes.len();
                Ok(())
            })
            .unwrap();
        assert_eq!((found, counts.frames), (300_001, 1));
    }
}
