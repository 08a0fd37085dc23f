//! Measuring: the archive is made ready, and everything is run in fresh directories.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use rustix::fs::{Advice, fadvise, statvfs, syncfs};
use unsnap_cli::{printer::Printer, progress::Display};
use unsnap_lookup::Reader;
use unsnap_pass::{
    Archive, CancelToken, Handles, LayoutKind, Options as PassOptions, Phase, Progress,
    on_a_thread_of_its_own,
};
use unsnap_ring::is_cached;
use unsnap_source::DigestKind;
use unsnap_tarstream::{Member, MemberKind};
use unsnap_testkit::{
    archive::write_archive,
    spec::{ArchiveSpec, Frames},
};
use unsnap_unpack::{
    Destination, DigestUse, Options, PreflightMode, Report, Source, Tree, Unpacker, Verify,
};

use super::alone::{self, check};

/// Places in the archive that are asked whether they are still in the page cache.
const SAMPLES: u64 = 64;

/// Bytes of such a place: a page.
const SAMPLE_BYTES: u64 = 4096;

/// An archive of random accounts is smaller than its files by at least this.
const RATIO_MIN: u64 = 2;

/// By how much it is smaller, in tenths (BENCHMARKS.md).
const RATIO_IN_TENTHS: u64 = 34;

/// Space for directories and journals. A guess.
const SPARE_BYTES: u64 = 64 << 20;

/// What is run, and where.
pub struct Bench<'a> {
    pub printer: &'a Printer,
    pub archive: PathBuf,
    /// Everything that is made lies in here, and is removed with it.
    pub place: &'a Path,
    /// Decoded bytes after which a run ends.
    pub bytes_max: u64,
    pub handles: Handles,
}

/// What a run came to.
pub struct Run {
    pub report: Report,
    /// Compressed and decoded bytes, which the report does not know of a part of an archive.
    pub bytes_read: u64,
    pub bytes_decoded: u64,
}

impl Bench<'_> {
    /// Unpacks into a fresh directory, cold, and removes what was made.
    pub fn unpack(&self, change: impl FnOnce(&mut PassOptions)) -> anyhow::Result<Run> {
        self.settle()?;
        let output = self.place.join("output");
        let (source, tree) = (self.source(Verify::default())?, Tree::new(&output));
        let digest = DigestUse::Report(DigestKind::Xxh3);
        let mut options = Options::new(source, Destination::Tree(tree), digest)?;
        // There was room at the start; a check in each run would be measured, too.
        options.preflight = PreflightMode::Off;
        change(&mut options.pass);
        let run = self.run(options)?;
        fs::remove_dir_all(&output).with_context(|| cannot_remove(&output))?;
        Ok(run)
    }

    /// Decodes from memory, and writes nothing.
    pub fn decode(&self) -> anyhow::Result<Run> {
        let nowhere = Destination::Nowhere { manifest: None };
        self.run(Options::new(self.source(Verify::None)?, nowhere, DigestUse::None)?)
    }

    fn source(&self, verify: Verify) -> anyhow::Result<Source> {
        let archive = Archive::File(self.archive.clone());
        Ok(Source::new(archive, None, LayoutKind::Snapshot, verify)?)
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

    /// Reads the archive's beginning without decoding it, cold.
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

    /// Writes files of these sizes until they are on the disk, and removes them.
    pub fn write(&self, sizes: &[u64]) -> anyhow::Result<u64> {
        self.settle()?;
        let directory = self.place.join("alone");
        fs::create_dir(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let display = self.shown("writing", Phase::Writing, sizes.iter().sum());
        let time = alone::write(&directory, sizes, &self.handles.progress, &self.handles.cancel)?;
        drop(display);
        fs::remove_dir_all(&directory).with_context(|| cannot_remove(&directory))?;
        Ok(milliseconds(time))
    }

    /// Sizes of the files that a run makes, in their order.
    pub fn sizes(&self) -> anyhow::Result<Vec<u64>> {
        let mut sizes = Vec::new();
        let _display = Display::start_doing("listing", self.printer, self.handles.progress.clone());
        let archives = [Archive::File(self.archive.clone())];
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

    /// Waits until what was removed and written before is on the disk, and drops the archive from the
    /// page cache.
    fn settle(&self) -> anyhow::Result<()> {
        check(&self.handles.cancel)?;
        let opened = |path: &Path| {
            File::open(path).with_context(|| format!("cannot open {}", path.display()))
        };
        syncfs(opened(self.place)?).map_err(io::Error::from).context("cannot sync")?;
        // Only advice; whether it was taken is found out by `is_cold`.
        let _ = fadvise(opened(&self.archive)?, 0, None, Advice::DontNeed);
        Ok(())
    }

    /// Whether the archive's beginning can be dropped from the page cache; `None` if nobody tells.
    pub fn is_cold(&self, bytes: u64) -> anyhow::Result<Option<bool>> {
        self.settle()?;
        let file = File::open(&self.archive)?;
        let step = (bytes / SAMPLES).max(SAMPLE_BYTES);
        let places = (0..SAMPLES).map(|sample| sample * step);
        let places = places.take_while(|at| at + SAMPLE_BYTES <= bytes);
        let cached: Option<Vec<bool>> =
            places.map(|at| is_cached(&file, at, SAMPLE_BYTES)).collect();
        Ok(cached.map(|cached| !cached.contains(&true)))
    }

    /// Reads the archive's beginning through the page cache, so that it stays there.
    pub fn warm(&self, bytes: u64) -> anyhow::Result<()> {
        let mut file = File::open(&self.archive)?.take(bytes);
        let mut piece = vec![0; 1 << 20];
        let _display = self.shown("reading", Phase::Unpacking, bytes);
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            self.handles.progress.count_read(count as u64);
            check(&self.handles.cancel)?;
        }
    }

    /// Shows how far it is with so many bytes, which are counted in `progress` as they are read or
    /// written.
    fn shown(&self, doing: &'static str, phase: Phase, bytes: u64) -> Option<Display> {
        self.handles.progress.begin_bytes(phase, bytes);
        Display::start_doing(doing, self.printer, self.handles.progress.clone())
    }
}

/// Refuses what would fill the disk.
pub fn make_sure_of_room(output: &Path, size: u64, makes_archive: bool) -> anyhow::Result<()> {
    let space = statvfs(output).map_err(io::Error::from);
    let space = space.with_context(|| format!("cannot look at {}", output.display()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let archive = if makes_archive { size / RATIO_MIN } else { 0 };
    let needed = size.saturating_add(size / 16).saturating_add(archive).saturating_add(SPARE_BYTES);
    anyhow::ensure!(
        needed <= free,
        "{} has {free} bytes free, and {needed} are needed: choose a smaller --size",
        output.display()
    );
    Ok(())
}

/// Makes an archive like those of mainnet. How large it gets is not known beforehand: what `progress`
/// tells of is an estimate.
pub fn make_archive(
    place: &Path,
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
    let path = place.join(spec.name());
    let file = File::create_new(&path);
    let file = file.with_context(|| format!("cannot make {}", path.display()))?;
    progress.begin_bytes(Phase::Writing, size * 10 / RATIO_IN_TENTHS);
    let mut output = BufWriter::with_capacity(1 << 20, Stoppable { file: &file, progress, cancel });
    let made = write_archive(&spec, &mut output);
    check(cancel)?;
    made.context("cannot make an archive")?;
    output.flush().context("cannot make an archive")?;
    drop(output);
    // Dirty pages cannot be dropped from the page cache.
    file.sync_all().context("cannot make an archive")?;
    Ok(path)
}

/// A file until somebody asks to stop.
struct Stoppable<'a> {
    file: &'a File,
    progress: &'a Progress,
    cancel: &'a CancelToken,
}

impl Write for Stoppable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            // Not `Interrupted`, which would be tried again.
            return Err(io::Error::other("stopped"));
        }
        let count = self.file.write(bytes)?;
        self.progress.count_read(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn cannot_remove(path: &Path) -> String {
    format!("cannot remove {}", path.display())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
