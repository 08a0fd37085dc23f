//! The frames that the zstd project keeps for every decoder.

use std::path::{Path, PathBuf};

use crate::support::{compare, ours};

fn files(directory: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/zstd-golden");
    #[allow(clippy::disallowed_methods)] // test data
    let files: Vec<_> = std::fs::read_dir(path.join(directory))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    assert!(!files.is_empty());
    files
}

#[test]
fn good_frames_are_decoded() {
    for (path, frame) in files("golden-decompression") {
        assert!(ours(&frame, 2).0.is_ok(), "{path:?}");
        assert!(compare(&frame, 1, &path));
    }
}

#[test]
fn bad_frames_are_refused() {
    for (path, frame) in files("golden-decompression-errors") {
        assert!(ours(&frame, 2).0.is_err(), "{path:?}");
        assert!(!compare(&frame, 1, &path));
    }
}
