//! Where the validator keeps what: what this program is told goes before what the validator is told.

use std::path::{Path, PathBuf};

use unsnap_fastboot::Places;

use crate::{cli::PlacesArgs, line::Said};

/// The validator's default (`agave-validator` 4.2, `DefaultArgs`), in the working directory.
const LEDGER: &str = "ledger";

/// The places, and flags that both have with different values.
pub fn places(args: &PlacesArgs, said: &Said) -> (Places, Vec<&'static str>) {
    let mut differing = Vec::new();
    let mut choose = |flag, own: &Option<PathBuf>, other: &Option<PathBuf>| {
        if own.is_some() && other.is_some() && own != other {
            differing.push(flag);
        }
        own.clone().or_else(|| other.clone())
    };
    let ledger = choose("--ledger", &args.ledger, &said.ledger);
    let snapshots = choose("--snapshots", &args.snapshots, &said.snapshots);
    let full = choose(
        "--full-snapshot-archive-path",
        &args.full_snapshot_archive_path,
        &said.full_archives,
    );
    let incremental = choose(
        "--incremental-snapshot-archive-path",
        &args.incremental_snapshot_archive_path,
        &said.incremental_archives,
    );
    let accounts = [&args.accounts, &said.accounts].into_iter().find(|paths| !paths.is_empty());
    if !args.accounts.is_empty() && !said.accounts.is_empty() && args.accounts != said.accounts {
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
        places(&cli.places, &Said::by(&cli.command[1..]))
    }

    #[test]
    fn what_the_validator_is_told_counts_where_nothing_else_is_said() {
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
