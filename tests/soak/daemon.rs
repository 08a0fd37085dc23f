//! `unpackd` beside the validator.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use rustix::process::Signal;
use serde_json::json;
use unsnap_test_support::{daemon::Daemon, machine::Machine};
use unsnap_testkit::random::Random;

use crate::driver::Soak;

/// Parts of the configuration, and what they may be changed to.
const CHANGES: [(&str, &str); 2] = [
    ("[service]\n", "[service]\nsupersede = false\n"),
    ("kind = \"fastboot\"\n", "kind = \"fastboot\"\nshadow = false\n"),
];

/// Bytes that the service leaves free: a tenth of the disk, as it does by default. Far more than
/// everything that the validator and unsnap write and remove (see [`SWING`](crate::space::SWING)).
pub const MIN_FREE: u64 = 32 << 20;

/// Names of a file of nobody beside the archives. It gets the other one to have the service look: a
/// number may be the name of a result.
const NUDGES: [&str; 2] = ["1", "2"];

/// Looks that the service begins before it notices what has changed: one may be under way, and another
/// one be waiting.
const LOOKS_BEFORE: u64 = 2;

/// Lines of the log that are told after a failure.
const TOLD: usize = 30;

/// A running service that keeps a state ready.
#[derive(Debug)]
pub struct Service {
    daemon: Daemon,
    nudges: [PathBuf; 2],
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
             [neighbour]\nmin-free = \"{MIN_FREE}\"\n\
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
        // Archives appear when they are whole.
        daemon.edit("settle = \"1s\"\n", "settle = \"0s\"\n");
        daemon.start();
        let nudges = NUDGES.map(|name| ledger.snapshots.join(name));
        if !nudges.iter().any(|nudge| nudge.exists()) {
            File::create(&nudges[0]).unwrap();
        }
        Self { daemon, nudges, changed: [false; CHANGES.len()] }
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

    /// Waits until it has looked at everything once, as it is now. It looks because a file is renamed, so
    /// this takes as many looks on each machine, and as long as they take.
    pub fn look(&self) {
        let looks = || self.metric("unsnap_space_looks_total");
        let enough = looks() + LOOKS_BEFORE + 1;
        self.daemon.until("it has looked", |_| {
            let [from, to] = &self.nudges;
            if fs::rename(from, to).is_err() {
                fs::rename(to, from).unwrap();
            }
            looks() >= enough
        });
    }

    /// Waits until it has nothing to do, or nothing that it can do, about what is there now.
    pub fn settle(&self) {
        self.look();
        self.daemon.until("it has nothing to do", |daemon| {
            let target = daemon.target("validator");
            // It prepares nothing that ends validators and nothing that does not fit, and asks again
            // and again.
            let detail = target["detail"].as_str().unwrap_or_default();
            let refuses = ["ended early", "min-free leaves"].iter().any(|why| detail.contains(why));
            let is_idle = target["state"] == "idle" && target["queued"] == json!([]);
            is_idle || (target["state"] == "failing" && refuses)
        });
    }

    /// Returns what it says of its target and of archives, and what it has logged last.
    pub fn said(&self) -> String {
        let status = self.daemon.status();
        let log = self.log();
        let last: Vec<&str> = log.lines().rev().take(TOLD).collect();
        format!("{:#?}\n{:#?}\n{last:#?}", status["targets"], status["archives"])
    }

    /// Returns whether a job is running.
    pub fn is_working(&self) -> bool {
        self.daemon.target("validator")["job"].is_object()
    }

    /// Returns the number of jobs of its process that have ended, whatever became of them.
    pub fn jobs_ended(&self) -> u64 {
        self.metric("unsnap_jobs_ended_total")
    }

    /// Returns the bytes that jobs of its process have written.
    pub fn written_bytes(&self) -> u64 {
        self.metric("unsnap_written_bytes_total")
    }

    /// Returns a metric of the target; the sum, if it has several series.
    fn metric(&self, name: &str) -> u64 {
        let text = self.daemon.ask(&json!({"request": "metrics"})).unwrap();
        let series = format!("{name}{{target=\"validator\"");
        let lines = text["text"].as_str().unwrap().lines();
        let values = lines.filter(|line| line.starts_with(&series)).map(|line| {
            let (_, value) = line.rsplit_once(' ').unwrap();
            value.parse::<u64>().unwrap()
        });
        let values: Vec<u64> = values.collect();
        assert!(!values.is_empty(), "{name} is not in {text}");
        values.iter().sum()
    }

    pub fn log(&self) -> String {
        self.daemon.log()
    }
}

impl Soak {
    /// Waits until the service has nothing to do.
    pub fn settle(&self) {
        // Without space it tries again and again.
        if let Some(service) = self.service.as_ref().filter(|_| !self.is_full) {
            service.settle();
        }
    }
}
