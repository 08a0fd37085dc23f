//! Whole runs of the library over small archives.

#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]
#![allow(clippy::unwrap_used)] // helpers of tests

use std::{
    fs::{self, File},
    io::BufWriter,
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    thread,
    time::Duration,
};

use unsnap_failure::{Code, Errno, Failure, Family};
use unsnap_pass::{Archive, FaultPlan, IoEngine, LayoutKind, Pace};
use unsnap_ring::Call;
use unsnap_source::DigestKind;
use unsnap_testkit::{
    archive::write_archive,
    spec::{ArchiveSpec, FileSizes, LatticeHash},
    tar::TarBuilder,
};
use unsnap_unpack::{
    CheckOutputs, DigestUse, FileByFile, FileChecks, FileSink, Options, Pair, Report, Single,
    Source, Tree, UnpackError, Unpacker, Verify,
};

/// Generates an archive under the name that belongs to it, unless another is given.
fn generate(spec: &ArchiveSpec, directory: &Path, name: Option<&str>) -> Archive {
    let path = directory.join(name.map_or_else(|| spec.name(), str::to_owned));
    write_archive(spec, &mut BufWriter::new(File::create(&path).unwrap())).unwrap();
    Archive::File(path)
}

/// Writes bytes as an archive.
fn write(bytes: &[u8], directory: &Path) -> Archive {
    let path = directory.join("archive.tar");
    fs::write(&path, bytes).unwrap();
    Archive::File(path)
}

const DIGEST: DigestUse = DigestUse::Report(DigestKind::Xxh3);

fn tree(source: Single, tree: Tree) -> Options {
    lean(Options::for_tree(source, tree, DIGEST))
}

fn lean(mut options: Options) -> Options {
    options.pass.resources.memory_budget = Some(4 << 20);
    options.pass.io.engine = IoEngine::Threads;
    options
}

fn output(directory: &Path) -> PathBuf {
    directory.join("output")
}

fn resumable(archive: &Archive, directory: &Path) -> Options {
    let source = FileByFile::new(archive.clone(), LayoutKind::Snapshot, FileChecks::Structure);
    lean(Options::for_resumable_tree(source, Tree::new(output(directory)), DIGEST))
}

fn check(archive: Archive, layout: LayoutKind, verify: Verify) -> Result<Report, UnpackError> {
    let source = Single::new(archive, layout, verify).unwrap();
    Unpacker::new(Options::check(source, CheckOutputs::default())).run()
}

/// An archive of 200 files of 20 KB: far less than what lies between two checkpoints.
fn many_files() -> ArchiveSpec {
    let file_sizes = FileSizes::Fixed(20_000);
    ArchiveSpec { total_bytes: 4_000_000, file_sizes, ..ArchiveSpec::default() }
}

/// Progress before the first regular checkpoint would be lost otherwise.
#[test]
fn a_resumable_run_that_is_cancelled_keeps_its_complete_files() {
    let scratch = tempfile::tempdir().unwrap();
    let archive = generate(&many_files(), scratch.path(), None);
    let mut options = resumable(&archive, scratch.path());
    let (sender, finished) = sync_channel(0);
    options.files = Some(FileSink::names(sender));
    let unpacker = Unpacker::new(options);
    let cancel = unpacker.handles().cancel;
    let consumer = thread::spawn(move || {
        for (number, _) in finished.iter().enumerate() {
            if number == 50 {
                cancel.cancel();
            }
        }
    });
    let error = unpacker.run().unwrap_err();
    consumer.join().unwrap();
    assert_eq!(error.code(), Code::Cancelled, "{error}");
    assert!(!output(scratch.path()).exists());

    let report = Unpacker::new(resumable(&archive, scratch.path())).run().unwrap();
    let resumed = report.resumed.expect("complete files are used");
    assert!((40..report.files).contains(&resumed.files), "{resumed:?}");
    let resumed_tree = unsnap_testkit::tree::read_tree(&output(scratch.path())).unwrap();
    fs::remove_dir_all(output(scratch.path())).unwrap();
    let again = tree(Single::snapshot(archive), Tree::new(output(scratch.path())));
    Unpacker::new(again).run().unwrap();
    assert_eq!(resumed_tree, unsnap_testkit::tree::read_tree(&output(scratch.path())).unwrap());
}

/// Whatever fails, the files before it are complete, and one checkpoint more than before records
/// them. The faulty engine completes files in any order.
#[test]
fn a_resumable_run_whose_creator_fails_keeps_the_files_before() {
    for seed in 0..4 {
        let scratch = tempfile::tempdir().unwrap();
        let archive = generate(&many_files(), scratch.path(), None);
        let mut options = resumable(&archive, scratch.path());
        let plan = FaultPlan::new(seed).fail_nth(Call::Close, 150, Errno::NOSPC);
        options.pass.io.engine = IoEngine::Faulty(plan);
        let error = Unpacker::new(options).run().unwrap_err();
        assert_eq!(error.code(), Code::NoSpace, "{error}");
        assert!(!output(scratch.path()).exists());

        let report = Unpacker::new(resumable(&archive, scratch.path())).run().unwrap();
        let resumed = report.resumed.expect("complete files are used");
        assert!((50..=180).contains(&resumed.files), "{seed}: {resumed:?}");
        let Archive::File(path) = &archive else { unreachable!() };
        let entries = unsnap_testkit::tree::reference_entries_of_file(path).unwrap();
        let expected = unsnap_testkit::tree::files(entries);
        unsnap_testkit::tree::assert_tree_equals(&output(scratch.path()), &expected);
    }
}

/// A run that succeeds syncs once, at its end: it needs no checkpoint. And after a sync has failed,
/// nothing is recorded, although another sync would succeed here.
#[test]
fn only_a_run_that_is_interrupted_takes_a_last_checkpoint() {
    let scratch = tempfile::tempdir().unwrap();
    let archive = generate(&many_files(), scratch.path(), None);
    for (nth, fails) in [(0, true), (1, false)] {
        let mut options = resumable(&archive, scratch.path());
        let plan = FaultPlan::new(1).fail_nth(Call::SyncFileSystem, nth, Errno::IO);
        options.pass.io.engine = IoEngine::Faulty(plan.clone());
        let result = Unpacker::new(options).run();
        assert_eq!(result.is_err(), fails, "sync {nth}");
        assert_eq!(plan.injected().len(), usize::from(fails), "sync {nth}");
        let staging = scratch.path().join(".output.unsnap-staging");
        assert_eq!((staging.exists(), output(scratch.path()).exists()), (false, !fails));
    }
}

/// Creators that are paused complete nothing, so a grace period would only delay the end.
#[test]
fn a_paused_run_that_is_cancelled_ends_at_once() {
    let scratch = tempfile::tempdir().unwrap();
    let archive = generate(&many_files(), scratch.path(), None);
    let mut options = resumable(&archive, scratch.path());
    let pace = Pace::new();
    pace.pause();
    options.pass.neighbour.pace = Some(pace);
    let unpacker = Unpacker::new(options);
    let cancel = unpacker.handles().cancel;
    let since = std::time::Instant::now();
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        cancel.cancel();
    });
    assert_eq!(unpacker.run().unwrap_err().code(), Code::Cancelled);
    canceller.join().unwrap();
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
}

/// Such files are preallocated downloads, most of the time.
#[test]
fn a_file_of_zeros_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let zeros = vec![0; 2 << 20];
    for bytes in [&zeros, &unsnap_testkit::compress::zstd_frames(&zeros, 70_000, 1)] {
        let archive = write(bytes, scratch.path());
        let error = check(archive, LayoutKind::Any, Verify::None).unwrap_err();
        assert_eq!((error.family(), error.code()), (Family::BadArchive, Code::NotAnArchive));
        assert!(error.to_string().contains("preallocated download"), "{error}");
    }
    // What `tar` writes for no files.
    let empty = &zeros[..10_240];
    check(write(empty, scratch.path()), LayoutKind::Any, Verify::None).unwrap();
    let one = TarBuilder::new().file("a", b"1").finish();
    check(write(&one, scratch.path()), LayoutKind::Any, Verify::None).unwrap();
}

/// The name is only a claim, which `--verify none` ignores.
#[test]
fn an_archive_under_the_name_of_another_slot_has_the_wrong_bank() {
    let scratch = tempfile::tempdir().unwrap();
    let spec = many_files();
    let name = spec.name().replace("350000000", "350000001");
    let archive = generate(&spec, scratch.path(), Some(&name));
    let error = check(archive.clone(), LayoutKind::Snapshot, Verify::Structure).unwrap_err();
    assert_eq!((error.family(), error.code()), (Family::BadArchive, Code::WrongBank), "{error}");
    let report = check(archive.clone(), LayoutKind::Snapshot, Verify::None).unwrap();
    assert_eq!(report.slot, Some(350_000_000));
    let source = Single::new(archive, LayoutKind::Snapshot, Verify::None).unwrap();
    Unpacker::new(tree(source, Tree::new(output(scratch.path())))).run().unwrap();
}

#[test]
fn a_verified_pair_is_reported_with_both_archives_and_all_terms() {
    let scratch = tempfile::tempdir().unwrap();
    let full = ArchiveSpec {
        total_bytes: 400_000,
        file_sizes: FileSizes::Fixed(20_000),
        lattice_hash: LatticeHash::OfAccounts,
        slot: 1_000,
        ..ArchiveSpec::default()
    };
    let incremental = ArchiveSpec {
        total_bytes: 100_000,
        lattice_hash: LatticeHash::OfAccountsUpon(Box::new(full.clone())),
        slot: 1_200,
        base_slot: Some(1_000),
        seed: 7,
        ..full.clone()
    };
    let [full, incremental] =
        [&full, &incremental].map(|spec| generate(spec, scratch.path(), None));
    let verify = Verify::Accounts { memory_bytes: None };
    let source = Source::pair(Pair::new(full, Some(incremental)).unwrap(), verify);
    let report = Unpacker::new(Options::check(source, CheckOutputs::default())).run().unwrap();
    let accounts = report.accounts.unwrap();
    assert!(accounts.accounts > 0);
    let terms = accounts.accounts + accounts.closed_accounts + accounts.older_versions;
    assert_eq!(terms, accounts.records);
    let [full, incremental] = accounts.archives.as_slice() else { panic!("{accounts:?}") };
    assert_eq!((full.slot, incremental.slot), (Some(1_000), Some(1_200)));
    assert_eq!(full.digest, report.digest);
    assert_eq!(incremental.digest, report.incremental.unwrap().digest);
    assert!(full.digest.is_some() && full.digest != incremental.digest);
}
