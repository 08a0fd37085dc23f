//! Seek tables at the ends of archives that have no index: what they say is used where it can be held to
//! the frames, and what lies is passed over, with the reason told.

use std::fs;

use serde_json::Value;
use unsnap_index::{SeekEntry, SeekTable};
use unsnap_test_support::{Site, assert_holds, expected_tree};
use unsnap_testkit::{compress, spec::ArchiveSpec, tree::decompress};
use zstd::zstd_safe;

use crate::lookup::tool;

/// The table of these frames, with `lie` told of the decoded size of each, which it may change.
fn table(mut frames: &[u8], mut lie: impl FnMut(usize, &mut u32)) -> Vec<u8> {
    let mut table = SeekTable::new(false);
    for number in 0.. {
        if frames.is_empty() {
            break;
        }
        let length = zstd_safe::find_frame_compressed_size(frames).unwrap();
        let (frame, rest) = frames.split_at(length);
        let raw = decompress(frame).unwrap().len();
        let (bytes, mut raw_bytes) = (u32::try_from(length).unwrap(), u32::try_from(raw).unwrap());
        lie(number, &mut raw_bytes);
        table.push(SeekEntry { bytes, raw_bytes, checksum: None }).unwrap();
        frames = rest;
    }
    table.encode()
}

/// The tar stream of an archive that is too large for preflight to decode all of it.
fn stream(site: &Site) -> Vec<u8> {
    let spec = ArchiveSpec { total_bytes: 24_000_000, ..ArchiveSpec::default() };
    decompress(&fs::read(site.archive(&spec)).unwrap()).unwrap()
}

#[test]
fn the_length_of_the_tar_stream_is_that_of_the_table() {
    let site = Site::new();
    let tar = stream(&site);
    // As `ZSTD_seekable_compressStream` of the zstd project makes them: frames declare nothing.
    let frames = compress::zstd_frames_unsized(&tar, 1 << 20, 1);
    let with = |table: Vec<u8>| site.write("archive.tar.zst", &[&frames[..], &table].concat());
    let preflight = |flags: &[&str]| -> Value {
        site.reset(false);
        let output = site.output();
        let words = ["unpack", "--format", "json", "--output", output.to_str().unwrap()];
        let archive = site.path("archive.tar.zst");
        let report = tool(&[&words[..], flags].concat(), &archive).assert_code(0).json();
        // Whatever a table says, the files are those of the stream.
        assert_holds(&output, &expected_tree(&frames), "unpacked");
        report["preflight"].clone()
    };
    with(table(&frames, |_, _| {}));
    let found = preflight(&[]);
    assert_eq!((&found["basis"], &found["tar_bytes"]), (&"declared".into(), &tar.len().into()));
    assert_eq!(found["warnings"], Value::Array(Vec::new()), "{found}");
    let found = preflight(&["--no-index"]);
    assert_eq!(found["basis"], "sampled", "{found}");

    // Lies that headers do not give away: frames that declare nothing are said to hold far more.
    with(table(&frames, |_, raw_bytes| *raw_bytes *= 5));
    let found = preflight(&[]);
    assert_eq!(found["basis"], "sampled", "{found}");
    let warning = found["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("the seek table is ignored: "), "{warning}");
}

#[test]
fn tables_that_lie_are_passed_over_with_the_reason() {
    let site = Site::new();
    let tar = stream(&site);
    let frames = compress::zstd_frames(&tar, 1 << 20, 1);
    let count = compress::zstd_frame_count(&frames);
    let honest = table(&frames, |_, _| {});
    let mut reserved = honest.clone();
    let flags = reserved.len() - 5;
    reserved[flags] |= 0x10;
    let middle = usize::try_from(count / 2).unwrap();
    let lie = table(&frames, |number, raw_bytes| {
        if number == middle {
            *raw_bytes += 512;
        }
    });
    for (table, source, told) in [
        (honest, "seek table", None),
        (reserved, "headers", Some("a reserved flag is set")),
        (lie, "headers", Some("a frame does not match its entry")),
    ] {
        let archive = site.write("archive.tar.zst", &[&frames[..], &table].concat());
        let inspected = tool(&["inspect", "--frames", "--format", "json"], &archive);
        let inspected = inspected.assert_code(0);
        let found = &inspected.json()["frames"];
        assert_eq!((&found["source"], &found["frames"]), (&source.into(), &count.into()));
        assert_eq!(found["raw_bytes"]["sum"], tar.len(), "{found}");

        site.reset(false);
        let output = site.output();
        let words = ["unpack", "--format", "json", "--output", output.to_str().unwrap()];
        let unpacked = tool(&words, &archive).assert_code(0);
        assert_holds(&output, &expected_tree(&frames), source);
        let preflight = &unpacked.json()["preflight"];
        assert_eq!(preflight["tar_bytes"], tar.len(), "{preflight}");
        let reason = told.map(|reason| {
            format!("the seek table is ignored: the seek table at the archive's end is damaged: {reason}")
        });
        assert_eq!(preflight["warnings"], Value::from(Vec::from_iter(reason.clone())));
        for outcome in [&inspected, &unpacked] {
            let is_told = reason.as_ref().is_none_or(|reason| outcome.stderr.contains(reason));
            assert!(is_told, "{outcome:?}");
        }
    }
}
