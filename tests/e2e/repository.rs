//! The repository itself: its documents and files agree with each other, and its crates and modules are
//! in order.

mod documents;
mod modules;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use self::modules::Modules;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The crates of the root manifest, in its order.
fn crates() -> Vec<String> {
    read("Cargo.toml")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("\"crates/")?.strip_suffix("\","))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_map_of_the_crates_is_complete_and_in_order() {
    let mapped: Vec<String> = read("crates/README.md")
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| [")?.split_once(']')?.0.to_owned()))
        .collect();
    assert_eq!(mapped, crates());
}

#[test]
fn a_crate_depends_only_on_crates_above_it() {
    let crates = crates();
    for (index, name) in crates.iter().enumerate() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let (dependencies, _) =
            manifest.split_once("[dev-dependencies]").unwrap_or((&manifest, ""));
        for below in &crates[index + 1..] {
            let dependency = format!("unsnap-{below}");
            assert!(!dependencies.contains(&dependency), "{name} depends on {below} below it");
        }
    }
}

#[test]
fn only_the_named_crates_contain_unsafe_code() {
    for name in crates() {
        let library = read(&format!("crates/{name}/src/lib.rs"));
        let forbidden = library.contains("#![forbid(unsafe_code)]");
        assert_eq!(
            forbidden,
            !["arena", "zstd", "ring", "decode"].contains(&name.as_str()),
            "{name}"
        );
    }
    for program in [
        "cli/src/lib.rs",
        "ledger-tool/src/main.rs",
        "validator/src/main.rs",
        "unpackd/src/main.rs",
    ] {
        assert!(read(&format!("bin/{program}")).contains("#![forbid(unsafe_code)]"), "{program}");
    }
    let decode = read("crates/decode/src/lib.rs");
    assert!(decode.contains("#![deny(unsafe_code)]"));
    assert_eq!(decode.matches("#[allow(unsafe_code)]").count(), 1, "block.rs alone");
    let zstd = read("crates/zstd/src/lib.rs");
    assert!(zstd.contains("#![deny(unsafe_code)]"));
    assert_eq!(zstd.matches("#[allow(unsafe_code)]").count(), 1, "kernels.rs alone");
}

#[test]
fn the_readme_names_the_archive_that_is_there_and_the_test_command_of_ci() {
    let readme = read("README.md");
    let archive = readme
        .split_whitespace()
        .find(|word| word.starts_with("tests/data/") && word.ends_with(".tar.zst"))
        .expect("the README unpacks an archive");
    assert!(root().join(archive).is_file(), "{archive}");
    assert!(readme.contains("cargo test --workspace"));
    assert!(read(".ci/run").contains("cargo test --workspace"));
}

#[test]
fn every_error_code_has_its_paragraph_and_every_paragraph_its_code() {
    let text = read("docs/troubleshooting.md");
    let mut paragraphs: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let mut codes: Vec<&str> = unsnap_failure::Code::ALL.iter().map(|code| code.name()).collect();
    codes.extend(unsnap_cli::exit::CODES);
    codes.sort_unstable();
    paragraphs.sort_unstable();
    assert_eq!(paragraphs, codes);
}

/// Modules that import each other, by crate. This list stays empty.
const KNOWN_CYCLES: &[(&str, &[&str])] = &[];

#[test]
fn no_crate_has_an_import_cycle_among_its_modules() {
    let members = read("Cargo.toml");
    let members = members
        .lines()
        .filter_map(|line| line.strip_prefix("    \"")?.strip_suffix("\","))
        .filter(|member| member.contains('/'));
    let mut found = BTreeMap::new();
    for member in members {
        let source = root().join(member).join("src");
        let roots = ["lib.rs", "main.rs"].map(|name| source.join(name));
        for file in roots.iter().filter(|file| file.exists()) {
            for (group, cycle) in Modules::of_crate(file).cycles() {
                found.insert((member.to_owned(), group), cycle);
            }
        }
    }
    let known: BTreeSet<(String, Vec<String>)> = KNOWN_CYCLES
        .iter()
        .map(|(member, group)| {
            ((*member).to_owned(), group.iter().map(|&name| name.into()).collect())
        })
        .collect();
    let new: Vec<_> = found.iter().filter(|(group, _)| !known.contains(group)).collect();
    assert!(new.is_empty(), "these modules import each other: {new:#?}");
    let gone: Vec<_> = known.iter().filter(|group| !found.contains_key(group)).collect();
    assert!(gone.is_empty(), "take these out of the list of known cycles: {gone:#?}");
}
