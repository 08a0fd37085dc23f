//! What `unpackd.service` may not do: the service is replaced by a script that tries it, under the same
//! settings of the unit. What must fail there has succeeded before, for the same user without them.

use crate::stage::staged;

const UNIT: &str = "unpackd.service";

/// Runs a script in the place of unpackd; if it fails, so does `systemctl start`.
const DROP_IN: &str = "\
[Unit]
StartLimitIntervalSec=0
[Service]
Type=oneshot
WatchdogSec=0
Restart=no
ExecStart=
ExecStart=/bin/bash -e /usr/probe/script
";

/// Somebody on the loopback device.
const SERVER: [(&str, &str); 2] = [
    ("probe.socket", "[Socket]\nListenStream=127.0.0.1:9\nAccept=yes\n"),
    ("probe@.service", "[Service]\nExecStart=/bin/true\nStandardInput=socket\n"),
];

/// What must succeed, else the rest proves nothing.
const ALLOWED: [(&str, &str); 5] = [
    ("run as the unit's user", "test $(id -un) = unpackd"),
    ("write to its state directory", "touch /var/lib/unpackd/probe"),
    ("write to its runtime directory", "touch /run/unpackd/probe"),
    ("write to a destination", "touch /mnt/ledger/probe"),
    ("read archives", "cat /mnt/archives/archive"),
];

const FORBIDDEN: [(&str, &str); 8] = [
    ("write where archives are", "touch /mnt/archives/probe"),
    ("write to /usr", "touch /usr/probe/written"),
    ("write to its configuration", "touch /etc/unsnap/probe"),
    ("see homes", "test -e /home/unpackd"),
    ("see what others have in /tmp", "test -e /tmp/others"),
    ("see processes of others", "test -e /proc/1"),
    ("connect to a server", "exec 3<>/dev/tcp/127.0.0.1/9"),
    ("make a namespace", "unshare --user true"),
];

#[test]
fn the_service_can_do_what_it_must_and_nothing_else() {
    let Some(container) = staged() else { return };
    for (unit, text) in SERVER {
        container.write(&format!("/etc/systemd/system/{unit}"), text);
    }
    container.write("/etc/systemd/system/unpackd.service.d/probe.conf", DROP_IN);
    container
        .sh("install -d -o unpackd /mnt/ledger /mnt/archives /usr/probe /etc/unsnap /home/unpackd && \
             touch /mnt/archives/archive /tmp/others && \
             systemctl daemon-reload && systemctl start probe.socket")
        .succeeds();
    let attempt = |script: &str| {
        container.write("/usr/probe/script", script);
        container.sh("systemctl start unpackd.service").ok()
    };
    for (what, script) in ALLOWED {
        assert!(attempt(script), "cannot {what}: {}", container.journal(UNIT));
    }
    for (what, script) in FORBIDDEN {
        container.write("/usr/probe/script", script);
        container.sh_as("unpackd", "/bin/bash -e /usr/probe/script").succeeds();
        assert!(!attempt(script), "can {what}");
    }
}
