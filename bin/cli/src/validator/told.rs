//! Directories from several sources, which must agree.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use unsnap_fastboot::{ExpectedCluster, Places};

use super::ValidatorArgs;
use crate::settings::RequestError;

/// The validator's default ledger (`agave-validator` 4.2, `DefaultArgs`), in the working directory.
const LEDGER: &str = "ledger";

/// Directories named by flags of one of unsnap's programs. Each may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnPlaces<'a> {
    /// `--ledger`
    pub ledger: Option<&'a Path>,
    /// `--snapshots`
    pub snapshots: Option<&'a Path>,
    /// `--full-snapshot-archive-path`
    pub full_archives: Option<&'a Path>,
    /// `--incremental-snapshot-archive-path`
    pub incremental_archives: Option<&'a Path>,
    /// `--accounts`; empty if it is missing.
    pub accounts: &'a [PathBuf],
}

/// A validator's whole command line. The directories that it does not name are the validator's
/// defaults.
#[derive(Clone, Debug)]
pub struct Line {
    /// The source, in words: "the unit sol.service", "process 123".
    pub source: String,
    /// The arguments behind the program's name.
    pub arguments: ValidatorArgs,
    /// The working directory, to which relative paths refer; `None` if it is that of this process.
    pub directory: Option<PathBuf>,
}

impl Line {
    /// Returns the directories that a validator with this command line uses.
    pub fn places(&self) -> Places {
        let ValidatorArgs {
            ledger, snapshots, full_archives, incremental_archives, accounts, ..
        } = &self.arguments;
        let own = OwnPlaces {
            ledger: ledger.as_deref(),
            snapshots: snapshots.as_deref(),
            full_archives: full_archives.as_deref(),
            incremental_archives: incremental_archives.as_deref(),
            accounts,
        };
        let mut places = own.places();
        let Some(directory) = &self.directory else { return places };
        let one = [
            &mut places.ledger,
            &mut places.snapshots,
            &mut places.full_archives,
            &mut places.incremental_archives,
        ];
        for path in one.into_iter().chain(&mut places.accounts) {
            *path = directory.join(&path);
        }
        places
    }
}

impl OwnPlaces<'_> {
    /// Returns these directories, and for those that are missing the validator's defaults.
    pub fn places(&self) -> Places {
        let mut places = Places::new(self.ledger.unwrap_or(Path::new(LEDGER)));
        if let Some(snapshots) = self.snapshots {
            snapshots.clone_into(&mut places.full_archives);
            snapshots.clone_into(&mut places.incremental_archives);
            snapshots.clone_into(&mut places.snapshots);
        }
        if let Some(full) = self.full_archives {
            full.clone_into(&mut places.full_archives);
        }
        if let Some(incremental) = self.incremental_archives {
            incremental.clone_into(&mut places.incremental_archives);
        }
        if !self.accounts.is_empty() {
            self.accounts.clone_into(&mut places.accounts);
        }
        places
    }

    /// Returns the flags without which a validator's directories are not known: a wrong guess clears
    /// the storages of a state and leaves its mark, and a validator does not recover from that.
    pub fn missing(&self) -> Vec<&'static str> {
        let given = [
            ("--ledger", self.ledger.is_some()),
            ("--snapshots", self.snapshots.is_some()),
            ("--accounts", !self.accounts.is_empty()),
        ];
        given.iter().filter(|(_, given)| !given).map(|(flag, _)| *flag).collect()
    }
}

/// What is known of a validator's directories: flags of this program, and command lines of
/// validators.
#[derive(Clone, Debug)]
pub struct Told<'a> {
    /// Flags of this program.
    pub own: OwnPlaces<'a>,
    /// Command lines of the validator.
    pub lines: Vec<Line>,
}

impl Told<'_> {
    /// Returns the directories. Refuses sources that differ, with both values. Two names of one
    /// directory do not differ.
    pub fn places(&self) -> Result<Places, RequestError> {
        let Some((first, others)) = self.lines.split_first() else {
            return Ok(self.own.places());
        };
        let places = first.places();
        for other in others {
            let differing = flags(&other.places());
            agree(&first.source, &flags(&places), &other.source, &differing)?;
        }
        let given: Vec<_> = [
            ("--ledger", self.own.ledger),
            ("--snapshots", self.own.snapshots),
            ("--full-snapshot-archive-path", self.own.full_archives),
            ("--incremental-snapshot-archive-path", self.own.incremental_archives),
        ]
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, vec![path?.to_owned()])))
        .chain((!self.own.accounts.is_empty()).then(|| ("--accounts", self.own.accounts.to_vec())))
        .collect();
        agree("unsnap's own flag", &given, &first.source, &flags(&places))?;
        Ok(places)
    }

    /// Returns what is expected of the cluster: by the last command line, which is that of the validator
    /// to be started, if one is.
    pub fn cluster(&self) -> ExpectedCluster {
        self.lines.last().map(|line| line.arguments.cluster.clone()).unwrap_or_default()
    }
}

type Flags = Vec<(&'static str, Vec<PathBuf>)>;

fn flags(places: &Places) -> Flags {
    vec![
        ("--ledger", vec![places.ledger.clone()]),
        ("--snapshots", vec![places.snapshots.clone()]),
        ("--full-snapshot-archive-path", vec![places.full_archives.clone()]),
        ("--incremental-snapshot-archive-path", vec![places.incremental_archives.clone()]),
        ("--accounts", places.accounts.clone()),
    ]
}

/// Refuses flags that two sources give with different values. Flags that one does not give agree.
fn agree(one: &str, ones: &Flags, other: &str, others: &Flags) -> Result<(), RequestError> {
    for (flag, values) in ones {
        let Some((_, theirs)) = others.iter().find(|(name, _)| name == flag) else { continue };
        if same(values, theirs) {
            continue;
        }
        let shown = |values: &[PathBuf]| {
            values.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",")
        };
        return Err(RequestError(format!(
            "{flag} is given twice and differs: {} by {one}, {} by {other}",
            shown(values),
            shown(theirs)
        )));
    }
    Ok(())
}

/// Returns whether two lists name the same directories, in any order.
fn same(ones: &[PathBuf], others: &[PathBuf]) -> bool {
    let settled = |paths: &[PathBuf]| {
        let mut paths: Vec<PathBuf> = paths
            .iter()
            .map(|path| path.canonicalize().or_else(|_| std::path::absolute(path)))
            .map(Result::unwrap_or_default)
            .collect();
        paths.sort();
        paths
    };
    settled(ones) == settled(others)
}

/// Refuses directories that do not exist. A validator makes them, but for unsnap a missing one is
/// more likely a mistake, and what it would prepare there is prepared in vain. Only the validator's
/// default accounts path, `accounts` in the ledger, may be missing.
pub fn refuse_missing(places: &Places) -> Result<(), RequestError> {
    let default = places.ledger.join("accounts");
    for (flag, paths) in flags(places) {
        for path in paths.iter().filter(|path| flag != "--accounts" || **path != default) {
            let reason = match path.metadata() {
                Ok(metadata) if metadata.is_dir() => continue,
                Ok(_) => "is not a directory",
                Err(error) if error.kind() == ErrorKind::NotFound => "does not exist",
                // Preparing will fail with it, and say more.
                Err(_) => continue,
            };
            return Err(RequestError(format!("{} ({flag}) {reason}", path.display())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, fs, os::unix::fs::symlink};

    use super::*;

    fn line(source: &str, arguments: &str, directory: Option<&Path>) -> Line {
        let words: Vec<OsString> = arguments.split_whitespace().map(OsString::from).collect();
        let directory = directory.map(Path::to_owned);
        Line { source: source.to_owned(), arguments: ValidatorArgs::parse(&words), directory }
    }

    fn refused(own: OwnPlaces<'_>, lines: Vec<Line>) -> String {
        Told { own, lines }.places().unwrap_err().0
    }

    #[test]
    fn a_validators_directories_are_those_of_its_command_line() {
        let of = |arguments| line("it", arguments, Some(Path::new("/home/sol"))).places();
        assert_eq!(of(""), Places::new("/home/sol/ledger"));
        let places =
            of("-l /l --snapshots s --accounts a,/b --incremental-snapshot-archive-path i");
        assert_eq!(places.ledger, Path::new("/l"));
        assert_eq!(places.snapshots, Path::new("/home/sol/s"));
        assert_eq!(places.full_archives, Path::new("/home/sol/s"));
        assert_eq!(places.incremental_archives, Path::new("/home/sol/i"));
        assert_eq!(places.accounts, [Path::new("/home/sol/a"), Path::new("/b")]);
    }

    #[test]
    fn whatever_is_given_twice_and_differs_is_refused_with_both_values() {
        let own = OwnPlaces { ledger: Some(Path::new("/o")), ..OwnPlaces::default() };
        let error = refused(own, vec![line("process 7", "-l /l", None)]);
        assert_eq!(
            error,
            "--ledger is given twice and differs: /o by unsnap's own flag, /l by process 7"
        );
        // A default is a value as well: the validator will use it.
        let own = OwnPlaces { snapshots: Some(Path::new("/s")), ..OwnPlaces::default() };
        let error = refused(own, vec![line("process 7", "-l /l", None)]);
        assert!(error.contains("/s by unsnap's own flag, /l by process 7"), "{error}");
        let accounts = [PathBuf::from("/a")];
        let own = OwnPlaces { accounts: &accounts, ..OwnPlaces::default() };
        let error = refused(own, vec![line("process 7", "-l /l --accounts /a,/b", None)]);
        assert!(error.contains("/a by unsnap's own flag, /a,/b by process 7"), "{error}");
        let lines = vec![
            line("the unit x", "-l /l", None),
            line("process 7", "-l /l --snapshots /s", None),
        ];
        let error = refused(OwnPlaces::default(), lines);
        assert!(error.contains("/l by process 7") || error.contains("/s by"), "{error}");
    }

    #[test]
    fn two_names_of_one_directory_do_not_differ() {
        let scratch = tempfile::tempdir().unwrap();
        let (ledger, link) = (scratch.path().join("ledger"), scratch.path().join("link"));
        fs::create_dir(&ledger).unwrap();
        symlink(&ledger, &link).unwrap();
        let accounts = [PathBuf::from("/b"), PathBuf::from("/a")];
        let own = OwnPlaces { ledger: Some(&link), accounts: &accounts, ..OwnPlaces::default() };
        let lines = vec![line("it", "--ledger ledger --accounts /a,/b", Some(scratch.path()))];
        let places = Told { own, lines }.places().unwrap();
        assert_eq!(places.ledger, ledger);
    }

    #[test]
    fn only_the_default_accounts_path_may_be_missing() {
        let scratch = tempfile::tempdir().unwrap();
        let places = Places::new(scratch.path());
        refuse_missing(&places).unwrap();
        let missing = scratch.path().join("acounts");
        let wrong = Places { accounts: vec![missing.clone()], ..places.clone() };
        let error = refuse_missing(&wrong).unwrap_err().0;
        assert_eq!(error, format!("{} (--accounts) does not exist", missing.display()));
        let wrong = Places { snapshots: missing.clone(), ..places.clone() };
        assert!(refuse_missing(&wrong).unwrap_err().0.contains("(--snapshots) does not exist"));
        fs::write(&missing, "").unwrap();
        let wrong = Places { full_archives: missing, ..places };
        assert!(refuse_missing(&wrong).unwrap_err().0.contains("is not a directory"));
    }
}
