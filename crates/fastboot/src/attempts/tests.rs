use std::fs;

use unsnap_layout::ArchiveName;
use unsnap_ring::FaultPlan;

use super::*;
use crate::{Candidate, LedgerLock, Places, is_starting};

fn is_suspect_pair(attempts: &Attempts, pair: &Pair) -> bool {
    let file = |path: &Path| FileIdentity::of(path).ok();
    !attempts.refused(std::slice::from_ref(pair), file).is_empty()
}

const RULES: AttemptRules = AttemptRules { attempts: 2, window: Duration::from_mins(10) };

fn state(slot: u64) -> StateName {
    StateName { slot, hash: Some(format!("hash{slot}")) }
}

/// One start: judged, and a state given to the validator unless it is withdrawn.
fn start(attempts: &mut Attempts, slot: u64, now: u64) -> Option<Failed> {
    let failed = attempts.judge_state(now, RULES);
    if !failed.as_ref().is_some_and(|failed| failed.too_often) {
        attempts.serve(state(slot), now);
    }
    failed
}

fn failed(slot: u64, times: u32) -> Failed {
    Failed { state: state(slot), times, too_often: times >= RULES.attempts }
}

#[test]
fn a_state_with_which_validators_end_early_is_withdrawn_after_two_of_them() {
    let mut attempts = Attempts::default();
    assert_eq!(start(&mut attempts, 7, 1000), None);
    assert_eq!(start(&mut attempts, 7, 1100), Some(failed(7, 1)));
    assert_eq!(start(&mut attempts, 7, 1699), Some(failed(7, 2)));
}

#[test]
fn a_validator_that_has_run_for_a_while_clears_its_state_of_suspicion() {
    let mut attempts = Attempts::default();
    start(&mut attempts, 7, 1000);
    assert_eq!(start(&mut attempts, 7, 1100), Some(failed(7, 1)));
    assert_eq!(start(&mut attempts, 7, 1700), None);
    assert_eq!(start(&mut attempts, 7, 1800), Some(failed(7, 1)));
}

#[test]
fn a_suspect_with_which_a_validator_has_run_for_a_while_is_none_any_more() {
    let mut attempts = Attempts::default();
    attempts.suspect(state(7), None);
    attempts.suspect(state(8), None);
    // It takes nothing but states, and there is no other one.
    start(&mut attempts, 7, 1000);
    start(&mut attempts, 7, 900);
    assert!(attempts.is_suspect(&state(7)), "the clock went backwards");
    start(&mut attempts, 7, 1499);
    assert!(attempts.is_suspect(&state(7)), "it ended early");
    assert_eq!(start(&mut attempts, 7, 2099), None);
    assert!(!attempts.is_suspect(&state(7)));
    assert!(attempts.is_suspect(&state(8)));
}

#[test]
fn failures_are_counted_for_each_state() {
    let mut attempts = Attempts::default();
    for (slot, now) in [(7, 1000), (8, 1100), (9, 1200), (10, 1300)] {
        assert!(start(&mut attempts, slot, now).is_none_or(|failed| !failed.too_often), "{slot}");
    }
    // That of a state is remembered while others are tried.
    assert_eq!(start(&mut attempts, 7, 1400), Some(failed(10, 1)));
    assert_eq!(start(&mut attempts, 7, 1500), Some(failed(7, 2)));
}

#[test]
fn a_start_without_a_state_accuses_no_state_again() {
    let mut attempts = Attempts::default();
    attempts.serve(state(7), 1000);
    // The validator is then started without a state, and dies as well.
    for now in [1100, 1200, 1300, 1400] {
        assert_eq!(attempts.judge_state(now, RULES), Some(failed(7, 1)), "{now}");
    }
}

#[test]
fn a_process_that_has_not_ended_accuses_no_state_and_was_not_killed() {
    let mut other =
        std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let name = ProcessName::of(other.id());
    let mut attempts = Attempts::default();
    attempts.serve(state(7), 1000);
    attempts.served[0].by.clone_from(&name);
    attempts.begin(1000);
    attempts.begun_by = name;
    let mut beside = attempts.clone();
    assert_eq!(beside.judge_state(1001, RULES), None);
    assert_eq!(beside.judge_preparations(1001, RULES).times, 0);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(beside.judge_state(1002, RULES), Some(failed(7, 1)), "what is not judged is kept");
    assert_eq!(attempts.judge_preparations(1002, RULES).times, 1);
}

#[test]
fn a_clock_that_goes_backwards_accuses_nobody() {
    let mut attempts = Attempts::default();
    start(&mut attempts, 7, 1000);
    assert_eq!(start(&mut attempts, 7, 900), None);
    assert_eq!(start(&mut attempts, 7, 0), None);
}

#[test]
fn preparations_that_are_killed_end_in_a_start_without_one() {
    let mut attempts = Attempts::default();
    for (times, now) in [(0, 100), (1, 200)] {
        let expected = Killed { times, too_often: false };
        assert_eq!(attempts.judge_preparations(now, RULES), expected);
        attempts.begin(now);
    }
    assert_eq!(attempts.judge_preparations(300, RULES), Killed { times: 2, too_often: true });
    // It stays so while nothing is prepared, for a day.
    let mut too_often = |now| attempts.judge_preparations(now, RULES).too_often;
    assert!(too_often(200 + KILLED_FORGOTTEN_AFTER - 1));
    assert!(!too_often(200 + KILLED_FORGOTTEN_AFTER));
}

#[test]
fn a_preparation_that_ends_by_itself_makes_up_for_killed_ones() {
    let mut attempts = Attempts::default();
    attempts.begin(100);
    assert_eq!(attempts.judge_preparations(200, RULES).times, 1);
    attempts.begin(200);
    attempts.end();
    assert_eq!(attempts.judge_preparations(300, RULES).times, 0);
}

#[test]
fn an_operator_can_have_everything_forgotten() {
    let mut attempts = Attempts::default();
    attempts.starts.given_up = 5;
    attempts.suspect(state(7), None);
    attempts.serve(state(8), 100);
    attempts.begin(100);
    attempts.forget();
    assert!(!attempts.is_suspect(&state(7)));
    assert_eq!(attempts.judge_state(101, RULES), None);
    assert_eq!(attempts.judge_preparations(101, RULES).times, 0);
    assert_eq!(attempts.starts.given_up, 5);
}

#[test]
fn no_number_of_attempts_means_no_limit() {
    let rules = AttemptRules { attempts: 0, ..RULES };
    let mut attempts = Attempts::default();
    for now in 100..120 {
        assert!(attempts.judge_state(now, rules).is_none_or(|failed| !failed.too_often));
        assert!(!attempts.judge_preparations(now, rules).too_often);
        attempts.begin(now);
        attempts.serve(state(7), now);
    }
}

fn pair(directory: &Path, slot: u64, content: &str) -> Pair {
    let name = format!("snapshot-{slot}-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst");
    let path = directory.join(&name);
    fs::write(&path, content).unwrap();
    let name = ArchiveName::parse(&name).unwrap();
    Pair::new(Candidate { path, name, bytes: 1, remote: false, offered: None }, None).unwrap()
}

#[test]
fn if_the_next_best_archives_are_no_better_all_are_refused_until_newer_ones_arrive() {
    let scratch = tempfile::tempdir().unwrap();
    let pairs = [9, 8, 7, 6].map(|slot| pair(scratch.path(), slot, "x"));
    let file = |path: &Path| FileIdentity::of(path).ok();
    let mut attempts = Attempts::default();
    assert_eq!(attempts.refused(&pairs, file), []);
    attempts.suspect(state(8), Some(&pairs[1]));
    assert_eq!(attempts.refused(&pairs, file), pairs[1..2]);
    assert_eq!(attempts.refused(&pairs[1..], file), pairs[1..2]);
    attempts.suspect(state(7), Some(&pairs[2]));
    assert_eq!(attempts.refused(&pairs[1..], file), pairs[1..]);
    // With newer ones in front of them.
    assert_eq!(attempts.refused(&pairs, file), pairs[1..3]);
    assert_eq!(attempts.given_up().map(|state| state.slot).collect::<Vec<_>>(), [8, 7]);
}

#[test]
fn archives_are_the_same_under_another_path_of_their_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let (real, link) = (scratch.path().join("real"), scratch.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let one = pair(&real, 7, "x");
    let mut attempts = Attempts::default();
    attempts.suspect(state(7), Some(&one));
    let mut other = one.full().clone();
    other.path = link.join(other.path.file_name().unwrap());
    assert!(is_suspect_pair(&attempts, &Pair::new(other, None).unwrap()));
}

#[test]
fn archives_of_a_suspect_are_skipped_until_they_are_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    let (suspect, other) = (pair(scratch.path(), 7, "x"), pair(scratch.path(), 6, "x"));
    let mut attempts = Attempts::default();
    attempts.suspect(state(7), Some(&suspect));
    assert!(attempts.is_suspect(&state(7)) && !attempts.is_suspect(&state(6)));
    assert!(attempts.is_suspect(&StateName { slot: 7, hash: None }));
    assert!(is_suspect_pair(&attempts, &suspect) && !is_suspect_pair(&attempts, &other));
    let replaced = pair(scratch.path(), 7, "downloaded again");
    assert!(!is_suspect_pair(&attempts, &replaced));
    // Without archives, no pair is meant, not even one whose archives are gone.
    attempts.suspect(state(5), None);
    fs::remove_file(&other.full().path).unwrap();
    assert!(!is_suspect_pair(&attempts, &other));
}

#[test]
fn only_suspects_lose_their_marks_in_place_and_beside() {
    let (scratch, calls) = (tempfile::tempdir().unwrap(), Syscalls::default());
    let places = Places::new(scratch.path());
    let marks = [(&places, 7), (&places, 6), (&places.beside(), 7), (&places.beside(), 8)]
        .map(|(places, slot)| places.state(slot).join("fastboot_version"));
    for mark in &marks {
        fs::create_dir_all(mark.parent().unwrap()).unwrap();
        fs::write(mark, "3.0.0").unwrap();
    }
    let mut attempts = Attempts::default();
    let withdraw = |attempts: &Attempts| attempts.withdraw_suspects(&calls, &places, state);
    assert_eq!(withdraw(&attempts).unwrap(), [0; 0]);
    attempts.suspect(state(7), None);
    let lock = LedgerLock::take(&places.ledger).unwrap();
    assert!(withdraw(&attempts).unwrap_err().is_in_the_way());
    assert!(marks.iter().all(|mark| mark.exists()));
    drop(lock);
    assert_eq!(withdraw(&attempts).unwrap(), [7, 7]);
    let exist = || marks.clone().map(|mark| mark.exists());
    assert_eq!(exist(), [false, true, false, true]);
    // It is taken back only where nothing else is left, and only for what was withdrawn.
    let restore = |attempts: &mut Attempts| attempts.restore_withdrawn(&calls, &places, state);
    assert_eq!(restore(&mut attempts).unwrap(), None, "there is another state");
    fs::remove_file(&marks[1]).unwrap();
    assert_eq!(restore(&mut Attempts::default()).unwrap(), None);
    assert_eq!(restore(&mut attempts).unwrap(), Some(7));
    assert_eq!(exist(), [true, false, false, true]);
    assert_eq!(fs::read(&marks[0]).unwrap(), b"3.0.0");
}

#[test]
fn it_is_written_and_read_and_a_damaged_file_is_no_obstacle() {
    let (scratch, calls) = (tempfile::tempdir().unwrap(), Syscalls::default());
    let read = || Attempts::read(&calls, scratch.path());
    assert_eq!(read(), Attempts::default());
    let mut attempts = Attempts::default();
    let suspect = pair(scratch.path(), 7, "x");
    for slot in 0..100 {
        attempts.serve(state(slot), 1000 + slot);
        attempts.suspect(state(1000 + slot), Some(&suspect));
    }
    attempts.begin(5);
    attempts.starts.adopted = 3;
    attempts.write(&calls, scratch.path()).unwrap();
    assert_eq!(read(), attempts);
    assert_eq!((attempts.served.len(), attempts.suspects.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    let path = scratch.path().join(ATTEMPTS_FILE);
    assert!(fs::metadata(&path).unwrap().len() < 20 << 10);
    for damaged in [&b""[..], b"{", b"[]", b"{\"version\":2}", b"\xff"] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(read(), Attempts::default());
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(read(), Attempts::default());
}

#[test]
fn on_a_full_disk_the_memory_is_overwritten_in_its_place() {
    let scratch = tempfile::tempdir().unwrap();
    let calls = Syscalls::default();
    let mut attempts = Attempts::default();
    attempts.write(&calls, scratch.path()).unwrap();
    let path = scratch.path().join(ATTEMPTS_FILE);
    assert_eq!(fs::metadata(&path).unwrap().len() % 4096, 0);
    // The new file cannot be made, written or synced, or takes the old one's place.
    for step in 1..6 {
        attempts.serve(state(step), 1000);
        let plan = FaultPlan::new(0).fail(step, Errno::NOSPC);
        attempts.write(&Syscalls::with_faults(plan), scratch.path()).unwrap();
        assert_eq!(Attempts::read(&calls, scratch.path()), attempts, "{step}");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "{step}");
    }
    // Other errors leave the old file.
    let plan = FaultPlan::new(0).fail(1, Errno::IO);
    attempts.serve(state(9), 1000);
    attempts.write(&Syscalls::with_faults(plan), scratch.path()).unwrap_err();
    assert_ne!(Attempts::read(&calls, scratch.path()), attempts);
}

#[test]
fn a_file_that_cannot_be_written_keeps_its_old_content() {
    let (scratch, calls) = (tempfile::tempdir().unwrap(), Syscalls::default());
    let path = scratch.path().join("file");
    write_durably(&calls, &path, b"old").unwrap();
    for step in 0.. {
        let plan = FaultPlan::new(0).fail(step, Errno::NOSPC);
        let result = write_durably(&Syscalls::with_faults(plan), &path, b"new content");
        let content = fs::read(&path).unwrap();
        if result.is_ok() {
            assert_eq!(content, b"new content");
            assert!(step >= 6, "opened twice, written, synced, renamed, synced: {step}");
            break;
        }
        assert!(content == b"old" || content == b"new content", "{step}: {content:?}");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "{step}");
        fs::write(&path, "old").unwrap();
    }
}

#[test]
fn a_start_is_announced_without_a_change_of_what_is_remembered() {
    let scratch = tempfile::tempdir().unwrap();
    let (calls, places) = (Syscalls::default(), Places::new(scratch.path()));
    Attempts::announce_start(&calls, scratch.path()).unwrap();
    assert!(is_starting(&places), "a file was made");
    let path = scratch.path().join(ATTEMPTS_FILE);
    let mut attempts = Attempts::default();
    attempts.serve(state(7), 1000);
    attempts.write(&calls, scratch.path()).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert!(!is_starting(&places));
    Attempts::announce_start(&calls, scratch.path()).unwrap();
    assert!(is_starting(&places));
    assert_eq!(Attempts::read(&calls, scratch.path()), attempts);
}
