//! Crashes at random moments, on both file systems, in all shapes.
//!
//! Uniformly random moments would miss what is short, so some are drawn by progress: when so many
//! files are staged, at some moment after the last one, and right after success was reported.

use std::{
    collections::BTreeMap,
    fs,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use unsnap_test_support::{
    disk::{KINDS, can_lose_power},
    finish, run, seed,
};
use unsnap_testkit::random::Random;

use crate::{
    law::Shape,
    stage::{STORAGES, Stage, Subject, random_flags, rounds, shape_of, tell},
};

/// What happens to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strike {
    /// SIGKILL; the machine goes on.
    Kill,
    /// The disks fail, the program does not: it must notice.
    Cut,
    /// The power fails for disks and program alike.
    CutAndKill,
}

/// When it happens.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// After so much time.
    After(Duration),
    /// When so many account files are staged.
    Staged(usize),
    /// When all account files are staged, and so much later.
    AfterAllStaged(Duration),
    /// When success has just been reported.
    Reported,
}

/// How far the run was, seen from outside right before the strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    NothingStaged,
    /// Quarters of the account files, 1 to 4.
    Staged(usize),
    /// All have been created: they are being completed and synced.
    AllStaged,
    /// The destination has its name.
    Published,
    Ended,
}

/// How long an undisturbed run takes.
#[derive(Clone, Copy, Debug)]
struct Usual {
    whole: Duration,
    after_all_staged: Duration,
}

impl Usual {
    /// Follows the load of the machine, which decides how long runs take: a moment that came too
    /// late makes later ones earlier.
    fn learn(&mut self, moment: Moment, phase: Phase) {
        let time = match moment {
            Moment::After(_) => &mut self.whole,
            Moment::AfterAllStaged(_) => &mut self.after_all_staged,
            Moment::Staged(_) | Moment::Reported => return,
        };
        *time = if phase == Phase::Ended { *time * 2 / 3 } else { *time * 9 / 8 };
    }
}

fn phase(stage: &Stage<'_>, child: &mut Child) -> Phase {
    if child.try_wait().unwrap().is_some() {
        return Phase::Ended;
    }
    if stage.output().join("version").exists() {
        return Phase::Published;
    }
    let (staging, storages) = stage.staged();
    match fs::read_dir(storages).map_or(0, Iterator::count) {
        _ if !staging.exists() => Phase::NothingStaged,
        count if count >= STORAGES => Phase::AllStaged,
        count => Phase::Staged(1 + count * 4 / STORAGES),
    }
}

/// Looks until so many account files are staged, or the run is beyond that.
fn wait_until_staged(stage: &Stage<'_>, child: &mut Child, count: usize) {
    loop {
        match phase(stage, child) {
            Phase::AllStaged | Phase::Published | Phase::Ended => return,
            Phase::Staged(_) => {
                let staged = fs::read_dir(stage.staged().1).map_or(0, Iterator::count);
                if staged >= count {
                    return;
                }
            }
            Phase::NothingStaged => {}
        }
        thread::sleep(Duration::from_micros(200));
    }
}

fn start(stage: &Stage<'_>, flags: &[&str]) -> Child {
    stage.command(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs it undisturbed.
fn usual(stage: &mut Stage<'_>, shape: Shape) -> Usual {
    stage.set(shape);
    let started = Instant::now();
    let mut child = start(stage, &["-q"]);
    wait_until_staged(stage, &mut child, STORAGES);
    let staged = started.elapsed();
    finish(child).assert_code(0);
    let whole = started.elapsed();
    Usual { whole, after_all_staged: whole.saturating_sub(staged) }
}

fn draw(random: &mut Random, usual: Usual) -> (Moment, Strike) {
    let share = |random: &mut Random, of: Duration, percent: u64| {
        let nanos = u64::try_from(of.as_nanos()).unwrap() * percent / 100;
        Duration::from_nanos(random.below(nanos.max(1)))
    };
    let moment = match random.below(10) {
        0..2 => Moment::After(share(random, usual.whole, 110)),
        2..6 => Moment::Staged(1 + random.index(STORAGES)),
        6..9 => Moment::AfterAllStaged(share(random, usual.after_all_staged, 120)),
        _ => Moment::Reported,
    };
    let strike = match moment {
        Moment::Reported => Strike::Cut,
        _ => *random.pick(&[Strike::Kill, Strike::Cut, Strike::CutAndKill]),
    };
    (moment, strike)
}

/// One crash, and what follows from it.
fn crash(
    stage: &mut Stage<'_>,
    (moment, strike): (Moment, Strike),
    flags: &[&str],
    resume: bool,
    what: &str,
) -> (Phase, String) {
    let mut child = start(stage, flags);
    match moment {
        Moment::After(time) => thread::sleep(time),
        Moment::Staged(count) => wait_until_staged(stage, &mut child, count),
        Moment::AfterAllStaged(time) => {
            wait_until_staged(stage, &mut child, STORAGES);
            thread::sleep(time);
        }
        Moment::Reported => drop(child.wait().unwrap()),
    }
    // It stands still while it is looked at and the power is cut, which takes processes and time.
    let pid = Pid::from_child(&child);
    if child.try_wait().unwrap().is_none() {
        kill_process(pid, Signal::STOP).unwrap();
    }
    let phase = phase(stage, &mut child);
    if strike != Strike::Kill {
        stage.cut_power();
    }
    if strike != Strike::Cut {
        child.kill().unwrap();
    }
    if phase != Phase::Ended {
        kill_process(pid, Signal::CONT).unwrap();
    }
    let outcome = finish(child);
    let reported = outcome.status.success();
    let what = format!("{what}, {phase:?}, {:?}", outcome.status);
    match (strike, outcome.status.code()) {
        (_, Some(0)) | (Strike::Kill | Strike::CutAndKill, None) => {}
        // Killed too late: the disk was noticed first.
        (Strike::Cut | Strike::CutAndKill, Some(3)) => {
            let parts = ["error: cannot ", "Input/output error", "hint: the disk reports errors"];
            drop(outcome.assert_error(&parts));
        }
        _ => panic!("{what}: {outcome:#?}"),
    }
    assert!(reported || !matches!(moment, Moment::Reported), "{what}: not even undisturbed");
    // Also after a kill: what is checked is what is on the disk, not what is in the page cache.
    stage.remount();
    let found = stage.judge(reported).unwrap_or_else(|broken| panic!("{what}: {broken}"));
    let resumed = stage.assert_next_run_succeeds(found, resume, &what);
    let reported = if reported { ", reported" } else { "" };
    (phase, format!("{found:?}{reported}{}", if resumed { ", resumed" } else { "" }))
}

fn crashes(
    test: &str,
    kind: unsnap_test_support::disk::Kind,
    rounds: usize,
    random: &mut Random,
    seed: u64,
) {
    let subject = Subject::new();
    let Some(mut stage) = Stage::new(&subject, kind) else { return };
    let started = Instant::now();
    // The first one also reads the program into memory.
    usual(&mut stage, Shape::Absent);
    let mut usual_of: Vec<Usual> = (0..4).map(|index| usual(&mut stage, shape_of(index))).collect();
    let mut histogram: BTreeMap<(Phase, String), usize> = BTreeMap::new();
    let mut strikes: BTreeMap<Strike, usize> = BTreeMap::new();
    for round in 0..rounds {
        let shape = shape_of(round);
        stage.set(shape);
        let drawn = draw(random, usual_of[round % 4]);
        let flags = random_flags(random);
        let resume = random.below(2) == 0;
        let what = format!(
            "{test}, seed {seed}, {kind:?}, round {round}, {shape:?}, {drawn:?}, {flags:?}, \
             resume {resume}"
        );
        let (phase, found) = crash(&mut stage, drawn, &flags, resume, &what);
        usual_of[round % 4].learn(drawn.0, phase);
        *histogram.entry((phase, found)).or_default() += 1;
        *strikes.entry(drawn.1).or_default() += 1;
    }
    tell(format_args!(
        "{test}: {kind:?}: {rounds} rounds in {:.1?}, seed {seed}, {strikes:?}",
        started.elapsed(),
    ));
    for ((phase, found), count) in histogram {
        tell(format_args!("{count:5}  {phase:?} -> {found}"));
    }
}

#[test]
fn a_crash_at_any_moment_leaves_all_or_nothing() {
    if !can_lose_power() {
        return;
    }
    let test = "a_crash_at_any_moment_leaves_all_or_nothing";
    let seed = seed(test);
    for kind in KINDS {
        let mut random = Random::of(&[seed, kind as u64]);
        crashes(test, kind, rounds(20), &mut random, seed);
    }
}

/// Random moments rarely fall right behind the report, where the promise is tested hardest.
#[test]
fn what_was_reported_survives() {
    if !can_lose_power() {
        return;
    }
    let test = "what_was_reported_survives";
    let seed = seed(test);
    let subject = Subject::new();
    for kind in KINDS {
        let mut random = Random::of(&[seed, kind as u64]);
        let Some(mut stage) = Stage::new(&subject, kind) else { return };
        for round in 0..rounds(4) {
            let shape = shape_of(round);
            stage.set(shape);
            let flags = random_flags(&mut random);
            let what = format!("seed {seed}, {kind:?}, round {round}, {shape:?}, {flags:?}");
            run(&mut stage.command(&flags)).assert_code(0);
            stage.cut_power();
            stage.remount();
            let verdict = stage.judge(true);
            assert!(verdict.is_ok(), "{what}: {verdict:?}");
        }
    }
}
