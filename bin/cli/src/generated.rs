//! Manual pages and completions in `deploy/`, which are generated from a program's command line and
//! checked in. The tests of the programs compare them.

use std::{fs, io, path::Path};

use clap::{Command, ValueEnum};

use crate::{completions::Shell, manual::Manual};

/// Environment variable: with the value 1, the files are written instead of compared.
const BLESS: &str = "UNSNAP_BLESS";

/// A file's name and its expected content.
type File = (String, String);

/// Compares the checked-in files of a program with its current command line: in `deploy`, the pages
/// in `man/man<SECTION>`, where `man -M` finds them, and a script for each shell in `completions`.
/// With `UNSNAP_BLESS=1` it writes them.
///
/// The error names a file that is out of date, and says how to update it.
pub fn hold(deploy: &Path, command: &Command, manual: &Manual) -> Result<(), String> {
    let pages = manual.pages(command.clone()).into_iter().map(|page| (page.file_name, page.text));
    let directory = deploy.join("man").join(format!("man{}", manual.section));
    compare_directory(&directory, manual.program, &pages.collect::<Vec<_>>())?;
    for shell in Shell::ALL {
        let name = shell.file_name(manual.program);
        let script = shell.script(command.clone(), manual.program);
        let directory = shell.to_possible_value().map(|shell| shell.get_name().to_owned());
        let directory = deploy.join("completions").join(directory.unwrap_or_default());
        compare_directory(&directory, &name.clone(), &[(name, script)])?;
    }
    Ok(())
}

/// Compares the files of a directory whose names begin with `prefix`: there must be no others.
fn compare_directory(directory: &Path, prefix: &str, files: &[File]) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", directory.display());
    let bless = std::env::var_os(BLESS).is_some_and(|value| value == "1");
    if bless {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    for entry in fs::read_dir(directory).map_err(failed)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).map_err(failed)?;
        let name = name.to_string_lossy();
        if !name.starts_with(prefix) || files.iter().any(|(wanted, _)| *wanted == name) {
            continue;
        }
        if !bless {
            return Err(stale(&path, "is no longer generated"));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    for (name, text) in files {
        let path = directory.join(name);
        if bless {
            fs::write(&path, text).map_err(failed)?;
        } else if fs::read_to_string(&path).ok().as_ref() != Some(text) {
            return Err(stale(&path, "is out of date"));
        }
    }
    Ok(())
}

fn stale(path: &Path, how: &str) -> String {
    format!("{} {how}: run this test with {BLESS}=1 to update it", path.display())
}
