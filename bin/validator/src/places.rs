//! The validator's directories.

use unsnap_cli::{
    settings::RequestError,
    validator::{OwnPlaces, Told, refuse_missing},
};
use unsnap_fastboot::{ExpectedCluster, Places};

use crate::{cli::PlacesArgs, target::Target};

/// Returns the directories of the validator that is to be started, if one is. They are those of its
/// own command line, of a unit or of a running process; flags of this program must agree with these.
///
/// Nothing is guessed for a program that is not `agave-validator`: its directories must be given.
/// They must exist, except the validator's default accounts path.
pub fn places(args: &PlacesArgs, target: Option<&Target<'_>>) -> Result<Places, RequestError> {
    Ok(places_and_cluster(args, target)?.0)
}

/// Returns the directories that were named, although some may be missing; `None` if they are not known
/// or contradict each other.
pub fn likely(args: &PlacesArgs, target: Option<&Target<'_>>) -> Option<Places> {
    told(args, target).ok()?.places().ok()
}

/// Returns the same as [`places`], and what the validator's command line expects of its cluster.
pub fn places_and_cluster(
    args: &PlacesArgs,
    target: Option<&Target<'_>>,
) -> Result<(Places, ExpectedCluster), RequestError> {
    let told = told(args, target)?;
    let places = told.places()?;
    refuse_missing(&places)?;
    Ok((places, told.cluster()))
}

fn told<'a>(args: &'a PlacesArgs, target: Option<&Target<'_>>) -> Result<Told<'a>, RequestError> {
    let own = OwnPlaces {
        ledger: args.ledger.as_deref(),
        snapshots: args.snapshots.as_deref(),
        full_archives: args.full_snapshot_archive_path.as_deref(),
        incremental_archives: args.incremental_snapshot_archive_path.as_deref(),
        accounts: &args.accounts,
    };
    let mut lines = args.source.lines()?;
    lines.extend(target.and_then(Target::line));
    let missing = own.missing();
    if let Some(target) = target
        && lines.is_empty()
        && !missing.is_empty()
    {
        return Err(RequestError(format!(
            "{} is not agave-validator, so its directories are not known: give {}, or --from-unit or \
             --from-pid",
            target.program().display(),
            missing.join(" and ")
        )));
    }
    Ok(Told { own, lines })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    /// Places for a command line, in which `@` stands for a directory that exists.
    fn of(directory: &Path, line: &str) -> Result<Places, String> {
        let line = line.replace('@', &directory.display().to_string());
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        places(&cli.places, Target::of(&cli.command).as_ref()).map_err(|error| error.0)
    }

    #[test]
    fn the_validators_flags_count_and_this_programs_must_agree() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["l", "s", "a"] {
            fs::create_dir(scratch.path().join(name)).unwrap();
        }
        let path = |name: &str| scratch.path().join(name);
        let of = |line| of(scratch.path(), line);
        assert_eq!(of("validator agave-validator -l @/l"), Ok(Places::new(path("l"))));
        let places = of("validator agave-validator -l @/l --snapshots @/s --accounts @/a").unwrap();
        assert_eq!(places.snapshots, path("s"));
        assert_eq!(places.full_archives, path("s"));
        assert_eq!(places.accounts, [path("a")]);
        of("validator --ledger @/l/../l --accounts @/a agave-validator -l @/l --accounts @/a")
            .unwrap();
        let error = of("validator --ledger @/s agave-validator -l @/l").unwrap_err();
        assert!(error.starts_with("--ledger is given twice and differs"), "{error}");
        let error = of("validator agave-validator -l @/l --snapshots @/sn").unwrap_err();
        assert!(error.ends_with("/sn (--snapshots) does not exist"), "{error}");
        // Without a command there is no other source.
        assert_eq!(of("validator --prepare-only -l @/l"), Ok(Places::new(path("l"))));
    }

    #[test]
    fn nothing_is_guessed_for_a_command_that_is_not_the_validator() {
        let scratch = tempfile::tempdir().unwrap();
        for (line, missing) in [
            ("validator /x/start.sh", "--ledger and --snapshots and --accounts"),
            ("validator --ledger @ -- /x/start.sh --snapshots @", "--snapshots and --accounts"),
            ("validator --ledger @ --accounts @/a sh -c agave-validator", "--snapshots"),
        ] {
            let error = of(scratch.path(), line).unwrap_err();
            assert!(error.contains(&format!("give {missing}, or --from-unit")), "{line}: {error}");
        }
        let line =
            "validator --ledger @ --snapshots @ --accounts @/accounts -- /x/start.sh -l /other";
        assert_eq!(of(scratch.path(), line), Ok(Places::new(scratch.path())));
    }
}
