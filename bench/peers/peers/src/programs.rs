//! Building, finding and naming the programs that are measured.

use crate::console;
use anyhow::{Context, Result, ensure};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A build of unsnap under a name of its own, as `NAME=PATH`; a path alone replaces the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsnapBinary {
    /// Tool id; `unsnap` for the default.
    pub name: String,
    /// The `ledger-tool` binary.
    pub path: PathBuf,
}

impl UnsnapBinary {
    /// Reads `NAME=PATH` or `PATH`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once('=').unwrap_or(("unsnap", text));
        if name.is_empty() || path.is_empty() {
            return Err("expected PATH or NAME=PATH".into());
        }
        Ok(Self { name: name.to_owned(), path: path.into() })
    }
}

/// The programs.
pub struct Programs {
    /// This program, whose subcommands are measured as well.
    pub this: PathBuf,
    /// `make-archive` of the testkit.
    pub make_archive: PathBuf,
    /// `ledger-tool` of unsnap.
    pub unsnap: PathBuf,
    /// Other builds of it.
    pub other_unsnaps: Vec<UnsnapBinary>,
    /// `agave-runner`, or why there is none.
    pub agave: Result<PathBuf, String>,
}

/// The directory of this workspace.
pub fn bench_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The directory of the workspace of unsnap.
pub fn root_directory() -> PathBuf {
    bench_directory().join("../..")
}

impl Programs {
    /// Builds what is not there yet.
    pub fn build(binaries: &[UnsnapBinary], with_agave: bool) -> Result<Self> {
        let (root, bench) = (root_directory(), bench_directory());
        let built = cargo_build(&root, &["unsnap-ledger-tool", "unsnap-testkit"])?;
        let agave = if with_agave {
            // The peer is not ours: where it does not build, the others can still be measured.
            cargo_build(&bench, &["agave-runner"])
                .map(|built| built.join("agave-runner"))
                .map_err(|error| format!("does not build: {error:#}"))
        } else {
            Err("not asked for".into())
        };
        let mut programs = Self {
            this: env::current_exe().context("cannot find this program")?,
            make_archive: built.join("make-archive"),
            unsnap: built.join("ledger-tool"),
            other_unsnaps: Vec::new(),
            agave,
        };
        for binary in binaries {
            ensure!(binary.path.is_file(), "there is no file {}", binary.path.display());
            if binary.name == "unsnap" {
                programs.unsnap.clone_from(&binary.path);
            } else {
                programs.other_unsnaps.push(binary.clone());
            }
        }
        Ok(programs)
    }

    /// Names and versions of the programs that are there.
    pub fn versions(&self) -> Vec<(String, String)> {
        let mut versions = Vec::new();
        let mut add = |name: &str, program: &Path| {
            let output = Command::new(program).arg("--version").output().ok();
            let line =
                output.and_then(|output| first_version(&String::from_utf8_lossy(&output.stdout)));
            if let Some(version) = line {
                versions.push((name.to_owned(), version));
            }
        };
        add("unsnap", &self.unsnap);
        for other in &self.other_unsnaps {
            add(&other.name, &other.path);
        }
        add("zstd", Path::new("zstd"));
        add("tar", Path::new("tar"));
        add("bsdtar", Path::new("bsdtar"));
        let lock = include_str!("../../Cargo.lock");
        for package in ["agave-snapshots", "tar", "zstd"] {
            if let Some(version) = locked_version(lock, package) {
                versions.push((format!("crate {package}"), version.to_owned()));
            }
        }
        versions
    }
}

/// Whether a program can be started by its name alone.
pub fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// Builds packages of a workspace in release mode; returns the directory of the binaries.
fn cargo_build(workspace: &Path, packages: &[&str]) -> Result<PathBuf> {
    console::note(&format!("building {}", packages.join(", ")));
    // Wherever the caller's environment says that builds go, these go where they are looked for.
    let target = workspace.join("target");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace).args(["build", "--release", "--quiet", "--target-dir"]);
    command.arg(&target);
    for package in packages {
        command.args(["-p", package]);
    }
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo build of {} failed", packages.join(", "));
    Ok(target.join("release"))
}

/// The first word with a digit and a dot in what a program prints about itself.
fn first_version(text: &str) -> Option<String> {
    let version = text.split_ascii_whitespace().find(|word| {
        word.contains('.') && word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit())
    })?;
    Some(version.trim_start_matches('v').trim_end_matches(',').to_owned())
}

/// The version of a package in the text of a Cargo.lock.
fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name).skip(1);
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let version = |text| first_version(text).unwrap_or_default();
        assert_eq!(version("*** Zstandard CLI (64-bit) v1.5.4, by Yann Collet ***"), "1.5.4");
        assert_eq!(version("tar (GNU tar) 1.34\nCopyright"), "1.34");
        assert_eq!(version("bsdtar 3.7.2 - libarchive 3.7.2 zlib/1.3"), "3.7.2");
        assert_eq!(first_version("nothing."), None);
    }

    #[test]
    fn peers_are_locked() {
        let lock = include_str!("../../Cargo.lock");
        assert_eq!(locked_version(lock, "agave-snapshots"), Some("4.2.2"));
        assert_eq!(locked_version(lock, "no-such-package"), None);
    }

    #[test]
    fn binaries_have_names() {
        let binary = |name: &str, path: &str| UnsnapBinary { name: name.into(), path: path.into() };
        assert_eq!(UnsnapBinary::parse("a/b"), Ok(binary("unsnap", "a/b")));
        assert_eq!(UnsnapBinary::parse("old=a/b"), Ok(binary("old", "a/b")));
        assert!(UnsnapBinary::parse("old=").is_err());
    }
}
