//! The crates that the programs consist of, as `CycloneDX` 1.5 lists them.

use std::{collections::BTreeSet, path::Path, process::Command};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::output_of;

/// The packages whose programs are released.
const ROOTS: [&str; 3] = ["unsnap-ledger-tool", "unsnap-validator", "unsnap-unpackd"];

/// Returns the list for the workspace. `time` is that of the release.
pub fn of_workspace(root: &Path, version: &str, time: u64) -> Result<Vec<u8>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]).current_dir(root);
    let metadata: Value = serde_json::from_str(&output_of(&mut cargo)?)?;
    Ok(serde_json::to_vec_pretty(&of_metadata(&metadata, version, time)?)?)
}

fn of_metadata(metadata: &Value, version: &str, time: u64) -> Result<Value> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let (packages, nodes) = (list(metadata, "packages"), list(&metadata["resolve"], "nodes"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_root = |package: &&Value| ROOTS.contains(&text(&package["name"]).as_str());
    let mut open: Vec<String> =
        packages.iter().filter(is_root).map(|package| text(&package["id"])).collect();
    anyhow::ensure!(open.len() == ROOTS.len(), "not all programs are in the workspace");
    // What is linked: neither dependencies of tests nor of builds.
    let mut linked = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !linked.insert(id.clone()) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == id).context("a crate is not resolved")?;
        for dependency in list(node, "deps") {
            if list(&dependency, "dep_kinds").iter().any(|kind| kind["kind"].is_null()) {
                open.push(text(&dependency["pkg"]));
            }
        }
    }
    let mut components: Vec<Value> = Vec::new();
    for package in packages.iter().filter(|package| linked.contains(&text(&package["id"]))) {
        let (name, number) = (text(&package["name"]), text(&package["version"]));
        let mut component = json!({
            "type": "library",
            "name": name,
            "version": number,
            "bom-ref": format!("{name}@{number}"),
        });
        if package["license"].is_string() {
            component["licenses"] = json!([{ "expression": package["license"] }]);
        }
        if package["source"].is_string() {
            component["purl"] = json!(format!("pkg:cargo/{name}@{number}"));
        }
        components.push(component);
    }
    components.sort_by_key(|component| text(&component["bom-ref"]));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "properties": [{ "name": "unsnap:commit-time", "value": time.to_string() }],
            "component": { "type": "application", "name": "unsnap", "version": version },
        },
        "components": components,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_only_tests_need_is_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let list: Value = serde_json::from_slice(&of_workspace(root, "1", 7).unwrap()).unwrap();
        let components = list["components"].as_array().unwrap();
        let has = |name: &str| components.iter().any(|component| component["name"] == name);
        for name in ["zstd", "io-uring", "tar", "crossbeam", "clap", "tracing", "unsnap-decode"] {
            assert!(has(name), "{name}");
        }
        assert!(!has("criterion") && !has("proptest") && !has("unsnap-xtask"));
        for component in components {
            assert!(component["licenses"].is_array(), "{component}");
        }
    }
}
