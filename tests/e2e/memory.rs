//! Memory stays within the budget and 64 MiB, whatever the archive's size.

use std::{fs, path::Path};

use unsnap_test_support::{Site, ledger_tool, run};
use unsnap_testkit::spec::{ArchiveSpec, FileSizes, Frames};

const MIB: u64 = 1 << 20;

/// What is allowed beyond the budget: the program, stacks, the decoders' own tables.
const BEYOND: u64 = 64 * MIB;

/// How much more a large archive may need than a small one. Not counted is what is reserved for both
/// alike: how much of that a run touches depends on who was quicker, the decoders or the disk.
const DIFFERENCE: u64 = 24 * MIB;

/// Peak of one run, and what it reserved.
fn peak(archive: &Path, site: &Site, flags: &[&str]) -> (u64, u64) {
    site.reset(false);
    let report = run(ledger_tool()
        .arg("unpack")
        .arg(archive)
        .arg("--output")
        .arg(site.output())
        .args(["--format", "json", "--decode-threads", "2"])
        .args(flags))
    .assert_code(0)
    .json();
    site.reset(false);
    let number = |field: &str| report[field].as_u64().unwrap();
    (number("peak_rss_bytes"), number("memory_bytes"))
}

fn spec(total_bytes: u64, frames: Frames) -> ArchiveSpec {
    ArchiveSpec {
        total_bytes,
        frames,
        file_sizes: FileSizes::Fixed(2_000_000),
        ..ArchiveSpec::default()
    }
}

fn small_and_large_peak_alike(frames: Frames) {
    let site = Site::new();
    let make = |megabytes: u64| {
        let made = site.archive(&spec(megabytes * 1_000_000, frames));
        let path = site.path(&format!("{megabytes}"));
        fs::rename(made, &path).unwrap();
        path
    };
    let (small, large) = (make(100), make(400));
    // The default is 128 MiB and 64 MiB for each of the two threads.
    let budgets = [("64MiB", 64 * MIB), ("256MiB", 256 * MIB)];
    for (text, budget) in budgets {
        for dry_run in [true, false] {
            let mut flags = vec!["--memory-budget", text];
            if budget == 256 * MIB {
                flags.clear();
            }
            if dry_run {
                flags.push("--dry-run");
            }
            let (small_peak, small_reserved) = peak(&small, &site, &flags);
            let (large_peak, large_reserved) = peak(&large, &site, &flags);
            let what = format!("{frames:?}, {flags:?}: peaks of {small_peak} and {large_peak}");
            assert!(small_peak.max(large_peak) <= budget + BEYOND, "{what}");
            assert!(large_reserved <= budget, "{what}, {large_reserved} reserved");
            assert_eq!(small_reserved, large_reserved, "{what}");
            assert!(large_peak <= small_peak.max(large_reserved) + DIFFERENCE, "{what}");
        }
    }
}

#[test]
fn one_frame() {
    small_and_large_peak_alike(Frames::One);
}

#[test]
fn frames_of_32_mib() {
    small_and_large_peak_alike(Frames::AGAVE);
}
