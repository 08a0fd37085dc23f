//! Checks of targets' directories against each other and the archives.

use std::path::{Path, PathBuf};

use unsnap_fastboot::SearchDirs;

use super::{
    error::ConfigError,
    targets::{Target, TargetKind},
};

/// Subdirectory of downloaded archives.
const REMOTE: &str = "remote";

/// A directory of a target.
struct Place<'a> {
    target: &'a Target,
    /// Key in the configuration.
    key: &'static str,
    path: PathBuf,
    /// Whether files of others in it are lost: a state owns its accounts paths.
    owned: bool,
}

/// Refuses targets that would damage each other, or the archives.
pub fn check_overlaps(targets: &[Target], archives: &SearchDirs) -> Result<(), ConfigError> {
    for (index, target) in targets.iter().enumerate() {
        let places = places(target);
        for other in targets[..index].iter().flat_map(self::places) {
            for place in &places {
                place.refuse(&other)?;
            }
        }
        for (one, place) in places.iter().enumerate().filter(|(_, place)| place.owned) {
            let others = places.iter().enumerate().filter(|(other, _)| *other != one);
            if let Some((_, other)) = others.into_iter().find(|(_, it)| it.path == place.path) {
                let (path, name) = (place.path.display(), &target.name);
                let (key, other) = (place.key, other.key);
                return refused(format!("[[target]] {name}: {path} is both {key} and {other}"));
            }
        }
        let TargetKind::Tree { directory } = &target.kind else { continue };
        for archives in [&archives.full, &archives.incremental] {
            let directory = resolved(directory);
            if [resolved(archives), resolved(&archives.join(REMOTE))].contains(&directory) {
                let (name, path) = (&target.name, directory.display());
                return refused(format!(
                    "[[target]] {name}: directory {path} holds the archives; trees need one of \
                     their own"
                ));
            }
        }
    }
    Ok(())
}

fn refused(reason: String) -> Result<(), ConfigError> {
    Err(ConfigError(reason))
}

/// Returns the directories that a target writes to.
fn places(target: &Target) -> Vec<Place<'_>> {
    let place = |key, path: &Path, owned| Place { target, key, path: resolved(path), owned };
    match &target.kind {
        TargetKind::Tree { directory } => vec![place("directory", directory, true)],
        TargetKind::Fastboot { places, .. } => {
            let accounts = places.accounts.iter().map(|path| place("accounts", path, true));
            let others = [
                place("ledger", &places.ledger, false),
                place("snapshots", &places.snapshots, false),
            ];
            accounts.chain(others).collect()
        }
    }
}

/// Returns a path without links; the path itself if it cannot be examined.
pub(super) fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.components().collect())
}

impl Place<'_> {
    /// Refuses the same directory for two targets, and one inside of another that is owned.
    fn refuse(&self, other: &Self) -> Result<(), ConfigError> {
        let is_inside = |inner: &Self, outer: &Self| {
            inner.path == outer.path || outer.owned && inner.path.starts_with(&outer.path)
        };
        let (inner, outer) = if is_inside(self, other) {
            (self, other)
        } else if is_inside(other, self) {
            (other, self)
        } else {
            return Ok(());
        };
        let relation = if inner.path == outer.path { "is also" } else { "lies in" };
        refused(format!(
            "[[target]] {}: {} {} {relation} {} {} of [[target]] {}: targets must not share \
             directories",
            inner.target.name,
            inner.key,
            inner.path.display(),
            outer.key,
            outer.path.display(),
            outer.target.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{Config, Sources};

    fn load(text: &str) -> Result<Config, ConfigError> {
        Sources::default().load_text(&format!("[archives]\ndirectory = \"/a\"\n{text}"))
    }

    fn tree(name: &str, directory: &str) -> String {
        format!("[[target]]\nname = \"{name}\"\ndirectory = \"{directory}\"\n")
    }

    fn state(name: &str, ledger: &str, accounts: &str) -> String {
        format!(
            "[[target]]\nname = \"{name}\"\nkind = \"fastboot\"\nledger = \"{ledger}\"\n\
             accounts = [\"{accounts}\"]\n"
        )
    }

    #[track_caller]
    fn refused(text: &str, parts: &[&str]) {
        let ConfigError(reason) = load(text).unwrap_err();
        for part in parts {
            assert!(reason.contains(part), "no {part:?} in: {reason}");
        }
    }

    #[test]
    fn targets_that_would_damage_each_other_are_refused_by_name() {
        let two = |one: String, other: String| one + &other;
        refused(
            &two(state("a", "/l1", "/mnt/acc"), state("b", "/l2", "/mnt/acc/")),
            &["accounts /mnt/acc is also accounts /mnt/acc", "[[target]] b", "[[target]] a"],
        );
        refused(
            &two(state("a", "/l1", "/mnt/acc"), state("b", "/l2", "/mnt/acc/inner")),
            &["accounts /mnt/acc/inner lies in accounts /mnt/acc"],
        );
        refused(
            &two(state("a", "/l1", "/acc1"), state("b", "/l1", "/acc2")),
            &["ledger /l1 is also ledger /l1"],
        );
        refused(&two(tree("a", "/t"), tree("b", "/t/inner")), &["directory /t/inner lies in"]);
        refused(&two(tree("a", "/t/inner"), tree("b", "/t")), &["directory /t/inner lies in"]);
        refused(&two(state("a", "/l", "/acc"), tree("b", "/acc/run")), &["lies in accounts /acc"]);
        refused(&state("a", "/l", "/l"), &["/l is both accounts and ledger"]);
        refused(&tree("a", "/a"), &["directory /a holds the archives"]);
        refused(&tree("a", "/a/remote"), &["directory /a/remote holds the archives"]);
        for good in [
            two(state("a", "/l1", "/acc1"), state("b", "/l2", "/acc2")),
            two(state("a", "/mnt", "/mnt/a"), state("b", "/mnt/b", "/mnt/b/accounts")),
            two(tree("a", "/t"), tree("b", "/tt")),
            two(tree("a", "/l/trees"), state("b", "/l", "/l/accounts")),
        ] {
            assert!(load(&good).is_ok(), "{good}: {:?}", load(&good));
        }
    }

    #[test]
    fn one_accounts_path_under_two_names_is_seen_through() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name).display().to_string();
        fs::create_dir(at("acc")).unwrap();
        std::os::unix::fs::symlink(at("acc"), at("link")).unwrap();
        refused(
            &(state("a", "/l1", &at("acc")) + &state("b", "/l2", &at("link"))),
            &["is also accounts"],
        );
    }
}
