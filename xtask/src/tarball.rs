//! Tarballs that depend on nothing but their content.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tar::{Builder, EntryType, Header};

use crate::assets::Asset;

/// Compression level. A guess: programs gain little beyond it, and higher ones take minutes.
const LEVEL: i32 = 12;

/// Returns a tar archive of installed files and documents below a directory, owned by root, with one
/// time for all.
pub fn of_assets(
    directory: &str,
    assets: &[Asset],
    documents: &[PathBuf],
    time: u64,
) -> Result<Vec<u8>> {
    let documents = documents.iter().map(|from| {
        let to = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Asset { from: from.clone(), to, mode: 0o644 }
    });
    let mut files: Vec<Asset> = assets.iter().cloned().chain(documents).collect();
    files.sort_by(|one, other| one.to.cmp(&other.to));
    let mut tar = Builder::new(Vec::new());
    for file in &files {
        let content = fs::read(&file.from).with_context(|| file.from.display().to_string())?;
        append(&mut tar, &format!("{directory}/{}", file.to), &content, file.mode, time)?;
    }
    Ok(tar.into_inner()?)
}

/// Appends a file.
pub fn append(
    tar: &mut Builder<Vec<u8>>,
    path: &str,
    content: &[u8],
    mode: u32,
    time: u64,
) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    tar.append_data(&mut header, path, content).with_context(|| path.to_owned())
}

/// Writes a compressed tarball. The number of threads is fixed, since it decides on the bytes.
pub fn write(path: &Path, tar: &[u8]) -> Result<()> {
    let packed = zstd::bulk::compress(tar, LEVEL)?;
    fs::write(path, packed).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_files_give_equal_bytes_whatever_their_times_and_order() {
        let scratch = tempfile::tempdir().unwrap();
        let pack = |names: [&str; 2]| {
            let assets = names.map(|name| {
                let from = scratch.path().join(name);
                fs::write(&from, name).unwrap();
                Asset { from, to: format!("usr/bin/{name}"), mode: 0o755 }
            });
            of_assets("unsnap-1", &assets, &[], 1_700_000_000).unwrap()
        };
        let first = pack(["b", "a"]);
        assert_eq!(first, pack(["a", "b"]));
        let mut archive = tar::Archive::new(&first[..]);
        let entries: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().display().to_string();
                (path, header.mode().unwrap(), header.mtime().unwrap(), header.uid().unwrap())
            })
            .collect();
        let entry = |name: &str| (format!("unsnap-1/usr/bin/{name}"), 0o755, 1_700_000_000, 0);
        assert_eq!(entries, [entry("a"), entry("b")]);
        let path = scratch.path().join("packed");
        write(&path, &first).unwrap();
        assert_eq!(zstd::stream::decode_all(&fs::read(&path).unwrap()[..]).unwrap(), first);
    }
}
