//! The validator is as if it had been started alone: what it inherits is compared with what it
//! inherits from a shell.

use std::{collections::BTreeMap, fs, process::Command};

use unsnap_test_support::{Outcome, run, skip, skip_unsupported, validator_path};

use super::{
    FULL,
    fake::{Ledger, STARTED},
};

/// What a validator's start may look like; `$@` is the command line.
const STARTS: &[&str] = &[
    "exec \"$@\"",
    "ulimit -n 4000; ulimit -c 0; ulimit -s 4096; umask 027; cd /; exec \"$@\"",
    "trap '' HUP INT USR1 PIPE; exec \"$@\"",
    "trap '' USR2; exec \"$@\"",
    "exec 5</dev/null 8>/dev/zero; exec \"$@\"",
    "exec <&-; exec \"$@\"",
    "A='one two' B= C=\"three\nfour\" exec env --block-signal=USR2,TERM,PIPE \"$@\"",
    "exec nice -n 3 \"$@\"",
    "echo 500 > /proc/$$/oom_score_adj; exec \"$@\"",
    "exec setpriv --no-new-privs \"$@\"",
    "exec taskset -c 0 \"$@\"",
];

/// Signals 13, and 32 and 33, in a set of `/proc/<pid>/status`. The two are the C library's own: it
/// takes them over in every program of several threads, and lets nobody ask for them.
const PIPE: u64 = 1 << 12;
const RESERVED: u64 = 0b11 << 31;

/// Runs the fake validator after a start, in front of it the validator if it is wanted.
fn after(ledger: &Ledger, start: &str, front: bool) -> Outcome {
    let mut command = Command::new("sh");
    command.args(["-c", start, "sh"]);
    if front {
        // The fake validator ends at once, which is not to count against its state.
        command.arg(validator_path()).args(["--attempts", "0"]);
    }
    command.arg(ledger.fake()).arg("--ledger").arg(ledger.path());
    command.env_remove("RUST_LOG").env("UNSNAP_TEST_OUT", ledger.site.path("out"));
    ledger.run(&mut command)
}

/// The fields of `/proc/<pid>/status` that are inherited.
fn status(ledger: &Ledger) -> BTreeMap<String, String> {
    const FIELDS: [&str; 19] = [
        "Umask",
        "Threads",
        "SigBlk",
        "SigIgn",
        "SigCgt",
        "ShdPnd",
        "SigPnd",
        "NoNewPrivs",
        "Seccomp",
        "Uid",
        "Gid",
        "Groups",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "Cpus_allowed",
        "THP_enabled",
    ];
    let text = ledger.wrote("status");
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let fields = fields.filter(|(name, _)| FIELDS.contains(name));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

#[test]
fn everything_passes_through() {
    let ledger = Ledger::with(&[FULL]);
    for start in STARTS {
        let outcome = after(&ledger, start, false);
        if outcome.status.code() != Some(STARTED) {
            let reason = format!("{start}: {}", outcome.stderr);
            match outcome.status.code() {
                // The shell's code for a program that is not there.
                Some(127) => skip(reason),
                // The program is there: a container or a limit refuses what it asks for.
                _ => skip_unsupported(reason),
            }
            continue;
        }
        let alone = Found::of(&ledger);
        fs::remove_dir_all(ledger.path().join("snapshots")).ok();
        let outcome = after(&ledger, start, true);
        assert_eq!(outcome.status.code(), Some(STARTED), "{start}: {outcome:#?}");
        // It has done something before.
        assert!(outcome.stderr.contains("storages in"), "{start}: {outcome:#?}");
        let behind = Found::of(&ledger);
        assert_eq!(behind.others, alone.others, "{start}");

        // Closed standard streams are open on nothing: Rust's runtime sees to that.
        let mut expected = alone.descriptors;
        if start.contains("<&-") {
            expected.insert("0".to_owned(), "/dev/null".to_owned());
        }
        assert_eq!(behind.descriptors, expected, "{start}");

        let (mut behind, mut alone) = (behind.status, alone.status);
        // SIGPIPE always has its default.
        let ignored = |status: &mut BTreeMap<String, String>| {
            u64::from_str_radix(&status.remove("SigIgn").unwrap(), 16).unwrap()
        };
        let (behind_ignored, alone_ignored) = (ignored(&mut behind), ignored(&mut alone));
        assert_eq!(behind_ignored & !RESERVED, alone_ignored & !(RESERVED | PIPE), "{start}");
        assert_eq!(behind, alone, "{start}");
    }
}

struct Found {
    status: BTreeMap<String, String>,
    /// What each is open on, if that has a name.
    descriptors: BTreeMap<String, String>,
    others: Vec<String>,
}

impl Found {
    fn of(ledger: &Ledger) -> Self {
        let text = ledger.wrote("descriptors");
        let descriptors = text.lines().filter_map(|line| line.split_once(" -> "));
        let descriptors = descriptors.map(|(before, target)| {
            let number = before.rsplit(' ').next().unwrap();
            let target = target.split_once(':').map_or(target, |(kind, _)| kind);
            (number.to_owned(), target.to_owned())
        });
        let others = ["limits", "environ", "oom_score_adj", "nice", "directory"];
        Self {
            status: status(ledger),
            descriptors: descriptors.collect(),
            others: others.iter().map(|name| ledger.wrote(name)).collect(),
        }
    }
}

#[test]
fn it_is_the_same_process() {
    let ledger = Ledger::with(&[FULL]);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$; exec \"$@\"", "sh"]).arg(validator_path());
    command.arg(ledger.fake()).arg("--ledger").arg(ledger.path());
    command.env("UNSNAP_TEST_OUT", ledger.site.path("out"));
    let outcome = run(&mut command);
    let (pid, _) = outcome.stdout.split_once('\n').unwrap();
    assert_eq!(ledger.wrote("pid").trim(), pid);
}
