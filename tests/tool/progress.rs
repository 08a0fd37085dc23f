//! On a terminal, everything that takes its time shows how far it is, how fast, and how long it will take.
//!
//! A program is stopped for most of the time (SIGSTOP) until that has been seen, so that a small archive
//! takes as long as a large one. Nothing depends on how fast the machine is: if it was over too soon, it
//! is run again, and stopped for longer.

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use unsnap_test_support::{Site, cleaned, has_tool, ledger_tool, run, until};
use unsnap_testkit::spec::{ArchiveSpec, FileSizes};

use crate::{lookup::index, programs::path};

/// How long a program is stopped each time; the next is tried if with the one before it was over too soon.
const STOPS: [u64; 3] = [4, 20, 100];

/// How often the last of them is tried: on a busy machine what is done between two stops may be all.
const ATTEMPTS: usize = 20;

/// How long it runs between two stops, at least.
const RUNS: Duration = Duration::from_micros(50);

/// An archive, and what it can be run on.
struct Ground {
    site: Site,
    archive: PathBuf,
}

impl Ground {
    /// `None`, with the reason told, without script(1) of util-linux, which runs a command on a terminal
    /// of its own.
    fn new() -> Option<Self> {
        if !has_tool("script", "--version") {
            return None;
        }
        let site = Site::new();
        let archive = site.archive(&ArchiveSpec {
            total_bytes: 64_000_000,
            file_sizes: FileSizes::Fixed(16_000),
            ..ArchiveSpec::default()
        });
        for directory in ["ledger", "accounts", "made", "bench"] {
            fs::create_dir(site.path(directory)).unwrap();
        }
        Some(Self { site, archive })
    }

    fn at(&self, name: &str) -> String {
        self.site.path(name).to_str().unwrap().to_owned()
    }

    /// Runs a program until it has shown a line for each of `doing`, with rate and time left; `again` is
    /// done before each attempt.
    #[track_caller]
    fn shows(&self, doing: &[&str], again: impl Fn(&Self), program: &str, words: &[&str]) {
        let mut seen = String::new();
        for stop in STOPS.into_iter().chain([STOPS[2]; ATTEMPTS]) {
            again(self);
            seen = self.run(program, words, Duration::from_millis(stop), doing);
            if have_been_shown(doing, &seen) {
                return;
            }
        }
        // A listing is long.
        let lines: Vec<&str> = seen.split(['\r', '\n']).take(40).collect();
        panic!("{doing:?} was not shown: {lines:#?}");
    }

    /// What was seen on the terminal.
    fn run(&self, program: &str, words: &[&str], stop: Duration, doing: &[&str]) -> String {
        let (pid, typescript) = (self.site.path("pid"), self.site.path("typescript"));
        let _ = (fs::remove_file(&pid), fs::remove_file(&typescript));
        // The outer shell goes on, so that script does not see that its child is stopped.
        let line = format!(
            "stty cols 200; sh -c 'echo $$ >{}; exec {} {}'; true",
            pid.display(),
            path(program).display(),
            words.join(" ")
        );
        let mut script = Command::new("script");
        script.args(["--quiet", "--flush", "--command", &line]).arg(&typescript);
        script.env("SHELL", "/bin/sh").env("TERM", "xterm").stdout(Stdio::null());
        let mut script = Running(cleaned(script).spawn().unwrap());
        let number = || fs::read_to_string(&pid).ok()?.strip_suffix('\n')?.parse().ok();
        until("it is started", || number().is_some());
        let seen =
            || String::from_utf8_lossy(&fs::read(&typescript).unwrap_or_default()).into_owned();
        // `None` if it has ended already.
        if let Ok(process) =
            pidfd_open(Pid::from_raw(number().unwrap()).unwrap(), PidfdFlags::empty())
        {
            while !have_been_shown(doing, &seen()) && slow_down(&process, stop) {}
            // What is left to be done is nothing new.
            let _ = pidfd_send_signal(&process, Signal::INT);
        }
        until("it has ended", || script.0.try_wait().unwrap().is_some());
        seen()
    }
}

/// Stops a process for a while. Says whether there is one.
fn slow_down(process: &OwnedFd, stop: Duration) -> bool {
    let stopped = pidfd_send_signal(process, Signal::STOP).is_ok();
    thread::sleep(stop);
    let goes_on = pidfd_send_signal(process, Signal::CONT).is_ok();
    thread::sleep(RUNS);
    stopped && goes_on
}

/// Killed if a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether each of these has been on the terminal with a rate and an estimate.
fn have_been_shown(doing: &[&str], seen: &str) -> bool {
    doing.iter().all(|doing| {
        // Each redrawing begins at the line's beginning.
        seen.split(['\r', '\x1b']).any(|line| {
            let after = line.split_once(&format!("{doing}  "));
            after.is_some_and(|(_, rest)| {
                rest.contains('%') && rest.contains("/s") && rest.contains("ETA ")
            })
        })
    })
}

fn nothing(_: &Ground) {}

/// Removes what an attempt before has made.
fn anew(name: &'static str) -> impl Fn(&Ground) {
    move |ground| {
        let _ = fs::remove_dir_all(ground.site.path(name));
    }
}

#[test]
fn of_unpacking() {
    let Some(ground) = Ground::new() else { return };
    let (archive, output) = (ground.archive.to_str().unwrap(), ground.at("output"));
    let words = ["unpack", archive, "--output", &output];
    ground.shows(&["unpacking"], anew("output"), "ledger-tool", &words);
    ground.shows(&["verifying"], nothing, "ledger-tool", &["verify", archive]);
}

#[test]
fn of_listing() {
    let Some(ground) = Ground::new() else { return };
    let archive = ground.archive.to_str().unwrap();
    ground.shows(&["listing"], nothing, "ledger-tool", &["list", archive]);
    ground.shows(&["listing"], nothing, "ledger-tool", &["accounts", archive]);
    ground.shows(&["inspecting"], nothing, "ledger-tool", &["inspect", archive, "--owners", "3"]);
    ground.shows(&["comparing"], nothing, "ledger-tool", &["diff", archive, archive]);
}

#[test]
fn of_looking_up() {
    let Some(ground) = Ground::new() else { return };
    let (archive, output) = (ground.archive.to_str().unwrap(), ground.at("output"));
    let account = "SysvarC1ock11111111111111111111111111111111";
    let extract = ["extract", archive, "--entry", "\"**\"", "--output", &output];
    ground.shows(
        &["searching"],
        nothing,
        "ledger-tool",
        &["extract", archive, "--account", account],
    );
    ground.shows(&["extracting"], anew("output"), "ledger-tool", &extract);
    ground.shows(&["indexing"], nothing, "ledger-tool", &["index", archive]);
    index(&ground.archive);
    ground.shows(&["extracting"], anew("output"), "ledger-tool", &extract);
    let check = ["list", archive, "--check-index"];
    ground.shows(&["checking the index"], nothing, "ledger-tool", &check);
}

#[test]
fn of_packing() {
    let Some(ground) = Ground::new() else { return };
    let (archive, made, tree) =
        (ground.archive.to_str().unwrap(), ground.at("made"), ground.at("tree"));
    let words = ["repack", archive, "--output", &made, "--force"];
    ground.shows(&["repacking"], nothing, "ledger-tool", &words);
    run(ledger_tool().args(["unpack", archive, "--quiet", "--output", &tree])).assert_code(0);
    let words = ["create", &tree, "--output", &made, "--force"];
    ground.shows(&["reading files"], nothing, "ledger-tool", &words);
}

#[test]
fn of_states() {
    let Some(ground) = Ground::new() else { return };
    let (ledger, accounts) = (ground.at("ledger"), ground.at("accounts"));
    fs::rename(&ground.archive, Path::new(&ledger).join(ground.archive.file_name().unwrap()))
        .unwrap();
    let on = |action| ["fastboot", action, "--ledger", &ledger, "--accounts", &accounts];
    let prepare = on("prepare");
    let quietly = |words: &[&str]| run(ledger_tool().args(words).arg("--quiet")).assert_code(0);
    let withdrawn = |_: &Ground| drop(quietly(&on("withdraw")));
    let prepared = |_: &Ground| drop(quietly(&prepare));
    // What a validator that crashed leaves behind: storages are lost that the shadow has.
    let damaged = |_: &Ground| {
        quietly(&prepare);
        for storage in fs::read_dir(Path::new(&accounts).join("run")).unwrap().take(500) {
            fs::remove_file(storage.unwrap().path()).unwrap();
        }
    };
    ground.shows(&["unpacking"], withdrawn, "ledger-tool", &prepare);
    ground.shows(&["checking files"], prepared, "ledger-tool", &on("status"));
    ground.shows(&["linking files"], damaged, "ledger-tool", &on("repair"));
    ground.shows(&["removing old files"], prepared, "ledger-tool", &on("withdraw"));
    let words = ["--prepare-only", "--ledger", &ledger, "--accounts", &accounts];
    ground.shows(&["unpacking"], withdrawn, "unsnap-validator", &words);
}

#[test]
fn of_measuring() {
    let Some(ground) = Ground::new() else { return };
    let (archive, place) = (ground.archive.to_str().unwrap(), ground.at("bench"));
    // Of what is measured as a whole; each stage alone is as short as its measurement.
    let words = ["bench", archive, "--output", &place, "--size", "64MiB", "--rounds", "1"];
    ground.shows(&["unpacking"], nothing, "ledger-tool", &words);
}
