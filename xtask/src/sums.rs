//! SHA-256 sums of results.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

/// The file with the sums, as `sha256sum --check` reads it. Whoever releases signs this file alone.
pub const SUMS: &str = "SHA256SUMS";

/// Returns the digest of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the digest of every file of a directory but the sums, in the order of their names.
pub fn of_directory(directory: &Path) -> Result<Vec<(String, String)>> {
    let mut sums = BTreeMap::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && name != SUMS {
            sums.insert(name, sha256(&fs::read(entry.path())?));
        }
    }
    Ok(sums.into_iter().collect())
}

/// Writes the sums of a directory, and returns them.
pub fn write(directory: &Path) -> Result<Vec<(String, String)>> {
    let sums = of_directory(directory)?;
    let mut text = String::new();
    for (name, sum) in &sums {
        writeln!(text, "{sum}  {name}")?;
    }
    fs::write(directory.join(SUMS), text)?;
    Ok(sums)
}

/// Returns the names of files that only one has, or that differ.
pub fn differences(one: &[(String, String)], other: &[(String, String)]) -> Vec<String> {
    let only = |one: &[(String, String)], other: &[(String, String)]| {
        let missing = one.iter().filter(|sum| !other.contains(sum));
        missing.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let mut names = only(one, other);
    names.extend(only(other, one));
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_sha256sum_and_differences_are_named() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("b"), "abc").unwrap();
        fs::write(scratch.path().join("a"), "").unwrap();
        let sums = write(scratch.path()).unwrap();
        let text = fs::read_to_string(scratch.path().join(SUMS)).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text, format!("{empty}  a\n{abc}  b\n"));
        assert_eq!(of_directory(scratch.path()).unwrap(), sums, "not the sums themselves");
        assert_eq!(differences(&sums, &sums), [""; 0]);
        fs::write(scratch.path().join("b"), "abd").unwrap();
        fs::write(scratch.path().join("c"), "").unwrap();
        let other = of_directory(scratch.path()).unwrap();
        assert_eq!(differences(&sums, &other), ["b", "c"]);
    }
}
