//! Tests of staging, also with each system call failing in turn.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use unsnap_failure::Failure;
use unsnap_pass::Unfinished;
use unsnap_ring::{Call, FaultPlan};

use super::*;

fn prepare(paths: &[&Path], resume: bool) -> Result<Staging, CommitError> {
    let spots: Vec<Spot> = paths.iter().map(|path| Spot::empty(path)).collect();
    Staging::prepare(&Syscalls::default(), &Unfinished::default(), &spots, resume)
}

/// Stages a file in each destination.
fn fill(staging: &Staging, name: &str) {
    for place in &staging.places {
        let path = Syscalls::default().openat(
            &place.staging,
            name,
            OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o644),
        );
        drop(path.unwrap());
    }
}

/// Returns the names in a directory, in order.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn scratch() -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().canonicalize().unwrap();
    (scratch, path)
}

/// The same where thousands of syncs take no time, if there is such a place.
fn scratch_in_memory() -> (TempDir, PathBuf) {
    let in_memory =
        tempfile::tempdir_in("/dev/shm").map(|scratch| (scratch.path().to_owned(), scratch));
    in_memory.map_or_else(|_| scratch(), |(path, scratch)| (scratch, path))
}

/// What may exist under the name of an output: nothing, an empty directory, or one with this entry.
const EXISTING: [&str; 3] = ["absent", "empty", "lost+found"];

/// Returns the path of an output of which so much exists.
fn output(root: &Path, existing: &str) -> PathBuf {
    let output = root.join("output");
    match existing {
        "absent" => {}
        "empty" => fs::create_dir(&output).unwrap(),
        entry => fs::create_dir_all(output.join(entry)).unwrap(),
    }
    output
}

#[test]
fn a_destination_has_its_name_only_once_it_is_published() {
    for existing in EXISTING {
        let (_scratch, root) = scratch();
        let output = output(&root, existing);
        let before = existing != "absent";
        let mut staging = prepare(&[&output], false).unwrap();
        assert!(!staging.is_left_over());
        fill(&staging, "version");
        fill(&staging, "file");
        assert_eq!(output.exists(), before, "{existing}");
        assert!(!output.join("file").exists(), "{existing}");
        staging.publish().unwrap();
        drop(staging);
        let in_place = existing == "lost+found";
        let published: &[&str] =
            if in_place { &["file", "lost+found", "version"] } else { &["file", "version"] };
        assert_eq!(names(&output), published);
        assert_eq!(names(&root), ["output"], "{existing}");
    }
}

#[test]
fn dropped_before_publication_everything_is_as_it_was() {
    for existing in EXISTING {
        let (_scratch, root) = scratch();
        let output = output(&root, existing);
        let before = (names(&root), output.exists().then(|| names(&output)));
        let staging = prepare(&[&output], false).unwrap();
        fill(&staging, "file");
        drop(staging);
        assert_eq!((names(&root), output.exists().then(|| names(&output))), before, "{existing}");
    }
}

#[test]
fn a_destination_that_cannot_be_used_is_refused() {
    let (_scratch, root) = scratch();
    let (full, file, link) = (root.join("full"), root.join("file"), root.join("link"));
    fs::create_dir_all(full.join("entry")).unwrap();
    fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(root.join("nowhere"), &link).unwrap();
    for (path, reason) in [
        (&full, "is not empty"),
        (&file, "exists and is not a directory"),
        (&link, "is a dangling link"),
    ] {
        let error = prepare(&[path], false).unwrap_err();
        assert_eq!(error.to_string(), format!("{} {reason}", path.display()));
        assert!(matches!(error, CommitError::NotClean { .. }));
    }
    let orphan = prepare(&[&root.join("absent/output")], false).unwrap_err();
    assert!(matches!(&orphan, CommitError::Request { .. }), "{orphan}");
    // The first destination was staged before the second was refused.
    let overlap = prepare(&[&root.join("output"), &root.join("output/accounts")], false);
    assert!(matches!(overlap.unwrap_err(), CommitError::Request { .. }));
    let second = prepare(&[&root.join("output"), &full], false).unwrap_err();
    assert!(matches!(&second, CommitError::NotClean { .. }), "{second}");
    assert_eq!(names(&root), ["file", "full", "link"]);
}

#[test]
fn two_runs_cannot_share_a_destination() {
    let (_scratch, root) = scratch();
    let output = root.join("output");
    let first = prepare(&[&output], false).unwrap();
    fill(&first, "file");
    for resume in [false, true] {
        let error = prepare(&[&output], resume).unwrap_err();
        assert!(matches!(&error, CommitError::Locked { .. }), "{error}");
    }
    assert_eq!(names(&root.join(".output.unsnap-staging")), ["file"]);
    drop(first);
    assert!(prepare(&[&output], false).is_ok());
}

#[test]
fn files_of_an_interrupted_run_are_kept_for_a_run_that_resumes() {
    let (_scratch, root) = scratch();
    let (output, staged) = (root.join("output"), root.join(".output.unsnap-staging"));
    let mut interrupted = prepare(&[&output], false).unwrap();
    fill(&interrupted, "file");
    let identities = interrupted.identities().unwrap();
    assert!(interrupted.keep(true));
    drop(interrupted);
    assert_eq!(names(&staged), ["file"]);

    // A run that only looks leaves them as well.
    let looks = prepare(&[&output], true).unwrap();
    assert!(looks.is_left_over());
    assert_eq!(looks.identities().unwrap(), identities);
    drop(looks);
    assert_eq!(names(&staged), ["file"]);

    // A failed preparation of another destination does not remove them.
    let full = root.join("full");
    fs::create_dir_all(full.join("entry")).unwrap();
    prepare(&[&output, &full], true).unwrap_err();
    assert_eq!(names(&staged), ["file"]);

    // A resumed run can be published.
    let mut resumed = prepare(&[&output], true).unwrap();
    fill(&resumed, "version");
    resumed.publish().unwrap();
    drop(resumed);
    assert_eq!(names(&output), ["file", "version"]);
}

#[test]
fn files_of_an_interrupted_run_are_removed_by_any_other_run() {
    let (_scratch, root) = scratch();
    let (output, staged) = (root.join("output"), root.join(".output.unsnap-staging"));
    let interrupt = || {
        let mut interrupted = prepare(&[&output], false).unwrap();
        fill(&interrupted, "file");
        interrupted.keep(true);
    };
    interrupt();
    fs::create_dir_all(staged.join("accounts/deep")).unwrap();
    let fresh = prepare(&[&output], false).unwrap();
    assert!(fresh.is_left_over());
    assert_eq!(names(&staged), [""; 0]);
    drop(fresh);
    assert!(!staged.exists());

    interrupt();
    let mut starts_over = prepare(&[&output], true).unwrap();
    starts_over.clear().unwrap();
    assert_eq!(names(&staged), [""; 0]);
    drop(starts_over);
    assert!(!staged.exists());
}

#[test]
fn a_run_that_was_published_or_is_not_to_be_kept_leaves_nothing_to_resume() {
    let (_scratch, root) = scratch();
    let output = root.join("output");
    let mut staging = prepare(&[&output], false).unwrap();
    assert!(staging.keep(true));
    assert!(!staging.keep(false));
    drop(staging);
    assert_eq!(names(&root), [""; 0]);

    // Publishing removes the journal, so keeping is no longer possible after it has failed.
    let mut staging = prepare(&[&output], false).unwrap();
    fill(&staging, "file");
    fs::create_dir(&output).unwrap();
    let error = staging.publish().unwrap_err();
    let reason = "was filled by another process in the meantime";
    assert_eq!(error.to_string(), format!("{} {reason}", output.display()));
    assert!(!staging.keep(true));
    drop(staging);
    assert_eq!(names(&root), ["output"]);
}

#[test]
fn if_one_destination_cannot_be_published_the_others_are_withdrawn() {
    for (in_place, replaces) in [(false, false), (false, true), (true, false)] {
        let (_scratch, root) = scratch();
        let (output, accounts) = (root.join("output"), root.join("accounts"));
        if in_place {
            fs::create_dir_all(accounts.join("lost+found")).unwrap();
        } else if replaces {
            fs::create_dir(&accounts).unwrap();
        }
        let before = accounts.exists().then(|| names(&accounts));
        let mut staging = prepare(&[&output, &accounts], false).unwrap();
        fill(&staging, "file");
        // The output is published last.
        fs::create_dir(&output).unwrap();
        staging.publish().unwrap_err();
        assert_eq!(accounts.exists().then(|| names(&accounts)).is_some(), before.is_some());
        drop(staging);
        assert_eq!(accounts.exists().then(|| names(&accounts)), before);
        assert_eq!(names(&output), [""; 0]);
        assert_eq!(names(&root).len(), 1 + usize::from(before.is_some()));
    }
}

#[test]
fn two_failures_never_leave_an_output_that_looks_complete_without_the_rest() {
    for existing in EXISTING {
        let mut runs = 0;
        // Until there is no first call, or no second one.
        for first in 0.. {
            let mut injected = 2;
            for second in first + 1.. {
                if injected < 2 {
                    break;
                }
                let (_scratch, root) = scratch_in_memory();
                let (output, accounts) = (output(&root, existing), root.join("accounts"));
                let spots = [Spot::empty(&output), Spot::empty(&accounts)];
                let plan = FaultPlan::new(0).fail(first, Errno::IO).fail(second, Errno::IO);
                let calls = Syscalls::with_faults(plan.clone());
                let staged = Staging::prepare(&calls, &Unfinished::default(), &spots, false);
                let published = staged.and_then(|mut staging| {
                    fill(&staging, "version");
                    fill(&staging, "file");
                    staging.publish()
                });
                runs += 1;
                injected = plan.injected().len();
                let is_complete = output.join("version").exists();
                let what = format!("{existing}: {:?}, {published:?}", plan.injected());
                assert!(published.is_err() || is_complete, "{what}");
                let is_whole = accounts.join("version").exists() && accounts.join("file").exists();
                assert!(is_whole || !is_complete, "{what}");
            }
            if injected == 0 {
                break;
            }
        }
        assert!(runs > 300, "{existing}: only {runs} runs");
    }
}

#[test]
fn a_staging_directory_that_was_replaced_is_not_published() {
    let (_scratch, root) = scratch();
    let (output, staged) = (root.join("output"), root.join(".output.unsnap-staging"));
    let mut staging = prepare(&[&output], false).unwrap();
    fill(&staging, "file");
    fs::rename(&staged, root.join("stolen")).unwrap();
    fs::create_dir(&staged).unwrap();
    let error = staging.publish().unwrap_err();
    assert!(matches!(&error, CommitError::NotClean { .. }), "{error}");
    assert!(!output.exists());
}

#[test]
fn a_destination_that_was_cleared_is_replaced() {
    for (content, is_published) in
        [(None, true), (Some([].as_slice()), true), (Some(["old"].as_slice()), false)]
    {
        let (_scratch, root) = scratch();
        let (above, run) = (root.join("above"), root.join("accounts/run"));
        fs::create_dir(&above).unwrap();
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("old"), "").unwrap();
        let existing =
            Existing::WillBeCleared { stage_in: Some(above.clone()), stage_as: ".staged" };
        let spot = Spot { path: run.clone(), existing };
        let mut staging =
            Staging::prepare(&Syscalls::default(), &Unfinished::default(), &[spot], false).unwrap();
        fill(&staging, "new");
        assert_eq!(names(&above.join(".staged")), ["new"]);
        assert_eq!(names(&run), ["old"]);
        if content.is_none_or(<[&str]>::is_empty) {
            fs::remove_file(run.join("old")).unwrap();
        }
        if content.is_none() {
            fs::remove_dir(&run).unwrap();
        }
        assert_eq!(staging.publish().is_ok(), is_published, "{content:?}");
        drop(staging);
        assert_eq!(names(&run), if is_published { ["new"] } else { ["old"] });
        assert_eq!(names(&above), [""; 0]);
    }
}

/// Result of preparing a destination when one call failed.
struct Outcome {
    call: Call,
    result: Result<(), CommitError>,
    /// Number of entries left beside the destination.
    left: usize,
}

/// Prepares a destination repeatedly. The n-th call fails with `EIO` and, if the failure is
/// `lasting`, so do all later ones, until there is no n-th call.
fn failures(lasting: bool) -> Vec<Outcome> {
    let scratch = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for step in 0.. {
        let plan = FaultPlan::new(0);
        let plan =
            if lasting { plan.fail_from(step, Errno::IO) } else { plan.fail(step, Errno::IO) };
        let calls = Syscalls::with_faults(plan.clone());
        let staging = Staging::prepare(
            &calls,
            &Unfinished::default(),
            &[Spot::empty(&scratch.path().join("output"))],
            false,
        );
        let Some(injected) = plan.injected().first().copied() else { break };
        let result = staging.map(drop);
        let left = fs::read_dir(scratch.path()).unwrap().count();
        failures.push(Outcome { call: injected.call, result, left });
        let _ = fs::remove_dir(scratch.path().join(".output.unsnap-staging"));
    }
    assert!(failures.len() > 8, "only {} calls", failures.len());
    failures
}

#[test]
fn a_staging_directory_that_cannot_be_used_is_removed_again() {
    for Outcome { call, left, .. } in failures(false) {
        assert_eq!(left, 0, "{call:?} failed");
    }
}

#[test]
fn an_error_from_stat_of_the_staging_directory_is_not_mistaken_for_another_run() {
    let looks = failures(false).into_iter().filter(|failure| failure.call == Call::Stat);
    // The first looks for a dangling link at the destination.
    let looks: Vec<_> = looks.skip(1).collect();
    assert_eq!(looks.len(), 2);
    for failure in looks.into_iter().chain(failures(true)) {
        let Outcome { call, result, .. } = failure;
        let error = result.expect_err("reported as a success");
        assert_eq!(error.errno(), Some(Errno::IO), "{call:?}: {error}");
    }
}

#[test]
fn a_parent_that_cannot_be_resolved_is_reported() {
    for Outcome { call, result, .. } in failures(false) {
        assert!(call != Call::Resolve || result.is_err(), "{call:?} failed");
    }
}
