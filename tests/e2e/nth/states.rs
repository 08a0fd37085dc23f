//! The n-th operation of preparing, adopting, repairing and withdrawing a validator's state.
//!
//! The law: whatever fails, what is marked is whole (the old state, or the new one), no archive is
//! taken for a bad one, nothing panics, hangs or leaks; and the next `prepare` succeeds and leaves
//! nothing of the one that failed.

use std::{fs, path::Path, process::Command, sync::mpsc::sync_channel, thread};

use rustix::io::Errno;
use unsnap_failure::{Failure, Family};
use unsnap_fastboot::FastbootError;
use unsnap_fastboot::{Outcome, Places, Repaired, Request, adopt_ready, repair, withdraw};
use unsnap_pass::{CancelToken, FaultPlan, IoEngine, Progress};
use unsnap_ring::Syscalls;
use unsnap_test_support::ledger::{
    Expected, Ledger, Loadable, look, names, small_archive, small_pair,
};
use unsnap_testkit::random::Random;
use unsnap_unpack::FileSink;

use super::apart::{Apart, Holdings, Place, apart, begin, has_panicked};
use crate::fastboot::request;

/// What is done while calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// With a state of an older slot there.
    Prepare,
    /// With a state as new as the archives.
    Replace,
    Repair,
    Withdraw,
    /// With a state of an older slot there, and another that lies ready.
    Beside,
    /// The same, and the one that lies ready builds on the same full archive.
    BesideUpon,
    /// The same as `Beside`, where a cancelled run has done a part.
    BesideResumed,
    /// With the new state ready.
    Adopt,
    /// The same, by itself.
    AdoptReady,
}

#[test]
fn a_state_is_prepared_beside() {
    the_loop("nth::states::a_state_is_prepared_beside", Action::Beside);
}

#[test]
fn a_state_is_prepared_beside_upon_an_earlier_one() {
    the_loop("nth::states::a_state_is_prepared_beside_upon_an_earlier_one", Action::BesideUpon);
}

#[test]
fn a_state_is_prepared_beside_where_a_cancelled_run_was() {
    let name = "nth::states::a_state_is_prepared_beside_where_a_cancelled_run_was";
    the_loop(name, Action::BesideResumed);
}

#[test]
fn a_state_is_adopted() {
    the_loop("nth::states::a_state_is_adopted", Action::Adopt);
}

#[test]
fn a_state_is_adopted_by_itself() {
    the_loop("nth::states::a_state_is_adopted_by_itself", Action::AdoptReady);
}

#[test]
fn a_state_is_prepared() {
    the_loop("nth::states::a_state_is_prepared", Action::Prepare);
}

#[test]
fn a_state_is_replaced() {
    the_loop("nth::states::a_state_is_replaced", Action::Replace);
}

#[test]
fn a_state_is_repaired() {
    the_loop("nth::states::a_state_is_repaired", Action::Repair);
}

#[test]
fn a_state_is_withdrawn() {
    the_loop("nth::states::a_state_is_withdrawn", Action::Withdraw);
}

struct Ground {
    action: Action,
    /// What is there before each run: copied to where the ledger is.
    template: std::path::PathBuf,
    place: std::path::PathBuf,
    ledger: Ledger,
    old: Expected,
    /// What lies ready before, if that is not the new one.
    older_ready: Option<Expected>,
    new: Expected,
}

impl Ground {
    fn new(action: Action, directory: &Path) -> Self {
        let (template, place) = (directory.join("template"), directory.join("place"));
        // Paths must be the same: what is prepared here is moved away afterwards.
        let ledger = Ledger::new(&place, 2);
        let old = small_archive(&ledger.snapshots, 50, None, &[(40, 900), (45, 4096), (50, 5000)]);
        prepare(&ledger, false, FaultPlan::new(0)).unwrap();
        let old_state = Expected::of_files(&old, None);
        fs::remove_file(old).unwrap();
        let has_older = matches!(action, Action::Beside | Action::BesideResumed);
        let mut older_ready = has_older.then(|| {
            let archive = small_archive(&ledger.snapshots, 80, None, &[(70, 600), (80, 5000)]);
            beside(&ledger, FaultPlan::new(0)).unwrap();
            let expected = Expected::of_files(&archive, None);
            fs::remove_file(archive).unwrap();
            expected
        });
        let (full, incremental) = small_pair(&ledger.snapshots);
        let mut new = Expected::of_files(&full, Some(&incremental));
        match action {
            Action::Prepare | Action::Beside | Action::BesideResumed => {}
            Action::BesideUpon => {
                beside(&ledger, FaultPlan::new(0)).unwrap();
                fs::remove_file(incremental).unwrap();
                let storages = [(101, 700), (120, 6000)];
                let newer = small_archive(&ledger.snapshots, 120, Some(100), &storages);
                older_ready =
                    Some(std::mem::replace(&mut new, Expected::of_files(&full, Some(&newer))));
            }
            Action::Adopt | Action::AdoptReady => {
                drop(beside(&ledger, FaultPlan::new(0)).unwrap());
            }
            Action::Replace | Action::Repair | Action::Withdraw => {
                prepare(&ledger, false, FaultPlan::new(0)).unwrap();
            }
        }
        if action == Action::Repair {
            // Which path a storage went to is not known.
            let runs = (0..2).map(|index| ledger.run(index));
            let mut storages: Vec<_> = runs
                .flat_map(|run| names(&run).into_iter().map(move |name| run.join(name)))
                .collect();
            for lost in [storages.pop(), Some(storages.remove(0))] {
                fs::remove_file(lost.unwrap()).unwrap();
            }
            fs::remove_file(&storages[0]).unwrap();
            fs::write(&storages[0], "another file").unwrap();
        }
        fs::rename(&place, &template).unwrap();
        Self { action, template, place, ledger, old: old_state, older_ready, new }
    }

    /// Puts everything as it is before a run. Links are kept.
    fn lay(&self) {
        if self.place.exists() {
            fs::remove_dir_all(&self.place).unwrap();
        }
        let copied = Command::new("cp").arg("-a").args([&self.template, &self.place]).status();
        assert!(copied.unwrap().success());
        // Not copied: a run is resumed in the very directories in which it was.
        if self.action == Action::BesideResumed {
            cancelled_beside(&self.ledger);
        }
    }

    fn look(&self, what: &str) -> Option<Loadable> {
        look(&self.ledger.snapshots, &self.ledger.accounts)
            .unwrap_or_else(|broken| panic!("{broken}: {what}"))
    }

    /// One run under a plan, judged. Whether it succeeded.
    fn run(&self, plan: &FaultPlan, what: &str) -> bool {
        let calls = Syscalls::with_faults(plan.clone());
        let places = places(&self.ledger);
        let told = |what: &str, error: &FastbootError| {
            assert!(!plan.injected().is_empty(), "failed for no reason: {what}");
            let family = error.family();
            assert!(
                matches!(family, Family::Environment | Family::NotClean | Family::Request),
                "{family:?}: {what}"
            );
        };
        match self.action {
            Action::Beside | Action::BesideUpon | Action::BesideResumed => {
                self.run_beside(plan, what, told)
            }
            Action::Prepare | Action::Replace | Action::Adopt => {
                let replace = self.action == Action::Replace;
                let result = prepare(&self.ledger, replace, plan.clone());
                let what = format!("{what}: {:?}, {result:?}", plan.injected());
                let found = self.look(&what);
                match result {
                    Ok(Outcome::Prepared(_)) => {
                        let is_wanted = self.action != Action::Adopt || !plan.injected().is_empty();
                        assert!(is_wanted, "not adopted: {what}");
                        self.new.assert_is(&found.expect("nothing is there"), &what);
                        true
                    }
                    Ok(Outcome::Adopted { .. }) if self.action == Action::Adopt => {
                        self.new.assert_is(&found.expect("nothing is there"), &what);
                        true
                    }
                    Ok(outcome) => panic!("{outcome:?}: {what}"),
                    Err(error) => {
                        told(&what, &error);
                        let known = |state: &Loadable| self.old.is(state) || self.new.is(state);
                        assert!(found.as_ref().is_none_or(known), "a strange state: {what}");
                        false
                    }
                }
            }
            Action::AdoptReady => {
                let request = request(&self.ledger);
                let result = adopt_ready(&request, &calls, &Progress::default());
                let what = format!("{what}: {:?}, {result:?}", plan.injected());
                let found = self.look(&what);
                match result {
                    Ok(Some(Outcome::Adopted { .. })) => {
                        self.new.assert_is(&found.expect("nothing is there"), &what);
                        true
                    }
                    Ok(Some(outcome)) => panic!("{outcome:?}: {what}"),
                    Ok(None) => {
                        assert!(lied(plan), "not adopted: {what}");
                        false
                    }
                    Err(error) => {
                        told(&what, &error);
                        let known = |state: &Loadable| self.old.is(state) || self.new.is(state);
                        assert!(found.as_ref().is_none_or(known), "a strange state: {what}");
                        false
                    }
                }
            }
            Action::Repair => {
                let result = repair(&calls, &places, &Progress::default());
                let what = format!("{what}: {:?}, {result:?}", plan.injected());
                match result {
                    Ok(Repaired::Relinked { .. }) => {
                        self.new.assert_is(&self.look(&what).expect("nothing is there"), &what);
                        true
                    }
                    Ok(Repaired::Withdrawn { .. }) => {
                        assert_eq!(self.look(&what), None, "{what}");
                        assert!(!plan.injected().is_empty(), "withdrawn for no reason: {what}");
                        true
                    }
                    Ok(outcome) => {
                        assert!(lied(plan), "{outcome:?}: {what}");
                        true
                    }
                    Err(error) => {
                        told(&what, &error);
                        false
                    }
                }
            }
            Action::Withdraw => self.run_withdraw(plan, &calls, &places, what, told),
        }
    }

    /// Withdraws the states under a plan. Whether it succeeded.
    fn run_withdraw(
        &self,
        plan: &FaultPlan,
        calls: &Syscalls,
        places: &Places,
        what: &str,
        told: impl Fn(&str, &FastbootError),
    ) -> bool {
        let result = withdraw(calls, places, &Progress::default());
        let what = format!("{what}: {:?}, {result:?}", plan.injected());
        let found = self.look(&what);
        match result {
            Ok(slots) => {
                let done = (slots, found) == (vec![110], None);
                assert!(done || lied(plan), "{what}");
                true
            }
            Err(error) => {
                told(&what, &error);
                assert!(found.is_none_or(|state| self.new.is(&state)), "{what}");
                false
            }
        }
    }

    /// The same beside a validator, whose own must stay.
    fn run_beside(
        &self,
        plan: &FaultPlan,
        what: &str,
        told: impl Fn(&str, &FastbootError),
    ) -> bool {
        let result = beside(&self.ledger, plan.clone());
        let what = format!("{what}: {:?}, {result:?}", plan.injected());
        let used = self.look(&what).expect("the validator's own is gone");
        self.old.assert_is(&used, &what);
        let ready = self.look_beside(&what);
        match result {
            Ok(Outcome::Prepared(prepared)) => {
                let report = &prepared.report;
                let expected =
                    (self.action == Action::BesideUpon, self.action == Action::BesideResumed);
                let found = (report.reused.is_some(), report.resumed.is_some());
                assert!(found == expected || !plan.injected().is_empty(), "{what}");
                let ready = ready.unwrap_or_else(|| panic!("nothing is ready: {what}"));
                self.new.assert_is(&ready, &what);
                true
            }
            Ok(outcome) => panic!("{outcome:?}: {what}"),
            Err(error) => {
                told(&what, &error);
                let known = |state: &Loadable| {
                    let older = self.older_ready.as_ref();
                    self.new.is(state) || older.is_some_and(|older| older.is(state))
                };
                assert!(ready.as_ref().is_none_or(known), "a strange state: {what}");
                false
            }
        }
    }

    fn look_beside(&self, what: &str) -> Option<Loadable> {
        let ready = self.ledger.beside();
        let found = look(&ready.snapshots, &ready.accounts);
        found.unwrap_or_else(|broken| panic!("ready: {broken}: {what}"))
    }

    fn run_again(&self, plan: &FaultPlan, what: &str) {
        if matches!(self.action, Action::Beside | Action::BesideUpon | Action::BesideResumed) {
            let result = beside(&self.ledger, FaultPlan::new(0));
            assert!(result.is_ok(), "the run after {what}: {result:?}");
            self.new.assert_is(&self.look_beside(what).expect("nothing is ready"), what);
        }
        let result = prepare(&self.ledger, false, FaultPlan::new(0));
        assert!(result.is_ok(), "the run after {what}: {result:?}");
        if lied(plan) {
            // An older state that was said not to be there may stay beside, without its mark.
            self.new.assert_is(&self.look(what).expect("nothing is there"), what);
            return self.ledger.assert_tidy(what);
        }
        if self.action == Action::BesideUpon {
            return self.new.assert_whole(&self.ledger, &format!("the run after {what}"));
        }
        self.new.assert_prepared(&self.ledger, 3, &format!("the run after {what}"));
    }
}

/// Whether it was said of something that it is not there, or not what it is: then going by that is
/// right.
fn lied(plan: &FaultPlan) -> bool {
    let lies = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP];
    plan.injected().iter().any(|fault| lies.contains(&fault.errno))
}

fn places(ledger: &Ledger) -> Places {
    request(ledger).places
}

fn prepare(ledger: &Ledger, replace: bool, plan: FaultPlan) -> Result<Outcome, FastbootError> {
    let (mut request, calls) = small_request(ledger, plan);
    request.replace = replace;
    unsnap_fastboot::prepare(&request, &calls, &Progress::default(), &CancelToken::default())
}

/// What is asked for, and the way to a kernel that fails as planned.
fn small_request(ledger: &Ledger, plan: FaultPlan) -> (Request, Syscalls) {
    let mut request = request(ledger);
    request.pass.resources.memory_budget = Some(16 << 20);
    request.pass.io.engine = IoEngine::Faulty(plan.clone());
    // Files of several writes, direct ones, segments that return.
    request.pass.tuning.decode.segment_bytes = Some(16_384);
    request.pass.tuning.decode.chunk_bytes = Some(4096);
    request.pass.tuning.direct_bytes_min = Some(4096);
    (request, Syscalls::with_faults(plan))
}

fn beside(ledger: &Ledger, plan: FaultPlan) -> Result<Outcome, FastbootError> {
    let (request, calls) = small_request(ledger, plan);
    unsnap_fastboot::prepare_beside(&request, &calls, &Progress::default(), &CancelToken::default())
}

/// Prepares beside until some files are complete, and cancels. The run cannot end before: it waits
/// for the receiver of its files.
fn cancelled_beside(ledger: &Ledger) {
    let (mut request, calls) = small_request(ledger, FaultPlan::new(0));
    request.pass.tuning.checkpoint_bytes = Some(1);
    let (cancel, (sender, received)) = (CancelToken::default(), sync_channel(0));
    request.files = Some(FileSink::names(sender));
    let result = thread::scope(|scope| {
        let cancelling = &cancel;
        scope.spawn(move || {
            let third = received.iter().nth(2);
            cancelling.cancel();
            third.into_iter().chain(received.iter()).for_each(drop);
        });
        let request = request;
        unsnap_fastboot::prepare_beside(&request, &calls, &Progress::default(), &cancel)
    });
    assert!(result.is_err(), "{result:?}");
}

fn the_loop(name: &str, action: Action) {
    apart(name, Place::Memory, |Apart { seed, directory, .. }| {
        let ground = Ground::new(action, directory);
        let exhaustive = std::env::var_os("UNSNAP_TEST_EXHAUSTIVE").is_some();
        let mut random = Random::new(seed);
        let (mut runs, mut failed, mut held) = (0, 0, None);
        let mut one = |plan: &FaultPlan, what: String, again: bool| {
            let what = format!("{what}, UNSNAP_TEST_SEED={seed}");
            begin(&what);
            ground.lay();
            let succeeded = ground.run(plan, &what);
            assert!(!has_panicked(), "a thread has panicked: {what}");
            runs += 1;
            if runs == 24 {
                held = Some(Holdings::now());
            }
            if let Some(held) = held {
                Holdings::assert_no_leak(held, &what);
            }
            failed += usize::from(!succeeded);
            if again || (!succeeded && plan.injected().len() > 1) {
                ground.run_again(plan, &what);
            }
        };
        one(&FaultPlan::new(seed), "nothing fails".to_owned(), true);
        for step in 0.. {
            let mut choice = if exhaustive { 0 } else { random.index(32) };
            let injected = loop {
                let plan = FaultPlan::new(seed).fail_by_choice(step, choice);
                let again = exhaustive || random.below(4) == 0;
                one(&plan, format!("step {step} fails, choice {choice}"), again);
                let Some(injected) = plan.injected().pop() else { break false };
                choice += 1;
                if !exhaustive || choice >= injected.call.errnos().len() {
                    break true;
                }
            };
            if !injected {
                assert!(step > 20, "only {step} steps");
                break;
            }
            // And everything after it, which meets the taking back.
            if exhaustive || random.below(8) == 0 {
                let errno = *random.pick(&[Errno::IO, Errno::NOSPC, Errno::MFILE, Errno::ROFS]);
                let plan = FaultPlan::new(seed).fail_from(step, errno);
                one(&plan, format!("all fail from step {step} on by {errno:?}"), true);
            }
            if exhaustive || random.below(8) == 0 {
                let later = step + 1 + random.below(40);
                let plan = FaultPlan::new(seed).fail(step, Errno::IO).fail(later, Errno::IO);
                one(&plan, format!("steps {step} and {later} fail"), true);
            }
        }
        format!("{action:?}: {runs} runs, of which {failed} failed")
    });
}
