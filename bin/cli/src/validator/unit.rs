//! The command line of a validator's systemd unit.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{self, Command},
    time::Duration,
};

use super::{Line, Processes, Purpose, ValidatorArgs, names_validator, validator_in};
use crate::{child::output_within, settings::RequestError};

/// Longest wait for systemd's answer. A guess: it takes milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Names of unsnap's front end, which stands in front of a validator's command line: as built, and as
/// installed by the Debian package.
const FRONT_ENDS: [&str; 2] = ["validator", "unsnap-validator"];

/// A unit, as systemd knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    name: String,
    is_loaded: bool,
    main_process: Option<u32>,
    control_group: String,
    working_directory: Option<PathBuf>,
    /// The arguments of each command of `ExecStart=`, joined by spaces, with the program's name.
    commands: Vec<String>,
}

impl Unit {
    /// Asks systemd for a unit: `systemctl show`.
    pub fn ask(name: &str) -> Result<Self, RequestError> {
        let mut command = Command::new("systemctl");
        command.args(["show", "--no-pager"]);
        for property in ["LoadState", "MainPID", "ControlGroup", "WorkingDirectory", "ExecStart"] {
            command.args(["--property", property]);
        }
        command.args(["--", name]);
        let refused = |reason: String| {
            RequestError(format!("systemctl cannot show the unit {name}: {reason}"))
        };
        let (status, output) = output_within(&mut command, ANSWER_WITHIN)
            .map_err(|error| refused(error.to_string()))?;
        if !status.success() {
            return Err(refused(status.to_string()));
        }
        Ok(Self::parse(name, &String::from_utf8_lossy(&output)))
    }

    fn parse(name: &str, shown: &str) -> Self {
        let mut unit = Self { name: name.to_owned(), ..Self::default() };
        for (property, value) in shown.lines().filter_map(|line| line.split_once('=')) {
            match property {
                "LoadState" => unit.is_loaded = value == "loaded",
                "MainPID" => unit.main_process = value.parse().ok().filter(|process| *process > 0),
                "ControlGroup" => value.clone_into(&mut unit.control_group),
                // "!" in front: a missing directory is no error. "~": the user's home.
                "WorkingDirectory" => {
                    let path = Path::new(value.trim_start_matches(['!', '-']));
                    unit.working_directory = path.is_absolute().then(|| path.to_owned());
                }
                "ExecStart" => unit.commands.extend(arguments_in(value).map(str::to_owned)),
                _ => {}
            }
        }
        unit
    }

    /// Returns the validator's command line: that of the unit's running validator, which may be the
    /// child of a script; if none is running, that of `ExecStart=`.
    pub fn validator(&self) -> Result<Line, RequestError> {
        let Self { name, .. } = self;
        if !self.is_loaded {
            return Err(RequestError(format!("there is no unit {name}")));
        }
        let mut processes = self.processes();
        processes.extend(self.main_process);
        // This process may be part of the unit.
        processes.retain(|process| *process != process::id());
        if !processes.is_empty()
            && let Some(line) = Processes::now()?.validator_among(&processes)?
        {
            let source = format!("the unit {name} ({})", line.source);
            return Ok(Line { source, ..line });
        }
        self.configured()
    }

    /// Returns the command line in `ExecStart=`.
    fn configured(&self) -> Result<Line, RequestError> {
        let Self { name, .. } = self;
        let commands: Vec<Vec<OsString>> = self
            .commands
            .iter()
            .map(|command| command.split_whitespace().map(OsString::from).collect())
            .collect();
        let found =
            commands.iter().find_map(|words| Some((words, validator_behind_front_end(words)?)));
        let Some((words, at)) = found else {
            return Err(RequestError(format!(
                "the unit {name} is not running agave-validator, and its ExecStart= does not name it: \
                 a script's directories are known while it runs"
            )));
        };
        let arguments = ValidatorArgs::parse(&words[at + 1..]);
        let line = Line {
            source: format!("the unit {name} (its ExecStart=)"),
            arguments,
            // systemd's default for system services.
            directory: Some(self.working_directory.clone().unwrap_or_else(|| "/".into())),
        };
        let is_plain = |path: &Path| !path.to_string_lossy().contains(['$', '%', '"', '\'', '\\']);
        let places = line.places();
        let paths = [
            &places.ledger,
            &places.snapshots,
            &places.full_archives,
            &places.incremental_archives,
        ];
        let plain = paths.into_iter().chain(&places.accounts).all(|path| is_plain(path));
        if !plain || line.arguments.has_stray_words || line.arguments.purpose != Purpose::Start {
            return Err(RequestError(format!(
                "the unit {name} is not running, and the directories in its ExecStart= cannot be told \
                 for certain: they hold variables, quotes or spaces"
            )));
        }
        Ok(line)
    }

    /// Returns the processes of the unit's control group; none if it cannot be read.
    fn processes(&self) -> Vec<u32> {
        let group = self.control_group.trim_start_matches('/');
        if group.is_empty() {
            return Vec::new();
        }
        let listed = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"]
            .iter()
            .map(|root| Path::new(root).join(group).join("cgroup.procs"))
            .find_map(|path| fs::read_to_string(path).ok());
        listed.unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
    }
}

/// Returns the arguments in a line of `systemctl show`, which joins them by spaces:
/// `{ path=/bin/x ; argv[]=/bin/x --flag ; ignore_errors=no ; ... }`.
fn arguments_in(shown: &str) -> Option<&str> {
    let (_, behind) = shown.split_once("argv[]=")?;
    behind.split_once(" ; ignore_errors=").map(|(arguments, _)| arguments)
}

/// Returns the index of the validator's program in a command, if it executes one, itself or through
/// unsnap's front end.
fn validator_behind_front_end(words: &[OsString]) -> Option<usize> {
    let name = Path::new(words.first()?).file_name()?.to_str()?;
    if !FRONT_ENDS.contains(&name) {
        return validator_in(words);
    }
    words.iter().position(|word| {
        let bytes = word.as_encoded_bytes();
        !bytes.starts_with(b"-") && !bytes.contains(&b'=') && names_validator(Path::new(word))
    })
}

#[cfg(test)]
mod tests {
    use unsnap_fastboot::Places;

    use super::*;

    fn unit(exec_start: &str) -> Unit {
        let shown = format!(
            "LoadState=loaded\nMainPID=0\nControlGroup=\nWorkingDirectory=/home/sol\n\
             ExecStart={{ path=/bin/x ; argv[]={exec_start} ; ignore_errors=no ; start_time=[n/a] ; \
             stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }}\n"
        );
        Unit::parse("sol.service", &shown)
    }

    #[test]
    fn what_systemd_shows_is_read() {
        let shown = "MainPID=77\nLoadState=loaded\nControlGroup=/system.slice/sol.service\n\
                     WorkingDirectory=!/mnt\nOther=x\n";
        let expected = Unit {
            name: "a".to_owned(),
            is_loaded: true,
            main_process: Some(77),
            control_group: "/system.slice/sol.service".to_owned(),
            working_directory: Some("/mnt".into()),
            commands: Vec::new(),
        };
        assert_eq!(Unit::parse("a", shown), expected);
        let error = Unit::parse("b.service", "LoadState=not-found\n").validator().unwrap_err().0;
        assert_eq!(error, "there is no unit b.service");
    }

    #[test]
    fn a_unit_that_is_not_running_is_read_from_its_command() {
        for command in [
            "/opt/agave-validator --identity id.json -l /l --accounts a",
            "/usr/bin/numactl --interleave=all /opt/agave-validator -l /l --accounts a",
            "/usr/bin/unsnap-validator --deadline 10m /opt/agave-validator -l /l --accounts a",
            "/usr/bin/validator --from-unit sol.service -- agave-validator -l /l --accounts a",
        ] {
            let line = unit(command).validator().unwrap();
            let accounts = vec![PathBuf::from("/home/sol/a")];
            assert_eq!(line.places(), Places { accounts, ..Places::new("/l") }, "{command}");
            assert_eq!(line.source, "the unit sol.service (its ExecStart=)");
        }
    }

    #[test]
    fn nothing_is_guessed_from_a_unit_whose_command_is_not_certain() {
        for (command, told) in [
            ("/home/sol/start.sh -l /l", "does not name it"),
            ("/bin/bash -c exec agave-validator -l /l", "does not name it"),
            (
                "/usr/bin/validator --ledger /l --accounts /a -- /home/sol/start.sh",
                "does not name it",
            ),
            ("/opt/agave-validator -l ${LEDGER}", "cannot be told for certain"),
            ("/opt/agave-validator -l /l --accounts \"/mnt/a", "cannot be told for certain"),
            ("/opt/agave-validator -l /mnt/my ledger", "cannot be told for certain"),
            ("/opt/agave-validator -l /l exit", "cannot be told for certain"),
        ] {
            let error = unit(command).validator().unwrap_err().0;
            assert!(error.contains(told), "{command}: {error}");
        }
    }
}
