//! Copies of what was prepared: the validator's code deletes the storages it has loaded when it
//! lets go of them, and directories it does not like.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies SNAPSHOTS/snapshots and the accounts paths under `to`; returns the copies' base and
/// accounts paths.
pub fn prepared(
    snapshots: &Path,
    accounts: &[PathBuf],
    to: &Path,
) -> Result<(PathBuf, Vec<PathBuf>)> {
    let base = to.join("ledger");
    tree(&snapshots.join("snapshots"), &base.join("snapshots"))?;
    let mut copies = Vec::with_capacity(accounts.len());
    for (number, accounts) in accounts.iter().enumerate() {
        let copy = to.join(format!("accounts-{number}"));
        tree(accounts, &copy)?;
        copies.push(copy);
    }
    Ok((base, copies))
}

/// Copies the content of `from`, which may be a link, with owners, times and links.
fn tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let status = Command::new("cp")
        .args(["-a", "--reflink=auto", "--"])
        .args([from.join("."), to.to_path_buf()])
        .status()
        .context("cannot run cp")?;
    if !status.success() {
        bail!("cannot copy {}: cp ended with {status}", from.display());
    }
    Ok(())
}
