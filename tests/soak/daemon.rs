//! `unpackd` beside the validator.

use std::path::Path;

use rustix::process::Signal;
use serde_json::json;
use unsnap_test_support::daemon::Daemon;
use unsnap_testkit::random::Random;

use crate::{driver::Soak, machine::Machine};

/// Parts of the configuration, and what they may be changed to.
const CHANGES: [(&str, &str); 2] = [
    ("[service]\n", "[service]\nsupersede = false\n"),
    ("kind = \"fastboot\"\n", "kind = \"fastboot\"\nshadow = false\n"),
];

/// A running service that keeps a state ready.
#[derive(Debug)]
pub struct Service {
    daemon: Daemon,
    /// Which of the [`CHANGES`] are in force.
    changed: [bool; CHANGES.len()],
}

impl Service {
    pub fn start(machine: &Machine) -> Self {
        let ledger = &machine.ledger;
        let quoted = |path: &Path| format!("\"{}\"", path.display());
        let accounts: Vec<String> = ledger.accounts.iter().map(|path| quoted(path)).collect();
        let mut daemon = Daemon::new();
        daemon.configure(&format!(
            "[cadence]\nmin-slots = 0\n\
             [[target]]\nname = \"validator\"\nkind = \"fastboot\"\nledger = {}\nsnapshots = {}\n\
             accounts = [{}]\n",
            quoted(&ledger.root),
            quoted(&ledger.snapshots),
            accounts.join(", ")
        ));
        daemon.edit(
            &format!("directory = {}\n", quoted(&daemon.path("archives"))),
            &format!(
                "directory = {}\nincremental-directory = {}\n",
                quoted(&ledger.snapshots),
                quoted(machine.incremental_archives())
            ),
        );
        daemon.start();
        Self { daemon, changed: [false; CHANGES.len()] }
    }

    pub fn stop(mut self) {
        self.daemon.end(Signal::TERM);
    }

    pub fn kill_and_start(&mut self) {
        self.daemon.end(Signal::KILL);
        self.daemon.start();
    }

    /// Applies another configuration. One that is wrong is refused, and changes nothing.
    pub fn reconfigure(&mut self, random: &mut Random) {
        let reload = json!({"request": "reload"});
        if random.chance(30) {
            self.daemon.edit("[retry]\n", "[retry]\nnonsense = 1\n");
            assert!(self.daemon.ask(&reload).is_err());
            self.daemon.edit("nonsense = 1\n", "");
            return;
        }
        let index = random.index(CHANGES.len());
        let (usual, other) = CHANGES[index];
        let (from, to) = if self.changed[index] { (other, usual) } else { (usual, other) };
        self.changed[index] ^= true;
        self.daemon.edit(from, to);
        self.daemon.ask(&reload).unwrap();
    }

    /// Waits until it has nothing to do.
    pub fn settle(&self) {
        self.daemon.until("it has nothing to do", |daemon| {
            let target = daemon.target("validator");
            // It prepares nothing that ends validators, and asks again and again.
            let detail = target["detail"].as_str().unwrap_or_default();
            let refuses = target["state"] == "failing" && detail.contains("ended early");
            let is_idle = target["state"] == "idle" && target["queued"] == json!([]);
            is_idle || refuses
        });
    }

    pub fn log(&self) -> String {
        self.daemon.log()
    }
}

impl Soak {
    /// Waits until the service has nothing to do.
    pub fn settle(&mut self) {
        // Without space it tries again and again.
        if let Some(service) = self.service.as_ref().filter(|_| !self.is_full) {
            service.settle();
            self.is_warm = true;
        }
    }
}
