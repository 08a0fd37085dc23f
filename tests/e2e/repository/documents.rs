//! The documents: links between them, the book's table of contents, the README's length.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
};

use super::{read, root};

/// Paths of all Markdown files, relative to the repository's root.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if path.is_dir() && !path.is_symlink() {
                let generated = ["target", "unpacked"].contains(&name) || name.starts_with('.');
                if !generated {
                    folders.push(path);
                }
            } else if path.extension() == Some(OsStr::new("md")) {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found
}

/// The lines of a document outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of the inline links of a document.
fn links(text: &str) -> Vec<&str> {
    prose(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .collect()
}

/// Anchors of a document's headings, as GitHub and mdBook make them: lower case, punctuation dropped,
/// spaces as dashes, and a number behind what occurs again.
fn anchors(text: &str) -> HashSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = HashSet::new();
    for line in prose(text) {
        let Some((hashes, heading)) = line.split_once(' ') else { continue };
        if hashes.is_empty() || hashes.len() > 6 || !hashes.bytes().all(|byte| byte == b'#') {
            continue;
        }
        let slug: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|character| match character {
                ' ' => Some('-'),
                '-' | '_' => Some(character),
                _ => character.is_alphanumeric().then_some(character),
            })
            .collect();
        let again = seen.entry(slug.clone()).or_default();
        anchors.insert(if *again == 0 { slug } else { format!("{slug}-{again}") });
        *again += 1;
    }
    anchors
}

/// The path that a link in `document` leads to, relative to the root.
fn resolve(document: &Path, target: &str) -> PathBuf {
    let mut path = document.parent().unwrap().to_owned();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => {
                assert!(path.pop(), "{} links out of the repository", document.display());
            }
            component => path.push(component),
        }
    }
    path
}

#[test]
fn documents_link_to_what_is_there() {
    let documents: HashMap<PathBuf, String> = documents()
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(root().join(&path)).unwrap();
            (path, text)
        })
        .collect();
    let anchors: HashMap<&Path, HashSet<String>> =
        documents.iter().map(|(path, text)| (path.as_path(), anchors(text))).collect();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (document, text) in &documents {
        for link in links(text).into_iter().filter(|link| !link.contains("://")) {
            checked += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { resolve(document, path) };
            let there = root().join(&target).exists();
            let headings = anchors.get(target.as_path());
            if !there || !anchor.is_empty() && !headings.is_some_and(|all| all.contains(anchor)) {
                wrong.push(format!("{} links to {link}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 100, "only {checked} links were found");
}

/// Their paths begin at the root or in `crates`.
#[test]
fn the_maps_of_the_code_name_files_that_are_there() {
    let mut checked = 0;
    for document in ["ARCHITECTURE.md", "crates/README.md"] {
        let text = read(document);
        let quoted = prose(&text).flat_map(|line| line.split('`').skip(1).step_by(2));
        let paths = quoted.filter(|word| word.contains('/')).map(Path::new);
        for path in paths.filter(|path| path.extension() == Some(OsStr::new("rs"))) {
            checked += 1;
            let there = root().join(path).is_file() || root().join("crates").join(path).is_file();
            assert!(there, "{document} names {}", path.display());
        }
    }
    assert!(checked > 10, "only {checked} paths were found");
}

#[test]
fn the_book_contains_every_document_once() {
    let summary = read("docs/SUMMARY.md");
    let mut listed: Vec<PathBuf> = links(&summary)
        .into_iter()
        .map(|link| resolve(Path::new("docs/SUMMARY.md"), link))
        .collect();
    let count = listed.len();
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), count, "listed twice");
    for document in documents() {
        let summary = document.ends_with("SUMMARY.md");
        if document.starts_with("docs") && !summary {
            assert!(listed.contains(&document), "{document:?} is not in docs/SUMMARY.md");
        }
    }
}

#[test]
fn the_readme_fits_on_one_page() {
    let words = read("README.md").split_whitespace().count();
    assert!(words <= 700, "the README has {words} words");
}

#[test]
fn anchors_are_those_of_github_and_mdbook() {
    let text = "# `validator`: a start\n```sh\n# no heading\n```\n## Ends\n##### Ends\n#hashtag\n";
    let expected = ["validator-a-start", "ends", "ends-1"].map(str::to_owned);
    assert_eq!(anchors(text), HashSet::from(expected));
}
