//! The n-th operation: every system call of a run fails, one after the other, with every errno that
//! it can give; and the one after it fails too; and all from it on; and every transfer is cut short.
//!
//! Whatever fails, the laws of [`ground`] hold: a success is byte-identical to the model; a failure
//! is the environment's, named by step, path and errno, and the destination is as it was; the next
//! run succeeds; no descriptor, thread or memory is kept; nothing panics and nothing hangs. Runs
//! that resume and can be resumed obey the same laws, but that a failure may leave what the next
//! run goes on from.
//!
//! Every test runs in a process of its own ([`apart`]). In memory, where a run takes a millisecond,
//! everything is tried: every call with every errno. On a disk what to try is drawn by the seed,
//! which is printed; `UNSNAP_TEST_EXHAUSTIVE=<seeds>` tries everything there too, and everywhere for
//! so many seeds, which decide the order in which things happen.

mod apart;
mod ground;
mod states;

use std::{collections::BTreeSet, time::Instant};

use rustix::{fs::Mode, io::Errno, process::umask};
use unsnap_pass::FaultPlan;
use unsnap_ring::{Call, Short};
use unsnap_testkit::random::Random;

use self::{
    apart::{Apart, Holdings, Place, apart, begin, has_panicked},
    ground::{Before, Ground, Kind, Outcome, Scenario},
};

/// Runs before holdings are counted: the first may set up what stays for good, and thread stacks
/// are kept for the next threads.
const WARM_UP_RUNS: usize = 24;

/// Where not everything is tried, one of so many candidates is.
const FEW: u64 = 4;

/// A test of the same name.
macro_rules! scenario {
    ($name:ident, $place:ident, $archive:ident, $before:ident, accounts: $accounts:literal
     $(, resume: $resume:literal)?) => {
        #[test]
        fn $name() {
            let (archive, before, accounts) = (Kind::$archive, Before::$before, $accounts);
            let scenario = Scenario { archive, before, accounts, resume: false $(|| $resume)? };
            the_loop(concat!("nth::", stringify!($name)), Place::$place, scenario);
        }
    };
}

scenario!(on_a_disk, BuildDirectory, Frames, Nothing, accounts: false);
scenario!(a_snapshot_of_one_frame, Memory, OneFrame, Nothing, accounts: false);
scenario!(two_destinations_that_are_replaced, Memory, Frames, Empty, accounts: true);
scenario!(two_destinations_that_stay, Memory, Frames, LostAndFound, accounts: true);
scenario!(a_tree_moved_into_a_directory_that_stays, Memory, Tree, LostAndFound, accounts: false);
scenario!(what_a_killed_run_has_left, Memory, Tree, LeftOver, accounts: false);
scenario!(one_that_can_be_resumed, Memory, Frames, Nothing, accounts: false, resume: true);
scenario!(one_that_resumes, Memory, Tree, Interrupted, accounts: false, resume: true);

fn the_loop(name: &str, place: Place, scenario: Scenario) {
    apart(name, place, |Apart { seed, directory, in_memory }| {
        if scenario.archive == Kind::Tree {
            // Takes bits away, so that every mode has to be set by a call of its own.
            umask(Mode::from_raw_mode(0o077));
        }
        let exhaustive = std::env::var("UNSNAP_TEST_EXHAUSTIVE").ok();
        let seeds = exhaustive.as_ref().map_or(1, |seeds| seeds.parse().unwrap());
        let mut nth = Nth {
            ground: Ground::new(scenario, directory),
            // With a journal a run has twice as many calls, and takes two or three.
            everything: (in_memory && !scenario.resume) || exhaustive.is_some(),
            seed,
            random: Random::new(seed),
            counts: Counts::default(),
            answers: BTreeSet::new(),
            held: None,
        };
        let since = Instant::now();
        for seed in seed..seed.wrapping_add(seeds) {
            nth.seed = seed;
            nth.none_fails();
            nth.each_fails();
            nth.each_and_one_more_fail();
            nth.all_fail_from_each_on();
            nth.each_transfer_is_cut();
        }
        let (answers, took) = (nth.answers.len(), since.elapsed());
        format!("{:?}, {answers} different answers, {took:?}", nth.counts)
    });
}

#[derive(Debug, Default)]
struct Counts {
    runs: usize,
    /// Nothing was left behind, or nothing could be said of it.
    failed: usize,
    left_behind: usize,
    stuck: usize,
    /// Runs without faults, after ones that failed.
    again: usize,
}

struct Nth {
    ground: Ground,
    everything: bool,
    seed: u64,
    random: Random,
    counts: Counts,
    /// Calls and what was answered to them.
    answers: BTreeSet<(Call, i32)>,
    held: Option<Holdings>,
}

impl Nth {
    /// A plan to which faults are added. Everything happens out of order anyway.
    fn plan(&self) -> FaultPlan {
        FaultPlan::new(self.seed)
    }

    /// Whether to try this candidate of many.
    fn chosen(&mut self, of: u64) -> bool {
        self.everything || self.random.below(of) == 0
    }

    fn run(&mut self, plan: &FaultPlan, cut: bool, what: &str) -> Outcome {
        let what = format!("{what}, UNSNAP_TEST_SEED={}", self.seed);
        begin(&what);
        self.ground.lay();
        let outcome = self.ground.run(plan, cut, &what);
        assert!(!has_panicked(), "a thread has panicked: {what}");
        if self.counts.runs == WARM_UP_RUNS {
            self.held = Some(Holdings::now());
        }
        self.counts.runs += 1;
        if let Some(held) = self.held {
            held.assert_no_leak(&what);
        }
        let faults = plan.injected().into_iter();
        self.answers.extend(faults.map(|fault| (fault.call, fault.errno.raw_os_error())));
        match outcome {
            Outcome::Done => return outcome,
            Outcome::Failed => self.counts.failed += 1,
            Outcome::LeftBehind => self.counts.left_behind += 1,
            Outcome::Stuck => self.counts.stuck += 1,
        }
        let is_kept = outcome == Outcome::LeftBehind || self.ground.resumes();
        if is_kept || self.chosen(FEW) {
            self.counts.again += 1;
            self.ground.run_again(outcome, &what);
        }
        outcome
    }

    /// Reordering, short transfers, interruptions and delays are no failures.
    fn none_fails(&mut self) {
        let rounds = if self.everything { 50 } else { 5 };
        for round in 0..rounds {
            let plan = FaultPlan::new(self.random.next_u64());
            let plan = plan.short(300 * (round % 3)).interrupt(150 * (round % 4)).delay(100);
            let outcome = self.run(&plan, false, &format!("nothing fails, seed {}", plan.seed()));
            assert_eq!(outcome, Outcome::Done);
        }
    }

    fn each_fails(&mut self) {
        for step in 0.. {
            let mut choice = if self.everything { 0 } else { self.random.index(32) };
            loop {
                let plan = self.plan().fail_by_choice(step, choice);
                self.run(&plan, false, &format!("step {step} fails, choice {choice}"));
                let Some(injected) = plan.injected().pop() else {
                    assert!(step > 40, "only {step} steps");
                    return;
                };
                choice += 1;
                if !self.everything || choice >= injected.call.errnos().len() {
                    break;
                }
            }
        }
    }

    /// The second failure meets whatever the first one leads to, which is mostly taking back.
    fn each_and_one_more_fail(&mut self) {
        for first in 0.. {
            if !self.chosen(FEW * FEW) {
                continue;
            }
            for later in 1.. {
                if !self.chosen(FEW) {
                    continue;
                }
                let choice = self.random.index(32);
                let plan = self.plan().fail(first, Errno::IO).fail_by_choice(first + later, choice);
                self.run(
                    &plan,
                    false,
                    &format!("step {first} and {later} after it, choice {choice}"),
                );
                match plan.injected().len() {
                    0 => return,
                    1 => break,
                    _ => {}
                }
            }
        }
    }

    fn all_fail_from_each_on(&mut self) {
        for step in 0.. {
            for errno in [Errno::IO, Errno::NOSPC, Errno::MFILE, Errno::NOMEM, Errno::ROFS] {
                if !self.chosen(3 * FEW) {
                    continue;
                }
                let plan = self.plan().fail_from(step, errno);
                self.run(&plan, false, &format!("all fail from step {step} on by {errno:?}"));
                if plan.injected().is_empty() {
                    return;
                }
            }
        }
    }

    fn each_transfer_is_cut(&mut self) {
        for transfer in 0.. {
            for short in [Short::OneByte, Short::Half, Short::Nothing] {
                if !self.chosen(3) {
                    continue;
                }
                let plan = self.plan().cut(transfer, short);
                let nothing = short == Short::Nothing;
                let outcome = self.run(&plan, nothing, &format!("transfer {transfer}: {short:?}"));
                assert!(nothing || outcome == Outcome::Done);
                if !plan.has_cut() {
                    return;
                }
            }
        }
    }
}
