//! States that a validator starts from: killed, or without power, at random moments, and full disks.
//!
//! The law is checked by a reader that shares nothing with unsnap (`e2e/fastboot/ground.rs`): a
//! state that is marked is whole, byte for byte, and is the old or the new one. Success was reported:
//! it is the new one. The next run succeeds and leaves nothing of this one.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use unsnap_test_support::{
    Site,
    disk::{Disk, KINDS, Kind, Options, can_lose_power},
    finish,
    ledger::{Expected, Ledger, look, names, small_archive},
    ledger_tool, run, seed, until,
};
use unsnap_testkit::random::Random;

use crate::stage::{random_flags, rounds, tell};

/// Storages of the new archives.
const STORAGES: usize = 240;

/// Archives, and what they become.
struct Subject {
    _site: Site,
    old: PathBuf,
    full: PathBuf,
    incremental: PathBuf,
    old_state: Expected,
    new_state: Expected,
}

impl Subject {
    /// The old state takes some 19 MB, the new one 34.
    fn new() -> Self {
        let site = Site::new();
        let bytes = |index: usize| if index % 6 == 5 { 600_000 } else { 1000 + 500 * index };
        let storages = |first: u64, count: usize| -> Vec<(u64, usize)> {
            (first..).zip((0..count).map(bytes)).collect()
        };
        let place = site.path("");
        let old = small_archive(&place, 500, None, &storages(300, 150));
        let full = small_archive(&place, 1000, None, &storages(700, STORAGES - 20));
        let incremental = small_archive(&place, 1100, Some(1000), &storages(1050, 20));
        let old_state = Expected::of_files(&old, None);
        let new_state = Expected::of_files(&full, Some(&incremental));
        Self { _site: site, old, full, incremental, old_state, new_state }
    }
}

/// The ledger on one disk, accounts on another.
struct Stage<'a> {
    subject: &'a Subject,
    disk: Disk,
    other: Disk,
    ledger: Ledger,
}

impl<'a> Stage<'a> {
    fn new(subject: &'a Subject, kind: Kind, options: &Options) -> Option<Self> {
        let (disk, other) = (Disk::new(kind, &Options::default())?, Disk::new(kind, options)?);
        let mut ledger = Ledger::new(disk.path(), 0);
        ledger.accounts = vec![other.path().join("accounts")];
        Some(Self { subject, disk, other, ledger })
    }

    /// A ledger with the old state, durably, and the new archives.
    fn set(&self) {
        for disk in [&self.disk, &self.other] {
            for name in names(disk.path()).iter().filter(|name| *name != "lost+found") {
                let path = disk.path().join(name);
                fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)).unwrap();
            }
        }
        // ext4 frees the blocks of removed files when it commits.
        self.sync();
        fs::create_dir(&self.ledger.root).unwrap();
        let old = self.ledger.add(&self.subject.old);
        run(&mut self.command("prepare", &["-q"])).assert_code(0);
        fs::remove_file(old).unwrap();
        self.ledger.add(&self.subject.full);
        self.ledger.add(&self.subject.incremental);
        self.sync();
    }

    fn sync(&self) {
        for disk in [&self.disk, &self.other] {
            rustix::fs::syncfs(fs::File::open(disk.path()).unwrap()).unwrap();
        }
    }

    fn command(&self, action: &str, flags: &[&str]) -> Command {
        let mut tool = ledger_tool();
        tool.args(["fastboot", action]).args(self.ledger.arguments());
        tool.args(flags.iter().filter(|flag| !flag.starts_with("--checkpoint")));
        tool
    }

    fn judge(&self, reported: bool, what: &str) -> &'static str {
        let found = look(&self.ledger.snapshots, &self.ledger.accounts)
            .unwrap_or_else(|broken| panic!("{broken}: {what}"));
        let found = match found {
            None => "none",
            Some(state) if self.subject.old_state.is(&state) => "old",
            Some(state) if self.subject.new_state.is(&state) => "new",
            Some(state) => panic!("a state of slot {} that nobody knows: {what}", state.slot),
        };
        assert!(!reported || found == "new", "reported, but {found}: {what}");
        found
    }

    fn assert_next_run_succeeds(&self, what: &str) {
        run(&mut self.command("prepare", &["-q"])).assert_code(0);
        self.subject.new_state.assert_prepared(&self.ledger, 3, what);
    }
}

/// How far a run is, as seen from outside.
fn phase(stage: &Stage<'_>, child: &mut Child) -> &'static str {
    let accounts = &stage.ledger.accounts[0];
    let staged = fs::read_dir(accounts.join(".unsnap-staged-run"));
    if child.try_wait().unwrap().is_some() {
        "5 ended"
    } else if stage.ledger.mark(1100).exists() {
        "4 published"
    } else if staged.as_ref().is_err() {
        if stage.ledger.state(500).exists() { "0 nothing staged" } else { "3 publishing" }
    } else if staged.is_ok_and(|entries| entries.count() == STORAGES) {
        "2 all staged"
    } else {
        "1 staging"
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strike {
    Kill,
    Cut,
    CutAndKill,
}

/// What a crash is to meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    After(Duration),
    /// When so many storages are staged.
    Staged(usize),
    /// When all are, and so much later.
    AfterAllStaged(Duration),
    Reported,
}

/// How long an undisturbed run takes; follows the load of the machine.
#[derive(Clone, Copy, Debug)]
struct Usual {
    whole: Duration,
    after_all_staged: Duration,
}

impl Usual {
    fn of(stage: &Stage<'_>) -> Self {
        stage.set();
        let since = Instant::now();
        let mut child = start(stage, &["-q"]);
        wait_until_staged(stage, &mut child, STORAGES);
        let staged = since.elapsed();
        finish(child).assert_code(0);
        let whole = since.elapsed();
        Self { whole, after_all_staged: whole.saturating_sub(staged) }
    }

    fn learn(&mut self, moment: Moment, phase: &str) {
        let time = match moment {
            Moment::After(_) => &mut self.whole,
            Moment::AfterAllStaged(_) => &mut self.after_all_staged,
            Moment::Staged(_) | Moment::Reported => return,
        };
        *time = if phase == "5 ended" { *time * 2 / 3 } else { *time * 9 / 8 };
    }
}

fn start(stage: &Stage<'_>, flags: &[&str]) -> Child {
    let mut command = stage.command("prepare", flags);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Looks until so many storages are staged, or the run is beyond that.
fn wait_until_staged(stage: &Stage<'_>, child: &mut Child, count: usize) {
    let staging = stage.ledger.accounts[0].join(".unsnap-staged-run");
    let mut begun = false;
    loop {
        match fs::read_dir(&staging) {
            Ok(entries) => {
                begun = true;
                if entries.count() >= count {
                    return;
                }
            }
            Err(_) if begun => return,
            Err(_) => {}
        }
        if child.try_wait().unwrap().is_some() {
            return;
        }
        thread::sleep(Duration::from_micros(50));
    }
}

fn crash(
    stage: &mut Stage<'_>,
    moment: Moment,
    strike: Strike,
    flags: &[&str],
    what: &str,
) -> (&'static str, &'static str) {
    let mut child = start(stage, flags);
    match moment {
        Moment::After(time) => thread::sleep(time),
        Moment::Staged(count) => wait_until_staged(stage, &mut child, count),
        Moment::AfterAllStaged(later) => {
            wait_until_staged(stage, &mut child, STORAGES);
            thread::sleep(later);
        }
        Moment::Reported => drop(child.wait().unwrap()),
    }
    let pid = Pid::from_child(&child);
    if child.try_wait().unwrap().is_none() {
        kill_process(pid, Signal::STOP).unwrap();
    }
    let phase = phase(stage, &mut child);
    if strike != Strike::Kill {
        // Either disk may be the first.
        let disks = [&stage.disk, &stage.other];
        disks[what.len() % 2].cut_power();
        disks[1 - what.len() % 2].cut_power();
    }
    if strike != Strike::Cut {
        child.kill().unwrap();
    }
    if phase != "5 ended" {
        kill_process(pid, Signal::CONT).unwrap();
    }
    let outcome = finish(child);
    let what = format!("{what}, {phase}, {outcome:#?}");
    let reported = outcome.status.success();
    assert!(matches!(outcome.status.code(), None | Some(0 | 3)), "{what}");
    assert!(reported || moment != Moment::Reported, "{what}");
    stage.disk.remount();
    stage.other.remount();
    let found = stage.judge(reported, &what);
    stage.assert_next_run_succeeds(&what);
    (phase, found)
}

#[test]
fn a_state_is_whole_or_not_there_whatever_the_moment() {
    if !can_lose_power() {
        return;
    }
    let test = "a_state_is_whole_or_not_there_whatever_the_moment";
    let seed = seed(test);
    let subject = Subject::new();
    for kind in KINDS {
        let mut random = Random::of(&[seed, kind as u64]);
        let Some(mut stage) = Stage::new(&subject, kind, &Options::default()) else { return };
        // The first one also reads the program into memory.
        Usual::of(&stage);
        let mut usual = Usual::of(&stage);
        let (rounds, started) = (rounds(10), Instant::now());
        let mut histogram: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for round in 0..rounds {
            stage.set();
            let share = |random: &mut Random, time: Duration| {
                let nanos = u64::try_from(time.as_nanos()).unwrap();
                Duration::from_nanos(random.below(nanos.max(1)))
            };
            let moment = match random.below(10) {
                0..2 => Moment::After(share(&mut random, usual.whole)),
                2..5 => Moment::Staged(random.index(STORAGES)),
                5..9 => Moment::AfterAllStaged(share(&mut random, usual.after_all_staged)),
                _ => Moment::Reported,
            };
            let strike = match moment {
                Moment::Reported => Strike::Cut,
                _ => *random.pick(&[Strike::Kill, Strike::Cut, Strike::CutAndKill]),
            };
            let flags = random_flags(&mut random);
            let what = format!(
                "{test}, seed {seed}, {kind:?}, round {round}, {moment:?}, {strike:?}, {flags:?}"
            );
            let came_to = crash(&mut stage, moment, strike, &flags, &what);
            usual.learn(moment, came_to.0);
            *histogram.entry(came_to).or_default() += 1;
        }
        tell(format_args!(
            "{test}: {kind:?}: {rounds} rounds in {:.1?}, seed {seed}",
            started.elapsed()
        ));
        for ((phase, found), count) in histogram {
            tell(format_args!("{count:5}  {phase} -> {found}"));
        }
    }
}

/// Leaves so many bytes free on a disk, by a file that takes the rest.
fn fill(disk: &Disk, free_bytes: u64) {
    use rustix::fs::{FallocateFlags, fallocate, statvfs};
    let filler = fs::File::create(disk.path().join("filler")).unwrap();
    let mut len = 0;
    loop {
        // What the file system takes for the file itself, and what it gives back late.
        rustix::fs::syncfs(&filler).unwrap();
        let stat = statvfs(disk.path()).unwrap();
        let free = stat.f_bavail * stat.f_frsize;
        if free <= free_bytes + (256 << 10) {
            break;
        }
        let more = (free - free_bytes).min(64 << 20);
        fallocate(&filler, FallocateFlags::empty(), len, more).unwrap();
        len += more;
    }
}

/// Removes what `fill` has made, and waits for its space: XFS gives it back late.
fn empty_again(disk: &Disk) {
    fs::remove_file(disk.path().join("filler")).unwrap();
    until("there is room for a state", || {
        let root = fs::File::open(disk.path()).unwrap();
        rustix::fs::syncfs(root).unwrap();
        let stat = rustix::fs::statvfs(disk.path()).unwrap();
        stat.f_bavail * stat.f_frsize >= 40 << 20
    });
}

/// Returns a number of bytes in which the new state, of 33 MiB, does not fit, but does together with
/// the 20 MiB of the old one.
fn too_little_beside(kind: Kind) -> u64 {
    match kind {
        // It keeps 6 MiB that count as free for root.
        Kind::Ext4 => 18 << 20,
        // It reserves 5 more blocks for each file until the file is written back (`fs/xfs`:
        // `xfs_bmap_worst_indlen`), which takes long on a busy machine: 18 MB for all 900 files.
        Kind::Xfs => 30 << 20,
    }
}

/// Without room beside the old state it is removed first, if that helps, and otherwise kept.
#[test]
fn a_disk_that_is_too_small_for_two_states() {
    if !can_lose_power() {
        return;
    }
    let subject = Subject::new();
    for kind in KINDS {
        let Some(stage) = Stage::new(&subject, kind, &Options::default()) else { return };
        // Neither beside the old one nor in its place: nothing is touched.
        stage.set();
        fill(&stage.other, 1 << 20);
        let told = run(&mut stage.command("prepare", &["-q"])).assert_code(3);
        let told = told.assert_error(&["the archive does not fit"]);
        assert_eq!(stage.judge(false, "no room"), "old", "{kind:?}, {told:#?}");
        stage.ledger.assert_tidy("no room");
        // In its place.
        stage.set();
        fill(&stage.other, too_little_beside(kind));
        let outcome = run(stage.command("prepare", &["-q"]).env("RUST_LOG", "warn")).assert_code(0);
        assert!(
            outcome.stderr.contains("old states are removed before the new one"),
            "{outcome:#?}"
        );
        subject.new_state.assert_prepared(&stage.ledger, 3, "in the place of the old one");
        // Found out late: what has begun is taken back, and with more room it goes on.
        stage.set();
        fill(&stage.other, 1 << 20);
        let told = run(&mut stage.command("prepare", &["-q", "--no-preflight"]));
        if told.status.code() == Some(0) {
            // The old one was gone in time.
            assert_eq!(stage.judge(true, "late"), "new");
        } else {
            told.assert_code(3).assert_error(&["No space left"]);
            assert_eq!(stage.judge(false, "late"), "none");
            stage.ledger.assert_tidy("late");
        }
        empty_again(&stage.other);
        stage.assert_next_run_succeeds(&format!("{kind:?}: with more room"));
    }
}
