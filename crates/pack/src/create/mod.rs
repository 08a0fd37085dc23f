//! Creation of an archive from a directory.

mod content;
mod header;
mod request;
mod stream;

use std::path::{Path, PathBuf};

use serde::Serialize;
use unsnap_arena::Arena;
use unsnap_failure::{Failure, Family, Remedy};
use unsnap_layout::{ArchiveName, Compression};
use unsnap_pass::{Archive, Handles, IndexUse, LayoutKind, PassError, Phase};
use unsnap_ring::Syscalls;
use unsnap_unpack::{CheckOutputs, Options, Report, Single, UnpackError, Unpacker, Verify};

pub use self::request::CreateRequest;
use self::{content::Content, stream::Stream};
use crate::{
    PackError,
    output::Output,
    pack::{PackOptions, PackReport, pack},
};

/// Report of creating an archive.
#[derive(Clone, Debug, Serialize)]
pub struct CreateReport {
    /// Report of writing the archive.
    #[serde(flatten)]
    pub pack: PackReport,
    /// Slot of the snapshot.
    pub slot: u64,
    /// Slot of the full snapshot that it builds on.
    pub base_slot: Option<u64>,
    /// Hash in the name: that of the accounts lattice hash in the bank file. Only the verification of
    /// accounts checks that the accounts have this hash.
    pub hash: String,
    /// Number of storages.
    pub storages: u64,
    /// Their total size in bytes.
    pub storage_bytes: u64,
    /// Report of verifying the archive, as by `verify`; `None` if that was not wanted.
    pub verification: Option<Report>,
}

/// Makes an archive from a directory. Entries, headers and their order are those of a validator,
/// except that storages are in the order of their slots. The archive gets its name when it is
/// complete, durable and verified. A file that changes meanwhile is an error.
///
/// Calls `written` when the archive is complete and durable, and before it is read again.
pub fn create(
    request: &CreateRequest,
    options: &PackOptions,
    calls: &Syscalls,
    handles: &Handles,
    written: impl FnOnce(),
) -> Result<CreateReport, PackError> {
    options.check()?;
    let Handles { progress, cancel } = handles;
    let content = Content::find(calls, request)?;
    check_verification(&content.name, request.verify)?;
    let path = output_path(&content.name, &request.output)?;
    let (replace, direct) = (options.replace, options.direct_io);
    let output = Output::create(calls, cancel.unfinished(), &path, replace, direct)?;
    let bytes = options.held_bytes();
    let memory = |error: unsnap_arena::ArenaError| PassError::Memory { reason: error.to_string() };
    let mut arena = Arena::builder().bytes(bytes).populate(false).build().map_err(memory)?;
    let pool = arena.pool(bytes).map_err(memory)?;
    let wrote = |bytes| progress.count_written(bytes);
    let mut verification = None;
    let prove = |archive| {
        written();
        verification = verify(archive, request.verify, handles)?;
        Ok(())
    };
    let ((), report) = pack(
        options,
        output,
        wrote,
        |take| {
            let mut stream = Stream::new(&pool, options.frame_bytes, take);
            progress.begin_bytes(Phase::Unpacking, content.bytes());
            content.each(|entry| {
                if cancel.is_cancelled() {
                    return Err(PackError::CANCELLED);
                }
                stream.entry(calls, entry, progress)
            })?;
            stream.finish()?;
            content.unchanged(calls)
        },
        prove,
    )?;
    Ok(CreateReport {
        pack: report,
        slot: content.name.slot(),
        base_slot: content.name.base_slot(),
        hash: content.name.hash().to_string(),
        storages: content.summary.storages,
        storage_bytes: content.summary.storage_bytes,
        verification,
    })
}

/// Checks that an archive of this name can be verified alone.
fn check_verification(name: &ArchiveName, verify: Verify) -> Result<(), PackError> {
    if name.base_slot().is_none() || !matches!(verify, Verify::Accounts { .. }) {
        return Ok(());
    }
    let reason =
        "the accounts of an incremental archive cannot be verified without its full archive";
    let advice = "verify the structure now, and both archives together when this one is made";
    Err(PackError::request(reason, Remedy::advice(advice)))
}

/// Reads the archive and verifies it; `None` if no checks are wanted.
fn verify(
    archive: Archive,
    verify: Verify,
    handles: &Handles,
) -> Result<Option<Report>, PackError> {
    if verify == Verify::None {
        return Ok(None);
    }
    let source = Single::new(archive, LayoutKind::Snapshot, verify)?;
    let mut options = Options::check(source, CheckOutputs::default());
    // Its own seek table is no proof of what it holds.
    options.pass.io.index = IndexUse::Ignore;
    let verified = Unpacker::new(options).with_handles(handles.clone()).run();
    verified.map(Some).map_err(|error: UnpackError| match error.family() {
        Family::BadArchive => PackError::Refuted(error),
        _ => error.into(),
    })
}

/// Returns the path of the archive.
fn output_path(name: &ArchiveName, output: &Path) -> Result<PathBuf, PackError> {
    debug_assert_eq!(name.compression(), Compression::Zstd);
    let name = name.to_string();
    if output.is_dir() {
        return Ok(output.join(name));
    }
    if output.file_name().is_some_and(|given| *given == *name) {
        return Ok(output.to_owned());
    }
    if output.extension().is_none() && !output.exists() {
        return Err(PassError::no_directory(output).into());
    }
    let reason = format!("the bank file requires the archive's name {name}");
    Err(PackError::request(reason, Remedy::advice("give that name, or a directory")))
}

#[cfg(test)]
mod tests {
    use std::{fs, num::NonZeroUsize, ops::ControlFlow};

    use unsnap_pass::Progress;
    use unsnap_ring::{Call, FaultPlan};
    use unsnap_testkit::{
        archive::write_archive,
        spec::{ArchiveSpec, FileSizes},
        tree::{files, reference_entries},
    };

    use super::*;

    /// Makes the tree of a generated snapshot.
    fn tree(directory: &Path) {
        let file_sizes = FileSizes::Fixed(20_000);
        let spec = ArchiveSpec { total_bytes: 200_000, file_sizes, ..ArchiveSpec::default() };
        let mut archive = Vec::new();
        write_archive(&spec, &mut archive).unwrap();
        for (name, bytes) in files(reference_entries(&archive).unwrap()) {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    /// Reads a tree that changes after it was listed. Returns the path and the change in the error.
    fn read_changed(change: impl Fn(&Path)) -> (PathBuf, &'static str) {
        let scratch = tempfile::tempdir().unwrap();
        tree(scratch.path());
        let request = CreateRequest {
            directory: scratch.path().to_owned(),
            accounts: Vec::new(),
            base_slot: None,
            output: PathBuf::new(),
            verify: Verify::None,
        };
        let calls = Syscalls::default();
        let content = Content::find(&calls, &request).unwrap();
        change(scratch.path());
        let mut arena = Arena::builder().bytes(1 << 20).populate(false).build().unwrap();
        let pool = arena.pool(1 << 20).unwrap();
        let take = |_| ControlFlow::Continue(());
        let mut stream = Stream::new(&pool, 1 << 16, &take);
        let read = content.each(|entry| stream.entry(&calls, entry, &Progress::default()));
        match read.and_then(|()| content.unchanged(&calls)) {
            Err(PackError::Changed { path, what }) => {
                (path.strip_prefix(scratch.path()).unwrap().to_owned(), what)
            }
            other => panic!("{other:?}"),
        }
    }

    fn a_storage(tree: &Path) -> PathBuf {
        fs::read_dir(tree.join("accounts")).unwrap().next().unwrap().unwrap().path()
    }

    #[test]
    fn a_file_that_changes_is_an_error() {
        let (path, what) = read_changed(|tree| {
            let storage = a_storage(tree);
            let bytes = fs::read(&storage).unwrap();
            fs::write(storage, [&bytes[..], &[0; 8]].concat()).unwrap();
        });
        assert!(path.starts_with("accounts") && what.contains("written to"), "{path:?} {what}");
        let (path, what) = read_changed(|tree| {
            // Another file with the same bytes.
            let storage = a_storage(tree);
            fs::copy(&storage, tree.join("copy")).unwrap();
            fs::rename(tree.join("copy"), storage).unwrap();
        });
        assert!(path.starts_with("accounts") && what.contains("replaced"), "{path:?} {what}");
        let (path, what) = read_changed(|tree| fs::remove_file(a_storage(tree)).unwrap());
        assert!(path.starts_with("accounts") && what.contains("gone"), "{path:?} {what}");
        let (path, what) = read_changed(|tree| {
            fs::write(tree.join("accounts/1.1"), "one more").unwrap();
        });
        assert!(path == Path::new("accounts") && what.contains("added"), "{path:?} {what}");
    }

    #[test]
    fn the_file_is_noted_as_unfinished_until_it_has_its_name() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("tree");
        tree(&directory);
        let output = scratch.path().to_owned();
        let verify = Verify::Structure;
        let request =
            CreateRequest { directory, accounts: Vec::new(), base_slot: None, output, verify };
        let (calls, handles) = (Syscalls::default(), Handles::default());
        let mut noted = Vec::new();
        let written = || noted = handles.cancel.unfinished().paths();
        let options = PackOptions::default();
        let report = create(&request, &options, &calls, &handles, written).unwrap();
        let [partial] = &*noted else { panic!("{noted:?}") };
        let name = Path::new(&report.pack.output).file_name().unwrap().to_str().unwrap();
        assert_eq!(*partial, scratch.path().join(format!(".{name}.unsnap-partial")));
        assert!(!partial.exists() && handles.cancel.unfinished().paths().is_empty());
    }

    #[test]
    fn faults_at_every_call_leave_nothing_or_the_archive() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("tree");
        tree(&directory);
        let place = scratch.path().join("place");
        fs::create_dir(&place).unwrap();
        let request = CreateRequest {
            directory,
            accounts: Vec::new(),
            base_slot: None,
            output: place.clone(),
            verify: Verify::None,
        };
        let options = PackOptions { threads: NonZeroUsize::MIN, ..PackOptions::default() };
        let names = || fs::read_dir(&place).unwrap().count();
        let partial = || fs::read_dir(&place).unwrap().next().unwrap().unwrap().file_name();
        for step in 0.. {
            assert!(step < 1000, "it never ends");
            let plan = FaultPlan::new(0).fail(step, rustix::io::Errno::IO);
            let calls = Syscalls::with_faults(plan.clone());
            let created = create(&request, &options, &calls, &Handles::default(), || ());
            if plan.steps() <= step {
                created.unwrap();
                assert_eq!(names(), 1);
                break;
            }
            // After an error behind the rename the archive remains: it is complete, but perhaps not
            // durable.
            let left = names();
            match created {
                Ok(_) => {
                    // These calls only find out whether direct I/O works. The archive is the same
                    // without it.
                    let asked = plan.injected()[0].call;
                    assert!(matches!(asked, Call::Statx | Call::OpenDirect), "{asked:?} at {step}");
                    assert_eq!(left, 1);
                }
                Err(PackError::File { step: "sync the directory of", .. }) => assert_eq!(left, 1),
                // A file that cannot be locked or examined may belong to another run. It is empty,
                // and the next run uses it.
                Err(PackError::File { step: "lock" | "examine", .. }) if left == 1 => {
                    assert!(fs::read(place.join(partial())).unwrap().is_empty(), "step {step}");
                }
                Err(_) => assert_eq!(left, 0, "step {step}"),
            }
            for entry in fs::read_dir(&place).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
    }
}
