//! Rings that cannot be set up, or not wholly.

use std::process::{Command, Stdio};

use unsnap_test_support::{
    Site, assert_holds, expected_tree_of, has_tool, has_uring, ledger_tool_path, run,
    skip_unsupported,
};
use unsnap_testkit::{
    spec::{ArchiveSpec, Compression, FileSizes},
    tree::Tree,
};

/// More registrations than these no run makes.
const CALLS_MAX: usize = 40;

fn traced(inject: &str, site: &Site, archive: &std::path::Path, flags: &[&str]) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null"])
        .args(["-e", "trace=io_uring_register", "-e", inject])
        .arg(ledger_tool_path())
        .args(["unpack", "--format=json", "--no-progress"])
        .args(flags)
        .arg(archive)
        .arg("--output")
        .arg(site.output())
        .env_remove("RUST_LOG")
        .env_remove("UNSNAP_CONFIG")
        .stdin(Stdio::null());
    strace
}

/// Every registration in turn is refused to every thread: of the probe, of buffers, of limits, of
/// the ring itself. Some the program can do without, and tells; without others it has no ring.
#[test]
fn registrations_are_refused_one_by_one() {
    if !has_tool("strace", "--version") || !has_uring() {
        return;
    }
    let site = Site::new();
    // Buffers are registered for archives above a size.
    let spec = ArchiveSpec {
        total_bytes: 72_000_000,
        file_sizes: FileSizes::Fixed(1_500_000),
        compression: Compression::None,
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let expected: Tree = expected_tree_of(&archive);
    let (mut did, mut refused, mut unregistered) = (0, 0, 0);
    for errno in ["ENOMEM", "EINVAL"] {
        for call in 1..=CALLS_MAX {
            site.reset(call % 2 == 0);
            let before = site.state();
            let what = format!("registration {call}: {errno}");
            let inject = format!("inject=io_uring_register:error={errno}:when={call}");
            let outcome = run(&mut traced(&inject, &site, &archive, &[]));
            if outcome.stderr.contains("ptrace") {
                // A container without ptrace.
                skip_unsupported(format_args!("strace cannot trace: {}", outcome.stderr));
                return;
            }
            if outcome.status.code() == Some(3) {
                outcome.assert_error(&["io_uring", "hint: "]);
                site.assert_untouched(&before, &what);
                refused += 1;
                continue;
            }
            let report = outcome.assert_code(0).json();
            assert_holds(&site.output(), &expected, &what);
            did += 1;
            if report["registered_buffers"] == true && call > 6 {
                // No thread makes so many calls: nothing was refused any more.
                break;
            }
            unregistered += usize::from(report["registered_buffers"] == false);
            assert!(call < CALLS_MAX, "{what}: there is no end of registrations");
        }
    }
    assert!(unregistered > 0, "registered buffers were never refused: {did}, {refused}");
}
