//! The validator's directories: flags of this program take precedence over the validator's.

use std::path::{Path, PathBuf};

use unsnap_fastboot::Places;

use crate::{args::ValidatorArgs, cli::PlacesArgs};

/// The validator's default ledger (`agave-validator` 4.2, `DefaultArgs`), in the working directory.
const LEDGER: &str = "ledger";

/// Returns the directories, and the flags that both programs were given with different values.
pub fn places(own: &PlacesArgs, validator: &ValidatorArgs) -> (Places, Vec<&'static str>) {
    let mut differing = Vec::new();
    let mut choose = |flag, own: &Option<PathBuf>, other: &Option<PathBuf>| -> Option<PathBuf> {
        if own.is_some() && other.is_some() && own != other {
            differing.push(flag);
        }
        own.clone().or_else(|| other.clone())
    };
    let ledger = choose("--ledger", &own.ledger, &validator.ledger);
    let snapshots = choose("--snapshots", &own.snapshots, &validator.snapshots);
    let full = choose(
        "--full-snapshot-archive-path",
        &own.full_snapshot_archive_path,
        &validator.full_archives,
    );
    let incremental = choose(
        "--incremental-snapshot-archive-path",
        &own.incremental_snapshot_archive_path,
        &validator.incremental_archives,
    );
    let mut given =
        [&own.accounts, &validator.accounts].into_iter().filter(|paths| !paths.is_empty());
    let accounts = given.next();
    if given.next().is_some_and(|others| accounts != Some(others)) {
        differing.push("--accounts");
    }

    let mut places = Places::new(ledger.as_deref().unwrap_or(Path::new(LEDGER)));
    if let Some(snapshots) = snapshots {
        places.full_archives.clone_from(&snapshots);
        places.incremental_archives.clone_from(&snapshots);
        places.snapshots = snapshots;
    }
    if let Some(full) = full {
        places.full_archives = full;
    }
    if let Some(incremental) = incremental {
        places.incremental_archives = incremental;
    }
    if let Some(accounts) = accounts {
        places.accounts.clone_from(accounts);
    }
    (places, differing)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn of(line: &str) -> (Places, Vec<&'static str>) {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        places(&cli.places, &ValidatorArgs::parse(&cli.command[1..]))
    }

    #[test]
    fn the_validators_flags_count_unless_this_program_has_its_own() {
        let (places, differing) = of("validator agave");
        assert_eq!((places, differing), (Places::new("ledger"), vec![]));
        let (places, _) = of("validator agave --ledger x");
        assert_eq!(places, Places::new("x"));
        let (places, differing) =
            of("validator --ledger o agave --ledger x --snapshots s --accounts a,b");
        assert_eq!(places.ledger, Path::new("o"));
        assert_eq!(places.snapshots, Path::new("s"));
        assert_eq!(places.full_archives, Path::new("s"));
        assert_eq!(places.incremental_archives, Path::new("s"));
        assert_eq!(places.accounts, [Path::new("a"), Path::new("b")]);
        assert_eq!(differing, ["--ledger"]);
        let (places, differing) = of(
            "validator --accounts a --full-snapshot-archive-path f agave -l x --accounts a --incremental-snapshot-archive-path=i",
        );
        assert_eq!(places.snapshots, Path::new("x"));
        assert_eq!(places.full_archives, Path::new("f"));
        assert_eq!(places.incremental_archives, Path::new("i"));
        assert_eq!(places.accounts, [Path::new("a")]);
        assert!(differing.is_empty());
    }
}
