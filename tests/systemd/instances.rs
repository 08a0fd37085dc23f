//! Instances of `unpackd@.service`: several validators on one host.

use unsnap_test_support::ledger::names;
use unsnap_testkit::tree::read_tree;

use crate::{
    container::Container,
    stage::{place_archive, staged},
};

const EXAMPLE: &str = "/usr/share/doc/unsnap/examples/unpackd@.service.d/user.conf";

/// Sets an instance up as docs/service.md says, with its own user and directories below /mnt.
fn set_up(container: &Container, instance: &str) {
    container.write(
        &format!("/etc/unsnap/{instance}/unpackd.toml"),
        format!(
            "[archives]\ndirectory = \"/mnt/{instance}/archives\"\nrescan = \"1s\"\n\
             [[target]]\nname = \"tree\"\nkind = \"tree\"\ndirectory = \"/mnt/{instance}/trees\"\n"
        ),
    );
    let drop_in = format!("/etc/systemd/system/unpackd@{instance}.service.d");
    container
        .sh(&format!(
            "useradd --system {instance} && install -d -o {instance} /mnt/{instance}/archives \
             /mnt/{instance}/trees && install -d {drop_in} && \
             sed -e s/sol/{instance}/ -e s/testnet/{instance}/ {EXAMPLE} >{drop_in}/user.conf && \
             systemctl daemon-reload && systemctl start unpackd@{instance}.socket \
             unpackd@{instance}.service"
        ))
        .succeeds();
}

fn status(container: &Container, instance: &str) -> String {
    let socket = format!("/run/unpackd-{instance}/control.sock");
    let said = container
        .sh(&format!("ledger-tool service status --format json --socket {socket}"))
        .succeeds();
    said.stdout
}

#[test]
fn two_instances_share_nothing() {
    let Some(container) = staged() else { return };
    let instances = [("mainnet", 39), ("testnet", 41)];
    for (instance, slot) in instances {
        set_up(&container, instance);
        place_archive(&container.mnt().join(instance).join("archives"), slot, 1 << 20);
    }
    for (instance, slot) in instances {
        let trees = container.mnt().join(instance).join("trees");
        let tree = trees.join(slot.to_string());
        container.wait_for("the tree", || tree.join("version").is_file());
        assert!(!read_tree(&tree).unwrap().is_empty());
        let mut left = names(&trees);
        left.retain(|name| name != ".unsnap-service");
        assert_eq!(left, [slot.to_string()], "{instance}");
        let owner = container.sh(&format!("stat -c %U /mnt/{instance}/trees/{slot}")).succeeds();
        assert_eq!(owner.stdout.trim(), instance);
        let told = status(&container, instance);
        assert!(told.contains(&format!("/mnt/{instance}/trees/{slot}")), "{told}");
        let memory = format!("/var/lib/unpackd-{instance}/unpackd.json");
        container.wait_for("the memory", || container.path(&memory).is_file());
    }
    // One that stops leaves the other alone.
    container.sh("systemctl stop unpackd@mainnet.socket unpackd@mainnet.service").succeeds();
    assert_eq!(container.property("unpackd@testnet.service", "ActiveState"), "active");
    status(&container, "testnet");
}
