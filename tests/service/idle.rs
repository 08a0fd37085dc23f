//! A service with nothing to do is not noticed.

use std::{io::Write, thread, time::Duration};

use unsnap_test_support::daemon::{Daemon, full};

/// Resident memory of a service that has worked and is idle, in KiB: what it promises.
const RESIDENT_KIB_MAX: u64 = 10 << 10;

/// A debug build has larger code, which counts when it has run.
const RESIDENT_KIB_MAX_DEBUG: u64 = 24 << 10;

#[test]
fn idle_it_does_not_wake_up_and_is_small() {
    let mut daemon = Daemon::new();
    // No rescan comes within the test.
    daemon.edit("rescan = \"2s\"", "rescan = \"1h\"");
    daemon.start();
    let fresh = daemon.size();
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    // The connection that asked is over, and what follows from the job has been done, when nothing
    // has changed for a while.
    let wakes = |daemon: &Daemon| daemon.threads("voluntary_ctxt_switches");
    let mut before = wakes(&daemon);
    daemon.until("it is quiet", |daemon| {
        thread::sleep(Duration::from_millis(500));
        let now = wakes(daemon);
        std::mem::replace(&mut before, now.clone()) == now
    });
    thread::sleep(Duration::from_secs(5));
    assert_eq!(wakes(&daemon), before, "nobody wakes up");
    let (descriptors, resident) = daemon.size();
    let _ = writeln!(
        std::io::stderr(),
        "idle: {descriptors} descriptors, {resident} KiB resident, {} KiB before the first job; threads {:?}",
        fresh.1,
        before.keys()
    );
    let most = if cfg!(debug_assertions) { RESIDENT_KIB_MAX_DEBUG } else { RESIDENT_KIB_MAX };
    assert!(resident <= most, "{resident} KiB");
}
