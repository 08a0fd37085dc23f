//! `unpackd.service`, from its start to its end, as the user unpackd.

use std::path::{Path, PathBuf};

use unsnap_test_support::ledger::names;
use unsnap_testkit::tree::{assert_tree_equals, files, reference_entries_of_file};

use crate::{
    container::Container,
    stage::{landlock_here, place_archive, staged},
};

const UNIT: &str = "unpackd.service";

const CONFIG: &str = "/etc/unsnap/unpackd.toml";

/// A few megabytes: unpacked in a moment.
const SMALL: u64 = 4 << 20;

/// So large that it takes seconds at [`SLOW`], and minutes if nothing ended it.
const LARGE: u64 = 64 << 20;

/// Bytes a second.
const SLOW: &str = "1MiB";

/// Puts a configuration with directories below /mnt into force; `more` is appended to it.
fn configure(container: &Container, more: &str) {
    container.write(
        CONFIG,
        format!(
            "[archives]\ndirectory = \"/mnt/archives\"\nrescan = \"1s\"\n\
             [[target]]\nname = \"tree\"\nkind = \"tree\"\ndirectory = \"/mnt/ledger\"\n{more}"
        ),
    );
    container.sh("install -d -o unpackd /mnt/archives /mnt/ledger").succeeds();
}

fn running(more: &str) -> Option<Container> {
    let container = staged()?;
    configure(&container, more);
    container.sh("systemctl start unpackd.socket unpackd.service").succeeds();
    Some(container)
}

fn main_pid(container: &Container) -> String {
    container.property(UNIT, "MainPID")
}

fn status_text(container: &Container) -> String {
    container.property(UNIT, "StatusText")
}

fn archives(container: &Container) -> PathBuf {
    container.mnt().join("archives")
}

fn tree(container: &Container, slot: u64) -> PathBuf {
    container.mnt().join("ledger").join(slot.to_string())
}

/// Waits until an archive has been unpacked, and compares.
#[track_caller]
fn assert_unpacked(container: &Container, archive: &Path, slot: u64) {
    let tree = tree(container, slot);
    container.wait_for(format_args!("the tree of slot {slot}"), || tree.exists());
    assert_tree_equals(&tree, &files(reference_entries_of_file(archive).unwrap()));
}

#[test]
fn an_archive_dropped_in_becomes_a_directory_and_the_status_says_so() {
    let Some(container) = running("") else { return };
    // `systemctl start` returns when READY=1 has come.
    assert_eq!(container.property(UNIT, "ActiveState"), "active");
    let owner = container.sh(&format!("stat -c %U /proc/{}", main_pid(&container))).succeeds();
    assert_eq!(owner.stdout, "unpackd\n");
    assert!(status_text(&container).contains("tree"), "{}", status_text(&container));
    let archive = place_archive(&archives(&container), 350_000_000, SMALL);
    assert_unpacked(&container, &archive, 350_000_000);
    container.wait_for("the status", || status_text(&container).contains("350000000"));
    // The journal's entries have fields.
    container.wait_for("an entry with the slot", || {
        container.sh("journalctl --sync; journalctl --quiet UNSNAP_SLOT=350000000 | grep -q .").ok()
    });
    if landlock_here(&archive).is_some() {
        // Nor does the unit keep it from confining itself to the destinations.
        let journal = container.journal(UNIT);
        assert!(!journal.contains("the sandbox is incomplete"), "{journal}");
    }
    container.sh("systemctl stop unpackd.service").succeeds();
    assert_eq!(container.property(UNIT, "Result"), "success");
}

#[test]
fn a_reload_takes_a_good_configuration_and_refuses_a_bad_one() {
    let Some(container) = running("") else { return };
    let pid = main_pid(&container);
    // Refused before the service hears of it: systemctl says so.
    container.write(CONFIG, "[archives]\ndirectery = \"/mnt/archives\"\n");
    container.sh("systemctl reload unpackd").fails();
    container.wait_for("the reason", || container.journal(UNIT).contains("did you mean directory"));
    // Refused by the service: the old one stays.
    container.sh("systemctl kill --signal=HUP unpackd").succeeds();
    container.wait_for("the refusal", || container.journal(UNIT).contains("is refused"));
    container.wait_for_property(UNIT, "ActiveState", "active");
    let archive = place_archive(&archives(&container), 350_000_000, SMALL);
    assert_unpacked(&container, &archive, 350_000_000);
    // A good one: a second target appears.
    configure(
        &container,
        "[[target]]\nname = \"second\"\nkind = \"tree\"\ndirectory = \"/mnt/accounts\"\n",
    );
    container.sh("install -d -o unpackd /mnt/accounts && systemctl reload unpackd").succeeds();
    container.wait_for("the new target", || status_text(&container).contains("second"));
    assert_eq!(main_pid(&container), pid, "nothing was restarted");
    assert_eq!(container.property(UNIT, "NRestarts"), "0");
}

#[test]
fn a_wrong_configuration_ends_the_service_with_78_and_without_restarts() {
    let Some(container) = staged() else { return };
    container.write(CONFIG, "[archives]\n");
    container.sh("systemctl start unpackd.service").fails();
    assert_eq!(container.property(UNIT, "ExecMainStatus"), "78");
    assert_eq!(container.property(UNIT, "NRestarts"), "0");
    assert_eq!(container.property(UNIT, "ActiveState"), "failed");
}

#[test]
fn a_service_that_stands_still_is_killed_and_started_again() {
    let Some(container) = staged() else { return };
    configure(&container, "");
    container
        .write("/etc/systemd/system/unpackd.service.d/watchdog.conf", "[Service]\nWatchdogSec=5\n");
    container.sh("systemctl daemon-reload && systemctl start unpackd").succeeds();
    let pid = main_pid(&container);
    container.sh(&format!("kill -STOP {pid}")).succeeds();
    container.wait_for("another process", || {
        let now = main_pid(&container);
        now != pid && now != "0"
    });
    container.wait_for_property(UNIT, "ActiveState", "active");
    let journal = container.journal(UNIT);
    assert!(journal.contains("Watchdog timeout"), "{journal}");
    let archive = place_archive(&archives(&container), 350_000_000, SMALL);
    assert_unpacked(&container, &archive, 350_000_000);
    // The new one, left alone, is not killed: it feeds the watchdog.
    assert_eq!(container.property(UNIT, "NRestarts"), "1");
}

#[test]
fn a_client_wakes_the_service_by_its_socket_and_is_told_who_may_what() {
    let Some(container) = staged() else { return };
    configure(&container, "");
    container.sh("useradd --system stranger && systemctl start unpackd.socket").succeeds();
    assert_eq!(container.property(UNIT, "ActiveState"), "inactive");
    container.sh("ledger-tool service status").succeeds();
    assert_eq!(container.property(UNIT, "ActiveState"), "active");
    container.sh_as("unpackd", "ledger-tool service status").succeeds();
    let refused = container.sh_as("stranger", "ledger-tool service pause").fails();
    assert!(refused.stderr.contains("error"), "{refused:?}");
    // Who has stopped it does not find it started again by somebody who only looks.
    container.sh("systemctl stop unpackd.service").succeeds();
    let refused = container.sh("ledger-tool service status").fails();
    assert!(refused.stderr.contains("unpackd is not running"), "{refused:?}");
    assert_eq!(container.property(UNIT, "ActiveState"), "inactive");
    // Its start brings the socket back.
    container.sh("systemctl start unpackd.service && ledger-tool service status").succeeds();
    container.sh("systemctl restart unpackd.service && ledger-tool service status").succeeds();
}

#[test]
fn a_job_is_gone_on_with_after_a_stop_and_after_a_kill() {
    let Some(container) = running(&format!("[neighbour]\nrate-limit = \"{SLOW}\"\n")) else {
        return;
    };
    let archive = place_archive(&archives(&container), 350_000_000, LARGE);
    let at_work = || status_text(&container).contains("unpacking");
    container.wait_for("a job", at_work);
    container.sh("systemctl stop unpackd.service").succeeds();
    assert_eq!(container.property(UNIT, "Result"), "success");
    assert!(!tree(&container, 350_000_000).exists(), "unpacked before the stop");
    container.sh("systemctl start unpackd.service").succeeds();
    container.wait_for("the job again", at_work);
    let pid = main_pid(&container);
    container.sh(&format!("kill -KILL {pid}")).succeeds();
    container.wait_for("another process", || {
        let now = main_pid(&container);
        now != pid && now != "0"
    });
    assert!(!tree(&container, 350_000_000).exists(), "unpacked before the kill");
    // At full speed now.
    configure(&container, "");
    container.wait_for_property(UNIT, "ActiveState", "active");
    container.sh("systemctl reload unpackd.service").succeeds();
    assert_unpacked(&container, &archive, 350_000_000);
    let left = names(&container.mnt().join("ledger"));
    assert_eq!(left, [".unsnap-service", "350000000"], "nothing is left of the cut-off jobs");
}
