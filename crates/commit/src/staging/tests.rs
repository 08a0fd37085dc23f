//! Preparing by itself, with each of its system calls failing in turn.

use unsnap_ring::{Call, FaultPlan};

use super::*;

/// What came of preparing a destination when one call failed.
struct Failure {
    call: Call,
    result: Result<(), CommitError>,
    /// Entries left beside the destination.
    left: usize,
}

/// Prepares a destination again and again, with the n-th call and, if it is `lasting`, all after it
/// failing with `EIO`, until there is no n-th call.
fn failures(lasting: bool) -> Vec<Failure> {
    let scratch = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for step in 0.. {
        let plan = FaultPlan::new(0);
        let plan =
            if lasting { plan.fail_from(step, Errno::IO) } else { plan.fail(step, Errno::IO) };
        let calls = Syscalls::with_faults(plan.clone());
        let staging =
            Staging::prepare(&calls, &[Spot::empty(&scratch.path().join("output"))], false);
        let Some(injected) = plan.injected().first().copied() else { break };
        let result = staging.map(drop);
        let left = std::fs::read_dir(scratch.path()).unwrap().count();
        failures.push(Failure { call: injected.call, result, left });
        let _ = std::fs::remove_dir(scratch.path().join(".output.unsnap-staging"));
    }
    assert!(failures.len() > 8, "only {} calls", failures.len());
    failures
}

#[test]
fn a_staging_directory_that_cannot_be_used_is_removed_again() {
    for Failure { call, left, .. } in failures(false) {
        assert_eq!(left, 0, "{call:?} failed");
    }
}

#[test]
fn an_error_in_looking_at_the_staging_directory_is_not_taken_for_another_run() {
    let looks = failures(false).into_iter().filter(|failure| failure.call == Call::Stat);
    // The first is at the destination, for a dangling link.
    let looks: Vec<_> = looks.skip(1).collect();
    assert_eq!(looks.len(), 2);
    for failure in looks.into_iter().chain(failures(true)) {
        let Failure { call, result, .. } = failure;
        let error = result.expect_err("taken for a success");
        assert_eq!(error.errno(), Some(Errno::IO), "{call:?}: {error}");
    }
}

#[test]
fn a_parent_that_cannot_be_resolved_is_told() {
    for Failure { call, result, .. } in failures(false) {
        assert!(call != Call::Resolve || result.is_err(), "{call:?} failed");
    }
}
