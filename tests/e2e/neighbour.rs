//! A run leaves to others what it was told to leave: it keeps to its rate, stands still when it is
//! paused, can be cancelled then, and its threads are as urgent as was asked for. Whatever is changed
//! while it goes on, what comes out is what went in.

use std::{
    fs,
    num::NonZeroU64,
    os::unix::fs::MetadataExt,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use unsnap_fit::{FitError, Resource};
use unsnap_pass::{CpuSet, Handles, IoEngine, IoPriority, Niceness, Pace, PassError, Phase};
use unsnap_test_support::Setup;
use unsnap_test_support::{
    Site, assert_holds, cleaned, expected_tree_of, finish, genuine_full, has_uring, ledger_tool,
    ledger_tool_path, run, skip_unsupported, small, unpack, until, within,
};
use unsnap_testkit::spec::{ArchiveSpec, FileSizes};
use unsnap_unpack::{Report, UnpackError, Unpacker};

/// Bytes in a second that any disk can write.
const SLOW: u64 = 8_000_000;

/// A configuration whose pace is in the test's hands.
fn paced(archive: &Path, site: &Site, engine: &IoEngine) -> (Setup, Pace) {
    let pace = Pace::new();
    let mut config = small(archive, &site.output());
    config.pass.io.engine = engine.clone();
    config.pass.neighbour.pace = Some(pace.clone());
    (config, pace)
}

fn engines() -> Vec<IoEngine> {
    let mut engines = vec![IoEngine::Threads];
    if has_uring() {
        engines.push(IoEngine::Uring);
    }
    engines
}

fn rate(bytes: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(bytes)
}

fn spec(total_bytes: u64, file_sizes: FileSizes) -> ArchiveSpec {
    ArchiveSpec { total_bytes, file_sizes, ..ArchiveSpec::default() }
}

#[test]
fn the_rate_is_kept() {
    for (file_bytes, total_bytes) in [(6_000_000, 24_000_000), (8000, 16_000_000)] {
        for engine in engines() {
            let site = Site::new();
            let archive = site.archive(&spec(total_bytes, FileSizes::Fixed(file_bytes)));
            let (config, pace) = paced(&archive, &site, &engine);
            pace.set_rate(rate(SLOW));
            let report = unpack(&config).unwrap();
            assert_holds(&site.output(), &expected_tree_of(&archive), format!("{engine:?}"));
            let least_ms = report.bytes_written * 1000 / SLOW * 9 / 10;
            let what = format!("{engine:?}, files of {file_bytes}: {:?} ms", report.elapsed_ms);
            assert!(report.elapsed_ms >= least_ms, "{what} for {} bytes", report.bytes_written);
            assert_eq!(report.limits.rate_limit, Some(SLOW));
        }
    }
}

/// A rate at which nothing would ever end.
#[test]
fn what_is_changed_holds_at_once_and_changes_no_byte() {
    for engine in engines() {
        let site = Site::new();
        let archive = site.archive(&spec(12_000_000, FileSizes::Mainnet));
        let (config, pace) = paced(&archive, &site, &engine);
        pace.set_rate(rate(1));
        let unpacker = config.unpacker().unwrap();
        let progress = unpacker.handles().progress;
        let unpacking = thread::spawn(move || unpacker.run());
        until("it is held back", || progress.snapshot().held_back_ms > 0);
        assert_eq!(progress.snapshot().rate_limit, Some(1));
        // Without the limit nothing but the pause keeps it from its end.
        pace.pause();
        pace.set_rate(None);
        until("it has been paused for a while", || progress.snapshot().paused_ms > 300);
        let now = progress.snapshot();
        assert!(now.paused && now.phase == Phase::Unpacking, "{now:?}");
        assert!(now.bytes_written < 12_000_000 && !unpacking.is_finished(), "{now:?}");
        // On and off, and on again.
        pace.set_rate(rate(SLOW));
        pace.resume();
        until("it goes on", || progress.snapshot().bytes_written > now.bytes_written);
        pace.pause();
        pace.set_rate(None);
        pace.resume();
        let report: Report = within(move || unpacking.join().unwrap()).unwrap();
        assert_holds(&site.output(), &expected_tree_of(&archive), format!("{engine:?}"));
        assert!(report.paused_ms >= 300 && report.held_back_ms > 0, "{report:?}");
        assert_eq!(report.limits.rate_limit, None);
    }
}

#[test]
fn a_pause_before_the_beginning_holds_up_reading_and_what_writes_nothing() {
    let site = Site::new();
    let archive = site.archive(&spec(4_000_000, FileSizes::Mainnet));
    let (mut config, pace) = paced(&archive, &site, &IoEngine::Threads);
    config.dry_run = true;
    pace.pause();
    let unpacker = config.unpacker().unwrap();
    let progress = unpacker.handles().progress;
    let unpacking = thread::spawn(move || unpacker.run());
    until("it is paused", || progress.snapshot().phase == Phase::Unpacking);
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(200) {
        assert_eq!(progress.snapshot().bytes_read, 0);
        thread::sleep(Duration::from_millis(10));
    }
    pace.resume();
    let report = within(move || unpacking.join().unwrap()).unwrap();
    assert!(report.paused_ms >= 200 && report.bytes_read > 0, "{report:?}");
}

#[test]
fn who_is_paused_or_held_back_can_be_cancelled() {
    for engine in engines() {
        for paused in [false, true] {
            let site = Site::new();
            let archive = site.archive(&spec(40_000_000, FileSizes::Fixed(50_000)));
            let before = site.state();
            let (config, pace) = paced(&archive, &site, &engine);
            pace.set_rate(rate(1));
            let unpacker = config.unpacker().unwrap();
            let Handles { progress, cancel } = unpacker.handles();
            let unpacking = thread::spawn(move || unpacker.run());
            until("it is held back", || progress.snapshot().held_back_ms > 0);
            if paused {
                pace.pause();
            }
            cancel.cancel();
            let result = within(move || unpacking.join().unwrap());
            assert!(
                matches!(result, Err(UnpackError::Pass(PassError::Cancelled))),
                "{engine:?} {paused} {result:?}"
            );
            site.assert_untouched(&before, format!("{engine:?} {paused}"));
        }
    }
}

#[test]
fn a_disk_that_others_fill_ends_a_run_that_is_paused() {
    let site = Site::new();
    let archive = site.archive(&spec(4_000_000, FileSizes::Mainnet));
    let before = site.state();
    let (mut config, pace) = paced(&archive, &site, &IoEngine::Threads);
    // To the look that is taken while the run goes on, nothing is free.
    config.pass.tuning.hidden_bytes = Some(u64::MAX);
    pace.pause();
    match unpack(&config) {
        Err(UnpackError::Fit(FitError::NoSpace(shortage))) => {
            assert!(shortage.unpacking && shortage.resource == Resource::Bytes, "{shortage:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(pace.is_paused());
    site.assert_untouched(&before, "a run that was paused");
}

#[test]
fn all_threads_are_given_what_was_asked_for() {
    let site = Site::new();
    let archive = site.archive(&spec(40_000_000, FileSizes::Mainnet));
    // The smallest set there is.
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = line(&allowed, "Cpus_allowed_list:").to_owned();
    let first = allowed.split(['-', ',']).next().unwrap().to_owned();
    let mut tool = cleaned(std::process::Command::new(ledger_tool_path()));
    tool.args(["unpack", "--rate-limit", "1", "--nice", "7", "--io-class", "idle"]);
    tool.args(["--cpus", &first, "--output"]).arg(site.output()).arg(&archive);
    let mut child = tool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    let mut seen = Vec::new();
    until("it creates files", || {
        seen = fs::read_dir(&tasks).map_or_else(|_| Vec::new(), Iterator::collect);
        let name = |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("comm"));
        let creates = |entry: &fs::DirEntry| {
            name(entry).is_ok_and(|name| name.starts_with("unsnap-create-1"))
        };
        child.try_wait().unwrap().is_some() || seen.iter().flatten().any(creates)
    });
    let mut threads = Vec::new();
    for task in seen.into_iter().flatten() {
        let read = |file: &str| fs::read_to_string(task.path().join(file));
        let (Ok(status), Ok(stat)) = (read("status"), read("stat")) else { continue };
        let (_, numbers) = stat.rsplit_once(')').unwrap();
        // The 19th field, of which two are in front of the parenthesis.
        let nice = numbers.split_whitespace().nth(16).unwrap().to_owned();
        let name = line(&status, "Name:").to_owned();
        threads.push((name, nice, line(&status, "Cpus_allowed_list:").to_owned()));
    }
    child.kill().unwrap();
    let outcome = finish(child);
    let of_the_run: Vec<_> =
        threads.iter().filter(|(name, ..)| name.starts_with("unsnap-")).collect();
    assert!(of_the_run.len() >= 4, "{threads:?} {outcome:?}");
    for (name, nice, cpus) in of_the_run {
        assert_eq!((nice.as_str(), cpus.as_str()), ("7", first.as_str()), "{name}");
    }
}

/// What follows a word at the beginning of a line.
fn line<'t>(text: &'t str, word: &str) -> &'t str {
    text.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_default().trim()
}

#[test]
fn a_run_has_what_it_was_given_and_its_caller_keeps_what_it_had() {
    let site = Site::new();
    let archive = site.archive(&spec(1_000_000, FileSizes::Mainnet));
    let mut config = small(&archive, &site.output());
    config.pass.neighbour.nice = Niceness::try_from(5).ok();
    config.pass.neighbour.io_priority = IoPriority::best_effort(7);
    let before = (IoPriority::of_this_thread(), rustix::process::getpriority_process(None));
    let report = config.unpacker().and_then(Unpacker::run).unwrap();
    assert_eq!((IoPriority::of_this_thread(), rustix::process::getpriority_process(None)), before);
    let given = (report.limits.nice, report.limits.io_priority.as_deref());
    if report.fallbacks.iter().any(|fallback| fallback.contains("refused")) {
        // By a container.
        return skip_unsupported(format_args!("{:?}", report.fallbacks));
    }
    assert_eq!(given, (Some(5), Some("best-effort:7")));
    // Of no machine.
    site.reset(false);
    config.pass.neighbour.cpus = Some("1023".parse::<CpuSet>().unwrap());
    match unpack(&config) {
        Err(error @ UnpackError::Pass(PassError::Request { .. })) => {
            assert!(error.to_string().contains("none of the processors 1023"), "{error}");
        }
        other => skip_unsupported(format_args!("there are 1024 processors: {other:?}")),
    }
}

#[test]
fn what_makes_no_sense_is_a_matter_of_usage() {
    let site = Site::new();
    let archive = site.archive(&spec(1_000_000, FileSizes::Mainnet));
    for flags in [
        ["--io-class", "realtime"],
        ["--nice", "20"],
        ["--cpus", "3-1"],
        ["--cpus", "1023"],
        ["--rate-limit", "fast"],
    ] {
        let mut tool = cleaned(std::process::Command::new(ledger_tool_path()));
        tool.arg("unpack").args(flags).arg("--output").arg(site.output()).arg(&archive);
        run(&mut tool).assert_code(2);
    }
    let mut tool = cleaned(std::process::Command::new(ledger_tool_path()));
    tool.args(["unpack", "--rate-limit", "0", "--format", "json", "--output"]);
    let report = run(tool.arg(site.output()).arg(&archive)).assert_code(0).json();
    assert_eq!(report["limits"]["rate_limit"], serde_json::Value::Null);
    assert!(fs::metadata(site.output()).unwrap().size() > 0);
}

#[test]
fn summaries_tell_what_was_kept_to() {
    let site = Site::new();
    let archive = genuine_full();
    let ledger = site.path("ledger");
    fs::create_dir(&ledger).unwrap();
    fs::copy(&archive, ledger.join(archive.file_name().unwrap())).unwrap();
    let flags = ["--rate-limit", "100MiB", "--nice", "3"];
    let mut unpack = ledger_tool();
    unpack.arg("unpack").args(flags).arg("--output").arg(site.output()).arg(&archive);
    let mut prepare = ledger_tool();
    prepare.args(["fastboot", "prepare"]).args(flags).arg("--ledger").arg(&ledger);
    for mut command in [unpack, prepare] {
        let told = run(&mut command).assert_code(0).stdout;
        let expected = "\n  limits: 100.00 MiB/s to each device, niceness 3; held back for ";
        assert!(told.contains(expected), "{told}");
    }
}
