//! Directories of a validator, from its own command line.

use std::path::{Path, PathBuf};

use unsnap_fastboot::Places;

use super::{
    error::ConfigError,
    places::resolved,
    settings::{Kind, Settings},
};

/// Returns the directories on the command line of a validator: `unit:<name>` for that of a systemd
/// unit, `pid:<number>` for that of a process. The error is a sentence.
pub type ValidatorPlaces = fn(&str) -> Result<Places, String>;

/// Completes the settings by the directories on the validators' own command lines. Refuses a directory
/// that is also configured and differs: one of both would be wrong.
pub(super) fn complete(
    settings: &mut Settings,
    places: Option<ValidatorPlaces>,
) -> Result<(), ConfigError> {
    let Settings { target: targets, archives, .. } = settings;
    for target in targets.iter_mut().filter(|target| !target.validator.is_empty()) {
        let (name, validator) = (&target.name, &target.validator);
        let refused = |reason: &str| ConfigError(format!("[[target]] {name}: {reason}"));
        if target.kind != Kind::Fastboot {
            return Err(refused("validator requires kind = \"fastboot\""));
        }
        let told = places.ok_or_else(|| refused("validator is of no use here"))?;
        let told = told(validator).map_err(|reason| refused(&reason))?;
        let differs = |key: &str, own: &str, found: &str| {
            refused(&format!(
                "{key} is {own}, but the command line of the validator ({validator}) says {found}; \
                 remove the key, or correct it"
            ))
        };
        for (key, own, found) in [
            ("ledger", &mut target.ledger, &told.ledger),
            ("snapshots", &mut target.snapshots, &told.snapshots),
            ("directory of [archives]", &mut archives.directory, &told.full_archives),
            (
                "incremental-directory of [archives]",
                &mut archives.incremental_directory,
                &told.incremental_archives,
            ),
        ] {
            if own.as_os_str().is_empty() {
                own.clone_from(found);
            } else if resolved(own) != resolved(found) {
                let (own, found) = (own.display().to_string(), found.display().to_string());
                return Err(differs(key, &own, &found));
            }
        }
        if target.accounts.is_empty() {
            target.accounts.clone_from(&told.accounts);
        } else if all_resolved(&target.accounts) != all_resolved(&told.accounts) {
            return Err(differs("accounts", &list(&target.accounts), &list(&told.accounts)));
        }
    }
    Ok(())
}

/// Returns paths without links, in an order that does not depend on theirs.
fn all_resolved(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = paths.iter().map(|path| resolved(path)).collect();
    paths.sort();
    paths
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> =
        paths.iter().map(|path: &PathBuf| Path::display(path).to_string()).collect();
    paths.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Sources, TargetKind};

    fn told(validator: &str) -> Result<Places, String> {
        if validator != "unit:sol.service" {
            return Err(format!("there is no {validator}"));
        }
        let mut places = Places::new("/mnt/ledger");
        places.snapshots = "/mnt/snapshots".into();
        places.full_archives = "/mnt/snapshots".into();
        places.incremental_archives = "/mnt/incremental".into();
        places.accounts = vec!["/mnt/one".into(), "/mnt/two".into()];
        Ok(places)
    }

    fn load(archives: &str, target: &str) -> Result<Config, String> {
        let sources = Sources { validator: Some(told), ..Sources::default() };
        let text = format!("[archives]\n{archives}\n[[target]]\nname = \"v\"\n{target}");
        sources.load_text(&text).map_err(|ConfigError(reason)| reason)
    }

    const STATE: &str = "kind = \"fastboot\"\nvalidator = \"unit:sol.service\"\n";

    #[test]
    fn a_unit_alone_says_everything() {
        let config = load("", STATE).unwrap();
        let TargetKind::Fastboot { places, .. } = &config.targets[0].kind else { unreachable!() };
        assert_eq!(*places, told("unit:sol.service").unwrap());
        assert_eq!(config.archives.full, Path::new("/mnt/snapshots"));
        assert_eq!(config.archives.incremental, Path::new("/mnt/incremental"));
    }

    #[test]
    fn what_is_said_twice_must_agree() {
        let same =
            format!("{STATE}ledger = \"/mnt/ledger/\"\naccounts = [\"/mnt/two\", \"/mnt/one\"]\n");
        load("directory = \"/mnt/snapshots\"", &same).unwrap();
        for (archives, target, parts) in [
            (
                "directory = \"/mnt/other\"",
                "",
                ["directory of [archives] is /mnt/other", "/mnt/snapshots"],
            ),
            (
                "incremental-directory = \"/mnt/other\"",
                "",
                ["incremental-directory of [archives] is /mnt/other", "/mnt/incremental"],
            ),
            (
                "",
                "ledger = \"/mnt/other\"",
                ["[[target]] v: ledger is /mnt/other", "says /mnt/ledger"],
            ),
            (
                "",
                "snapshots = \"/mnt/ledger\"",
                ["snapshots is /mnt/ledger", "says /mnt/snapshots"],
            ),
            ("", "accounts = [\"/mnt/one\"]", ["accounts is /mnt/one", "says /mnt/one, /mnt/two"]),
        ] {
            let refused = load(archives, &format!("{STATE}{target}\n")).unwrap_err();
            for part in parts {
                assert!(refused.contains(part), "no {part:?} in {refused}");
            }
        }
    }

    #[test]
    fn a_validator_that_cannot_be_found_is_refused() {
        let refused = load("", &STATE.replace("sol.", "other.")).unwrap_err();
        assert!(refused.contains("[[target]] v: there is no unit:other.service"), "{refused}");
        let tree = STATE.replace("fastboot", "tree");
        let refused = load("directory = \"/a\"", &tree).unwrap_err();
        assert!(refused.contains("validator requires kind = \"fastboot\""), "{refused}");
    }
}
