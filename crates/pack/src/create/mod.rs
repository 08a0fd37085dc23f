//! A directory becomes an archive.

mod content;
mod header;
mod stream;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde::Serialize;
use unsnap_arena::Arena;
use unsnap_failure::Remedy;
use unsnap_layout::{ArchiveName, Compression};
use unsnap_pass::{Handles, PassError, Phase};
use unsnap_ring::Syscalls;

use crate::{
    PackError,
    output::Output,
    pack::{PackOptions, PackReport, pack},
};
use content::Content;
use stream::Stream;

/// What an archive is to be made of.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// A tree as `unpack` makes it, or a state that a validator starts from: a directory
    /// `<snapshots>/<slot>`.
    pub directory: PathBuf,
    /// Where storages are that are not in `accounts` of the directory: the directories themselves, or
    /// accounts paths, which have them in `run`.
    pub accounts: Vec<PathBuf>,
    /// Slot of the full snapshot that an incremental one builds on; `None` makes a full one.
    pub base_slot: Option<u64>,
    /// The archive, whose name must be the one that follows from its bank file, or the directory that it
    /// gets it in.
    pub output: PathBuf,
}

/// What was made.
#[derive(Clone, Debug, Serialize)]
pub struct CreateReport {
    /// What was written.
    #[serde(flatten)]
    pub pack: PackReport,
    /// Slot of the snapshot.
    pub slot: u64,
    /// Slot of the full snapshot that it builds on.
    pub base_slot: Option<u64>,
    /// Hash in the name: that of the accounts lattice hash in the bank file. That the accounts have it,
    /// `verify` tells.
    pub hash: String,
    /// Storages.
    pub storages: u64,
    /// Bytes of them.
    pub storage_bytes: u64,
}

/// Makes an archive of a directory: entries, headers and their order are those of a validator, but that
/// storages come in the order of their slots. Nothing is under the archive's name before it is complete
/// and durable; a file that changes meanwhile is an error.
pub fn create(
    request: &CreateRequest,
    options: &PackOptions,
    calls: &Syscalls,
    Handles { progress, cancel }: &Handles,
) -> Result<CreateReport, PackError> {
    options.check()?;
    let content = Content::find(calls, request)?;
    let path = output_path(&content.name, &request.output)?;
    let output = Output::create(calls, &path, options.replace, options.direct_io)?;
    let bytes = options.held_bytes();
    let memory = |error: unsnap_arena::ArenaError| PassError::Memory { reason: error.to_string() };
    let mut arena = Arena::builder().bytes(bytes).populate(false).build().map_err(memory)?;
    let pool = arena.pool(bytes).map_err(memory)?;
    let wrote = |bytes| progress.count_written(bytes);
    let ((), report) = pack(options, output, wrote, |take| {
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
    })?;
    Ok(CreateReport {
        pack: report,
        slot: content.name.slot(),
        base_slot: content.name.base_slot(),
        hash: content.name.hash().to_string(),
        storages: content.summary.storages,
        storage_bytes: content.summary.storage_bytes,
    })
}

/// Where the archive goes.
fn output_path(name: &ArchiveName, output: &Path) -> Result<PathBuf, PackError> {
    debug_assert_eq!(name.compression(), Compression::Zstd);
    let name = name.to_string();
    if output.is_dir() {
        return Ok(output.join(name));
    }
    if output.file_name().is_some_and(|given| *given == *name) {
        return Ok(output.to_owned());
    }
    let reason = format!("by its bank file, the archive has the name {name}");
    Err(PackError::request(reason, Remedy::advice("give that name, or only a directory")))
}

/// The pipeline has ended, and tells why.
fn stopped(flow: ControlFlow<()>) -> Result<(), PackError> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(PackError::CANCELLED),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, num::NonZeroUsize};

    use unsnap_ring::Call;
    use unsnap_testkit::{
        archive::write_archive,
        spec::{ArchiveSpec, FileSizes},
        tree::{files, reference_entries},
    };

    use super::*;

    /// A tree of a generated snapshot.
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

    /// Reads a tree that is changed after it was found; gives the path and what is said of it.
    fn read_changed(change: impl Fn(&Path)) -> (PathBuf, &'static str) {
        let scratch = tempfile::tempdir().unwrap();
        tree(scratch.path());
        let request = CreateRequest {
            directory: scratch.path().to_owned(),
            accounts: Vec::new(),
            base_slot: None,
            output: PathBuf::new(),
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
    fn what_changes_is_an_error() {
        let (path, what) = read_changed(|tree| {
            let storage = a_storage(tree);
            let bytes = fs::read(&storage).unwrap();
            fs::write(storage, [&bytes[..], &[0; 8]].concat()).unwrap();
        });
        assert!(path.starts_with("accounts") && what.contains("written to"), "{path:?} {what}");
        let (path, what) = read_changed(|tree| {
            // The same bytes in another file.
            let storage = a_storage(tree);
            fs::copy(&storage, tree.join("copy")).unwrap();
            fs::rename(tree.join("copy"), storage).unwrap();
        });
        assert!(path.starts_with("accounts") && what.contains("another"), "{path:?} {what}");
        let (path, what) = read_changed(|tree| fs::remove_file(a_storage(tree)).unwrap());
        assert!(path.starts_with("accounts") && what.contains("gone"), "{path:?} {what}");
        let (path, what) = read_changed(|tree| {
            fs::write(tree.join("accounts/1.1"), "one more").unwrap();
        });
        assert!(path == Path::new("accounts") && what.contains("added"), "{path:?} {what}");
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
        };
        let options = PackOptions { threads: NonZeroUsize::MIN, ..PackOptions::default() };
        let names = || fs::read_dir(&place).unwrap().count();
        let partial = || fs::read_dir(&place).unwrap().next().unwrap().unwrap().file_name();
        for step in 0.. {
            assert!(step < 1000, "it never ends");
            let plan = unsnap_pass::FaultPlan::new(0).fail(step, rustix::io::Errno::IO);
            let calls = Syscalls::with_faults(plan.clone());
            let (progress, cancel) = (Progress::default(), CancelToken::default());
            let created = create(&request, &options, &calls, &progress, &cancel);
            if plan.steps() <= step {
                created.unwrap();
                assert_eq!(names(), 1);
                break;
            }
            // What fails after it has its name leaves it: it is complete, and only perhaps not durable.
            let left = names();
            match created {
                Ok(_) => {
                    // Whether direct I/O can be had; without, the archive is the same.
                    let asked = plan.injected()[0].call;
                    assert!(matches!(asked, Call::Statx | Call::OpenDirect), "{asked:?} at {step}");
                    assert_eq!(left, 1);
                }
                Err(PackError::File { step: "sync the directory of", .. }) => assert_eq!(left, 1),
                // What cannot be locked or looked at may be somebody else's by now. It is empty, and
                // the next run uses it.
                Err(PackError::File { step: "lock" | "look at", .. }) if left == 1 => {
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
