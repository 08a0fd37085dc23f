//! The drop-ins that docs/service.md tells of, installed as it says.

use std::fs;

use unsnap_test_support::genuine_full;
use unsnap_testkit::tree::read_tree;

use crate::{container::Container, stage::staged};

const UNIT: &str = "unpackd.service";

const CONFIG: &str = "/etc/unsnap/unpackd.toml";

const EXAMPLES: &str = "/usr/share/doc/unsnap/examples";

/// Asks for metrics as Prometheus does.
const SCRAPE: &str = r#"bash -c 'exec 3<>/dev/tcp/127.0.0.1/9184 &&
    printf "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" >&3 && cat <&3'"#;

fn install(container: &Container, drop_in: &str) {
    let unit = drop_in.split('/').next().unwrap();
    container
        .sh(&format!(
            "install -D -m 644 {EXAMPLES}/{drop_in} -t /etc/systemd/system/{unit}/ && \
             systemctl daemon-reload"
        ))
        .succeeds();
}

#[test]
fn metrics_are_served_on_loopback_with_the_drop_in_and_not_without() {
    let Some(container) = staged() else { return };
    let shipped = fs::read_to_string(container.path(CONFIG)).unwrap();
    assert_eq!(shipped.matches("\nlisten = \"\"\n").count(), 1);
    let listens = shipped.replace("\nlisten = \"\"\n", "\nlisten = \"127.0.0.1:9184\"\n");
    container.write(CONFIG, listens);
    // The unit has no network: that is told, not passed over.
    container.sh("systemctl start unpackd.service").fails();
    let journal = container.journal(UNIT);
    assert!(journal.contains("metrics: cannot listen on 127.0.0.1:9184"), "{journal}");

    container.sh("systemctl stop unpackd.service; systemctl reset-failed unpackd.service");
    install(&container, "unpackd.service.d/metrics.conf");
    container.sh("systemctl start unpackd.service").succeeds();
    let said = container.sh(SCRAPE).succeeds();
    assert!(said.stdout.starts_with("HTTP/1.1 200 OK"), "{said:?}");
    assert!(said.stdout.contains("\nunsnap_paused 0\n"), "{said:?}");
}

#[test]
fn a_state_is_prepared_as_the_validators_user_and_its_unit_comes_after() {
    let Some(container) = staged() else { return };
    container.write(
        CONFIG,
        "[archives]\ndirectory = \"/mnt/snapshots\"\nrescan = \"1s\"\n\
         [[target]]\nname = \"validator\"\nkind = \"fastboot\"\nledger = \"/mnt/ledger\"\n\
         snapshots = \"/mnt/snapshots\"\naccounts = [\"/mnt/accounts\"]\n",
    );
    container
        .sh("useradd --system sol && install -d -o sol /mnt/ledger /mnt/snapshots /mnt/accounts")
        .succeeds();
    let archive = genuine_full();
    let name = archive.file_name().unwrap().to_str().unwrap();
    fs::copy(&archive, container.mnt().join("snapshots").join(name)).unwrap();
    install(&container, "unpackd.service.d/validator-user.conf");
    install(&container, "sol.service.d/10-unsnap.conf");
    container.write(
        "/etc/systemd/system/sol.service",
        "[Service]\nUser=sol\nExecStart=/bin/sleep inf\n",
    );
    container.sh("systemctl daemon-reload && systemctl start sol.service").succeeds();
    // Wanted, and started before.
    container.wait_for_property(UNIT, "ActiveState", "active");
    let order = container.property("sol.service", "After");
    assert!(order.split(' ').any(|unit| unit == UNIT), "{order}");
    let state = container.mnt().join("snapshots/snapshots/39");
    container.wait_for("the state", || state.join("fastboot_version").is_file());
    assert!(!read_tree(&container.mnt().join("accounts/run")).unwrap().is_empty());
    let owner =
        container.sh("stat -c %U /mnt/snapshots/snapshots/39 /mnt/accounts/run/*").succeeds();
    assert!(owner.stdout.lines().all(|user| user == "sol"), "{owner:?}");
    // A validator does not need it.
    container
        .sh("systemctl stop unpackd.socket unpackd.service && systemctl mask --runtime unpackd.service && \
             systemctl restart sol.service && systemctl is-active sol.service")
        .succeeds();
}
