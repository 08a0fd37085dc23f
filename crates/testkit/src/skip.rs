//! Tests that cannot run on this machine say so, and are counted.
//!
//! | variable | effect |
//! |---|---|
//! | `UNSNAP_TEST_STRICT=1` | [`skip`] panics: the machine was meant to have everything installed |
//! | `UNSNAP_TEST_SKIPS=<file>` | every skip appends its line to this file, so that it can be counted |
//!
//! ```
//! use unsnap_testkit::skip::{skip, skip_unsupported};
//!
//! # fn a_tool_is_installed() -> bool { true }
//! # fn the_kernel_allows_it() -> bool { true }
//! fn a_test() {
//!     if !a_tool_is_installed() {
//!         return skip("strace is not installed");
//!     }
//!     if !the_kernel_allows_it() {
//!         return skip_unsupported("this kernel has no Landlock");
//!     }
//! }
//! ```

use std::{
    env,
    fmt::Display,
    fs::OpenOptions,
    io::{self, Write},
    panic::Location,
    path::Path,
    thread,
};

/// Reports that the calling test, or a part of it, does not run because something is missing that
/// an administrator can provide: a tool, or root.
///
/// # Panics
///
/// If `UNSNAP_TEST_STRICT=1`.
#[track_caller]
pub fn skip(reason: impl Display) {
    let line = report(&reason);
    assert!(!is_strict(), "{line} (UNSNAP_TEST_STRICT=1 makes this a failure)");
}

/// Reports that the calling test, or a part of it, does not run because this kernel, file system or
/// container cannot do what it needs, and nothing that could be installed would change that. Never
/// panics.
#[track_caller]
pub fn skip_unsupported(reason: impl Display) {
    report(&reason);
}

/// Returns whether a skip is a failure.
fn is_strict() -> bool {
    env::var_os("UNSNAP_TEST_STRICT").is_some_and(|value| value == "1")
}

/// Prints and counts one line, and returns it.
#[track_caller]
fn report(reason: &dyn Display) -> String {
    let line = line(reason, Location::caller());
    // One write each, so that lines of concurrent tests do not mix. Not `eprintln`: the test harness
    // captures that, and drops it when the test passes.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
    if let Some(path) = env::var_os("UNSNAP_TEST_SKIPS") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let counted = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        counted.unwrap_or_else(|error| panic!("cannot count in {}: {error}", path.display()));
    }
    line
}

/// `skipped: <test name>: <reason>`, on one line.
fn line(reason: &dyn Display, location: &Location) -> String {
    let reason = reason.to_string().trim().replace('\n', "; ");
    let program = env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().display().to_string();
    // <program>-<hash>
    let program = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name);
    match thread::current().name() {
        // The harness names a test's thread after the test.
        Some(test) if test != "main" => format!("skipped: {program}::{test}: {reason}"),
        _ => format!("skipped: {program}, {location}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CHILD: &str = "UNSNAP_TESTKIT_SKIPPING";

    /// Runs the two tests below in a process of its own, since they depend on the environment.
    fn skipping(test: &str, strict: bool) -> (bool, String, String) {
        let directory = tempfile::tempdir().unwrap();
        let skips = directory.path().join("skips");
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", &format!("skip::tests::{test}"), "--nocapture"])
            .env(CHILD, "1")
            .env("UNSNAP_TEST_SKIPS", &skips)
            .env("UNSNAP_TEST_STRICT", if strict { "1" } else { "0" })
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), printed, std::fs::read_to_string(skips).unwrap())
    }

    #[test]
    fn what_is_not_installed() {
        if env::var_os(CHILD).is_some() {
            skip("no\ntool");
        }
    }

    #[test]
    fn what_is_not_supported() {
        if env::var_os(CHILD).is_some() {
            skip_unsupported("no kernel");
        }
    }

    #[test]
    fn skips_are_printed_and_counted() {
        let line = "skipped: unsnap_testkit::skip::tests::what_is_not_installed: no; tool\n";
        let (passed, printed, counted) = skipping("what_is_not_installed", false);
        assert!(passed && printed.contains(line), "{printed}");
        assert_eq!(counted, line);
    }

    #[test]
    fn a_strict_run_fails_if_a_tool_is_missing() {
        let (passed, printed, counted) = skipping("what_is_not_installed", true);
        assert!(!passed && printed.contains("makes this a failure"), "{printed}");
        assert_eq!(counted.lines().count(), 1);
    }

    #[test]
    fn a_strict_run_passes_if_the_machine_cannot() {
        let (passed, printed, counted) = skipping("what_is_not_supported", true);
        assert!(passed && printed.contains(": no kernel\n"), "{printed}");
        assert_eq!(counted.lines().count(), 1);
    }
}
