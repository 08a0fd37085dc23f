//! Recognition of `agave-validator` in a command line.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// Names of the validator's program: of Agave, and of its predecessor.
const PROGRAMS: [&str; 2] = ["agave-validator", "solana-validator"];

/// Programs that do nothing but execute the command line behind their own options.
const WRAPPERS: [&str; 12] = [
    "chrt", "env", "ionice", "nice", "nohup", "numactl", "prlimit", "setarch", "setpriv", "stdbuf",
    "taskset", "unshare",
];

/// Returns whether a path names the validator's program: `agave-validator` or `solana-validator`,
/// also with a version (`agave-validator-4.2.2`, `agave-validator-v4.2.2`). Does not look at the file.
pub fn names_validator(program: &Path) -> bool {
    let Some(name) = program.file_name().and_then(OsStr::to_str) else { return false };
    PROGRAMS.iter().any(|known| match name.strip_prefix(known) {
        Some("") => true,
        Some(rest) => {
            let version = rest.strip_prefix('-').map(|rest| rest.strip_prefix('v').unwrap_or(rest));
            version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
        }
        None => false,
    })
}

/// Returns the index of the validator's program in a command line, if it executes one: the first
/// word, or a later one behind a wrapper such as `numactl`. Links are resolved: a script under the
/// name of the validator counts as one, a link to a script does not.
pub fn validator_in(words: &[OsString]) -> Option<usize> {
    let program = words.first()?;
    if names_validator(&resolved(program)) {
        return Some(0);
    }
    let wraps = |program: &Path| {
        let name = program.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| WRAPPERS.contains(&name))
    };
    if !wraps(Path::new(program)) {
        return None;
    }
    let mut behind_flag = false;
    for (index, word) in words.iter().enumerate().skip(1) {
        let bytes = word.as_encoded_bytes();
        let is_flag = bytes.starts_with(b"-");
        // A variable (`env A=b`), a number or a list of processors.
        let is_setting = bytes.contains(&b'=') || bytes.first().is_some_and(u8::is_ascii_digit);
        if !is_flag && !is_setting {
            let program = resolved(word);
            if names_validator(&program) {
                return Some(index);
            }
            // It is the program that the wrapper executes, unless it is the value of a flag.
            if !behind_flag || program.is_file() {
                return None;
            }
        }
        behind_flag = is_flag;
    }
    None
}

/// Returns the file that a word of a command line would execute, without links. Returns the word
/// itself if there is no such file.
fn resolved(program: &OsStr) -> PathBuf {
    let path = Path::new(program);
    let found = if program.as_encoded_bytes().contains(&b'/') {
        path.canonicalize().ok()
    } else {
        let directories = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&directories).find_map(|directory| {
            directory.join(path).canonicalize().ok().filter(|file| file.is_file())
        })
    };
    found.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn position(line: &str) -> Option<usize> {
        validator_in(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_validator_is_known_by_name() {
        for name in [
            "agave-validator",
            "/x/solana-validator",
            "agave-validator-4.2.2",
            "./agave-validator-v4",
        ] {
            assert!(names_validator(Path::new(name)), "{name}");
        }
        for name in [
            "validator",
            "agave-validator.sh",
            "agave-validator-wrapper",
            "my-agave-validator",
            "",
            "/",
        ] {
            assert!(!names_validator(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn programs_that_only_execute_another_are_seen_through() {
        assert_eq!(position("agave-validator -l x"), Some(0));
        assert_eq!(position("numactl --interleave=all agave-validator -l x"), Some(2));
        assert_eq!(position("env A=/opt/agave-validator /opt/agave-validator -l x"), Some(2));
        assert_eq!(position("/usr/bin/taskset -c 0 agave-validator"), Some(3));
        assert_eq!(position("start.sh agave-validator -l x"), None);
        assert_eq!(position("sh -c agave-validator"), None);
        assert_eq!(position("env A=agave-validator ./start.sh"), None);
        assert_eq!(position("numactl -m all agave-validator"), Some(3));
        assert_eq!(position("taskset -c 0 start.sh agave-validator -l x"), None);
        assert_eq!(position("env -i /bin/sh agave-validator -l x"), None);
    }

    #[test]
    fn a_link_counts_as_what_it_leads_to() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        fs::write(path("agave-validator-v4.2.2"), "").unwrap();
        fs::write(path("start.sh"), "").unwrap();
        symlink("agave-validator-v4.2.2", path("validator")).unwrap();
        symlink("start.sh", path("agave-validator")).unwrap();
        assert_eq!(validator_in(&[path("validator").into()]), Some(0));
        assert_eq!(validator_in(&[path("agave-validator").into()]), None);
    }
}
