//! Crashes at every step of adopting what lies ready, of preparing it, and of replacing it.
//!
//! strace stops the program at the n-th of the system calls that change names or make things durable.
//! The law is checked by a reader that shares nothing with unsnap.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use unsnap_fastboot::{Outcome as Adopted, adopt_ready};
use unsnap_pass::Progress;
use unsnap_ring::Syscalls;
use unsnap_test_support::{
    Outcome, Site,
    disk::{Disk, KINDS, Kind, Options, can_lose_power},
    finish, has_tool,
    ledger::{Expected, Ledger, look, names, small_archive, small_pair},
    ledger_tool_path, run, skip_unsupported, until,
};

use crate::fastboot;

/// Calls that change names or make things durable. strace counts each by itself.
const CALLS: [&str; 6] = ["mkdirat", "unlinkat", "renameat", "renameat2", "fsync", "syncfs"];

/// More calls of a kind no run makes: a loop that goes on is broken.
const STEPS_MAX: usize = 120;

/// What is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Beside a validator's state, with nothing ready.
    Beside,
    /// The same with an older state ready.
    Successor,
    /// By a run that prepares in place.
    Adopt,
    /// By itself.
    AdoptReady,
}

impl Action {
    fn is_beside(self) -> bool {
        matches!(self, Self::Beside | Self::Successor)
    }
}

/// What happens at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strike {
    /// The program is killed right before it.
    Kill,
    /// The power fails right after it.
    Cut,
}

struct Stage {
    action: Action,
    site: Site,
    old: Expected,
    older_ready: Expected,
    new: Expected,
}

impl Stage {
    fn new(action: Action) -> Self {
        let site = Site::new();
        let archives = site.path("archives");
        fs::create_dir(&archives).unwrap();
        let old = small_archive(&archives, 50, None, &[(40, 900), (45, 4096), (50, 5000)]);
        let ready = small_archive(&archives, 80, None, &[(70, 600), (80, 5000)]);
        let (full, incremental) = small_pair(&archives);
        let (old, older_ready) = (Expected::of_files(&old, None), Expected::of_files(&ready, None));
        let new = Expected::of_files(&full, Some(&incremental));
        Self { action, site, old, older_ready, new }
    }

    /// A ledger with the old state, and the new archives, or the new state ready.
    fn set(&self, ledger: &Ledger) {
        for path in ledger.accounts.iter().chain([&ledger.root]).filter(|path| path.exists()) {
            fs::remove_dir_all(path).unwrap();
        }
        fs::create_dir_all(&ledger.root).unwrap();
        let archives = self.site.path("archives");
        let of_slot =
            |slot: &str| names(&archives).into_iter().find(|name| name.starts_with(slot)).unwrap();
        let older = [of_slot("snapshot-50-"), of_slot("snapshot-80-")];
        let prepare_from = |name: &String, flags: &[&str]| {
            let archive = ledger.add(&archives.join(name));
            fastboot("prepare", ledger, flags).assert_code(0);
            fs::remove_file(archive).unwrap();
        };
        prepare_from(&older[0], &["-q"]);
        if self.action == Action::Successor {
            prepare_from(&older[1], &["-q", "--beside"]);
        }
        for name in names(&archives).into_iter().filter(|name| !older.contains(name)) {
            ledger.add(&archives.join(name));
        }
        if !self.action.is_beside() {
            fastboot("prepare", ledger, &["-q", "--beside"]).assert_code(0);
        }
    }

    fn flags(&self) -> &'static [&'static str] {
        match self.action {
            Action::Beside | Action::Successor => &["-q", "--io-engine=threads", "--beside"],
            Action::Adopt | Action::AdoptReady => &["-q", "--io-engine=threads"],
        }
    }

    fn judge(&self, ledger: &Ledger, reported: bool, what: &str) -> &'static str {
        let found = look(&ledger.snapshots, &ledger.accounts)
            .unwrap_or_else(|broken| panic!("{what}: {broken}"));
        let found = match found {
            None => "none",
            Some(state) if self.old.is(&state) => "old",
            Some(state) if self.new.is(&state) => "new",
            Some(state) => panic!("{what}: a state of slot {} that nobody knows", state.slot),
        };
        let ready = ledger.beside();
        let lies_ready = look(&ready.snapshots, &ready.accounts);
        if self.action.is_beside() {
            assert_eq!(found, "old", "{what}: the validator's own was touched");
            let lies_ready = lies_ready.unwrap_or_else(|broken| panic!("{what}: ready: {broken}"));
            let found = match lies_ready {
                None => "not ready",
                Some(state) if self.new.is(&state) => "ready",
                Some(state) if self.older_ready.is(&state) => "the older one ready",
                Some(state) => panic!("{what}: ready: slot {}, which nobody knows", state.slot),
            };
            assert!(!reported || found == "ready", "{what}: reported, but {found}");
            if self.action == Action::Successor && found == "not ready" {
                // Only between the renames, when the successor is complete.
                let runs = [ledger.beside(), ledger.next()].into_iter().flat_map(|places| {
                    let runs = (0..places.accounts.len()).map(move |index| places.run(index));
                    runs.filter(|run| run.exists()).flat_map(|run| names(&run))
                });
                let mut found: Vec<String> = runs.collect();
                found.retain(|name| self.new.names().contains(name));
                assert_eq!(found.len(), self.new.storages(), "{what}: nothing is ready: {found:?}");
            }
            return found;
        }
        assert!(!reported || found == "new", "{what}: reported, but {found}");
        if let Ok(Some(state)) = lies_ready {
            assert!(self.new.is(&state), "{what}: what lies ready looks whole, and is not");
        }
        found
    }

    fn assert_next_run_succeeds(&self, ledger: &Ledger, what: &str) {
        if self.action.is_beside() {
            fastboot("prepare", ledger, &["-q", "--beside"]).assert_code(0);
            self.new.assert_prepared(&ledger.beside(), 3, what);
            let state = look(&ledger.snapshots, &ledger.accounts).unwrap();
            self.old.assert_is(&state.expect("the validator's own is gone"), what);
        }
        fastboot("prepare", ledger, &["-q"]).assert_code(0);
        self.new.assert_prepared(ledger, 3, what);
    }

    /// The program under strace, which does something at its n-th call of a kind.
    fn start(&self, ledger: &Ledger, call: &str, inject: &str, trace: &Path) -> Child {
        let _ = fs::remove_file(trace);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o"]).arg(trace);
        strace.args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:{inject}")]);
        if self.action == Action::AdoptReady {
            adopting(&mut strace, ledger);
        } else {
            strace.arg(ledger_tool_path()).args(["fastboot", "prepare"]);
            strace.args(ledger.arguments()).args(self.flags());
        }
        strace.env_remove("RUST_LOG").env_remove("UNSNAP_CONFIG");
        strace.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        strace.spawn().unwrap()
    }

    /// Kills the program at its n-th call. `None` if it makes no n-th call of this kind.
    fn kill(&self, ledger: &Ledger, call: &str, step: usize) -> Option<Outcome> {
        let inject = format!("signal=SIGKILL:when={step}");
        let outcome = finish(self.start(ledger, call, &inject, &self.site.path("trace")));
        outcome.status.code().is_none().then_some(outcome)
    }

    /// Cuts the power after its n-th call, of the disks in turn.
    fn cut(&self, ledger: &Ledger, disks: [&Disk; 2], call: &str, step: usize) -> Option<Outcome> {
        let trace = self.site.path("trace");
        // The signal is delivered when the call has been carried out.
        let inject = format!("signal=SIGSTOP:when={step}");
        let mut strace = self.start(ledger, call, &inject, &trace);
        let stopped = || {
            let text = fs::read_to_string(&trace).unwrap_or_default();
            let line = text.lines().find(|line| line.contains("--- stopped by SIGSTOP"));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        };
        until("it stops or ends", || stopped().is_some() || strace.try_wait().unwrap().is_some());
        let Some(thread) = stopped() else {
            finish(strace).assert_code(0);
            return None;
        };
        disks[step % 2].cut_power();
        disks[1 - step % 2].cut_power();
        kill_process(Pid::from_raw(thread).unwrap(), Signal::KILL).unwrap();
        Some(finish(strace))
    }
}

/// Whether strace works here; told if not.
fn can_trace() -> bool {
    if !has_tool("strace", "--version") {
        return false;
    }
    let traced = Command::new("strace").args(["-f", "-e", "trace=fsync", "true"]).output().unwrap();
    if !traced.status.success() {
        let said = String::from_utf8_lossy(&traced.stderr).into_owned();
        // A container without ptrace.
        skip_unsupported(format_args!("strace cannot trace: {said}"));
    }
    traced.status.success()
}

/// Goes through all steps, `every` so many of them. `crash`: gives `None` where there is no further one.
fn at_every_step(
    what: &str,
    every: usize,
    mut crash: impl FnMut(&str, usize, &str) -> Option<&'static str>,
) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for call in CALLS {
        for step in (1..).step_by(every) {
            assert!(step < STEPS_MAX, "{what}: no end of {call}");
            let Some(found) = crash(call, step, &format!("{what}, {call} {step}")) else { break };
            seen.push((call, found));
        }
    }
    for needed in ["renameat", "fsync"] {
        assert!(seen.iter().any(|(call, _)| call.starts_with(needed)), "{what}: {seen:?}");
    }
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for (_, found) in &seen {
        *counts.entry(found).or_default() += 1;
    }
    // Past the harness, which swallows what tests that pass print.
    let _ = writeln!(std::io::stderr(), "{what}: {} steps, found {counts:?}", seen.len());
}

fn killed(action: Action) {
    if !can_trace() {
        return;
    }
    let stage = Stage::new(action);
    let ledger = Ledger::new(&stage.site.place(), 2);
    at_every_step(&format!("{action:?}, {:?}", Strike::Kill), 1, |call, step, what| {
        stage.set(&ledger);
        let outcome = stage.kill(&ledger, call, step)?;
        let found = stage.judge(&ledger, outcome.status.success(), what);
        stage.assert_next_run_succeeds(&ledger, what);
        Some(found)
    });
}

/// Says to a process that it is to adopt what lies ready on this ledger, with these accounts paths.
const ADOPT: &str = "UNSNAP_TEST_ADOPT";

/// Lets a command run a process that does nothing but adopt: this program with one test alone.
fn adopting(command: &mut Command, ledger: &Ledger) {
    let test = "steps::a_process_of_its_own_adopts";
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    let paths = std::iter::once(&ledger.root).chain(&ledger.accounts);
    let paths: Vec<&str> = paths.map(|path| path.to_str().unwrap()).collect();
    command.env(ADOPT, paths.join(":"));
}

#[test]
fn a_process_of_its_own_adopts() {
    if let Ok(paths) = std::env::var(ADOPT) {
        let mut paths = paths.split(':').map(PathBuf::from);
        let root = paths.next().unwrap();
        let ledger = Ledger { snapshots: root.clone(), root, accounts: paths.collect() };
        let adopted =
            adopt_ready(&crate::request(&ledger), &Syscalls::default(), &Progress::default());
        assert!(matches!(adopted, Ok(Some(Adopted::Adopted { slot: 110, .. }))), "{adopted:?}");
        return;
    }
    let stage = Stage::new(Action::AdoptReady);
    let ledger = Ledger::new(&stage.site.place(), 2);
    stage.set(&ledger);
    let mut command = Command::new("env");
    adopting(&mut command, &ledger);
    run(&mut command).assert_code(0);
    stage.new.assert_prepared(&ledger, 3, "by a process of its own");
}

#[test]
fn killed_while_adopting() {
    killed(Action::Adopt);
}

#[test]
fn killed_while_adopting_by_itself() {
    killed(Action::AdoptReady);
}

#[test]
fn killed_while_a_successor_becomes_ready() {
    killed(Action::Successor);
}

#[test]
fn killed_while_preparing_beside() {
    killed(Action::Beside);
}

/// Every third step by default, all with `UNSNAP_CRASH_ROUNDS` set.
fn without_power(action: Action, kind: Kind) {
    if !can_lose_power() || !can_trace() {
        return;
    }
    let stage = Stage::new(action);
    let disk = || Disk::new(kind, &Options::default());
    let (Some(mut disk), Some(mut other)) = (disk(), disk()) else { return };
    let mut ledger = Ledger::new(disk.path(), 0);
    ledger.accounts = vec![other.path().join("accounts"), disk.path().join("accounts")];
    let every = if std::env::var_os("UNSNAP_CRASH_ROUNDS").is_some() { 1 } else { 3 };
    let what = format!("{action:?}, {kind:?}, {:?}", Strike::Cut);
    at_every_step(&what, every, |call, step, what| {
        stage.set(&ledger);
        for disk in [&disk, &other] {
            rustix::fs::syncfs(fs::File::open(disk.path()).unwrap()).unwrap();
        }
        let outcome = stage.cut(&ledger, [&disk, &other], call, step)?;
        disk.remount();
        other.remount();
        let found = stage.judge(&ledger, outcome.status.success(), what);
        stage.assert_next_run_succeeds(&ledger, what);
        Some(found)
    });
}

#[test]
fn without_power_while_adopting() {
    for kind in KINDS {
        without_power(Action::Adopt, kind);
    }
}

#[test]
fn without_power_while_adopting_by_itself() {
    for kind in KINDS {
        without_power(Action::AdoptReady, kind);
    }
}

#[test]
fn without_power_while_a_successor_becomes_ready() {
    for kind in KINDS {
        without_power(Action::Successor, kind);
    }
}

#[test]
fn without_power_while_preparing_beside() {
    without_power(Action::Beside, Kind::Ext4);
}
