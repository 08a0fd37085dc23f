//! What is installed where: one list for the Debian package, the RPM package and the tarball.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::build::Built;

/// The package whose manifest has the list.
const PACKAGE: &str = "bin/unpackd";

/// Where cargo-deb expects the programs.
const PROGRAMS: &str = "target/release/";

/// A file that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Where it comes from.
    pub from: PathBuf,
    /// Where it goes, without a slash at the beginning.
    pub to: String,
    /// Its permissions.
    pub mode: u32,
}

impl Asset {
    /// A file with debug symbols, where debuggers look for them.
    pub fn symbols(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self { from: path.to_owned(), to: format!("usr/lib/debug/usr/bin/{name}"), mode: 0o644 }
    }

    /// Returns whether a package manager must keep it once it was edited.
    pub fn is_configuration(&self) -> bool {
        self.to.starts_with("etc/")
    }
}

/// Returns the version of the programs.
pub fn version(root: &Path) -> Result<String> {
    let manifest = table(&root.join("Cargo.toml"))?;
    let version = manifest.get("workspace").and_then(|table| table.get("package"));
    let version = version.and_then(|table| table.get("version")).and_then(Value::as_str);
    Ok(version.context("Cargo.toml has no version")?.to_owned())
}

/// Returns the installed files, in the order of their paths.
pub fn assets(root: &Path, built: &Built) -> Result<Vec<Asset>> {
    let package = root.join(PACKAGE);
    let manifest = table(&package.join("Cargo.toml"))?;
    let metadata = ["package", "metadata", "deb", "assets"];
    let list = metadata
        .iter()
        .try_fold(&Value::Table(manifest.clone()), |value, key| value.get(key))
        .and_then(Value::as_array)
        .cloned()
        .with_context(|| format!("{PACKAGE}/Cargo.toml has no list of files"))?;
    let mut assets = Vec::new();
    for entry in &list {
        let text = |index: usize| entry.get(index).and_then(Value::as_str);
        let (from, to, mode) = text(0)
            .zip(text(1))
            .zip(text(2))
            .map(|((from, to), mode)| (from, to, mode))
            .with_context(|| format!("not three words: {entry}"))?;
        let mode = u32::from_str_radix(mode, 8).with_context(|| format!("mode of {from}"))?;
        let files = match (from.strip_prefix(PROGRAMS), from.strip_suffix("/*")) {
            (Some(program), _) => vec![built.program(program)?.to_owned()],
            (None, Some(directory)) => files_in(&package.join(directory))?,
            (None, None) => vec![package.join(from)],
        };
        for from in files {
            let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let to = to
                .strip_suffix('/')
                .map_or(to.to_owned(), |directory| format!("{directory}/{name}"));
            assets.push(Asset { from, to, mode });
        }
    }
    assets.sort_by(|one, other| one.to.cmp(&other.to));
    Ok(assets)
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// Reads a manifest.
pub fn table(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    text.parse().with_context(|| format!("{} is no TOML", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_their_pages_and_units_are_in_the_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let built = Built::fake(scratch.path());
        let assets = assets(root, &built).unwrap();
        let has = |to: &str| assets.iter().any(|asset| asset.to == to);
        for to in [
            "usr/bin/ledger-tool",
            "usr/bin/unpackd",
            "usr/bin/unsnap-validator",
            "usr/lib/systemd/system/unpackd.service",
            "usr/lib/sysusers.d/unsnap.conf",
            "usr/share/man/man1/ledger-tool.1",
            "usr/share/bash-completion/completions/ledger-tool",
            "etc/unsnap/unpackd.toml",
        ] {
            assert!(has(to), "{to}");
        }
        for asset in &assets {
            assert!(asset.from.is_file(), "{}", asset.from.display());
        }
        let configuration = assets.iter().filter(|asset| asset.is_configuration());
        assert_eq!(configuration.count(), 2);
        assert!(!version(root).unwrap().is_empty());
    }
}
