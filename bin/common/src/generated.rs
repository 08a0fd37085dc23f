//! What is generated from a program's command line and checked in below `deploy/`: manual pages and
//! completions. For the tests of the programs.

use std::{fs, io, path::Path};

use clap::{Command, ValueEnum};

use crate::{completions::Shell, manual::Manual};

/// Has the files written instead of compared.
const BLESS: &str = "UNSNAP_BLESS";

/// A file's name, and what it is to hold.
type File = (String, String);

/// Holds what is checked in of a program to what its command line is now: in `deploy`, the pages in
/// `man/man<SECTION>`, where `man -M` finds them, and a script for each shell in `completions`. With `UNSNAP_BLESS=1` they are written.
///
/// The error names a file that is not as it should be, and says what to do.
pub fn hold(deploy: &Path, command: &Command, manual: &Manual) -> Result<(), String> {
    let pages = manual.pages(command.clone()).into_iter().map(|page| (page.file_name, page.text));
    let directory = deploy.join("man").join(format!("man{}", manual.section));
    hold_directory(&directory, manual.program, &pages.collect::<Vec<_>>())?;
    for shell in Shell::ALL {
        let name = shell.file_name(manual.program);
        let script = shell.script(command.clone(), manual.program);
        let directory = shell.to_possible_value().map(|shell| shell.get_name().to_owned());
        let directory = deploy.join("completions").join(directory.unwrap_or_default());
        hold_directory(&directory, &name.clone(), &[(name, script)])?;
    }
    Ok(())
}

/// Files of the directory whose names begin with `prefix` must be these, and no others.
fn hold_directory(directory: &Path, prefix: &str, files: &[File]) -> Result<(), String> {
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
            return Err(stale(&path, "is not generated any more"));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    for (name, text) in files {
        let path = directory.join(name);
        if bless {
            fs::write(&path, text).map_err(failed)?;
        } else if fs::read_to_string(&path).ok().as_ref() != Some(text) {
            return Err(stale(&path, "is not what is generated now"));
        }
    }
    Ok(())
}

fn stale(path: &Path, how: &str) -> String {
    format!("{} {how}: {BLESS}=1 has this test write it", path.display())
}
