//! Runs of the pipeline and of single stages in fresh directories, and the archive for them.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    ops::ControlFlow,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use rustix::fs::{Advice, fadvise, syncfs};
use unsnap_cli::{exit::ProgramFailure, printer::Printer, progress::Display};
use unsnap_fit::Free;
use unsnap_lookup::Reader;
use unsnap_pass::{
    Archive, CancelToken, Handles, LayoutKind, Options as PassOptions, Phase, Progress,
    on_a_thread_of_its_own,
};
use unsnap_ring::{Syscalls, is_cached};
use unsnap_source::DigestKind;
use unsnap_tarstream::{Member, MemberKind};
use unsnap_testkit::{
    archive::write_archive,
    spec::{ArchiveSpec, Frames},
};
use unsnap_unpack::{
    CheckOutputs, DigestUse, Options, PreflightMode, Report, Single, Tree, Unpacker, Verify,
};

use super::{
    alone::{self, check},
    error::{BenchError, cannot},
};

/// Number of samples of the archive that are looked up in the page cache.
const SAMPLES: u64 = 64;

/// Size of a sample: a page.
const SAMPLE_BYTES: u64 = 4096;

/// Minimum compression ratio of an archive of random accounts.
const RATIO_MIN: u64 = 2;

/// Typical compression ratio, in tenths (BENCHMARKS.md).
const RATIO_IN_TENTHS: u64 = 34;

/// Space for directories and journals. A guess.
const SPARE_BYTES: u64 = 64 << 20;

/// The archive to unpack, and the directory for it.
pub struct Bench<'a> {
    pub printer: &'a Printer,
    pub archive: PathBuf,
    /// Directory for everything that a run creates. It is removed at the end.
    pub scratch: &'a Path,
    /// Decoded bytes after which a run ends.
    pub bytes_max: u64,
    pub handles: Handles,
}

/// Result of a run.
pub struct Run {
    pub report: Report,
    /// Compressed and decoded bytes; the report lacks them for a part of an archive.
    pub bytes_read: u64,
    pub bytes_decoded: u64,
}

impl Bench<'_> {
    /// Unpacks into a fresh directory, with a cold page cache, and removes the directory.
    pub fn unpack(&self, change: impl FnOnce(&mut PassOptions)) -> anyhow::Result<Run> {
        self.settle()?;
        let output = self.scratch.join("output");
        let (source, tree) = (self.source(Verify::default())?, Tree::new(&output));
        let digest = DigestUse::Report(DigestKind::Xxh3);
        let mut options = Options::for_tree(source, tree, digest);
        // There was enough space at the start; a check in each run would be measured too.
        options.preflight = PreflightMode::Off;
        change(&mut options.pass);
        let run = self.run(options)?;
        fs::remove_dir_all(&output).map_err(cannot("remove", &output))?;
        Ok(run)
    }

    /// Decodes from memory, and writes nothing.
    pub fn decode(&self) -> anyhow::Result<Run> {
        let nothing = CheckOutputs { digest: DigestUse::None, manifest: None };
        self.run(Options::check(self.source(Verify::None)?, nothing))
    }

    fn source(&self, verify: Verify) -> anyhow::Result<Single> {
        let archive = Archive::File(self.archive.clone());
        Ok(Single::new(archive, LayoutKind::Snapshot, verify)?)
    }

    fn run(&self, mut options: Options) -> anyhow::Result<Run> {
        check(&self.handles.cancel)?;
        options.pass.tuning.stop_after_bytes = Some(self.bytes_max);
        let unpacker = Unpacker::new(options).with_handles(self.handles.clone());
        let display = Display::start(self.printer, self.handles.progress.clone());
        let report = unpacker.run();
        drop(display);
        let report = report?;
        let done = self.handles.progress.snapshot();
        let (bytes_read, bytes_decoded) = (done.bytes_read, done.bytes_decoded);
        Ok(Run { report, bytes_read, bytes_decoded })
    }

    /// Reads the archive's beginning with a cold page cache, without decoding it.
    pub fn read(&self, bytes: u64) -> anyhow::Result<u64> {
        self.settle()?;
        let _display = self.shown("reading", Phase::Unpacking, bytes);
        Ok(milliseconds(alone::read(
            &self.archive,
            bytes,
            &self.handles.progress,
            &self.handles.cancel,
        )?))
    }

    /// Writes files of these sizes, waits until they are durable, and removes them.
    pub fn write(&self, sizes: &[u64]) -> anyhow::Result<u64> {
        self.settle()?;
        let directory = self.scratch.join("alone");
        fs::create_dir(&directory).map_err(cannot("create", &directory))?;
        let display = self.shown("writing", Phase::Writing, sizes.iter().sum());
        let time = alone::write(&directory, sizes, &self.handles.progress, &self.handles.cancel)?;
        drop(display);
        fs::remove_dir_all(&directory).map_err(cannot("remove", &directory))?;
        Ok(milliseconds(time))
    }

    /// Returns the sizes of the files that a run creates, in the archive's order.
    pub fn sizes(&self) -> anyhow::Result<Vec<u64>> {
        let mut sizes = Vec::new();
        let _display = Display::start_doing("listing", self.printer, self.handles.progress.clone());
        let archives = Archive::File(self.archive.clone()).into();
        let options = PassOptions::default();
        let reader = Reader { archives: &archives, options: &options, handles: &self.handles };
        let mut visit = |member: &Member<'_>| {
            if member.header_offset >= self.bytes_max {
                return ControlFlow::Break(());
            }
            if member.kind == MemberKind::Regular {
                sizes.push(member.size);
            }
            ControlFlow::Continue(())
        };
        on_a_thread_of_its_own(|| reader.list(|| Ok(()), &mut visit))?;
        check(&self.handles.cancel)?;
        Ok(sizes)
    }

    /// Waits until earlier writes and removals are durable, and drops the archive from the page cache.
    fn settle(&self) -> anyhow::Result<()> {
        check(&self.handles.cancel)?;
        let scratch = open(self.scratch)?;
        syncfs(scratch).map_err(io::Error::from).map_err(cannot("sync", self.scratch))?;
        // The kernel may ignore this advice; `is_cold` checks.
        let _ = fadvise(open(&self.archive)?, 0, None, Advice::DontNeed);
        Ok(())
    }

    /// Returns whether the archive's beginning can be dropped from the page cache; `None` if the kernel
    /// does not tell.
    pub fn is_cold(&self, bytes: u64) -> anyhow::Result<Option<bool>> {
        self.settle()?;
        let file = open(&self.archive)?;
        let step = (bytes / SAMPLES).max(SAMPLE_BYTES);
        let offsets = (0..SAMPLES).map(|sample| sample * step);
        let offsets = offsets.take_while(|at| at + SAMPLE_BYTES <= bytes);
        let cached: Option<Vec<bool>> =
            offsets.map(|at| is_cached(&file, at, SAMPLE_BYTES)).collect();
        Ok(cached.map(|cached| !cached.contains(&true)))
    }

    /// Reads the archive's beginning into the page cache.
    pub fn warm(&self, bytes: u64) -> anyhow::Result<()> {
        let mut file = open(&self.archive)?.take(bytes);
        let mut piece = vec![0; 1 << 20];
        let _display = self.shown("reading", Phase::Unpacking, bytes);
        loop {
            let count = file.read(&mut piece).map_err(cannot("read", &self.archive))?;
            if count == 0 {
                return Ok(());
            }
            self.handles.progress.count_read(count as u64);
            check(&self.handles.cancel)?;
        }
    }

    /// Shows the progress of reading or writing this many bytes.
    fn shown(&self, doing: &'static str, phase: Phase, bytes: u64) -> Option<Display> {
        self.handles.progress.begin_bytes(phase, bytes);
        Display::start_doing(doing, self.printer, self.handles.progress.clone())
    }
}

/// Refuses a measurement that would fill the disk.
pub fn check_space(output: &Path, size: u64, generates_archive: bool) -> anyhow::Result<()> {
    let directory = OwnedFd::from(open(output)?);
    let free = Free::of(&Syscalls::default(), &directory, output)?.bytes.unwrap_or(0);
    let archive = if generates_archive { size / RATIO_MIN } else { 0 };
    let needed = size.saturating_add(size / 16).saturating_add(archive).saturating_add(SPARE_BYTES);
    if needed > free {
        return Err(BenchError::no_space(output, free, needed).into());
    }
    Ok(())
}

/// Generates an archive like those of mainnet. Its size is not known in advance: `progress` uses an
/// estimate.
pub fn generate_archive(
    scratch: &Path,
    size: u64,
    one_frame: bool,
    progress: &Progress,
    cancel: &CancelToken,
) -> anyhow::Result<PathBuf> {
    let spec = ArchiveSpec {
        total_bytes: size,
        frames: if one_frame { Frames::One } else { Frames::AGAVE },
        ..ArchiveSpec::default()
    };
    let path = scratch.join(spec.name());
    let file = File::create_new(&path).map_err(cannot("create", &path))?;
    progress.begin_bytes(Phase::Writing, size * 10 / RATIO_IN_TENTHS);
    let mut output =
        BufWriter::with_capacity(1 << 20, Cancellable { file: &file, progress, cancel });
    let written = write_archive(&spec, &mut output);
    check(cancel)?;
    written.with_context(|| format!("cannot write {}", path.display()))?;
    output.flush().map_err(cannot("write", &path))?;
    drop(output);
    // Dirty pages cannot be dropped from the page cache.
    file.sync_all().map_err(cannot("sync", &path))?;
    Ok(path)
}

/// A file whose writes fail when the run is cancelled.
struct Cancellable<'a> {
    file: &'a File,
    progress: &'a Progress,
    cancel: &'a CancelToken,
}

impl Write for Cancellable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            // Not `Interrupted`, which callers retry.
            return Err(io::Error::other("cancelled"));
        }
        let count = self.file.write(bytes)?;
        self.progress.count_read(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> Result<File, ProgramFailure> {
    File::open(path).map_err(cannot("open", path))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
