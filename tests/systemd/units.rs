//! The files in deploy/, by systemd's own tools: nothing is started.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;
use unsnap_test_support::{is_root, skip, skip_unsupported};

use crate::{container::has_systemd, stage::root};

/// Runs a tool of systemd, and checks that it is content and has nothing to say. Not where the tool is
/// missing or too old, which is told.
fn accepted(tool: &str, arguments: &[&str], path: &Path) {
    if !has_systemd() {
        return;
    }
    let output = match Command::new(tool).args(arguments).arg(path).output() {
        Ok(output) => output,
        Err(error) => return skip(format_args!("{tool} cannot be run: {error}")),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if ["unrecognized option", "Unknown"].iter().any(|word| said.contains(word)) {
        // Of the systemd that this machine runs.
        return skip_unsupported(format_args!("this {tool} is too old: {said}"));
    }
    let what = format!("{tool} {arguments:?} {}", path.display());
    assert!(output.status.success(), "{what}: {said}\n{}", String::from_utf8_lossy(&output.stdout));
    if arguments.first() != Some(&"security") {
        assert_eq!(said, "", "{what}");
    }
}

/// All units.
const UNITS: [&str; 5] = [
    "unpackd.service",
    "unpackd.socket",
    "unpackd@.service",
    "unpackd@.socket",
    "unsnap-unpack.service",
];

/// The units with programs that exist on every machine, and perhaps a drop-in of the service.
fn units(drop_in: Option<&str>) -> TempDir {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let from = root().join("deploy/systemd");
    for unit in UNITS {
        let text = fs::read_to_string(from.join(unit)).unwrap();
        let text = text.replace("/usr/bin/unpackd", "/bin/true");
        let text = text.replace("/usr/bin/ledger-tool", "/bin/true");
        fs::write(scratch.path().join(unit), text).unwrap();
    }
    if let Some(drop_in) = drop_in {
        let directory = scratch.path().join("unpackd.service.d");
        fs::create_dir(&directory).unwrap();
        fs::copy(from.join("unpackd.service.d").join(drop_in), directory.join(drop_in)).unwrap();
    }
    scratch
}

#[test]
fn the_units_are_accepted_with_and_without_the_drop_ins() {
    for drop_in in [None, Some("metrics.conf"), Some("validator-user.conf")] {
        let units = units(drop_in);
        for unit in UNITS {
            // Of a template, an instance is verified.
            let unit = unit.replace('@', "@testnet");
            accepted("systemd-analyze", &["verify"], &units.path().join(unit));
        }
    }
}

#[test]
fn instances_have_the_service_but_for_names_of_their_own() {
    for unit in ["unpackd.service", "unpackd.socket"] {
        let read =
            |unit: &str| fs::read_to_string(root().join("deploy/systemd").join(unit)).unwrap();
        let (one, many) = (read(unit), read(&unit.replace('.', "@.")));
        // Names of instances apart, and the destinations, which a drop-in names.
        let settings = |text: &str| -> Vec<String> {
            let text =
                text.replace(" (%i)", "").replace("@%i", "").replace("/%i", "").replace("-%i", "");
            let is_setting = |line: &&str| {
                !line.starts_with('#') && !line.is_empty() && !line.starts_with("ReadWritePaths=")
            };
            text.lines().filter(is_setting).map(str::to_owned).collect()
        };
        assert_eq!(settings(&one), settings(&many), "{unit}");
    }
}

#[test]
fn the_services_are_exposed_by_a_tenth_at_most() {
    // In tenths: 10 is an exposure of 1.0 out of 10. A network, if only of loopback, has its price.
    for (drop_in, most) in
        [(None, "10"), (Some("validator-user.conf"), "10"), (Some("metrics.conf"), "15")]
    {
        let units = units(drop_in);
        let threshold = format!("--threshold={most}");
        let arguments = ["security", "--offline=yes", &threshold];
        accepted("systemd-analyze", &arguments, &units.path().join("unpackd.service"));
        accepted("systemd-analyze", &arguments, &units.path().join("unsnap-unpack.service"));
    }
}

#[test]
fn the_services_keep_the_calls_they_need() {
    for unit in ["unpackd.service", "unpackd@.service", "unsnap-unpack.service"] {
        let text = fs::read_to_string(root().join("deploy/systemd").join(unit)).unwrap();
        // What is needed beyond systemd's own sets, of which older versions know fewer calls.
        for call in ["io_uring_setup", "io_uring_register", "landlock_create_ruleset"] {
            let allowed = text.lines().any(|line| {
                line.strip_prefix("SystemCallFilter=").is_some_and(|calls| calls.contains(call))
            });
            assert!(allowed, "{unit} does not let {call} through");
        }
        // Answers openat2 by ENOSYS.
        assert!(!text.contains("\nRestrictSUIDSGID="), "{unit}");
    }
}

#[test]
fn the_user_and_the_directories_can_be_made() {
    if !is_root() {
        return skip("making users, if only below a directory, needs root");
    }
    if !has_systemd() {
        return;
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::create_dir(scratch.path().join("etc")).unwrap();
    let root_option = format!("--root={}", scratch.path().display());
    let deploy = root().join("deploy");
    // Tools read the file that is named from below their root.
    for (name, directory) in
        [("sysusers", "usr/lib/sysusers.d"), ("tmpfiles", "usr/lib/tmpfiles.d")]
    {
        let directory = scratch.path().join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::copy(deploy.join(format!("{name}.conf")), directory.join("unsnap.conf")).unwrap();
    }
    let tools = [
        ("systemd-sysusers", vec![&*root_option]),
        ("systemd-tmpfiles", vec![&root_option, "--create"]),
    ];
    for (tool, arguments) in tools {
        match Command::new(tool).args(arguments).arg("unsnap.conf").output() {
            Ok(made) => {
                assert!(made.status.success(), "{tool}: {}", String::from_utf8_lossy(&made.stderr));
            }
            Err(error) => return skip(format_args!("{tool} cannot be run: {error}")),
        }
    }
    let users = fs::read_to_string(scratch.path().join("etc/passwd")).unwrap();
    assert!(users.contains("\nunpackd:") || users.starts_with("unpackd:"), "{users}");
    assert!(scratch.path().join("var/lib/unpackd/trees").is_dir());
}
