//! A validator's host over reboots and power cuts: the stand-in validator (`tests/stand-in`) in a unit,
//! behind the front end, and `unpackd` beside it. What is booted goes each time; the disk stays.
//!
//! Every start holds what the soak (`tests/soak`) holds: it comes up if it had come up alone, at a slot
//! that is not older, within five starts; its own files, and archives that were durable, have their
//! bytes. And the service comes back: it has nothing left to do, and there is a state.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
};

use serde_json::json;
use unsnap_test_support::{
    disk::{self, Disk, Kind},
    ledger::{Ledger, names},
    machine::Machine,
    stand_in::Connection,
};
use unsnap_testkit::series::Snapshot;

use crate::{container::Container, stage::staged_on};

const STAND_IN: &str = env!("CARGO_BIN_EXE_stand-in-validator");

const VALIDATOR: &str = "sol.service";

const SERVICE: &str = "unpackd.service";

/// The drop-ins of the package that docs/service.md tells of.
const DROP_INS: [&str; 2] =
    ["unpackd.service.d/validator-user.conf", "sol.service.d/10-unsnap.conf"];

/// Bytes a second at which a state takes a quarter of a minute, and its first storages some seconds.
const SLOW: &str = "20kB";

/// Storages of a job that is in the middle.
const SOME: usize = 2;

/// A host that can lose power.
struct Host {
    machine: Machine,
    /// Archives that were there when the disk was last synced.
    durable: BTreeSet<PathBuf>,
}

/// What is booted on it, with the validator up.
struct Booted {
    // It ends before its container does.
    validator: Connection,
    listener: UnixListener,
    container: Container,
}

impl Host {
    /// Makes one with a full and an incremental archive.
    fn new(kind: Kind) -> Option<Self> {
        if !disk::can_lose_power() {
            return None;
        }
        let disk = Disk::new(kind, &disk::Options::default())?;
        let mut machine = Machine::new(Path::new(STAND_IN), Some(disk), 1);
        let full = Snapshot::full_above(0);
        for snapshot in [full, Snapshot::incremental_above(full.slot())] {
            machine.add_archive(snapshot);
        }
        Some(Self { machine, durable: BTreeSet::new() })
    }

    fn disk(&mut self) -> &mut Disk {
        self.machine.disk.as_mut().unwrap()
    }

    /// A path on the disk, as the container has it.
    fn inside(&self, path: &str) -> String {
        path.replace(self.machine.disk.as_ref().unwrap().path().to_str().unwrap(), "/mnt")
    }

    /// The validator's unit; `own` are flags of the front end.
    fn unit(&self, own: &str) -> String {
        let arguments = self.inside(&self.machine.arguments().join(" "));
        format!(
            "[Unit]\nStartLimitIntervalSec=infinity\nStartLimitBurst=5\n\
             [Service]\nUser=sol\nRestart=always\nRestartSec=100ms\n\
             Environment=STAND_IN_CONTROL=/run/sol/control\n\
             ExecStart=/usr/bin/unsnap-validator --memory-budget 8MiB --decode-threads 1 {own} \
             /home/sol/bin/agave-validator {arguments}\n"
        )
    }

    /// The service's configuration; `rest` is added to `[neighbour]`.
    fn configuration(&self, rest: &str) -> String {
        let ledger = &self.machine.ledger;
        let path = |path: &Path| self.inside(&format!("{:?}", path.display().to_string()));
        let accounts: Vec<String> = ledger.accounts.iter().map(|accounts| path(accounts)).collect();
        format!(
            "[archives]\ndirectory = {snapshots}\nincremental-directory = {incremental}\n\
             rescan = \"1s\"\nsettle = \"0s\"\n\
             [service]\nstate-directory = \"/mnt/unpackd\"\n\
             [unpack]\nmemory-budget = \"8MiB\"\ndecode-threads = 1\n\
             [cadence]\nmin-slots = 0\n\
             [neighbour]\n{rest}\n\
             [[target]]\nname = \"validator\"\nkind = \"fastboot\"\nledger = {root}\n\
             snapshots = {snapshots}\naccounts = [{accounts}]\n",
            snapshots = path(&ledger.snapshots),
            incremental = path(self.machine.incremental_archives()),
            root = path(&ledger.root),
            accounts = accounts.join(", "),
        )
    }

    /// Boots it, and holds what has come up against what a validator alone would have come to.
    fn boot(&mut self) -> Option<Booted> {
        self.boot_with("")
    }

    /// Does the same with an addition to `[neighbour]` of the service.
    fn boot_with(&mut self, rest: &str) -> Option<Booted> {
        let alone = self.machine.alone(&[]);
        let container = staged_on(self.disk().path())?;
        container
            .sh("useradd --system --uid 977 --create-home sol && \
                 install -d -o sol /run/sol /home/sol/bin /mnt/unpackd && chown -R sol /mnt/")
            .succeeds();
        container.install(Path::new(STAND_IN), "/home/sol/bin/agave-validator", 0o755);
        for drop_in in DROP_INS {
            let unit = drop_in.split('/').next().unwrap();
            let examples = "/usr/share/doc/unsnap/examples";
            container
                .sh(&format!("install -D {examples}/{drop_in} -t /etc/systemd/system/{unit}/"))
                .succeeds();
        }
        container.write(
            "/etc/systemd/system/unpackd.service.d/places.conf",
            "[Service]\nReadWritePaths=/mnt\n",
        );
        container.write("/etc/unsnap/unpackd.toml", self.configuration(rest));
        container.write("/etc/systemd/system/sol.service", self.unit(""));
        let socket = container.path("/run/sol/control");
        let listener = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
        // It wants unpackd.
        container.sh("systemctl daemon-reload && systemctl start sol.service").succeeds();
        let mut validator = come_up(&container, &listener);
        assert!(validator.slot > 0, "it has begun with genesis");
        let (slot, source) = (validator.slot, &validator.source);
        assert!(!alone.up || slot >= alone.slot, "up at {slot} from {source}; alone {alone:?}");
        assert_eq!(validator.ask("check").unwrap(), json!({"lost": []}));
        let lost = self.machine.lost_files();
        assert!(lost.is_empty(), "{lost:?}");
        container.wait_for_property(SERVICE, "ActiveState", "active");
        Some(Booted { validator, listener, container })
    }

    /// Puts another addition to `[neighbour]` into force.
    fn reload(&self, booted: &Booted, rest: &str) {
        booted.container.write("/etc/unsnap/unpackd.toml", self.configuration(rest));
        booted.container.sh("systemctl reload unpackd.service").succeeds();
    }

    /// The power fails, and comes back.
    fn cut_power(&mut self, booted: Booted) {
        self.disk().cut_power();
        drop(booted);
        self.disk().remount();
        // A rename that was not durable may be lost, or a removal.
        let durable = &self.durable;
        self.machine.archives.retain(|path, _| {
            assert!(path.exists() || !durable.contains(path), "lost: {}", path.display());
            path.exists()
        });
    }

    /// The validator writes some archives, and shrinks and deletes storages.
    fn work(&mut self, booted: &mut Booted) {
        for command in ["incremental", "shrink 3", "incremental", "delete 5"] {
            let answer = booted.validator.ask(command).unwrap();
            if let Some(path) = answer["path"].as_str() {
                let path = path.replace("/mnt", self.disk().path().to_str().unwrap());
                self.machine.archive_written(path.as_ref());
            }
        }
    }

    /// Everything that is there now survives.
    fn sync(&mut self, booted: &Booted) {
        booted.container.sh("sync --file-system /mnt").succeeds();
        self.durable = self.machine.archives.keys().cloned().collect();
    }

    /// Waits until the service has nothing left to do, and a state is there.
    fn settle(&self, booted: &Booted) {
        let container = &booted.container;
        let newest = self.machine.alone(&[]).archives;
        container.wait_for("the service's rest", || {
            let said = container.sh("ledger-tool service status --format json");
            let Ok(status) = serde_json::from_str::<serde_json::Value>(&said.stdout) else {
                return false;
            };
            let target = &status["targets"][0];
            let is_idle = target["state"] == "idle" && target["queued"] == json!([]);
            is_idle && status["archives"]["newest"]["slot"] == newest
        });
        let ledger = &self.machine.ledger;
        let is_marked = |ledger: &Ledger| {
            let states = ledger.states();
            let slots = if states.exists() { names(&states) } else { Vec::new() };
            slots.iter().any(|slot| states.join(slot).join("fastboot_version").exists())
        };
        assert!(is_marked(ledger) || is_marked(&ledger.beside()), "there is no state");
    }
}

/// Waits until the validator is up, which its unit has started.
fn come_up(container: &Container, listener: &UnixListener) -> Connection {
    listener.set_nonblocking(true).unwrap();
    let mut connection = None;
    container.wait_for("the validator", || {
        let state = container.property(VALIDATOR, "ActiveState");
        assert_ne!(state, "failed", "{}", container.journal(VALIDATOR));
        connection = listener.accept().ok();
        connection.is_some()
    });
    Connection::new(connection.unwrap().0)
}

/// Returns the number of storages below one of our directories in the accounts paths.
fn storages(machine: &Machine, directory: &str) -> usize {
    let paths = machine.ledger.accounts.iter().map(|path| path.join(directory));
    paths.filter(|path| path.exists()).map(|path| names(&path).len()).sum()
}

fn reboots_and_power_cuts(kind: Kind) {
    let Some(mut host) = Host::new(kind) else { return };
    let Some(mut booted) = host.boot() else { return };
    host.settle(&booted);
    host.work(&mut booted);
    host.settle(&booted);

    // Everything is stopped in its order, and the validator writes its state.
    let slot = booted.validator.slot;
    booted.container.reboot();
    host.disk().remount();
    let mut booted = host.boot().unwrap();
    assert_eq!(booted.validator.source, "state");
    assert!(booted.validator.slot > slot);

    // At rest. What has not been synced for a while is lost.
    host.work(&mut booted);
    host.settle(&booted);
    host.sync(&booted);
    host.work(&mut booted);
    host.cut_power(booted);
    let mut booted = host.boot().unwrap();
    host.work(&mut booted);
    host.settle(&booted);

    // In the middle of a job of the service: a state is ready, and the archives are newer.
    let slow = format!("rate-limit = \"{SLOW}\"");
    host.reload(&booted, &slow);
    host.work(&mut booted);
    let machine = &host.machine;
    booted.container.wait_for("a job in the middle", || {
        storages(machine, ".unsnap-next/.unsnap-staged-run") >= SOME
    });
    host.sync(&booted);
    host.cut_power(booted);
    // The next job is as slow, unless the start waits for it.
    let booted = host.boot_with(&slow).unwrap();
    host.reload(&booted, "");
    host.settle(&booted);

    // In the middle of a start, when the front end has begun to replace the state.
    let unit = host.unit(&format!("--replace --rate-limit {SLOW}"));
    booted.container.write("/etc/systemd/system/sol.service", unit);
    host.sync(&booted);
    let Booted { validator, listener, container } = booted;
    container
        .sh("systemctl stop unpackd.socket unpackd.service && systemctl daemon-reload && \
             systemctl mask --runtime unpackd.service && systemctl kill --signal=KILL sol.service")
        .succeeds();
    let machine = &host.machine;
    container.wait_for("a start in the middle", || storages(machine, ".unsnap-staged-run") >= SOME);
    host.cut_power(Booted { validator, listener, container });
    let booted = host.boot().unwrap();
    host.settle(&booted);
}

#[test]
fn on_ext4_it_comes_up_after_reboots_and_power_cuts_and_loses_nothing() {
    reboots_and_power_cuts(Kind::Ext4);
}

#[test]
fn on_xfs_it_comes_up_after_reboots_and_power_cuts_and_loses_nothing() {
    reboots_and_power_cuts(Kind::Xfs);
}
