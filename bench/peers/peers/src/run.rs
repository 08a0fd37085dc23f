//! Running everything, interleaved.

use crate::console;
use crate::disk::{self, Tmpfs};
use crate::inputs::Input;
use crate::machine::{Facts, today};
use crate::manifest::Extent;
use crate::measure::{self, Captured};
use crate::options::RunOptions;
use crate::programs::{Programs, bench_directory};
use crate::results::{Run, Session, Writer};
use crate::scenarios::{Place, Scenario};
use crate::tools::{self, Job};
use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a file takes on a disk beyond its bytes, at most: the rest of its last block, and its
/// share of directory and inode.
const BYTES_PER_FILE: u64 = 8 << 10;

/// Memory that a scenario in memory leaves to the tools.
const SPARE_MEMORY_BYTES: u64 = 2 << 30;

/// Measures, and returns the file with the results.
pub fn run(options: &RunOptions) -> Result<PathBuf> {
    ensure!(options.scale > 0.0, "--scale must be greater than 0");
    let scenarios = options.scenarios()?;
    fs::create_dir_all(&options.work)
        .with_context(|| format!("cannot create {}", options.work.display()))?;
    let work = fs::canonicalize(&options.work)?;
    let lock = File::create(work.join("lock"))?;
    lock.try_lock().context("another run is using this --work")?;
    let wants_agave = options.tools.is_empty() || options.tools.iter().any(|tool| tool == "agave");
    let programs = Programs::build(&options.unsnap, wants_agave)?;
    let results = options.results.clone().unwrap_or_else(|| {
        if options.is_scaled() {
            work.join("results-scaled.jsonl")
        } else {
            bench_directory().join("results/results.jsonl")
        }
    });
    let bench = Bench {
        facts: Facts::gather(&work, programs.versions()),
        captured: Captured::new(&work),
        work: work.clone(),
        interrupted: interruptions()?,
        tmpfs: work.join("tmpfs"),
        outputs: work.join("outputs"),
        archives: work.join("archives"),
        options,
        programs,
        results,
    };
    Tmpfs::unmount_stale(&bench.tmpfs);
    disk::clear(&bench.outputs)?;
    for (index, scenario) in scenarios.iter().enumerate() {
        if let Err(error) = bench.scenario(scenario) {
            let _ = fs::remove_dir_all(&bench.outputs);
            return Err(error.context(format!("scenario {}", scenario.id)));
        }
        disk::clear(&bench.outputs)?;
        bench.delete_archive(scenario, &scenarios[index + 1..])?;
    }
    fs::remove_dir_all(&bench.outputs)?;
    Ok(bench.results)
}

/// A flag that is up once somebody wants the run to end.
fn interruptions() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second one ends the process at once; the next run cleans up after it.
        flag::register_conditional_default(signal, Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

struct Bench<'a> {
    options: &'a RunOptions,
    programs: Programs,
    facts: Facts,
    captured: Captured,
    work: PathBuf,
    interrupted: Arc<AtomicBool>,
    outputs: PathBuf,
    archives: PathBuf,
    tmpfs: PathBuf,
    results: PathBuf,
}

impl Bench<'_> {
    fn scenario(&self, scenario: &Scenario) -> Result<()> {
        self.stop_if_interrupted()?;
        let input =
            Input::prepare(&self.programs, &self.archives, scenario.archive, self.options.scale)?;
        let (tools, left_out) = self.tools(scenario);
        if tools.is_empty() {
            return Ok(());
        }
        let _mounted = if scenario.place == Place::Memory {
            match self.mount(input.extent) {
                Ok(tmpfs) => Some(tmpfs),
                Err(error) => {
                    console::note(&format!("{}: skipped: {error:#}", scenario.id));
                    return Ok(());
                }
            }
        } else {
            None
        };
        let session = Session {
            scenario: scenario.id.into(),
            date: today(),
            scale: self.options.scale,
            rounds: self.options.rounds,
            files: input.extent.files,
            bytes: input.extent.bytes,
            archive_bytes: input.archive_bytes,
            left_out,
            facts: self.facts.clone(),
        };
        let mut writer = Writer::begin(&self.results, session)?;
        for round in 0..self.options.rounds {
            for index in 0..tools.len() {
                let tool = &tools[(index + round as usize) % tools.len()];
                let run = self.once(scenario, tool, round, &input)?;
                show(&run, self.options.rounds);
                writer.add(run)?;
            }
        }
        Ok(())
    }

    /// The tools to measure, and those that cannot be, with the reasons.
    fn tools(&self, scenario: &Scenario) -> (Vec<String>, Vec<(String, String)>) {
        let wanted = |tool: &str| {
            self.options.tools.is_empty() || self.options.tools.iter().any(|id| id == tool)
        };
        let mut tools = Vec::new();
        let mut left_out = Vec::new();
        for tool in scenario.tools.iter().filter(|tool| wanted(tool)) {
            match tools::missing(tool, &self.programs) {
                Some(reason) => left_out.push(((*tool).to_owned(), reason)),
                None => tools.push((*tool).to_owned()),
            }
        }
        // Builds that were named on the command line are wanted, whatever --tools says.
        tools.extend(self.programs.other_unsnaps.iter().map(|other| other.name.clone()));
        (tools, left_out)
    }

    fn once(&self, scenario: &Scenario, tool: &str, round: u32, input: &Input) -> Result<Run> {
        let directory = if scenario.place == Place::Memory { &self.tmpfs } else { &self.outputs };
        self.make_room(scenario.place, directory, input.extent)?;
        let output = directory.join(format!("{}-{round}-{tool}", scenario.id));
        fs::create_dir(&output).with_context(|| format!("cannot create {}", output.display()))?;
        let job = Job {
            archive: &input.archive,
            manifest: &input.manifest,
            extent: input.extent,
            output: &output,
            place: scenario.place,
        };
        let prepared = match scenario.place {
            Place::Disk => disk::make_cold(&input.archive)?,
            Place::Memory | Place::Nowhere => disk::make_warm(&input.archive)?,
        };
        self.stop_if_interrupted()?;
        let mut command = tools::command(tool, &self.programs, &job)?;
        let reports = tools::reports(tool, &self.programs);
        let usage = measure::run(&mut command, &self.captured, reports)?;
        // Who writes nothing is not to wait for what others have written.
        let writes = tools::writes(tool, scenario.place);
        let sync = if writes { disk::sync(&output)? } else { Duration::ZERO };
        // Ctrl-C reaches the tool as well: that it failed then is not its fault.
        self.stop_if_interrupted()?;
        let failure = if usage.status.success() {
            tools::check(tool, &job).err().map(|error| format!("{error:#}"))
        } else {
            Some(format!("{}: {}", usage.status, self.captured.complaint()))
        };
        Ok(Run {
            scenario: scenario.id.into(),
            tool: tool.into(),
            round,
            wall_seconds: usage.wall.as_secs_f64(),
            sync_seconds: sync.as_secs_f64(),
            user_seconds: usage.user.as_secs_f64(),
            system_seconds: usage.system.as_secs_f64(),
            peak_bytes: usage.peak_bytes,
            disk_idle: prepared.disk_idle,
            cache_right: prepared.cache_right,
            failure: failure.map(|failure| self.without_paths(&failure)),
            own_report: reports
                .then(|| parts_of_report(&self.without_paths(&self.captured.stdout())))
                .flatten(),
        })
    }

    /// Text for the results, which are published: without the paths of this machine.
    fn without_paths(&self, text: &str) -> String {
        text.replace(&*self.work.to_string_lossy(), "WORK")
    }

    fn stop_if_interrupted(&self) -> Result<()> {
        ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }

    /// Deletes all old outputs, if there is no room for another.
    ///
    /// Deleting after every run would be simpler, but ext4 does not use an inode again for some
    /// seconds after it was deleted, and searches for others, which slows the next run's creates.
    fn make_room(&self, place: Place, directory: &Path, extent: Extent) -> Result<()> {
        let needed = |extent: Extent| extent.bytes + extent.files * BYTES_PER_FILE;
        let is_enough = |keep_free| -> Result<bool> {
            let (bytes, inodes) = disk::free(directory)?;
            Ok(bytes >= needed(extent) + keep_free && inodes >= 2 * extent.files)
        };
        match place {
            Place::Nowhere => Ok(()),
            Place::Memory if is_enough(0)? => Ok(()),
            Place::Memory => {
                for entry in fs::read_dir(directory)? {
                    fs::remove_dir_all(entry?.path())?;
                }
                Ok(())
            }
            Place::Disk if is_enough(self.options.keep_free)? => Ok(()),
            Place::Disk => {
                console::note("deleting old outputs");
                disk::clear(directory)?;
                ensure!(is_enough(self.options.keep_free)?, "the disk is full, see --keep-free");
                Ok(())
            }
        }
    }

    /// Mounts a tmpfs that holds one output.
    fn mount(&self, extent: Extent) -> Result<Tmpfs> {
        let bytes = extent.bytes + extent.files * BYTES_PER_FILE + (64 << 20);
        let needed = bytes + SPARE_MEMORY_BYTES;
        let memory = self.facts.memory_mib << 20;
        ensure!(memory >= needed, "{needed} bytes of memory needed, {memory} here");
        Tmpfs::mount(&self.tmpfs, bytes)
    }

    /// Deletes a scenario's archive if nobody needs it any more and the next needs the space.
    fn delete_archive(&self, scenario: &Scenario, next: &[&Scenario]) -> Result<()> {
        let is_needed = next.iter().any(|next| next.archive.id == scenario.archive.id);
        let directory = self.archives.join(scenario.archive.id);
        if self.options.keep_archives || is_needed || !directory.exists() {
            return Ok(());
        }
        let extent = Extent::of_manifest(&directory.join("manifest"))?;
        // An archive and two outputs of the same size as here.
        let (free, _) = disk::free(&self.archives)?;
        if free < 3 * extent.bytes + self.options.keep_free {
            fs::remove_dir_all(&directory)?;
        }
        Ok(())
    }
}

/// The parts of a tool's own report that explain a figure.
fn parts_of_report(report: &str) -> Option<serde_json::Value> {
    let report: serde_json::Value = serde_json::from_str(report).ok()?;
    let parts = [
        "io_engine",
        "decode_engine",
        "limited_by",
        "sync_ms",
        "fallbacks",
        "threads",
        "direct_io",
        "registered_buffers",
    ];
    let part = |name: &&str| Some(((*name).to_owned(), report.get(*name)?.clone()));
    Some(parts.iter().filter_map(part).collect::<serde_json::Map<_, _>>().into())
}

fn show(run: &Run, rounds: u32) {
    let result = run.failure.as_ref().map_or_else(
        || {
            format!(
                "{:7.2} s (sync {:.2}), CPU {:.2} + {:.2} s, peak {} MiB",
                run.wall_seconds + run.sync_seconds,
                run.sync_seconds,
                run.user_seconds,
                run.system_seconds,
                run.peak_bytes >> 20
            )
        },
        |failure| format!(" FAILED: {failure}"),
    );
    let round = run.round + 1;
    let disturbed = if run.disk_idle { "" } else { " (the disk was busy before)" };
    console::note(&format!(
        "{} {round}/{rounds} {:20} {result}{disturbed}",
        run.scenario, run.tool
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_cut_to_what_explains() {
        let parts = parts_of_report(r#"{"archive": "/secret", "io_engine": "uring", "x": 1}"#);
        assert_eq!(parts, Some(serde_json::json!({"io_engine": "uring"})));
        assert_eq!(parts_of_report("no report"), None);
    }
}
