//! The command line of a running validator.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::Read,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use super::{Line, Purpose, ValidatorArgs, names_validator};
use crate::settings::RequestError;

/// Longest command line that is read. The kernel's limit on one argument is 128 KiB, a validator's
/// command line has some 5 KiB. A guess.
const COMMAND_BYTES_MAX: u64 = 1 << 20;

/// Most processes that are looked at. The kernel's default limit (`kernel.pid_max`) is 4,194,304; a
/// machine of a validator has some hundreds. A guess.
const PROCESSES_MAX: usize = 100_000;

/// Shells that execute a script, which is then their first argument.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// The processes of this machine.
pub struct Processes {
    /// Where procfs is mounted.
    root: PathBuf,
    /// The parent of each.
    parents: BTreeMap<u32, u32>,
}

impl Processes {
    /// Lists the running processes.
    pub fn now() -> Result<Self, RequestError> {
        Self::below(Path::new("/proc"))
    }

    fn below(root: &Path) -> Result<Self, RequestError> {
        let entries = fs::read_dir(root)
            .map_err(|error| RequestError(format!("cannot read {}: {error}", root.display())))?;
        let processes =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let parents = processes
            .take(PROCESSES_MAX)
            .filter_map(|process: u32| Some((process, parent_in(&read(root, process, "stat")?)?)))
            .collect();
        Ok(Self { root: root.to_owned(), parents })
    }

    /// Returns the command line of a process if it is a validator that loads a ledger, else that of
    /// the only validator among its descendants. Several are accepted if they use the same
    /// directories.
    pub fn validator(&self, process: u32) -> Result<Line, RequestError> {
        if !self.parents.contains_key(&process) {
            return Err(RequestError(format!("there is no process {process}")));
        }
        self.validator_among(&[process])?.ok_or_else(|| {
            let name = read(&self.root, process, "comm").unwrap_or_default();
            RequestError(format!(
                "process {process} ({}) is not agave-validator and has not started one",
                String::from_utf8_lossy(name.trim_ascii())
            ))
        })
    }

    /// Returns the same for several processes; `None` if no validator is among them and their
    /// descendants.
    pub fn validator_among(&self, processes: &[u32]) -> Result<Option<Line>, RequestError> {
        let found: Vec<Line> = self
            .parents
            .keys()
            .filter(|process| self.descends(**process, processes))
            .filter_map(|process| self.line(*process))
            .collect();
        let Some(first) = found.first() else { return Ok(None) };
        if let Some(other) = found.iter().find(|line| line.places() != first.places()) {
            let (one, other) = (&first.source, &other.source);
            return Err(RequestError(format!(
                "{one} and {other} are validators with different directories: name one of them"
            )));
        }
        Ok(Some(first.clone()))
    }

    fn descends(&self, mut process: u32, from: &[u32]) -> bool {
        // No chain of parents is longer than the list.
        for _ in 0..self.parents.len() {
            if from.contains(&process) {
                return true;
            }
            let Some(parent) = self.parents.get(&process) else { return false };
            process = *parent;
        }
        false
    }

    /// Returns the command line of a process, if it is a validator that loads a ledger.
    fn line(&self, process: u32) -> Option<Line> {
        let bytes = read(&self.root, process, "cmdline")?;
        let mut words: Vec<OsString> =
            bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
        // Each word ends with a zero.
        words.pop();
        let executable = fs::read_link(self.root.join(process.to_string()).join("exe")).ok();
        let behind = behind_program(&words, executable.as_deref())?;
        let arguments = ValidatorArgs::parse(&words[behind..]);
        if arguments.purpose != Purpose::Start {
            return None;
        }
        // If this user may not see where the link leads, a relative path leads nowhere.
        let cwd = self.root.join(process.to_string()).join("cwd");
        let directory = Some(fs::read_link(&cwd).unwrap_or(cwd));
        Some(Line { source: format!("process {process}"), arguments, directory })
    }
}

/// Returns where the arguments of a validator begin in its command line; `None` if it is none.
fn behind_program(words: &[OsString], executable: Option<&Path>) -> Option<usize> {
    let program = Path::new(words.first()?);
    // While a validator runs, its file may be replaced.
    let executable = executable.map(|path| {
        let bytes = path.as_os_str().as_bytes();
        PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)))
    });
    if executable.as_deref().is_some_and(names_validator) || names_validator(program) {
        return Some(1);
    }
    let is_shell = |path: &Path| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| SHELLS.contains(&name))
    };
    // A script under the name of the validator.
    let script = words.get(1).map(Path::new).filter(|script| script.is_absolute());
    (is_shell(program) && script.is_some_and(names_validator)).then_some(2)
}

fn read(root: &Path, process: u32, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(root.join(process.to_string()).join(name)).ok()?;
    file.take(COMMAND_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the parent in `/proc/<pid>/stat`: `1 (name) S 0 ...`. A name may hold parentheses.
fn parent_in(stat: &[u8]) -> Option<u32> {
    let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&stat[behind_name..]).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use unsnap_fastboot::Places;

    use super::*;

    /// A file system like procfs.
    struct Fake(tempfile::TempDir);

    impl Fake {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn add(&self, process: u32, parent: u32, executable: &str, line: &str) -> &Self {
            let path = self.0.path().join(process.to_string());
            fs::create_dir(&path).unwrap();
            let words: String = line.split(' ').flat_map(|word| [word, "\0"]).collect();
            fs::write(path.join("cmdline"), words).unwrap();
            fs::write(path.join("stat"), format!("{process} (a) (b) S {parent} 1 1 0")).unwrap();
            fs::write(path.join("comm"), "a) (b\n").unwrap();
            symlink(executable, path.join("exe")).unwrap();
            symlink("/home/sol", path.join("cwd")).unwrap();
            self
        }

        fn validator(&self, process: u32) -> Result<Line, RequestError> {
            Processes::below(self.0.path()).unwrap().validator(process)
        }
    }

    #[test]
    fn the_validators_own_command_line_is_read() {
        let fake = Fake::new();
        fake.add(7, 1, "/opt/agave-validator (deleted)", "v --ledger /l --accounts a,b");
        let line = fake.validator(7).unwrap();
        assert_eq!(line.source, "process 7");
        let accounts = ["/home/sol/a", "/home/sol/b"].map(PathBuf::from).to_vec();
        assert_eq!(line.places(), Places { accounts, ..Places::new("/l") });
    }

    #[test]
    fn a_scripts_child_is_found() {
        let fake = Fake::new();
        fake.add(5, 1, "/bin/bash", "/bin/bash /home/sol/start.sh")
            .add(6, 5, "/usr/bin/tee", "tee log")
            .add(7, 6, "/bin/sh", "/bin/sh /home/sol/bin/agave-validator -l /l")
            .add(8, 7, "/opt/agave-validator", "agave-validator -l /l exit")
            .add(9, 1, "/opt/agave-validator", "agave-validator -l /other");
        assert_eq!(fake.validator(5).unwrap().places(), Places::new("/l"));
        assert_eq!(fake.validator(9).unwrap().places(), Places::new("/other"));
        let error = fake.validator(6).unwrap();
        assert_eq!(error.source, "process 7");
    }

    #[test]
    fn nothing_is_guessed_from_other_processes() {
        let fake = Fake::new();
        fake.add(5, 1, "/bin/bash", "/bin/bash -c agave-validator")
            .add(6, 5, "/usr/bin/vim", "vim /opt/agave-validator")
            .add(7, 5, "/opt/agave-validator", "agave-validator -l /l monitor");
        let error = fake.validator(5).unwrap_err().0;
        assert_eq!(error, "process 5 (a) (b) is not agave-validator and has not started one");
        assert_eq!(fake.validator(4).unwrap_err().0, "there is no process 4");
    }

    #[test]
    fn two_validators_with_different_directories_are_refused() {
        let fake = Fake::new();
        fake.add(5, 1, "/bin/bash", "/bin/bash start.sh")
            .add(6, 5, "/opt/agave-validator", "agave-validator -l /l")
            .add(7, 5, "/opt/agave-validator", "agave-validator --ledger=/l");
        fake.validator(5).unwrap();
        fake.add(8, 5, "/opt/agave-validator", "agave-validator -l /other");
        let error = fake.validator(5).unwrap_err().0;
        assert!(
            error.starts_with("process 6 and process 8 are validators with different"),
            "{error}"
        );
    }
}
