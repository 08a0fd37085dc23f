use std::{fs, path::Path, time::Duration};

use super::*;

const RULES: AttemptRules = AttemptRules { attempts: 2, window: Duration::from_mins(10) };
const HASH: &str = "qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU";

/// A ledger with full archives of these slots, which are empty files.
fn ledger(slots: &[u64]) -> tempfile::TempDir {
    let ledger = tempfile::tempdir().unwrap();
    for slot in slots {
        add(&ledger, *slot);
    }
    ledger
}

fn add(ledger: &tempfile::TempDir, slot: u64) {
    fs::write(ledger.path().join(format!("snapshot-{slot}-{HASH}.tar.zst")), "").unwrap();
}

fn request(ledger: &Path) -> Request {
    Request::new(Places::new(ledger))
}

fn mark(ledger: &tempfile::TempDir, slot: u64) {
    let state = Places::new(ledger.path()).state(slot);
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("fastboot_version"), "3.0.0").unwrap();
}

fn marked(ledger: &tempfile::TempDir) -> Vec<u64> {
    let states = marked_states(&Syscalls::default(), &Places::new(ledger.path()));
    states.unwrap().into_iter().map(|(slot, _)| slot).collect()
}

/// One start after which the validator ends at once, in a process of its own. Returns the plan.
fn start(ledger: &tempfile::TempDir, now: u64, takes_older: bool) -> Plan {
    let request = request(ledger.path());
    let mut memory = Memory::open(&request.places, RULES, now).unwrap();
    let (plan, _) = memory.plan(&request, true, takes_older, false);
    let slot = match &plan {
        Plan::AsRequested => memory.pairs().next().unwrap().slot(),
        Plan::Older { pair, .. } => pair.slot(),
        Plan::Checked => {
            memory.checked();
            memory.end();
            return plan;
        }
        Plan::Nothing(_) => return plan,
    };
    // Prepared, unless it exists.
    mark(ledger, slot);
    memory.end();
    memory.serve(slot, now);
    plan
}

fn older(plan: &Plan) -> Option<(u64, u64)> {
    match plan {
        Plan::Older { pair, behind } => Some((pair.slot(), *behind)),
        _ => None,
    }
}

#[test]
fn a_state_that_ends_validators_gives_way_to_the_next_pair_and_then_to_none() {
    let ledger = ledger(&[30, 20, 10]);
    for now in [1000, 1060] {
        assert_eq!(start(&ledger, now, true), Plan::AsRequested);
        assert_eq!(marked(&ledger), [30]);
    }
    for now in [1120, 1180] {
        assert_eq!(older(&start(&ledger, now, true)), Some((20, 10)));
        assert_eq!(marked(&ledger), [20]);
    }
    assert_eq!(start(&ledger, 1240, true), Plan::Checked, "they are checked once");
    assert_eq!(marked(&ledger), [0; 0]);
    for now in [1300, 10_000] {
        assert!(matches!(start(&ledger, now, true), Plan::Nothing(_)));
        assert_eq!(marked(&ledger), [0; 0]);
    }
    // Newer archives are another matter.
    add(&ledger, 40);
    assert_eq!(start(&ledger, 20_000, true), Plan::AsRequested);
}

#[test]
fn a_validator_that_cannot_ignore_archives_is_started_without_a_state() {
    let ledger = ledger(&[30, 20]);
    start(&ledger, 1000, false);
    start(&ledger, 1060, false);
    assert_eq!(start(&ledger, 1120, false), Plan::Checked);
    assert_eq!(marked(&ledger), [0; 0]);
}

#[test]
fn a_validator_that_takes_nothing_but_states_keeps_the_last_one() {
    let ledger = ledger(&[30, 20, 10]);
    // Another pair may help, one of three does not.
    for (now, slot) in [(1000, 30), (1060, 30), (1120, 20), (1180, 20), (1240, 20), (1300, 20)] {
        let request = request(ledger.path());
        let mut memory = Memory::open(&request.places, RULES, now).unwrap();
        let (plan, learned) = memory.plan(&request, true, true, true);
        match older(&plan) {
            Some((made, _)) => mark(&ledger, made),
            None => assert_eq!(plan, Plan::AsRequested, "{now}"),
        }
        if now == 1000 {
            mark(&ledger, 30);
        }
        assert_eq!(marked(&ledger), [slot], "{now}");
        assert_eq!(learned.kept, (now >= 1240).then_some(20), "{now}");
        let told = learned.warnings(RULES).concat();
        // The next end is counted from the beginning.
        assert_eq!(told.contains("nothing but states"), now == 1240, "{told}");
        memory.end();
        memory.serve(slot, now);
    }
    // One that can unpack archives does without.
    assert_eq!(start(&ledger, 1360, true), Plan::Checked);
    assert_eq!(marked(&ledger), [0; 0]);
}

#[test]
fn a_state_is_accused_after_one_early_end_and_acquitted_by_a_long_run() {
    let ledger = ledger(&[30, 20]);
    let accused = |now, rules: AttemptRules| {
        let request = request(ledger.path());
        let mut memory = Memory::open(&request.places, rules, now).unwrap();
        memory.plan(&request, true, true, false);
        memory.end();
        memory.accused()
    };
    start(&ledger, 1000, true);
    assert_eq!(accused(1060, AttemptRules { attempts: 0, ..RULES }), [0; 0]);
    assert_eq!(accused(1060, RULES), [30]);
    start(&ledger, 1060, true);
    assert_eq!(accused(9000, RULES), [0; 0]);
}

#[test]
fn a_validators_own_state_that_is_newer_than_bad_archives_is_looked_at() {
    let ledger = ledger(&[30]);
    start(&ledger, 1000, true);
    start(&ledger, 1001, true);
    assert_eq!(start(&ledger, 1002, true), Plan::Checked);
    assert!(matches!(start(&ledger, 1003, true), Plan::Nothing(_)));
    mark(&ledger, 31);
    let request = request(ledger.path());
    let mut memory = Memory::open(&request.places, RULES, 1004).unwrap();
    assert_eq!(memory.plan(&request, true, true, false).0, Plan::AsRequested);
    assert_eq!(marked(&ledger), [31]);
}

#[test]
fn a_state_that_is_found_when_preparing_fails_counts_as_served() {
    let ledger = ledger(&[30, 20]);
    let request = request(ledger.path());
    mark(&ledger, 30);
    for (now, is_there) in [(1000, true), (1001, true), (1002, false)] {
        let mut memory = Memory::open(&request.places, RULES, now).unwrap();
        memory.plan(&request, true, true, false);
        assert_eq!(marked(&ledger).contains(&30), is_there, "{now}");
        memory.end();
        memory.give_up(&request.places, false, now);
    }
    // One that the validator would not load has no part in its end.
    mark(&ledger, 20);
    for now in [5000, 5001, 5002] {
        let mut memory = Memory::open(&request.places, RULES, now).unwrap();
        memory.plan(&request, true, true, false);
        memory.give_up(&request.places, false, now);
        assert_eq!(marked(&ledger), [20]);
    }
}

#[test]
fn a_state_of_the_same_slot_is_another_one_after_the_withdrawal_unless_its_archives_are_the_same() {
    for (archives, is_served) in [(&[20][..], true), (&[30, 20], false)] {
        let ledger = ledger(archives);
        let request = request(ledger.path());
        // The validator's own, or made of archives.
        for now in [1000, 1001, 1002] {
            if now < 1002 {
                mark(&ledger, 30);
            }
            let mut memory = Memory::open(&request.places, RULES, now).unwrap();
            memory.plan(&request, true, true, false);
            memory.end();
            memory.give_up(&request.places, false, now);
        }
        assert_eq!(marked(&ledger), [0; 0]);
        mark(&ledger, 30);
        let mut memory = Memory::open(&request.places, RULES, 9000).unwrap();
        memory.plan(&request, true, true, false);
        assert_eq!(!marked(&ledger).is_empty(), is_served, "{archives:?}");
    }
}

#[test]
fn a_validator_that_runs_for_a_while_between_its_starts_keeps_its_state() {
    let ledger = ledger(&[30, 20]);
    for now in [1000, 1600, 2200, 2800] {
        assert_eq!(start(&ledger, now, true), Plan::AsRequested);
        assert_eq!(marked(&ledger), [30]);
    }
}

#[test]
fn a_preparation_that_is_killed_again_and_again_is_not_begun_a_third_time() {
    let ledger = ledger(&[30]);
    let request = request(ledger.path());
    let plan = |now, request: &Request| {
        let mut memory = Memory::open(&request.places, RULES, now).unwrap();
        memory.plan(request, true, true, false).0
    };
    assert_eq!(plan(1000, &request), Plan::AsRequested);
    assert_eq!(plan(1001, &request), Plan::AsRequested);
    let Plan::Nothing(reason) = plan(1002, &request) else { panic!() };
    assert!(reason.starts_with("2 preparations ended by SIGKILL"), "{reason}");
    // The operator insists.
    let replace = Request { replace: true, ..request.clone() };
    assert_eq!(plan(1003, &replace), Plan::AsRequested);
}

#[test]
fn preparing_alone_says_nothing_about_validators() {
    let ledger = ledger(&[30, 20]);
    start(&ledger, 1000, true);
    let request = request(ledger.path());
    for now in [1001, 1002, 1003] {
        let mut memory = Memory::open(&request.places, RULES, now).unwrap();
        let (plan, learned) = memory.plan(&request, false, true, false);
        assert_eq!((plan, learned.failed), (Plan::AsRequested, None));
        memory.end();
    }
    assert_eq!(marked(&ledger), [30]);
}

#[test]
fn a_ledger_in_use_is_not_touched() {
    let ledger = ledger(&[30]);
    let places = Places::new(ledger.path());
    // A validator's lock.
    let lock = fs::File::create(ledger.path().join("ledger.lock")).unwrap();
    lock.lock().unwrap();
    assert!(Memory::open(&places, RULES, 1000).is_none());
    drop(lock);
    assert!(Memory::open(&places, RULES, 1000).is_some());
    assert!(Memory::open(&Places::new("/no/such/ledger"), RULES, 1000).is_none());
}
