//! What the package installs, installed from its list of files: without building a package.

use std::{
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};
use unsnap_test_support::{Site, ledger_tool, ledger_tool_path, run, unpackd_path, validator_path};
use unsnap_testkit::spec::ArchiveSpec;

use crate::container::Container;

/// A file of the package.
#[derive(Debug)]
pub struct Asset {
    /// Where it comes from.
    pub from: PathBuf,
    /// Where it goes, absolute.
    pub to: String,
    pub mode: u32,
}

/// The list in bin/unpackd/Cargo.toml, which cargo-deb reads.
pub fn assets() -> Vec<Asset> {
    let package = root().join("bin/unpackd");
    let manifest: Table = fs::read_to_string(package.join("Cargo.toml")).unwrap().parse().unwrap();
    let list = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
    list.iter().flat_map(|asset| files_of(asset, &package)).collect()
}

fn files_of(asset: &Value, package: &Path) -> Vec<Asset> {
    let [from, to, mode] = [0, 1, 2].map(|index| asset[index].as_str().unwrap());
    let mode = u32::from_str_radix(mode, 8).unwrap();
    let files = match from {
        "target/release/unpackd" => vec![unpackd_path().to_owned()],
        "target/release/ledger-tool" => vec![ledger_tool_path().to_owned()],
        "target/release/validator" => vec![validator_path().to_owned()],
        _ => match from.strip_suffix("/*") {
            None => vec![package.join(from)],
            Some(directory) => fs::read_dir(package.join(directory))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect(),
        },
    };
    let place = |file: &Path| match to.strip_suffix('/') {
        Some(directory) => format!("/{directory}/{}", file.file_name().unwrap().to_str().unwrap()),
        None => format!("/{to}"),
    };
    files.into_iter().map(|from| Asset { to: place(&from), from, mode }).collect()
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A container in which everything is as after the package's installation; nothing is started.
pub fn staged() -> Option<Container> {
    let container = Container::boot()?;
    install(&container);
    Some(container)
}

/// The same, with a directory as its `/mnt` that stays when it ends.
pub fn staged_on(mnt: &Path) -> Option<Container> {
    let container = Container::boot_on(mnt)?;
    install(&container);
    Some(container)
}

fn install(container: &Container) {
    for asset in assets() {
        container.install(&asset.from, &asset.to, asset.mode);
    }
    container
        .sh("systemd-sysusers unsnap.conf && systemd-tmpfiles --create unsnap.conf && systemctl daemon-reload")
        .succeeds();
}

/// Puts an archive into a directory as downloads do: under its name only when it is whole.
pub fn place_archive(directory: &Path, slot: u64, total_bytes: u64) -> PathBuf {
    let site = Site::new();
    let spec = ArchiveSpec { slot, total_bytes, ..ArchiveSpec::default() };
    let made = site.archive(&spec);
    fs::create_dir_all(directory).unwrap();
    let partial = directory.join("download.part");
    fs::copy(&made, &partial).unwrap();
    let archive = directory.join(made.file_name().unwrap());
    fs::rename(partial, &archive).unwrap();
    archive
}

/// The version of Landlock that is in force for a run outside of any container.
pub fn landlock_here(archive: &Path) -> Option<String> {
    let mut tool = ledger_tool();
    let site = Site::new();
    tool.args(["unpack", "--format", "json", "--output"]).arg(site.output()).arg(archive);
    let report = run(&mut tool).assert_code(0).json();
    report["sandbox"]["landlock"].as_str().map(str::to_owned)
}
