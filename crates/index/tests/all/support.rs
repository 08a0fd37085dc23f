//! Archives, and frame tables from libzstd's own functions.

use unsnap_index::{Encoding, Entry, EntryTable, FrameTable, Identity, Index};
use unsnap_tarstream::{Event, Limits, Walker};
use unsnap_testkit::{compress, tar};

/// Returns a snapshot of some storages, 130 KB.
pub fn snapshot() -> Vec<u8> {
    let content = |length: usize| (0..length).map(|n| ((n * 31) >> 3).to_le_bytes()[0]).collect();
    let storages: Vec<(u64, u32, Vec<u8>)> =
        [(5, 1, content(30_000)), (3, 2, content(100)), (70_000, 3, content(90_001))].into();
    tar::snapshot_tar(70_001, &storages)
}

/// Returns the same tar in every shape, with a table for shapes whose headers do not give one.
pub fn shapes(tar: &[u8]) -> Vec<(&'static str, Vec<u8>, FrameTable)> {
    let zstd = |name, archive: Vec<u8>| {
        let table = zstd_table(&archive);
        (name, archive, table)
    };
    let lz4 = |name, archive: Vec<u8>, chunk: usize| {
        let table = lz4_table(tar, chunk);
        (name, archive, table)
    };
    vec![
        ("plain", tar.to_vec(), FrameTable::plain(tar.len() as u64)),
        zstd("one frame", compress::zstd_one_frame(tar, 1, None, false, false)),
        zstd("one frame, sized", compress::zstd_one_frame(tar, 1, None, true, true)),
        zstd("tiny frames", compress::zstd_frames(tar, 700, 1)),
        zstd("frames", compress::zstd_frames(tar, 9000, 1)),
        zstd("unsized frames", compress::zstd_frames_unsized(tar, 3000, 1)),
        zstd("a mixture", compress::zstd_mixed(tar, 7)),
        zstd("Firedancer", compress::zstd_firedancer(tar, 1)),
        lz4("one lz4 frame", compress::lz4_frame(tar), tar.len()),
        lz4("lz4 frames", compress::lz4_frames(tar, 2500), 2500),
    ]
}

/// Returns the table of zstd frames by libzstd: sizes from `ZSTD_findFrameCompressedSize`, content
/// by decoding each.
pub fn zstd_table(archive: &[u8]) -> FrameTable {
    let mut table = FrameTable::new(Encoding::Zstd);
    let mut rest = archive;
    while !rest.is_empty() {
        let bytes = zstd::zstd_safe::find_frame_compressed_size(rest).unwrap();
        let skippable = rest[1..4] == [0x2a, 0x4d, 0x18];
        let raw = zstd::stream::decode_all(&rest[..bytes]).unwrap().len();
        table.push(bytes as u64, (!skippable).then_some(raw as u64)).unwrap();
        rest = &rest[bytes..];
    }
    table
}

/// Returns the table of lz4 frames of `chunk` bytes each, which are as long as each is by itself.
fn lz4_table(tar: &[u8], chunk: usize) -> FrameTable {
    let mut table = FrameTable::new(Encoding::Lz4);
    for raw in tar.chunks(chunk) {
        let frame = compress::lz4_frame(raw);
        table.push(frame.len() as u64, Some(raw.len() as u64)).unwrap();
    }
    table
}

pub fn entries(tar: &[u8]) -> EntryTable {
    let mut walker = Walker::new(Limits::default());
    let mut table = EntryTable::default();
    let mut rest = tar;
    while !rest.is_empty() {
        let step = walker.step(rest).unwrap();
        if let Event::Member(member) = step.event {
            table.push(Entry::of(&member)).unwrap();
        }
        rest = &rest[step.consumed..];
    }
    walker.finish().unwrap();
    table
}

pub fn index(tar: &[u8], archive: &[u8], table: &FrameTable) -> Index {
    let identity = Identity::of(&archive, archive.len() as u64, 7).unwrap();
    Index::new(identity, table.clone(), entries(tar)).unwrap()
}
