//! Archives: the genuine ones of the repository, and one tar in every compressed shape.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use unsnap_testkit::compress;

/// Returns the directory `tests/data`.
pub fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("data")
}

/// Returns the genuine archives in `tests/data`.
pub fn genuine() -> Vec<PathBuf> {
    let data = data();
    let mut archives: Vec<PathBuf> = ["agave-tiny", "agave-tiny-lz4"]
        .iter()
        .flat_map(|folder| fs::read_dir(data.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| matches!(path.extension().and_then(OsStr::to_str), Some("zst" | "lz4")))
        .collect();
    archives.sort();
    assert_eq!(archives.len(), 4);
    archives
}

/// Returns the genuine full archive: 43 files, 1.3 MB.
pub fn genuine_full() -> PathBuf {
    let is_it = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().contains("qRmx7H5b");
    genuine().into_iter().find(is_it).unwrap()
}

/// Returns the genuine pairs: full and incremental.
pub fn genuine_pairs() -> [(PathBuf, PathBuf); 2] {
    let archives = genuine();
    let of = |folder: &str| {
        let mut found = archives
            .iter()
            .filter(|path| path.parent().unwrap().file_name().unwrap().to_str().unwrap() == folder);
        let first = found.next().unwrap().clone();
        // The incremental one is the first in the alphabet.
        (found.next().unwrap().clone(), first)
    };
    [of("agave-tiny"), of("agave-tiny-lz4")]
}

/// Returns the same tar in every compressed shape, with the shape's name.
pub fn shapes(tar: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("plain", tar.to_vec()),
        ("one zstd frame", compress::zstd_one_frame(tar, 1, None, false, false)),
        ("one zstd frame, sized", compress::zstd_one_frame(tar, 1, None, true, true)),
        ("one zstd frame, small window", compress::zstd_one_frame(tar, 3, Some(10), true, false)),
        ("zstd frames of 700 bytes", compress::zstd_frames(tar, 700, 1)),
        ("zstd frames of 9000 bytes", compress::zstd_frames(tar, 9000, 1)),
        ("zstd frames, unsized", compress::zstd_frames_unsized(tar, 3000, 1)),
        ("zstd raw blocks", compress::zstd_raw_blocks(tar, 1300)),
        ("zstd mixture", compress::zstd_mixed(tar, 7)),
        ("one lz4 frame", compress::lz4_frame(tar)),
        ("lz4 frames", compress::lz4_frames(tar, 2500)),
    ]
}

/// Returns the [`shapes`], and Firedancer's frames, which are cut at the entries of a plain snapshot.
pub fn snapshot_shapes(tar: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut shapes = shapes(tar);
    shapes.push(("zstd by Firedancer", compress::zstd_firedancer(tar, 1)));
    shapes
}
