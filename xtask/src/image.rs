//! A container image in the layout of the Open Container Initiative, with one program and nothing else.
//!
//! `docker load`, `podman load` and `skopeo copy oci-archive:` read it.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tar::Builder;

use crate::{sums::sha256, tarball::append};

/// Directories that a program expects to be there.
const DIRECTORIES: [&str; 2] = ["tmp/", "data/"];

/// Returns an image as a tar archive.
pub fn of_program(program: &Path, processor: &str, version: &str, time: u64) -> Result<Vec<u8>> {
    let name = program.file_name().context("a program has a name")?.to_string_lossy();
    let content = fs::read(program).with_context(|| program.display().to_string())?;
    let mut layer = Builder::new(Vec::new());
    for directory in DIRECTORIES {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o1777);
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        layer.append_data(&mut header, directory, &[][..])?;
    }
    append(&mut layer, &format!("usr/bin/{name}"), &content, 0o755, time)?;
    let layer = layer.into_inner()?;
    let config = json!({
        "architecture": processor,
        "os": "linux",
        "config": {
            "Entrypoint": [format!("/usr/bin/{name}")],
            "WorkingDir": "/data",
            "Labels": {
                "org.opencontainers.image.title": name,
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
        "history": [{ "created_by": "cargo xtask dist" }],
    });
    let config = serde_json::to_vec(&config)?;
    let described = |kind: &str, bytes: &[u8]| {
        json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{}", sha256(bytes)),
            "size": bytes.len(),
        })
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("config.v1+json", &config),
        "layers": [described("layer.v1.tar", &layer)],
    });
    let manifest = serde_json::to_vec(&manifest)?;
    let mut entry = described("manifest.v1+json", &manifest);
    entry["platform"] = json!({ "architecture": processor, "os": "linux" });
    entry["annotations"] = json!({ "org.opencontainers.image.ref.name": version });
    let index: Value = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    let mut image = Builder::new(Vec::new());
    let mut add = |path: &str, bytes: &[u8]| append(&mut image, path, bytes, 0o644, time);
    add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    add("index.json", &serde_json::to_vec(&index)?)?;
    for blob in [&manifest, &config, &layer] {
        add(&format!("blobs/sha256/{}", sha256(blob)), blob)?;
    }
    Ok(image.into_inner()?)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use super::*;

    #[test]
    fn every_digest_names_a_blob_and_the_layer_has_the_program() {
        let scratch = tempfile::tempdir().unwrap();
        let program = scratch.path().join("ledger-tool");
        fs::write(&program, "a program").unwrap();
        let image = of_program(&program, "amd64", "1.2.3", 7).unwrap();
        assert_eq!(image, of_program(&program, "amd64", "1.2.3", 7).unwrap());
        let mut blobs = BTreeMap::new();
        for entry in tar::Archive::new(&image[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            blobs.insert(path, bytes);
        }
        let blob = |described: &Value| {
            let digest = described["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let bytes = &blobs[&format!("blobs/sha256/{digest}")];
            assert_eq!(described["size"], bytes.len());
            assert_eq!(sha256(bytes), digest);
            bytes.clone()
        };
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let manifest = read(&blob(&read(&blobs["index.json"])["manifests"][0]));
        let config = read(&blob(&manifest["config"]));
        let layer = blob(&manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&layer)));
        assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/ledger-tool");
        let mut archive = tar::Archive::new(&layer[..]);
        let last = archive.entries().unwrap().last().unwrap().unwrap();
        assert_eq!(last.path().unwrap().to_str(), Some("usr/bin/ledger-tool"));
        assert_eq!(last.header().mode().unwrap(), 0o755);
        assert_eq!(blobs.len(), 5);
    }
}
