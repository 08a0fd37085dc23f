//! The Debian package, built by cargo-deb: installed, upgraded, removed, purged.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use unsnap_test_support::skip;

use crate::{
    container::Container,
    stage::{assets, root},
};

/// Builds the package with a revision, of the programs that the tests have built.
fn package(revision: &str, directory: &Path) -> Option<PathBuf> {
    // Builds the programs.
    let program = assets().remove(0).from;
    let target = program.ancestors().nth(2).unwrap();
    let profile = match target.join("release") {
        release if program.starts_with(&release) => "release",
        _ => "dev",
    };
    let built = Command::new("cargo-deb")
        .args(["deb", "--no-build", "--fast", "--strip", "--package", "unsnap-unpackd"])
        .args(["--profile", profile, "--deb-revision", revision])
        .arg("--output")
        .arg(directory)
        .current_dir(root())
        .env("CARGO_TARGET_DIR", target)
        .output();
    let built = match built {
        Ok(built) => built,
        Err(error) => {
            skip(format_args!("cargo-deb (cargo install cargo-deb) cannot be run: {error}"));
            return None;
        }
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.find(|file| file.to_string_lossy().contains(&format!("-{revision}_")))
}

fn dpkg(container: &Container, arguments: &str) {
    container.sh(&format!("DEBIAN_FRONTEND=noninteractive dpkg {arguments}")).succeeds();
}

/// All files that differ from the machine's own, but for the log, caches and what dpkg notes.
fn traces(container: &Container) -> String {
    let places = "/etc /usr/bin /usr/lib/systemd /usr/lib/sysusers.d /usr/lib/tmpfiles.d \
                  /usr/lib/sysctl.d /usr/share/doc/unsnap /usr/share/man /usr/share/bash-completion /usr/share/zsh \
                  /usr/share/fish /var/lib/unpackd /var/lib/systemd /run/unpackd";
    let find = format!(
        "find {places} '(' -name '*unpackd*' -o -name '*unsnap*' -o -name '*ledger-tool*' ')' 2>/dev/null; true"
    );
    container.sh(&find).succeeds().stdout
}

/// Manual pages and completions are where man(1) and the shells look, under the names that the programs
/// are installed as.
fn helps(container: &Container) {
    for program in ["ledger-tool", "unsnap-validator", "unpackd"] {
        container.sh(&format!("test -x /usr/bin/{program}")).succeeds();
        for place in [
            format!("bash-completion/completions/{program}"),
            format!("zsh/vendor-completions/_{program}"),
            format!("fish/vendor_completions.d/{program}.fish"),
        ] {
            container.sh(&format!("test -s /usr/share/{place}")).succeeds();
        }
    }
    // Compressed, as Debian has them.
    let pages = ["man1/ledger-tool.1", "man1/ledger-tool-fastboot-prepare.1", "man8/unpackd.8"];
    for page in pages.into_iter().chain(["man1/unsnap-validator.1"]) {
        container.sh(&format!("zcat /usr/share/man/{page}.gz | grep -q '^.SH NAME'")).succeeds();
    }
}

#[test]
fn the_package_installs_starts_upgrades_and_goes() {
    let scratch = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(first) = package("1", scratch.path()) else { return };
    let Some(second) = package("2", scratch.path()) else { return };
    let Some(container) = Container::boot() else { return };
    fs::create_dir(container.mnt().join("packages")).unwrap();
    for (file, name) in [(first, "1.deb"), (second, "2.deb")] {
        fs::copy(file, container.mnt().join("packages").join(name)).unwrap();
    }
    // Images of machines forbid packages to start anything; the container may.
    container.sh("rm -f /usr/sbin/policy-rc.d").succeeds();
    let before = traces(&container);

    dpkg(&container, "--install /mnt/packages/1.deb");
    assert_eq!(container.property("unpackd.service", "ActiveState"), "active");
    assert_eq!(container.property("unpackd.socket", "ActiveState"), "active");
    assert_eq!(container.property("unpackd.service", "UnitFileState"), "enabled");
    let pid = container.property("unpackd.service", "MainPID");

    helps(&container);

    // An upgrade restarts, and leaves an edited configuration alone.
    container.sh("echo '# mine' >>/etc/unsnap/unpackd.toml").succeeds();
    dpkg(&container, "--install /mnt/packages/2.deb");
    assert_eq!(container.property("unpackd.service", "ActiveState"), "active");
    assert_ne!(container.property("unpackd.service", "MainPID"), pid);
    container.sh("tail -1 /etc/unsnap/unpackd.toml | grep -qx '# mine'").succeeds();

    // A removal keeps configuration and results.
    container.sh("touch /var/lib/unpackd/trees/mine").succeeds();
    dpkg(&container, "--remove unsnap");
    assert_eq!(container.property("unpackd.service", "ActiveState"), "inactive");
    container.sh("test -e /etc/unsnap/unpackd.toml -a ! -e /usr/bin/unpackd").succeeds();

    // And again, and away; what was unpacked is not the package's.
    dpkg(&container, "--install /mnt/packages/2.deb");
    assert_eq!(container.property("unpackd.service", "ActiveState"), "active");
    dpkg(&container, "--purge unsnap");
    container.sh("test -e /var/lib/unpackd/trees/mine && rm -r /var/lib/unpackd").succeeds();
    assert_eq!(traces(&container), before);

    // Where no systemd runs, such as in a chroot, it installs all the same.
    container.sh("mount -t tmpfs tmpfs /run/systemd && DEBIAN_FRONTEND=noninteractive dpkg --install /mnt/packages/1.deb").succeeds();
}
