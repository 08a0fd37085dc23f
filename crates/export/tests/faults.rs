//! Whatever fails, several tables are whole or absent, and a stream is whole or has no end.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    num::NonZeroUsize,
    path::Path,
    sync::{Arc, Mutex},
};

use tempfile::TempDir;
use unsnap_export::{CheckQuery, ExportQuery, TableKind, check, export, stream};
use unsnap_failure::{Errno, Failure, Family};
use unsnap_pass::{Archive, Archives, FaultPlan, Handles, Io, IoEngine, Options, SandboxMode};
use unsnap_testkit::{
    archive::write_archive,
    content::Content,
    spec::{ArchiveSpec, FileSizes, Frames},
};

/// The end of an Arrow IPC stream.
const END: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];

fn options() -> Options {
    Options { sandbox: SandboxMode::Off, ..Options::default() }
}

fn site() -> (TempDir, Archives) {
    let directory = tempfile::tempdir().unwrap();
    let spec = ArchiveSpec {
        content: Content::Mainnet,
        total_bytes: 60_000,
        files: Some(3),
        file_sizes: FileSizes::Fixed(20_000),
        frames: Frames::Sized(30_001),
        slot: 1000,
        ..ArchiveSpec::default()
    };
    let path = directory.path().join(spec.name());
    let mut bytes = Vec::new();
    write_archive(&spec, &mut bytes).unwrap();
    fs::write(&path, bytes).unwrap();
    let archives = Archives::new(Archive::File(path), None).unwrap();
    (directory, archives)
}

fn query(output: &Path) -> ExportQuery {
    ExportQuery {
        tables: BTreeSet::from([TableKind::Accounts, TableKind::TokenAccounts, TableKind::Votes]),
        row_group_bytes: Some(10_000),
        file_bytes: Some(10_000),
        threads: NonZeroUsize::MIN,
        ..ExportQuery::all(output)
    }
}

/// Fails every system call in turn, once and for good.
#[test]
fn all_tables_are_whole_or_absent() {
    let (directory, archives) = site();
    let output = directory.path().join("tables");
    let whole = |rows: u64| {
        let report =
            check(&CheckQuery::new(&output), Some(&archives), &options(), &Handles::default());
        assert_eq!(report.unwrap().rows, rows);
        fs::remove_dir_all(&output).unwrap();
    };
    let good = export(&archives, &query(&output), &options(), &Handles::default()).unwrap();
    assert!(good.files > 3, "{good:?}");
    whole(good.rows);
    let (mut failed, mut published) = (0, 0);
    for lasting in [false, true] {
        for step in 0.. {
            let plan = FaultPlan::new(0);
            let plan = if lasting {
                plan.fail_from(step, Errno::NOSPC)
            } else {
                plan.fail(step, Errno::NOSPC)
            };
            let io = Io { engine: IoEngine::Faulty(plan.clone()), ..Io::default() };
            let options = Options { io, ..options() };
            let result = export(&archives, &query(&output), &options, &Handles::default());
            let call = plan.injected().first().map(|injected| injected.call);
            match &result {
                Ok(report) => assert_eq!(report.rows, good.rows),
                Err(error) => {
                    assert_eq!(error.family(), Family::Environment, "{call:?}: {error}");
                    failed += 1;
                }
            }
            // What was published cannot be taken back if nothing works any more.
            assert!(result.is_err() || output.exists());
            assert!(result.is_ok() || lasting || !output.exists(), "{call:?}");
            if output.exists() {
                whole(good.rows);
                published += 1;
            }
            let _ = fs::remove_dir_all(directory.path().join(".tables.unsnap-staging"));
            if call.is_none() {
                result.unwrap();
                break;
            }
        }
    }
    assert!(failed > 100 && published > 1, "{failed} failed, {published} were published");
}

/// Takes so many writes, then fails.
#[derive(Clone)]
struct Sink {
    taken: Arc<Mutex<Vec<u8>>>,
    left: usize,
}

impl Sink {
    fn new(left: usize) -> Self {
        Self { taken: Arc::default(), left }
    }

    fn has_ended(&self) -> bool {
        self.taken.lock().unwrap().ends_with(&END)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        // Half of it, so that every write is resumed.
        let taken = bytes.len().div_ceil(2);
        self.taken.lock().unwrap().extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_has_an_end_only_after_everything() {
    let (_directory, archives) = site();
    let query =
        ExportQuery { tables: BTreeSet::from([TableKind::Accounts]), ..query(Path::new("")) };
    let good = Sink::new(usize::MAX);
    let whole = stream(&archives, &query, good.clone(), &options(), &Handles::default()).unwrap();
    assert!(good.has_ended() && whole.rows > 10);
    let good = good.taken.lock().unwrap().clone();

    let mut failed = 0;
    for writes in 0.. {
        let sink = Sink::new(writes);
        let result = stream(&archives, &query, sink.clone(), &options(), &Handles::default());
        let taken = sink.taken.lock().unwrap().clone();
        assert!(good.starts_with(&taken));
        match result {
            Ok(_) => {
                assert!(taken == good);
                break;
            }
            Err(error) => assert_eq!(error.family(), Family::Environment),
        }
        assert!(!sink.has_ended() && taken.len() < good.len(), "{writes}");
        failed += 1;
    }
    assert!(failed > 20, "{failed}");
    // Nor if the archive cannot be read to its end.
    let mut unread = 0;
    for step in 0.. {
        let plan = FaultPlan::new(0).fail(step, Errno::IO);
        let io = Io { engine: IoEngine::Faulty(plan.clone()), ..Io::default() };
        let sink = Sink::new(usize::MAX);
        let options = Options { io, ..options() };
        let result = stream(&archives, &query, sink.clone(), &options, &Handles::default());
        assert_eq!(result.is_ok(), sink.has_ended(), "{result:?}");
        unread += usize::from(result.is_err());
        if plan.injected().is_empty() {
            result.unwrap();
            break;
        }
    }
    assert!(unread > 2, "{unread}");
}
