//! The commands of docs/fleet.md, typed in their order.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use unsnap_test_support::genuine_full;

use crate::{
    container::Container,
    stage::{root, staged},
};

/// The validator's unit before unsnap.
const UNIT: &str = "[Service]\nUser=sol\nExecStart=/home/sol/bin/agave-validator \
                    --identity /home/sol/id.json --ledger /mnt/ledger \
                    --snapshots /mnt/snapshots --accounts /mnt/accounts\n";

/// The container has no sudo, and its root needs none.
const SUDO: &str = "sudo() {\n\
                        if [ \"$1\" = -u ]; then user=$2; shift 2; runuser -u \"$user\" -- \"$@\"\n\
                        else \"$@\"; fi\n\
                    }\n\
                    set -e\n";

const LAST_START: &str = "/mnt/snapshots/.unsnap-last-start.json";

/// The blocks of commands on the page.
fn blocks() -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/fleet.md")).unwrap();
    let after = page.split("\n```sh\n").skip(1);
    after.map(|rest| rest.split_once("```").unwrap().0.to_owned()).collect()
}

/// What there is before somebody opens the page: a validator, and an archive.
fn validator(container: &Container) {
    container
        .sh("useradd --system --create-home sol && install -d -o sol /home/sol/bin /mnt/ledger \
             /mnt/snapshots /mnt/accounts")
        .succeeds();
    container.write("/home/sol/bin/agave-validator", "#!/bin/sh\nexec sleep inf\n");
    container.write("/etc/systemd/system/sol.service", UNIT);
    container
        .sh("chmod 755 /home/sol/bin/agave-validator && systemctl daemon-reload && \
             systemctl start sol.service")
        .succeeds();
    let archive = genuine_full();
    let place = container.mnt().join("snapshots").join(archive.file_name().unwrap());
    fs::copy(&archive, &place).unwrap();
    // Long enough ago that nobody is still writing it.
    let an_hour_ago = SystemTime::now() - Duration::from_hours(1);
    fs::File::open(&place).unwrap().set_modified(an_hour_ago).unwrap();
}

#[test]
fn an_operator_who_types_the_page_has_a_state_metrics_and_a_way_back() {
    let Some(container) = staged() else { return };
    validator(&container);
    container.sh("systemctl start unpackd.service").succeeds();
    let blocks = blocks();
    let (mut seen, mut adopted) = (String::new(), false);
    for block in &blocks {
        if block.starts_with("sudo dpkg -i ") {
            // The test of the package does that.
            continue;
        }
        if block.contains(LAST_START) {
            container.wait_for("the record", || container.path(LAST_START).exists());
        }
        let goes_back = block.contains("fastboot withdraw");
        if goes_back {
            let state = container.mnt().join("snapshots/snapshots/39/fastboot_version");
            assert!(state.is_file(), "there is a state to withdraw");
        }
        seen += &container.sh(&format!("{SUDO}{block}")).succeeds().stdout;
        if block.contains(LAST_START) {
            adopted = true;
            let journal = container.sh("journalctl --no-pager -t unsnap-event").succeeds().stdout;
            assert!(journal.contains("\"event\":\"start\""), "{journal}");
        }
        if goes_back {
            assert!(!container.mnt().join("snapshots/snapshots/39").exists());
        }
    }
    assert!(adopted && blocks.len() >= 8, "{blocks:#?}");
    for part in [
        "unsnap_target_state{target=\"validator\",state=\"working\"} ",
        "\nvalidator  fastboot  ",
        "slot 39: whole, ",
        "\"result\":\"ready\"",
        "the state of slot 39 is withdrawn",
    ] {
        assert!(seen.contains(part), "no {part} in {seen}");
    }
    // As before.
    let command = container.property("sol.service", "ExecStart");
    assert!(!command.contains("unsnap-validator"), "{command}");
    assert_eq!(container.property("sol.service", "ActiveState"), "active");
}

#[test]
fn the_page_is_short_and_the_package_has_the_files_that_it_names() {
    let page = fs::read_to_string(root().join("docs/fleet.md")).unwrap();
    let words = page.split_whitespace().count();
    assert!(words <= 700, "the page has {words} words");
    let places: Vec<String> = crate::stage::assets().into_iter().map(|asset| asset.to).collect();
    let examples = "/usr/share/doc/unsnap/examples/";
    for file in ["prometheus/scrape.yml", "prometheus/alerts.yml", "grafana/unsnap.json"] {
        assert!(page.contains(&format!("| `{file}` |")), "{file}");
        assert!(places.contains(&format!("{examples}{file}")), "{file} in {places:#?}");
    }
    for document in ["fleet.md", "schemas.md", "schemas/service-status.v1.json"] {
        assert!(places.contains(&format!("/usr/share/doc/unsnap/{document}")), "{document}");
    }
}
