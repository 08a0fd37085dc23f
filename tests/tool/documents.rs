//! The documents for operators name only flags, settings and metrics that exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::programs::{PROGRAMS, commands, help, options};

/// Documents of which operators copy words.
const DOCUMENTS: [&str; 13] = [
    "comparison",
    "faq",
    "fleet",
    "looking-up",
    "network",
    "quick-start",
    "schemas",
    "service",
    "tables",
    "unpacking",
    "validator",
    "verification",
    "your-machine",
];

/// Flags of other programs that the documents name.
const OF_OTHERS: [(&str, &[&str]); 9] = [
    (
        "agave-validator",
        &[
            "--entrypoint",
            "--expected-genesis-hash",
            "--expected-shred-version",
            "--hard-fork",
            "--identity",
            "--log",
            "--no-snapshot-fetch",
            "--use-snapshot-archives-at-startup",
        ],
    ),
    ("cargo", &["--no-build", "--release", "--workspace"]),
    ("check-jsonschema", &["--schemafile"]),
    ("curl", &["--fail", "--silent"]),
    ("logger", &["--tag"]),
    ("systemctl", &["--now"]),
    ("systemd-run", &["--pipe", "--property"]),
    ("zstd", &["--long"]),
    // Of every program of clap.
    ("help", &["--help"]),
];

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Words of a text that begin like this, and go on with these characters.
fn words<'a>(text: &'a str, begin: &str, is_part: impl Fn(char) -> bool) -> BTreeSet<&'a str> {
    let starts = text.match_indices(begin).map(|(at, _)| at);
    let starts = starts.filter(|at| !text[..*at].ends_with(&is_part));
    let word = |at: usize| {
        let rest = &text[at..];
        &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]
    };
    starts.map(word).filter(|word| word.len() > begin.len()).collect()
}

fn documents() -> impl Iterator<Item = (&'static str, String)> {
    DOCUMENTS.into_iter().map(|name| (name, read(&format!("docs/{name}.md"))))
}

#[test]
fn every_flag_in_the_documents_exists() {
    let own =
        PROGRAMS.into_iter().flat_map(commands).flat_map(|words| options(&help(&words).stdout));
    let own: BTreeSet<String> = own.collect();
    let others: BTreeSet<&str> =
        OF_OTHERS.iter().flat_map(|(_, flags)| flags.iter().copied()).collect();
    let mut checked = BTreeSet::new();
    for (name, text) in documents() {
        for flag in words(&text, "--", |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        {
            // A rule of a table.
            if flag.bytes().all(|byte| byte == b'-') {
                continue;
            }
            assert!(own.contains(flag) || others.contains(flag), "docs/{name}.md names {flag}");
            checked.insert(flag.to_owned());
        }
    }
    assert!(checked.len() > 50, "{checked:?}");
    let unused: Vec<_> = others.iter().filter(|flag| !checked.contains(**flag)).collect();
    assert!(unused.is_empty(), "no document names {unused:?}");
}

#[test]
fn every_metric_in_the_documents_exists() {
    // Every metric of unpackd is on the dashboard; a test of the crate control sees to that.
    let known = read("deploy/grafana/unsnap.json") + &read("bin/validator/src/record.rs");
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let known = words(&known, "unsnap_", is_part);
    let mut checked = 0;
    for (name, text) in documents() {
        for metric in words(&text, "unsnap_", is_part) {
            assert!(known.contains(metric), "docs/{name}.md names {metric}");
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked}");
}

/// Keys of the configuration by section. Those that have no default are commented out.
fn keys(config: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let (mut keys, mut section) = (BTreeMap::<_, BTreeSet<_>>::new(), "");
    for line in config.lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = name.0.trim_start_matches('[');
        } else if let Some((key, _)) = line.split_once(" = ") {
            keys.entry(section).or_default().insert(key);
        }
    }
    keys
}

#[test]
fn every_setting_in_the_documents_exists() {
    let config = read("config/unpackd.toml");
    let keys = keys(&config);
    let mut checked = 0;
    for (name, text) in documents() {
        let text: Vec<&str> = text.split_whitespace().collect();
        let text = text.join(" ");
        for (at, _) in text.match_indices("`[") {
            let Some((section, _)) = text[at + 2..].split_once("]`") else { continue };
            let found = keys.get(section);
            assert!(found.is_some(), "docs/{name}.md names [{section}]");
            // `min-slots` or `windows` of `[cadence]`
            let Some(mut before) = text[..at].strip_suffix(" of ") else { continue };
            while let Some((rest, key)) =
                before.strip_suffix('`').and_then(|before| before.rsplit_once('`'))
            {
                let known = found.is_some_and(|keys| keys.contains(key));
                assert!(known, "docs/{name}.md names {key} of [{section}]");
                checked += 1;
                let link = [", ", " and ", " or "].into_iter().find_map(|it| rest.strip_suffix(it));
                before = link.unwrap_or_default();
            }
        }
    }
    assert!(checked >= 8, "only {checked}");
}
