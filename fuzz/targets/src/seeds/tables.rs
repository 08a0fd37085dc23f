//! Side-cars and seek tables of small archives of every shape.

use unsnap_index::{
    Encoding, Entry, EntryTable, FrameTable, Identity, Index, SeekEntry, SeekTable,
};
use unsnap_tarstream::{Event, Limits, Walker};
use unsnap_testkit::{
    compress::{lz4_frame, skippable_frame, zstd_frames},
    tar::{TarBuilder, snapshot_tar},
};

use super::{Seeds, named};

/// Returns indexes of archives with links, long names and storages, in every encoding.
pub fn side_cars() -> Seeds {
    let storages = [(17, 4, vec![1; 700]), (3, 1, vec![2; 20]), (70_000, 3, vec![3; 9000])];
    let snapshot = snapshot_tar(70_001, &storages);
    let odd = TarBuilder::new()
        .directory("accounts")
        .file("accounts/017.4", b"a leading zero")
        .symlink("link", "accounts/17.4")
        .hard_link("hard", "version")
        .pax(&[("path", "a/longer/name/than/there/is/room/for")])
        .file("x", &[7; 600])
        .finish();
    let empty = TarBuilder::new().finish();
    let zstd = |tar: &[u8], frame_bytes| {
        let frames = tar.chunks(frame_bytes).map(|raw| (zstd_frames(raw, raw.len(), 1), Some(raw)));
        index(tar, Encoding::Zstd, frames)
    };
    let with_skippable = index(
        &snapshot,
        Encoding::Zstd,
        [(skippable_frame(b"note"), None), (zstd_frames(&snapshot, 1 << 20, 1), Some(&*snapshot))],
    );
    let lz4 = index(&snapshot, Encoding::Lz4, [(lz4_frame(&snapshot), Some(&*snapshot))]);
    let plain = index(&odd, Encoding::Plain, [(odd.clone(), Some(&*odd))]);
    named(vec![
        ("empty", zstd(&empty, 2000)),
        ("frames", zstd(&snapshot, 3000)),
        ("lz4", lz4),
        ("odd-entries", zstd(&odd, 1 << 20)),
        ("plain", plain),
        ("skippable", with_skippable),
    ])
    .collect()
}

/// Returns the side-car of an archive of these frames, each with its decoded bytes.
fn index<'a>(
    tar: &[u8],
    encoding: Encoding,
    frames: impl IntoIterator<Item = (Vec<u8>, Option<&'a [u8]>)>,
) -> Vec<u8> {
    let (mut table, mut archive) = (FrameTable::new(encoding), Vec::new());
    for (frame, raw) in frames {
        table.push(frame.len() as u64, raw.map(|raw| raw.len() as u64)).expect("a small frame");
        archive.extend(frame);
    }
    let (mut walker, mut entries) = (Walker::new(Limits::default()), EntryTable::default());
    let mut rest = tar;
    while !rest.is_empty() {
        let step = walker.step(rest).expect("a good tar");
        if let Event::Member(member) = step.event {
            entries.push(Entry::of(&member)).expect("entries in order");
        }
        rest = &rest[step.consumed..];
    }
    let identity = Identity::of(&archive.as_slice(), archive.len() as u64, 7).expect("memory");
    Index::new(identity, table, entries).expect("its own tables").encode()
}

/// Returns whole archives with their table, and flags with entries.
pub fn seek_tables() -> Seeds {
    let tar = snapshot_tar(70_001, &[(17, 4, vec![1; 5000])]);
    let archive = |has_checksums, frame_bytes| {
        let (mut table, mut archive) = (SeekTable::new(has_checksums), Vec::new());
        for raw in tar.chunks(frame_bytes) {
            let frame = zstd_frames(raw, raw.len(), 1);
            let size = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a small frame");
            let checksum = has_checksums.then_some(0xaabb_ccdd);
            let entry = SeekEntry { bytes: size(&frame), raw_bytes: size(raw), checksum };
            table.push(entry).expect("a small table");
            archive.extend(frame);
        }
        archive.extend(table.encode());
        archive
    };
    let entries = |flags: u8, numbers: &[u32]| {
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        [flags].into_iter().chain(numbers).collect::<Vec<u8>>()
    };
    named(vec![
        ("archive", archive(false, 3000)),
        ("archive-checksums", archive(true, 700)),
        ("cut", archive(false, 3000).split_off(100)),
        ("entries", entries(0, &[10, 100, 20, 0, 30, u32::MAX])),
        ("entries-checksums", entries(0x80, &[10, 100, 7, 20, 200, 8])),
        ("entries-empty-frame", entries(0, &[0, 100])),
        ("entries-large", entries(3, &[u32::MAX, u32::MAX, u32::MAX, u32::MAX])),
        ("none", entries(0, &[])),
        ("table-alone", SeekTable::new(true).encode()),
    ])
    .collect()
}
