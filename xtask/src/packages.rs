//! The Debian and the RPM package.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{assets::Asset, build::Built, run};

/// Where the programs of a release are looked for by cargo-deb.
const PROFILE: &str = "release";

/// Has cargo-deb build the Debian package of the stripped programs.
pub fn debian(root: &Path, built: &Built, output: &Path, time: u64) -> Result<()> {
    let target = staged(root, built)?;
    run(Command::new("cargo-deb")
        .args(["deb", "--no-build", "--no-strip", "--package", "unsnap-unpackd"])
        .args(["--profile", PROFILE, "--target", built.target, "--output"])
        .arg(output)
        .current_dir(root)
        .env("CARGO_TARGET_DIR", target)
        .env("SOURCE_DATE_EPOCH", time.to_string()))
    .context("cargo install --locked cargo-deb")
}

/// Puts the stripped programs where a build would have put them.
fn staged(root: &Path, built: &Built) -> Result<std::path::PathBuf> {
    let target = root.join("target/packages");
    let directory = target.join(built.target).join(PROFILE);
    fs::create_dir_all(&directory)?;
    for program in &built.programs {
        let name = program.file_name().context("a program has a name")?;
        fs::copy(program, directory.join(name))?;
    }
    Ok(target)
}

/// Has cargo-generate-rpm build the RPM package of the same files.
pub fn rpm(root: &Path, built: &Built, assets: &[Asset], output: &Path, time: u64) -> Result<()> {
    let metadata = root.join("target/packages/rpm.toml");
    let target = staged(root, built)?;
    fs::write(&metadata, rpm_metadata(assets))?;
    run(Command::new("cargo-generate-rpm")
        .args(["generate-rpm", "--package", "bin/unpackd", "--target", built.target])
        .args(["--auto-req", "disabled", "--source-date", &time.to_string()])
        .arg("--metadata-overwrite")
        .arg(&metadata)
        .arg("--output")
        .arg(output)
        .current_dir(root)
        .env("CARGO_TARGET_DIR", target))
    .context("cargo install --locked cargo-generate-rpm")
}

/// Returns what cargo-generate-rpm is to know: the list of files of the Debian package, and scripts that
/// do what those of Debian do.
fn rpm_metadata(assets: &[Asset]) -> String {
    let mut text = String::from(
        "name = \"unsnap\"\nlicense = \"Apache-2.0\"\n\
         summary = \"Unpacks Solana snapshot archives fast and durably\"\n\
         post_install_script = \"\"\"\n\
         systemd-sysusers unsnap.conf || :\n\
         systemd-tmpfiles --create unsnap.conf || :\n\
         systemctl daemon-reload || :\n\
         if [ $1 -eq 1 ]; then systemctl enable --now unpackd.socket unpackd.service || :\n\
         else systemctl try-restart unpackd.service || :; fi\n\
         \"\"\"\n\
         pre_uninstall_script = \"\"\"\n\
         if [ $1 -eq 0 ]; then systemctl disable --now unpackd.service unpackd.socket || :; fi\n\
         \"\"\"\n\
         post_uninstall_script = \"\"\"\n\
         systemctl daemon-reload || :\n\
         \"\"\"\n",
    );
    for asset in assets {
        let Asset { from, to, mode } = asset;
        let _ = write!(
            text,
            "\n[[assets]]\nsource = {:?}\ndest = {:?}\nmode = \"{mode:o}\"\n",
            from.display().to_string(),
            format!("/{to}"),
        );
        if asset.is_configuration() {
            text += "config = \"noreplace\"\n";
        }
        if to.starts_with("usr/share/doc/") || to.starts_with("usr/share/man/") {
            text += "doc = true\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_has_every_file_and_keeps_edited_configuration() {
        let asset = |to: &str, mode| Asset { from: "/a b/\"c\"".into(), to: to.to_owned(), mode };
        let text = rpm_metadata(&[asset("etc/unsnap/x.toml", 0o644), asset("usr/bin/x", 0o755)]);
        let table: toml::Table = text.parse().unwrap();
        let assets = table["assets"].as_array().unwrap();
        assert_eq!(assets.len(), 2);
        assert_eq!(assets[0]["config"].as_str(), Some("noreplace"));
        assert_eq!(assets[1]["dest"].as_str(), Some("/usr/bin/x"));
        assert_eq!(assets[1]["mode"].as_str(), Some("755"));
        assert_eq!(assets[1]["source"].as_str(), Some("/a b/\"c\""));
        assert!(table["post_install_script"].as_str().unwrap().contains("sysusers"));
    }
}
