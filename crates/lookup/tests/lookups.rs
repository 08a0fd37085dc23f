//! Operations on small archives.

#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]
#![allow(clippy::unwrap_used)] // helpers of tests

use std::{
    fs::{self, File},
    io::BufWriter,
    ops::ControlFlow,
    path::Path,
    thread,
};

use unsnap_failure::{Code, Failure, Family};
use unsnap_index::ReadOptions;
use unsnap_lookup::{
    ExtractTo, Extracted, Inspection, LookupError, Reader, Selection, WhatToInspect,
};
use unsnap_pass::{Archive, Handles, LayoutKind, Options, SandboxMode};
use unsnap_testkit::{
    archive::write_archive,
    compress,
    spec::{ArchiveSpec, FileSizes, Frames},
    tar::{TarBuilder, snapshot_head, snapshot_tar},
};

fn options() -> Options {
    let mut options = Options::default();
    options.resources.memory_budget = Some(4 << 20);
    options.sandbox = SandboxMode::Off;
    options
}

fn with<T: Send>(path: &Path, work: impl FnOnce(Reader<'_>) -> T + Send) -> T {
    let archives = Archive::File(path.to_owned()).into();
    let (options, handles) = (options(), Handles::default());
    let reader = Reader { archives: &archives, options: &options, handles: &handles };
    // The operation confines the thread that it runs on.
    thread::scope(|scope| scope.spawn(|| work(reader)).join().unwrap())
}

fn inspect(path: &Path, what: WhatToInspect) -> Inspection {
    with(path, |reader| reader.inspect(what, || Ok(()))).unwrap()
}

fn extract(path: &Path, pattern: &str, out: &mut Vec<u8>) -> Result<Extracted, LookupError> {
    let selection = Selection::new(&[pattern.to_owned()], Vec::new()).unwrap();
    with(path, |reader| {
        let to = ExtractTo::Stream(out);
        reader.extract(&selection, LayoutKind::Any, to, ReadOptions::default(), || Ok(()))
    })
}

/// Frames decode independently, so the bank file can be read although the archive is cut.
#[test]
fn inspecting_the_frames_of_a_cut_archive_says_so() {
    let scratch = tempfile::tempdir().unwrap();
    let spec = ArchiveSpec {
        total_bytes: 40_000_000,
        file_sizes: FileSizes::Fixed(400_000),
        frames: Frames::AGAVE,
        ..ArchiveSpec::default()
    };
    let path = scratch.path().join(spec.name());
    write_archive(&spec, &mut BufWriter::new(File::create(&path).unwrap())).unwrap();
    let what = WhatToInspect { frames: true, ..WhatToInspect::default() };
    let whole = inspect(&path, what);
    assert!(whole.frames.complete && whole.frames.damage.is_none() && whole.mismatch.is_none());

    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1000]).unwrap();
    let cut = inspect(&path, what);
    assert!(!cut.frames.complete && cut.frames.damage.unwrap().is_cut, "{:?}", cut.frames);
    let error = cut.mismatch.unwrap();
    assert_eq!((error.family(), error.code()), (Family::BadArchive, Code::ArchiveCut), "{error}");
    assert_eq!(cut.bank.unwrap().slot, spec.slot);
}

#[test]
fn inspecting_an_archive_with_a_bad_bank_file_returns_all_the_rest() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("archive.tar.zst");
    let tar = snapshot_head(7, b"not a bank file", b"status").finish();
    fs::write(&path, compress::zstd_frames(&tar, 1 << 20, 1)).unwrap();
    let found = inspect(&path, WhatToInspect::default());
    assert!(found.bank_is_bad && found.bank.is_none());
    assert_eq!(found.mismatch.unwrap().code(), Code::WrongBank);
    assert_eq!((found.compression, found.frames.frames), ("zstd", 1));
    assert!(!found.not_looked_at.iter().any(|missing| missing.contains("bank file")));

    fs::write(&path, compress::zstd_frames(&snapshot_tar(7, &[]), 1 << 20, 1)).unwrap();
    let good = inspect(&path, WhatToInspect::default());
    assert!(!good.bank_is_bad && good.mismatch.is_none());
    assert_eq!(good.bank.unwrap().slot, 7);
}

#[test]
fn extracting_several_entries_to_a_stream_writes_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("archive.tar");
    let tar = TarBuilder::new().file("a", b"one").file("ab", b"two").file("b", b"three").finish();
    fs::write(&path, tar).unwrap();
    for with_index in [false, true] {
        if with_index {
            let index = with(&path, |reader| reader.index()).unwrap();
            let side_car = unsnap_index::side_car_path(&path);
            fs::write(side_car, index.encode()).unwrap();
        }
        let mut out = Vec::new();
        let error = extract(&path, "a*", &mut out).unwrap_err();
        assert_eq!((error.family(), out.len()), (Family::Request, 0), "{error}");
        for (pattern, content) in [("b*", "three"), ("a", "one")] {
            let mut out = Vec::new();
            let extracted = extract(&path, pattern, &mut out).unwrap();
            assert_eq!((extracted.entries, extracted.index), (1, with_index));
            assert_eq!(out, content.as_bytes());
        }
    }
}

#[test]
fn zeros_are_neither_listed_nor_indexed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("archive.tar");
    fs::write(&path, vec![0; 2 << 20]).unwrap();
    let listed = with(&path, |reader| reader.list(|| Ok(()), |_| ControlFlow::Continue(())));
    let indexed = with(&path, |reader| reader.index().map(drop));
    for error in [listed.unwrap_err(), indexed.unwrap_err()] {
        assert_eq!(error.code(), Code::NotAnArchive, "{error}");
    }
}
