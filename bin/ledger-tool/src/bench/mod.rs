//! `ledger-tool bench`: finds the bottleneck of unpacking on this machine to this destination, and the
//! flags that make it faster.
//!
//! Measurements are interleaved: each round measures everything once, so that other load affects all
//! variants alike. Ratios compare times of the same round.

mod alone;
mod args;
mod error;
mod judge;
mod measure;
mod page;
mod plot;
mod result;
mod scratch;
mod spread;
mod text;
mod variants;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use unsnap_cli::{
    exit::{ProgramFailure, failure},
    units::{count, duration, size},
};
use unsnap_failure::{Failure, Family};
use unsnap_pass::{CancelToken, Handles, PassError, Progress};

pub use args::{BenchArgs, EXAMPLES};
use error::cannot;
use measure::{Bench, Run, check_space, generate_archive};
use result::{Alone, ArchiveFacts, BenchResult, Measured};
use scratch::{ScratchDirectory, ScratchFile};
use variants::{Variant, variants};

use crate::{printer::Printer, progress::Display, settings::RequestError, signals::Signals};

/// Minimum size of a measurement: less says nothing about a disk.
const SIZE_MIN: u64 = 1 << 20;

/// Write rate of a good disk, for an estimate of the duration.
const DISK_BYTES_PER_S: u64 = 1_000_000_000;

pub fn run(args: &BenchArgs, printer: &Printer) -> anyhow::Result<()> {
    let started = Instant::now();
    check_request(args)?;
    // Before the measurement, which takes a while.
    let page = args.html.as_deref().map(|path| Page::begin(path, printer)).transpose()?;
    let cancel = CancelToken::default();
    Signals::catch()?.cancel(cancel.clone()).context("cannot watch for signals")?;
    let scratch = ScratchDirectory::create(&args.output, printer)?;
    let mut noted = cancel.unfinished().begin(scratch.path().to_owned());

    let measured = measure(args, printer, scratch.path(), &cancel);
    // In any case. An error of the measurement takes precedence.
    let removed = scratch.remove();
    noted.finish();
    let mut result = measured?;
    removed?;

    result.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if let Some(page) = page {
        page.finish(&page::page(&result))?;
    }
    printer.report(args.format, &result, |result| text::text(result, printer))
}

fn check_request(args: &BenchArgs) -> anyhow::Result<()> {
    let refuse = |reason: String| Err(RequestError(reason).into());
    let page = args.html.as_deref().map(holder);
    for directory in page.into_iter().chain([&*args.output]) {
        if !directory.exists() {
            return Err(PassError::no_directory(directory).into());
        }
    }
    if !args.output.is_dir() {
        return refuse(format!("{} is not a directory", args.output.display()));
    }
    if args.size < SIZE_MIN {
        return refuse(format!("--size {} is too small: at least 1MiB", args.size));
    }
    match &args.archive {
        Some(archive) if !archive.is_file() => {
            refuse(format!("{} is not a file: bench reads it repeatedly", archive.display()))
        }
        _ => Ok(()),
    }
}

/// Generates an archive if none is given, measures all rounds, and judges the result.
fn measure(
    args: &BenchArgs,
    printer: &Printer,
    scratch: &Path,
    cancel: &CancelToken,
) -> anyhow::Result<BenchResult> {
    check_space(&args.output, args.size, args.archive.is_none())?;
    let archive = if let Some(archive) = &args.archive {
        archive.clone()
    } else {
        printer.step(&format!("generating an archive of {}", size(args.size)));
        let progress = Progress::default();
        let _display = Display::start_doing("generating", printer, progress.clone());
        generate_archive(scratch, args.size, args.one_frame, &progress, cancel)?
    };
    let bench = Bench {
        printer,
        archive,
        scratch,
        // A generated archive is measured as a whole.
        bytes_max: if args.archive.is_none() { u64::MAX } else { args.size },
        handles: Handles { progress: Progress::default(), cancel: cancel.clone() },
    };
    // The first pass also shows which variants make sense.
    let sizes = bench.sizes()?;
    let first = bench.decode()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(16);
    let variants = variants(threads, decodes_in_parallel(&first));
    let cold = bench.is_cold(first.bytes_read)?;
    print_estimate(printer, &first, args.rounds, variants.len());
    // Not counted: the first run pays for one-time costs, such as the growth of the file system.
    printer.step("warming up");
    bench.unpack(|_| {})?;

    let mut rounds = Rounds::new(&bench, &sizes, &first, &variants);
    for round in 0..args.rounds {
        let since = Instant::now();
        rounds.round(round, args.rounds)?;
        let left = since.elapsed() * (args.rounds - round - 1);
        if !left.is_zero() {
            printer.step(&format!("about {} left", duration(left)));
        }
    }
    let Rounds { mut alone, mut measured, .. } = rounds;
    judge::compare(&mut alone, &mut measured);
    let limited_by = judge::limited_by(&measured);
    let (flags, advice) = judge::advice(&measured, args.rounds);
    let bytes = fs::metadata(&bench.archive).map_err(cannot("examine", &bench.archive))?.len();
    Ok(BenchResult {
        archive: ArchiveFacts {
            path: bench.archive.display().to_string(),
            generated: args.archive.is_none(),
            bytes,
            bytes_read: first.bytes_read,
            bytes_decoded: first.bytes_decoded,
            bytes_written: sizes.iter().sum(),
            files: sizes.len() as u64,
            whole: first.report.bytes_read == bytes,
        },
        output: args.output.display().to_string(),
        file_system: crate::doctor::file_system_of(&args.output),
        rounds: args.rounds,
        cold,
        limit: judge::limit(&limited_by, &alone),
        notes: notes(cold, &measured),
        alone,
        variants: measured,
        limited_by,
        flags,
        advice,
        elapsed_ms: 0,
    })
}

/// Returns whether several threads decoded frames.
fn decodes_in_parallel(run: &Run) -> bool {
    run.report.threads.iter().any(|thread| thread.name.starts_with("decode-") && thread.busy_ms > 0)
}

fn print_estimate(printer: &Printer, first: &Run, rounds: u32, variants: usize) {
    // One warm-up; then each round writes once for each variant, and once alone.
    let writes = 1 + u64::from(rounds) * (variants as u64 + 1);
    let bytes = writes.saturating_mul(first.bytes_decoded);
    let time = duration(Duration::from_secs(bytes / DISK_BYTES_PER_S + 1));
    printer.step(&format!(
        "writing {} {}, {} in total: about {time} at 1 GB/s",
        size(first.bytes_decoded),
        count(writes, "time"),
        size(bytes)
    ));
}

fn notes(cold: Option<bool>, measured: &[Measured]) -> Vec<String> {
    let mut notes = Vec::new();
    match cold {
        Some(true) => {}
        Some(false) => notes.push(
            "the archive could not be dropped from the page cache: reads were faster than from the \
             disk"
                .to_owned(),
        ),
        None => notes.push(
            "the archive may have stayed in the page cache: only Linux 6.5 and later tell, and only \
             the file's owner"
                .to_owned(),
        ),
    }
    let wide = |default: &Measured| default.seconds.max > 1.3 * default.seconds.min;
    if measured.first().is_some_and(wide) {
        notes.push("rounds differ by more than 30 %: other processes use the machine".to_owned());
    }
    notes
}

/// Measures everything once in each round. Each round begins with another variant.
struct Rounds<'a> {
    bench: &'a Bench<'a>,
    sizes: &'a [u64],
    bytes_read: u64,
    variants: &'a [Variant],
    alone: Vec<Alone>,
    measured: Vec<Measured>,
}

impl<'a> Rounds<'a> {
    fn new(bench: &'a Bench<'a>, sizes: &'a [u64], first: &Run, variants: &'a [Variant]) -> Self {
        let bytes_read = first.bytes_read;
        let stages =
            [("read", bytes_read), ("decode", first.bytes_decoded), ("write", sizes.iter().sum())];
        let alone = stages.map(|(stage, bytes)| Alone { stage, bytes, ..Alone::default() });
        let measured = variants.iter().map(|variant| Measured {
            name: variant.name.to_owned(),
            flags: variant.flags.clone(),
            ..Measured::default()
        });
        let (alone, measured) = (alone.into(), measured.collect());
        Self { bench, sizes, bytes_read, variants, alone, measured }
    }

    fn round(&mut self, round: u32, rounds: u32) -> anyhow::Result<()> {
        let bench = self.bench;
        let print =
            |step: &str| bench.printer.step(&format!("round {} of {rounds}: {step}", round + 1));
        for stage in &mut self.alone {
            print(&format!("{} alone", judge::action(stage.stage)));
            let elapsed_ms = match stage.stage {
                "read" => bench.read(self.bytes_read)?,
                "decode" => {
                    bench.warm(self.bytes_read)?;
                    bench.decode()?.report.elapsed_ms
                }
                _ => bench.write(self.sizes)?,
            };
            stage.elapsed_ms.push(elapsed_ms);
        }
        let count = self.variants.len();
        for turn in 0..count {
            let index = (turn + round as usize) % count;
            let (variant, measured) = (&self.variants[index], &mut self.measured[index]);
            if measured.skipped.is_some() {
                continue;
            }
            print(variant.name);
            match bench.unpack(|options| variant.apply(options)) {
                Ok(run) => measured.add(&run),
                Err(error) if round == 0 && is_unsupported(variant, &error) => {
                    measured.skipped = Some(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns whether a variant failed because this machine does not support it.
fn is_unsupported(variant: &Variant, error: &anyhow::Error) -> bool {
    let family = failure(error).map(Failure::family);
    !variant.is_default() && matches!(family, Some(Family::Environment | Family::Request))
}

impl Measured {
    fn add(&mut self, run: &Run) {
        let report = &run.report;
        self.elapsed_ms.push(report.elapsed_ms);
        self.limited_by.push(report.limited_by.to_owned());
        self.io_engine.clone_from(&report.io_engine);
        self.direct_read = report.direct_read;
        self.direct_write = report.direct_write;
        self.decode_threads = report.decode_threads;
        self.bytes_from_cache = report.bytes_from_cache;
    }
}

/// Returns the directory that holds a file.
fn holder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// The page's file, which gets its name when it is complete.
struct Page {
    file: ScratchFile,
    path: PathBuf,
}

impl Page {
    fn begin(path: &Path, printer: &Printer) -> Result<Self, ProgramFailure> {
        let file = ScratchFile::create(holder(path), printer)?;
        Ok(Self { file, path: path.to_owned() })
    }

    fn finish(mut self, html: &str) -> Result<(), ProgramFailure> {
        let written = self.file.write_all(html.as_bytes());
        let named = written.and_then(|()| self.file.persist(&self.path));
        named.map_err(cannot("write", &self.path))
    }
}
